//! Stacks that were copied to user space: what is missing is read, and they are unwound.

use pyrograph_event::counted::UserFrame;
use pyrograph_unwind::{AddressSpace, StackEnd, UnreadCode, Unwound};

use super::Resolver;
use crate::beyond::CHECKED;
use crate::collect::user_frame;
use crate::copied::{CopiedStack, Unread, UnwoundCopy};
use crate::cut::cut_of;
use crate::files::Files;
use crate::jit_code::Code;

/// Number of bytes that are read of a stack above its copy: deeper recursion is cut.
const MOST_READ: u64 = 8 << 20;

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
                let unread = self.copied.take_unread();
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
        if let Some(unread) = self.copied.take_unread() {
            return UnwoundCopy::Unread(unread);
        }
        let process = space.unwrap_or_else(|| self.processes.space(stack.pid));
        out.extend(self.copied.frames().iter().map(|frame| {
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

    /// Unwinds a stack; its frames are those of `copied` then.
    fn walk(
        &mut self,
        stack: &CopiedStack<'_>,
        space: Option<&AddressSpace>,
        unread: UnreadCode,
    ) -> Unwound {
        let guessing = self.options.guessing;
        // The time of the copy is unknown.
        let (dump, thread) = (self.dump(stack.pid), (stack.pid, stack.tid));
        let code = Code { dump: dump.as_ref(), time: None, thread, guessing };
        self.copied.unwinder.set_guessing(guessing);
        self.copied.unwinder.set_unread(unread);
        let bare = space.unwrap_or_else(|| self.processes.space(stack.pid));
        let (live, copied) = (Some(&mut self.files as &mut dyn Files), &mut self.copied);
        self.jit_code
            .walk(live, &code, bare, copied, |copied, space, _| copied.unwind(stack, space))
    }
}
