//! Samples made by hand: what perf records has either a callchain of the program or a copy of its
//! stack, but the format has room for both.

use pyrograph_event::{Attr, Layout, Record, kind, regs, sample_type};

use super::*;

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
