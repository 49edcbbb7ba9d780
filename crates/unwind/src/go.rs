//! Unwind rules of Go functions: their frame sizes are in Go's own table, which stripped programs have, too.

use std::ops::Range;

use pyrograph_go::Function;

use crate::code::Tableless;
use crate::info::UnwindInfo;
use crate::instructions::is_signal_return;
use crate::registers::Arch;
use crate::rule::{Cfa, Compact, Goroutine, Rule};

/// Functions at which stacks begin. Goroutines return to `goexit`. The other functions run on the scheduler's stack
/// of a thread: they switch to it from the stack of a goroutine, or never return. Go's own traceback also stops
/// there, or continues with data about the goroutine that only the runtime has.
const FIRST: [&[u8]; 11] = [
    b"runtime.goexit",
    b"runtime.mstart",
    b"runtime.mcall",
    b"runtime.gogo",
    b"gogo",
    b"runtime.morestack",
    b"runtime.rt0_go",
    b"_rt0_amd64",
    b"_rt0_amd64_linux",
    b"runtime.goexit.abi0",
    b"runtime.mstart.abi0",
];

/// Functions that run another function on the thread's stack for a goroutine, and return to the goroutine's stack.
const LEAVE_GOROUTINE: [&[u8]; 4] = [
    b"runtime.systemstack",
    b"runtime.systemstack.abi0",
    b"runtime.asmcgocall",
    b"runtime.asmcgocall.abi0",
];

/// Function through which C calls Go.
const CALL_BACK: [&[u8]; 2] = [b"runtime.cgocallback", b"runtime.cgocallback.abi0"];

/// Functions that call the vDSO on the scheduler's stack, and keep their stack pointer in a register.
const CALL_VDSO: [&[u8]; 4] =
    [b"runtime.nanotime1", b"runtime.walltime", b"runtime.walltime1", b"time.now"];

const RSP: u8 = 7;
const R12: u8 = 12;

/// Instruction that keeps the stack pointer: `mov %rsp,%r12`.
const KEEP: [u8; 3] = [0x49, 0x89, 0xe4];

impl UnwindInfo {
    fn go_table(&self) -> Option<pyrograph_go::Table<'_>> {
        Some(self.go()?.table(self.bytes())).filter(|_| self.arch() == Arch::X86_64)
    }

    /// Addresses of the Go function that holds an address.
    pub(crate) fn go_function(&self, svma: u64) -> Option<Range<u64>> {
        self.go_table()?.lookup(svma).map(|function| function.start..function.end)
    }

    /// Rule for an address; `None` if it is not in a Go function.
    pub(crate) fn go_rule(&self, svma: u64) -> Option<Rule> {
        let function = self.go_table()?.lookup(svma)?;
        let kind = self.go_kind(&function);
        let size = function.frame_size(svma);
        kind.rule(svma, size)
    }

    /// Passes the rules of each Go function to `take`: its addresses, and each rule with the address from which it
    /// applies.
    pub(crate) fn go_rules(&self, mut take: impl FnMut(Range<u64>, &[(u64, Rule)])) {
        let mut rules = Vec::new();
        for function in self.go_table().into_iter().flat_map(pyrograph_go::Table::functions) {
            let kind = self.go_kind(&function);
            rules.clear();
            if let Some(rule) = kind.rule(function.start, None) {
                rules.push((function.start, rule));
            } else {
                for (range, size) in function.frame_sizes() {
                    let start = range.start.min(function.end);
                    rules.extend(kind.rule(start, Some(size)).map(|rule| (start, rule)));
                    for change in kind.changes().filter(|change| range.contains(change)) {
                        rules.extend(kind.rule(change, Some(size)).map(|rule| (change, rule)));
                    }
                }
            }
            if !rules.is_empty() {
                take(function.start..function.end, &rules);
            }
        }
    }

    fn go_kind(&self, function: &Function<'_>) -> Kind {
        const LONGEST: u64 = 4096;
        if self.code_from(function.start).is_some_and(is_signal_return) {
            return Kind::SignalReturn;
        }
        let Some(name) = function.name() else { return Kind::Plain };
        if FIRST.contains(&name) {
            return Kind::First;
        }
        let len = (function.end - function.start).min(LONGEST) as usize;
        let code = || self.code(function.start, len).unwrap_or_default();
        if LEAVE_GOROUTINE.contains(&name) {
            let frame = function.frame_size(function.start + len as u64 / 2);
            let left = Left::find(function.start, code(), frame.unwrap_or(0));
            return left.map_or(Kind::First, Kind::LeavesGoroutine);
        }
        if CALL_BACK.contains(&name) {
            return self.calls_back(function, code());
        }
        if CALL_VDSO.contains(&name) {
            let code = code();
            let keeps = code.windows(KEEP.len()).position(|code| code == KEEP);
            if let Some(at) = keeps {
                let kept = function.start + (at + KEEP.len()) as u64;
                return Kind::CallsVdso { kept, size: function.frame_size(kept).unwrap_or(0) };
            }
        }
        Kind::Plain
    }

    /// Finds the call in `cgocallback`, which calls Go on the stack of the goroutine that called C. There, its
    /// frame returns to the first instruction of `systemstack_switch` (since Go 1.21, to one after a call), which
    /// represents the function that left the goroutine.
    fn calls_back(&self, function: &Function<'_>, code: &[u8]) -> Kind {
        let Some(table) = self.go_table() else { return Kind::Plain };
        let is_named = |function: &Function<'_>, names: [&[u8]; 2]| {
            function.name().is_some_and(|name| names.contains(&name))
        };
        let switch = [b"runtime.systemstack_switch", b"runtime.systemstack_switch.abi0" as &[u8]];
        let switch = table.functions().find(|of| is_named(of, switch));
        if switch.is_none_or(|switch| switch.frame_sizes().any(|(_, size)| size > 0)) {
            return Kind::Plain;
        }
        let back = [b"runtime.cgocallbackg", b"runtime.cgocallbackg.abi0" as &[u8]];
        // lea …(%rip),%rax; call *%rax
        let call = code.windows(9).enumerate().find_map(|(at, code)| {
            let target = i32::from_le_bytes(*code[3..].first_chunk()?);
            let next = function.start + at as u64 + 7;
            let target = next.wrapping_add_signed(target.into());
            let is_call = code[..3] == [0x48, 0x8d, 0x05] && code[7..] == [0xff, 0xd0];
            let is_it = is_call && table.lookup(target).is_some_and(|of| is_named(&of, back));
            is_it.then_some(next)
        });
        call.map_or(Kind::Plain, |call| Kind::CallsBack {
            call,
            size: function.frame_size(call).unwrap_or(0),
        })
    }
}

/// Kind of a function.
#[derive(Clone, Copy)]
enum Kind {
    Plain,
    First,
    SignalReturn,
    /// From `kept` on, `r12` holds the function's stack pointer, as it was with a frame of `size` bytes.
    CallsVdso {
        kept: u64,
        size: i32,
    },
    LeavesGoroutine(Left),
    /// The call at address `call` is made on another stack, with a frame of `size` bytes below a second return address.
    CallsBack {
        call: u64,
        size: i32,
    },
}

/// Size of `call *%rax` in bytes.
const CALL: u64 = 2;

/// Addresses (start, end) at which a function runs on the stack of the thread, and how to find the goroutine's
/// stack there: for calls made on a goroutine's stack and, in `asmcgocall`, for calls made on the thread's stack
/// already.
#[derive(Clone, Copy)]
struct Left([Option<(u64, u64, Goroutine)>; 2]);

impl Left {
    /// Finds these from the instructions (runtime/asm_amd64.s of Go 1.17 to 1.26): offsets in structures and frames
    /// change between releases.
    fn find(start: u64, code: &[u8], frame: i32) -> Option<Self> {
        // Includes the return address.
        let add = i16::try_from(frame).ok()?.checked_add(8)?;
        Self::by_current(start, code, add).or_else(|| Self::by_frame(start, code, add))
    }

    /// Matches `systemstack`: from the switch to the thread's stack to the switch back to the goroutine's.
    fn by_current(start: u64, code: &[u8], add: i16) -> Option<Self> {
        // mov 0x30(%rax),%rbx; mov %rdx,%r14
        after(code, 0, &[0x48, 0x8b, 0x58, Goroutine::THREAD])?;
        let set = after(code, 0, &[0x49, 0x89, 0xd6])?;
        // mov 0x38(%rdx),%rsp, or by way of %rbx.
        let pointer = Goroutine::STACK_POINTER;
        let from = after(code, set, &[0x48, 0x8b, 0x62, pointer])
            .or_else(|| after(code, set, &[0x48, 0x8b, 0x5a, pointer, 0x48, 0x89, 0xdc]))?;
        // cmp …(%rbx),%rax: the goroutine that the thread runs is the one that calls.
        let at = after(&code[..set], 0, &[0x48, 0x3b, 0x83])?;
        let current = i32::from_le_bytes(*code.get(at..)?.first_chunk()?);
        // mov 0x38(%rax),%rsp
        let to = after(code, from, &[0x48, 0x8b, 0x60, pointer])?;
        let found = Goroutine::Current { current, add };
        Some(Self([Some((start + from as u64, start + to as u64, found)), None]))
    }

    /// Matches `asmcgocall`, which keeps the necessary values in its frame.
    fn by_frame(start: u64, code: &[u8], add: i16) -> Option<Self> {
        // mov 8(%rdi),%rdi; sub %rdx,%rdi
        let end = [0x48, 0x8b, 0x7f, Goroutine::STACK_END, 0x48, 0x29, 0xd7];
        let below = after(code, 0, &end)?;
        // mov %rdi,…(%rsp), before and after it; movq $0,…(%rsp); mov %rdx,…(%rsp)
        let (goroutine, _) = stored(&code[..below], 0, 0x3c)?;
        let (depth, from) = stored(code, below, 0x3c)?;
        let (same_depth, from_thread) = stored(code, from, 0x14)?;
        // mov %rsi,%rsp
        let back = |from: usize| after(code, from, &[0x48, 0x89, 0xf4]);
        let found = (depth == same_depth).then_some(Goroutine::Kept { goroutine, depth, add })?;
        let part = |from: usize| Some((start + from as u64, start + back(from)? as u64, found));
        Some(Self([part(from), part(from_thread)]))
    }
}

/// Offset after the first match of `instructions` in `code`, from offset `from` on.
fn after(code: &[u8], from: usize, instructions: &[u8]) -> Option<usize> {
    let rest = code.get(from..)?;
    let at = rest.windows(instructions.len()).position(|code| code == instructions)?;
    Some(from + at + instructions.len())
}

/// Finds the first `mov %reg,…(%rsp)` with an offset of 0 to 127; returns this offset, and the offset of the code
/// after it. `register` is the ModR/M byte of the form without an offset.
fn stored(code: &[u8], from: usize, register: u8) -> Option<(u8, usize)> {
    let without = after(code, from, &[0x48, 0x89, register, 0x24]).map(|at| (0, at));
    let with = after(code, from, &[0x48, 0x89, register | 0x40, 0x24])
        .and_then(|at| Some((*code.get(at)?, at + 1)));
    [without, with].into_iter().flatten().min_by_key(|&(_, at)| at)
}

impl Kind {
    /// Addresses at which another rule begins, besides those at which the frame size changes.
    fn changes(self) -> impl Iterator<Item = u64> {
        let places = match self {
            Self::CallsVdso { kept, .. } => [Some(kept), None, None, None],
            Self::CallsBack { call, .. } => [Some(call), Some(call + CALL), None, None],
            Self::LeavesGoroutine(Left([one, other])) => {
                let from = |part: Option<(u64, u64, _)>| part.map(|(from, _, _)| from);
                let to = |part: Option<(u64, u64, _)>| part.map(|(_, to, _)| to);
                [from(one), to(one), from(other), to(other)]
            }
            _ => [None; 4],
        };
        places.into_iter().flatten()
    }

    fn rule(self, svma: u64, size: Option<i32>) -> Option<Rule> {
        match self {
            Self::First => Some(Rule::Root),
            Self::SignalReturn => Some(Rule::Missing(Tableless::SignalReturn)),
            Self::CallsVdso { kept, size } if svma >= kept => {
                Some(Rule::Switch { register: R12, offset: size.checked_add(8)? })
            }
            Self::LeavesGoroutine(Left(parts))
                if let Some((_, _, goroutine)) = parts
                    .into_iter()
                    .flatten()
                    .find(|(from, to, _)| (*from..*to).contains(&svma)) =>
            {
                Some(Rule::Goroutine(goroutine))
            }
            Self::CallsBack { call, size } if (call..call + CALL).contains(&svma) => {
                let cfa = Cfa::Offset { register: RSP, offset: size.checked_add(16)? };
                Some(Rule::Compact(Compact { cfa, saved: [0; 12] }))
            }
            Self::Plain
            | Self::CallsVdso { .. }
            | Self::LeavesGoroutine(_)
            | Self::CallsBack { .. } => {
                let offset = size.filter(|&size| size >= 0)?.checked_add(8)?;
                let cfa = Cfa::Offset { register: RSP, offset };
                Some(Rule::Compact(Compact { cfa, saved: [0; 12] }))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::info::Context;
    use crate::rule::Compiled;
    use crate::table::TableRuleKind;

    /// A small program; none if Go is not installed.
    fn program(name: &str, flags: &str) -> Option<UnwindInfo> {
        let folder =
            std::env::temp_dir().join(format!("pyrograph-go-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let (source, out) = (folder.join("main.go"), folder.join("main"));
        std::fs::write(&source, "package main\nfunc main() { println(1) }\n").expect("a file");
        let mut build = Command::new("go");
        build.env("GO111MODULE", "off").args(["build", flags, "-o"]).args([&out, &source]);
        let built = build.status();
        let bytes = std::fs::read(&out);
        let _ = std::fs::remove_dir_all(&folder);
        if built.is_err() {
            eprintln!("skipped: Go's tables need golang-go");
            return None;
        }
        let info = UnwindInfo::from_bytes(bytes.expect("it was built"));
        Some(info.expect("an ELF file"))
    }

    /// The linker makes `.debug_frame` of the same numbers.
    #[test]
    fn frame_sizes_are_those_of_the_debug_frame() {
        let Some(info) = program("sizes", "-ldflags=") else { return };
        let (table, mut context) = (info.table(), Context::new_in());
        let (mut compared, mut first) = (0, 0);
        for function in info.go_table().expect("Go's").functions() {
            for svma in (function.start..function.end).step_by(3) {
                let Some(rule) = info.go_rule(svma) else { continue };
                let by_kernel = table.rule(svma).copied().expect("a row");
                match rule {
                    Rule::Compact(rule) => {
                        let Compiled::Rule(Rule::Compact(other)) =
                            info.rule_in_debug_frame(0, svma, &mut context)
                        else {
                            continue;
                        };
                        assert_eq!(rule.cfa, other.cfa, "{svma:#x}");
                        let Cfa::Offset { offset, .. } = rule.cfa else { panic!("{rule:?}") };
                        let kernel = (by_kernel.kind, by_kernel.base, by_kernel.offset);
                        assert_eq!(kernel, (TableRuleKind::Offset, RSP, offset), "{svma:#x}");
                        compared += 1;
                    }
                    Rule::Root => {
                        assert_eq!(by_kernel.kind, TableRuleKind::Root, "{svma:#x}");
                        first += 1;
                    }
                    _ => {}
                }
            }
        }
        assert!(compared > 10_000 && first > 50, "{compared} {first}");
    }

    /// Return addresses of signal handlers are looked up one byte back, by the kernel.
    #[test]
    fn what_handlers_return_to_is_a_signal_frame() {
        let Some(info) = program("signal", "-ldflags=-s -w") else { return };
        let table = info.table();
        let is_signal =
            |function: &Function<'_>| matches!(info.go_kind(function), Kind::SignalReturn);
        let trampoline = info.go_table().expect("Go's").functions().find(is_signal);
        let start = trampoline.expect("the runtime has it").start;
        for svma in [start - 1, start, start + 5] {
            let rule = table.rule(svma).expect("a row");
            assert_eq!((rule.kind, rule.add), (TableRuleKind::Signal, 1), "{svma:#x}");
        }
        assert_ne!(table.rule(start - 2).map(|rule| rule.kind), Some(TableRuleKind::Signal));
        let rule = info.rule_of_call(start, &mut Context::new_in());
        assert!(matches!(rule, Compiled::Rule(Rule::Missing(Tableless::SignalReturn))));
    }
}
