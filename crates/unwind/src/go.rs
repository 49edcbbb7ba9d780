//! Go's functions: frame sizes are in a table of its own, which stripped programs have, too.

use std::ops::Range;

use pyrograph_go::Function;

use crate::code::Tableless;
use crate::info::UnwindInfo;
use crate::instructions::is_signal_return;
use crate::registers::Arch;
use crate::rule::{Cfa, Compact, Rule};

/// Where stacks begin: goroutines return to `goexit`; the others run on the scheduler's stack of a
/// thread, and change to it from that of a goroutine, or never return. There Go's own traceback stops,
/// too, or goes on with what only the runtime knows of the goroutine.
const FIRST: [&[u8]; 14] = [
    b"runtime.goexit",
    b"runtime.mstart",
    b"runtime.mcall",
    b"runtime.gogo",
    b"gogo",
    b"runtime.systemstack",
    b"runtime.morestack",
    b"runtime.asmcgocall",
    b"runtime.rt0_go",
    b"_rt0_amd64",
    b"_rt0_amd64_linux",
    b"runtime.goexit.abi0",
    b"runtime.mstart.abi0",
    b"runtime.asmcgocall.abi0",
];

/// These call the vDSO on the scheduler's stack, and keep their stack pointer in a register.
const CALL_VDSO: [&[u8]; 4] =
    [b"runtime.nanotime1", b"runtime.walltime", b"runtime.walltime1", b"time.now"];

const RSP: u8 = 7;
const R12: u8 = 12;

/// The instruction by which they do, `mov %rsp,%r12`.
const KEEP: [u8; 3] = [0x49, 0x89, 0xe4];

impl UnwindInfo {
    fn go_table(&self) -> Option<pyrograph_go::Table<'_>> {
        Some(self.go()?.table(self.bytes())).filter(|_| self.arch() == Arch::X86_64)
    }

    /// The addresses of the function of Go that holds an address.
    pub(crate) fn go_function(&self, svma: u64) -> Option<Range<u64>> {
        self.go_table()?.lookup(svma).map(|function| function.start..function.end)
    }

    /// The rule for an address, if it is in a function of Go.
    pub(crate) fn go_rule(&self, svma: u64) -> Option<Rule> {
        let function = self.go_table()?.lookup(svma)?;
        let kind = self.go_kind(&function);
        let size = function.frame_size(svma);
        kind.rule(svma, size)
    }

    /// The rules of all functions of Go: the addresses of each, and from where on which holds.
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
                    if let Kind::CallsVdso { kept, .. } = kind
                        && range.contains(&kept)
                    {
                        rules.extend(kind.rule(kept, Some(size)).map(|rule| (kept, rule)));
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
        if CALL_VDSO.contains(&name) {
            let len = (function.end - function.start).min(LONGEST) as usize;
            let code = self.code(function.start, len).unwrap_or_default();
            let keeps = code.windows(KEEP.len()).position(|code| code == KEEP);
            if let Some(at) = keeps {
                let kept = function.start + (at + KEEP.len()) as u64;
                return Kind::CallsVdso { kept, size: function.frame_size(kept).unwrap_or(0) };
            }
        }
        Kind::Plain
    }
}

/// The kind of a function.
#[derive(Clone, Copy)]
enum Kind {
    Plain,
    First,
    SignalReturn,
    /// From `kept` on the stack pointer is in `r12`, as it was with a frame of this size.
    CallsVdso {
        kept: u64,
        size: i32,
    },
}

impl Kind {
    fn rule(self, svma: u64, size: Option<i32>) -> Option<Rule> {
        match self {
            Self::First => Some(Rule::Root),
            Self::SignalReturn => Some(Rule::Missing(Tableless::SignalReturn)),
            Self::CallsVdso { kept, size } if svma >= kept => {
                Some(Rule::Switch { register: R12, offset: size.checked_add(8)? })
            }
            Self::Plain | Self::CallsVdso { .. } => {
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
