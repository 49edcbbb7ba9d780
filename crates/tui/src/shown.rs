//! From a profile to what is shown of it: which frames, kept apart by what, with which names.

use std::borrow::Cow;
use std::cmp::Reverse;

use pyrograph_analyze::{
    AsOne, Filter, RootedRow, ShownNames, below_path, only_frames, top_by_root,
};
use pyrograph_profile::{
    Frame, FrameKind, LabelOptions, ProcessLabel, Profile, StringId, Thread, Threads,
};

use crate::chips::Chip;

/// Where code runs: which functions are shown. Nothing else changes: what the others took still counts for their
/// callers' totals, and for the whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Code {
    /// All.
    #[default]
    All,
    /// Those of programs.
    User,
    /// Those of the kernel.
    Kernel,
}

impl Code {
    /// True if a function of this kind is shown. Remarks are on neither side.
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

/// By what functions are kept apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Grouping {
    /// By nothing.
    #[default]
    None,
    /// By process.
    Process,
    /// By thread.
    Thread,
    /// By control group.
    ControlGroup,
}

impl Grouping {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Process => "process",
            Self::Thread => "thread",
            Self::ControlGroup => "cgroup",
        }
    }

    /// Heading of a column; empty for none.
    pub fn heading(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Process => "Process",
            Self::Thread => "Thread",
            Self::ControlGroup => "Control group",
        }
    }
}

/// Stands for the control group of a process that is gone, or of which only the name is known.
const NO_GROUP: &str = "[not known]";

/// A profile, and how it is looked at.
#[derive(Debug)]
pub struct Shown {
    /// As it came.
    recorded: Profile,
    /// What filters leave of it, if there are any.
    filtered: Option<Profile>,
    chips: Vec<Chip>,
    /// Functions that are shown.
    pub code: Code,
    grouping: Grouping,
    /// Which functions are shown as one; `None`: names are what they are.
    as_one: Option<AsOne>,
    /// What is shown for names, in whatever part of the profile.
    names: ShownNames,
    /// What is left, with the names that are shown; with control groups in place of processes, if these are asked for.
    drawn: Profile,
}

impl Default for Shown {
    fn default() -> Self {
        Self::new(Some(AsOne::Tiers))
    }
}

impl Shown {
    /// Nothing yet; of what will come, these functions are shown as one, under short names. `None` leaves names as they are.
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

    /// Takes another profile.
    pub fn update(&mut self, profile: Profile) {
        self.names = self.names_in(&profile);
        self.recorded = profile;
        // In a part of a recording there may be nothing of what is kept.
        if self.apply().is_err() {
            self.filtered = Some(Profile::new(self.recorded.value_types.clone()));
        }
        self.regroup();
    }

    /// Takes both sides of a comparison, to which the filters were applied. Functions keep the names that they were compared
    /// by; see [`Shown::label`].
    pub(crate) fn update_as_filtered(&mut self, profile: Profile) {
        self.as_one = self.as_one.and(Some(AsOne::Nothing));
        self.names = self.names_in(&profile);
        (self.recorded, self.filtered) = (profile, None);
        self.regroup();
    }

    fn names_in(&self, profile: &Profile) -> ShownNames {
        self.as_one.map_or_else(ShownNames::default, |as_one| ShownNames::new(profile, as_one))
    }

    /// What is shown for a function: of a comparison its short name, of others what it is called here already.
    pub(crate) fn label<'a>(&'a self, name: &'a str) -> &'a str {
        if self.as_one == Some(AsOne::Nothing) { self.names.label(name) } else { name }
    }

    /// All that is known of a function's name.
    pub(crate) fn full<'a>(&'a self, name: &'a str) -> Cow<'a, str> {
        if self.as_one.is_some() {
            return self.names.full(self.label(name));
        }
        let function = self.drawn.strings.find(name);
        let full = function.and_then(|function| self.drawn.full_names.get(function));
        full.map_or(name, |full| self.drawn.strings.get(full)).into()
    }

    /// The names that a function has in filters and other outputs.
    pub(crate) fn names_of(&self, name: &str) -> Vec<String> {
        match self.names.function(self.label(name)) {
            Some(of) => of.names.iter().cloned().collect(),
            None => vec![name.to_owned()],
        }
    }

    /// The name of a function for other programs: that of the only one that is shown so, or the identity.
    pub fn name(&self, label: &str) -> String {
        self.names.function(label).map_or(label.into(), |of| of.name()).into_owned()
    }

    /// The names that are shown.
    pub(crate) fn names(&self) -> &ShownNames {
        &self.names
    }

    /// The filters that are put on.
    pub(crate) fn chips(&self) -> &[Chip] {
        &self.chips
    }

    /// All of them as one.
    pub(crate) fn filter(&self) -> Filter {
        Chip::filter(&self.chips)
    }

    /// Puts on a filter; one that leaves nothing is not. If it is `elsewhere` that they are applied, that shows there.
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

    /// Takes the last filter off.
    pub(crate) fn take_off(&mut self) {
        self.chips.pop();
        // With fewer filters more is left.
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

    /// By what functions are kept apart.
    pub fn grouping(&self) -> Grouping {
        self.grouping
    }

    /// Keeps functions apart by something else.
    pub fn set_grouping(&mut self, grouping: Grouping) {
        self.grouping = grouping;
        self.regroup();
    }

    /// The profile, with all frames and the names that are shown.
    pub fn profile(&self) -> &Profile {
        &self.drawn
    }

    /// What the filters leave.
    fn kept(&self) -> &Profile {
        self.filtered.as_ref().unwrap_or(&self.recorded)
    }

    /// The column that is shown.
    pub fn column(&self) -> usize {
        self.recorded.shown
    }

    /// The whole that percentages are of.
    pub fn whole(&self) -> u64 {
        match self.recorded.value_types.is_empty() {
            true => 0,
            false => self.kept().whole(self.column()),
        }
    }

    /// Labels with what is kept apart at the root.
    pub fn labels(&self) -> LabelOptions {
        // Of what was recorded long ago only names are known.
        let has_numbers = self.recorded.threads.iter().any(|of| of.pid.is_some());
        let process = match self.grouping {
            Grouping::None => ProcessLabel::None,
            Grouping::Process if has_numbers => ProcessLabel::Process,
            Grouping::Thread if has_numbers => ProcessLabel::PidTid,
            _ => ProcessLabel::Name,
        };
        LabelOptions { process, ..LabelOptions::default() }
    }

    /// The functions that are shown, the highest first.
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

    /// The profile with the frames that are shown.
    pub(crate) fn frames(&self) -> Cow<'_, Profile> {
        match self.code {
            Code::All => Cow::Borrowed(self.profile()),
            code => Cow::Owned(only_frames(self.profile(), |frame: Frame| code.shows(frame.kind))),
        }
    }

    /// The same, of stacks that begin with a path.
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
            Grouping::ControlGroup => with_groups(self.kept()),
            _ => self.kept().clone(),
        };
        self.drawn = match self.as_one {
            None | Some(AsOne::Nothing) => drawn,
            Some(_) => self.names.rename(drawn),
        };
    }
}

/// The profile with the control group of each thread as its process's name, and no numbers. Threads keep their places: rows
/// of samples are as they were.
fn with_groups(profile: &Profile) -> Profile {
    let mut out = profile.clone();
    let mut threads = Threads::default();
    let mut new = Vec::new();
    for thread in profile.threads.iter() {
        let process = match thread.cgroup {
            StringId::EMPTY => out.strings.intern(NO_GROUP),
            group => group,
        };
        let thread = Thread { process, name: StringId::EMPTY, pid: None, tid: None, ..thread };
        new.push(threads.intern(thread));
    }
    out.threads = threads;
    out.samples.map_threads(|thread| new[thread.index()]);
    out
}
