//! The filters: options that all verbs have that read profiles.

use std::ops::RangeInclusive;

use anyhow::bail;
use pyrograph_analyze::{Filter, Level, Moment, Pattern, TimeRange};
use pyrograph_format::{Detail, Options, ThreadDetail};
use pyrograph_profile::Profile;

/// Which samples are kept, and how stacks are changed.
#[derive(clap::Args)]
pub struct FilterArgs {
    /// Keep stacks in which a frame matches; `module:RE` matches the file that its code is in. All
    /// of several must match
    #[arg(long, value_name = "RE", help_heading = "Filters")]
    focus: Vec<Pattern>,

    /// Leave out stacks in which a frame matches
    #[arg(long, value_name = "RE", help_heading = "Filters")]
    ignore: Vec<Pattern>,

    /// Leave out frames that match; their time goes to their callers
    #[arg(long, value_name = "RE", help_heading = "Filters")]
    hide: Vec<Pattern>,

    /// Let stacks begin at the outermost frame that matches; leave out stacks without one
    #[arg(long, alias = "base", value_name = "RE", help_heading = "Filters")]
    from_frame: Vec<Pattern>,

    /// Leave out the callers of the innermost frame that matches; other stacks stay whole
    #[arg(long, value_name = "RE", help_heading = "Filters")]
    skip_after: Vec<Pattern>,

    /// One frame for a function that calls itself directly
    #[arg(long, help_heading = "Filters")]
    fold_recursion: bool,

    /// Write Java packages by their first letters: j.u.List.get
    #[arg(long, alias = "shorten-pkgs", help_heading = "Filters")]
    shorten_packages: bool,

    /// Keep samples of these processes; alone, tell processes apart: name-PID
    #[arg(
        long,
        value_name = "PID,…",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        value_parser = numbers,
        help_heading = "Filters"
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
        value_parser = numbers,
        help_heading = "Filters"
    )]
    tid: Vec<Numbers>,

    /// Keep samples of processes and threads of these names
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', help_heading = "Filters")]
    comm: Vec<String>,

    /// Keep samples on these CPUs: 0,4-7
    #[arg(
        long,
        value_name = "CPU,…",
        value_delimiter = ',',
        value_parser = cpus,
        help_heading = "Filters"
    )]
    cpu: Vec<RangeInclusive<u32>>,

    /// Keep samples of this time: seconds from the first sample (10..20, ..500ms, 1m..), or, after
    /// an @, of the recording's clock (@5312.25..@5313)
    #[arg(long, value_name = "A..B", value_parser = time_range, help_heading = "Filters")]
    time: Option<TimeRange>,

    /// Put levels of frames at the root
    #[arg(
        long,
        value_name = "WHAT,…",
        value_enum,
        value_delimiter = ',',
        help_heading = "Filters"
    )]
    by: Vec<By>,

    /// Each input under a frame of its own: the label in LABEL=FILE, or the file's name
    #[arg(long, help_heading = "Filters")]
    merge: bool,

    /// Percentages of what the filters left, not of the whole
    #[arg(long, help_heading = "Filters")]
    rescale: bool,
}

/// The property that a level of frames shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum By {
    /// name-PID.
    Process,
    /// The thread's name, one for threads whose names differ only in numbers.
    Pool,
    /// name-PID/TID.
    Thread,
    /// The CPU.
    Cpu,
    /// The label of the input, as in LABEL=FILE.
    Host,
    /// The event; samples are counted then.
    Event,
}

/// The numbers after `--pid` or `--tid`.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Numbers {
    /// Nothing: tell them apart.
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
        self.by.contains(&By::Event)
    }

    /// Asks for what the filters have to know.
    pub fn need(&self, options: &mut Options) {
        options.folded.fold_recursion |= self.fold_recursion;
        let by = |wanted| self.by.contains(&wanted);
        // The thread that has the process's number tells the process's name where nothing else does.
        if !self.tid.is_empty() || by(By::Thread) || by(By::Process) {
            options.threads = ThreadDetail::Thread;
        } else if !self.pid.is_empty() {
            options.threads = options.threads.max(ThreadDetail::Process);
        }
        if !self.cpu.is_empty() || self.time.is_some() || by(By::Cpu) {
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
    ///
    /// # Errors
    ///
    /// When they ask for what only stacks have.
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
        let host = self.merge && !self.by.contains(&By::Host);
        let apart = |numbers: &[Numbers]| numbers.contains(&Numbers::Apart);
        self.by.len() + usize::from(host) + usize::from(apart(&self.pid) || apart(&self.tid))
    }

    fn levels(&self, profile: &Profile) -> Vec<Level> {
        let level = |by: &By| match by {
            By::Process => Level::Process,
            By::Pool => Level::Pool,
            By::Thread => Level::Thread,
            By::Cpu => Level::Cpu,
            By::Host => Level::Host,
            By::Event => Level::Event,
        };
        let mut levels: Vec<Level> = self.by.iter().map(level).collect();
        if self.merge && !levels.contains(&Level::Host) {
            levels.insert(0, Level::Host);
        }
        // As the established collapser takes them: where nothing is known, nothing is said.
        let known = profile.threads.iter().any(|of| of.pid.is_some() || !of.process.is_empty());
        let apart = |numbers: &[Numbers]| known && numbers.contains(&Numbers::Apart);
        let told = levels
            .iter()
            .any(|level| matches!(level, Level::Process | Level::Thread | Level::Pool));
        match (apart(&self.tid), apart(&self.pid)) {
            _ if told => {}
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

fn time_range(text: &str) -> Result<TimeRange, String> {
    let (from, to) = text.split_once("..").ok_or("not two times with .. between them")?;
    let moment = |text: &str| match text.trim() {
        "" => Ok(None),
        text => match text.strip_prefix('@') {
            Some(clock) => nanoseconds(clock).map(Moment::Clock),
            None => nanoseconds(text).map(Moment::SinceStart),
        }
        .map(Some),
    };
    let range = TimeRange { from: moment(from)?, to: moment(to)? };
    match range {
        TimeRange { from: None, to: None } => Err("neither a beginning nor an end".to_owned()),
        TimeRange { from: Some(Moment::Clock(from)), to: Some(Moment::Clock(to)) }
        | TimeRange { from: Some(Moment::SinceStart(from)), to: Some(Moment::SinceStart(to)) }
            if from >= to =>
        {
            Err("the end is not after the beginning".to_owned())
        }
        range => Ok(range),
    }
}

/// A time, exactly: the recording's clock has more digits than a float holds.
fn nanoseconds(text: &str) -> Result<u64, String> {
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit: u64 = match &text[number.len()..] {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "" | "s" => 1_000_000_000,
        "m" | "min" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        unit => return Err(format!("unknown unit '{unit}': use ns, us, ms, s, m or h")),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let wrong = || format!("'{number}' is not a time");
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(fraction) {
        return Err(wrong());
    }
    let whole: u64 = whole.parse().map_err(|_| wrong())?;
    let mut time = whole.checked_mul(unit).ok_or_else(wrong)?;
    let mut place = unit;
    for digit in fraction.bytes() {
        place /= 10;
        time = time.checked_add(u64::from(digit - b'0') * place).ok_or_else(wrong)?;
    }
    Ok(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        let since = |ns| Some(Moment::SinceStart(ns));
        let clock = |ns| Some(Moment::Clock(ns));
        let check = |text, from, to| assert_eq!(time_range(text), Ok(TimeRange { from, to }));
        check("10..20", since(10_000_000_000), since(20_000_000_000));
        check("..500ms", None, since(500_000_000));
        check("1m..", since(60_000_000_000), None);
        check("0.25..1.5", since(250_000_000), since(1_500_000_000));
        let (from, to) = (clock(5_312_123_456_789_000), clock(5_312_124_000_000_000));
        check("@5312123.456789..@5312124", from, to);
        check("1.0000000001..2", since(1_000_000_000), since(2_000_000_000));
        for text in ["10", "..", "a..b", "-1..2", "1d..2d", "1..99999999999999", ".5..1", "@..1"] {
            assert!(time_range(text).is_err(), "{text}");
        }
        for text in ["5..1", "2..2", "@7..@3", "1s..900ms"] {
            assert_eq!(time_range(text), Err("the end is not after the beginning".to_owned()));
        }
    }

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
