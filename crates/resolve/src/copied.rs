//! User stacks that the in-kernel engine could not unwind to the end, and copied to user space.

use std::sync::Arc;

use pyrograph_event::counted::Cut;
use pyrograph_unwind::{
    AddressSpace, Arch, Frame, LiveMemory, Registers, StackCopy, StackEnd, UnwindInfo, Unwinder,
    Unwound,
};

use crate::collect::MAX_FRAMES;
use crate::jit_code::Walker;

/// Copy of a user stack, made at the event to be counted.
#[derive(Clone, Copy, Debug)]
pub struct CopiedStack<'a> {
    /// ID of the process.
    pub pid: i32,
    /// ID of the thread.
    pub tid: i32,
    /// General registers by DWARF number, then the instruction pointer.
    pub registers: &'a [u64; 17],
    /// Stack bytes, from the stack pointer on.
    pub bytes: &'a [u8],
    /// The thread's first frames, if these are farther up than `bytes` reaches: their address and their bytes.
    pub root: Option<(u64, &'a [u8])>,
    /// Number of stack bytes above the copied ones.
    pub missing: u64,
    /// The part of the missing bytes that was read ([`Resolver::read_missing`](crate::Resolver::read_missing)).
    pub rest: &'a [u8],
}

impl CopiedStack<'_> {
    /// DWARF number of `rsp`.
    const SP: usize = 7;

    /// Address of the first byte.
    pub(crate) fn start(&self) -> u64 {
        self.registers[Self::SP]
    }

    fn registers(&self, arch: Arch) -> Registers {
        let mut registers = Registers::new(arch);
        (0..).zip(self.registers).for_each(|(number, value)| registers.set(number, *value));
        registers
    }

    fn copy(&self) -> StackCopy<'_> {
        StackCopy { start: self.start(), bytes: self.bytes }
    }
}

impl LiveMemory for CopiedStack<'_> {
    /// Returns the 8 bytes at an address above the copy.
    ///
    /// In a deep recursion, the part between the copy and the first frames looks the same whichever way led into it: it
    /// may have been read after the thread had left the recursion and come back. The way into it is in the first
    /// frames, so these take precedence.
    fn beyond(&self, address: u64) -> Option<u64> {
        let end = self.start().checked_add(self.bytes.len() as u64)?;
        let roots = self.root.into_iter();
        [(end, self.rest)].into_iter().chain(roots).rev().find_map(|(from, bytes)| {
            let at = usize::try_from(address.checked_sub(from)?).ok()?;
            bytes.get(at..)?.first_chunk().map(|word| u64::from_le_bytes(*word))
        })
    }

    fn elsewhere(&self, address: u64, _: u64) -> Option<u64> {
        self.beyond(address)
    }

    fn has_root(&self) -> bool {
        self.root.is_some()
    }
}

/// State that is reused from one copy to the next.
pub(crate) struct CopiedStacks {
    pub unwinder: Unwinder,
    frames: Vec<Frame>,
    end: StackEnd,
    /// Mappings with which the last stack ended at code whose instructions were not read yet.
    stopped_in: Option<AddressSpace>,
}

/// Mappings of a process in which a stack leads to code that has no unwind table and whose instructions were not read
/// yet.
#[derive(Debug)]
pub struct Unread(pub(crate) AddressSpace);

impl Unread {
    /// Unwind information of the files that the process has mapped.
    pub fn files(&self) -> impl Iterator<Item = &Arc<UnwindInfo>> {
        self.0.mappings().filter_map(|mapping| mapping.info.as_ref())
    }
}

/// Reads code without unwind tables for stacks that lead through it, on a separate thread. The resolver of these stacks
/// then need not read it.
pub struct CodeReader {
    unwinder: Unwinder,
    frames: Vec<Frame>,
}

impl CodeReader {
    /// Creates a reader for processes of one architecture.
    pub fn new(arch: Arch) -> Self {
        Self { unwinder: Unwinder::new(arch), frames: Vec::new() }
    }

    /// Reads the code that a stack leads through.
    pub fn read(&mut self, stack: &CopiedStack<'_>, Unread(space): &Unread) {
        self.frames.clear();
        let registers = stack.registers(self.unwinder.arch());
        let (copy, frames) = (stack.copy(), &mut self.frames);
        self.unwinder.unwind_live(space, &registers, copy, stack, MAX_FRAMES, frames);
    }
}

/// The result of unwinding a copied stack.
#[derive(Debug)]
pub enum UnwoundCopy {
    /// Frames were found. Holds the reason for an early end, if any, and true if a frame was guessed.
    Frames(Option<Cut>, bool),
    /// No frames: code has to be read first ([`UnreadCode::Stop`](pyrograph_unwind::UnreadCode::Stop)).
    Unread(Unread),
}

impl Walker for CopiedStacks {
    fn unwound(&self) -> (StackEnd, &[Frame]) {
        (self.end, &self.frames)
    }
}

impl CopiedStacks {
    /// Creates the state for processes of one architecture.
    pub fn new(arch: Arch) -> Self {
        Self {
            unwinder: Unwinder::new(arch),
            frames: Vec::new(),
            end: StackEnd::Root,
            stopped_in: None,
        }
    }

    /// Unwinds a stack with the mappings of its process.
    pub fn unwind(&mut self, stack: &CopiedStack<'_>, space: &AddressSpace) -> Unwound {
        let registers = stack.registers(self.unwinder.arch());
        self.frames.clear();
        let (copy, frames) = (stack.copy(), &mut self.frames);
        let unwound = self.unwinder.unwind_live(space, &registers, copy, stack, MAX_FRAMES, frames);
        self.end = unwound.end;
        self.stopped_in = (self.end == StackEnd::Unread).then(|| space.clone());
        unwound
    }

    /// Frames of the last stack, leaf first.
    pub fn frames(&self) -> &[Frame] {
        &self.frames
    }

    /// Takes the mappings with which the last stack ended at code whose instructions were not read yet.
    pub fn take_unread(&mut self) -> Option<Unread> {
        self.stopped_in.take().map(Unread)
    }
}
