//! Any call with any memory.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pyrograph_syscall::{Copied, Descriptors, Seen, Written, arguments, result};

fuzz_target!(|input: (u16, [u64; 6], Option<i64>, Vec<(u8, Vec<u8>, u32)>)| {
    let (number, registers, returned, copies) = input;
    let copied: Vec<Copied> = copies
        .iter()
        .map(|(copy, bytes, length)| Copied { copy: usize::from(copy % 4), bytes, length: u64::from(*length) })
        .collect();
    let seen = Seen { number: u32::from(number % 512), arguments: registers, result: returned, copied: &copied };
    let mut files = Descriptors::new();
    files.set_directory("/");
    let words = arguments(&seen, &files, &Written::default());
    files.follow(&seen);
    let all = words.iter().map(|(_, word)| word.len()).sum::<usize>() + result(&seen, &files).len();
    let bytes: usize = copies.iter().map(|(_, bytes, _)| bytes.len()).sum();
    assert!(all <= 16384 + 100 * bytes, "{all}");
});
