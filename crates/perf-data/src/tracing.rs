//! Formats of tracepoints, as `perf record` copies them from tracefs.
//!
//! ```text
//! 17 08 44 "tracing"   version, as text   byte order   size of a long   u32 page size
//! "header_page"  u64 size, text
//! "header_event" u64 size, text
//! u32 count of ftrace's own formats:  u64 size, text   each
//! u32 count of systems:  name, u32 count of events:  u64 size, text   each
//! ```
//!
//! The text of an event's format is the contents of `/sys/kernel/tracing/events/SYSTEM/NAME/format`.
//!
//! Source: trace-cmd.dat.v6(5), whose files begin in the same way.

use hashbrown::HashMap;
use pyrograph_event::ByteOrder;

use crate::fields::Fields;
use crate::tracepoint::Tracepoint;

const MAGIC: &[u8] = b"\x17\x08\x44tracing";

/// Parses tracing data; returns the tracepoints before the first damage.
pub fn parse(bytes: &[u8], order: ByteOrder) -> Vec<Tracepoint> {
    let mut found = Vec::new();
    let _ = parse_into(&mut Fields::new(bytes, order), &mut found);
    found
}

/// Returns kernel strings by address; some tracepoints record the address instead of the string.
pub fn kernel_texts(bytes: &[u8], order: ByteOrder) -> HashMap<u64, String> {
    let mut from = Fields::new(bytes, order);
    let section = parse_into(&mut from, &mut Vec::new()).and_then(|()| {
        // The kernel's symbols come first.
        let size = from.u32()?;
        from.take(usize::try_from(size).ok()?)?;
        let size = from.u32()?;
        from.take(usize::try_from(size).ok()?)
    });
    texts_of(&String::from_utf8_lossy(section.unwrap_or_default()))
}

/// Parses the text of tracefs's `printk_formats` into strings by address.
pub fn texts_of(text: &str) -> HashMap<u64, String> {
    // 0xffffffff82a1b2c0 : "Start scheduler-tick"
    let line = |line: &str| {
        let (address, text) = line.split_once(" : ")?;
        let address = u64::from_str_radix(address.trim().strip_prefix("0x")?, 16).ok()?;
        let text = text.trim().strip_prefix('"')?.strip_suffix('"')?;
        Some((address, text.replace("\\n", "").replace("\\\"", "\"")))
    };
    text.lines().filter_map(line).collect()
}

fn parse_into(from: &mut Fields<'_>, found: &mut Vec<Tracepoint>) -> Option<()> {
    (from.take(MAGIC.len())? == MAGIC).then_some(())?;
    from.c_string()?;
    // The byte order is the file's.
    from.u8()?;
    let long_size = from.u8()?;
    from.u32()?;
    for _ in ["header_page", "header_event"] {
        from.c_string()?;
        sized(from)?;
    }
    for _ in 0..from.u32()? {
        sized(from)?;
    }
    for _ in 0..from.u32()? {
        let system = String::from_utf8_lossy(from.c_string()?).into_owned();
        for _ in 0..from.u32()? {
            let text = String::from_utf8_lossy(sized(from)?);
            found.extend(Tracepoint::parse(&system, &text, long_size));
        }
    }
    Some(())
}

fn sized<'a>(from: &mut Fields<'a>) -> Option<&'a [u8]> {
    let size = from.u64()?;
    from.take(usize::try_from(size).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: &str = "name: block_rq_issue\nID: 1234\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n\
        \tfield:dev_t dev;\toffset:8;\tsize:4;\tsigned:0;\n\
        \tfield:sector_t sector;\toffset:16;\tsize:8;\tsigned:0;\n\
\n\
        print fmt: \"%d\", REC->dev\n";

    fn data() -> Vec<u8> {
        let mut data = MAGIC.to_vec();
        data.extend(b"0.6\0\0\x08");
        data.extend(4096u32.to_le_bytes());
        for name in [&b"header_page\0"[..], b"header_event\0"] {
            data.extend(name);
            data.extend(3u64.to_le_bytes());
            data.extend(b"abc");
        }
        data.extend(0u32.to_le_bytes());
        data.extend(1u32.to_le_bytes());
        data.extend(b"block\0");
        data.extend(1u32.to_le_bytes());
        data.extend((FORMAT.len() as u64).to_le_bytes());
        data.extend(FORMAT.as_bytes());
        data
    }

    #[test]
    fn each_event_of_each_system() {
        let found = parse(&data(), ByteOrder::Little);
        let [block] = found.as_slice() else { panic!("one tracepoint: {found:?}") };
        assert_eq!((block.id, block.name.as_str()), (1234, "block:block_rq_issue"));
        let fields: Vec<_> = block.fields.iter().map(|field| field.name.as_str()).collect();
        assert_eq!(fields, ["dev", "sector"]);
    }

    #[test]
    fn cut_off_anywhere() {
        let data = data();
        for end in 0..data.len() {
            assert!(parse(&data[..end], ByteOrder::Little).is_empty());
        }
        // Sizes of the other byte order are beyond the end.
        assert!(parse(&data, ByteOrder::Big).is_empty());
    }
}
