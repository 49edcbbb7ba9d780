use std::io::Cursor;

use proptest::prelude::*;

use super::*;

/// Written by `node --perf-prof`: see `tests/fixtures/README.md`.
const NODE: &[u8] = include_bytes!("../../tests/fixtures/node.jitdump");

/// Writes what is read.
struct Writer {
    bytes: Vec<u8>,
    is_big: bool,
}

impl Writer {
    fn new(is_big: bool) -> Self {
        let mut writer = Self { bytes: Vec::new(), is_big };
        for number in [MAGIC, 1, 40, 62, 0, 7] {
            writer.u32(number);
        }
        writer.u64(1).u64(0);
        writer
    }

    fn u32(&mut self, number: u32) -> &mut Self {
        let bytes = if self.is_big { number.to_be_bytes() } else { number.to_le_bytes() };
        self.bytes.extend(bytes);
        self
    }

    fn u64(&mut self, number: u64) -> &mut Self {
        let bytes = if self.is_big { number.to_be_bytes() } else { number.to_le_bytes() };
        self.bytes.extend(bytes);
        self
    }

    fn record(&mut self, id: u32, time: u64, body: impl FnOnce(&mut Self)) -> &mut Self {
        let at = self.bytes.len();
        self.u32(id).u32(0).u64(time);
        body(self);
        let size = u32::try_from(self.bytes.len() - at).unwrap();
        let size = if self.is_big { size.to_be_bytes() } else { size.to_le_bytes() };
        self.bytes[at + 4..at + 8].copy_from_slice(&size);
        self
    }

    fn load(&mut self, time: u64, start: u64, size: usize, name: &str) -> &mut Self {
        self.record(0, time, |writer| {
            writer.u32(7).u32(7).u64(start).u64(start).u64(size as u64).u64(0);
            writer.bytes.extend(name.bytes());
            writer.bytes.push(0);
            writer.bytes.resize(writer.bytes.len() + size, 0xc3);
        })
    }

    fn moved(&mut self, time: u64, from: u64, to: u64, size: u64) -> &mut Self {
        self.record(1, time, |writer| {
            writer.u32(7).u32(7).u64(to).u64(from).u64(to).u64(size).u64(0);
        })
    }

    /// `header`: the size of what follows the table; `more`: by how much the stated size is too large.
    fn unwinding(&mut self, time: u64, eh_frame: &[u8], header: u64, more: u64) -> &mut Self {
        self.record(4, time, |writer| {
            let size = eh_frame.len() as u64 + header;
            writer.u64(size + more).u64(header).u64(size);
            writer.bytes.extend(eh_frame);
            writer.bytes.resize(writer.bytes.len() + header as usize, 0x77);
        })
    }

    fn lines(&mut self, time: u64, start: u64, lines: &[(u64, u32, &[u8])]) -> &mut Self {
        self.record(2, time, |writer| {
            writer.u64(start).u64(lines.len() as u64);
            for &(address, line, file) in lines {
                writer.u64(address).u32(line).u32(1);
                writer.bytes.extend(file);
                writer.bytes.push(0);
            }
        })
    }
}

fn open(bytes: &[u8]) -> JitDump<Cursor<&[u8]>> {
    JitDump::open(Cursor::new(bytes)).expect("a jitdump file")
}

/// `name start file:line` of an address.
#[track_caller]
fn check(bytes: &[u8], address: u64, time: Option<u64>, expect: &str) {
    let found = open(bytes).lookup(address, time).map_or_else(String::new, |function| {
        let JitFunction { name, start, file, line } = function;
        format!("{name} {start:x} {}:{line}", file.as_deref().unwrap_or("?"))
    });
    assert_eq!(found, expect, "{address:#x} at {time:?}");
}

#[test]
fn a_file_of_node() {
    let dump = open(NODE);
    assert_eq!((dump.pid(), dump.damage(), dump.is_empty()), (10915, None, false));
    assert!(!dump.has_arch_timestamps());

    let check = |address, expect: &str| check(NODE, address, None, expect);
    check(0x18c4000, "Builtin:DeoptimizationEntry_Eager 18c4000 ?:0");
    check(0x18c42ff, "Builtin:DeoptimizationEntry_Eager 18c4000 ?:0");
    check(0x18c4300, "");
    // Entries are at 0, 2, 4 and 7 bytes, each written with 64 added.
    let name = "JS:^isPosixPathSeparator node:path:71:30 7f8e88004400 node:path:72";
    check(0x7f8e88004400, name);
    check(0x7f8e88004467, name);
    let name = "JS:^getOptionValue node:internal/options:44:24 7f8e88004480 node:internal/options";
    check(0x7f8e88004486, &format!("{name}:45"));
    check(0x7f8e88004487, &format!("{name}:46"));
}

#[test]
fn garbage_that_v8_writes_for_file_names() {
    let check = |address, expect: &str| check(NODE, address, None, expect);
    let baseline = "JS:^fib /tmp/jd/a.js:1:13 7f8e88005b80 /tmp/jd/a.js";
    check(0x7f8e88005b80, &format!("{baseline}:2"));
    check(0x7f8e88005b8a, &format!("{baseline}:3"));
    check(0x7f8e88005b9d, &format!("{baseline}:4"));
    check(0x7f8e88006180, "JS:*fib /tmp/jd/a.js:1:13 7f8e88006180 /tmp/jd/a.js:1");
}

#[test]
fn functions_are_there_from_their_time_on() {
    const FIRST: u64 = 6_798_202_088_771;
    check(NODE, 0x7f8e88005b80, Some(FIRST - 1), "");
    check(
        NODE,
        0x7f8e88005b80,
        Some(FIRST),
        "JS:^fib /tmp/jd/a.js:1:13 7f8e88005b80 /tmp/jd/a.js:2",
    );

    let mut writer = Writer::new(false);
    // Not in the order of time, as threads write.
    writer.load(30, 0x1040, 0x40, "c").load(10, 0x1000, 0x100, "a").load(20, 0x1000, 0x50, "b");
    let bytes = &writer.bytes;
    check(bytes, 0x1000, Some(15), "a 1000 ?:0");
    check(bytes, 0x1000, Some(20), "b 1000 ?:0");
    check(bytes, 0x1048, Some(25), "b 1000 ?:0");
    check(bytes, 0x1048, None, "c 1040 ?:0");
    check(bytes, 0x10ff, None, "a 1000 ?:0");
    let dump = open(bytes);
    assert_eq!([0x1000, 0x1048, 0x10ff].map(|at| dump.changes(at)), [true, true, false]);
}

#[test]
fn both_byte_orders_moves_and_lines() {
    for is_big in [false, true] {
        let mut writer = Writer::new(is_big);
        writer
            .lines(5, 0x1000, &[(0x1000, 3, b"a.c"), (0x1008, 4, b"\xff"), (0x1010, 9, b"b.h")])
            .record(4, 6, |writer| {
                writer.u64(0);
            })
            .load(10, 0x1000, 0x20, "f")
            .load(11, 0x2000, 0x20, "g")
            .moved(20, 0x1000, 0x3000, 0x20)
            .moved(21, 0x9999, 0x4000, 0x20)
            .record(3, 30, |_| ())
            .record(99, 31, |_| ());
        let bytes = &writer.bytes;
        assert_eq!(open(bytes).damage(), None);
        check(bytes, 0x1000, Some(10), "f 1000 a.c:3");
        check(bytes, 0x100f, Some(10), "f 1000 a.c:4");
        check(bytes, 0x101f, Some(10), "f 1000 b.h:9");
        check(bytes, 0x2000, None, "g 2000 ?:0");
        check(bytes, 0x1000, Some(20), "");
        check(bytes, 0x1000, None, "f 1000 a.c:3");
        check(bytes, 0x3008, Some(19), "");
        check(bytes, 0x3008, Some(20), "f 3000 a.c:4");
        check(bytes, 0x4000, None, "");
    }
}

#[test]
fn lines_that_cannot_be_right_are_not_used() {
    let outside = Writer::new(false)
        .lines(1, 0x1000, &[(0x1000, 3, b"a.c"), (0x1021, 4, b"a.c")])
        .load(2, 0x1000, 0x20, "f")
        .bytes
        .clone();
    check(&outside, 0x1000, None, "f 1000 ?:0");
    let another = Writer::new(false)
        .lines(1, 0x2000, &[(0x1000, 3, b"a.c")])
        .load(2, 0x1000, 0x20, "f")
        .bytes
        .clone();
    check(&another, 0x1000, None, "f 1000 ?:0");
}

#[test]
fn a_cut_off_file_is_read_up_to_there() {
    let mut writer = Writer::new(false);
    writer.load(1, 0x1000, 0x10, "a");
    let second = writer.bytes.len();
    writer.load(2, 0x2000, 0x10, "b");
    for end in second..=writer.bytes.len() {
        let bytes = &writer.bytes[..end];
        let is_whole = end == second || end == writer.bytes.len();
        let damage = JitDumpDamage { offset: second as u64, what: "a cut-off record" };
        assert_eq!(open(bytes).damage(), (!is_whole).then_some(damage), "{end}");
        check(bytes, 0x1000, None, "a 1000 ?:0");
    }
    let text = "a cut-off record at byte 114 of the jitdump file";
    assert_eq!(open(&writer.bytes[..second + 1]).damage().unwrap().to_string(), text);

    // Space that was reserved and not used.
    writer.bytes.resize(writer.bytes.len() + 100, 0);
    assert_eq!(open(&writer.bytes).damage().unwrap().what, "a record of no size");
    check(&writer.bytes, 0x2000, None, "b 2000 ?:0");
}

#[test]
fn other_files() {
    let error = |bytes: &[u8]| JitDump::open(Cursor::new(bytes)).unwrap_err().to_string();
    assert_eq!(error(b""), "not a jitdump file");
    assert_eq!(error(&NODE[..39]), "not a jitdump file");
    assert_eq!(error(&[b'x'; 100]), "not a jitdump file");
    let mut newer = NODE.to_vec();
    newer[4] = 2;
    assert_eq!(error(&newer), "jitdump version 2, known is 1");
}

#[test]
fn unwind_tables_are_those_of_the_next_function() {
    for is_big in [false, true] {
        let mut writer = Writer::new(is_big);
        writer
            .lines(1, 0x1000, &[(0x1000, 3, b"a.c")])
            .unwinding(1, b"table of f", 20, 0)
            .load(2, 0x1000, 0x20, "f")
            .load(3, 0x2000, 0x10, "g")
            .moved(4, 0x1000, 0x3000, 0x20);
        let mut dump = open(&writer.bytes);
        assert!(dump.has_unwinding());
        let number = dump.last(0x101f).expect("f");
        let unwinding = |start| JitUnwinding {
            start,
            code: vec![0xc3; 0x20],
            eh_frame: b"table of f".to_vec(),
        };
        assert_eq!(dump.unwinding(number), Some(unwinding(0x1000)));
        let g = dump.last(0x2000).expect("g");
        assert_eq!((dump.unwinding(g), dump.range(g)), (None, Some(0x2000..0x2010)));
        let moved = dump.last(0x3000).expect("f, at another address");
        assert_eq!(
            (dump.unwinding(moved), dump.range(moved)),
            (Some(unwinding(0x3000)), Some(0x3000..0x3020))
        );
        check(&writer.bytes, 0x1000, Some(2), "f 1000 a.c:3");
    }
}

#[test]
fn unwind_tables_that_cannot_be_right_are_not_used() {
    let found = |eh_frame: &[u8], header, more| {
        let mut writer = Writer::new(false);
        writer.unwinding(1, eh_frame, header, more).load(2, 0x1000, 0x20, "f");
        let mut dump = open(&writer.bytes);
        let number = dump.last(0x1000).expect("f");
        assert_eq!(dump.unwinding(number).is_some(), dump.has_unwinding());
        dump.has_unwinding()
    };
    assert!(found(b"table", 20, 0));
    assert!(!found(b"", 20, 0), "V8 writes a header alone for functions that have no table");
    assert!(!found(b"table", 20, 1), "larger than the record");
    assert!(!found(b"table", 0, u64::MAX - 5), "larger than all numbers");
    assert!(!found(&vec![0; MAX_UNWINDING as usize + 1], 0, 0));
    // Code that the record does not have.
    let mut writer = Writer::new(false);
    writer.unwinding(1, b"table", 0, 0).record(0, 2, |writer| {
        writer.u32(7).u32(7).u64(0x1000).u64(0x1000).u64(0x1000).u64(0);
        writer.bytes.extend(b"f\0");
    });
    assert!(!open(&writer.bytes).has_unwinding());
}

proptest! {
    #[test]
    fn nothing_panics(
        changes in proptest::collection::vec((40..NODE.len(), any::<u8>()), 0..20),
        end in 0..=NODE.len(),
        time in any::<Option<u64>>(),
    ) {
        let mut bytes = NODE.to_vec();
        for (at, byte) in changes {
            bytes[at] = byte;
        }
        if let Ok(mut dump) = JitDump::open(Cursor::new(&bytes[..end])) {
            for address in [0, 0x18c4000, 0x7f8e88004487, 0x7f8e88005b9d, 0x7f8e88006181, u64::MAX] {
                dump.lookup(address, time);
                dump.changes(address);
                if let Some(number) = dump.last(address) {
                    dump.unwinding(number);
                }
            }
        }
    }
}
