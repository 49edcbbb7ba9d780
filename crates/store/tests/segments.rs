//! Segments: what is written is what is read; what is not whole is refused.

use bytes::Bytes;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::RowAccessor;
use pyrograph_profile::{Profile, Sample, Thread, ValueType};
use pyrograph_store::{Segment, SegmentError, write_segment};

/// A profile of some samples of two threads.
fn profile(samples: u64) -> Profile {
    let types = vec![ValueType::new("samples", "count"), ValueType::new("cpu", "ns")];
    let mut profile = Profile::new(types);
    profile.shown = 1;
    profile.about.host = Some("web-3".to_owned());
    for number in 0..samples {
        let leaf = ["parse", "render", "wait"][number as usize % 3];
        let stack = profile.stack_of_names(["main", leaf]);
        let process = profile.strings.intern("app");
        let tid = Some(10 + (number % 2) as i32);
        let thread = Thread { pid: Some(10), tid, process, ..Thread::default() };
        let thread = profile.threads.intern(thread);
        let time = Some(1_000_000 + number * 10_101);
        let sample = Sample { thread, time, cpu: Some(number as u32 % 4), ..Sample::new(stack) };
        profile.push(sample, &[1, 10_101_010 + number]);
    }
    profile
}

fn open(bytes: &[u8]) -> Result<Profile, SegmentError> {
    Segment::open(Bytes::copy_from_slice(bytes))?.profile()
}

/// Names of the stack and the process, number of the thread, time, CPU and values.
type Row = (Vec<String>, Option<i32>, Option<u64>, Option<u32>, Vec<u64>);

/// The samples, without the numbers that a profile gives to its parts.
fn rows(profile: &Profile) -> Vec<Row> {
    let row = |(row, sample): (usize, Sample)| {
        let frames = profile.stacks.leaf_first(sample.stack);
        let names = frames.map(|id| profile.frames.get(id).function);
        let thread = profile.threads.get(sample.thread);
        let names = names.chain([thread.process]).map(|id| profile.strings.get(id).to_owned());
        let values = (0..profile.value_types.len()).map(|of| profile.samples.values(of)[row]);
        (names.collect(), thread.tid, sample.time, sample.cpu, values.collect())
    };
    profile.samples.iter().enumerate().map(row).collect()
}

#[test]
fn samples_are_the_ones_that_were_written() {
    let profile = profile(100);
    let read = open(&write_segment(&profile).expect("it is written")).expect("it is read");
    assert_eq!(read.value_types, profile.value_types);
    assert_eq!((read.shown, &read.about), (1, &profile.about));
    assert!(rows(&read) == rows(&profile), "{:?}", rows(&read).first());
    let empty = Profile::new(vec![ValueType::samples()]);
    let read = open(&write_segment(&empty).expect("it is written")).expect("it is read");
    assert!(read.samples.is_empty());
}

/// By Parquet's own reader of rows, which knows nothing of us.
#[test]
fn other_readers_find_the_same_sums() {
    let profile = profile(100);
    let bytes = write_segment(&profile).expect("it is written");
    let reader = SerializedFileReader::new(Bytes::from(bytes)).expect("a Parquet file");
    let schema = reader.metadata().file_metadata().schema_descr().root_schema().get_fields();
    let column = |name: &str| schema.iter().position(|of| of.name() == name).expect("a column");
    let (mut count, mut value, mut events) = (0, 0, Vec::new());
    for row in reader.get_row_iter(None).expect("rows") {
        let row = row.expect("a row");
        count += row.get_ulong(column("count")).expect("a count");
        value += row.get_ulong(column("value")).expect("a value");
        events.push(row.get_string(column("event")).expect("an event").clone());
        let at = row.get_list(column("at")).expect("times");
        assert_eq!(at.len() as u64, row.get_ulong(column("count")).expect("a count"));
    }
    // Three stacks of two threads.
    assert_eq!(events, ["cpu"; 6]);
    assert_eq!((count, value), (profile.samples.total(0), profile.samples.total(1)));
}

#[test]
fn every_truncation_is_refused() {
    let bytes = write_segment(&profile(20)).expect("it is written");
    for length in 0..bytes.len() {
        assert!(open(&bytes[..length]).is_err(), "{length} of {} bytes", bytes.len());
    }
}

#[test]
fn every_changed_bit_is_found() {
    let whole = write_segment(&profile(20)).expect("it is written");
    // A multiplier and an increment of full period (Knuth).
    let mut state = 1u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % below
    };
    for _ in 0..2000 {
        let (at, bit) = (random(whole.len()), random(8));
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << bit;
        assert!(open(&bytes).is_err(), "bit {bit} of byte {at}");
    }
}

#[test]
fn files_of_others_are_told_apart() {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Int32Array, RecordBatch};
    use parquet::arrow::ArrowWriter;

    let column: ArrayRef = Arc::new(Int32Array::from(vec![1, 2]));
    let batch = RecordBatch::try_from_iter([("event", column)]).expect("a column");
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), None).expect("a writer");
    writer.write(&batch).expect("it is written");
    let bytes = writer.into_inner().expect("it is written");
    assert!(matches!(open(&bytes), Err(SegmentError::Foreign)));
    assert!(open(b"PAR1").is_err() && open(b"").is_err() && open(&[0; 64]).is_err());
}
