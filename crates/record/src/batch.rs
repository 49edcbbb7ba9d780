//! Batches: records in the order of time.

use std::sync::Arc;

use pyrograph_event::{Flush, Header, Layout, Record, RoundQueue, kind};

use crate::filter::Filter;
use crate::reader::{Chunk, Pool, Round};
use crate::weights::{Account, Weights};

/// Records in the order of time: no record of a later batch is older.
#[derive(Debug)]
pub struct Batch {
    records: Vec<Place>,
}

/// Where a record stands.
#[derive(Clone, Debug)]
struct Place {
    chunk: Arc<Chunk>,
    start: usize,
    len: u16,
    kind: u32,
}

impl Place {
    fn bytes(&self) -> &[u8] {
        &self.chunk.bytes[self.start..self.start + usize::from(self.len)]
    }
}

impl Batch {
    /// The records, each as one whole record's bytes.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.records.iter().map(Place::bytes)
    }

    /// How many records there are.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Returns true if there is none.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    fn new(records: Flush<'_, Place>, filter: &mut Filter, layout: &Layout) -> Self {
        let mut keeps = |time, place: &Place| filter.keeps(place.kind, time, place.bytes(), layout);
        let kept = records.filter(|(time, place)| keeps(*time, place));
        Self { records: kept.map(|(_, place)| place).collect() }
    }
}

/// The most gaps that are kept, where nobody takes them.
const MOST_GAPS: usize = 1 << 16;

/// Puts rounds in the order of time, and counts the losses in them.
#[derive(Debug)]
pub(crate) struct Sorter {
    layout: Layout,
    queue: RoundQueue<Place>,
    filter: Filter,
    weights: Option<Weights>,
    /// Weights of the samples, if these are accounted.
    pub account: Account,
    /// Lost records, by the kernel's own records of losses.
    pub lost: u64,
    /// When they were lost, until that is taken.
    pub gaps: Vec<Gap>,
    /// The end of what was drained of each buffer.
    last: Vec<Drained>,
    /// How often the kernel stopped sampling for a while.
    pub throttled: u64,
}

/// Records were lost between two of a buffer. Times are of the clock of samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// When the last record before was written.
    pub from: u64,
    /// When there was room again.
    pub to: u64,
    /// How many were lost.
    pub lost: u64,
}

/// The last drain of a buffer.
#[derive(Clone, Copy, Debug, Default)]
struct Drained {
    /// The time of the last record.
    last: u64,
    /// When it was drained.
    at: u64,
    /// How many bytes it was.
    len: usize,
}

impl Sorter {
    pub(crate) fn new(layout: Layout, weights: Option<Weights>, filter: Filter) -> Self {
        // Each round lets go what the round before had: no limit is needed.
        let (queue, account) = (RoundQueue::default(), Account::default());
        let (gaps, last) = (Vec::new(), Vec::new());
        Self { layout, queue, filter, weights, account, lost: 0, gaps, last, throttled: 0 }
    }

    /// The records that `round` completes.
    pub(crate) fn add(&mut self, round: Round) -> Batch {
        for chunk in round {
            self.push(chunk);
        }
        self.account.end_round();
        Batch::new(self.queue.flush_round(), &mut self.filter, &self.layout)
    }

    /// The records of what was there before, in the order in which they stand.
    pub(crate) fn initial(&self, bytes: Vec<u8>) -> Batch {
        let mut chunk = Chunk::new(&Arc::new(Pool::default()));
        chunk.bytes = bytes;
        let mut sorter = Self::new(self.layout, None, Filter::all());
        sorter.push(chunk);
        sorter.finish()
    }

    /// The rest.
    pub(crate) fn finish(&mut self) -> Batch {
        Batch::new(self.queue.flush_all(), &mut self.filter, &self.layout)
    }

    fn push(&mut self, mut chunk: Chunk) {
        if let Some(weights) = self.weights {
            self.weigh(&mut chunk, weights);
        }
        let chunk = Arc::new(chunk);
        let mut start = 0;
        if self.last.len() <= chunk.ring {
            self.last.resize(chunk.ring + 1, Drained::default());
        }
        let Drained { last: mut time, at: drained, .. } = self.last[chunk.ring];
        while let Ok(header) = Header::parse(&chunk.bytes[start..], self.layout.order()) {
            let end = start + usize::from(header.size);
            let record = &chunk.bytes[start..end];
            let from = time;
            time = self.layout.time(record).unwrap_or(time);
            match header.kind {
                // It is written with the next record on its CPU, which may be long after there was room.
                kind::LOST | kind::LOST_SAMPLES => {
                    let to = if drained > from { time.min(drained) } else { time };
                    self.count_lost(record, from, to);
                }
                kind::THROTTLE => self.throttled += 1,
                _ => {}
            }
            let (chunk, kind) = (Arc::clone(&chunk), header.kind);
            self.queue.push(time, Place { chunk, start, len: header.size, kind });
            start = end;
        }
        self.last[chunk.ring] = Drained { last: time, at: chunk.drained, len: chunk.bytes.len() };
    }

    /// Writes into samples what they stand for. Those of one thread and CPU are in order.
    fn weigh(&mut self, chunk: &mut Chunk, weights: Weights) {
        let mut start = 0;
        let period = chunk.period.max(1);
        while let Ok(header) = Header::parse(&chunk.bytes[start..], self.layout.order()) {
            let end = start + usize::from(header.size);
            let record = &mut chunk.bytes[start..end];
            match header.kind {
                kind::SAMPLE => weights.weigh(record, period, &mut self.account),
                kind::EXIT => {
                    if let Ok(Record::Exit(task)) = self.layout.decode(record) {
                        self.account.ends(task.tid.cast_unsigned());
                    }
                }
                _ => {}
            }
            start = end;
        }
    }

    /// When those were lost of which there is no record, which comes with the next one on the same CPU: after the last record of
    /// a buffer that was full, and until that was drained. It is the one of which most was drained at last.
    pub(crate) fn gap_without_record(&self, lost: u64) -> Option<Gap> {
        let fullest = self.last.iter().filter(|drained| drained.last > 0);
        let Drained { last, at, .. } = *fullest.max_by_key(|drained| drained.len)?;
        (lost > 0).then_some(Gap { from: last, to: at.max(last), lost })
    }

    fn count_lost(&mut self, record: &[u8], from: u64, to: u64) {
        let lost = match self.layout.decode(record) {
            Ok(Record::Lost(lost)) => lost.count,
            Ok(Record::LostSamples(lost)) => lost.count,
            _ => 0,
        };
        self.lost = self.lost.saturating_add(lost);
        // Of a buffer's first record it is not known what was before.
        if lost > 0 && self.gaps.len() < MOST_GAPS {
            self.gaps.push(Gap { from: if from == 0 { to } else { from }, to, lost });
        }
    }
}
