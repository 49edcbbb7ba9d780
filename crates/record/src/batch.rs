//! Batches of records in order of time.

use std::sync::Arc;

use pyrograph_event::{Flush, Header, Layout, Record, RoundQueue, kind};

use crate::filter::Filter;
use crate::reader::{Chunk, Pool, Round};
use crate::weights::{Account, Weights};

/// Records in order of time. No record of a later batch is older than these.
#[derive(Debug)]
pub struct Batch {
    records: Vec<Place>,
}

/// Position of a record in a chunk, with the record's type.
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
    /// Returns the records, each as the bytes of one whole record.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.records.iter().map(Place::bytes)
    }

    /// Number of records.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Returns true if the batch has no records.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    fn new(records: Flush<'_, Place>, filter: &mut Filter, layout: &Layout) -> Self {
        let mut keeps = |time, place: &Place| filter.keeps(place.kind, time, place.bytes(), layout);
        let kept = records.filter(|(time, place)| keeps(*time, place));
        Self { records: kept.map(|(_, place)| place).collect() }
    }
}

/// Maximum number of gaps that are kept if they are not taken.
const MOST_GAPS: usize = 1 << 16;

/// Puts rounds in order of time, and counts the losses in them.
#[derive(Debug)]
pub(crate) struct Sorter {
    layout: Layout,
    queue: RoundQueue<Place>,
    filter: Filter,
    weights: Option<Weights>,
    /// Totals of the samples' weights. All zero if samples are not weighted.
    pub account: Account,
    /// Number of lost records, by the kernel's `LOST` and `LOST_SAMPLES` records.
    pub lost: u64,
    /// Times of these losses, until they are taken.
    pub gaps: Vec<Gap>,
    /// Last drain of each ring buffer.
    last: Vec<Drained>,
    /// Number of `THROTTLE` records: how often the kernel throttled an event.
    pub throttled: u64,
}

/// An interval in which records of one ring buffer were lost. Times are of the samples' clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Time of the last record before the loss.
    pub from: u64,
    /// Time at which the buffer had room again.
    pub to: u64,
    /// Number of lost records.
    pub lost: u64,
}

/// The last drain of a ring buffer.
#[derive(Clone, Copy, Debug, Default)]
struct Drained {
    /// Time of the last record in it.
    last: u64,
    /// Time of the drain.
    at: u64,
    /// Number of bytes that were drained.
    len: usize,
}

impl Sorter {
    pub(crate) fn new(layout: Layout, weights: Option<Weights>, filter: Filter) -> Self {
        // No limit on the queue is needed: each round releases the records of the round before.
        let (queue, account) = (RoundQueue::default(), Account::default());
        let (gaps, last) = (Vec::new(), Vec::new());
        Self { layout, queue, filter, weights, account, lost: 0, gaps, last, throttled: 0 }
    }

    /// Adds a round, and returns the records that are complete with it: those of the round before.
    pub(crate) fn add(&mut self, round: Round) -> Batch {
        for chunk in round {
            self.push(chunk);
        }
        self.account.end_round();
        Batch::new(self.queue.flush_round(), &mut self.filter, &self.layout)
    }

    /// Returns the synthesized records of the state before the recording, in the order of `bytes`.
    pub(crate) fn initial(&self, bytes: Vec<u8>) -> Batch {
        let mut chunk = Chunk::new(&Arc::new(Pool::default()));
        chunk.bytes = bytes;
        let mut sorter = Self::new(self.layout, None, Filter::all());
        sorter.push(chunk);
        sorter.finish()
    }

    /// Returns all remaining records.
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
                // The kernel writes a LOST record together with the next record on its CPU, which may be long after
                // there was room again. So the loss ends at the last drain at the latest.
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

    /// Writes the weight of each sample into it. Samples of one thread and CPU are in order of time.
    fn weigh(&mut self, chunk: &mut Chunk, weights: Weights) {
        let mut start = 0;
        let period = chunk.period.max(1);
        while let Ok(header) = Header::parse(&chunk.bytes[start..], self.layout.order()) {
            let end = start + usize::from(header.size);
            let record = &mut chunk.bytes[start..end];
            match header.kind {
                kind::SAMPLE => {
                    let time = self.layout.time(record);
                    let is_early = time.is_some_and(|time| self.filter.is_early(time));
                    weights.weigh(record, period, is_early, &mut self.account);
                }
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

    /// Interval of `lost` records for which there is no LOST record, because the kernel writes that together with the
    /// next record on the same CPU. They are assumed to be lost from the ring buffer of which most was drained last:
    /// after its last record, and until it was drained. `None` if `lost` is 0 or no records were drained.
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
        if self.filter.is_early(to) {
            return;
        }
        self.lost = self.lost.saturating_add(lost);
        // Before a buffer's first record, the time of the last record is not known.
        if lost > 0 && self.gaps.len() < MOST_GAPS {
            self.gaps.push(Gap { from: if from == 0 { to } else { from }, to, lost });
        }
    }
}
