//! jitdump files: no panic, and the same answer twice.
#![no_main]

use std::io::Cursor;

use libfuzzer_sys::fuzz_target;
use pyrograph_symbol::JitDump;

fuzz_target!(|bytes: &[u8]| {
    let Ok(mut dump) = JitDump::open(Cursor::new(bytes)) else { return };
    let _ = dump.damage().map(|damage| damage.to_string());
    // The functions of the seed are in this range.
    let seed = (0x7f8e_8800_4000..0x7f8e_8800_6000).step_by(64);
    for address in [0, 1, u64::MAX].into_iter().chain(seed) {
        for time in [None, Some(0), Some(u64::MAX)] {
            assert_eq!(dump.lookup(address, time), dump.lookup(address, time));
        }
        dump.changes(address);
        if let Some(number) = dump.last(address) {
            dump.code(number);
        }
    }
});
