//! The format of a tracepoint, and behind a zero byte the raw data of a sample of it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pyrograph_event::ByteOrder;
use pyrograph_perf_data::Tracepoint;

fuzz_target!(|bytes: &[u8]| {
    let zero = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    let (format, raw) = bytes.split_at(zero);
    let format = String::from_utf8_lossy(format);
    for long_size in [4, 8] {
        let Some(tracepoint) = Tracepoint::parse("system", &format, long_size) else { return };
        for order in [ByteOrder::Little, ByteOrder::Big] {
            for (name, value) in tracepoint.values(raw, order) {
                assert!(!name.starts_with("common_"));
                let _ = (value.as_i64(), value.as_u64(), value.to_string());
            }
            let _ = tracepoint.text(raw, order);
        }
    }
});
