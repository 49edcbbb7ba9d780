//! Counts and their stacks, decoded from what the programs emit.

use std::cell::RefCell;
use std::rc::Rc;

use hashbrown::{HashMap, HashSet};
use pyrograph_event::clock::monotonic_now;
use pyrograph_event::counted as event;
use pyrograph_event::counted::{Cut, Kind, Socket, UserFrame, UserStack, Wait, Waker};
use pyrograph_event::interpreter::Calls;

use crate::copies::CopiedStack;
use crate::files::Aliases;
use crate::kernel_text::KernelText;
use crate::key_texts::KeyTexts;
use crate::layout::{
    Count, END_GUESSED, FINE_TIME_SHIFT, FRAME_SHIFT, KEY_TIME_SHIFT, KIND_PROBE, Key, MAX_FRAMES,
    MODULE_ANONYMOUS, MODULE_ASKED, MODULE_CALLS, MODULE_END, MODULE_UNKNOWN, WAKER_WORDS,
};

/// Reasons in the order of `enum end`, whose values start at 1.
const CUTS: [Cut; 10] = [
    Cut::TooManyFrames,
    Cut::Unreadable,
    Cut::Unmapped,
    Cut::TablePending,
    Cut::TableOmitted,
    Cut::NoTable,
    Cut::BadRule,
    Cut::Compat,
    Cut::NotTaken,
    Cut::Invisible,
];

/// Reason for a value of `enum end`; `None` if the stack is whole.
pub fn cut_of(end: u64) -> Option<Cut> {
    let at = usize::try_from(end.checked_sub(1)?).ok()?;
    CUTS.get(at).copied()
}

/// Value of `enum end` for a reason.
pub fn end_of(cut: Cut) -> u64 {
    let cut = match cut {
        // Reasons that only occur in user space.
        Cut::CopyTooSmall => Cut::Unreadable,
        Cut::OffStack | Cut::Moved => Cut::BadRule,
        cut => cut,
    };
    CUTS.iter().zip(1..).find(|(known, _)| **known == cut).map_or(0, |(_, end)| end)
}

/// Converts a value of `enum kind` and its detail.
fn kind_of(number: u32, detail: u32) -> Kind {
    let socket = Socket { family: (detail >> 16) as u16, protocol: detail as u16 };
    match number {
        1 => Kind::Wait(Wait::Sleep),
        // If only waits for locks are recorded, the detail is the number of their system call.
        2 | 12 if detail > 0 => Kind::Futex { lock: number == 2 },
        2 => Kind::Wait(Wait::Lock),
        3 => Kind::Wait(Wait::Io),
        4 => Kind::Wait(Wait::Uninterruptible),
        5 => Kind::Wait(Wait::Preempted),
        KIND_PROBE => Kind::Probe,
        7 => Kind::Call(detail),
        8 => Kind::KernelLock(detail),
        9 => Kind::Sent(socket),
        10 => Kind::Received(socket),
        11 => Kind::Woken,
        12 => Kind::Wait(Wait::Condition),
        13 => Kind::Goroutine,
        _ => Kind::Event,
    }
}

/// A count with its stacks.
pub type Counted<'a> = event::Counted<'a, UserFrames<'a>>;

/// Frames of a user stack, leaf first.
#[derive(Clone, Debug)]
pub struct UserFrames<'a> {
    words: std::slice::Iter<'a, u64>,
    /// Modules by the numbers that the programs assigned to unknown files.
    aliases: &'a HashMap<u32, u32>,
}

impl UserFrames<'_> {
    fn frame(&self, word: u64) -> UserFrame {
        let module = match module(word) {
            MODULE_ANONYMOUS => None,
            asked @ MODULE_ASKED.. => match self.aliases.get(&asked) {
                Some(&MODULE_ANONYMOUS) | None => Some(MODULE_UNKNOWN),
                known => known.copied(),
            },
            known => Some(known),
        };
        UserFrame { module, address: address(word) }
    }
}

impl Iterator for UserFrames<'_> {
    type Item = UserFrame;

    fn next(&mut self) -> Option<UserFrame> {
        let word = *self.words.next()?;
        Some(self.frame(word))
    }
}

impl DoubleEndedIterator for UserFrames<'_> {
    fn next_back(&mut self) -> Option<UserFrame> {
        let word = *self.words.next_back()?;
        Some(self.frame(word))
    }
}

/// Module in which a stack ends because its table was left out; `None` if it ends otherwise.
fn left_out(stack: &UserStack<'_, UserFrames<'_>>) -> Option<u32> {
    if stack.cut != Some(Cut::TableOmitted) {
        return None;
    }
    stack.frames.clone().next_back()?.module
}

/// Splits the words of a user stack from the hash of its interpreter calls, if it has any.
fn split_calls(words: &[u64]) -> (&[u64], Option<u64>) {
    match words.split_last() {
        Some((last, rest)) if module(*last) == MODULE_CALLS => (rest, Some(address(*last))),
        _ => (words, None),
    }
}

/// Encodes a frame as the programs do.
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

/// Number of stack words that are kept, not counting those that arrive within half a second: 1 MiB.
const MOST_WORDS: usize = 1 << 17;

/// Stacks that the programs have emitted, by hash. A long recording has new ones all the time: each has an address in
/// the kernel or a leaf that was not hit before.
#[derive(Clone, Debug)]
pub struct Stacks {
    inner: Rc<RefCell<Inner>>,
}

/// Modules by the numbers that the programs assigned.
type Numbers<'a> = &'a HashMap<u32, u32>;

/// Stacks by hash.
#[derive(Debug, Default)]
struct Recent {
    frames: Vec<u64>,
    /// Position of each stack in `frames`: start and length.
    places: HashMap<u64, (usize, usize)>,
}

impl Recent {
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

/// Number of words of unwound copies that are kept until they are counted: 64 MiB. Deep recursion has 80 KB a stack.
const MOST_COPIED_WORDS: usize = 8 << 20;

/// Stacks that were unwound in user space, kept until they are counted: each is counted once.
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
    recent: Recent,
    copied: Copied,
    /// Stacks from before the last [`Stacks::forget`]: counts of that moment may refer to them.
    older: Recent,
    /// Hashes of copied stacks that are unwound later; `late` has the counts of these so far.
    postponed: HashSet<u64>,
    late: Vec<(Key, Count)>,
    /// Number of events whose stack was never emitted.
    unknown: u64,
    /// Number of events whose user stack ends in a module because its table was left out.
    left_out: HashMap<u32, u64>,
    text: KernelText,
    aliases: Aliases,
    key_texts: KeyTexts,
    /// True if keys have times in units of `FINE_TIME_SHIFT`.
    fine_times: bool,
}

impl Inner {
    fn find(&self, hash: u64) -> Option<&[u64]> {
        if hash == 0 {
            return Some(&[]);
        }
        let found = self.recent.find(hash).or_else(|| self.older.find(hash));
        found.or_else(|| Some(self.copied.stacks.get(&hash)?))
    }

    /// User part of a stack. The last of its words may encode how it ends, and the hash of its interpreter calls. The
    /// outer option is `None` if the stack is unknown, the inner one if there is no user part.
    fn user_stack<'a>(
        &'a self,
        hash: u64,
        aliases: Numbers<'a>,
    ) -> Option<Option<UserStack<'a, UserFrames<'a>>>> {
        let (words, calls) = split_calls(self.find(hash)?);
        let Some((last, rest)) = words.split_last() else { return Some(None) };
        let calls = calls.and_then(|hash| self.find(hash)).unwrap_or(&[]);
        let (words, end) = match module(*last) == MODULE_END {
            true => (rest, address(*last)),
            false => (words, 0),
        };
        let cut = match end & !END_GUESSED {
            0 => None,
            end => Some(cut_of(end).unwrap_or(Cut::BadRule)),
        };
        let frames = UserFrames { words: words.iter(), aliases };
        let guessed = end & END_GUESSED != 0;
        Some(Some(UserStack { frames, cut, guessed, calls: Calls::new(calls) }))
    }

    fn waker<'a>(&'a self, hash: u64, aliases: Numbers<'a>) -> Option<Waker<'a, UserFrames<'a>>> {
        let [user, kernel, pid, names @ ..] = self.find(hash)?.first_chunk::<WAKER_WORDS>()?;
        let (thread, process) = bytemuck::bytes_of(names).split_at(16);
        Some(Waker {
            pid: i32::try_from(*pid).unwrap_or(0),
            process: name(process),
            thread: name(thread),
            kernel: self.text.without_tracing(kernel_part(self.find(*kernel)?)),
            user: self.user_stack(*user, aliases)?,
        })
    }

    fn counted<'a>(
        &'a self,
        key: &'a Key,
        count: &Count,
        aliases: Numbers<'a>,
    ) -> Option<Counted<'a>> {
        let kind = kind_of(key.kind, key.detail);
        let kernel = kernel_part(self.find(key.kernel)?);
        let waker = match key.waker {
            0 => None,
            _ if kind == Kind::Probe => None,
            hash => Some(self.waker(hash, aliases)?),
        };
        Some(Counted {
            pid: key.tgid,
            tid: key.tid,
            cpu: key.cpu.checked_sub(1),
            process: name(&key.process),
            thread: name(&key.thread),
            kind,
            events: count.events,
            value: count.value,
            kernel: match kind {
                Kind::Event => kernel,
                Kind::Wait(_) => self.text.without_scheduler(kernel),
                _ => self.text.without_tracing(kernel),
            },
            user: self.user_stack(key.user, aliases)?,
            waker,
            by: self.key_texts.by(key),
            time: (key.time > 0).then(|| match self.fine_times {
                true => fine_time(key.time, monotonic_now()),
                false => u64::from(key.time) << KEY_TIME_SHIFT,
            }),
        })
    }
}

impl Stacks {
    /// Creates an empty table. `text`: addresses of the kernel's functions. `fine_times`: keys have times in units of
    /// `FINE_TIME_SHIFT`.
    pub fn new(text: KernelText, aliases: Aliases, key_texts: KeyTexts, fine_times: bool) -> Self {
        let inner = Inner { text, aliases, key_texts, fine_times, ..Inner::default() };
        Self { inner: Rc::new(RefCell::new(inner)) }
    }

    /// Sets the time of an event, if counts have times.
    pub fn set_time(&self, key: &mut Key, time: u64) {
        if self.inner.borrow().fine_times {
            key.time = (time >> FINE_TIME_SHIFT) as u32;
        }
    }

    /// Adds an emitted `struct stack`.
    pub fn add(&self, bytes: &[u8]) {
        let mut words = bytes.chunks_exact(8).map(|word| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(word);
            u64::from_ne_bytes(bytes)
        });
        let (Some(hash), Some(len)) = (words.next(), words.next()) else { return };
        let inner = &mut *self.inner.borrow_mut();
        let len = usize::try_from(len).unwrap_or(usize::MAX).min(Calls::MOST_WORDS);
        inner.recent.add(hash, words.take(len));
    }

    /// Adds the result of unwinding a copied stack in user space, unless the kernel had unwound more of it.
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
        let partial = inner.recent.find(stack.partial);
        let partial = partial.or_else(|| inner.older.find(stack.partial));
        // Interpreter calls are kept, whichever part is used.
        let (partial, calls) = partial.map_or((None, None), |words| {
            let (words, calls) = split_calls(words);
            (Some(words), calls)
        });
        match partial.filter(|partial| cut.is_some() && partial.len() > frames.len()) {
            Some(partial) => frames = partial.to_vec(),
            None if cut.is_some() || guessed => {
                let guessed = if guessed { END_GUESSED } else { 0 };
                let end = cut.map_or(0, end_of) | guessed;
                frames.push(u64::from(MODULE_END) << FRAME_SHIFT | end);
            }
            None => {}
        }
        frames.extend(calls.map(|hash| u64::from(MODULE_CALLS) << FRAME_SHIFT | hash));
        inner.postponed.remove(&stack.hash);
        inner.copied.add(stack.hash, frames);
    }

    /// Defers the counts of a copied stack until it is unwound.
    pub fn postpone(&self, stack: &CopiedStack) {
        self.inner.borrow_mut().postponed.insert(stack.hash);
    }

    /// Keeps a count for later if its stack was postponed. Returns true if it was kept.
    pub fn wait(&self, key: &Key, count: &Count) -> bool {
        let inner = &mut *self.inner.borrow_mut();
        let waits = inner.postponed.contains(&key.user);
        if waits {
            inner.late.push((*key, *count));
        }
        waits
    }

    /// Removes and returns the deferred counts whose stacks have been unwound by now.
    pub fn late(&self) -> Vec<(Key, Count)> {
        let Inner { postponed, late, .. } = &mut *self.inner.borrow_mut();
        late.extract_if(.., |(key, _)| !postponed.contains(&key.user)).collect()
    }

    /// Returns true if there are so many stacks that some should be forgotten.
    pub fn are_many(&self) -> bool {
        self.inner.borrow().recent.frames.len() > MOST_WORDS
    }

    /// Forgets the stacks from before the last call.
    pub fn forget(&self) {
        let inner = &mut *self.inner.borrow_mut();
        inner.older = std::mem::take(&mut inner.recent);
    }

    /// Number of events whose stack was never emitted.
    pub fn unknown(&self) -> u64 {
        self.inner.borrow().unknown
    }

    /// Combines a count with its stacks and passes it to `out`.
    pub fn counted(&self, key: &Key, count: &Count, out: &mut dyn FnMut(Counted<'_>)) {
        let inner = &mut *self.inner.borrow_mut();
        let aliases = Rc::clone(&inner.aliases);
        let aliases = aliases.borrow();
        inner.key_texts.read(key);
        let Some(counted) = inner.counted(key, count, &aliases) else {
            inner.unknown += count.events;
            return;
        };
        let left_out = counted.user.as_ref().and_then(left_out);
        out(counted);
        inner.copied.remove(key.user);
        if let Some(module) = left_out {
            *inner.left_out.entry(module).or_default() += count.events;
        }
    }

    /// Modules in which user stacks end because their tables were left out, with the number of events that have such
    /// stacks; most first.
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

/// The last time before `now` with these lower bits, in units of `FINE_TIME_SHIFT`, converted to nanoseconds.
fn fine_time(bits: u32, now: u64) -> u64 {
    let now = now >> FINE_TIME_SHIFT;
    now.saturating_sub((now as u32).wrapping_sub(bits).into()) << FINE_TIME_SHIFT
}

/// Removes the marker at the start of the kernel part of perf's callchains (`PERF_CONTEXT_KERNEL`).
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

    fn empty() -> Stacks {
        Stacks::new(KernelText::default(), Aliases::default(), KeyTexts::default(), false)
    }

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
        let stacks = empty();
        stacks.add(&stack(7, &[1, 2]));
        stacks.forget();
        stacks.add(&stack(8, &[3]));
        assert_eq!((found(&stacks, 7), found(&stacks, 8)), (Some(vec![1, 2]), Some(vec![3])));
        stacks.forget();
        assert_eq!((found(&stacks, 7), found(&stacks, 8)), (None, Some(vec![3])));
        assert_eq!(stacks.unknown(), 1);
        stacks.add(&stack(7, &[1, 2]));
        assert_eq!(found(&stacks, 7), Some(vec![1, 2]), "it was sent again");
    }

    #[test]
    fn times_come_out_whole_across_the_end_of_their_bits() {
        let end = 1_u64 << (32 + FINE_TIME_SHIFT);
        for (time, now) in [
            (5 << 14, 6 << 14),
            (end - (1 << 14), end + (3 << 14)),
            (end, end),
            (7 * end + (1 << 14), 7 * end + (1 << 20)),
        ] {
            assert_eq!(fine_time((time >> FINE_TIME_SHIFT) as u32, now), time, "{time} {now}");
        }
    }

    #[test]
    fn many_stacks_are_too_many() {
        let stacks = empty();
        let frames = [0; MAX_FRAMES];
        let most = (MOST_WORDS / MAX_FRAMES) as u64;
        (0..most).for_each(|hash| stacks.add(&stack(hash, &frames)));
        assert!(!stacks.are_many());
        stacks.add(&stack(0, &frames));
        assert!(!stacks.are_many(), "sent twice, it is one");
        stacks.add(&stack(most, &frames));
        assert!(stacks.are_many());
        stacks.forget();
        assert!(!stacks.are_many());
    }
}
