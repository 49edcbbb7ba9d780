//! What was counted, with its stacks.

use std::cell::RefCell;
use std::rc::Rc;

use hashbrown::HashMap;

use crate::layout::{Count, FRAME_SHIFT, Key, MAX_FRAMES, MODULE_END};
use crate::scheduler::SchedulerText;

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

/// What sort of event was counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// A perf event: the thread ran.
    Event,
    /// A wait: the thread did not run, for this reason.
    Wait(Wait),
    /// A tracepoint, or a place in a program.
    Probe,
}

/// Why a thread does not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// It sleeps until something happens.
    Sleep,
    /// It is in the system call `futex`: it waits for a lock or a condition.
    Lock,
    /// It waits for a block device.
    Io,
    /// It waits for something else in the kernel, and no signal wakes it.
    Uninterruptible,
    /// It could run, and another did.
    Preempted,
}

impl Sort {
    /// From `enum sort`.
    fn new(number: u32) -> Self {
        match number {
            1 => Self::Wait(Wait::Sleep),
            2 => Self::Wait(Wait::Lock),
            3 => Self::Wait(Wait::Io),
            4 => Self::Wait(Wait::Uninterruptible),
            5 => Self::Wait(Wait::Preempted),
            6 => Self::Probe,
            _ => Self::Event,
        }
    }
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
    pub sort: Sort,
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
#[derive(Clone, Debug)]
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
    scheduler: SchedulerText,
}

impl Stacks {
    /// None yet. `waits`: some will be of threads that wait.
    pub fn new(waits: bool) -> Self {
        let scheduler =
            if waits { SchedulerText::of_this_kernel() } else { SchedulerText::default() };
        let inner = Inner { scheduler, ..Inner::default() };
        Self { inner: Rc::new(RefCell::new(inner)) }
    }

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
        let sort = Sort::new(key.sort);
        let kernel = kernel_part(kernel);
        let kernel = match sort {
            Sort::Event | Sort::Probe => kernel,
            Sort::Wait(_) => inner.scheduler.strip(kernel),
        };
        out(Counted {
            pid: key.tgid,
            tid: key.tid,
            process: name(&key.process),
            thread: name(&key.thread),
            sort,
            events: count.events,
            value: count.value,
            kernel,
            user,
        });
    }
}

/// Without the mark that stands before it in perf's callchains (`PERF_CONTEXT_KERNEL`).
fn kernel_part(kernel: &[u64]) -> &[u64] {
    const MARKS: u64 = -4095i64 as u64;
    match kernel {
        [mark, rest @ ..] if *mark >= MARKS => rest,
        _ => kernel,
    }
}

fn name(bytes: &[u8; 16]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}
