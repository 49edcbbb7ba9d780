//! Native memory events of async-profiler (`nativemem`): allocations that were not freed.
//!
//! ```text
//! profiler.Malloc { startTime: 12345, address: 0x7ad8b46e7030, size: 1800, stackTrace: → 9 }
//! profiler.Free { startTime: 12360, address: 0x7ad8b46e7030 }
//! ```
//!
//! An address can be allocated again after it was freed, so events are sorted by time. If an address is allocated
//! twice, the first allocation must have been freed, although that was not recorded.

use hashbrown::{HashMap, HashSet};

use super::chunk::{Chunk, Value};

/// Name of the event for an allocation; `FREE` is the event for its end.
pub(super) const MALLOC: &str = "profiler.Malloc";
const FREE: &str = "profiler.Free";

/// Position of an event: index of its chunk, and its offset in the chunk.
pub(super) type Place = (usize, usize);

/// An allocation or a free.
struct Event {
    time: u64,
    address: i64,
    /// Position of the event, if it is an allocation.
    allocated: Option<Place>,
}

/// Returns the allocations without a free; `None` if no frees were recorded.
pub(super) fn not_freed(chunks: &[Chunk<'_>]) -> Option<HashSet<Place>> {
    let mut events = Vec::new();
    for (index, chunk) in chunks.iter().enumerate() {
        let id = |name: &str| chunk.types.iter().find(|(_, of)| of.name == name).map(|(&id, _)| id);
        let (malloc, free) = (id(MALLOC), id(FREE));
        for (of, mut cursor) in chunk.events() {
            if ![malloc, free].contains(&Some(of)) {
                continue;
            }
            let place = (index, cursor.at);
            let (mut time, mut address) = (0, 0);
            let read = chunk.fields(of, &mut cursor, &mut |field, held| match (
                field.name.as_str(),
                held,
            ) {
                ("startTime", Value::Number(ticks)) => time = chunk.clock().time(ticks),
                ("address", Value::Number(number)) => address = number,
                _ => {}
            });
            let allocated = (Some(of) == malloc).then_some(place);
            // Damaged events are counted when they are read as samples.
            if read.is_ok() {
                events.push(Event { time, address, allocated });
            }
        }
    }
    let has_ends = events.iter().any(|event| event.allocated.is_none());
    has_ends.then(|| remaining(events))
}

fn remaining(mut events: Vec<Event>) -> HashSet<Place> {
    events.sort_by_key(|event| event.time);
    let mut held = HashMap::new();
    for Event { address, allocated, .. } in events {
        match allocated {
            Some(place) => held.insert(address, place),
            None => held.remove(&address),
        };
    }
    held.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_freed_later_does_not_remain() {
        let events = [
            // Thread by thread, not in order of time.
            (10, 0x10, Some(1)),
            (30, 0x10, Some(2)),
            (40, 0x20, Some(3)),
            (50, 0x30, Some(4)),
            (60, 0x30, Some(5)),
            (20, 0x10, None),
            (15, 0x20, None),
        ];
        let event = |(time, address, at): (u64, i64, Option<usize>)| Event {
            time,
            address,
            allocated: at.map(|at| (0, at)),
        };
        let mut left: Vec<Place> = remaining(events.map(event).into()).into_iter().collect();
        left.sort_unstable();
        assert_eq!(left, [(0, 2), (0, 3), (0, 5)]);
    }
}
