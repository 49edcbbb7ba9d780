//! User stacks that the in-kernel engine could not unwind to the end, and copied to user space.

use std::sync::Arc;

use pyrograph_event::counted::{Cut, UserFrame};
use pyrograph_unwind::{
    AddressSpace, Arch, Frame, LiveMemory, Registers, StackCopy, StackEnd, UnreadCode, UnwindInfo,
    Unwinder, Unwound,
};

use crate::beyond::CHECKED;
use crate::collect::{MAX_FRAMES, user_frame};
use crate::cut::cut_of;
use crate::files::Files;
use crate::jit_code::{Code, Walker};
use crate::resolver::{Options, Resolver};

/// Number of bytes that are read of a stack above its copy: deeper recursion is cut.
const MOST_READ: u64 = 8 << 20;

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
    /// The part of the missing bytes that was read ([`Resolver::read_missing`]).
    pub rest: &'a [u8],
}

impl CopiedStack<'_> {
    /// DWARF number of `rsp`.
    const SP: usize = 7;

    fn start(&self) -> u64 {
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
pub struct Unread(AddressSpace);

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
    /// No frames: code has to be read first ([`UnreadCode::Stop`]).
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
}

impl<F: Files> Resolver<F> {
    /// Reads the stack above a copy from the process, if the copied bytes are unchanged. Call this soon after the copy
    /// was made. Returns no bytes if the stack can be unwound without them, as far as is known. If code has to be read
    /// first, that is not known: the bytes are read, and the mappings returned, too.
    pub fn read_missing(
        &mut self,
        stack: &CopiedStack<'_>,
        unread: UnreadCode,
    ) -> (Vec<u8>, Option<Unread>) {
        if stack.missing == 0 {
            return (Vec::new(), None);
        }
        if !self.processes.runs(stack.pid) {
            return (self.read_above(stack), None);
        }
        match self.walk(stack, None, unread).end {
            StackEnd::Truncated | StackEnd::OffStack => (self.read_above(stack), None),
            StackEnd::Unread => {
                let unread = self.copied.stopped_in.take().map(Unread);
                (self.read_above(stack), unread)
            }
            _ => (Vec::new(), None),
        }
    }

    fn read_above(&mut self, stack: &CopiedStack<'_>) -> Vec<u8> {
        let from = stack.bytes.len().saturating_sub(CHECKED);
        let (before, missing) = (stack.bytes.len() - from, stack.missing.min(MOST_READ) as usize);
        let mut bytes = vec![0; before + missing];
        let start = stack.start().wrapping_add(from as u64);
        let is_read = self.files.read_memory(stack.tid, start, &mut bytes);
        if !is_read || bytes[..before] != stack.bytes[from..] {
            return Vec::new();
        }
        bytes.drain(..before);
        bytes
    }

    /// Current mappings of a process.
    pub fn space(&self, pid: i32) -> AddressSpace {
        self.processes.space(pid).clone()
    }

    /// Unwinds a copied stack with the current or earlier ([`space`](Self::space)) mappings of its process. Appends its
    /// frames to `out`, leaf first.
    pub fn unwind_copied(
        &mut self,
        stack: &CopiedStack<'_>,
        space: Option<&AddressSpace>,
        unread: UnreadCode,
        out: &mut Vec<UserFrame>,
    ) -> UnwoundCopy {
        let Unwound { end, beyond_copy, guessed, recursion_goes_beyond, .. } =
            self.walk(stack, space, unread);
        if let Some(stopped_in) = self.copied.stopped_in.take() {
            return UnwoundCopy::Unread(Unread(stopped_in));
        }
        let process = space.unwrap_or_else(|| self.processes.space(stack.pid));
        out.extend(self.copied.frames.iter().map(|frame| {
            let frame = user_frame(process, frame.lookup_address());
            let module = (!frame.module.is_jit()).then_some(frame.module.0);
            UserFrame { module, address: frame.address }
        }));
        if end == StackEnd::Root && beyond_copy > 0 {
            self.stats.completed += 1;
            self.stats.of_recursions += u64::from(recursion_goes_beyond);
        }
        let cut = cut_of(end, stack.missing > stack.rest.len() as u64);
        UnwoundCopy::Frames(cut, guessed > 0)
    }

    /// Unwinds a stack; the frames are put into `copied.frames`.
    fn walk(
        &mut self,
        stack: &CopiedStack<'_>,
        space: Option<&AddressSpace>,
        unread: UnreadCode,
    ) -> Unwound {
        let Options { arch, guessing, .. } = self.options;
        let (registers, copy) = (stack.registers(arch), stack.copy());
        // The time of the copy is unknown.
        let (dump, thread) = (self.dump(stack.pid), (stack.pid, stack.tid));
        let code = Code { dump: dump.as_ref(), time: None, thread, guessing };
        self.copied.unwinder.set_guessing(guessing);
        self.copied.unwinder.set_unread(unread);
        let bare = space.unwrap_or_else(|| self.processes.space(stack.pid));
        let (live, copied) = (Some(&mut self.files as &mut dyn Files), &mut self.copied);
        self.jit_code.walk(live, &code, bare, copied, |copied, space, _| {
            let CopiedStacks { unwinder, frames, end, stopped_in } = copied;
            frames.clear();
            let unwound = unwinder.unwind_live(space, &registers, copy, stack, MAX_FRAMES, frames);
            *end = unwound.end;
            *stopped_in = (*end == StackEnd::Unread).then(|| space.clone());
            unwound
        })
    }
}
