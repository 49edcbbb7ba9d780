//! Inputs of a comparison.

use std::path::{Path, PathBuf};

use anyhow::bail;
use pyrograph_analyze::{Filter, FilterError, Run, only_frames};
use pyrograph_format::{Detail, FoldedOptions, Options};
use pyrograph_profile::{Frame, LabelOptions, Profile, Tree};
use pyrograph_tui::Code;

use super::Args;
use crate::found;
use crate::reading::ReadArgs;
use crate::streams::inputs;

/// Inputs of a comparison: a profile with its tree and name for each run.
pub struct Sides {
    before: Vec<Input>,
    /// Empty if a single input contains both columns.
    after: Vec<Input>,
}

struct Input {
    name: String,
    profile: Profile,
    tree: Tree,
}

impl Sides {
    pub fn read(args: &Args) -> anyhow::Result<Self> {
        if args.files.is_empty() && args.before.is_empty() {
            let [before, after] = found::two()?;
            let of = std::slice::from_ref;
            let sides = Self::of_files(&args.reading, of(&before), of(&after))?;
            sides.say_compared(&before, &after);
            return Ok(sides);
        }
        let (before, after) = match &args.files[..] {
            [] => (&args.before[..], &args.after[..]),
            [both] => (std::slice::from_ref(both), &[][..]),
            [before, after, ..] => (std::slice::from_ref(before), std::slice::from_ref(after)),
        };
        Self::of_files(&args.reading, before, after)
    }

    /// Prints which recordings were compared, if they were not all named.
    fn say_compared(&self, before: &Path, after: &Path) {
        if let ([of_before, ..], [of_after, ..]) = (&self.before[..], &self.after[..]) {
            found::say_compared((before, &of_before.profile), (after, &of_after.profile));
        }
    }

    /// Reads the runs of each side. `after` is empty if one file in `before` contains both sides.
    pub fn of_files(
        reading: &ReadArgs,
        before: &[PathBuf],
        after: &[PathBuf],
    ) -> anyhow::Result<Self> {
        let read = |paths: &[PathBuf]| {
            paths.iter().map(|path| Input::read(reading, path)).collect::<Result<Vec<_>, _>>()
        };
        let mut sides = Self { before: read(before)?, after: read(after)? };
        if sides.after.is_empty() {
            let both = &mut sides.before[0];
            if !both.profile.is_comparison() {
                if let Some((before, after)) =
                    before.first().and_then(|before| Some((before, found::after(before)?)))
                {
                    sides.after = read(std::slice::from_ref(&after))?;
                    sides.say_compared(before, &after);
                    return Ok(sides);
                }
                bail!(
                    "{0} is one profile: name another to compare it with: pyrograph diff BEFORE {0}",
                    both.name
                );
            }
            both.name_columns();
        } else if let Some(both) =
            sides.before.iter().chain(&sides.after).find(|input| input.profile.is_comparison())
        {
            bail!("{} has two counts a stack: it is a comparison already", both.name);
        }
        Ok(sides)
    }

    /// Sides of a profile that contains both.
    pub fn of_comparison(profile: Profile, name: &str) -> Self {
        let tree = Tree::new(&profile, &LabelOptions::default());
        let mut both = Input { name: name.to_owned(), profile, tree };
        both.name_columns();
        Self { before: vec![both], after: Vec::new() }
    }

    /// A copy with both sides filtered, and with the functions that `code` selects. Percentages refer to the same totals
    /// as before.
    ///
    /// # Errors
    ///
    /// If the filter leaves nothing on both sides.
    pub fn filtered(&self, filter: &Filter, code: Code) -> Result<Self, FilterError> {
        let mut empty = None;
        let mut all = 0;
        let mut side = |inputs: &[Input]| -> Result<Vec<Input>, FilterError> {
            let one = |input: &Input| {
                all += 1;
                let profile = match filter.apply(input.profile.clone()) {
                    Err(error @ FilterError::NothingLeft { .. }) => {
                        empty.get_or_insert((0, error)).0 += 1;
                        input.emptied()
                    }
                    profile => profile?,
                };
                let profile = match code {
                    Code::All => profile,
                    code => only_frames(&profile, |frame: Frame| code.shows(frame.kind)),
                };
                let tree = Tree::new(&profile, &LabelOptions::default());
                Ok(Input { name: input.name.clone(), profile, tree })
            };
            inputs.iter().map(one).collect()
        };
        let sides = Self { before: side(&self.before)?, after: side(&self.after)? };
        match empty {
            Some((count, error)) if count == all => Err(error),
            _ => Ok(sides),
        }
    }

    pub fn runs(&self) -> (Vec<Run<'_>>, Vec<Run<'_>>) {
        if self.after.is_empty() {
            let both = &self.before[0];
            return (vec![both.run(0)], vec![both.run(1)]);
        }
        let [before, after] = [&self.before, &self.after]
            .map(|side| side.iter().map(|input| input.run(input.profile.shown)).collect());
        (before, after)
    }

    /// File names of each side, for messages.
    pub fn names(&self) -> (String, String) {
        if self.after.is_empty() {
            let name = &self.before[0].name;
            return (format!("first count of {name}"), "second count".to_owned());
        }
        let names = |side: &[Input]| match side {
            [one] => one.name.clone(),
            [first, .., last] => format!("{} … {} ({} runs)", first.name, last.name, side.len()),
            [] => String::new(),
        };
        (names(&self.before), names(&self.after))
    }
}

impl Input {
    /// Gives both columns of a comparison the same name.
    fn name_columns(&mut self) {
        for of in self.profile.value_types.iter_mut().chain(&mut self.tree.value_types) {
            let name = if of.is_unnamed() { "value" } else { "samples" };
            name.clone_into(&mut of.name);
        }
    }

    /// A copy without samples, with the same totals for percentages.
    fn emptied(&self) -> Profile {
        let mut empty = Profile::new(self.profile.value_types.clone());
        empty.shown = self.profile.shown;
        empty.unfiltered =
            (0..empty.value_types.len()).map(|column| self.profile.whole(column)).collect();
        empty
    }

    fn read(reading: &ReadArgs, path: &PathBuf) -> anyhow::Result<Self> {
        // Needs each sample: the noise of a value depends on the number of its samples.
        let folded = FoldedOptions { any_order: true, ..FoldedOptions::default() };
        let options = Options { detail: Detail::Samples, folded, ..Options::default() };
        let (profile, _) = reading.read(inputs(std::slice::from_ref(path))?, options)?;
        let tree = Tree::new(&profile, &LabelOptions::default());
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        let name = if name == "-" { "standard input".to_owned() } else { name };
        Ok(Self { name, profile, tree })
    }

    fn run(&self, column: usize) -> Run<'_> {
        Run { profile: &self.profile, tree: &self.tree, column }
    }
}
