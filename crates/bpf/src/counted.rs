//! What was counted, with its stacks.

use std::cell::RefCell;
use std::rc::Rc;

use hashbrown::HashMap;

use crate::copies::CopiedStack;
use crate::files::Aliases;
use crate::kernel_text::KernelText;
use crate::layout::{
    Count, END_GUESSED, FRAME_SHIFT, KEY_TIME_SHIFT, Key, MAX_FRAMES, MODULE_ANONYMOUS,
    MODULE_ASKED, MODULE_END, MODULE_UNKNOWN, WAKER_WORDS,
};

/// One frame of a user stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserFrame {
    /// The file's number; none for code that is in no file.
    pub module: Option<u32>,
    /// The place of the code, inside of a call: a file offset, or an address in the process.
    pub address: u64,
}

/// Why the outer part of a user stack is missing. The numbers are those of `enum end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Cut {
    /// It has more frames than are kept.
    TooManyFrames = 1,
    /// The stack could not be read.
    Unreadable = 2,
    /// A return address leads to no code that is mapped.
    Unmapped = 3,
    /// The unwind table of its file was not ready yet.
    TablePending = 4,
    /// The unwind table of its file was left out for want of memory.
    TableOmitted = 5,
    /// Code without an unwind table, whose frame could not be guessed either.
    NoTable = 6,
    /// The unwind table says what cannot be followed.
    BadRule = 7,
    /// A 32-bit program.
    Compat = 8,
    /// All of it: there were more waits than stacks are taken of.
    NotTaken = 9,
    /// A file without a table, of a process that cannot be seen from this PID namespace.
    Invisible = 10,
}

impl Cut {
    const ALL: [Self; 10] = [
        Self::TooManyFrames,
        Self::Unreadable,
        Self::Unmapped,
        Self::TablePending,
        Self::TableOmitted,
        Self::NoTable,
        Self::BadRule,
        Self::Compat,
        Self::NotTaken,
        Self::Invisible,
    ];

    /// From a number of `enum end`; none if the stack is whole.
    pub(crate) fn from_end(end: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|cut| *cut as u64 == end)
    }
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
    /// A system call, by its number.
    Call(u32),
    /// A wait for a lock of the kernel; its sort by the `LCB_F_` flags of
    /// `include/trace/events/lock.h`.
    KernelLock(u32),
    /// A socket has sent this.
    Sent(Socket),
    /// A socket has received this.
    Received(Socket),
    /// A wait for a lock of a program, or for a condition or the like.
    Futex {
        /// It is a lock.
        lock: bool,
    },
    /// The thread was woken: all of its stack is in [`Counted::waker`].
    Woken,
}

/// Which sort of socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Socket {
    /// Its address family (`AF_INET`).
    pub family: u16,
    /// Its protocol (`IPPROTO_TCP`).
    pub protocol: u16,
}

/// Why a thread does not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// It sleeps until something happens.
    Sleep,
    /// It is in the system call `futex`: it waits for a lock.
    Lock,
    /// It is in the system call `futex`, and waits for a condition, a semaphore, the end of a thread.
    Condition,
    /// It waits for a block device.
    Io,
    /// It waits for something else in the kernel, and no signal wakes it.
    Uninterruptible,
    /// It could run, and another did.
    Preempted,
}

impl Sort {
    /// From `enum sort`, and what stands beside it.
    fn new(number: u32, detail: u32) -> Self {
        let socket = Socket { family: (detail >> 16) as u16, protocol: detail as u16 };
        match number {
            1 => Self::Wait(Wait::Sleep),
            // Waits for locks alone have the number of their system call.
            2 | 12 if detail > 0 => Self::Futex { lock: number == 2 },
            2 => Self::Wait(Wait::Lock),
            3 => Self::Wait(Wait::Io),
            4 => Self::Wait(Wait::Uninterruptible),
            5 => Self::Wait(Wait::Preempted),
            6 => Self::Probe,
            7 => Self::Call(detail),
            8 => Self::KernelLock(detail),
            9 => Self::Sent(socket),
            10 => Self::Received(socket),
            11 => Self::Woken,
            12 => Self::Wait(Wait::Condition),
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
    /// The CPU that it was on, where these are told apart.
    pub cpu: Option<u32>,
    /// What sort of event it was.
    pub sort: Sort,
    /// How often it happened.
    pub events: u64,
    /// What the events stand for: nanoseconds, bytes, …
    pub value: u64,
    /// The kernel part of the stack, leaf first: the address where it was, then addresses that calls
    /// return to.
    pub kernel: &'a [u64],
    /// The user part of the stack.
    pub user: UserStack<'a>,
    /// Who ended the wait.
    pub waker: Option<Waker<'a>>,
    /// When it happened, if keys have times: nanoseconds of `CLOCK_MONOTONIC`, to a millisecond.
    pub time: Option<u64>,
}

/// Who woke a thread.
#[derive(Clone, Copy, Debug)]
pub struct Waker<'a> {
    /// The process; 0 if it was none.
    pub pid: i32,
    /// The process's name; `[interrupt]` if it was none.
    pub process: &'a [u8],
    /// The thread's name.
    pub thread: &'a [u8],
    /// The kernel part of its stack, as in [`Counted::kernel`].
    pub kernel: &'a [u64],
    /// The user part of its stack.
    pub user: UserStack<'a>,
}

/// The user part of a stack.
#[derive(Clone, Copy, Debug, Default)]
pub struct UserStack<'a> {
    frames: &'a [u64],
    /// What the numbers are that the programs gave to files.
    aliases: Option<&'a HashMap<u32, u32>>,
}

impl<'a> UserStack<'a> {
    /// Its frames, leaf first.
    pub fn frames(self) -> impl DoubleEndedIterator<Item = UserFrame> + 'a {
        let frames = match self.frames.split_last() {
            Some((last, rest)) if module(*last) == MODULE_END => rest,
            _ => self.frames,
        };
        let aliases = self.aliases;
        frames.iter().map(move |&frame| {
            let module = match module(frame) {
                MODULE_ANONYMOUS => None,
                asked @ MODULE_ASKED.. => match aliases.and_then(|known| known.get(&asked)) {
                    Some(&MODULE_ANONYMOUS) | None => Some(MODULE_UNKNOWN),
                    known => known.copied(),
                },
                known => Some(known),
            };
            UserFrame { module, address: address(frame) }
        })
    }

    /// Whether there is none: the thread is none of a program, or its part was not asked for.
    pub fn is_empty(self) -> bool {
        self.frames.is_empty()
    }

    /// Why it ends too early, if it does.
    pub fn cut(self) -> Option<Cut> {
        match self.end()? & !END_GUESSED {
            0 => None,
            end => Some(Cut::from_end(end).unwrap_or(Cut::BadRule)),
        }
    }

    /// Whether a frame of it was left by what its instructions say, for want of a table.
    pub fn is_guessed(self) -> bool {
        self.end().is_some_and(|end| end & END_GUESSED != 0)
    }

    /// What its last "frame" says, if that says how it ends.
    fn end(self) -> Option<u64> {
        let last = *self.frames.last().filter(|last| module(**last) == MODULE_END)?;
        Some(address(last))
    }

    /// The module in which it ends because its table was left out, if it does.
    fn left_out(self) -> Option<u32> {
        if self.cut() != Some(Cut::TableOmitted) {
            return None;
        }
        self.frames().next_back()?.module
    }
}

/// A frame as the programs have it.
fn encode(frame: UserFrame) -> u64 {
    let module = frame.module.unwrap_or(MODULE_ANONYMOUS);
    u64::from(module) << FRAME_SHIFT | address(frame.address)
}

fn module(frame: u64) -> u32 {
    (frame >> FRAME_SHIFT) as u32
}

fn address(frame: u64) -> u64 {
    frame & ((1 << FRAME_SHIFT) - 1)
}

/// More words of stacks are not kept, but for those that come in within half a second: 1 MiB.
const MOST_WORDS: usize = 1 << 17;

/// The stacks that were told, by their hashes. A long recording meets new ones without end, each a place in
/// the kernel or a leaf that was not met before.
#[derive(Clone, Debug)]
pub struct Stacks {
    inner: Rc<RefCell<Inner>>,
}

/// The modules that stand behind numbers which the programs gave.
type Numbers<'a> = &'a HashMap<u32, u32>;

/// Stacks by their hashes.
#[derive(Debug, Default)]
struct Told {
    frames: Vec<u64>,
    /// Where each is in `frames`: from, and how many.
    places: HashMap<u64, (usize, usize)>,
}

impl Told {
    fn find(&self, hash: u64) -> Option<&[u64]> {
        let (from, len) = *self.places.get(&hash)?;
        self.frames.get(from..from + len)
    }

    fn add(&mut self, hash: u64, frames: impl Iterator<Item = u64>) {
        let from = self.frames.len();
        self.places.entry(hash).or_insert_with(|| {
            self.frames.extend(frames);
            (from, self.frames.len() - from)
        });
    }
}

/// More words of unwound copies are not kept until they are counted: 64 MiB. Deep recursion has 80 KB a stack.
const MOST_COPIED_WORDS: usize = 8 << 20;

/// Stacks that were unwound in user space, until they are counted: each is, once.
#[derive(Debug, Default)]
struct Copied {
    stacks: HashMap<u64, Box<[u64]>>,
    words: usize,
}

impl Copied {
    fn add(&mut self, hash: u64, frames: Vec<u64>) {
        self.words += frames.len();
        if let Some(before) = self.stacks.insert(hash, frames.into_boxed_slice()) {
            self.words -= before.len();
        }
    }

    fn remove(&mut self, hash: u64) {
        self.words -= self.stacks.remove(&hash).map_or(0, |frames| frames.len());
    }
}

#[derive(Debug, Default)]
struct Inner {
    told: Told,
    copied: Copied,
    /// What was told before it was forgotten the last time: what was counted at that moment is of these.
    told_before: Told,
    /// Events whose stack was never told.
    unknown: u64,
    /// Events whose user stack ends in a module because its table was left out.
    left_out: HashMap<u32, u64>,
    text: KernelText,
    aliases: Aliases,
}

impl Inner {
    fn find(&self, hash: u64) -> Option<&[u64]> {
        if hash == 0 {
            return Some(&[]);
        }
        let told = self.told.find(hash).or_else(|| self.told_before.find(hash));
        told.or_else(|| Some(self.copied.stacks.get(&hash)?))
    }

    fn waker<'a>(&'a self, hash: u64, aliases: Numbers<'a>) -> Option<Waker<'a>> {
        let [user, kernel, pid, names @ ..] = self.find(hash)?.first_chunk::<WAKER_WORDS>()?;
        let (thread, process) = bytemuck::bytes_of(names).split_at(16);
        Some(Waker {
            pid: i32::try_from(*pid).unwrap_or(0),
            process: name(process),
            thread: name(thread),
            kernel: self.text.without_tracing(kernel_part(self.find(*kernel)?)),
            user: UserStack { frames: self.find(*user)?, aliases: Some(aliases) },
        })
    }

    fn counted<'a>(
        &'a self,
        key: &'a Key,
        count: &Count,
        aliases: Numbers<'a>,
    ) -> Option<Counted<'a>> {
        let sort = Sort::new(key.sort, key.detail);
        let kernel = kernel_part(self.find(key.kernel)?);
        let waker = match key.waker {
            0 => None,
            hash => Some(self.waker(hash, aliases)?),
        };
        Some(Counted {
            pid: key.tgid,
            tid: key.tid,
            cpu: key.cpu.checked_sub(1),
            process: name(&key.process),
            thread: name(&key.thread),
            sort,
            events: count.events,
            value: count.value,
            kernel: match sort {
                Sort::Event => kernel,
                Sort::Wait(_) => self.text.without_scheduler(kernel),
                _ => self.text.without_tracing(kernel),
            },
            user: UserStack { frames: self.find(key.user)?, aliases: Some(aliases) },
            waker,
            time: (key.time > 0).then(|| u64::from(key.time) << KEY_TIME_SHIFT),
        })
    }
}

impl Stacks {
    /// None yet. `text`: where the kernel's functions are.
    pub fn new(text: KernelText, aliases: Aliases) -> Self {
        Self { inner: Rc::new(RefCell::new(Inner { text, aliases, ..Inner::default() })) }
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
        inner.told.add(hash, words.take(len));
    }

    /// Notes what a copied stack came to in user space, unless the kernel had come as far.
    pub fn add_copied(
        &self,
        stack: &CopiedStack,
        frames: impl Iterator<Item = UserFrame>,
        (cut, guessed): (Option<Cut>, bool),
    ) {
        let inner = &mut *self.inner.borrow_mut();
        let room = MOST_COPIED_WORDS.saturating_sub(inner.copied.words).max(MAX_FRAMES);
        let mut frames: Vec<u64> = frames.map(encode).collect();
        let cut = if frames.len() > room { Some(Cut::TooManyFrames) } else { cut };
        frames.truncate(room);
        let partial = inner.told.find(stack.partial);
        let partial = partial.or_else(|| inner.told_before.find(stack.partial));
        match partial.filter(|partial| cut.is_some() && partial.len() > frames.len()) {
            Some(partial) => frames = partial.to_vec(),
            None if cut.is_some() || guessed => {
                let guessed = if guessed { END_GUESSED } else { 0 };
                let end = cut.map_or(0, |cut| cut as u64) | guessed;
                frames.push(u64::from(MODULE_END) << FRAME_SHIFT | end);
            }
            None => {}
        }
        inner.copied.add(stack.hash, frames);
    }

    /// Whether there are so many that it is time to forget them.
    pub fn are_many(&self) -> bool {
        self.inner.borrow().told.frames.len() > MOST_WORDS
    }

    /// Forgets those that were told before the last call.
    pub fn forget(&self) {
        let inner = &mut *self.inner.borrow_mut();
        inner.told_before = std::mem::take(&mut inner.told);
    }

    /// Events whose stack was never told.
    pub fn unknown(&self) -> u64 {
        self.inner.borrow().unknown
    }

    /// Puts together what was counted.
    pub fn counted(&self, key: &Key, count: &Count, out: &mut dyn FnMut(Counted<'_>)) {
        let inner = &mut *self.inner.borrow_mut();
        let aliases = Rc::clone(&inner.aliases);
        let aliases = aliases.borrow();
        let Some(counted) = inner.counted(key, count, &aliases) else {
            inner.unknown += count.events;
            return;
        };
        let left_out = counted.user.left_out();
        out(counted);
        inner.copied.remove(key.user);
        if let Some(module) = left_out {
            *inner.left_out.entry(module).or_default() += count.events;
        }
    }

    /// The modules in which user stacks end because their tables were left out, and how many events
    /// have such stacks; most first.
    pub fn left_out(&self) -> Vec<(u32, u64)> {
        let mut rows: Vec<_> = self
            .inner
            .borrow()
            .left_out
            .iter()
            .map(|(module, events)| (*module, *events))
            .collect();
        rows.sort_unstable_by_key(|(module, events)| (std::cmp::Reverse(*events), *module));
        rows
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

fn name(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack(hash: u64, frames: &[u64]) -> Vec<u8> {
        bytemuck::cast_slice(&[&[hash, frames.len() as u64], frames].concat()).to_vec()
    }

    /// The kernel part of a stack, as it is handed out.
    fn found(stacks: &Stacks, kernel: u64) -> Option<Vec<u64>> {
        let key = Key { kernel, ..bytemuck::Zeroable::zeroed() };
        let mut found = None;
        let mut take = |counted: Counted<'_>| found = Some(counted.kernel.to_vec());
        stacks.counted(&key, &Count { events: 1, value: 1 }, &mut take);
        found
    }

    #[test]
    fn what_was_just_forgotten_is_still_known() {
        let stacks = Stacks::new(KernelText::default(), Aliases::default());
        stacks.add(&stack(7, &[1, 2]));
        stacks.forget();
        stacks.add(&stack(8, &[3]));
        assert_eq!((found(&stacks, 7), found(&stacks, 8)), (Some(vec![1, 2]), Some(vec![3])));
        stacks.forget();
        assert_eq!((found(&stacks, 7), found(&stacks, 8)), (None, Some(vec![3])));
        assert_eq!(stacks.unknown(), 1);
        stacks.add(&stack(7, &[1, 2]));
        assert_eq!(found(&stacks, 7), Some(vec![1, 2]), "it was told again");
    }

    #[test]
    fn many_stacks_are_too_many() {
        let stacks = Stacks::new(KernelText::default(), Aliases::default());
        let frames = [0; MAX_FRAMES];
        let most = (MOST_WORDS / MAX_FRAMES) as u64;
        (0..most).for_each(|hash| stacks.add(&stack(hash, &frames)));
        assert!(!stacks.are_many());
        stacks.add(&stack(0, &frames));
        assert!(!stacks.are_many(), "told twice, it is one");
        stacks.add(&stack(most, &frames));
        assert!(stacks.are_many());
        stacks.forget();
        assert!(!stacks.are_many());
    }
}
