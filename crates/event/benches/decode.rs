//! How long it takes to decode a sample, and to put records in the order of time.
//!
//! `cargo bench -p pyrograph-event`

use std::hint::black_box;
use std::time::Instant;

use pyrograph_event::{Attr, Layout, Record, RoundQueue, kind, regs, sample_type};

const FRAME_POINTERS: u64 = sample_type::IP
    | sample_type::TID
    | sample_type::TIME
    | sample_type::CPU
    | sample_type::PERIOD
    | sample_type::CALLCHAIN;
const STACK: u64 = FRAME_POINTERS | sample_type::REGS_USER | sample_type::STACK_USER;

/// A sample of 20 addresses, with 8 KiB of stack if `sample_type` asks for it.
fn sample(sample_type: u64) -> Vec<u8> {
    let mut words = vec![0, 0x1000, 7 | 8 << 32, 1000, 3, 99, 20];
    words.extend((0..20).map(|address| 0x4000 + address));
    if sample_type & sample_type::STACK_USER != 0 {
        words.push(2);
        words.extend([1; regs::x86_64::UNWIND.count_ones() as usize]);
        words.push(8192);
        words.extend([0; 1024]);
        words.push(3000);
    }
    words[0] = u64::from(kind::SAMPLE) | 2 << 32 | (words.len() as u64 * 8) << 48;
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Nanoseconds for each of `count` runs, the best of five rounds.
fn measure(name: &str, count: u64, mut run: impl FnMut(u64)) {
    let best = (0..5)
        .map(|_| {
            let start = Instant::now();
            (0..count).for_each(&mut run);
            start.elapsed()
        })
        .min();
    println!("{name:40} {:8.1} ns", best.unwrap_or_default().as_nanos() as f64 / count as f64);
}

fn main() {
    for (name, sample_type) in [("frame pointers", FRAME_POINTERS), ("8 KiB of stack", STACK)] {
        let attr = Attr { sample_type, sample_regs_user: regs::x86_64::UNWIND, ..Attr::new() };
        let layout = Layout::new(&attr);
        let bytes = sample(sample_type);
        measure(&format!("decode a sample, {name}"), 1_000_000, |_| {
            let Ok(Record::Sample(sample)) = layout.decode(black_box(&bytes)) else { return };
            black_box(sample);
        });
        measure(&format!("decode and sum its callchain, {name}"), 1_000_000, |_| {
            let Ok(Record::Sample(sample)) = layout.decode(black_box(&bytes)) else { return };
            black_box(sample.callchain.iter().fold(0_u64, u64::wrapping_add));
        });
        measure(&format!("its time alone, {name}"), 1_000_000, |_| {
            black_box(layout.time(black_box(&bytes)));
        });
    }
    // 16 buffers of 250 records a round, each sorted.
    let mut queue = RoundQueue::default();
    let mut newest = 0;
    const RECORDS: u64 = 16 * 250;
    measure("order 4,000 records of 16 buffers", 1_000, |round| {
        for record in 0..RECORDS {
            let (buffer, index) = (record / 250, record % 250);
            queue.push(round * 250_000 + index * 1000 + buffer * 37, record);
        }
        queue.flush_round().for_each(|(time, _)| newest = black_box(time));
    });
}
