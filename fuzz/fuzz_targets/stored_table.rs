//! Unwind tables as they are kept in files, and what was read of code without tables.
#![no_main]

use std::sync::{Arc, OnceLock};

use libfuzzer_sys::fuzz_target;
use pyrograph_unwind::{AddressSpace, Arch, Registers, StackCopy, Table, UnwindInfo, Unwinder};

const START: u64 = 0x1000;
/// More than a mebibyte is read in pieces.
const CODE: usize = 2 << 20;
const STACK: u64 = 0x7000_0000;
/// `bp`, `sp` and `ip` (`enum perf_event_x86_regs`, arch/x86/include/uapi/asm/perf_regs.h).
const MASK: u64 = 7 << 6;

fuzz_target!(|bytes: &[u8]| {
    if let Some(table) = Table::from_bytes(bytes) {
        assert_eq!(table.to_bytes(), bytes);
        for row in &table.rows {
            table.rule(table.start.wrapping_add(row.offset.into()));
        }
    }
    static NOPS: OnceLock<Arc<[u8]>> = OnceLock::new();
    let code = NOPS.get_or_init(|| vec![0x90; CODE].into());
    let info = UnwindInfo::from_code(Arch::X86_64, START, Arc::clone(code), &[]);
    if info.take_guesses(bytes.to_vec()) == 0 {
        return;
    }
    let mut space = AddressSpace::new();
    space.map(START..START + CODE as u64, 0, Some(Arc::new(info)), 0);
    let mut unwinder = Unwinder::new(Arch::X86_64);
    let mut frames = Vec::new();
    for ip in [START, START + 1, START + 8191, START + 8192, START + CODE as u64 - 1] {
        let registers = Registers::from_perf(Arch::X86_64, MASK, &[STACK + 16, STACK, ip]);
        frames.clear();
        unwinder.unwind(&space, &registers, StackCopy { start: STACK, bytes }, 100, &mut frames);
        assert!(!frames.is_empty());
    }
});
