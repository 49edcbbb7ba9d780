//! Batches: records in the order of time.

use std::sync::Arc;

use pyrograph_event::{Flush, Header, Layout, Record, RoundQueue, kind};

use crate::reader::{Chunk, Pool, Round};

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
}

impl Batch {
    /// The records, each as one whole record's bytes.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.records
            .iter()
            .map(|place| &place.chunk.bytes[place.start..place.start + usize::from(place.len)])
    }

    /// How many records there are.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    fn new(records: Flush<'_, Place>) -> Self {
        Self { records: records.map(|(_, place)| place).collect() }
    }
}

/// Puts rounds in the order of time, and counts what they tell of losses.
#[derive(Debug)]
pub(crate) struct Sorter {
    layout: Layout,
    queue: RoundQueue<Place>,
    /// How many records the kernel said it had lost.
    pub lost: u64,
    /// How often the kernel stopped sampling for a while.
    pub throttled: u64,
}

impl Sorter {
    pub(crate) fn new(layout: Layout) -> Self {
        // Each round lets go what the round before had: no limit is needed.
        Self { layout, queue: RoundQueue::new(usize::MAX), lost: 0, throttled: 0 }
    }

    /// The records that `round` completes.
    pub(crate) fn add(&mut self, round: Round) -> Batch {
        for chunk in round {
            self.push(Arc::new(chunk));
        }
        Batch::new(self.queue.flush_round())
    }

    /// The records of what was there before, in the order in which they stand.
    pub(crate) fn initial(&self, bytes: Vec<u8>) -> Batch {
        let mut chunk = Chunk::new(&Arc::new(Pool::default()));
        chunk.bytes = bytes;
        let mut sorter = Self::new(self.layout);
        sorter.push(Arc::new(chunk));
        sorter.finish()
    }

    /// The rest.
    pub(crate) fn finish(&mut self) -> Batch {
        Batch::new(self.queue.flush_all())
    }

    fn push(&mut self, chunk: Arc<Chunk>) {
        let mut start = 0;
        let mut time = 0;
        while let Ok(header) = Header::parse(&chunk.bytes[start..], self.layout.order()) {
            let end = start + usize::from(header.size);
            let record = &chunk.bytes[start..end];
            time = self.layout.time(record).unwrap_or(time);
            match header.kind {
                kind::LOST | kind::LOST_SAMPLES => self.count_lost(record),
                kind::THROTTLE => self.throttled += 1,
                _ => {}
            }
            self.queue.push(time, Place { chunk: Arc::clone(&chunk), start, len: header.size });
            start = end;
        }
    }

    fn count_lost(&mut self, record: &[u8]) {
        match self.layout.decode(record) {
            Ok(Record::Lost(lost)) => self.lost = self.lost.saturating_add(lost.count),
            Ok(Record::LostSamples(lost)) => self.lost = self.lost.saturating_add(lost.count),
            _ => {}
        }
    }
}
