//! Unwind tables as they are kept in files.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pyrograph_unwind::Table;

fuzz_target!(|bytes: &[u8]| {
    if let Some(table) = Table::from_bytes(bytes) {
        assert_eq!(table.to_bytes(), bytes);
        for row in &table.rows {
            table.rule(table.start.wrapping_add(row.offset.into()));
        }
    }
});
