//! The filters: options that all verbs have that read profiles.

use std::ops::RangeInclusive;

use anyhow::bail;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use pyrograph_analyze::{Filter, Level, Pattern, TimeRange};
use pyrograph_format::{Detail, Options, ThreadDetail};
use pyrograph_profile::Profile;

/// Which samples are kept, and how stacks are changed.
#[derive(clap::Args)]
#[command(next_help_heading = "Filters")]
pub struct FilterArgs {
    /// Keep stacks in which a frame matches; `module:RE` matches the file that its code is in. All
    /// of several must match
    #[arg(long, value_name = "RE")]
    focus: Vec<Pattern>,

    /// Leave out stacks in which a frame matches
    #[arg(long, value_name = "RE")]
    ignore: Vec<Pattern>,

    /// Leave out frames that match; their time goes to their callers
    #[arg(long, value_name = "RE")]
    hide: Vec<Pattern>,

    /// Let stacks begin at the outermost frame that matches; leave out stacks without one
    #[arg(long, alias = "base", value_name = "RE")]
    from_frame: Vec<Pattern>,

    /// Leave out the callers of the innermost frame that matches; other stacks stay whole
    #[arg(long, value_name = "RE")]
    skip_after: Vec<Pattern>,

    /// One frame for a function that calls itself directly
    #[arg(long)]
    fold_recursion: bool,

    /// Write Java packages by their first letters: j.u.List.get
    #[arg(long, alias = "shorten-pkgs")]
    shorten_packages: bool,

    /// Keep samples of these processes; alone, tell processes apart: name-PID
    #[arg(
        long,
        value_name = "PID,…",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        value_parser = numbers
    )]
    pid: Vec<Numbers>,

    /// Keep samples of these threads; alone, tell threads apart: name-PID/TID
    #[arg(
        long,
        alias = "include-tid",
        value_name = "TID,…",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        value_parser = numbers
    )]
    tid: Vec<Numbers>,

    /// Keep samples of processes and threads of these names
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    comm: Vec<String>,

    /// Keep samples on these CPUs: 0,4-7
    #[arg(
        long,
        value_name = "CPU,…",
        value_delimiter = ',',
        value_parser = cpus
    )]
    cpu: Vec<RangeInclusive<u32>>,

    /// Keep samples of this time: seconds from the first sample (10..20, ..500ms, 1m..), or, after
    /// an @, of the recording's clock (@5312.25..@5313)
    #[arg(long, value_name = "A..B")]
    time: Option<TimeRange>,

    /// Put levels of frames at the root
    #[arg(
        long,
        value_name = "WHAT,…",
        value_parser = level(LEVELS.len()),
        value_delimiter = ','
    )]
    by: Vec<Level>,

    /// Each input under a frame of its own: the label in LABEL=FILE, or the file's name
    #[arg(long)]
    merge: bool,

    /// Percentages of what the filters left, not of the whole
    #[arg(long)]
    rescale: bool,
}

/// The levels, each with its word and what frames show. A recording has the first four.
const LEVELS: [(Level, &str, &str); 6] = [
    (Level::Process, "process", "name-PID"),
    (Level::Pool, "pool", "The thread's name, one for threads whose names differ only in numbers"),
    (Level::Thread, "thread", "name-PID/TID"),
    (Level::Cpu, "cpu", "The CPU"),
    (Level::Host, "host", "The label of the input, as in LABEL=FILE"),
    (Level::Event, "event", "The event; samples are counted then"),
];

/// Reads one of the first `count` levels.
pub fn level(count: usize) -> impl TypedValueParser<Value = Level> {
    let levels = move || LEVELS.into_iter().take(count);
    let values = levels().map(|(_, name, help)| PossibleValue::new(name).help(help));
    PossibleValuesParser::new(values).try_map(move |typed| {
        levels().find(|(_, name, _)| *name == typed).map(|(level, ..)| level).ok_or("no such level")
    })
}

/// The numbers after `--pid` or `--tid`.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Numbers {
    /// Nothing: they are kept apart.
    Apart,
    /// Only these.
    Only(Vec<i32>),
}

impl FilterArgs {
    /// Returns true if each input is to have a label.
    pub fn merge(&self) -> bool {
        self.merge
    }

    /// Returns true if all events are wanted.
    pub fn events(&self) -> bool {
        self.by.contains(&Level::Event)
    }

    /// Asks for what the filters have to know.
    pub fn need(&self, options: &mut Options) {
        options.folded.fold_recursion |= self.fold_recursion;
        let by = |wanted| self.by.contains(&wanted);
        // The thread that has the process's number names the process where nothing else does.
        if !self.tid.is_empty() || by(Level::Thread) || by(Level::Process) {
            options.threads = ThreadDetail::Thread;
        } else if !self.pid.is_empty() {
            options.threads = options.threads.max(ThreadDetail::Process);
        }
        if !self.cpu.is_empty() || self.time.is_some() || by(Level::Cpu) {
            options.detail = Detail::Samples;
        }
    }

    /// The filters for a profile.
    pub fn filter(&self, profile: &Profile) -> Filter {
        Filter {
            pids: only(&self.pid),
            tids: only(&self.tid),
            comms: self.comm.clone(),
            cpus: self.cpu.clone(),
            time: self.time,
            focus: self.focus.clone(),
            ignore: self.ignore.clone(),
            from_frame: self.from_frame.clone(),
            skip_after: self.skip_after.clone(),
            hide: self.hide.clone(),
            fold_recursion: self.fold_recursion,
            shorten_packages: self.shorten_packages,
            by: self.levels(profile),
            rescale: self.rescale,
        }
    }

    /// The filters by thread, CPU and time, for inputs that are no profiles.
    pub fn of_events(&self) -> anyhow::Result<Filter> {
        let patterns = [&self.focus, &self.ignore, &self.hide, &self.from_frame, &self.skip_after];
        if patterns.iter().any(|patterns| !patterns.is_empty())
            || self.fold_recursion
            || self.shorten_packages
            || !self.by.is_empty()
            || self.merge
            || self.rescale
        {
            bail!("events have no stacks: only --pid, --tid, --comm, --cpu and --time choose them");
        }
        if [&self.pid, &self.tid].iter().any(|numbers| numbers.contains(&Numbers::Apart)) {
            bail!("--pid and --tid need numbers here: there are no frames to tell apart");
        }
        Ok(Filter {
            pids: only(&self.pid),
            tids: only(&self.tid),
            comms: self.comm.clone(),
            cpus: self.cpu.clone(),
            time: self.time,
            ..Filter::default()
        })
    }

    /// How many levels they put below stacks, at most.
    pub fn count_of_levels(&self) -> usize {
        let host = self.merge && !self.by.contains(&Level::Host);
        let apart = |numbers: &[Numbers]| numbers.contains(&Numbers::Apart);
        self.by.len() + usize::from(host) + usize::from(apart(&self.pid) || apart(&self.tid))
    }

    fn levels(&self, profile: &Profile) -> Vec<Level> {
        let mut levels = self.by.clone();
        if self.merge && !levels.contains(&Level::Host) {
            levels.insert(0, Level::Host);
        }
        // As the established collapser takes them: where nothing is known, there is no level.
        let known = profile.threads.iter().any(|of| of.pid.is_some() || !of.process.is_empty());
        let apart = |numbers: &[Numbers]| known && numbers.contains(&Numbers::Apart);
        let has_one = levels
            .iter()
            .any(|level| matches!(level, Level::Process | Level::Thread | Level::Pool));
        match (apart(&self.tid), apart(&self.pid)) {
            _ if has_one => {}
            (true, _) => levels.push(Level::Thread),
            (false, true) => levels.push(Level::Process),
            (false, false) => {}
        }
        levels
    }
}

fn only(numbers: &[Numbers]) -> Vec<i32> {
    let only = |numbers: &Numbers| match numbers {
        Numbers::Apart => Vec::new(),
        Numbers::Only(list) => list.clone(),
    };
    numbers.iter().flat_map(only).collect()
}

fn numbers(text: &str) -> Result<Numbers, String> {
    if text.is_empty() {
        return Ok(Numbers::Apart);
    }
    let number = |text: &str| text.trim().parse().map_err(|_| format!("'{text}' is not a number"));
    text.split(',').map(number).collect::<Result<_, _>>().map(Numbers::Only)
}

fn cpus(text: &str) -> Result<RangeInclusive<u32>, String> {
    let number = |text: &str| text.trim().parse().map_err(|_| format!("'{text}' is not a number"));
    match text.split_once('-') {
        Some((first, last)) => Ok(number(first)?..=number(last)?),
        None => number(text).map(|cpu| cpu..=cpu),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists() {
        assert_eq!(numbers(""), Ok(Numbers::Apart));
        assert_eq!(numbers("1,-1"), Ok(Numbers::Only(vec![1, -1])));
        assert!(numbers("1,x").is_err());
        assert_eq!(cpus("4-7"), Ok(4..=7));
        assert_eq!(cpus("3"), Ok(3..=3));
        assert!(cpus("a").is_err());
    }
}
