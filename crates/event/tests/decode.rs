//! Each record type from bytes built by hand after `include/uapi/linux/perf_event.h`, and random
//! bytes: these may be refused, but nothing may panic.

use proptest::prelude::*;
use pyrograph_event::*;

/// A record in little-endian order: header, then `body`.
fn record(kind: u32, misc: u16, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(kind.to_le_bytes());
    bytes.extend(misc.to_le_bytes());
    bytes.extend((8 + body.len() as u16).to_le_bytes());
    bytes.extend(body);
    bytes
}

fn words<const N: usize>(words: [u64; N]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Two 32-bit numbers in one word.
fn pair(low: i32, high: i32) -> u64 {
    u64::from(low.cast_unsigned()) | u64::from(high.cast_unsigned()) << 32
}

fn layout(sample_type: u64) -> Layout {
    Layout::new(&Attr { sample_type, ..Attr::new() }.with(flag::SAMPLE_ID_ALL))
}

const WHO: u64 = sample_type::TID | sample_type::TIME | sample_type::CPU;

/// The trailer for [`WHO`]: pid 7, tid 8, time 1000, CPU 3.
fn trailer() -> Vec<u8> {
    words([pair(7, 8), 1000, 3])
}

const ID: SampleId = SampleId {
    pid: Some(7),
    tid: Some(8),
    time: Some(1000),
    cpu: Some(3),
    id: None,
    stream_id: None,
};

/// Decodes a record of `body` and the trailer, and checks that no shorter one is decoded.
fn check(kind: u32, misc: u16, body: Vec<u8>, expect: &Record<'_>) {
    let layout = layout(WHO);
    let bytes = record(kind, misc, &[body, trailer()].concat());
    assert_eq!(layout.decode(&bytes).as_ref(), Ok(expect));
    assert_eq!(layout.time(&bytes), Some(1000));
    assert!(matches!(
        layout.decode(&record(kind, misc, &trailer()[1..])),
        Err(DecodeError::Truncated { .. })
    ));
}

#[test]
fn mappings() {
    let body = [words([pair(7, 8), 0x1000, 0x2000, 0x3000]), b"/bin/a b\0\0\0\0\0\0\0\0".to_vec()]
        .concat();
    let mmap = Mmap {
        pid: 7,
        tid: 8,
        start: 0x1000,
        len: 0x2000,
        offset: 0x3000,
        path: b"/bin/a b",
        executable: true,
        id: ID,
    };
    check(kind::MMAP, 2, body, &Record::Mmap(mmap));

    let start = [pair(7, 8), 0x1000, 0x2000, 0x3000];
    let end = [words([pair(5, 2)]), b"/lib/x\0\0".to_vec()].concat();
    let mmap2 = |file| Mmap2 {
        pid: 7,
        tid: 8,
        start: 0x1000,
        len: 0x2000,
        offset: 0x3000,
        file,
        protection: 5,
        flags: 2,
        path: b"/lib/x",
        id: ID,
    };
    let inode = [words(start), words([pair(254, 1), 99, 4]), end.clone()].concat();
    let file = FileId::Inode { major: 254, minor: 1, inode: 99, generation: 4 };
    check(kind::MMAP2, 2, inode, &Record::Mmap2(mmap2(file)));

    let id: Vec<u8> = (1..=20).collect();
    let body = [words(start), vec![20, 0, 0, 0], id.clone(), end, trailer()].concat();
    let file = FileId::BuildId(BuildId::new(&id));
    let bytes = record(kind::MMAP2, misc::MMAP_BUILD_ID, &body);
    assert_eq!(layout(WHO).with_build_ids().decode(&bytes), Ok(Record::Mmap2(mmap2(file))));
}

/// Once another program has an event that asks for build IDs, Linux 6.18 sets the flag on records of all
/// events that the same mapping is announced to, and writes device and inode below it.
#[test]
fn device_and_inode_under_the_flag_of_another_event_are_no_build_id() {
    let file = |layout: Layout, major: u32| {
        let id = words([pair(major as i32, 1), 99, 4]);
        let body = [words([0; 4]), id, words([0, 0]), trailer()].concat();
        match layout.decode(&record(kind::MMAP2, misc::MMAP_BUILD_ID, &body)) {
            Ok(Record::Mmap2(Mmap2 { file, .. })) => file,
            other => panic!("{other:?}"),
        }
    };
    // virtio disk, SCSI disk, NVMe disk (259: a size of 3, with a reserved byte that is not zero).
    for major in [254, 8, 259, 0] {
        let inode = FileId::Inode { major, minor: 1, inode: 99, generation: 4 };
        assert_eq!(file(layout(WHO), major), inode, "the event asks for no build IDs");
        if major != 8 {
            assert_eq!(file(layout(WHO).with_build_ids(), major), inode, "{major} is no size");
        }
    }
}

#[test]
fn tasks_and_names() {
    let comm = [words([pair(7, 8)]), b"a:b c\0\0\0".to_vec()].concat();
    let expect = |exec| Record::Comm(Comm { pid: 7, tid: 8, name: b"a:b c", exec, id: ID });
    check(kind::COMM, 0, comm.clone(), &expect(false));
    check(kind::COMM, misc::COMM_EXEC, comm, &expect(true));

    let task = Task {
        pid: 7,
        parent_pid: 1,
        tid: 8,
        parent_tid: 2,
        time: 999,
        synthesized: false,
        id: ID,
    };
    check(kind::FORK, 0, words([pair(7, 1), pair(8, 2), 999]), &Record::Fork(task));
    check(kind::EXIT, 0, words([pair(7, 1), pair(8, 2), 999]), &Record::Exit(task));
}

#[test]
fn what_was_lost() {
    check(kind::LOST, 0, words([5, 12]), &Record::Lost(Lost { event_id: 5, count: 12, id: ID }));
    check(
        kind::LOST_SAMPLES,
        0,
        words([12]),
        &Record::LostSamples(LostSamples { count: 12, id: ID }),
    );
    let throttle = Throttle { time: 1, event_id: 2, stream_id: 3, id: ID };
    check(kind::THROTTLE, 0, words([1, 2, 3]), &Record::Throttle(throttle));
    check(kind::UNTHROTTLE, 0, words([1, 2, 3]), &Record::Unthrottle(throttle));
}

#[test]
fn switches() {
    let out = Record::Switch(Switch { out: true, preempted: true, id: ID });
    check(kind::SWITCH, misc::SWITCH_OUT | misc::SWITCH_OUT_PREEMPT, vec![], &out);
    let wide = SwitchCpuWide { out: false, preempted: false, other_pid: 4, other_tid: -1, id: ID };
    check(kind::SWITCH_CPU_WIDE, 0, words([pair(4, -1)]), &Record::SwitchCpuWide(wide));
}

#[test]
fn kernel_changes() {
    let ksymbol =
        [words([0x1000]), vec![16, 0, 0, 0, 1, 0, 1, 0], b"bpf_prog\0\0\0\0\0\0\0\0".to_vec()]
            .concat();
    let expect = Ksymbol {
        start: 0x1000,
        len: 16,
        symbol_type: 1,
        unregister: true,
        name: b"bpf_prog",
        id: ID,
    };
    check(kind::KSYMBOL, 0, ksymbol, &Record::Ksymbol(expect));

    let bpf = [vec![1, 0, 0, 0, 42, 0, 0, 0], vec![1, 2, 3, 4, 5, 6, 7, 8]].concat();
    let expect =
        BpfEvent { event_type: 1, flags: 0, program: 42, tag: [1, 2, 3, 4, 5, 6, 7, 8], id: ID };
    check(kind::BPF_EVENT, 0, bpf, &Record::BpfEvent(expect));

    let poke = [words([0x1000]), vec![2, 0, 3, 0, 1, 2, 3, 4, 5, 0, 0, 0]].concat();
    let expect = TextPoke { address: 0x1000, old: &[1, 2], new: &[3, 4, 5], id: ID };
    check(kind::TEXT_POKE, 0, poke, &Record::TextPoke(expect));

    let cgroup = [words([77]), b"/a/b\0\0\0\0".to_vec()].concat();
    check(kind::CGROUP, 0, cgroup, &Record::Cgroup(Cgroup { cgroup: 77, path: b"/a/b", id: ID }));
    check(
        kind::AUX,
        0,
        words([1, 2, 3]),
        &Record::Aux(Aux { offset: 1, size: 2, flags: 3, id: ID }),
    );
}

#[test]
fn namespaces_and_deferred_callchains() {
    let layout = layout(WHO);
    let bytes =
        record(kind::NAMESPACES, 0, &[words([pair(7, 8), 2, 10, 11, 20, 21]), trailer()].concat());
    let Ok(Record::Namespaces(namespaces)) = layout.decode(&bytes) else { panic!() };
    assert_eq!((namespaces.pid, namespaces.tid, namespaces.id), (7, 8, ID));
    assert!(namespaces.links().eq([(10, 11), (20, 21)]));

    let chain = words([55, 2, 0x1000, 0x2000]);
    let bytes = record(kind::CALLCHAIN_DEFERRED, 0, &[chain, trailer()].concat());
    let Ok(Record::CallchainDeferred(deferred)) = layout.decode(&bytes) else { panic!() };
    assert_eq!((deferred.cookie, deferred.id), (55, ID));
    assert!(deferred.callchain.iter().eq([0x1000, 0x2000]));
}

#[test]
fn a_count_beyond_the_records_end_is_an_error() {
    for (kind, body) in [
        (kind::NAMESPACES, words([pair(7, 8), 3, 10, 11, 20, 21])),
        (kind::NAMESPACES, words([pair(7, 8), u64::MAX, 10, 11])),
        (kind::CALLCHAIN_DEFERRED, words([55, 3, 0x1000, 0x2000])),
        (kind::CALLCHAIN_DEFERRED, words([55, u64::MAX / 8 + 2, 0x1000])),
    ] {
        let bytes = record(kind, 0, &[body, trailer()].concat());
        assert!(matches!(layout(WHO).decode(&bytes), Err(DecodeError::Truncated { .. })));
    }
}

#[test]
fn unknown_types_are_kept() {
    for kind in [kind::ITRACE_START, kind::AUX_OUTPUT_HW_ID, 23, 68, u32::MAX] {
        let bytes = record(kind, 4, &[1, 2, 3, 4, 5, 6, 7, 8]);
        let Ok(Record::Unknown(unknown)) = layout(WHO).decode(&bytes) else { panic!() };
        assert_eq!((unknown.header.kind, unknown.body), (kind, &bytes[8..]));
    }
    // Records that perf writes itself have no trailer, so no time.
    assert_eq!(layout(WHO).time(&record(68, 0, &trailer())), None);
}

#[test]
fn headers_that_cannot_be_right() {
    let layout = layout(0);
    assert_eq!(layout.decode(&[1, 0, 0]), Err(DecodeError::Header { len: 3 }));
    let short = layout.decode(&[9, 0, 0, 0, 0, 0, 7, 0]).unwrap_err();
    assert_eq!(short.to_string(), "SAMPLE record says it has 7 bytes where 8 are");
    let long = layout.decode(&[3, 0, 0, 0, 0, 0, 16, 0]).unwrap_err();
    assert_eq!(long, DecodeError::Size { kind: 3, size: 16, len: 8 });
}

#[test]
fn event_ids_are_found_without_decoding() {
    let identifier = layout(sample_type::IDENTIFIER | sample_type::IP | sample_type::TIME);
    let sample = record(kind::SAMPLE, 0, &words([42, 0x1000, 5]));
    assert_eq!((identifier.event_id(&sample), identifier.time(&sample)), (Some(42), Some(5)));
    let comm = record(kind::COMM, 0, &words([pair(1, 1), 0, 5, 42]));
    assert_eq!((identifier.event_id(&comm), identifier.time(&comm)), (Some(42), Some(5)));

    let id = layout(
        sample_type::IP | sample_type::TID | sample_type::ADDR | sample_type::ID | sample_type::CPU,
    );
    let sample = record(kind::SAMPLE, 0, &words([0x1000, pair(7, 8), 0x2000, 42, 3]));
    assert_eq!(id.event_id(&sample), Some(42));
    let comm = record(kind::COMM, 0, &words([pair(1, 1), 0, pair(7, 8), 42, 3]));
    assert_eq!(id.event_id(&comm), Some(42));
    let Ok(Record::Comm(comm)) = id.decode(&comm) else { panic!() };
    assert_eq!(
        comm.id,
        SampleId {
            pid: Some(7),
            tid: Some(8),
            time: None,
            cpu: Some(3),
            id: Some(42),
            stream_id: None
        }
    );
}

/// All fields at once: the order is what matters.
#[test]
fn a_sample_with_every_field() {
    let mask = regs::x86_64::UNWIND;
    let attr = Attr {
        sample_type: ((1 << 24) - 1) & !sample_type::WEIGHT | sample_type::WEIGHT_STRUCT,
        read_format: read_format::GROUP
            | read_format::TOTAL_TIME_RUNNING
            | read_format::ID
            | read_format::LOST,
        branch_sample_type: branch_sample::HW_INDEX | branch_sample::COUNTERS,
        sample_regs_user: mask,
        sample_regs_intr: 1 << regs::x86_64::SP,
        ..Attr::new()
    };
    let layout = Layout::new(&attr);
    let regs: [u64; 17] = std::array::from_fn(|index| 500 + index as u64);
    let body = [
        words([42, 0x1000, pair(7, 8), 1000, 0x2000, 42, 43, 3, 99]),
        words([2, 12, 100, 1, 5, 200, 2, 6]), // group of 2, time running 12
        words([3, 128_u64.wrapping_neg(), 0x1000, 0x1001]),
        vec![4, 0, 0, 0, 1, 2, 3, 4],
        words([2, 17, 10, 11, 1, 20, 21, 2 | 1000 << 4 | 3 << 20, 71, 72]),
        words([2]),
        words(regs),
        words([16, 1, 2, 8]), // room for 16 bytes, 8 copied
        words([61, 62, 63, 1, 64, 65, 66, 67, 68]),
        words([8, 9]),
    ]
    .concat();
    let bytes = record(kind::SAMPLE, 1 | misc::EXACT_IP, &body);
    let Ok(Record::Sample(sample)) = layout.decode(&bytes) else {
        panic!("{:?}", layout.decode(&bytes))
    };

    assert_eq!((sample.mode, sample.exact_ip), (CpuMode::Kernel, true));
    assert_eq!(sample.id, SampleId { id: Some(42), stream_id: Some(43), ..ID });
    assert_eq!((sample.ip, sample.addr, sample.period), (Some(0x1000), Some(0x2000), Some(99)));
    let read = sample.read.unwrap();
    assert_eq!((read.time_enabled, read.time_running, read.len()), (None, Some(12), 2));
    let value = |value, id, lost| ReadValue { value, id: Some(id), lost: Some(lost) };
    assert!(read.iter().eq([value(100, 1, 5), value(200, 2, 6)]));
    assert_eq!(sample.callchain.len(), 3);
    assert_eq!(sample.raw, Some(&[1, 2, 3, 4][..]));
    let branches = sample.branches.unwrap();
    assert_eq!(branches.hardware_index, Some(17));
    let second = branches.iter().nth(1).unwrap();
    assert_eq!(
        (second.from, second.to, second.mispredicted, second.predicted),
        (20, 21, false, true)
    );
    assert_eq!((second.cycles, second.branch_type, second.counters), (1000, 3, Some(72)));
    assert_eq!(sample.user_regs.unwrap().get(regs::x86_64::IP), Some(508));
    let stack = sample.user_stack.unwrap();
    assert_eq!((stack.bytes, stack.capacity, stack.is_cut()), (&words([1])[..], 16, false));
    assert_eq!(
        (sample.weight, sample.data_src, sample.transaction),
        (Some(61), Some(62), Some(63))
    );
    assert_eq!(sample.intr_regs.map(|regs| (regs.abi, regs.get(7))), Some((Abi::Bits32, Some(64))));
    assert_eq!((sample.phys_addr, sample.cgroup), (Some(65), Some(66)));
    assert_eq!((sample.data_page_size, sample.code_page_size), (Some(67), Some(68)));
    assert_eq!(sample.aux, Some(&words([9])[..]));

    // Whatever is cut off is missed.
    for len in 0..body.len() {
        let bytes = record(kind::SAMPLE, 0, &body[..len]);
        assert!(
            matches!(layout.decode(&bytes), Err(DecodeError::Truncated { kind: 9, .. })),
            "{len}"
        );
    }
}

#[test]
fn a_kernel_thread_has_no_user_registers_and_no_stack() {
    let attr = Attr {
        sample_type: sample_type::IP | sample_type::REGS_USER | sample_type::STACK_USER,
        sample_regs_user: regs::x86_64::UNWIND,
        ..Attr::new()
    };
    let bytes = record(kind::SAMPLE, 1, &words([0x1000, 0, 0]));
    let Ok(Record::Sample(sample)) = Layout::new(&attr).decode(&bytes) else { panic!() };
    assert_eq!((sample.user_regs, sample.user_stack), (None, None));
}

#[test]
fn a_stack_that_says_more_was_copied_than_there_is_room_for() {
    let layout = layout(sample_type::STACK_USER);
    let bytes = record(kind::SAMPLE, 2, &words([8, 5, u64::MAX]));
    let Ok(Record::Sample(sample)) = layout.decode(&bytes) else { panic!() };
    let stack = sample.user_stack.unwrap();
    assert_eq!((stack.bytes.len(), stack.is_cut()), (8, true));
}

/// `PERF_SAMPLE_READ` without a group: the times stand between the value and its id.
#[test]
fn a_single_read_value() {
    let formats = [
        (
            read_format::TOTAL_TIME_ENABLED | read_format::TOTAL_TIME_RUNNING | read_format::ID,
            Some(30),
            None,
        ),
        (
            read_format::TOTAL_TIME_ENABLED | read_format::TOTAL_TIME_RUNNING | read_format::LOST,
            None,
            Some(30),
        ),
    ];
    for (read_format, id, lost) in formats {
        let attr = Attr { sample_type: sample_type::READ, read_format, ..Attr::new() };
        let bytes = record(kind::SAMPLE, 2, &words([100, 10, 20, 30]));
        let Ok(Record::Sample(sample)) = Layout::new(&attr).decode(&bytes) else { panic!() };
        let read = sample.read.unwrap();
        assert_eq!((read.time_enabled, read.time_running, read.len()), (Some(10), Some(20), 1));
        assert_eq!(read.iter().next(), Some(ReadValue { value: 100, id, lost }));
    }
}

#[test]
fn a_foreign_byte_order_is_decoded() {
    let layout = Layout::with_order(
        &Attr { sample_type: WHO | sample_type::IP | sample_type::CALLCHAIN, ..Attr::new() },
        ByteOrder::Big,
    );
    let mut bytes = [0, 0, 0, 9, 0, 2, 0, 56].to_vec();
    bytes.extend(0x1234_u64.to_be_bytes());
    bytes.extend([7_u32, 8].iter().flat_map(|number| number.to_be_bytes()));
    bytes.extend(1000_u64.to_be_bytes());
    bytes.extend([3_u32, 0].iter().flat_map(|number| number.to_be_bytes()));
    bytes.extend([1_u64, 0x1234].iter().flat_map(|number| number.to_be_bytes()));
    let Ok(Record::Sample(sample)) = layout.decode(&bytes) else {
        panic!("{:?}", layout.decode(&bytes))
    };
    assert_eq!((sample.mode, sample.ip, sample.id), (CpuMode::User, Some(0x1234), ID));
    assert!(sample.callchain.iter().eq([0x1234]));
    assert_eq!(layout.time(&bytes), Some(1000));
}

/// Looks at everything that a record lets one look at.
fn touch(record: &Record<'_>) -> u64 {
    match record {
        Record::Sample(sample) => {
            let read: u64 =
                sample.read.iter().flat_map(ReadValues::iter).map(|read| read.value & 1).sum();
            let branches = sample.branches.iter().flat_map(BranchStack::iter).count() as u64;
            let regs = sample.user_regs.iter().chain(&sample.intr_regs).flat_map(Regs::iter).count()
                as u64;
            let chain = sample.callchain.entries().count() as u64;
            read + branches
                + regs
                + chain
                + sample.user_stack.map_or(0, |stack| stack.bytes.len() as u64)
        }
        Record::Namespaces(namespaces) => namespaces.links().count() as u64,
        Record::Read(read) => read.values.iter().count() as u64,
        Record::CallchainDeferred(deferred) => deferred.callchain.entries().count() as u64,
        _ => 0,
    }
}

fn any_attr() -> impl Strategy<Value = Attr> {
    // Mostly few bits, so that records get past their first fields.
    let sample_type = prop_oneof![
        any::<u64>(),
        (0..25_u32, 0..25_u32).prop_map(|(one, two)| 1 << one | 1 << two)
    ];
    (sample_type, 0..32_u64, any::<u64>(), any::<u64>(), any::<bool>()).prop_map(
        |(sample_type, read_format, branch_sample_type, mask, all)| {
            let attr = Attr {
                sample_type,
                read_format,
                branch_sample_type,
                sample_regs_user: mask,
                sample_regs_intr: mask & 0xff,
                ..Attr::new()
            };
            attr.with(if all { flag::SAMPLE_ID_ALL } else { 0 })
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn random_bytes_never_panic(
        attr in any_attr(),
        big in any::<bool>(),
        kind in prop_oneof![0..24_u32, Just(kind::SAMPLE), any::<u32>()],
        misc in any::<u16>(),
        // Small words make for counts that the record can hold.
        body in prop::collection::vec(prop_oneof![0..6_u64, any::<u64>()], 0..40),
        cut in 0..8_usize,
    ) {
        let layout = Layout::with_order(&attr, if big { ByteOrder::Big } else { ByteOrder::Little });
        let word = |word: u64| if big { word.to_be_bytes() } else { word.to_le_bytes() };
        let mut bytes = if big { kind.to_be_bytes() } else { kind.to_le_bytes() }.to_vec();
        let size = (8 + body.len() * 8).saturating_sub(cut) as u16;
        bytes.extend(if big { misc.to_be_bytes() } else { misc.to_le_bytes() });
        bytes.extend(if big { size.to_be_bytes() } else { size.to_le_bytes() });
        bytes.extend(body.iter().flat_map(|item| word(*item)));
        if let Ok(record) = layout.decode(&bytes) {
            touch(&record);
        }
        let _ = (layout.time(&bytes), layout.event_id(&bytes));
        let _ = Attr::parse(&bytes, layout.order());
    }

    #[test]
    fn unshaped_bytes_never_panic(attr in any_attr(), bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let layout = Layout::new(&attr);
        let _ = layout.decode(&bytes).map(|record| touch(&record));
        let _ = (layout.time(&bytes), layout.event_id(&bytes));
    }

    #[test]
    fn what_is_encoded_is_decoded(
        sample_type in any::<u64>(),
        all in any::<bool>(),
        big in any::<bool>(),
        name in prop::collection::vec(1..=255_u8, 0..40),
        numbers in any::<[u64; 8]>(),
        exec in any::<bool>(),
        build_id in prop::option::of(prop::collection::vec(any::<u8>(), 1..=20)),
    ) {
        let attr = Attr { sample_type, ..Attr::new() }.with(if all { flag::SAMPLE_ID_ALL } else { 0 });
        let layout = Layout::with_order(&attr, if big { ByteOrder::Big } else { ByteOrder::Little }).with_build_ids();
        let has = |bit| all && sample_type & bit != 0;
        let (pid, tid) = (numbers[0] as i32, numbers[1] as i32);
        let id = SampleId {
            pid: has(sample_type::TID).then_some(pid),
            tid: has(sample_type::TID).then_some(tid),
            time: has(sample_type::TIME).then_some(numbers[2]),
            cpu: has(sample_type::CPU).then_some(numbers[3] as u32),
            id: has(sample_type::ID | sample_type::IDENTIFIER).then_some(numbers[4]),
            stream_id: has(sample_type::STREAM_ID).then_some(numbers[5]),
        };
        let comm = Comm { pid, tid, name: &name, exec, id };
        let fork = Task { pid, parent_pid: 1, tid, parent_tid: 2, time: numbers[6], synthesized: exec, id };
        let file = match &build_id {
            Some(bytes) => FileId::BuildId(BuildId::new(bytes)),
            None => FileId::Inode { major: 8, minor: 1, inode: numbers[7], generation: 0 },
        };
        let mmap = Mmap2 {
            pid, tid, start: numbers[2], len: numbers[3], offset: numbers[4], file,
            protection: 5, flags: 2, path: &name, id,
        };
        let mut bytes = Vec::new();
        comm.encode(&layout, &mut bytes);
        let fork_at = bytes.len();
        fork.encode_fork(&layout, &mut bytes);
        let mmap_at = bytes.len();
        mmap.encode(&layout, &mut bytes);
        prop_assert_eq!(layout.decode(&bytes), Ok(Record::Comm(comm)));
        prop_assert_eq!(layout.decode(&bytes[fork_at..]), Ok(Record::Fork(fork)));
        prop_assert_eq!(layout.decode(&bytes[mmap_at..]), Ok(Record::Mmap2(mmap)));
        prop_assert_eq!(fork_at % 8, 0);
        prop_assert_eq!(bytes.len() % 8, 0);
    }
}
