//! Code without names: functions of stripped files, code generated at run time, and interpreted code.

use std::cmp::Reverse;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use pyrograph_profile::{FrameKind, Profile, StackId, StringId};

/// Values of samples in code without names, highest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nameless {
    /// By the path of the file that contains the code.
    pub modules: Vec<(String, u64)>,
    /// In code generated at run time, by process.
    pub jit: Vec<NamelessJit>,
    /// In unsupported interpreters or below them: language, path of the interpreter, and value.
    pub interpreters: Vec<(&'static str, String, u64)>,
}

/// Samples in code without names that was generated at run time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamelessJit {
    /// Name of the process.
    pub process: String,
    /// Path of the file from which most of it was called; empty if it is not known.
    pub caller: String,
    /// Value of the samples.
    pub value: u64,
}

/// Language of an unsupported interpreter, by its file name.
fn language(path: &str) -> Option<&'static str> {
    let name = path.rsplit('/').next().unwrap_or(path);
    // `lua5.4`, `liblua5.4.so.0`, `lua`, `liblua.so.5.4.6`; LuaJIT's is `libluajit-5.1.so.2`.
    let lua = name.strip_prefix("lib").unwrap_or(name).strip_prefix("lua");
    if lua.is_some_and(|rest| rest.is_empty() || rest.starts_with(['5', '.'])) {
        return Some("Lua");
    }
    // R's own executable is a script that starts `R.bin`, a stub for the library.
    (name == "libR.so").then_some("R")
}

/// Values by interpreter of the samples in it or in its callees.
fn interpreters(profile: &Profile, column: usize) -> Vec<(&'static str, String, u64)> {
    let mut known: HashMap<StringId, bool, FixedState> = HashMap::default();
    let mut is_one = |module| {
        *known.entry(module).or_insert_with(|| language(profile.strings.get(module)).is_some())
    };
    // For each stack, the innermost interpreter. Callers come first; the root has none.
    let mut nearest: Vec<Option<StringId>> = vec![None];
    for (caller, frame) in profile.stacks.rows() {
        let module = profile.frames.get(frame).module;
        nearest.push(if is_one(module) { Some(module) } else { nearest[caller.index()] });
    }
    let mut sums: HashMap<StringId, u64, FixedState> = HashMap::default();
    for (sample, value) in profile.samples.iter().zip(profile.samples.values(column)) {
        if let Some(module) = nearest[sample.stack.index()] {
            *sums.entry(module).or_default() += value;
        }
    }
    let row = |(module, value)| {
        let path = profile.strings.get(module);
        Some((language(path)?, path.to_owned(), value))
    };
    let mut rows: Vec<_> = sums.into_iter().filter_map(row).collect();
    rows.sort_by(|a, b| b.2.cmp(&a.2).then_with(|| a.1.cmp(&b.1)));
    rows
}

/// Returns true if a module is a file, and not memory that looks like one.
fn is_file(module: &str) -> bool {
    module.starts_with('/') && !module.starts_with("/memfd:")
}

/// Returns the file of the innermost frame of a stack that is in one, or an empty string.
fn calling_file(profile: &Profile, stack: StackId) -> StringId {
    let modules = profile.stacks.leaf_first(stack).map(|frame| profile.frames.get(frame).module);
    modules.into_iter().find(|module| is_file(profile.strings.get(*module))).unwrap_or_default()
}

/// Sums the samples of a column that end in code without a name.
pub fn nameless(profile: &Profile, column: usize) -> Nameless {
    let mut modules: HashMap<StringId, u64, FixedState> = HashMap::default();
    // By process, and by the file from which it was called.
    let mut jit: HashMap<StringId, HashMap<StringId, u64, FixedState>, FixedState> =
        HashMap::default();
    let values = profile.samples.values(column);
    for (row, sample) in profile.samples.iter().enumerate() {
        let Some((_, frame)) = profile.stacks.get(sample.stack) else { continue };
        let frame = profile.frames.get(frame);
        if !frame.function.is_empty() || matches!(frame.kind, FrameKind::Marker(_)) {
            continue;
        }
        let module = profile.strings.get(frame.module);
        if is_file(module) {
            *modules.entry(frame.module).or_default() += values[row];
        } else if frame.kind == FrameKind::Jit || module.is_empty() || module.contains("anon") {
            let thread = profile.threads.get(sample.thread);
            let name = if thread.process.is_empty() { thread.name } else { thread.process };
            let caller = calling_file(profile, sample.stack);
            *jit.entry(name).or_default().entry(caller).or_default() += values[row];
        }
    }
    let jit_of = |(process, callers): (StringId, HashMap<StringId, u64, FixedState>)| {
        let path = |caller: &StringId| profile.strings.get(*caller).to_owned();
        let value = callers.values().sum();
        let caller = callers.iter().map(|(caller, value)| (value, Reverse(path(caller)))).max();
        let process = profile.strings.get(process).to_owned();
        NamelessJit { process, caller: caller.map(|of| of.1.0).unwrap_or_default(), value }
    };
    let mut jit: Vec<NamelessJit> = jit.into_iter().map(jit_of).collect();
    jit.sort_by(|a, b| b.value.cmp(&a.value).then_with(|| a.process.cmp(&b.process)));
    let sorted = |of: HashMap<StringId, u64, FixedState>| {
        let name = |(name, value)| (profile.strings.get(name).to_owned(), value);
        let mut rows: Vec<(String, u64)> = of.into_iter().map(name).collect();
        rows.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        rows
    };
    let interpreters = interpreters(profile, column);
    Nameless { modules: sorted(modules), jit, interpreters }
}

#[cfg(test)]
mod tests {
    use pyrograph_profile::{Frame, Sample, Thread, ValueType};

    use super::*;

    #[test]
    fn code_that_a_library_made_is_called_by_it() {
        let mut profile = Profile::new(vec![ValueType::new("samples", "count")]);
        let thread = profile.strings.intern("python3");
        let thread = profile.threads.intern(Thread { process: thread, ..Thread::default() });
        let mut add = |modules: &[&str], value| {
            let frames = modules.iter().map(|name| {
                let module = profile.strings.intern(name);
                let function = profile.strings.intern(if name.is_empty() { "" } else { "f" });
                profile.frames.intern(Frame { function, module, ..Frame::default() })
            });
            let frames: Vec<_> = frames.collect();
            let stack = profile.stacks.intern_path(frames);
            profile.push(Sample { thread, ..Sample::new(stack) }, &[value]);
        };
        add(&["/bin/python3", "/lib/libtorch_cpu.so", ""], 30);
        add(&["/bin/python3", "/lib/libtorch_cpu.so", "", ""], 10);
        add(&["/bin/python3", ""], 5);
        let jit = NamelessJit {
            process: "python3".to_owned(),
            caller: "/lib/libtorch_cpu.so".to_owned(),
            value: 45,
        };
        assert_eq!(nameless(&profile, 0).jit, [jit]);
    }

    #[test]
    fn interpreters_that_are_not_read_have_what_they_call() {
        let mut profile = Profile::new(vec![ValueType::new("samples", "count")]);
        let mut add = |modules: &[&str], value| {
            let frames = modules.iter().map(|module| {
                let module = profile.strings.intern(module);
                let function = profile.strings.intern("f");
                profile.frames.intern(Frame { function, module, ..Frame::default() })
            });
            let frames: Vec<_> = frames.collect();
            let stack = profile.stacks.intern_path(frames);
            profile.push(Sample::new(stack), &[value]);
        };
        add(&["/bin/app", "/lib/libR.so", "/lib/libm.so.6"], 5);
        add(&["/lib/libR.so"], 2);
        add(&["/lib/libR.so", "/usr/lib/x86_64-linux-gnu/liblua5.4.so.0.0.6"], 30);
        add(&["/bin/app", "/lib/libluajit-5.1.so.2"], 100);
        add(&["/usr/bin/luatex", "/lib/libm.so.6"], 100);
        add(&[], 1);
        assert_eq!(
            nameless(&profile, 0).interpreters,
            [
                ("Lua", "/usr/lib/x86_64-linux-gnu/liblua5.4.so.0.0.6".to_owned(), 30),
                ("R", "/lib/libR.so".to_owned(), 7),
            ]
        );
    }
}
