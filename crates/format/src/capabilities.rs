//! Parts of a profile that a format has a place for, so that the others can be reported as lost.

use pyrograph_profile::{Frame, FrameKind, Marker, Profile, Thread, ValueType};

use crate::names::module_kind;

/// Parts of a profile that files of a format have a place for. `false` means that the part is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Whole stacks, not only pairs of callers and callees.
    pub stacks: bool,
    /// More than one value type.
    pub columns: bool,
    /// Values with decimals.
    pub decimals: bool,
    /// Time of each sample.
    pub times: bool,
    /// CPU of each sample.
    pub cpus: bool,
    /// Names of processes and threads.
    pub thread_names: bool,
    /// IDs of processes and threads.
    pub thread_ids: bool,
    /// Names of machines.
    pub hosts: bool,
    /// Modules: programs and libraries.
    pub modules: bool,
    /// Source files.
    pub files: bool,
    /// Source lines.
    pub lines: bool,
    /// Line at which each function begins.
    pub start_lines: bool,
    /// Addresses within modules.
    pub addresses: bool,
    /// Instruction at which each sample was taken.
    pub instructions: bool,
    /// Marks of inlined calls.
    pub inlined: bool,
    /// Distinction of kernel and user frames.
    pub kernel: bool,
    /// Kinds of frames: JIT-compiled, interpreted, markers.
    pub kinds: bool,
    /// Kinds of frames that have no module.
    pub bare_kinds: bool,
    /// Time at which the recording began.
    pub start: bool,
    /// Comments of the recording's author.
    pub comments: bool,
}

impl Capabilities {
    /// A format with room for everything.
    pub const ALL: Self = Self {
        stacks: true,
        columns: true,
        decimals: true,
        times: true,
        cpus: true,
        thread_names: true,
        thread_ids: true,
        hosts: true,
        modules: true,
        files: true,
        lines: true,
        start_lines: true,
        addresses: true,
        instructions: true,
        inlined: true,
        kernel: true,
        kinds: true,
        bare_kinds: true,
        start: true,
        comments: true,
    };

    /// A format with room for names and values alone.
    pub const NAMES: Self = Self {
        stacks: true,
        columns: false,
        decimals: false,
        times: false,
        cpus: false,
        thread_names: false,
        thread_ids: false,
        hosts: false,
        modules: false,
        files: false,
        lines: false,
        start_lines: false,
        addresses: false,
        instructions: false,
        inlined: false,
        kernel: false,
        kinds: false,
        bare_kinds: false,
        start: false,
        comments: false,
    };

    /// Describes the parts of `profile` that the format has no place for.
    pub(crate) fn missing(self, profile: &Profile) -> Vec<String> {
        let mut missing = Vec::new();
        let mut check = |held: bool, there: bool, what: &str| {
            if !held && there {
                missing.push(what.to_owned());
            }
        };
        let any_frame = |test: &dyn Fn(Frame) -> bool| profile.frames.iter().any(test);
        let any_thread = |test: &dyn Fn(Thread) -> bool| profile.threads.iter().any(test);
        // The names of some modules imply the kind of their code.
        let by_module = |frame: Frame| {
            self.modules && module_kind(profile.strings.get(frame.module)) == frame.kind
        };
        let kind = |is_one: &dyn Fn(FrameKind) -> bool| {
            let is_held =
                |frame: Frame| by_module(frame) || self.bare_kinds && frame.module.is_empty();
            any_frame(&|frame| is_one(frame.kind) && !is_held(frame))
        };
        // Other markers are recognized by their names.
        let is_special = |kind| {
            matches!(
                kind,
                FrameKind::Jit | FrameKind::Interpreted | FrameKind::Marker(Marker::Remark)
            )
        };
        check(self.stacks, true, "whole stacks (callers and callees are kept)");
        check(
            self.decimals,
            profile.value_types.iter().any(|of| of.decimals > 0),
            "decimals of values",
        );
        check(
            self.times,
            profile.samples.iter().any(|sample| sample.time.is_some()),
            "times of samples",
        );
        check(self.cpus, profile.samples.iter().any(|sample| sample.cpu.is_some()), "CPUs");
        check(
            self.thread_names,
            any_thread(&|thread| !thread.process.is_empty() || !thread.name.is_empty()),
            "names of processes and threads",
        );
        check(
            self.thread_ids,
            any_thread(&|thread| thread.pid.is_some() || thread.tid.is_some()),
            "numbers of processes and threads",
        );
        check(self.hosts, any_thread(&|thread| !thread.host.is_empty()), "names of machines");
        // A frame without a name is labelled with its module and address.
        let named = |frame: Frame| !frame.function.is_empty();
        check(self.modules, any_frame(&|f| named(f) && !f.module.is_empty()), "modules");
        check(self.files, any_frame(&|f| !f.file.is_empty()), "source files");
        check(self.lines, any_frame(&|f| f.line > 0), "source lines");
        // A format without lines cannot have start lines either: one message is enough.
        let lines_alone = self.lines && !self.start_lines;
        check(!lines_alone, any_frame(&|f| f.start_line > 0), "the lines where functions begin");
        check(self.addresses, any_frame(&|f| named(f) && f.address > 0), "addresses");
        check(self.inlined, kind(&|kind| kind == FrameKind::Inlined), "which calls were inlined");
        check(self.kernel, kind(&|kind| kind == FrameKind::Kernel), "which code is the kernel's");
        check(
            self.kinds,
            kind(&is_special),
            "which frames are JIT-compiled, interpreted, or markers",
        );
        check(self.comments, !profile.about.comments.is_empty(), "comments");
        check(self.start, profile.about.start.is_some(), "when it was recorded");
        let others = self.values_left_out(profile);
        if !others.is_empty() {
            missing.push(format!("the values {}", others.join(", ")));
        }
        missing
    }

    /// Names of the values that are lost because the format has one value only. The number of samples beside the shown
    /// value is not reported.
    pub fn values_left_out(self, profile: &Profile) -> Vec<&str> {
        let beside = profile.numbers_beside(profile.shown);
        let is_other = |column| column != profile.shown && Some(column) != beside;
        let others = profile.value_types.iter().enumerate();
        let others = others.filter(|(column, _)| !self.columns && is_other(*column));
        others.map(|(_, of)| of.name.as_str()).collect()
    }
}

/// Describes the values that are clamped because a format has signed 64-bit numbers; `None` if there are none.
pub(crate) fn above_i64(profile: &Profile) -> Option<String> {
    let columns = profile.value_types.iter().enumerate();
    let above = |(column, of): (usize, &ValueType)| {
        let divisor = 10u64.saturating_pow(of.decimals.into());
        let values = profile.samples.values(column).iter();
        values.filter(|value| *value / divisor > i64::MAX as u64).count()
    };
    let count: usize = columns.map(above).sum();
    (count > 0)
        .then(|| format!("{count} of the values are larger than {0}; written as {0}", i64::MAX))
}
