//! What was counted, with its stacks.

use std::cell::RefCell;
use std::rc::Rc;

use hashbrown::HashMap;

use crate::layout::{Count, FRAME_SHIFT, Key, MAX_FRAMES, MODULE_END};

/// One frame of a user stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserFrame {
    /// The module's number, as the mapping's tag told it.
    pub module: u32,
    /// The place of the code, inside of a call: a file offset, or an address.
    pub address: u64,
}

/// Why the outer part of a user stack is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// It has more frames than are kept, or could not be read.
    Truncated,
    /// It could not be unwound any further.
    Broken,
}

/// Something that was counted.
#[derive(Clone, Copy, Debug)]
pub struct Counted<'a> {
    /// The process.
    pub pid: i32,
    /// The thread.
    pub tid: i32,
    /// The process's name at that moment.
    pub process: &'a [u8],
    /// The thread's name at that moment.
    pub thread: &'a [u8],
    /// What sort of event it was.
    pub sort: u32,
    /// How often it happened.
    pub events: u64,
    /// What the events stand for: nanoseconds, bytes, …
    pub value: u64,
    /// The kernel part of the stack, leaf first: the address where it was, then addresses that calls
    /// return to.
    pub kernel: &'a [u64],
    user: &'a [u64],
}

impl<'a> Counted<'a> {
    /// The user part of the stack, leaf first.
    pub fn user(&self) -> impl Iterator<Item = UserFrame> + 'a {
        let frames = match self.user.split_last() {
            Some((last, rest)) if module(*last) == MODULE_END => rest,
            _ => self.user,
        };
        frames.iter().map(|&frame| UserFrame { module: module(frame), address: address(frame) })
    }

    /// Whether the thread is one of a program.
    pub fn has_user(&self) -> bool {
        !self.user.is_empty()
    }

    /// Why the user part ends too early, if it does.
    pub fn cut(&self) -> Option<Cut> {
        let last = *self.user.last().filter(|last| module(**last) == MODULE_END)?;
        // `enum end`
        Some(if matches!(address(last), 1 | 2) { Cut::Truncated } else { Cut::Broken })
    }
}

fn module(frame: u64) -> u32 {
    (frame >> FRAME_SHIFT) as u32
}

fn address(frame: u64) -> u64 {
    frame & ((1 << FRAME_SHIFT) - 1)
}

/// All stacks that were told, by their hashes.
#[derive(Clone, Debug, Default)]
pub struct Stacks {
    inner: Rc<RefCell<Inner>>,
}

#[derive(Debug, Default)]
struct Inner {
    frames: Vec<u64>,
    /// Where each is in `frames`: from, and how many.
    places: HashMap<u64, (usize, usize)>,
    /// Events whose stack was never told.
    unknown: u64,
}

impl Stacks {
    /// Takes a `struct stack`.
    pub fn add(&self, bytes: &[u8]) {
        let mut words = bytes.chunks_exact(8).map(|word| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(word);
            u64::from_ne_bytes(bytes)
        });
        let (Some(hash), Some(len)) = (words.next(), words.next()) else { return };
        let inner = &mut *self.inner.borrow_mut();
        let len = usize::try_from(len).unwrap_or(usize::MAX).min(MAX_FRAMES);
        let from = inner.frames.len();
        inner.places.entry(hash).or_insert_with(|| {
            inner.frames.extend(words.take(len));
            (from, inner.frames.len() - from)
        });
    }

    /// Events whose stack was never told.
    pub fn unknown(&self) -> u64 {
        self.inner.borrow().unknown
    }

    pub fn counted(&self, key: &Key, count: &Count, out: &mut dyn FnMut(Counted<'_>)) {
        let inner = &mut *self.inner.borrow_mut();
        let find = |hash: u64| match hash {
            0 => Some(&[][..]),
            hash => {
                let (from, len) = *inner.places.get(&hash)?;
                inner.frames.get(from..from + len)
            }
        };
        let (Some(user), Some(kernel)) = (find(key.user), find(key.kernel)) else {
            inner.unknown += count.events;
            return;
        };
        out(Counted {
            pid: key.tgid,
            tid: key.tid,
            process: name(&key.process),
            thread: name(&key.thread),
            sort: key.sort,
            events: count.events,
            value: count.value,
            kernel,
            user,
        });
    }
}

fn name(bytes: &[u8; 16]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}
