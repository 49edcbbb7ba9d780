//! Leaving out samples and frames: from a profile to a smaller one.
//!
//! Conditions on frames are checked once for each distinct label, and on paths once for each distinct
//! stack, never of each sample.

mod recursion;
mod rewrite;
mod select;
mod shorten;
mod time;

use std::ops::RangeInclusive;
use std::str::FromStr;

use pyrograph_profile::{FrameKind, LabelOptions, Labels, Profile, ThreadDetail};
use regex::Regex;

use self::select::Rows;
pub use self::time::{Moment, TimeRange};

/// Parts of a profile to keep, and changes of stacks. The default keeps all as it is.
///
/// Samples are chosen first: by who ran them, where and when, then by `focus` and `ignore`. Then
/// `from_frame`, `skip_after`, `hide`, `fold_recursion` and `shorten_packages` change the stacks
/// that are left, in this order, and `by` puts levels before them.
///
/// Patterns see labels as they are shown by default, the process at the root included, but not
/// shortened.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Keep samples of these processes; all if there are none.
    pub pids: Vec<i32>,
    /// Keep samples of these threads; all if there are none.
    pub tids: Vec<i32>,
    /// Keep samples of processes or threads of these names; all if there are none. A blank and `_`
    /// are the same, since some tools write one for the other.
    pub comms: Vec<String>,
    /// Keep samples on these CPUs; all if there are none.
    pub cpus: Vec<RangeInclusive<u32>>,
    /// Keep samples of this time.
    pub time: Option<TimeRange>,
    /// Keep stacks in which each of these matches some frame.
    pub focus: Vec<Pattern>,
    /// Leave out stacks in which any of these matches some frame.
    pub ignore: Vec<Pattern>,
    /// Let stacks begin at the outermost frame that any of these matches; leave out stacks without.
    pub from_frame: Vec<Pattern>,
    /// Leave out the callers of the innermost frame that any of these matches. The process stays
    /// at the root, and stacks without such a frame stay whole.
    pub skip_after: Vec<Pattern>,
    /// Frames of interpreted languages, native ones, or both.
    pub stacks: StackView,
    /// Leave out frames that any of these matches; their values go to their callers.
    pub hide: Vec<Pattern>,
    /// Let stacks go back to the first frame of a function that calls itself, directly or through others.
    pub fold_recursion: bool,
    /// Write Java packages by their first letters: `j.u.List.get`.
    pub shorten_packages: bool,
    /// Levels to put before the stacks, outermost first.
    pub by: Vec<Level>,
    /// Let percentages be of what is left.
    pub rescale: bool,
}

/// Which frames are shown where functions of interpreted languages are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StackView {
    /// All.
    #[default]
    Merged,
    /// Functions of languages that run in a virtual machine, interpreted or compiled at run time, and the kernel's.
    Language,
    /// Without functions of interpreted languages.
    Native,
}

/// Subject of a level of frames at the root of stacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Level {
    /// The process: `name-PID`.
    Process,
    /// The thread's name, one for threads whose names differ only in numbers: `pool-*-thread-*`.
    Pool,
    /// The thread: `name-PID/TID`.
    Thread,
    /// The CPU: `CPU 3`.
    Cpu,
    /// The process's control group: `/system.slice/nginx.service`.
    Cgroup,
    /// The process's command line, or its name where it has none: `python3 /srv/mailer.py`.
    CommandLine,
    /// The machine.
    Host,
    /// The value type. Its columns, which must count in one unit, become one.
    Event,
}

impl Level {
    /// How far threads have to be kept apart for it.
    pub fn thread_detail(&self) -> ThreadDetail {
        match self {
            Self::Thread => ThreadDetail::Thread,
            Self::Process | Self::Cgroup | Self::CommandLine => ThreadDetail::Process,
            _ => ThreadDetail::Name,
        }
    }

    fn what(self) -> &'static str {
        match self {
            Self::Process => "processes",
            Self::Pool => "names of threads",
            Self::Thread => "threads",
            Self::Cpu => "CPUs",
            Self::Cgroup => "control groups",
            Self::CommandLine => "command lines",
            Self::Host => "hosts",
            Self::Event => "several events of one unit",
        }
    }
}

/// Pattern that frames are matched with: a regular expression somewhere in its label, or, after `module:`,
/// in the path of the file that its code is in.
#[derive(Clone, Debug)]
pub struct Pattern {
    regex: Regex,
    module: bool,
    text: String,
}

impl FromStr for Pattern {
    type Err = regex::Error;

    fn from_str(text: &str) -> Result<Self, regex::Error> {
        let module = text.strip_prefix("module:");
        let regex = Regex::new(module.unwrap_or(text))?;
        Ok(Self { regex, module: module.is_some(), text: text.to_owned() })
    }
}

impl Pattern {
    /// The text of a pattern that one label matches, and no other.
    pub fn exactly(label: &str) -> String {
        format!("^{}$", regex::escape(label))
    }

    /// The text of a pattern that these labels match, and no other.
    pub fn exactly_one_of(labels: &[String]) -> String {
        match labels {
            [label] => Self::exactly(label),
            labels => {
                let labels: Vec<String> = labels.iter().map(|label| regex::escape(label)).collect();
                format!("^({})$", labels.join("|"))
            }
        }
    }

    /// `patterns` as they were written, for messages.
    fn texts(patterns: &[Self]) -> String {
        let texts: Vec<String> =
            patterns.iter().map(|pattern| format!("'{}'", pattern.text)).collect();
        texts.join(" or ")
    }
}

/// Why a filter cannot do what was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FilterError {
    /// The profile does not hold what the filter asks about.
    #[error("filter by {filter}: the input does not record {what}{hint}")]
    Missing {
        /// The filter's name.
        filter: &'static str,
        /// The missing information.
        what: &'static str,
        /// The remedy; begins with punctuation, or is empty.
        hint: &'static str,
    },
    /// Nothing can be distinguished.
    #[error("group by {}: the input does not record {}", level_name(*.0), .0.what())]
    NoLevel(Level),
    /// The filter left nothing out of what those before it kept.
    #[error("the filters leave nothing: no {what} {wanted}")]
    NothingLeft {
        /// The text that was looked for.
        what: &'static str,
        /// The form that is needed.
        wanted: String,
    },
}

fn level_name(level: Level) -> &'static str {
    match level {
        Level::Process => "process",
        Level::Pool => "pool",
        Level::Thread => "thread",
        Level::Cpu => "cpu",
        Level::Cgroup => "cgroup",
        Level::CommandLine => "cmdline",
        Level::Host => "host",
        Level::Event => "event",
    }
}

impl Filter {
    /// True if it changes nothing.
    pub fn is_empty(&self) -> bool {
        !self.selects() && !self.rewrites()
    }

    /// True if it chooses by frames, or changes stacks or what percentages are of: events without stacks have none of this.
    pub fn needs_stacks(&self) -> bool {
        let lists = [&self.focus, &self.ignore];
        self.rescale || self.rewrites() || lists.iter().any(|list| !list.is_empty())
    }

    fn selects(&self) -> bool {
        let lists = [&self.focus, &self.ignore];
        !(self.pids.is_empty()
            && self.tids.is_empty()
            && self.comms.is_empty()
            && self.cpus.is_empty()
            && self.time.is_none()
            && lists.iter().all(|list| list.is_empty()))
    }

    fn rewrites(&self) -> bool {
        self.fold_recursion || self.rewrites_any()
    }

    /// True if it changes stacks that have no recursion.
    fn rewrites_any(&self) -> bool {
        let lists = [&self.from_frame, &self.skip_after, &self.hide];
        self.stacks != StackView::Merged
            || self.shorten_packages
            || !self.by.is_empty()
            || lists.iter().any(|list| !list.is_empty())
    }

    /// Returns what is left of `profile`. A profile without samples stays as it is.
    ///
    /// # Errors
    ///
    /// When the profile does not hold what a filter asks about, or nothing is left.
    pub fn apply(&self, profile: Profile) -> Result<Profile, FilterError> {
        if self.is_empty() || profile.samples.is_empty() {
            return Ok(profile);
        }
        let whole: Vec<u64> =
            (0..profile.value_types.len()).map(|column| profile.whole(column)).collect();
        let labels = Labels::new(&profile, &LabelOptions::default());
        // Some readers have left it out.
        if !self.selects() && !self.rewrites_any() && !has_recursion(&profile, &labels) {
            return Ok(profile);
        }
        if self.stacks == StackView::Language && !has_language(&profile) {
            return Err(FilterError::Missing {
                filter: "stacks",
                what: "which frames are of interpreted languages",
                hint: ", or has none",
            });
        }
        let mut rows = Rows::all(&profile);
        rows.by_sample(self, &profile)?;
        rows.by_frame(self, &profile, &labels)?;
        let mut left = rewrite::rewrite(self, &profile, &labels, &rows.kept)?;
        left.unfiltered = match left.value_types.len() {
            _ if self.rescale => Vec::new(),
            // Events were put together.
            1 => vec![whole.iter().fold(0, |sum, &value| sum.saturating_add(value))],
            _ => whole,
        };
        Ok(left)
    }
}

/// True if there is a function of a language that runs in a virtual machine.
fn has_language(profile: &Profile) -> bool {
    let mut kinds = profile.frames.iter().map(|frame| frame.kind);
    kinds.any(|kind| matches!(kind, FrameKind::Interpreted | FrameKind::Jit))
}

/// True if a function calls itself, directly or through others.
fn has_recursion(profile: &Profile, labels: &Labels) -> bool {
    recursion::recursive(profile, labels).contains(&true)
}

#[cfg(test)]
mod tests;
