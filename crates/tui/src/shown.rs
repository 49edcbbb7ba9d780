//! The displayed part of a profile: its frames, grouping and names.

use std::borrow::Cow;
use std::cmp::Reverse;

use pyrograph_analyze::{
    AsOne, Filter, RootedRow, ShownNames, below_path, only_frames, top_by_root,
};
use pyrograph_profile::{
    Frame, FrameKind, LabelOptions, ProcessLabel, Profile, StringId, Thread, Threads,
};

use crate::chips::Chip;

/// Functions to show, by where they run. Only the display changes: hidden functions still count for their callers'
/// totals, and for the whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Code {
    /// All functions.
    #[default]
    All,
    /// Functions of programs.
    User,
    /// Functions of the kernel.
    Kernel,
}

impl Code {
    /// Returns true if functions of this kind are shown. Markers are always shown.
    pub fn shows(self, kind: FrameKind) -> bool {
        match (self, kind) {
            (Self::All, _) | (_, FrameKind::Marker(_)) => true,
            (Self::User, kind) => kind != FrameKind::Kernel,
            (Self::Kernel, kind) => kind == FrameKind::Kernel,
        }
    }

    pub(crate) fn next(self) -> Self {
        match self {
            Self::All => Self::User,
            Self::User => Self::Kernel,
            Self::Kernel => Self::All,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::All => "user and kernel",
            Self::User => "user functions",
            Self::Kernel => "kernel functions",
        }
    }
}

/// Grouping of functions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Grouping {
    /// No grouping.
    #[default]
    None,
    /// By process.
    Process,
    /// By thread.
    Thread,
    /// By control group.
    ControlGroup,
    /// By the value of the event that stacks are kept apart by.
    Value,
}

impl Grouping {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Process => "process",
            Self::Thread => "thread",
            Self::ControlGroup => "cgroup",
            Self::Value => "value",
        }
    }

    /// Returns the heading of the column; empty if there is no grouping.
    pub fn heading(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Process => "Process",
            Self::Thread => "Thread",
            Self::ControlGroup => "Control group",
            Self::Value => "Value",
        }
    }
}

/// Placeholder for an unknown control group: the process is gone, or only its name is known.
const NO_GROUP: &str = "[not known]";

/// Placeholder for an event without a value.
const NO_VALUE: &str = "?";

/// A profile, and the state of its display.
#[derive(Debug)]
pub struct Shown {
    /// The original profile.
    recorded: Profile,
    /// The filtered profile, if there are filters.
    filtered: Option<Profile>,
    chips: Vec<Chip>,
    /// Functions that are shown.
    pub code: Code,
    grouping: Grouping,
    /// Which functions are merged; `None` leaves names unchanged.
    as_one: Option<AsOne>,
    /// Displayed names for the whole profile.
    names: ShownNames,
    /// Filtered profile with displayed names, and with control groups instead of processes if they are requested.
    drawn: Profile,
}

impl Default for Shown {
    fn default() -> Self {
        Self::new(Some(AsOne::Tiers))
    }
}

impl Shown {
    /// Creates an empty one. `as_one` determines which functions are merged, under short names; `None` leaves names
    /// unchanged.
    pub fn new(as_one: Option<AsOne>) -> Self {
        Self {
            recorded: Profile::default(),
            filtered: None,
            chips: Vec::new(),
            code: Code::default(),
            grouping: Grouping::default(),
            as_one,
            names: ShownNames::default(),
            drawn: Profile::default(),
        }
    }

    /// Replaces the profile.
    pub fn update(&mut self, profile: Profile) {
        self.names = self.names_in(&profile);
        self.recorded = profile;
        // A part of a recording may contain nothing that the filters keep.
        if self.apply().is_err() {
            self.filtered = Some(Profile::new(self.recorded.value_types.clone()));
        }
        self.regroup();
    }

    /// Replaces the profile by both sides of a comparison, already filtered. Functions keep the names by which they
    /// were compared; see [`Shown::label`].
    pub(crate) fn update_as_filtered(&mut self, profile: Profile) {
        self.as_one = self.as_one.and(Some(AsOne::Nothing));
        self.names = self.names_in(&profile);
        (self.recorded, self.filtered) = (profile, None);
        self.regroup();
    }

    fn names_in(&self, profile: &Profile) -> ShownNames {
        self.as_one.map_or_else(ShownNames::default, |as_one| ShownNames::new(profile, as_one))
    }

    /// Returns the displayed name of a function: in a comparison, its short name; otherwise `name`, which is the
    /// displayed one already.
    pub(crate) fn label<'a>(&'a self, name: &'a str) -> &'a str {
        if self.as_one == Some(AsOne::Nothing) { self.names.label(name) } else { name }
    }

    /// Returns the full name of a function.
    pub(crate) fn full<'a>(&'a self, name: &'a str) -> Cow<'a, str> {
        if self.as_one.is_some() {
            return self.names.full(self.label(name));
        }
        let function = self.drawn.strings.find(name);
        let full = function.and_then(|function| self.drawn.full_names.get(function));
        full.map_or(name, |full| self.drawn.strings.get(full)).into()
    }

    /// Returns the names that a function has in filters and other outputs.
    pub(crate) fn names_of(&self, name: &str) -> Vec<String> {
        match self.names.function(self.label(name)) {
            Some(of) => of.names.iter().cloned().collect(),
            None => vec![name.to_owned()],
        }
    }

    /// Returns the name of a function for other programs: its own name if no other is merged with it, otherwise the
    /// identity.
    pub fn name(&self, label: &str) -> String {
        self.names.function(label).map_or(label.into(), |of| of.name()).into_owned()
    }

    /// Returns the displayed names.
    pub(crate) fn names(&self) -> &ShownNames {
        &self.names
    }

    /// Returns the current filters.
    pub(crate) fn chips(&self) -> &[Chip] {
        &self.chips
    }

    /// Returns all current filters as one.
    pub(crate) fn filter(&self) -> Filter {
        Chip::filter(&self.chips)
    }

    /// Adds a filter, unless nothing would be left. With `elsewhere`, the owner applies filters and detects that.
    pub(crate) fn put_on(&mut self, chip: Chip, elsewhere: bool) -> Result<(), String> {
        self.chips.push(chip);
        if elsewhere {
            return Ok(());
        }
        if let Err(error) = self.apply() {
            self.chips.pop();
            return Err(error.to_string());
        }
        self.regroup();
        Ok(())
    }

    /// Removes the last filter.
    pub(crate) fn take_off(&mut self) {
        self.chips.pop();
        // Cannot fail: fewer filters leave more.
        self.apply().ok();
        self.regroup();
    }

    fn apply(&mut self) -> Result<(), pyrograph_analyze::FilterError> {
        self.filtered = match self.chips.is_empty() {
            true => None,
            false => Some(self.filter().apply(self.recorded.clone())?),
        };
        Ok(())
    }

    /// Returns the grouping of functions.
    pub fn grouping(&self) -> Grouping {
        self.grouping
    }

    /// Sets the grouping of functions.
    pub fn set_grouping(&mut self, grouping: Grouping) {
        self.grouping = grouping;
        self.regroup();
    }

    /// Returns the profile with all frames and displayed names.
    pub fn profile(&self) -> &Profile {
        &self.drawn
    }

    /// Returns the profile after filtering.
    fn kept(&self) -> &Profile {
        self.filtered.as_ref().unwrap_or(&self.recorded)
    }

    /// Returns the index of the shown column.
    pub fn column(&self) -> usize {
        self.recorded.shown
    }

    /// Returns the whole for percentages.
    pub fn whole(&self) -> u64 {
        match self.recorded.value_types.is_empty() {
            true => 0,
            false => self.kept().whole(self.column()),
        }
    }

    /// Returns options for labels with the group at the root.
    pub fn labels(&self) -> LabelOptions {
        // For folded input and the like, only names are known.
        let has_numbers = self.recorded.threads.iter().any(|of| of.pid.is_some());
        let process = match self.grouping {
            Grouping::None => ProcessLabel::None,
            Grouping::Process if has_numbers => ProcessLabel::Process,
            Grouping::Thread if has_numbers => ProcessLabel::PidTid,
            _ => ProcessLabel::Name,
        };
        LabelOptions { process, ..LabelOptions::default() }
    }

    /// Returns the functions that are shown, highest first.
    pub fn rows(&self, by_total: bool) -> Vec<RootedRow> {
        if self.recorded.value_types.is_empty() {
            return Vec::new();
        }
        let mut rows = top_by_root(self.profile(), &self.labels(), self.column());
        rows.retain(|of| self.code.shows(of.row.kind));
        if by_total {
            rows.sort_by_key(|of| Reverse((of.row.total, of.row.self_value)));
        }
        rows
    }

    /// Returns the profile with the frames that are shown.
    pub(crate) fn frames(&self) -> Cow<'_, Profile> {
        match self.code {
            Code::All => Cow::Borrowed(self.profile()),
            code => Cow::Owned(only_frames(self.profile(), |frame: Frame| code.shows(frame.kind))),
        }
    }

    /// Returns the profile with the frames that are shown, limited to stacks that begin with a path.
    pub fn picture(&self, below: &[String]) -> Profile {
        let shown = self.frames();
        match below {
            [] => shown.into_owned(),
            path => {
                let path: Vec<&str> = path.iter().map(String::as_str).collect();
                below_path(&shown, &self.labels(), &path)
            }
        }
    }

    fn regroup(&mut self) {
        let drawn = match self.grouping {
            Grouping::ControlGroup => with_processes(self.kept(), |of| of.cgroup, NO_GROUP),
            Grouping::Value => with_processes(self.kept(), |of| of.field, NO_VALUE),
            _ => self.kept().clone(),
        };
        self.drawn = match self.as_one {
            None | Some(AsOne::Nothing) => drawn,
            Some(_) => self.names.rename(drawn),
        };
    }
}

/// Returns the profile with a text of each thread as its process name, and without IDs; `none` stands for an empty one. Threads
/// keep their order, so that sample rows stay valid.
fn with_processes(profile: &Profile, text: impl Fn(&Thread) -> StringId, none: &str) -> Profile {
    let mut out = profile.clone();
    let mut threads = Threads::default();
    let mut new = Vec::new();
    for thread in profile.threads.iter() {
        let process = match text(&thread) {
            StringId::EMPTY => out.strings.intern(none),
            text => text,
        };
        let thread = Thread { process, name: StringId::EMPTY, pid: None, tid: None, ..thread };
        new.push(threads.intern(thread));
    }
    out.threads = threads;
    out.samples.map_threads(|thread| new[thread.index()]);
    out
}
