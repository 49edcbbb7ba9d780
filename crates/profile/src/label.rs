//! What frames and threads are called where they are shown.

use crate::{Frame, FrameKind, Profile, StringId, Strings, Thread};

/// How the process stands at the root of its stacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProcessLabel {
    /// Not at all; stacks of all processes are merged.
    None,
    /// Its name, or that of its thread where threads have names of their own, as other
    /// profilers do; samples of which no name is known have none.
    #[default]
    Name,
    /// `name-PID`.
    Pid,
    /// `name-PID/TID`.
    PidTid,
}

/// How frames become labels.
#[derive(Clone, Debug, Default)]
pub struct LabelOptions {
    /// The label of the process.
    pub process: ProcessLabel,
    /// Mark kernel functions with `_[k]`.
    pub mark_kernel: bool,
    /// Mark functions that were compiled at run time with `_[j]`.
    pub mark_jit: bool,
    /// Mark inlined functions with `_[i]`.
    pub mark_inlined: bool,
    /// Mark frames that were found by a guess ([`Frame::guessed`]) with `_[g]`, before any other mark.
    pub mark_guessed: bool,
    /// Add `:file:line` where it is known.
    pub source: bool,
}

/// The labels of all frames and threads of a profile.
#[derive(Clone, Debug)]
pub struct Labels {
    /// The distinct labels.
    pub names: Strings,
    /// The label of each frame, by its identifier.
    pub frames: Vec<StringId>,
    /// The label that stands at the root of each thread's stacks, by its identifier; empty where
    /// there is none.
    pub threads: Vec<StringId>,
}

impl Labels {
    /// The labels of `profile`.
    pub fn new(profile: &Profile, options: &LabelOptions) -> Self {
        let mut names = Strings::default();
        let mut text = String::new();
        let frames = profile
            .frames
            .iter()
            .map(|frame| {
                text.clear();
                write_frame(&mut text, &profile.strings, frame, options);
                names.intern(&text)
            })
            .collect();
        let process = if profile.rooted { ProcessLabel::None } else { options.process };
        let threads = profile
            .threads
            .iter()
            .map(|thread| names.intern(&process_label(&profile.strings, thread, process)))
            .collect();
        Self { names, frames, threads }
    }
}

/// What stands at the root of a thread's stacks; empty if nothing is known of it.
fn process_label(strings: &Strings, thread: Thread, label: ProcessLabel) -> String {
    let name = if thread.name.is_empty() { thread.process } else { thread.name };
    let known = !name.is_empty() || thread.pid.is_some();
    let name = strings.get(name);
    let number = |id: Option<i32>| id.map_or("?".to_owned(), |id| id.to_string());
    match label {
        ProcessLabel::None => String::new(),
        _ if !known => String::new(),
        ProcessLabel::Name => name.to_owned(),
        ProcessLabel::Pid => format!("{name}-{}", number(thread.pid)),
        ProcessLabel::PidTid => format!("{name}-{}/{}", number(thread.pid), number(thread.tid)),
    }
}

/// The label of a frame. Without a symbol it is the module's file name and the offset in it, or the
/// module alone in brackets, never a guess.
fn write_frame(label: &mut String, strings: &Strings, frame: Frame, options: &LabelOptions) {
    use std::fmt::Write;

    if frame.function.is_empty() {
        let module = strings.get(frame.module);
        let module = module.rsplit('/').next().unwrap_or(module);
        let written = match (module, frame.address) {
            ("", 0) => write!(label, "[unknown]"),
            ("", address) => write!(label, "[unknown {address:#x}]"),
            // `[heap]`, `[vdso]`: brackets of its own.
            (module, 0) if module.starts_with('[') => write!(label, "{module}"),
            (module, 0) => write!(label, "[{module}]"),
            (module, address) => write!(label, "{module}+{address:#x}"),
        };
        written.expect("writing to a string does not fail");
    } else {
        label.push_str(strings.get(frame.function));
    }
    if options.source && !frame.file.is_empty() {
        let file = strings.get(frame.file);
        match frame.line {
            0 => write!(label, ":{file}"),
            line => write!(label, ":{file}:{line}"),
        }
        .expect("writing to a string does not fail");
    }
    if frame.guessed && options.mark_guessed {
        label.push_str("_[g]");
    }
    label.push_str(match frame.kind {
        FrameKind::Kernel if options.mark_kernel => "_[k]",
        FrameKind::Jit if options.mark_jit => "_[j]",
        FrameKind::Inlined if options.mark_inlined => "_[i]",
        _ => "",
    });
}
