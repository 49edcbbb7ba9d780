//! The inputs of a comparison.

use std::path::PathBuf;

use anyhow::bail;
use pyrograph_analyze::Run;
use pyrograph_format::{Detail, FoldedOptions, Options};
use pyrograph_profile::{LabelOptions, Profile, Tree};

use super::Args;
use crate::found;
use crate::reading::ReadArgs;
use crate::streams::inputs;

/// The inputs: a profile with its tree and name for each run.
pub(super) struct Sides {
    before: Vec<Input>,
    /// Empty if the only input holds both columns.
    after: Vec<Input>,
}

struct Input {
    name: String,
    profile: Profile,
    tree: Tree,
}

impl Sides {
    pub fn read(args: &Args) -> anyhow::Result<Self> {
        let found = match args.files.is_empty() && args.before.is_empty() {
            true => Vec::from(found::two()?),
            false => args.files.clone(),
        };
        let (before, after) = match &found[..] {
            [] => (&args.before[..], &args.after[..]),
            [both] => (std::slice::from_ref(both), &[][..]),
            [before, after, ..] => (std::slice::from_ref(before), std::slice::from_ref(after)),
        };
        let read = |paths: &[PathBuf]| {
            paths.iter().map(|path| Input::read(&args.reading, path)).collect::<Result<Vec<_>, _>>()
        };
        let mut sides = Self { before: read(before)?, after: read(after)? };
        if sides.after.is_empty() {
            let both = &mut sides.before[0];
            if !both.profile.is_comparison() {
                if let Some(after) = found::after(&found[0]) {
                    sides.after = read(&[after])?;
                    return Ok(sides);
                }
                bail!(
                    "{0} is one profile: name another to compare it with: pyrograph diff BEFORE {0}",
                    both.name
                );
            }
            for of in both.profile.value_types.iter_mut().chain(&mut both.tree.value_types) {
                let name = if of.is_unnamed() { "value" } else { "samples" };
                name.clone_into(&mut of.name);
            }
        } else if let Some(both) =
            sides.before.iter().chain(&sides.after).find(|input| input.profile.is_comparison())
        {
            bail!("{} has two counts a stack: it is a comparison already", both.name);
        }
        Ok(sides)
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

    /// The files of each side.
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
    fn read(reading: &ReadArgs, path: &PathBuf) -> anyhow::Result<Self> {
        // The noise of a value depends on the number of its samples.
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
