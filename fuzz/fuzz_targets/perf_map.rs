//! The maps that JIT compilers write.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pyrograph_symbol::PerfMap;

fuzz_target!(|bytes: &[u8]| {
    let map = PerfMap::parse(bytes).expect("memory can be read");
    for address in [0, 1, 0x1000, u64::MAX] {
        map.lookup(address);
    }
});
