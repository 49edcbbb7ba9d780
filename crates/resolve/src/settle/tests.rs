//! That a recording which settles comes to the same as one that does not, in little memory.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::ops::Range;
use std::os::fd::AsRawFd;

use pyrograph_event::counted::{Counted, Cut, Kind, UserFrame, UserStack, Wait, Waker};
use pyrograph_event::interpreter::Calls;
use pyrograph_event::{Comm, Record, SampleId, Task};
use pyrograph_profile::ThreadDetail;
use pyrograph_symbol::Locator;
use pyrograph_unwind::Arch;

use super::*;
use crate::counted::Label;
use crate::files::{Files, LiveFiles, MappedFile};
use crate::resolver::{Options, Resolved, Resolver};

/// Files of this machine, and a map of JIT-compiled code.
struct WithMap(File);

impl Files for WithMap {
    fn open(&mut self, mapped: &MappedFile<'_>) -> Option<(File, bool)> {
        LiveFiles.open(mapped)
    }

    fn perf_map(&mut self, _: i32) -> Option<File> {
        // A clone would be read on from where another thread has come to.
        File::open(format!("/proc/self/fd/{}", self.0.as_raw_fd())).ok()
    }
}

fn resolver(memory: Option<usize>, threads: ThreadDetail) -> Resolver<WithMap> {
    let mut map = tempfile::tempfile().expect("a temporary file");
    map.write_all(b"1000 1000 first\n2000 1000 second\n").expect("it can be written");
    // The library's own symbols are enough, and soon read.
    let locator =
        Locator { debug_dirs: Vec::new(), symfs: None, build_id_cache: None, debuginfod: None };
    let options = Options {
        value_type: ValueType::new("cpu", "ns"),
        count_samples: false,
        number_of: None,
        keep_times: false,
        instructions: false,
        stack_memory: memory,
        guessing: true,
        languages: Vec::new(),
        monotonic_time: false,
        threads,
        root_is_field: false,
        user_only: false,
        unknown_addresses: true,
        arch: Arch::X86_64,
        symbols: pyrograph_symbol::Options { locator, ..Default::default() },
    };
    Resolver::new(WithMap(map), options)
}

/// Numbers that look like chance, and are the same each time (xorshift).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// The C library: its module's number, and offsets of its code.
fn library(resolver: &mut Resolver<WithMap>) -> (u32, Range<u64>) {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("own maps");
    let is_it = |line: &&str| line.contains(" r-xp ") && line.contains("/libc");
    let line = maps.lines().find(is_it).expect("this program has it mapped");
    let words: Vec<_> = line.split_ascii_whitespace().collect();
    let hex = |text: &str| u64::from_str_radix(text, 16).expect("hexadecimal");
    let (from, to) = words[0].split_once('-').expect("two addresses");
    resolver.expect_file(words[5]);
    let offset = hex(words[2]);
    (resolver.opened_files()[0].module, offset..offset + hex(to) - hex(from))
}

/// Gives as many stacks of all sorts, of some processes for each hundred; settles now and then.
fn feed(resolver: &mut Resolver<WithMap>, stacks: u64) {
    let library = library(resolver);
    feed_some(resolver, &library, 0..stacks);
}

fn feed_some(
    resolver: &mut Resolver<WithMap>,
    (module, code): &(u32, Range<u64>),
    stacks: Range<u64>,
) {
    let module = *module;
    let mut numbers = Numbers(1 + stacks.start);
    let labels = ["read", "write"].map(|text| Label { text: text.to_owned(), in_kernel: true });
    for number in stacks {
        let file = |numbers: &mut Numbers| {
            let address = code.start + numbers.below(code.end - code.start);
            UserFrame { module: Some(module), address }
        };
        let mut user: Vec<_> = (0..3).map(|_| file(&mut numbers)).collect();
        if number % 10 == 0 {
            let address = 0x1000 + numbers.below(0x2800);
            user.insert(1, UserFrame { module: None, address });
        }
        let waker: Vec<_> = (0..2).map(|_| file(&mut numbers)).collect();
        let kernel = [0xffff_ffff_8100_0000 + numbers.below(1 << 20)];
        let name = format!("worker-{}", number / 100);
        let pid = 2 + (number / 100) as i32;
        let kind = match number {
            _ if number % 12 == 0 => Kind::Woken,
            _ if number % 3 == 0 => Kind::Wait(Wait::Io),
            _ => Kind::Event,
        };
        let cut = (number % 7 == 0).then_some(Cut::TooManyFrames);
        let labels = if number % 5 == 0 { &labels[..1] } else { &labels[..0] };
        let counted = Counted {
            pid,
            process: name.as_bytes(),
            tid: pid,
            thread: name.as_bytes(),
            cpu: Some((number % 4) as u32),
            kind,
            kernel: &kernel[..(number % 2) as usize],
            user: Some(UserStack {
                frames: user.into_iter(),
                cut,
                guessed: false,
                calls: Calls::default(),
            }),
            time: None,
            by: None,
            waker: (number % 6 == 0).then(|| Waker {
                pid: 1,
                process: b"who",
                thread: b"who",
                kernel: &[],
                user: Some(UserStack {
                    frames: waker.into_iter(),
                    cut: None,
                    guessed: false,
                    calls: Calls::default(),
                }),
            }),
            events: 1,
            value: 10 + number % 3,
        };
        resolver.counted(counted, labels, (number % 9 == 0).then_some("kind=3"));
        if number % 100 == 0 {
            resolver.settle();
        }
    }
}

/// Values by thread, CPU and stack, with all that is known of frames.
fn rows(resolved: &Resolved) -> BTreeMap<String, u64> {
    rows_of(&resolved.profile)
}

fn rows_of(profile: &Profile) -> BTreeMap<String, u64> {
    let text = |id| profile.strings.get(id);
    let mut rows = BTreeMap::new();
    for (sample, value) in profile.samples.iter().zip(profile.samples.values(0)) {
        let thread = profile.threads.get(sample.thread);
        let mut row = format!("{} {:?} {:?}", text(thread.process), thread.tid, sample.cpu);
        for id in profile.stacks.leaf_first(sample.stack) {
            let Frame { function, module, file, line, start_line, address, kind, guessed } =
                profile.frames.get(id);
            let mark = if guessed { " guessed" } else { "" };
            let names = [function, module, file].map(text).join(" ");
            row += &format!(";{names} {start_line}+{line} {address:x} {kind:?}{mark}");
        }
        *rows.entry(row).or_default() += value;
    }
    rows
}

#[test]
fn it_comes_to_the_same_whether_it_settles_or_not() {
    const STACKS: u64 = 20_000;
    // As much as makes stacks without names settle often, and the profile never full.
    let mut settling = resolver(Some(1 << 30), ThreadDetail::Thread);
    settling.settler.shares = Some(Shares { unnamed: 64 << 10, jit: 32 << 10, profile: 1 << 30 });
    feed(&mut settling, STACKS);
    let settled = settling.stack_memory().settled;
    assert!(settled > 2, "{settled}");
    let settling = settling.finish();

    let mut at_the_end = resolver(None, ThreadDetail::Thread);
    feed(&mut at_the_end, STACKS);
    assert_eq!(at_the_end.stack_memory().settled, 0);
    let at_the_end = at_the_end.finish();
    let (one, other) = (rows(&settling), rows(&at_the_end));
    assert!(one.len() as u64 > STACKS / 10, "{}", one.len());
    let differ = |(a, b): &(_, _)| a != b;
    assert_eq!(one.iter().zip(&other).find(differ), None);
    assert_eq!(one.len(), other.len());
    assert!(one.keys().any(|row| row.contains(";second ")), "JIT-compiled code has names");
    let mut counts = [&settling, &at_the_end].map(|resolved| resolved.stats.clone());
    assert!(counts[0].names.addresses >= counts[1].names.addresses);
    assert_eq!((counts[0].left_out, counts[1].left_out), (0, 0));
    counts.iter_mut().for_each(|stats| stats.names = NameStats::default());
    assert_eq!(format!("{:?}", counts[0]), format!("{:?}", counts[1]));
}

#[test]
fn snapshots_add_up_to_the_whole() {
    let mut resolver = resolver(Some(1 << 30), ThreadDetail::Thread);
    resolver.settler.shares = Some(Shares { unnamed: 64 << 10, jit: 32 << 10, profile: 1 << 30 });
    let mut sums = BTreeMap::<String, u64>::new();
    let mut add = |profile: &Profile| {
        profile.check().expect("a snapshot is a profile");
        rows_of(profile)
            .into_iter()
            .for_each(|(row, value)| *sums.entry(row).or_default() += value);
    };
    let library = library(&mut resolver);
    for stacks in [0..3000, 3000..3001, 3001..7000] {
        feed_some(&mut resolver, &library, stacks);
        add(&resolver.snapshot());
    }
    let nothing = resolver.snapshot();
    assert_eq!(nothing.samples.len(), 0);
    assert!(nothing.threads.len() > 10, "threads are those of the whole");
    feed_some(&mut resolver, &library, 7000..7500);
    add(&resolver.snapshot());
    let resolved = resolver.finish();
    assert!(sums.len() > 1000);
    assert_eq!(rows(&resolved), sums);
}

#[test]
fn what_is_taken_adds_up_and_is_forgotten() {
    let whole = |taken: bool| {
        let mut resolver = resolver(Some(1 << 30), ThreadDetail::Thread);
        let mut sums = BTreeMap::<String, u64>::new();
        let mut add = |profile: &Profile| {
            profile.check().expect("a part is a profile");
            rows_of(profile)
                .into_iter()
                .for_each(|(row, value)| *sums.entry(row).or_default() += value);
        };
        let library = library(&mut resolver);
        for stacks in [0..3000, 3000..3001, 3001..7000] {
            feed_some(&mut resolver, &library, stacks);
            if taken {
                add(&resolver.take_collected());
                assert!(resolver.profile.samples.is_empty() && resolver.profile.threads.is_empty());
                assert_eq!(resolver.profile.strings.len(), 1, "no name is left");
            }
        }
        add(&resolver.finish().profile);
        sums
    };
    let taken = whole(true);
    assert!(taken.len() > 1000);
    assert_eq!(taken, whole(false));
}

#[test]
fn what_has_no_room_is_counted_where_it_leaves_what_is_known() {
    const MEMORY: usize = 2 << 20;
    const STACKS: u64 = 30_000;
    let mut resolver = resolver(Some(MEMORY), ThreadDetail::Thread);
    feed(&mut resolver, STACKS);
    let held = resolver.stack_memory();
    assert!(held.settled > 0 && held.bytes <= MEMORY, "{held:?}");
    let Resolved { profile, stats } = resolver.finish();
    assert!(profile.bytes() <= MEMORY, "{}", profile.bytes());
    let total = profile.samples.total(0);
    assert_eq!(total, (0..STACKS).map(|number| 10 + number % 3).sum::<u64>());
    assert!(stats.left_out > 0 && stats.left_out < total);

    // Stacks that were left out have a marker; each sample has a process, and all have the value that they had.
    let mut left_out = 0;
    let mut processes = BTreeMap::new();
    for (sample, value) in profile.samples.iter().zip(profile.samples.values(0)) {
        let leaf = profile.stacks.leaf_first(sample.stack).next().expect("no stack is empty");
        if profile.strings.get(profile.frames.get(leaf).function) == Marker::LeftOut.label() {
            left_out += value;
        }
        let thread = profile.threads.get(sample.thread);
        *processes.entry(profile.strings.get(thread.process)).or_insert(0) += value;
    }
    assert_eq!(left_out, stats.left_out);
    assert!(processes.keys().all(|name| name.starts_with("worker-") || *name == "[name left out]"));
    assert_eq!(processes["worker-0"], (0..100).map(|number| 10 + number % 3).sum::<u64>());
}

#[test]
fn code_of_processes_that_are_gone_is_forgotten() {
    let mut resolver = resolver(Some(1 << 20), ThreadDetail::Name);
    let mut most = 0;
    for pid in 2..4000 {
        let id = SampleId::default();
        resolver.record(&Record::Comm(Comm { pid, tid: pid, exec: true, name: b"made", id }));
        let frames = std::iter::once(UserFrame { module: None, address: 0x1800 });
        let counted = Counted {
            pid,
            process: b"made",
            tid: pid,
            thread: b"made",
            cpu: None,
            kind: Kind::Event,
            kernel: &[],
            user: Some(UserStack { frames, cut: None, guessed: false, calls: Calls::default() }),
            time: None,
            by: None,
            waker: None,
            events: 1,
            value: 1,
        };
        resolver.counted(counted, &[], None);
        resolver.record(&Record::Exit(Task {
            pid,
            tid: pid,
            parent_pid: 1,
            parent_tid: 1,
            time: 0,
            synthesized: false,
            id,
        }));
        resolver.settle();
        most = most.max(resolver.modules.jit.count());
    }
    assert!(most <= 10 * MOST_GONE / 17, "{most}");
    let resolved = resolver.finish();
    let rows = rows(&resolved);
    assert_eq!(
        rows.into_iter().collect::<Vec<_>>(),
        [("made None None;first   0+0 0 Jit".to_owned(), 3998)]
    );
}
