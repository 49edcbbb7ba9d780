//! Items by address and time, for memory that is reused again and again.

use std::collections::BTreeMap;

/// Marks the absence of an item or of a row.
const NONE: u32 = u32::MAX;

/// History of each address, for ranges that overwrite each other.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    /// Start of a slot, which reaches to the next one → the newest row of its history.
    slots: BTreeMap<u64, u32>,
    /// Rows of all histories. Slots that result from a split share the rows from before it.
    rows: Vec<Row>,
}

#[derive(Clone, Copy, Debug)]
struct Row {
    since: u64,
    /// The item from `since` on; [`NONE`] if it was removed.
    item: u32,
    /// The preceding row in time, or [`NONE`].
    older: u32,
}

impl Timeline {
    /// Records that `item` is at `start..end` from `since` on; `None` if nothing is. Calls must be in order of
    /// time. Returns false if more than `max_rows` rows would be needed: a range over many slots takes one row for
    /// each.
    #[must_use]
    pub fn set(
        &mut self,
        start: u64,
        end: u64,
        since: u64,
        item: Option<u32>,
        max_rows: u32,
    ) -> bool {
        if start >= end {
            return true;
        }
        self.split(start);
        self.split(end);
        for (_, newest) in self.slots.range_mut(start..end) {
            let row = match u32::try_from(self.rows.len()) {
                Ok(row) if row < max_rows => row,
                _ => return false,
            };
            self.rows.push(Row { since, item: item.unwrap_or(NONE), older: *newest });
            *newest = row;
        }
        true
    }

    /// Splits the slot that contains an address, so that a slot starts there.
    fn split(&mut self, at: u64) {
        let newest = self.slots.range(..=at).next_back().map_or(NONE, |(_, &newest)| newest);
        self.slots.entry(at).or_insert(newest);
    }

    /// Returns the item at an address at a time; without a time, the last one.
    pub fn get(&self, address: u64, time: Option<u64>) -> Option<u32> {
        let mut history = self.history(address);
        let row = history.find(|row| match time {
            Some(time) => row.since <= time,
            None => row.item != NONE,
        })?;
        (row.item != NONE).then_some(row.item)
    }

    /// Returns the item at an address at a time. If there was none, it is the next one, or else the last one before.
    pub fn nearest(&self, address: u64, time: u64) -> Option<u32> {
        let mut later = None;
        for row in self.history(address).filter(|row| row.item != NONE) {
            if row.since <= time {
                let is_over = self.get(address, Some(time)) != Some(row.item);
                return if is_over { later.or(Some(row.item)) } else { Some(row.item) };
            }
            later = Some(row.item);
        }
        later
    }

    /// Returns true if the item at an address was replaced or removed.
    pub fn changes(&self, address: u64) -> bool {
        self.history(address).nth(1).is_some()
    }

    /// Rows of an address, newest first.
    fn history(&self, address: u64) -> impl Iterator<Item = Row> {
        let row = |at: u32| self.rows.get(at as usize).copied();
        let newest = self.slots.range(..=address).next_back().map_or(NONE, |(_, &at)| at);
        std::iter::successors(row(newest), move |last| row(last.older))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANY: u32 = 1000;

    #[test]
    fn each_address_has_its_history() {
        let mut timeline = Timeline::default();
        assert!(timeline.set(100, 200, 10, Some(0), MANY));
        assert!(timeline.set(150, 250, 20, Some(1), MANY));
        assert!(timeline.set(160, 170, 30, None, MANY));
        let get = |address, time| timeline.get(address, Some(time));
        assert_eq!((get(99, 50), get(100, 9), get(100, 10)), (None, None, Some(0)));
        assert_eq!((get(149, 50), get(150, 19), get(150, 20)), (Some(0), Some(0), Some(1)));
        assert_eq!((get(165, 15), get(165, 25), get(165, 30)), (Some(0), Some(1), None));
        assert_eq!((get(170, 30), get(249, 30), get(250, 30)), (Some(1), Some(1), None));
        assert_eq!((timeline.get(199, None), timeline.get(165, None)), (Some(1), Some(1)));
        let nearest = |address, time| timeline.nearest(address, time);
        assert_eq!((nearest(99, 50), nearest(100, 9), nearest(160, 9)), (None, Some(0), Some(0)));
        assert_eq!((nearest(160, 19), nearest(160, 20)), (Some(0), Some(1)));
        assert_eq!((nearest(165, 30), nearest(170, 30)), (Some(1), Some(1)));
        assert_eq!((timeline.changes(149), timeline.changes(150)), (false, true));
        assert!(!timeline.changes(250));
    }

    #[test]
    fn ranges_over_many_others_do_not_take_memory_without_end() {
        let mut timeline = Timeline::default();
        let small = (0..500).all(|at| timeline.set(at * 2, at * 2 + 1, 0, Some(0), MANY));
        assert!(small);
        assert!(!timeline.set(0, 1000, 1, Some(1), MANY));
        assert_eq!(timeline.rows.len(), MANY as usize);
    }

    #[test]
    fn the_end_of_the_address_space() {
        let mut timeline = Timeline::default();
        assert!(timeline.set(u64::MAX - 1, u64::MAX, 0, Some(7), MANY));
        assert!(timeline.set(5, 5, 0, Some(8), MANY));
        assert_eq!(timeline.get(u64::MAX - 1, None), Some(7));
        assert_eq!((timeline.get(u64::MAX, None), timeline.get(5, None)), (None, None));
    }
}
