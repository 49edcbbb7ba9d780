//! ELF files with their symbols and debug information.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pyrograph_symbol::{Locator, Module, Options, Source};

fuzz_target!(|bytes: &[u8]| {
    let Ok(module) = Module::from_bytes(bytes.to_vec(), Source::default()) else { return };
    let locator =
        Locator { debug_dirs: Vec::new(), symfs: None, build_id_cache: None, debuginfod: None };
    let options = Options { locator, ..Options::default() };
    let mut addresses: Vec<u64> = module.segments().iter().flat_map(|s| [s.address, s.address.wrapping_add(16)]).collect();
    addresses.extend((0..64).map(|n| n * 64));
    module.symbolize(&addresses, &options);
    for &address in &addresses[..addresses.len().min(8)] {
        if let Some(extent) = module.extent(address, &options.locator) {
            assert!(extent.contains(&address));
        }
        module.embedded_sources(address, &options);
    }
});
