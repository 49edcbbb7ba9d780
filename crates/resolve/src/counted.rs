//! Stacks that were unwound and counted elsewhere: inside of the kernel.

use std::ops::Range;
use std::sync::Arc;

use pyrograph_profile as profile;
use pyrograph_profile::ThreadId;
use pyrograph_unwind::UnwindInfo;

use crate::collect::{Collected, module_of_tag};
use crate::cut::Cut;
use crate::files::{Files, Identity, MappedFile};
use crate::modules::{FileKey, ModuleId, is_anonymous, is_memory_file};
use crate::resolver::Resolver;
use crate::settle::Unnamed;
use crate::stacks::{Marker, RawFrame, Weight};

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
    /// The CPU, where these are told apart.
    pub cpu: Option<u32>,
    /// The kernel part, leaf first: where it was, then addresses that calls return to.
    pub kernel: &'a [u64],
    /// The program's part, leaf first: a module's number ([`OpenedFile::module`]) and a file offset, or
    /// without a module an address of the process; in either case inside of a call.
    pub user: U,
    /// Whether there should be a user part.
    pub has_user: bool,
    /// Why the outer part of the user part is missing.
    pub cut: Option<Cut>,
    /// Whether a frame of the user part was guessed, for want of an unwind table.
    pub guessed: bool,
    /// When it was, in nanoseconds of the records' clock, if that is known: which function of code made at run
    /// time was at an address may depend on it.
    pub time: Option<u64>,
    /// What the thread waited for, if it did not run.
    pub wait: Option<Wait>,
    /// Frames that stand for no code, at the leaf, leaf first.
    pub labels: &'a [Label],
    /// Who ended the wait.
    pub waker: Option<CountedWaker<'a, U>>,
    /// How often.
    pub events: u64,
    /// What these events stand for.
    pub value: u64,
}

/// Who woke a thread.
#[derive(Clone, Copy, Debug)]
pub struct CountedWaker<'a, U> {
    /// Its process, and that process's name.
    pub pid: i32,
    /// The name of its process.
    pub process: &'a [u8],
    /// The kernel part of its stack, as in [`CountedStack::kernel`].
    pub kernel: &'a [u64],
    /// The user part of its stack, as in [`CountedStack::user`].
    pub user: U,
    /// Why the outer part of that is missing.
    pub cut: Option<Cut>,
    /// Whether its stack is all that is to be shown. If not, it stands behind that of what waited, turned
    /// round.
    pub alone: bool,
}

/// A frame that stands for no code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// Its text.
    pub text: String,
    /// It is the kernel that does what it says.
    pub in_kernel: bool,
}

/// What a thread that does not run waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// For anything that is none of the others.
    Sleep,
    /// For a lock.
    Lock,
    /// For a condition, a semaphore, the end of a thread.
    Condition,
    /// For a block device.
    Io,
    /// For something else in the kernel.
    Uninterruptible,
    /// For a CPU.
    Preempted,
}

/// A file with code that is open.
#[derive(Clone, Debug)]
pub struct OpenedFile {
    /// What tells it from others; none for the vDSO.
    pub key: Option<FileKey>,
    /// Its number.
    pub module: u32,
    /// Its unwind information.
    pub unwind: Option<Arc<UnwindInfo>>,
}

/// What [`Resolver::look_at`] found.
#[derive(Clone, Debug)]
pub enum Looked {
    /// A file.
    File(OpenedFile),
    /// Memory without a file, or with one only to be shared.
    Anonymous,
    /// Nothing: it cannot be had any more.
    Gone,
}

impl Wait {
    fn marker(self) -> Marker {
        match self {
            Self::Sleep => Marker::Sleeping,
            Self::Lock => Marker::Lock,
            Self::Condition => Marker::Condition,
            Self::Io => Marker::Io,
            Self::Uninterruptible => Marker::Uninterruptible,
            Self::Preempted => Marker::Preempted,
        }
    }
}

impl<F: Files> Resolver<F> {
    /// The files that were opened since this was last called.
    pub fn opened_files(&mut self) -> Vec<OpenedFile> {
        let fresh = self.modules.take_fresh();
        fresh.into_iter().map(|(key, id)| self.opened_file(key, id)).collect()
    }

    /// The path of a module, or its name in brackets.
    pub fn module_path(&self, module: u32) -> &str {
        self.modules.get(ModuleId(module)).map_or("[unknown]", |module| &module.path)
    }

    fn opened_file(&self, key: Option<FileKey>, id: ModuleId) -> OpenedFile {
        OpenedFile { key, module: id.0, unwind: self.modules.unwind(id).cloned() }
    }

    /// What a process has mapped at a range, by the path that it sees.
    pub fn look_at(&mut self, pid: i32, range: Range<u64>, path: &str) -> Looked {
        if is_anonymous(path) && !is_memory_file(path) {
            return Looked::Anonymous;
        }
        let mapped = MappedFile { pid, range, path, identity: &Identity::Unknown };
        match self.modules.file_at(&mut self.files, &mapped) {
            Some(id) => Looked::File(self.opened_file(None, id)),
            // No ELF file: code that was made as the program ran.
            None if is_memory_file(path) => Looked::Anonymous,
            None => Looked::Gone,
        }
    }

    /// Whether a process has threads, after all records so far.
    pub fn runs(&self, pid: i32) -> bool {
        self.processes.runs(pid)
    }

    /// Opens a file that will be mapped.
    pub fn expect_file(&mut self, path: &str) {
        let pid = i32::try_from(std::process::id()).unwrap_or(0);
        let mapped = MappedFile { pid, range: 0..0, path, identity: &Identity::Unknown };
        // If it cannot be opened, that will show when it is mapped.
        let _ = self.modules.file_at(&mut self.files, &mapped);
    }

    /// The module of code that a process made at run time.
    fn made_code(&mut self, pid: i32, address: u64) -> ModuleId {
        // A forked process runs code that its parent made.
        let mapping = self.processes.space(pid).lookup(address);
        match mapping.map(|mapping| module_of_tag(mapping.tag)) {
            Some((module, false)) => module,
            _ => {
                let runs = self.processes.runs(pid);
                self.modules.jit_at_last(&mut self.files, pid, runs)
            }
        }
    }

    /// Adds a stack that was counted elsewhere.
    pub fn counted<U>(&mut self, counted: CountedStack<'_, U>)
    where
        U: Iterator<Item = (Option<u32>, u64)>,
    {
        let thread = self.counted_thread(&counted);
        self.frames.clear();
        let stands_alone = counted.waker.as_ref().is_some_and(|waker| waker.alone);
        if let Some(waker) = counted.waker {
            self.push_waker(waker);
        }
        for label in counted.labels {
            let text = self.unnamed.labels.intern(&label.text);
            self.frames.push(RawFrame::label(text, label.in_kernel));
        }
        self.frames.extend(counted.wait.map(|wait| RawFrame::marker(wait.marker())));
        let marker = counted.cut.map(Cut::marker);
        let cut = counted.cut;
        if !stands_alone {
            self.push_code(counted.pid, counted.kernel, (counted.user, counted.guessed), marker);
        }
        let is_made = Unnamed::is_made(&self.frames);
        let time = counted.time.filter(|_| is_made && self.keeps_time(counted.pid));
        let raw = self.unnamed.table(is_made);
        let stack = raw.intern(&self.frames);
        let guessed = counted.guessed;
        let collected =
            Collected { user: counted.has_user, marker, cut, guessed, ..Collected::default() };
        self.stats.samples += counted.events;
        self.stats.count_stacks(collected, counted.events);
        let value = if self.options.count_samples { counted.events } else { counted.value };
        let weight = Weight { value, samples: counted.events };
        let row = profile::Sample { thread, cpu: counted.cpu, ..profile::Sample::new(stack) };
        match time {
            Some(_) => raw.push(profile::Sample { time, ..row }, weight),
            None => raw.add_on_cpu(row, weight),
        }
    }

    /// Adds the frames of a stack, leaf first; of the user part also whether any of them was guessed.
    fn push_code<U>(
        &mut self,
        pid: i32,
        kernel: &[u64],
        (user, guessed): (U, bool),
        marker: Option<Marker>,
    ) where
        U: Iterator<Item = (Option<u32>, u64)>,
    {
        if !self.options.user_only {
            let callers = kernel.iter().enumerate();
            self.frames.extend(callers.map(|(depth, &address)| {
                RawFrame::new(ModuleId::KERNEL, address.wrapping_sub(u64::from(depth > 0)))
            }));
        }
        // The kernel says of a stack, not of each frame, that it was guessed: it was where there is no table.
        let mut is_guess = false;
        for (depth, (module, address)) in user.enumerate() {
            let module = match module.map(ModuleId) {
                Some(module) if self.modules.is_known_file(module) => module,
                Some(_) => ModuleId::UNKNOWN,
                None => self.made_code(pid, address),
            };
            self.frames.push(RawFrame::new(module, address).guessed(is_guess));
            is_guess = guessed && self.has_no_table(module, address, depth > 0);
        }
        self.frames.extend(marker.map(RawFrame::marker));
    }

    /// Whether the caller of a place in a module had to be guessed.
    fn has_no_table(&mut self, module: ModuleId, offset: u64, is_call: bool) -> bool {
        if module.is_made() {
            return true;
        }
        let Some(info) = self.modules.unwind(module) else { return true };
        let unwinder = &mut self.copied.unwinder;
        info.svma(offset).is_none_or(|svma| unwinder.has_no_table(info, svma, is_call))
    }

    /// Adds the stack of a waker, and its process's name as its root.
    fn push_waker<U>(&mut self, waker: CountedWaker<'_, U>)
    where
        U: Iterator<Item = (Option<u32>, u64)>,
    {
        let CountedWaker { pid, process, kernel, user, cut, alone } = waker;
        self.push_code(pid, kernel, (user, false), cut.map(Cut::marker));
        let process = self.unnamed.labels.intern(&String::from_utf8_lossy(process));
        self.frames.push(RawFrame::label(process, false));
        if !alone {
            self.frames.reverse();
            self.frames.push(RawFrame::marker(Marker::Waker));
        }
    }

    fn counted_thread<U>(&mut self, counted: &CountedStack<'_, U>) -> ThreadId {
        let (process, name) = match counted.pid {
            // The idle threads have a name for each CPU.
            0 => ("swapper".into(), "swapper".into()),
            _ => {
                (String::from_utf8_lossy(counted.process), String::from_utf8_lossy(counted.thread))
            }
        };
        self.thread_named((counted.pid, counted.tid), &process, &name)
    }
}
