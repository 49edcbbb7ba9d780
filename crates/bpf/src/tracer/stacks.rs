//! Stacks that arrive before the records that they belong to.

use std::collections::HashMap;

use pyrograph_event::traced::{Stack, ThreadStack};

use super::layout::{self, Record};

/// DWARF number of `rsp`.
const SP: usize = 7;

/// Stacks whose records have not arrived yet, by process and the record's time.
#[derive(Default)]
pub struct Stacks {
    waiting: HashMap<(i32, u64), ThreadStack>,
}

impl Stacks {
    /// Number of waiting stacks above which old ones are dropped: there are only more if their records were lost.
    const MOST: usize = 4096;
    /// Age in nanoseconds at which a waiting stack is dropped: executing a program takes less.
    const LONGEST_WAIT: u64 = 10_000_000_000;

    /// Adds a `struct stack`; `record` is its record.
    pub fn add(&mut self, record: &Record, bytes: &[u8]) {
        if self.waiting.len() > Self::MOST {
            self.waiting.retain(|_, stack| stack.time + Self::LONGEST_WAIT > record.time);
        }
        if let Some(stack) = read(record, bytes) {
            self.waiting.insert((record.tgid, record.duration), stack);
        }
    }

    /// Adds all stacks of a batch that holds nothing else.
    pub fn add_all(&mut self, mut batch: &[u8]) {
        while let Some((record, behind)) = batch.split_at_checked(size_of::<Record>()) {
            let record: Record = bytemuck::pod_read_unaligned(record);
            let used = usize::try_from(record.used).unwrap_or(0).min(behind.len());
            let (stack, next) = behind.split_at(used);
            self.add(&record, stack);
            batch = next;
        }
    }

    /// Removes and returns the stack of a record.
    pub fn take(&mut self, record: &Record) -> Option<ThreadStack> {
        if record.stack == 0 {
            return None;
        }
        self.take_of((record.tgid, record.time))
    }

    /// Removes and returns the stack for a process and time.
    pub fn take_of(&mut self, of: (i32, u64)) -> Option<ThreadStack> {
        self.waiting.remove(&of)
    }
}

/// State of a record's stack.
pub fn state<'a>(record: &Record, stack: Option<&'a ThreadStack>) -> Stack<'a> {
    match stack {
        Some(stack) => Stack::Taken(stack),
        None if record.stack != 0 => Stack::Lost,
        None => Stack::NotTaken,
    }
}

fn read(record: &Record, bytes: &[u8]) -> Option<ThreadStack> {
    let (head, bytes) = bytes.split_at_checked(size_of::<layout::Stack>())?;
    let head: layout::Stack = bytemuck::pod_read_unaligned(head);
    let len = usize::try_from(head.len).ok()?;
    let root = match head.root {
        0 => None,
        at => Some((at, bytes.get(len..)?.get(..layout::ROOT_STACK)?.to_vec())),
    };
    let copied_to = head.registers[SP].saturating_add(head.len.into());
    let missing = match head.end {
        // The end of the stack is unknown, and the copy is full: there may be more, as an unreadable page or lack of
        // room has ended the copy.
        0 if len == layout::UNKNOWN_STACK => layout::UNKNOWN_STACK as u64,
        end => end.saturating_sub(copied_to),
    };
    Some(ThreadStack {
        time: record.time,
        registers: head.registers,
        bytes: bytes.get(..len)?.to_vec(),
        root,
        missing,
        kernel: head.kernel.get(..head.depth as usize)?.to_vec(),
        compat: record.compat != 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u16, time: u64, duration: u64) -> Record {
        Record { kind, time, duration, tgid: 7, stack: 1, ..bytemuck::Zeroable::zeroed() }
    }

    fn head(len: usize, root: u64) -> layout::Stack {
        let mut head: layout::Stack = bytemuck::Zeroable::zeroed();
        head.registers[SP] = 0x1000;
        (head.end, head.root, head.len, head.depth) = (0x9000_0000, root, len as u32, 2);
        (head.kernel[0], head.kernel[1]) = (5, 6);
        head
    }

    #[test]
    fn a_stack_is_that_of_the_record_of_its_time() {
        let mut stacks = Stacks::default();
        let bytes = [bytemuck::bytes_of(&head(8, 0)), &[1; 8]].concat();
        stacks.add(&record(layout::RECORD_STACK, 30, 20), &bytes);
        assert!(stacks.take(&record(1, 21, 0)).is_none());
        let stack = stacks.take(&record(1, 20, 0)).expect("a stack");
        assert_eq!(
            (stack.time, &stack.bytes[..], &stack.kernel[..]),
            (30, &[1; 8][..], &[5, 6][..])
        );
        assert_eq!((stack.missing, stack.root), (0x9000_0000 - 0x1008, None));
        assert!(matches!(state(&record(1, 20, 0), None), Stack::Lost));
        let without = Record { stack: 0, ..record(1, 20, 0) };
        assert!(matches!(state(&without, None), Stack::NotTaken));
    }

    #[test]
    fn damaged_stacks_are_none() {
        let record = record(layout::RECORD_STACK, 30, 20);
        let bytes = [bytemuck::bytes_of(&head(8, 0)), &[1; 7]].concat();
        assert_eq!(read(&record, &bytes), None);
        assert_eq!(read(&record, &bytes[..40]), None);
        let whole =
            [bytemuck::bytes_of(&head(8, 0x5000)), &[1; 8], &[2; layout::ROOT_STACK]].concat();
        let root = read(&record, &whole).expect("a stack").root;
        assert_eq!(root, Some((0x5000, vec![2; layout::ROOT_STACK])));
        assert_eq!(read(&record, &whole[..whole.len() - 1]), None);
    }
}
