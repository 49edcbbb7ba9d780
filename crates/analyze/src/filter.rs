//! Filters that leave out samples and frames of a profile.
//!
//! Conditions on frames are evaluated once per distinct label, and conditions on stacks once per distinct stack,
//! never per sample.

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

/// Conditions on samples, and changes of stacks. The default changes nothing.
///
/// Samples are selected first: by process, thread, CPU and time, then by `focus` and `ignore`. Then `from_frame`,
/// `skip_after`, `hide`, `fold_recursion` and `shorten_packages` change the remaining stacks, in this order, and `by`
/// adds frames at their roots.
///
/// Patterns match labels in their default form, including the process at the root, before they are shortened.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Keeps samples of these processes; all if empty.
    pub pids: Vec<i32>,
    /// Keeps samples of these threads; all if empty.
    pub tids: Vec<i32>,
    /// Keeps samples of processes or threads with these names; all if empty. Blanks and `_` are equivalent, because
    /// some tools write one for the other.
    pub comms: Vec<String>,
    /// Keeps samples on these CPUs; all if empty.
    pub cpus: Vec<RangeInclusive<u32>>,
    /// Keeps samples of this time range.
    pub time: Option<TimeRange>,
    /// Keeps stacks in which each of these patterns matches some frame.
    pub focus: Vec<Pattern>,
    /// Leaves out stacks in which any of these patterns matches some frame.
    pub ignore: Vec<Pattern>,
    /// Makes stacks begin at the outermost frame that matches any of these patterns; leaves out stacks without such a
    /// frame.
    pub from_frame: Vec<Pattern>,
    /// Leaves out the callers of the innermost frame that matches any of these patterns. The process stays at the
    /// root. Stacks without such a frame stay whole.
    pub skip_after: Vec<Pattern>,
    /// Selection of frames of interpreted languages, native frames, or both.
    pub stacks: StackView,
    /// Leaves out frames that match any of these patterns; their values go to their callers.
    pub hide: Vec<Pattern>,
    /// Folds recursion, direct or indirect: a repeated call of a function returns to the stack of its first call.
    pub fold_recursion: bool,
    /// Abbreviates Java packages to their first letters: `j.u.List.get`.
    pub shorten_packages: bool,
    /// Frames to add at the roots of stacks, outermost first.
    pub by: Vec<Level>,
    /// Makes percentages relative to the samples that are kept.
    pub rescale: bool,
}

/// Selection of frames if functions of interpreted languages are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StackView {
    /// All frames.
    #[default]
    Merged,
    /// Functions of languages that run in a virtual machine, interpreted or compiled at run time, and kernel functions.
    Language,
    /// All frames except functions of interpreted languages.
    Native,
}

/// A grouping that adds a frame at the root of stacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Level {
    /// The process: `name-PID`.
    Process,
    /// The thread's name without numbers, so that similar threads share it: `pool-*-thread-*`.
    Pool,
    /// The thread: `name-PID/TID`.
    Thread,
    /// The CPU: `CPU 3`.
    Cpu,
    /// The process's control group: `/system.slice/nginx.service`.
    Cgroup,
    /// The process's command line, or its name if that is unknown: `python3 /srv/mailer.py`.
    CommandLine,
    /// The machine.
    Host,
    /// A field of the events and its value, where the reader was asked for it: `addr=0x10`.
    Field,
    /// The value type. Columns, which must have the same unit, are merged into one.
    Event,
}

impl Level {
    /// Detail in which threads must be distinguished for this level.
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
            Self::Field => "events with such a field",
            Self::Host => "hosts",
            Self::Event => "several events of one unit",
        }
    }
}

/// A pattern for frames: a regular expression that matches anywhere in the label or, after `module:`, in the path of
/// the file that contains the code.
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
    /// Text of a pattern that matches exactly this label.
    pub fn exactly(label: &str) -> String {
        format!("^{}$", regex::escape(label))
    }

    /// Text of a pattern that matches exactly these labels.
    pub fn exactly_one_of(labels: &[String]) -> String {
        match labels {
            [label] => Self::exactly(label),
            labels => {
                let labels: Vec<String> = labels.iter().map(|label| regex::escape(label)).collect();
                format!("^({})$", labels.join("|"))
            }
        }
    }

    /// Texts of patterns as the user wrote them, for messages.
    fn texts(patterns: &[Self]) -> String {
        let texts: Vec<String> =
            patterns.iter().map(|pattern| format!("'{}'", pattern.text)).collect();
        texts.join(" or ")
    }
}

/// Reasons why a filter cannot be applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FilterError {
    /// The profile does not contain the information that the filter needs.
    #[error("filter by {filter}: the input does not record {what}{hint}")]
    Missing {
        /// Name of the filter.
        filter: &'static str,
        /// Missing information.
        what: &'static str,
        /// Advice; begins with punctuation, or is empty.
        hint: &'static str,
    },
    /// The input does not contain the information that this level needs.
    #[error("group by {}: the input does not record {}", level_name(*.0), .0.what())]
    NoLevel(Level),
    /// A condition removed all samples that the conditions before it had kept.
    #[error("the filters leave nothing: no {what} {wanted}")]
    NothingLeft {
        /// Kind of the condition, for the message.
        what: &'static str,
        /// The wanted values, for the message.
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
        Level::Field => "field",
        Level::Event => "event",
    }
}

impl Filter {
    /// Returns true if the filter changes nothing.
    pub fn is_empty(&self) -> bool {
        !self.selects() && !self.rewrites()
    }

    /// Returns true if the filter selects by frames, changes stacks, or changes what percentages are relative to.
    /// Events without stacks support none of this.
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

    /// Returns true if the filter changes stacks without recursion.
    fn rewrites_any(&self) -> bool {
        let lists = [&self.from_frame, &self.skip_after, &self.hide];
        self.stacks != StackView::Merged
            || self.shorten_packages
            || !self.by.is_empty()
            || lists.iter().any(|list| !list.is_empty())
    }

    /// Returns the filtered profile. A profile without samples is returned unchanged.
    ///
    /// # Errors
    ///
    /// Fails if the profile lacks information that the filter needs, or if no samples remain.
    pub fn apply(&self, profile: Profile) -> Result<Profile, FilterError> {
        if self.is_empty() || profile.samples.is_empty() {
            return Ok(profile);
        }
        let whole: Vec<u64> =
            (0..profile.value_types.len()).map(|column| profile.whole(column)).collect();
        let labels = Labels::new(&profile, &LabelOptions::default());
        // Some readers have folded recursion already.
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
            // Columns were merged into one.
            1 => vec![whole.iter().fold(0, |sum, &value| sum.saturating_add(value))],
            _ => whole,
        };
        Ok(left)
    }
}

/// Returns true if the profile has a function of a language that runs in a virtual machine.
fn has_language(profile: &Profile) -> bool {
    let mut kinds = profile.frames.iter().map(|frame| frame.kind);
    kinds.any(|kind| matches!(kind, FrameKind::Interpreted | FrameKind::Jit))
}

/// Returns true if a function calls itself, directly or indirectly.
fn has_recursion(profile: &Profile, labels: &Labels) -> bool {
    recursion::recursive(profile, labels).contains(&true)
}

#[cfg(test)]
mod tests;
