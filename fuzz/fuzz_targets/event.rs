//! Records of perf_event, under any attributes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pyrograph_event::{Attr, ByteOrder, Layout, Record};

fuzz_target!(|input: (Vec<u8>, Vec<u8>, bool)| {
    let (attr, records, big) = input;
    let order = if big { ByteOrder::Big } else { ByteOrder::Little };
    let layout = Layout::with_order(&Attr::parse(&attr, order), order);
    let mut rest = records.as_slice();
    while let Ok(header) = pyrograph_event::Header::parse(rest, order) {
        let size = usize::from(header.size).max(8).min(rest.len());
        layout.time(&rest[..size]);
        if let Ok(Record::Sample(sample)) = layout.decode(rest) {
            let _ = format!("{sample:?}");
        }
        rest = &rest[size..];
    }
});
