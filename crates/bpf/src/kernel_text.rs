//! Address ranges of parts of the kernel's code, used to remove irrelevant frames from the leaf of its stacks.

use std::fmt::Write;
use std::fs::{self, File};
use std::hash::BuildHasher;
use std::io::{BufRead, BufReader, Read};
use std::ops::Range;
use std::path::Path;

use foldhash::quality::FixedState;
use pyrograph_cache::{Folder, Stamp};

/// Name of the cache file with the ranges, valid until the next boot: the kernel takes long to write all of its
/// symbols.
const FILE: &str = "text";

/// Address ranges of functions, from the running kernel's symbols.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelText {
    /// Functions that the kernel keeps together because they belong to the scheduler or wait for it (`__sched`).
    scheduler: Range<u64>,
    /// Entry points of interrupts.
    pub interrupts: Range<u64>,
    /// Functions through which BPF programs are called, sorted.
    tracing: Vec<Range<u64>>,
}

impl KernelText {
    /// Reads the ranges from the running kernel's symbols; they are empty if the symbols are hidden. `cache`: a folder
    /// such as `~/.cache`, below which they are kept.
    pub fn of_this_kernel(cache: Option<&Path>) -> Self {
        let boot = fs::read("/proc/sys/kernel/random/boot_id").ok();
        let folder = cache.and_then(|cache| Folder::open(cache, "kernel")).zip(boot);
        let Some((folder, boot)) = folder else { return Self::read() };
        let of = FixedState::default().hash_one(boot);
        let stamp = Stamp { kind: *b"text\0\0\0", version: 1, of };
        if let Some(kept) = folder.read(FILE, stamp).and_then(|bytes| Self::from_text(&bytes)) {
            return kept;
        }
        let text = Self::read();
        if text != Self::default() {
            // If it cannot be written, it is read again the next time.
            let _ = folder.write(FILE, stamp, text.to_text().as_bytes());
        }
        text
    }

    fn read() -> Self {
        File::open("/proc/kallsyms").map(Self::parse).unwrap_or_default()
    }

    /// Writes one range a line, the scheduler's and the interrupts' first: `ffffffff81f2e2b0-ffffffff81f36a93`.
    fn to_text(&self) -> String {
        let mut text = String::new();
        for range in [&self.scheduler, &self.interrupts].into_iter().chain(&self.tracing) {
            // Writing to memory does not fail.
            let _ = writeln!(text, "{:x}-{:x}", range.start, range.end);
        }
        text
    }

    /// Parses the output of [`Self::to_text`]; `None` for anything else.
    fn from_text(bytes: &[u8]) -> Option<Self> {
        let mut lines = std::str::from_utf8(bytes).ok()?.lines();
        let hex = |word: &str| u64::from_str_radix(word, 16).ok();
        let range = |line: &str| {
            let (start, end) = line.split_once('-')?;
            Some(hex(start)?..hex(end)?)
        };
        let (scheduler, interrupts) = (range(lines.next()?)?, range(lines.next()?)?);
        Some(Self { scheduler, interrupts, tracing: lines.map(range).collect::<Option<_>>()? })
    }

    /// Parses the symbols, one a line: `ffffffff821f84a0 T __sched_text_start`.
    fn parse(symbols: impl Read) -> Self {
        let mut text = Self::default();
        let mut symbols = BufReader::with_capacity(1 << 16, symbols);
        let mut line = Vec::new();
        // Start of the last function, if it leads to programs. Symbols of the kernel itself come first, in the order of
        // their addresses; symbols of its modules have the module's name behind a tab.
        let mut leads = None;
        loop {
            line.clear();
            if symbols.read_until(b'\n', &mut line).is_ok_and(|read| read == 0) {
                break;
            }
            let mut words = line.trim_ascii_end().splitn(3, |byte| *byte == b' ');
            let address = words.next().and_then(|word| std::str::from_utf8(word).ok());
            let address = address.and_then(|word| u64::from_str_radix(word, 16).ok());
            let (Some(address), Some(name)) = (address, words.nth(1)) else { continue };
            if name.contains(&b'\t') {
                break;
            }
            if let Some(start) = leads.take_if(|start| *start != address) {
                text.tracing.push(start..address);
            }
            match name {
                b"__sched_text_start" => text.scheduler.start = address,
                b"__sched_text_end" => text.scheduler.end = address,
                b"__irqentry_text_end" => text.interrupts.end = address,
                _ if enters_by_interrupt(name) => {
                    let first = &mut text.interrupts.start;
                    *first = if *first == 0 { address } else { address.min(*first) };
                }
                _ if leads_to_programs(name) => leads = Some(address),
                _ => {}
            }
        }
        text.tracing.sort_by_key(|range| range.start);
        text
    }

    /// Returns the stack, leaf first, without the frames of the BPF program that took it and of the scheduler. (The
    /// kernel itself leaves the scheduler's frames out of the stack of a waiting thread.)
    pub fn without_scheduler<'a>(&self, stack: &'a [u64]) -> &'a [u64] {
        let own = stack.iter().take(OWN);
        let Some(first) = own.clone().position(|frame| self.scheduler.contains(frame)) else {
            return stack;
        };
        let len = stack[first..].iter().take_while(|frame| self.scheduler.contains(frame)).count();
        &stack[first + len..]
    }

    /// Returns the stack, leaf first, without the frames of the BPF program that took it and of the code that called
    /// it.
    pub fn without_tracing<'a>(&self, stack: &'a [u64]) -> &'a [u64] {
        let last = stack.iter().take(OWN).rposition(|frame| self.is_tracing(*frame));
        &stack[last.map_or(0, |last| last + 1)..]
    }

    fn is_tracing(&self, address: u64) -> bool {
        let at = self.tracing.partition_point(|range| range.start <= address);
        at > 0 && self.tracing[at - 1].contains(&address)
    }
}

/// Maximum number of frames of a BPF program and of the code that calls it.
const OWN: usize = 5;

/// Returns true for entries for devices and timers, and not for those that the thread itself causes.
fn enters_by_interrupt(name: &[u8]) -> bool {
    name == b"asm_common_interrupt" || name.starts_with(b"asm_sysvec_")
}

fn leads_to_programs(name: &[u8]) -> bool {
    const BEGIN: [&[u8]; 4] =
        [b"bpf_trace_run", b"__bpf_trace_", b"__traceiter_", b"call_trace_sock_"];
    BEGIN.iter().any(|begin| name.starts_with(begin))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_begin_with_what_waits() {
        let symbols = "10 T _text\n100 T __sched_text_start\n180 T schedule\n200 T __sched_text_end\n300 T x\n";
        let text = KernelText::parse(symbols.as_bytes());
        assert_eq!(text.scheduler, 0x100..0x200);
        // A program, its caller, the scheduler, what waits: also where this calls the like again.
        let strip = |stack| text.without_scheduler(stack);
        assert_eq!(strip(&[0x900, 0x20, 0x180, 0x110, 0x30, 0x120]), [0x30, 0x120]);
        assert_eq!(strip(&[0x30, 0x40]), [0x30, 0x40]);
        assert_eq!(strip(&[0x180]), [0u64; 0]);
        let text = KernelText::parse(&b"0 T __sched_text_start\n"[..]);
        assert_eq!(text.without_scheduler(&[0, 1]), [0, 1]);
    }

    #[test]
    fn stacks_begin_with_what_was_traced() {
        let symbols = "10 T bpf_trace_run1\n10 t bpf_trace_run1.cold\n20 T x\n30 T __traceiter_y\n\
                       30 T __traceiter_z\n40 T y\n50 T __traceiter_m\t[module]\n";
        let text = KernelText::parse(symbols.as_bytes());
        assert_eq!(text.tracing, [0x10..0x20, 0x30..0x40]);
        assert_eq!(text.without_tracing(&[0x900, 0x18, 0x30, 0x44, 0x20]), [0x44, 0x20]);
        assert_eq!(text.without_tracing(&[0x44, 0x20]), [0x44, 0x20]);
        assert_eq!(text.without_tracing(&[]), [0u64; 0]);
    }

    #[test]
    fn interrupts_have_entries_of_their_own() {
        let symbols = "10 T asm_exc_page_fault\n20 T asm_common_interrupt\n30 T asm_sysvec_a\n40 t x\n\
                       40 T __irqentry_text_end\n50 T asm_exc_nmi\n";
        assert_eq!(KernelText::parse(symbols.as_bytes()).interrupts, 0x20..0x40);
    }

    #[test]
    fn the_running_kernel_reports_where_it_is() {
        // SAFETY: it takes nothing.
        if unsafe { libc::geteuid() } != 0 {
            eprintln!("skipped: only root may see the kernel's addresses");
            return;
        }
        let text = KernelText::of_this_kernel(None);
        assert!(text.scheduler.start > 1 << 63 && !text.scheduler.is_empty());
        assert!(text.interrupts.start > 1 << 63 && !text.interrupts.is_empty());
        assert!(!text.tracing.is_empty());
        // It is kept, and what was kept is the same.
        let base = tempfile::tempdir().expect("a folder");
        for _ in 0..2 {
            assert_eq!(KernelText::of_this_kernel(Some(base.path())), text);
        }
        assert!(base.path().join("pyrograph/kernel").join(FILE).exists());
        assert_eq!(KernelText::from_text(text.to_text().as_bytes()), Some(text));
        assert_eq!(KernelText::from_text(b""), None);
        assert_eq!(KernelText::from_text(b"1-2\n"), None);
    }
}
