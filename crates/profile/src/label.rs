//! Labels of frames and threads.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Frame, FrameId, FrameKind, Profile, StringId, Strings, Thread};

/// Label of the process at the root of stacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProcessLabel {
    /// No label; stacks of all processes are merged.
    None,
    /// Name of the thread if it has one of its own, as in other profilers; otherwise name of the process. No label if
    /// neither is known.
    #[default]
    Name,
    /// `name-PID`.
    Pid,
    /// `name-PID/TID`.
    PidTid,
    /// `name-PID` with the name of the process, even if the thread has its own name.
    Process,
    /// Name of the thread. Threads whose names differ only in numbers get one common name, such as `pool-*-thread-*`.
    Pool,
}

/// Options for labels.
#[derive(Clone, Debug, Default)]
pub struct LabelOptions {
    /// Label of the process.
    pub process: ProcessLabel,
    /// Mark kernel functions with `_[k]`.
    pub mark_kernel: bool,
    /// Mark functions that were compiled at run time with `_[j]`.
    pub mark_jit: bool,
    /// Mark inlined functions with `_[i]`.
    pub mark_inlined: bool,
    /// Mark frames that were found by a guess ([`Frame::guessed`]) with `_[g]`, in front of any other mark.
    pub mark_guessed: bool,
    /// Append `:file:line` if known.
    pub source: bool,
    /// Append the line if known: `function (file:line)`, the file without its directory.
    pub lines: bool,
}

/// The labels of all frames and threads of a profile.
#[derive(Clone, Debug)]
pub struct Labels {
    /// The distinct labels.
    pub names: Strings,
    /// Label of each frame, by frame identifier.
    pub frames: Vec<StringId>,
    /// Label at the root of each thread's stacks, by thread identifier; empty if there is none.
    pub threads: Vec<StringId>,
}

impl Labels {
    /// Label of a frame of which nothing is known.
    pub const UNKNOWN: &str = "[unknown]";

    /// Creates the labels of `profile`.
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
        let threads = Self::of_threads(profile, options.process);
        let threads = threads.iter().map(|label| names.intern(label)).collect();
        Self { names, frames, threads }
    }

    /// Returns the label of each thread. It is empty if nothing is known of the thread, and for profiles whose stacks
    /// already begin with one.
    pub fn of_threads(profile: &Profile, process: ProcessLabel) -> Vec<String> {
        let process = if profile.rooted { ProcessLabel::None } else { process };
        let strings = &profile.strings;
        match process {
            ProcessLabel::Process => of_processes(profile),
            ProcessLabel::Pool => of_pools(profile),
            _ => profile.threads.iter().map(|of| process_label(strings, of, process)).collect(),
        }
    }
}

impl Profile {
    /// Returns the name of a frame for people. A frame without a function has its module and offset, as in
    /// `libfoo.so+0x1c2`. [`Labels`] has the names of all frames, with marks and places.
    pub fn frame_name(&self, id: FrameId) -> String {
        let mut name = String::new();
        write_frame(&mut name, &self.strings, self.frames.get(id), &LabelOptions::default());
        name
    }
}

/// Labels of threads by process. If a source names only threads, the process has the name of the thread whose ID is the
/// process ID.
fn of_processes(profile: &Profile) -> Vec<String> {
    let mut main: BTreeMap<(StringId, i32), StringId> = BTreeMap::new();
    for thread in profile.threads.iter().filter(|of| of.name.is_empty() && of.tid == of.pid) {
        if let Some(pid) = thread.pid {
            // Later entries replace earlier ones: the last name is from the last executed program.
            main.insert((thread.host, pid), thread.process);
        }
    }
    let own = |thread: Thread| {
        let named = thread.pid.filter(|_| thread.name.is_empty() && thread.tid != thread.pid);
        let process = named.and_then(|pid| main.get(&(thread.host, pid)).copied());
        let process = process.unwrap_or(thread.process);
        let name = if process.is_empty() { thread.name } else { process };
        process_label(&profile.strings, Thread { name, ..thread }, ProcessLabel::Pid)
    };
    profile.threads.iter().map(own).collect()
}

/// Labels of threads by pool.
fn of_pools(profile: &Profile) -> Vec<String> {
    let name = |thread| process_label(&profile.strings, thread, ProcessLabel::Name);
    let names: Vec<String> = profile.threads.iter().map(name).collect();
    let pools: Vec<String> = names.iter().map(|name| without_numbers(name)).collect();
    let mut members: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (pool, name) in pools.iter().zip(&names) {
        members.entry(pool).or_default().insert(name);
    }
    let is_pool = |pool: &String| members[pool.as_str()].len() > 1;
    let label = |(pool, name): (&String, &String)| if is_pool(pool) { pool } else { name }.clone();
    pools.iter().zip(&names).map(label).collect()
}

/// Replaces each number in a name by `*`.
fn without_numbers(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for c in name.chars() {
        match c {
            '0'..='9' if text.ends_with('*') => {}
            '0'..='9' => text.push('*'),
            c => text.push(c),
        }
    }
    text
}

/// Label at the root of a thread's stacks; empty if neither name nor process ID is known.
fn process_label(strings: &Strings, thread: Thread, label: ProcessLabel) -> String {
    let name = if thread.name.is_empty() { thread.process } else { thread.name };
    let known = !name.is_empty() || thread.pid.is_some();
    let name = strings.get(name);
    let number = |id: Option<i32>| id.map_or("?".to_owned(), |id| id.to_string());
    match label {
        ProcessLabel::None => String::new(),
        _ if !known => String::new(),
        ProcessLabel::Name | ProcessLabel::Pool => name.to_owned(),
        ProcessLabel::Pid | ProcessLabel::Process => format!("{name}-{}", number(thread.pid)),
        ProcessLabel::PidTid => format!("{name}-{}/{}", number(thread.pid), number(thread.tid)),
    }
}

/// Writes the label of a frame. Without a symbol it is the module's file name and the offset in it, or the module alone
/// in brackets; never the nearest symbol.
fn write_frame(label: &mut String, strings: &Strings, frame: Frame, options: &LabelOptions) {
    use std::fmt::Write;

    if frame.function.is_empty() {
        let module = strings.get(frame.module);
        let module = module.rsplit('/').next().unwrap_or(module);
        let written = match (module, frame.address) {
            ("", 0) => write!(label, "{}", Labels::UNKNOWN),
            ("", address) => write!(label, "[unknown {address:#x}]"),
            // `[heap]` and `[vdso]` already have brackets.
            (module, 0) if module.starts_with('[') => write!(label, "{module}"),
            (module, 0) => write!(label, "[{module}]"),
            (module, address) => write!(label, "{module}+{address:#x}"),
        };
        // Writing to a string cannot fail.
        let _ = written;
    } else {
        label.push_str(strings.get(frame.function));
    }
    if options.source && !frame.file.is_empty() {
        let file = strings.get(frame.file);
        let _ = match frame.line {
            0 => write!(label, ":{file}"),
            line => write!(label, ":{file}:{line}"),
        };
    }
    if options.lines && frame.line > 0 {
        let file = strings.get(frame.file);
        let file = file.rsplit('/').next().unwrap_or(file);
        let _ = match file {
            "" => write!(label, " (line {})", frame.line),
            file => write!(label, " ({file}:{})", frame.line),
        };
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Threads by (process, thread, name of the process, name of the thread).
    fn check(threads: &[(i32, i32, &str, &str)], label: ProcessLabel, expect: &[&str]) {
        let mut profile = Profile::default();
        for &(pid, tid, process, name) in threads {
            let (process, name) = (profile.strings.intern(process), profile.strings.intern(name));
            let (pid, tid) = (Some(pid), Some(tid));
            profile.threads.intern(Thread { pid, tid, process, name, ..Thread::default() });
        }
        let labels =
            Labels::new(&profile, &LabelOptions { process: label, ..LabelOptions::default() });
        let found: Vec<&str> = labels.threads[1..].iter().map(|&id| labels.names.get(id)).collect();
        assert_eq!(found, expect);
    }

    #[test]
    fn processes_were_called_after_their_threads() {
        let java = [(7, 7, "java", "java"), (7, 9, "java", "pool-1-thread-2")];
        check(&java, ProcessLabel::Process, &["java-7", "java-7"]);
        // As of perf script, which prints names of threads only.
        let script = [(7, 9, "pool-1-thread-2", ""), (7, 7, "java", ""), (8, 8, "sh", "")];
        check(&script, ProcessLabel::Process, &["java-7", "java-7", "sh-8"]);
        check(&script[..1], ProcessLabel::Process, &["pool-1-thread-2-7"]);
    }

    #[test]
    fn a_frame_without_a_function_is_named_by_its_place() {
        let mut profile = Profile::default();
        let module = profile.strings.intern("/usr/lib/libfoo.so");
        let main = profile.strings.intern("main");
        let frame = Frame::named(StringId::EMPTY, FrameKind::User);
        for (frame, name) in [
            (Frame { module, address: 0x1c2, ..frame }, "libfoo.so+0x1c2"),
            (Frame { function: main, module, address: 0x1c2, ..frame }, "main"),
            (Frame { module, ..frame }, "[libfoo.so]"),
            (frame, "[unknown]"),
        ] {
            let id = profile.frames.intern(frame);
            assert_eq!(profile.frame_name(id), name);
        }
    }

    #[test]
    fn lines_are_in_labels_that_ask_for_them() {
        let mut profile = Profile::default();
        let mut add = |file: &str, line, kind| {
            let function = profile.strings.intern("f");
            let file = profile.strings.intern(file);
            profile.frames.intern(Frame { file, line, ..Frame::named(function, kind) });
        };
        add("/src/a.py", 7, FrameKind::Interpreted);
        add("/src/a.py", 0, FrameKind::Interpreted);
        add("", 7, FrameKind::Interpreted);
        add("/src/a.c", 7, FrameKind::User);
        for (lines, expect) in
            [(true, ["f (a.py:7)", "f", "f (line 7)", "f (a.c:7)"]), (false, ["f"; 4])]
        {
            let options = LabelOptions { lines, ..LabelOptions::default() };
            let labels = Labels::new(&profile, &options);
            let found: Vec<&str> = labels.frames.iter().map(|&id| labels.names.get(id)).collect();
            assert_eq!(found, expect);
        }
    }

    #[test]
    fn threads_of_a_pool_are_one() {
        let threads = [
            (7, 7, "java", "main"),
            (7, 8, "java", "pool-1-thread-2"),
            (7, 9, "java", "pool-1-thread-17"),
            (7, 10, "java", "GC Thread#0"),
        ];
        let expect = ["main", "pool-*-thread-*", "pool-*-thread-*", "GC Thread#0"];
        check(&threads, ProcessLabel::Pool, &expect);
    }
}
