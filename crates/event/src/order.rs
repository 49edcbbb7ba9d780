//! Merges records from several buffers in the order of time.

/// Sorts records from several nearly sorted buffers by time, round by round.
///
/// Each CPU has its own buffer, and a reader empties one buffer after the other: that is a round. A record is written
/// soon after its time is taken. A round may miss records of the time during which it reads, but no older ones. So once a
/// round is over, no record can come any more that is older than the newest record of the round *before*.
/// [`RoundQueue::flush_round`] returns the records that are not newer than that one. The live reader makes a round of
/// each wake-up; in `perf.data` each round ends with a `FINISHED_ROUND` record.
///
/// `T` refers to a record: an offset in a mapped file, or a position in a copied buffer. Records with equal times keep
/// their order. The standard library's stable sort detects sorted runs, so buffers that are already sorted are merged in
/// linear time.
///
/// ```
/// use pyrograph_event::RoundQueue;
///
/// let mut queue = RoundQueue::default();
/// queue.push(10, "a");
/// queue.push(30, "c");
/// assert_eq!(queue.flush_round().count(), 0); // another CPU may still have 20
/// queue.push(20, "b");
/// queue.push(40, "d");
/// assert_eq!(queue.flush_round().map(|(_, record)| record).collect::<String>(), "abc");
/// assert_eq!(queue.flush_all().count(), 1);
/// ```
#[derive(Clone, Debug)]
pub struct RoundQueue<T> {
    waiting: Vec<(u64, T)>,
    /// Newest time at the end of the previous round: no older record can come any more.
    complete: u64,
    /// Newest time so far.
    newest: u64,
}

/// Iterator that removes records from the queue, with their times, in order.
pub type Flush<'a, T> = std::vec::Drain<'a, (u64, T)>;

impl<T> Default for RoundQueue<T> {
    fn default() -> Self {
        Self { waiting: Vec::new(), complete: 0, newest: 0 }
    }
}

impl<T> RoundQueue<T> {
    /// Adds a record. A record without a time should get the time of the record before it in its buffer, which keeps it
    /// in place.
    #[inline]
    pub fn push(&mut self, time: u64, record: T) {
        self.newest = self.newest.max(time);
        self.waiting.push((time, record));
    }

    /// Ends a round and returns all records that are not newer than the newest record of the round before.
    pub fn flush_round(&mut self) -> Flush<'_, T> {
        let complete = std::mem::replace(&mut self.complete, self.newest);
        self.flush_until(complete)
    }

    /// Returns all records. To be called when no more records will come.
    pub fn flush_all(&mut self) -> Flush<'_, T> {
        self.complete = self.newest;
        self.flush_until(u64::MAX)
    }

    /// Returns all records that are not newer than `last`, independent of rounds.
    pub fn flush_until(&mut self, last: u64) -> Flush<'_, T> {
        self.waiting.sort_by_key(|(time, _)| *time);
        let end = self.waiting.partition_point(|(time, _)| *time <= last);
        self.waiting.drain(..end)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn times<T>(flush: Flush<'_, T>) -> Vec<u64> {
        flush.map(|(time, _)| time).collect()
    }

    #[test]
    fn a_round_hands_out_what_the_round_before_had_seen() {
        let mut queue = RoundQueue::default();
        [5, 9, 3, 7].into_iter().for_each(|time| queue.push(time, ()));
        assert_eq!(times(queue.flush_round()), []);
        [8, 12].into_iter().for_each(|time| queue.push(time, ()));
        assert_eq!(times(queue.flush_round()), [3, 5, 7, 8, 9]);
        assert_eq!(times(queue.flush_round()), [12]);
    }

    #[test]
    fn equal_times_keep_their_order() {
        let mut queue = RoundQueue::default();
        (0..50).for_each(|index| queue.push(7, index));
        assert!(queue.flush_all().map(|(_, index)| index).eq(0..50));
    }

    proptest! {
        /// Buffers that are each sorted, emptied in rounds, come out as one sorted whole.
        #[test]
        fn rounds_of_sorted_buffers_come_out_sorted(
            records in prop::collection::vec((0..4_usize, 0..50_u64), 0..400),
            reads in prop::collection::vec(1..20_usize, 1..60),
        ) {
            // A record of CPU c at time t is in its buffer from t on. Round r reads buffer c at
            // `now + c`: time passes while the reader goes from one buffer to the next.
            let mut time = 0;
            let mut buffers = vec![Vec::new(); 4];
            for (cpu, step) in &records {
                time += step;
                buffers[*cpu].push(time);
            }
            let mut queue = RoundQueue::default();
            let mut out = Vec::new();
            let mut read = [0; 4];
            let mut now = 0;
            for step in reads {
                for (cpu, buffer) in buffers.iter().enumerate() {
                    now += step as u64 * 3;
                    while let Some(time) = buffer.get(read[cpu]).filter(|time| **time <= now) {
                        queue.push(*time, cpu);
                        read[cpu] += 1;
                    }
                }
                out.extend(times(queue.flush_round()));
            }
            for (cpu, buffer) in buffers.iter().enumerate() {
                buffer[read[cpu]..].iter().for_each(|time| queue.push(*time, cpu));
            }
            out.extend(times(queue.flush_all()));
            prop_assert!(out.is_sorted());
            prop_assert_eq!(out.len(), records.len());
        }
    }
}
