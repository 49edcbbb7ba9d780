//! Samples made by hand: what perf records has either a callchain of the program or a copy of its
//! stack, but the format has room for both.

use pyrograph_event::{Attr, Layout, Record, kind, misc, regs, sample_type};
use pyrograph_unwind::UnwindInfo;

use super::*;
use crate::module_ids::mapping_tag;

const IP: u64 = 0x1234;
const STACK: u64 = 0x7000;
const KERNEL: u64 = (-128_i64).cast_unsigned();
const USER: u64 = (-512_i64).cast_unsigned();

/// A sample with a callchain and a copy of the stack, which has room for these words and no more.
fn sample_record(chain: &[u64], stack: &[u64]) -> (Layout, Vec<u8>) {
    let attr = Attr {
        sample_type: sample_type::IP
            | sample_type::CALLCHAIN
            | sample_type::REGS_USER
            | sample_type::STACK_USER,
        sample_regs_user: 1 << regs::x86_64::BP | 1 << regs::x86_64::SP | 1 << regs::x86_64::IP,
        ..Attr::default()
    };
    let size = 8 * stack.len() as u64;
    let mut words = vec![IP, chain.len() as u64];
    words.extend(chain);
    // The registers of a 64-bit program, by number, then the copy, its size before and after it.
    words.extend([2, STACK + 8, STACK, IP, size]);
    words.extend(stack);
    words.push(size);
    let mut record = Vec::new();
    record.extend(kind::SAMPLE.to_le_bytes());
    record.extend(2u16.to_le_bytes());
    record.extend((8 + 8 * words.len() as u16).to_le_bytes());
    record.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    (Layout::new(&attr), record)
}

/// Collects the frames of a sample in code without tables, which is unwound by frame pointers.
fn check(chain: &[u64], stack: &[u64], expect: &[u64], marker: Option<Marker>) {
    let (layout, record) = sample_record(chain, stack);
    let Ok(Record::Sample(sample)) = layout.decode(&record) else { panic!("no sample") };
    let mut process = AddressSpace::new();
    process.map(0x1000..0x2000, 0, None, mapping_tag(ModuleId(9), false));
    let kernel = AddressSpace::new();
    let spaces = Spaces { process: &process, kernel: &kernel };
    let mut collector = Collector::new(Arch::X86_64, false);
    let collected = collector.collect(&sample, &process, Extra::default(), None);
    let places = collector.places().iter();
    let frames: Vec<_> = places.map(|place| place.frame(spaces)).collect();
    let named = frames.iter().take_while(|frame| frame.as_marker().is_none());
    let addresses: Vec<u64> = named.map(|frame| frame.address).collect();
    assert_eq!(addresses, expect, "{chain:x?}");
    assert_eq!(collected.marker, marker, "{chain:x?}");
    assert_eq!(frames.last().and_then(|frame| frame.as_marker()), marker, "{chain:x?}");
}

/// The saved frame pointer leads beyond the copy.
const CUT: [u64; 3] = [0, STACK + 0x100, 0x1567];
const TRUNCATED: Option<Marker> = Some(Marker::Truncated);

#[test]
fn a_stack_that_the_copy_cuts_off_goes_on_with_the_callchain() {
    check(&[USER, IP, 0x1567, 0x1789, 0x189a], &CUT, &[IP, 0x1566, 0x1788, 0x1899], None);
    // The two need not begin alike: in a function's first instructions its caller is not in the chain.
    check(&[USER, 0x1567, 0x1789], &CUT, &[IP, 0x1566, 0x1788], None);
}

#[test]
fn the_kernels_part_stays_before_it() {
    let kernel = [0xffff_ffff_8100_0010, 0xffff_ffff_8100_0020];
    let chain = [KERNEL, kernel[0], kernel[1], USER, IP, 0x1567, 0x1789];
    check(&chain, &CUT, &[kernel[0], kernel[1] - 1, IP, 0x1566, 0x1788], None);
    // An address of the kernel's is not the program's, though it be the same.
    check(&[KERNEL, 0x1567, 0x1789, USER, IP], &CUT, &[0x1567, 0x1788, IP, 0x1566], TRUNCATED);
}

#[test]
fn a_callchain_that_does_not_go_through_the_last_frame_is_not_used() {
    check(&[USER, IP, 0x1678, 0x1789], &CUT, &[IP, 0x1566], TRUNCATED);
    check(&[USER, IP, 0x1567], &CUT, &[IP, 0x1566], TRUNCATED);
    check(&[], &CUT, &[IP, 0x1566], TRUNCATED);
}

#[test]
fn a_whole_stack_takes_nothing_from_the_callchain() {
    let stack = [0, STACK + 0x18, 0x1567, 0, 0];
    check(&[USER, IP, 0x1567, 0x1789], &stack, &[IP, 0x1566], None);
}

#[test]
fn recursion_is_continued_where_the_copy_ends_and_not_before() {
    // Two calls from the same place are in the copy, four in the chain.
    let stack = [0, STACK + 0x18, 0x1567, STACK + 0x100, 0x1567];
    let chain = [USER, IP, 0x1567, 0x1567, 0x1567, 0x1567, 0x1789];
    check(&chain, &stack, &[IP, 0x1566, 0x1566, 0x1566, 0x1566, 0x1788], None);
}

#[test]
fn code_that_the_kernel_made_had_its_first_address_and_not_its_own() {
    let (mut kernel, process) = (AddressSpace::default(), AddressSpace::default());
    let start = 0xffff_ffff_c000_1000;
    kernel.map(start..start + 0x400, 0, None, 7);
    let spaces = Spaces { process: &process, kernel: &kernel };
    let frame = Place::Kernel(start + 0x1a9).frame(spaces);
    assert_eq!((frame.module, frame.address), (ModuleId(7), start + 0x1a9));
}

const CODE: u64 = 0x7f00_0000_1000;

/// `outer` calls `inner` at 0x1c, which pushes rbx and makes room.
fn space_of_calls() -> AddressSpace {
    let mut code = vec![0xcc; 0x40];
    // sub $8,%rsp; call inner; add $8,%rsp; ret
    let outer = [0x48, 0x83, 0xec, 8, 0xe8, 0x13, 0, 0, 0, 0x48, 0x83, 0xc4, 8, 0xc3];
    code[..14].copy_from_slice(&outer);
    // push %rbx; sub $16,%rsp; nop; nop; add $16,%rsp; pop %rbx; ret
    let inner = [0x53, 0x48, 0x83, 0xec, 0x10, 0x90, 0x90, 0x48, 0x83, 0xc4, 0x10, 0x5b, 0xc3];
    code[0x1c..0x29].copy_from_slice(&inner);
    let info = UnwindInfo::from_code(Arch::X86_64, CODE, code, &[]);
    let mut space = AddressSpace::new();
    space.map(CODE..CODE + 0x40, 0, Some(info.into()), 0);
    space
}

/// The addresses and the cut of a sample at an instruction, with these words from the stack pointer on.
fn collected(misc: u16, at: u64, stack: &[u64]) -> (Vec<u64>, Option<Cut>) {
    let attr = Attr {
        sample_type: sample_type::IP | sample_type::REGS_USER | sample_type::STACK_USER,
        sample_regs_user: 1 << regs::x86_64::SP | 1 << regs::x86_64::IP,
        ..Attr::new()
    };
    let size = 8 * stack.len() as u64;
    let words = [&[CODE + at, 2, STACK, CODE + at, size][..], stack, &[size]].concat();
    let len = 8 + 8 * words.len() as u16;
    let head = u64::from(kind::SAMPLE) | u64::from(misc) << 32 | u64::from(len) << 48;
    let bytes = [&[head][..], &words].concat();
    let bytes: Vec<u8> = bytes.into_iter().flat_map(u64::to_le_bytes).collect();
    let layout = Layout::new(&attr);
    let Ok(Record::Sample(sample)) = layout.decode(&bytes) else { panic!("no sample") };
    let mut collector = Collector::new(Arch::X86_64, false);
    let collected = collector.collect(&sample, &space_of_calls(), Extra::default(), None);
    let address = |place: &Place| match *place {
        Place::Process(address) | Place::Guessed(address) => Some(address),
        _ => None,
    };
    (collector.places().iter().filter_map(address).collect(), collected.cut)
}

// Of precise events, the caller was what lies below the return address.
#[test]
fn registers_of_precise_events_are_those_behind_the_instruction() {
    const USER: u16 = 2;
    let [pushed, returns] = [7, CODE + 9];
    let with_caller = (vec![CODE + 0x1c, CODE + 8], Some(Cut::NoTable));
    // Stopped at the push, and behind it.
    assert_eq!(collected(USER, 0x1c, &[returns, 7, 0, 0]), with_caller);
    let exact = USER | misc::EXACT_IP;
    assert_eq!(collected(exact, 0x1c, &[pushed, returns, 7, 0, 0]), with_caller);
    // Behind the call of `inner`, which is in `outer` still.
    let called = collected(exact, 4, &[returns, 7, 0, 0]);
    assert_eq!(called, (vec![CODE + 4], Some(Cut::NoTable)));
    // Behind the return: what lies there is not the caller's.
    assert_eq!(collected(exact, 0x28, &[7, 0, 0]), (vec![CODE + 0x28], Some(Cut::Moved)));
}
