//! Unwind tables as they are kept in files. The checksum is put right: what is behind it is tried, too.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pyrograph_unwind::Table;

fuzz_target!(|bytes: &[u8]| {
    let mut bytes = bytes.to_vec();
    if let Some((header, rest)) = bytes.split_at_mut_checked(12) {
        let mut crc = flate2::Crc::new();
        crc.update(rest);
        header[8..].copy_from_slice(&crc.sum().to_le_bytes());
    }
    if let Some(table) = Table::from_bytes(&bytes) {
        assert_eq!(table.to_bytes(), bytes);
        for row in &table.rows {
            table.rule(table.start.wrapping_add(row.offset.into()));
        }
    }
});
