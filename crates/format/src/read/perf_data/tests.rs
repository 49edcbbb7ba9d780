//! Files made by hand: what `perf` here cannot record, and what is wrong with files.

use pyrograph_event::ByteOrder;
use pyrograph_profile::{LabelOptions, Tree};

use super::*;
use crate::input::Input;
use crate::{read, write_folded};

/// Bytes of numbers, in one of the byte orders.
#[derive(Clone)]
struct Bytes {
    order: ByteOrder,
    bytes: Vec<u8>,
}

impl Bytes {
    fn new(order: ByteOrder) -> Self {
        Self { order, bytes: Vec::new() }
    }

    fn u16(mut self, number: u16) -> Self {
        match self.order {
            ByteOrder::Little => self.bytes.extend(number.to_le_bytes()),
            ByteOrder::Big => self.bytes.extend(number.to_be_bytes()),
        }
        self
    }

    fn u32(mut self, number: u32) -> Self {
        match self.order {
            ByteOrder::Little => self.bytes.extend(number.to_le_bytes()),
            ByteOrder::Big => self.bytes.extend(number.to_be_bytes()),
        }
        self
    }

    fn words(mut self, numbers: &[u64]) -> Self {
        for number in numbers {
            match self.order {
                ByteOrder::Little => self.bytes.extend(number.to_le_bytes()),
                ByteOrder::Big => self.bytes.extend(number.to_be_bytes()),
            }
        }
        self
    }

    fn raw(mut self, bytes: &[u8]) -> Self {
        self.bytes.extend(bytes);
        self
    }
}

const IP_TID_TIME_PERIOD_CHAIN: u64 = 1 | 1 << 1 | 1 << 2 | 1 << 5 | 1 << 8;
const KERNEL: u64 = 128u64.wrapping_neg();
const USER: u64 = 512u64.wrapping_neg();
const USER_DEFERRED: u64 = 640u64.wrapping_neg();

/// A file in the making.
struct Maker {
    order: ByteOrder,
    sample_type: u64,
    branch_sample_type: u64,
    read_format: u64,
    records: Vec<Vec<u8>>,
}

impl Maker {
    fn new(order: ByteOrder) -> Self {
        let sample_type = IP_TID_TIME_PERIOD_CHAIN;
        Self { order, sample_type, branch_sample_type: 0, read_format: 0, records: Vec::new() }
    }

    fn record(&mut self, kind: u32, misc: u16, body: &Bytes) {
        let mut body = body.bytes.clone();
        body.resize(body.len().next_multiple_of(8), 0);
        let size = u16::try_from(8 + body.len()).expect("small");
        let record = Bytes::new(self.order).u32(kind).u16(misc).u16(size).raw(&body);
        self.records.push(record.bytes);
    }

    fn bytes(&self) -> Bytes {
        Bytes::new(self.order)
    }

    /// Thread and time, at the end of a record that is no sample.
    fn comm(&mut self, pid: u32, name: &str, time: u64) {
        let mut name = name.as_bytes().to_vec();
        name.resize((name.len() + 1).next_multiple_of(8), 0);
        let body = self.bytes().u32(pid).u32(pid).raw(&name).u32(pid).u32(pid).words(&[time]);
        self.record(3, 0, &body);
    }

    fn kernel_symbol(
        &mut self,
        (start, len): (u64, u32),
        kind: u16,
        flags: u16,
        name: &str,
        time: u64,
    ) {
        let mut name = name.as_bytes().to_vec();
        name.resize((name.len() + 1).next_multiple_of(8), 0);
        let body = self.bytes().words(&[start]).u32(len).u16(kind).u16(flags).raw(&name);
        self.record(17, 0, &body.u32(0).u32(0).words(&[time]));
    }

    fn sample(&mut self, pid: u32, time: u64, period: u64, chain: &[u64], after: &[u64]) {
        let body = self.bytes().words(&[0x1000]).u32(pid).u32(pid).words(&[time, period]);
        let body = body.words(&[chain.len() as u64]).words(chain).words(after);
        self.record(9, 2, &body);
    }

    fn attr(&self) -> Bytes {
        // Software event 0, cpu-clock; sample_id_all is bit 18, of a big-endian machine's bit
        // fields bit 45.
        let flags = match self.order {
            ByteOrder::Little => 1 << 18,
            ByteOrder::Big => 1 << 45,
        };
        let head = self.bytes().u32(1).u32(112);
        let words =
            [0, 1, self.sample_type, self.read_format, flags, 0, 0, 0, self.branch_sample_type];
        let attr = head.words(&words);
        let rest = 112 - attr.bytes.len();
        attr.raw(&vec![0; rest])
    }

    fn magic(&self) -> Bytes {
        self.bytes().raw(match self.order {
            ByteOrder::Little => b"PERFILE2",
            ByteOrder::Big => b"2ELIFREP",
        })
    }

    fn file(&self) -> Vec<u8> {
        let data = self.records.concat();
        let start = 104 + 128;
        let header = self.magic().words(&[104, 128, 104, 128, start, data.len() as u64, 0, 0]);
        let header = header.words(&[0; 4]).raw(&self.attr().bytes).words(&[0, 0]);
        header.raw(&data).bytes
    }

    fn pipe(&self) -> Vec<u8> {
        let attr = self.attr();
        let head = self.magic().words(&[16]);
        let head = head.u32(64).u16(0).u16(8 + 112).raw(&attr.bytes);
        // Data behind the record of tracing data are not in its size.
        let tracing = self.bytes().u32(66).u16(0).u16(16).u32(5).u32(0).raw(b"abcde\0\0\0");
        // perf's own records are not filled up: a feature's text, and the record that older versions put before tracing data.
        let host =
            self.bytes().u32(80).u16(0).u16(8 + 8 + 4 + 6).words(&[3]).u32(6).raw(b"build\0");
        let older = self.bytes().u32(66).u16(0).u16(12).u32(5).raw(b"abcde\0\0\0");
        let described = head.raw(&tracing.bytes).raw(&host.bytes).raw(&older.bytes);
        described.raw(&self.records.concat()).bytes
    }
}

fn fold(file: &[u8]) -> (String, Vec<String>) {
    let (profile, warnings) = match read(vec![Input::bytes("x", file)], &Options::default()) {
        Ok(read) => read,
        Err(error) => return (String::new(), vec![error.to_string()]),
    };
    let mut folded = Vec::new();
    write_folded(&Tree::new(&profile, &LabelOptions::default()), &mut folded).expect("to memory");
    let warnings = warnings.iter().map(ToString::to_string).collect();
    (String::from_utf8(folded).expect("text"), warnings)
}

fn example(order: ByteOrder) -> Maker {
    let mut maker = Maker::new(order);
    // Buffers of two CPUs: the second one's first record is older than the first one's last.
    maker.comm(7, "app", 10);
    maker.sample(7, 20, 3, &[USER, 0x1000, 0x2000], &[]);
    maker.sample(7, 40, 5, &[USER, 0x1000], &[]);
    maker.comm(7, "later", 30);
    maker
}

#[test]
fn both_byte_orders_as_file_and_pipe() {
    for order in [ByteOrder::Little, ByteOrder::Big] {
        let maker = example(order);
        let expect = "app;[unknown];[unknown] 3\nlater;[unknown] 5\n";
        assert_eq!(fold(&maker.file()), (expect.to_owned(), Vec::new()), "{order:?}");
        assert_eq!(fold(&maker.pipe()), (expect.to_owned(), Vec::new()), "{order:?}, piped");
    }
}

#[test]
fn descriptions_in_a_pipe_were_damaged_records() {
    let pipe = example(ByteOrder::Little).pipe();
    let input = Input::bytes("x", pipe);
    let (profile, warnings) = read(vec![input], &Options::default()).expect("samples");
    assert!(warnings.is_empty(), "{:?}", warnings.iter().collect::<Vec<_>>());
    assert_eq!(profile.about.host.as_deref(), Some("build"));
}

#[test]
fn names_of_the_running_kernel_are_for_no_other() {
    let Ok(symbols) = std::fs::read_to_string("/proc/kallsyms") else { return };
    let text =
        symbols.lines().find(|line| line.ends_with(" T _text") || line.ends_with(" T _stext"));
    let address = text.and_then(|line| u64::from_str_radix(line.split(' ').next()?, 16).ok());
    let Some(address) = address.filter(|&address| address > 0) else {
        eprintln!("skipped: the kernel hides its addresses");
        return;
    };
    let mut maker = Maker::new(ByteOrder::Little);
    maker.comm(7, "app", 10);
    maker.sample(7, 20, 3, &[KERNEL, address], &[]);
    // Neither build ID nor version: this file says nothing of its kernel.
    assert_eq!(fold(&maker.file()).0, "app;[kernel.kallsyms] 3\n");
}

#[test]
fn cut_off_at_every_byte() {
    let maker = example(ByteOrder::Little);
    let file = maker.file();
    let ends: Vec<usize> = maker
        .records
        .iter()
        .scan(232, |at, record| {
            *at += record.len();
            Some(*at)
        })
        .collect();
    for end in 1..file.len() {
        let (folded, warnings) = fold(&file[..end]);
        assert!(!warnings.is_empty(), "{end}");
        // The samples are the second and the third record.
        let samples = ends[1..3].iter().filter(|&&sample| sample <= end).count();
        let expect =
            ["", "app;[unknown];[unknown] 3\n", "app;[unknown] 5\napp;[unknown];[unknown] 3\n"];
        assert_eq!(folded, expect[samples], "{end}: {warnings:?}");
    }
}

#[test]
fn damage_is_named_with_its_place() {
    let mut maker = example(ByteOrder::Little);
    maker.records[3][6..8].copy_from_slice(&[3, 0]);
    let at = 232 + maker.records[..3].concat().len();
    let (folded, warnings) = fold(&maker.file());
    assert_eq!(folded, "app;[unknown] 5\napp;[unknown];[unknown] 3\n");
    assert!(warnings[0].contains(&format!("at byte {at}")), "{warnings:?}");
}

#[test]
fn user_parts_that_are_told_later() {
    let mut maker = Maker::new(ByteOrder::Little);
    maker.comm(7, "app", 10);
    maker.sample(7, 20, 1, &[KERNEL, 0x10, USER_DEFERRED, 99], &[]);
    let chain = [99, 3, USER, 0x1000, 0x2000];
    let body = maker.bytes().words(&chain).u32(7).u32(7).words(&[30]);
    maker.record(22, 2, &body);
    let (folded, warnings) = fold(&maker.file());
    assert_eq!(folded, "app;[unknown];[unknown];[kernel.kallsyms] 1\n", "{warnings:?}");
}

#[test]
fn calls_that_the_hardware_recorded() {
    let mut maker = Maker::new(ByteOrder::Little);
    maker.sample_type |= 1 << 11;
    // User branches, in the form of a call stack.
    maker.branch_sample_type = 1 | 1 << 11;
    maker.comm(7, "app", 10);
    let branches = [2, 0x2000, 0x1000, 0, 0x3000, 0x2f00, 0];
    maker.sample(7, 20, 1, &[USER, 0x1000], &branches);
    let (folded, warnings) = fold(&maker.file());
    assert_eq!(folded, "app;[unknown];[unknown];[unknown] 1\n", "{warnings:?}");
}

#[test]
fn code_that_the_kernel_made_has_the_name_of_the_time() {
    for order in [ByteOrder::Little, ByteOrder::Big] {
        let mut maker = Maker::new(order);
        maker.comm(7, "app", 10);
        let place = 0xffff_ffff_c000_1000;
        maker.kernel_symbol((place, 0x40), 1, 0, "bpf_prog_1_first", 20);
        maker.sample(7, 30, 1, &[KERNEL, place + 0x10, place + 0x44, place + 0x40], &[]);
        maker.kernel_symbol((place, 0x40), 1, 1, "bpf_prog_1_first", 40);
        maker.sample(7, 50, 2, &[KERNEL, place + 0x10], &[]);
        maker.kernel_symbol((place, 0x40), 2, 0, "ftrace_trampoline", 60);
        maker.sample(7, 70, 4, &[KERNEL, place + 0x10], &[]);
        let (folded, warnings) = fold(&maker.file());
        // A caller is looked up before the address that it returns to, 0x40 then, 0x44 not.
        let expect = "app;[kernel.kallsyms] 2\n\
            app;bpf_prog_1_first;[kernel.kallsyms];bpf_prog_1_first 1\n\
            app;ftrace_trampoline 4\n";
        assert_eq!(folded, expect, "{warnings:?}");
    }
}

#[test]
fn guests_are_not_taken_for_the_host() {
    let mut maker = Maker::new(ByteOrder::Little);
    maker.comm(7, "qemu", 10);
    // In a guest's kernel, and in a guest's program.
    let at = |mode, address: u64| {
        let body = maker.bytes().words(&[address]).u32(7).u32(7).words(&[20, 1, 0]);
        (mode, body)
    };
    for (mode, body) in [at(4, 0xffff_ffff_8100_0000), at(5, 0x1000), at(3, 0x2000)] {
        maker.record(9, mode, &body);
    }
    let guest_kernel = 2176u64.wrapping_neg();
    let guest_user = 2560u64.wrapping_neg();
    let chain = [guest_kernel, 0xffff_ffff_8100_0000, guest_user, 0x1000];
    maker.sample(7, 30, 8, &chain, &[]);
    let (folded, warnings) = fold(&maker.file());
    let expect = "qemu;[guest.kernel] 1\nqemu;[guest] 1\nqemu;[guest];[guest.kernel] 8\n\
        qemu;[hypervisor] 1\n";
    assert_eq!(folded, expect, "{warnings:?}");
}

#[test]
fn a_recording_that_was_killed_has_no_size() {
    let maker = example(ByteOrder::Little);
    let mut file = maker.file();
    file[48..56].fill(0);
    assert_eq!(fold(&file), fold(&maker.file()));
}

#[test]
fn packed_records_that_are_none() {
    let mut maker = Maker::new(ByteOrder::Little);
    maker.comm(7, "app", 10);
    maker.sample(7, 20, 3, &[USER, 0x1000], &[]);
    // A record of no size, and then zeros without end.
    let packed =
        zstd::encode_all([maker.records.concat(), vec![0; 1 << 26]].concat().as_slice(), 1);
    let packed = maker.bytes().raw(&packed.expect("to memory"));
    maker.records.clear();
    maker.record(81, 0, &packed);
    let (folded, warnings) = fold(&maker.file());
    assert_eq!(folded, "app;[unknown] 3\n");
    assert!(warnings[0].contains("what is no record"), "{warnings:?}");
}

#[test]
fn nothing_in_it() {
    let mut maker = Maker::new(ByteOrder::Little);
    maker.comm(7, "app", 10);
    let said = |maker: &Maker| fold(&maker.file()).1;
    assert_eq!(said(&maker), ["read x: there is no sample of cpu-clock in it"]);
    // A LOST record: of which event, how many, and who and when.
    let body = maker.bytes().words(&[0, 12]).u32(7).u32(7).words(&[20]);
    maker.record(2, 0, &body);
    assert_eq!(
        said(&maker),
        ["read x: there is no sample of cpu-clock in it: 12 were lost while recording"]
    );
    let file = maker.file();
    assert_eq!(
        fold(&file[..240]).1,
        ["read x: there is no sample of cpu-clock in it: 72 of 312 bytes are missing"]
    );
    assert_eq!(fold(&file[..16]).1, ["read x"]);
    let pipe = maker.pipe();
    assert_eq!(fold(&pipe[..16]).1, ["read x: there is no event in it"]);
}

#[test]
fn the_result_is_the_same_for_any_number_of_threads() {
    let mut maker = Maker::new(ByteOrder::Little);
    maker.comm(7, "app", 10);
    for time in 0..20_000u64 {
        let chain = [USER, 0x1000 + time % 7, 0x2000 + time % 130, 0x3000];
        maker.sample(7 + (time % 3) as u32, 20 + time, time % 11, &chain, &[]);
    }
    let file = maker.file();
    for detail in [Detail::Totals, Detail::Samples] {
        let profile = |workers| {
            let options =
                Options { workers, detail, unknown_addresses: true, ..Options::default() };
            read(vec![Input::bytes("x", file.as_slice())], &options).expect("a recording").0
        };
        let one = profile(1);
        for workers in 2..5 {
            let more = profile(workers);
            let rows = |profile: &pyrograph_profile::Profile| {
                let values = profile.samples.values(0).to_vec();
                profile.samples.iter().zip(values).collect::<Vec<_>>()
            };
            assert_eq!(rows(&one), rows(&more), "{workers} threads, {detail:?}");
            assert!(one.frames.iter().eq(more.frames.iter()));
        }
    }
}

/// Linux 6.18 puts device and inode under the flag that says build ID once any program on the machine has
/// asked for build IDs: the device's number is no size, and the inode no build ID.
#[test]
fn device_and_inode_under_the_flag_of_build_ids_are_no_build_id() {
    const MMAP2: u32 = 10;
    const USER_WITH_BUILD_ID: u16 = 2 | 1 << 14;
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::copy(std::env::current_exe().expect("this program"), folder.path().join("program"))
        .expect("a copy");
    let fold = |major: u32| {
        let mut maker = Maker::new(ByteOrder::Little);
        maker.comm(7, "app", 10);
        let map = maker.bytes().u32(7).u32(7).words(&[0x10_0000, 0x1000, 0]);
        let map = map.u32(major).u32(1).words(&[99, 4]).u32(5).u32(2).raw(b"/program");
        maker.record(MMAP2, USER_WITH_BUILD_ID, &map.words(&[0]).u32(7).u32(7).words(&[11]));
        maker.sample(7, 20, 3, &[USER, 0x10_0010], &[]);
        let mut options = Options { unknown_addresses: true, ..Options::default() };
        options.symbols.locator.symfs = Some(folder.path().to_owned());
        let (_, warnings) =
            read(vec![Input::bytes("x", maker.file())], &options).expect("a recording");
        warnings.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    // A virtio disk, and a SCSI disk, whose number could be a size.
    for major in [254, 8] {
        assert_eq!(fold(major), Vec::<String>::new(), "{major}");
    }
}

#[test]
fn losses_that_perf_counts_again_when_it_ends_are_counted_once() {
    let lost = |maker: &mut Maker, count: u64, time: u64| {
        let body = maker.bytes().words(&[0, count]).u32(7).u32(7).words(&[time]);
        maker.record(2, 0, &body);
    };
    let lost_samples = |maker: &mut Maker, misc: u16, count: u64, time: u64| {
        let body = maker.bytes().words(&[count]).u32(0).u32(0).words(&[time]);
        maker.record(13, misc, &body);
    };
    let said = |maker: &Maker| fold(&maker.file()).1;
    let mut maker = example(ByteOrder::Little);
    maker.read_format = 1 << 4;
    lost(&mut maker, 30, 41);
    lost(&mut maker, 12, 42);
    assert_eq!(said(&maker), ["42 samples were lost while recording"]);
    // perf's own count at the end has no time, and what was lost after the last LOST is in it.
    lost_samples(&mut maker, 0, 45, 0);
    assert_eq!(said(&maker), ["45 samples were lost while recording"]);
    // The hardware's are others, and those of a filter are none.
    lost_samples(&mut maker, 0, 5, 43);
    lost_samples(&mut maker, 1 << 15, 1000, 0);
    assert_eq!(said(&maker), ["50 samples were lost while recording"]);
    // An event that does not count what is lost: both are of the kernel.
    maker.read_format = 0;
    assert_eq!(said(&maker), ["92 samples were lost while recording"]);
}

/// The file that `perf record -z` would write: all records packed into records of at most this size.
fn packed(maker: &Maker, size: usize) -> Vec<u8> {
    let packed = zstd::encode_all(maker.records.concat().as_slice(), 1).expect("zstd");
    let mut outer = Maker::new(maker.order);
    for piece in packed.chunks(size) {
        let record = outer.bytes().u32(81).u16(0).u16(8 + piece.len() as u16).raw(piece);
        outer.records.push(record.bytes);
    }
    outer.file()
}

#[test]
fn a_changed_byte_in_packed_records_is_noticed_or_changes_no_number_of_samples() {
    let mut maker = Maker::new(ByteOrder::Little);
    maker.comm(7, "app", 10);
    for number in 0..200 {
        let chain = [USER, 0x1000 + number % 7, 0x2000 + number % 3];
        maker.sample(7, 20 + 3 * number, 1, &chain[..2 + (number % 2) as usize], &[]);
    }
    let file = packed(&maker, 100);
    let count = |folded: &str| {
        let count = |line: &str| line.rsplit(' ').next().and_then(|count| count.parse().ok());
        folded.lines().filter_map(count).fold(0u64, u64::saturating_add)
    };
    assert_eq!(fold(&file).1, Vec::<String>::new());
    assert_eq!(count(&fold(&file).0), 200);
    let options = Options { count: Count::Samples, workers: 1, ..Options::default() };
    let mut silent = Vec::new();
    for at in 232..file.len() {
        let mut damaged = file.clone();
        damaged[at] ^= 1 << (at % 8);
        let Ok((profile, warnings)) = read(vec![Input::bytes("x", damaged)], &options) else {
            continue;
        };
        if profile.samples.total(0) != 200 && !warnings.any_loss() {
            silent.push((at, profile.samples.total(0)));
        }
    }
    assert_eq!(silent, [], "bytes, and the samples that were left");
}

#[test]
fn packed_records_that_end_early_say_so() {
    let file = packed(&example(ByteOrder::Little), 1000);
    for missing in [1, 9, 17] {
        let (_, warnings) = fold(&file[..file.len() - missing]);
        assert!(!warnings.is_empty(), "{missing}");
    }
    let mut maker = example(ByteOrder::Little);
    let last = maker.records.last_mut().expect("a record");
    last.truncate(last.len() - 8);
    let (folded, warnings) = fold(&packed(&maker, 1000));
    assert!(folded.contains("[unknown] 5"), "{folded}");
    assert!(warnings[0].contains("compressed data ends within a record"), "{warnings:?}");
}

/// A file of two events with an ID each, and a sample of each.
fn two_events() -> (Maker, Vec<u8>) {
    const ID: u64 = 1 << 16;
    let mut maker = Maker::new(ByteOrder::Little);
    maker.sample_type |= ID;
    for (id, time) in [(11, 20), (12, 30), (12, 40)] {
        let body = maker.bytes().words(&[id, 0x1000]).u32(7).u32(7).words(&[time, 1, 2]);
        let body = body.words(&[USER, 0x1000]);
        maker.record(9, 2, &body);
    }
    let attr = maker.attr().bytes;
    let data = maker.records.concat();
    let (table, ids) = (104 + 16, 104 + 16 + 2 * 128);
    let start = ids;
    // The IDs are before the table.
    let header = maker.magic().words(&[104, 128, table, 256, start, data.len() as u64, 0, 0]);
    let file = header.words(&[0; 4]).words(&[11, 12]);
    let file = file.raw(&attr).words(&[104, 8]).raw(&attr).words(&[112, 8]).raw(&data);
    (maker, file.bytes)
}

#[test]
fn a_damaged_table_of_events_does_not_make_all_events_one_in_silence() {
    let (_, file) = two_events();
    let (folded, warnings) = fold(&file);
    assert_eq!(folded, ":7;[unknown] 1\n");
    assert!(warnings.iter().all(|said| !said.contains("damaged")), "{warnings:?}");
    // The table's size and place, each entry's attributes' size, and where its IDs are.
    let (table, first_ids) = (120, 120 + 112);
    for (at, what) in [
        (16, "size of an entry"),
        (32, "size of the table"),
        (table + 4, "size of attributes"),
        (first_ids, "place of IDs"),
        (first_ids + 8, "size of IDs"),
        (104, "an ID"),
        (112, "another ID"),
    ] {
        let mut damaged = file.clone();
        damaged[at] ^= 0x40;
        let (folded, warnings) = fold(&damaged);
        let is_said =
            warnings.iter().any(|said| said.contains("damaged") || said.contains("read x"));
        assert!(is_said, "{what}: {folded} {warnings:?}");
    }
}
