//! Stacks of single events in running processes, symbolized soon after: for output that prints one after the other.

use std::sync::Arc;

use pyrograph_event::counted::{Cut, UserFrame, UserStack};
use pyrograph_event::interpreter::Calls;
use pyrograph_profile::{Sample, ThreadId};
use pyrograph_unwind::UnreadCode;

use crate::collect::{Place, Spaces};
use crate::copied::{CopiedStack, UnwoundCopy};
use crate::files::Files;
use crate::module_ids::mapping_tag;
use crate::names::{NameStats, name_addresses};
use crate::resolver::{Resolver, Stats, available_threads};
use crate::sample_stacks::{SampleStacks, as_chains, locate};
use crate::settle::MOST_OPENED;
use crate::stacks::{RawStacks, Weight};
use crate::versions::split_versions;

/// First address of the kernel's half of the address space.
const KERNEL_HALF: u64 = 1 << 63;

/// Stacks that are not symbolized yet.
#[derive(Debug, Default)]
pub struct SingleStacks {
    raw: RawStacks,
    count: usize,
    users: Vec<UserFrame>,
}

/// User part of a stack.
#[derive(Clone, Copy, Debug)]
pub enum UserPart<'a> {
    /// There is none: a kernel thread.
    None,
    /// Registers and a piece of the stack.
    Copied(&'a CopiedStack<'a>),
    /// The program is a 32-bit program, whose stacks are not unwound.
    Compat,
}

impl SingleStacks {
    /// Number of stacks.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Returns true if there are no stacks.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

impl<F: Files> Resolver<F> {
    /// Adds the stack of a process's thread, unwound with the current mappings of the process. `kernel`: addresses of
    /// the kernel part, leaf first. Returns the stack's number.
    pub fn add_single(
        &mut self,
        (pid, time): (i32, u64),
        kernel: &[u64],
        user: UserPart<'_>,
        stacks: &mut SingleStacks,
    ) -> usize {
        stacks.users.clear();
        let (cut, guessed) = match user {
            UserPart::None => (None, false),
            UserPart::Compat => (Some(Cut::Compat), false),
            UserPart::Copied(copied) => {
                match self.unwind_copied(copied, None, UnreadCode::Read, &mut stacks.users) {
                    UnwoundCopy::Frames(cut, guessed) => (cut, guessed),
                    UnwoundCopy::Unread(_) => (Some(Cut::NoTable), false),
                }
            }
        };
        let frames = stacks.users.iter().copied();
        self.frames.clear();
        self.push_code(
            pid,
            kernel,
            Some(UserStack { frames, cut, guessed, calls: Calls::default() }),
        );
        self.add_frames(time, stacks)
    }

    /// Adds a single address of a process or the kernel, as a stack of one frame. Returns the stack's number.
    pub fn add_place(
        &mut self,
        (pid, time): (i32, u64),
        address: u64,
        stacks: &mut SingleStacks,
    ) -> usize {
        let spaces = Spaces { process: self.processes.space(pid), kernel: &self.kernel };
        let place = match address {
            KERNEL_HALF.. => Place::Kernel(address),
            _ => Place::Process(address),
        };
        let frame = place.frame(spaces);
        self.frames.clear();
        self.frames.push(frame);
        self.add_frames(time, stacks)
    }

    fn add_frames(&mut self, time: u64, stacks: &mut SingleStacks) -> usize {
        let stack = stacks.raw.intern(&self.frames);
        let time = Some(time);
        let sample = Sample { thread: ThreadId(0), time, ..Sample::new(stack) };
        stacks.raw.push(sample, Weight::one(1));
        stacks.count += 1;
        stacks.count - 1
    }

    /// Symbolizes the stacks and takes them out; they keep their numbers. JIT-compiled code gets the names that its
    /// process has written so far.
    pub fn name_singles(&mut self, stacks: &mut SingleStacks) -> SampleStacks {
        let raw = std::mem::take(&mut stacks.raw);
        stacks.count = 0;
        self.modules.jit.refresh_all(&mut self.files);
        let mut naming = self.naming(available_threads());
        naming.kept = Some(Arc::clone(&self.kept));
        let modules = self.modules.of(raw.frames());
        let mut raw = if naming.by_time { split_versions(raw, &modules) } else { raw };
        let chains = as_chains(&mut raw);
        let mut names = NameStats::default();
        let named = name_addresses(&[chains.frames()], &modules, &naming, &mut names);
        let locations = locate(&chains, &named, &modules, &naming);
        self.modules.limit_names();
        if self.modules.opened_lately() >= MOST_OPENED {
            let mapped = self.processes.tags();
            self.modules.jit.forget(|id| mapped.contains(&mapping_tag(id, false)));
            self.modules.forget_files(|id| mapped.contains(&mapping_tag(id, true)));
        }
        SampleStacks { locations, stats: Stats { names, ..Stats::default() }, chains }
    }
}
