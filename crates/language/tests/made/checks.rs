//! What holds of any memory, and of any file.

use pyrograph_elf::Image;
use pyrograph_language::{Found, Lines, Name, Runtime, find};

use crate::made::{Damaged, Made, code};

/// The longest text of a name.
const LONGEST: usize = 512;
/// Reads of memory for a name or for the lines of a function, and their bytes.
const MOST_READS: u64 = 100_000;
const MOST_BYTES: u64 = 128 << 20;

/// Names the functions of a process whose memory is damaged. Returns how many have a name.
pub fn check_names(made: &Made, runtime: &Runtime, by: &[u8]) -> usize {
    let memory = Damaged::new(&made.memory, by);
    let mut named = 0;
    for function in &made.functions {
        let name = runtime.name(&memory, function.address, function.owner);
        check_reads(&memory);
        if let Some(name) = &name {
            check_name(name);
            named += 1;
        }
        assert_eq!(runtime.name(&memory, function.address, function.owner), name, "once more");
        runtime.is_same(&memory, function.address, 0x12_3456);
        memory.take_reads();
        let lines = runtime.lines(&memory, function.address);
        check_reads(&memory);
        check_lines(&lines);
    }
    named
}

fn check_reads(memory: &Damaged) {
    let (reads, bytes) = memory.take_reads();
    assert!(reads <= MOST_READS && bytes <= MOST_BYTES, "{reads} reads of {bytes} bytes");
}

fn check_name(name: &Name) {
    for text in [Some(&name.function), name.file.as_ref()].into_iter().flatten() {
        assert!(text.len() <= LONGEST && !text.is_empty(), "{} bytes: {text:?}", text.len());
        assert!(!text.chars().any(char::is_control), "{text:?}");
    }
}

fn check_lines(lines: &Lines) {
    /// Lines are wanted: in Java's places.
    const LINES: u32 = 1 << 23;
    for offset in [0, 1, 2, 7, 53, 54, 600, 1 << 20, LINES | 1, LINES | 17, LINES | 60, u32::MAX] {
        lines.line(offset);
        for call in lines.calls(offset).into_iter().flatten().take(3) {
            check_name(call.name);
        }
        assert!(lines.calls(offset).is_none_or(|calls| calls.len() <= 256));
    }
}

/// Looks for an interpreter in a file. Returns true if there is a known one.
pub fn check_file(bytes: Vec<u8>) -> bool {
    let Ok(image) = Image::from_bytes(bytes) else { return false };
    let found = find(&image, &code);
    match &found {
        Some(Found::Known(runtime)) => {
            check_text(&runtime.version);
            // What is known of it is not more than the programs take.
            let it = &runtime.interpreter;
            assert!(it.plan.len() <= 32 && it.plan.iter().all(|plan| plan.len <= 160), "{it:?}");
            // A process of it, as it should be, and one in which all memory can be read.
            let made = Made::new(runtime.language());
            check_names(&made, runtime, &[]);
            check_names(&made, runtime, &[7]);
        }
        Some(Found::Unknown(unknown)) => check_text(&unknown.to_string()),
        None => {}
    }
    matches!(found, Some(Found::Known(_)))
}

fn check_text(text: &str) {
    assert!(text.len() <= LONGEST && !text.chars().any(char::is_control), "{text:?}");
}
