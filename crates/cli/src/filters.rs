//! Filters: options shared by all subcommands that read profiles.

use std::ops::RangeInclusive;

use anyhow::bail;
use pyrograph_analyze::{Filter, Level, Pattern, StackView, TimeRange};
use pyrograph_format::{Detail, Options, ThreadDetail};
use pyrograph_profile::Profile;

use crate::languages::views;
use crate::units::one_of_or;

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

    /// Frames where functions of interpreted languages are known: merged with native ones, lang for these and the
    /// kernel's alone, native without them
    #[arg(long, value_name = "VIEW", value_parser = views(), default_value = "merged", hide_default_value = true)]
    stacks: StackView,

    /// One frame for a function that calls itself, directly or through others: stacks go back to its first
    #[arg(long)]
    fold_recursion: bool,

    /// Write Java packages by their first letters: j.u.List.get
    #[arg(long, alias = "shorten-pkgs")]
    shorten_packages: bool,

    /// Keep samples of these processes; alone, tell processes apart: name-PID
    #[arg(long, value_name = "PID,…", num_args = 0..=1, require_equals = true, default_missing_value = "",
        value_parser = numbers)]
    pid: Vec<Numbers>,

    /// Keep samples of these threads; alone, tell threads apart: name-PID/TID
    #[arg(long, alias = "include-tid", value_name = "TID,…", num_args = 0..=1, require_equals = true,
        default_missing_value = "", value_parser = numbers)]
    tid: Vec<Numbers>,

    /// Keep samples of processes and threads of these names
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    comm: Vec<String>,

    /// Keep samples on these CPUs: 0,4-7
    #[arg(long, value_name = "CPU,…", value_delimiter = ',', value_parser = cpus)]
    cpu: Vec<RangeInclusive<u32>>,

    /// Keep samples of this time: seconds from the first sample (10..20, ..500ms, 1m..), or, after
    /// an @, of the recording's clock (@5312.25..@5313)
    #[arg(long, value_name = "A..B")]
    time: Option<TimeRange>,

    /// Put levels of frames at the root; another word is a field of the events, as a tracepoint's or a probe's
    #[arg(long, value_name = "WHAT,…", value_delimiter = ',', value_parser = one_of_or(LevelOrField::levels(), LevelOrField::field))]
    by: Vec<LevelOrField>,

    /// Each input under a frame of its own: the label in LABEL=FILE, or the file's name
    #[arg(long)]
    merge: bool,

    /// Percentages of what the filters left, not of the whole
    #[arg(long)]
    rescale: bool,
}

/// Levels of frames for recordings, each with its name and a description.
pub const LEVELS: [(Level, &str, &str); 6] = [
    (Level::Process, "process", "name-PID"),
    (Level::Pool, "pool", "The thread's name, one for threads whose names differ only in numbers"),
    (Level::Thread, "thread", "name-PID/TID"),
    (Level::Cpu, "cpu", "The CPU"),
    (Level::Cgroup, "cgroup", "The process's control group"),
    (Level::CommandLine, "cmdline", "The process's command line"),
];

/// Further levels for files.
const HOST: (Level, &str, &str) = (Level::Host, "host", "The label of the input, as in LABEL=FILE");
const EVENT: (Level, &str, &str) = (Level::Event, "event", "The event; samples are counted then");

/// A level, or the name of a field whose value is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LevelOrField {
    Level(Level),
    Field(String),
}

impl LevelOrField {
    /// All levels by name.
    fn levels() -> [(Self, &'static str, &'static str); 8] {
        let [process, pool, thread, cpu, cgroup, cmdline] = LEVELS;
        let all = [process, pool, thread, cpu, cgroup, cmdline, HOST, EVENT];
        all.map(|(level, name, about)| (Self::Level(level), name, about))
    }

    /// Names of all levels, in a list.
    pub fn names() -> String {
        Self::levels().map(|(_, name, _)| name).join(", ")
    }

    /// The name of a field.
    fn field(text: &str) -> Option<Self> {
        let is_part = |of: char| of.is_ascii_alphanumeric() || of == '_';
        let is_name = !text.is_empty() && text.chars().all(is_part);
        is_name.then(|| Self::Field(text.to_owned()))
    }

    fn level(&self) -> Level {
        match self {
            Self::Level(level) => *level,
            Self::Field(_) => Level::Field,
        }
    }
}

/// IDs after `--pid` or `--tid`. Empty if none are given: processes or threads are then kept apart.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Numbers(Vec<i32>);

/// Returns true if processes or threads are kept apart.
fn is_apart(all: &[Numbers]) -> bool {
    all.iter().any(|numbers| numbers.0.is_empty())
}

impl FilterArgs {
    /// Returns true if each input gets a label.
    pub fn merge(&self) -> bool {
        self.merge
    }

    /// Returns true if all events are requested.
    pub fn events(&self) -> bool {
        self.has(Level::Event)
    }

    fn has(&self, level: Level) -> bool {
        self.by.iter().any(|by| by.level() == level)
    }

    /// The field of the events that is a level.
    ///
    /// # Errors
    ///
    /// If there are several.
    pub fn field(&self) -> anyhow::Result<Option<&str>> {
        let fields = self.by.iter().filter_map(|by| match by {
            LevelOrField::Field(name) => Some(name.as_str()),
            LevelOrField::Level(_) => None,
        });
        match fields.collect::<Vec<_>>()[..] {
            [] => Ok(None),
            [field] => Ok(Some(field)),
            [first, second, ..] => bail!(
                "--by takes one field of the events, and neither {first} nor {second} is another level"
            ),
        }
    }

    /// Requests the data that the filters need from the reader.
    pub fn need(&self, options: &mut Options) {
        options.folded.fold_recursion |= self.fold_recursion;
        let by = |wanted| self.has(wanted);
        // A process is named after its main thread if nothing else names it.
        if !self.tid.is_empty() || by(Level::Thread) || by(Level::Process) {
            options.threads = ThreadDetail::Thread;
        } else if !self.pid.is_empty() || by(Level::Cgroup) || by(Level::CommandLine) {
            options.threads = options.threads.max(ThreadDetail::Process);
        }
        if !self.cpu.is_empty() || self.time.is_some() || by(Level::Cpu) {
            options.detail = Detail::Samples;
        }
    }

    /// Builds the filter for a profile.
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
            stacks: self.stacks,
            fold_recursion: self.fold_recursion,
            shorten_packages: self.shorten_packages,
            by: self.levels(profile),
            rescale: self.rescale,
        }
    }

    /// Builds the filter by thread, CPU and time, for inputs that are not profiles.
    pub fn of_events(&self) -> anyhow::Result<Filter> {
        let filter = self.filter(&Profile::default());
        if filter.needs_stacks() {
            bail!("events have no stacks: only --pid, --tid, --comm, --cpu and --time choose them");
        }
        if is_apart(&self.pid) || is_apart(&self.tid) {
            bail!("--pid and --tid need numbers here: there are no frames to tell apart");
        }
        Ok(filter)
    }

    /// Maximum number of levels that are put at the root of stacks.
    pub fn count_of_levels(&self) -> usize {
        let host = self.merge && !self.has(Level::Host);
        self.by.len() + usize::from(host) + usize::from(is_apart(&self.pid) || is_apart(&self.tid))
    }

    fn levels(&self, profile: &Profile) -> Vec<Level> {
        let mut levels: Vec<Level> = self.by.iter().map(LevelOrField::level).collect();
        if self.merge && !levels.contains(&Level::Host) {
            levels.insert(0, Level::Host);
        }
        // As in `stackcollapse-perf.pl`: if no process is known, there is no level.
        let known = profile.threads.iter().any(|of| of.pid.is_some() || !of.process.is_empty());
        let has_one = levels
            .iter()
            .any(|level| matches!(level, Level::Process | Level::Thread | Level::Pool));
        match (known && is_apart(&self.tid), known && is_apart(&self.pid)) {
            _ if has_one => {}
            (true, _) => levels.push(Level::Thread),
            (false, true) => levels.push(Level::Process),
            (false, false) => {}
        }
        levels
    }
}

fn only(numbers: &[Numbers]) -> Vec<i32> {
    numbers.iter().flat_map(|numbers| numbers.0.clone()).collect()
}

fn numbers(text: &str) -> Result<Numbers, String> {
    let number = |text: &str| text.trim().parse().map_err(|_| format!("'{text}' is not a number"));
    let texts = text.split(',').filter(|_| !text.is_empty());
    texts.map(number).collect::<Result<_, _>>().map(Numbers)
}

/// Parses `3` or `4-7`.
pub fn cpus(text: &str) -> Result<RangeInclusive<u32>, String> {
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
        assert_eq!(numbers(""), Ok(Numbers(Vec::new())));
        assert_eq!(numbers("1,-1"), Ok(Numbers(vec![1, -1])));
        assert!(numbers("1,x").is_err());
        assert_eq!(cpus("4-7"), Ok(4..=7));
        assert_eq!(cpus("3"), Ok(3..=3));
        assert!(cpus("a").is_err());
    }
}
