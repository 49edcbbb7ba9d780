//! User stacks that the in-kernel engine could not unwind to their end and copied out.

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

/// No more is read of a stack above its copy: deeper recursion is cut.
const MOST_READ: u64 = 8 << 20;

/// A user stack as it was when it was to be counted.
#[derive(Clone, Copy, Debug)]
pub struct CopiedStack<'a> {
    /// The process.
    pub pid: i32,
    /// The thread.
    pub tid: i32,
    /// The general registers by DWARF number, and the instruction pointer.
    pub registers: &'a [u64; 17],
    /// The bytes from the stack pointer on.
    pub bytes: &'a [u8],
    /// The thread's first frames, where these are further up than the bytes reach: an address, and what was there.
    pub root: Option<(u64, &'a [u8])>,
    /// How many bytes of the stack there are above the copied ones.
    pub missing: u64,
    /// The part of these that was read ([`Resolver::read_missing`]).
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
    /// The 8 bytes at an address above the copy.
    ///
    /// Of a deep recursion, what is between the copy and the first frames looks the same whichever way led to it:
    /// it may have been read after the thread left it and came back. What led to it is in the first frames.
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

/// State of unwinding copies from one to the next.
pub(crate) struct CopiedStacks {
    pub unwinder: Unwinder,
    frames: Vec<Frame>,
    end: StackEnd,
    /// The mappings with which the last stack ended at code that was not read yet.
    stopped_in: Option<AddressSpace>,
}

/// The mappings of a process, with which a stack leads to code without unwind tables whose instructions were not read yet.
#[derive(Debug)]
pub struct Unread(AddressSpace);

impl Unread {
    /// The files of the process.
    pub fn files(&self) -> impl Iterator<Item = &Arc<UnwindInfo>> {
        self.0.mappings().filter_map(|mapping| mapping.info.as_ref())
    }
}

/// Reads code without unwind tables for stacks that lead through it, on a thread of its own: what it has read, the resolver
/// that the stack is of need not read.
pub struct CodeReader {
    unwinder: Unwinder,
    frames: Vec<Frame>,
}

impl CodeReader {
    /// For processes of one architecture.
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
    /// Its frames; the reason for an early end, if any, and true if a frame was guessed.
    Frames(Option<Cut>, bool),
    /// None: code has to be read first ([`UnreadCode::Stop`]).
    Unread(Unread),
}

impl Walker for CopiedStacks {
    fn unwound(&self) -> (StackEnd, &[Frame]) {
        (self.end, &self.frames)
    }
}

impl CopiedStacks {
    /// For processes of one architecture.
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
    /// Reads what a copy lacks of its stack from the process, as long as that is as it was: call this soon after the
    /// copy was made. Nothing if it can be unwound without, as far as is known at present; with code to be read first, that
    /// is not known.
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

    /// The mappings that a process has now.
    pub fn space(&self, pid: i32) -> AddressSpace {
        self.processes.space(pid).clone()
    }

    /// Unwinds a copied stack with the mappings that its process has now, or had ([`space`](Self::space)). Appends its frames
    /// to `out`, leaf first.
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

    /// Puts the frames into `copied.frames`.
    fn walk(
        &mut self,
        stack: &CopiedStack<'_>,
        space: Option<&AddressSpace>,
        unread: UnreadCode,
    ) -> Unwound {
        let Options { arch, guessing, .. } = self.options;
        let (registers, copy) = (stack.registers(arch), stack.copy());
        // When the copy was made is not known.
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
