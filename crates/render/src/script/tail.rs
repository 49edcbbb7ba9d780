//! Part of an event's text after its stack.

use pyrograph_profile::{EventBranch, EventRegisters, SingleEvent};

use super::fields::{FieldSet, ScriptField as F};
use super::text::{hex, number};

/// Branch types, by the kernel's numbers (`PERF_BR_*`).
const TYPES: [&str; 15] = [
    "N/A",
    "COND",
    "UNCOND",
    "IND",
    "CALL",
    "IND_CALL",
    "RET",
    "SYSCALL",
    "SYSRET",
    "COND_CALL",
    "COND_RET",
    "ERET",
    "IRQ",
    "SERROR",
    "NO_TX",
];

/// Appends everything after the stack.
pub fn add(text: &mut Vec<u8>, fields: FieldSet, event: &SingleEvent<'_>) {
    let has = |field| fields.has(field);
    let details = event.details.copied().unwrap_or_default();
    for (field, of) in [(F::Iregs, details.registers), (F::Uregs, details.user_registers)] {
        if let Some(of) = of.filter(|_| has(field)) {
            registers(text, of);
        }
    }
    if has(F::Brstack) {
        details.branches.iter().for_each(|of| branch(text, of));
    }
    if has(F::PhysAddr) {
        hex(text, event.phys_addr.unwrap_or(0), 16);
    }
    for (field, size) in
        [(F::DataPageSize, details.data_page_size), (F::CodePageSize, details.code_page_size)]
    {
        if has(field) {
            page_size(text, size.unwrap_or(0));
        }
    }
}

/// Appends registers: ` ABI:2    SP:0x7fff7c18ba38 `
fn registers(text: &mut Vec<u8>, of: EventRegisters<'_>) {
    text.extend_from_slice(b" ABI:");
    number(text, of.abi, 0);
    text.push(b' ');
    for (name, value) in of.values {
        super::text::blanks(text, 5_usize.saturating_sub(name.len()));
        text.extend_from_slice(name.as_bytes());
        text.extend_from_slice(b":0x");
        hex(text, *value, 1);
        text.push(b' ');
    }
}

/// Appends a branch: ` 0x401136/0x401106/P/-/-/12/CALL `
fn branch(text: &mut Vec<u8>, of: &EventBranch) {
    text.extend_from_slice(b" 0x");
    hex(text, of.from, 1);
    text.extend_from_slice(b"/0x");
    hex(text, of.to, 1);
    let flags = [prediction(of), flag(of.in_transaction, b'X'), flag(of.abort, b'A')];
    for flag in flags {
        text.extend_from_slice(&[b'/', flag]);
    }
    text.push(b'/');
    number(text, of.cycles, 0);
    text.push(b'/');
    text.extend_from_slice(type_name(of).as_bytes());
    text.push(b' ');
}

fn prediction(of: &EventBranch) -> u8 {
    match (of.predicted, of.mispredicted) {
        (true, _) => b'P',
        (false, true) => b'M',
        (false, false) => b'-',
    }
}

fn flag(is_set: bool, letter: u8) -> u8 {
    if is_set { letter } else { b'-' }
}

/// Name of the branch type; empty if unknown.
pub fn type_name(of: &EventBranch) -> &'static str {
    match of.branch_type {
        0 => "",
        known => TYPES.get(usize::from(known)).copied().unwrap_or(""),
    }
}

/// Appends a page size: ` 4K`, ` 1024M`. The next unit is used from two of it on, as in perf. ` N/A` if unknown.
fn page_size(text: &mut Vec<u8>, size: u64) {
    text.push(b' ');
    if size == 0 {
        return text.extend_from_slice(b"N/A");
    }
    let (mut size, mut unit) = (size, 0);
    while size / 1024 > 1 {
        size /= 1024;
        unit += 1;
    }
    number(text, size, 0);
    text.extend_from_slice(["B", "K", "M", "G", "T", "P", "E"][unit].as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branches_with_their_flags() {
        let of = EventBranch { from: 0x401136, to: 0x401106, ..EventBranch::default() };
        for (of, expect) in [
            (of, " 0x401136/0x401106/-/-/-/0/ "),
            (
                EventBranch { predicted: true, cycles: 12, branch_type: 4, ..of },
                " 0x401136/0x401106/P/-/-/12/CALL ",
            ),
            (
                EventBranch { mispredicted: true, in_transaction: true, abort: true, ..of },
                " 0x401136/0x401106/M/X/A/0/ ",
            ),
            (EventBranch { branch_type: 15, ..of }, " 0x401136/0x401106/-/-/-/0/ "),
        ] {
            let mut text = Vec::new();
            branch(&mut text, &of);
            assert_eq!(String::from_utf8_lossy(&text), expect);
        }
    }

    #[test]
    fn sizes_of_pages() {
        for (size, expect) in
            [(0, " N/A"), (4096, " 4K"), (2 << 20, " 2M"), (1 << 30, " 1024M"), (u64::MAX, " 15E")]
        {
            let mut text = Vec::new();
            page_size(&mut text, size);
            assert_eq!(String::from_utf8_lossy(&text), expect);
        }
    }
}
