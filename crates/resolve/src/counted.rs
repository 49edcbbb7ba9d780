//! Stacks that were unwound and counted elsewhere: inside of the kernel.

use pyrograph_profile as profile;
use pyrograph_profile::{Thread, ThreadId};
use pyrograph_unwind::AddressSpace;

use crate::collect::{Collected, module_of_tag};
use crate::files::Files;
use crate::modules::ModuleId;
use crate::resolver::Resolver;
use crate::stacks::{Marker, RawFrame};

/// A stack, and how often it was met.
#[derive(Clone, Copy, Debug)]
pub struct CountedStack<'a, U> {
    /// The process, and its name at that moment.
    pub pid: i32,
    /// The name of the process.
    pub process: &'a [u8],
    /// The thread.
    pub tid: i32,
    /// The name of the thread.
    pub thread: &'a [u8],
    /// The kernel part, leaf first: where it was, then addresses that calls return to.
    pub kernel: &'a [u64],
    /// The program's part, leaf first: a module's number ([`Resolver::module_of_tag`]), and the place
    /// of the code, inside of a call: a file offset, or the address where the module is no file.
    pub user: U,
    /// Whether there should be a user part.
    pub has_user: bool,
    /// Why the outer part of the user part is missing.
    pub cut: Option<Cut>,
    /// What the thread waited for, if it did not run.
    pub wait: Option<Wait>,
    /// How often.
    pub events: u64,
    /// What these events stand for.
    pub value: u64,
}

/// Why the outer part of a stack is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// It has more frames than are kept, or could not be read.
    Truncated,
    /// It could not be unwound any further.
    Broken,
}

/// What a thread that does not run waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// For anything that is none of the others.
    Sleep,
    /// For a lock or a condition.
    Lock,
    /// For a block device.
    Io,
    /// For something else in the kernel.
    Uninterruptible,
    /// For a CPU.
    Preempted,
}

impl Wait {
    fn marker(self) -> Marker {
        match self {
            Self::Sleep => Marker::Sleeping,
            Self::Lock => Marker::Lock,
            Self::Io => Marker::Io,
            Self::Uninterruptible => Marker::Uninterruptible,
            Self::Preempted => Marker::Preempted,
        }
    }
}

impl<F: Files> Resolver<F> {
    /// The process's executable mappings as they are after all records so far.
    pub fn space(&self, pid: i32) -> &AddressSpace {
        self.processes.space(pid)
    }

    /// What a mapping's tag stands for: its module's number, and whether frames in it are told as file
    /// offsets.
    pub fn module_of_tag(tag: u32) -> (u32, bool) {
        let (module, is_file) = module_of_tag(tag);
        (module.0, is_file)
    }

    /// Adds a stack that was counted elsewhere.
    pub fn counted<U>(&mut self, counted: CountedStack<'_, U>)
    where
        U: Iterator<Item = (u32, u64)>,
    {
        let thread = self.counted_thread(&counted);
        let modules = self.modules.rows().len();
        self.frames.clear();
        self.frames.extend(counted.wait.map(|wait| RawFrame::marker(wait.marker())));
        if !self.options.user_only {
            let callers = counted.kernel.iter().enumerate();
            self.frames.extend(callers.map(|(depth, &address)| RawFrame {
                module: ModuleId::KERNEL,
                address: address.wrapping_sub(u64::from(depth > 0)),
            }));
        }
        for (module, address) in counted.user {
            let module = ModuleId(module);
            let module = if module.index() < modules { module } else { ModuleId::UNKNOWN };
            self.frames.push(RawFrame { module, address });
        }
        let marker = counted.cut.map(|cut| match cut {
            Cut::Truncated => Marker::Truncated,
            Cut::Broken => Marker::Broken,
        });
        self.frames.extend(marker.map(RawFrame::marker));
        let stack = self.raw.intern(&self.frames);
        let collected = Collected { user: counted.has_user, marker, completed: false };
        self.stats.samples += counted.events;
        self.stats.count_stacks(collected, counted.events);
        let value = if self.options.count_samples { counted.events } else { counted.value };
        self.raw.add(profile::Sample { thread, ..profile::Sample::new(stack) }, value);
    }

    fn counted_thread<U>(&mut self, counted: &CountedStack<'_, U>) -> ThreadId {
        let strings = &mut self.profile.strings;
        let mut intern = |name: &[u8]| strings.intern(&String::from_utf8_lossy(name));
        let (process, name) = match counted.pid {
            // The idle threads have a name for each CPU.
            0 => (intern(b"swapper"), intern(b"swapper")),
            _ => (intern(counted.process), intern(counted.thread)),
        };
        let (pid, tid) = (Some(counted.pid), Some(counted.tid));
        let thread = Thread { pid, tid, process, name, ..Thread::default() };
        self.profile.threads.intern(self.options.threads.keep(thread))
    }
}
