//! The start of a thread: functions of the C library and of language runtimes that run before the program's own code, the same
//! in every stack. Pictures draw them as one row.
//!
//! They are known by name, in code that was compiled; in text without modules nothing is taken for a start. What Rust's runtime
//! adds ends with `__rust_begin_short_backtrace`, by which its own backtraces are shortened (`std::backtrace`), and what an
//! interpreter adds ends before the first function of its language.

use pyrograph_profile::{FrameKind, Profile};

use crate::calls::Calls;

/// Role of a frame in the start of a thread, given that all its callers belong to the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StartPart {
    /// Not a part of it.
    #[default]
    None,
    /// Always a part: `_start`, `start_thread`, `runtime.goexit`.
    Always,
    /// A part if it leads to [`StartPart::Last`] or [`StartPart::Code`]: `main` in programs of Rust and in interpreters.
    Leading,
    /// The last function of a runtime before the program's own: a part.
    Last,
    /// A function of an interpreted language: not a part, but what leads to it is.
    Code,
    /// No function of a file: not a part, but a start may follow if it is a row at the root, of a process or thread.
    Row,
}

impl StartPart {
    /// Returns the role of a frame by its label, module and kind. `full` returns its full name, if the label is a shorter form; it
    /// is called if the label is not enough.
    pub fn of<'a>(
        name: &str,
        full: impl FnOnce() -> Option<&'a str>,
        module: &str,
        kind: FrameKind,
    ) -> Self {
        match Self::by_name(name, module, kind) {
            Self::None => full().map_or(Self::None, |full| Self::by_name(full, module, kind)),
            part => part,
        }
    }

    fn by_name(name: &str, module: &str, kind: FrameKind) -> Self {
        match kind {
            FrameKind::Interpreted | FrameKind::Jit => return Self::Code,
            FrameKind::Kernel | FrameKind::Marker(_) => return Self::None,
            FrameKind::User if module.is_empty() => return Self::Row,
            FrameKind::Inlined if module.is_empty() => return Self::None,
            FrameKind::User | FrameKind::Inlined => {}
        }
        let file = module.rsplit('/').next().unwrap_or(module);
        // Symbols have versions: `__libc_start_main@@GLIBC_2.34`.
        let plain = name.split_once('@').map_or(name, |(name, _)| name);
        if name.contains("__rust_begin_short_backtrace") {
            Self::Last
        } else if STARTS.contains(&plain) || is_call_once(name) || is_nameless_start(name, file) {
            Self::Always
        } else if leads_to_rust(name) || is_interpreter(file) {
            Self::Leading
        } else {
            Self::None
        }
    }

    /// Returns a number for it that is written to pages.
    pub fn code(self) -> u8 {
        self as u8
    }
}

/// Functions that only start a program or thread: of glibc, musl, libstdc++, and Go's runtime.
const STARTS: &[&str] = &[
    "_start",
    "__libc_start_main",
    "__libc_start_main_impl",
    "__libc_start_call_main",
    "libc_start_main_stage2",
    "generic_start_main",
    "clone",
    "__clone",
    "clone3",
    "__clone3",
    "start_thread",
    "execute_native_thread_routine",
    "runtime.goexit",
    "runtime.goexit.abi0",
    "runtime.main",
];

/// Calls of a closure, which stand before and after the last function of Rust's start.
fn is_call_once(name: &str) -> bool {
    name.contains("FnOnce") && name.contains("call_once")
}

/// A C library without symbols: what calls `main` and what calls a thread's function are local functions there.
fn is_nameless_start(name: &str, file: &str) -> bool {
    let is_c_library = ["libc.so", "libc-", "libpthread", "libc.musl", "ld-musl"]
        .iter()
        .any(|start| file.starts_with(start));
    is_c_library && name.strip_prefix(file).is_some_and(|rest| rest.starts_with("+0x"))
}

fn leads_to_rust(name: &str) -> bool {
    name == "main"
        || ["std::", "core::", "alloc::", "test::", "<std::", "<core::", "<alloc::"]
            .iter()
            .any(|path| name.starts_with(path))
}

/// Programs and libraries that run code of an interpreted language.
const INTERPRETERS: &[&str] = &[
    "python",
    "libpython",
    "java",
    "libjvm",
    "libjli",
    "node",
    "libnode",
    "ruby",
    "libruby",
    "perl",
    "libperl",
    "php",
    "php-fpm",
    "libphp",
    "lua",
    "luajit",
    "liblua",
    "libluajit",
    "deno",
    "bun",
    "beam",
    "dotnet",
    "libcoreclr",
    "libhostfxr",
    "libhostpolicy",
];

fn is_interpreter(file: &str) -> bool {
    let of = |name: &&str| {
        let rest = file.strip_prefix(*name);
        rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_alphabetic()))
    };
    INTERPRETERS.iter().any(of)
}

/// The nodes of a tree that belong to the start of a thread; modules are strings of `profile`.
pub(crate) fn start_nodes(profile: &Profile, calls: &impl Calls) -> Vec<bool> {
    let mut parts = vec![StartPart::None; calls.len()];
    // The whole, and rows at the root.
    let mut is_row = vec![false; calls.len()];
    is_row[0] = true;
    let may_go_on = |part| matches!(part, StartPart::Always | StartPart::Leading | StartPart::Last);
    for node in 1..calls.len() {
        let parent = calls.parent(node);
        if !is_row[parent] && !may_go_on(parts[parent]) {
            continue;
        }
        parts[node] = part_of(profile, calls, node);
        is_row[node] = is_row[parent] && parts[node] == StartPart::Row;
    }
    let mut leads = vec![false; calls.len()];
    for node in (1..calls.len()).rev() {
        leads[calls.parent(node)] |= match parts[node] {
            StartPart::None | StartPart::Row => false,
            StartPart::Always | StartPart::Leading => leads[node],
            StartPart::Last | StartPart::Code => true,
        };
    }
    let mut is_start = vec![false; calls.len()];
    for node in 1..calls.len() {
        let parent = calls.parent(node);
        is_start[node] = (is_row[parent] || is_start[parent])
            && match parts[node] {
                StartPart::None | StartPart::Row | StartPart::Code => false,
                StartPart::Always | StartPart::Last => true,
                StartPart::Leading => leads[node],
            };
    }
    is_start
}

/// Role of a node. Functions of one name in several modules have a role if it is the same for all.
fn part_of(profile: &Profile, calls: &impl Calls, node: usize) -> StartPart {
    let name = calls.name(node);
    let full = || {
        let full = profile.full_names.get(profile.strings.find(name)?)?;
        Some(profile.strings.get(full))
    };
    let part = |module: &str| StartPart::of(name, full, module, calls.kind(node));
    let modules = calls.modules(node);
    let mut parts = modules.iter().map(|&module| part(profile.strings.get(module)));
    let first = parts.next().unwrap_or_else(|| part(""));
    if parts.all(|part| part == first) { first } else { StartPart::None }
}

#[cfg(test)]
mod tests;
