//! Stacks that were unwound and counted elsewhere: in the kernel.

use std::ops::Range;
use std::sync::Arc;

use pyrograph_event::counted::{Counted, Cut, Kind, UserFrame, UserStack, Wait, Waker};
use pyrograph_event::interpreter::Interpreter;
use pyrograph_profile as profile;
use pyrograph_profile::ThreadId;
use pyrograph_unwind::UnwindInfo;

use crate::collect::Collected;
use crate::cut::marker_of_cut;
use crate::files::{Files, Identity, MappedFile};
use crate::module_ids::{FileKey, ModuleId, is_anonymous, is_memory_file, module_of_tag};
use crate::resolver::Resolver;
use crate::settle::Unnamed;
use crate::stacks::{Marker, RawFrame, Weight};

/// A frame that represents no code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// Text of the frame.
    pub text: String,
    /// True if the frame belongs to the kernel.
    pub in_kernel: bool,
}

/// An opened file with code.
#[derive(Clone, Debug)]
pub struct OpenedFile {
    /// Identity of the file; `None` for the vDSO and for files found with [`Resolver::lookup`].
    pub key: Option<FileKey>,
    /// Number of the module.
    pub module: u32,
    /// Unwind information, if the file has any.
    pub unwind: Option<Arc<UnwindInfo>>,
    /// The interpreter in the file, if its calls are wanted and can be read.
    pub interpreter: Option<Box<Interpreter>>,
}

/// Result of [`Resolver::lookup`].
#[derive(Clone, Debug)]
pub enum Lookup {
    /// A file.
    File(OpenedFile),
    /// Anonymous memory, or a file that only serves to share memory.
    Anonymous,
    /// The mapping's file can no longer be opened.
    Gone,
}

/// Marker frame for the reason why a thread did not run.
fn marker_of(wait: Wait) -> Marker {
    match wait {
        Wait::Sleep => Marker::Sleeping,
        Wait::Lock => Marker::Lock,
        Wait::Condition => Marker::Condition,
        Wait::Io => Marker::Io,
        Wait::Uninterruptible => Marker::Uninterruptible,
        Wait::Preempted => Marker::Preempted,
    }
}

/// Returns true if this is a single wait whose value is its duration.
fn is_wait(kind: &Kind, weight: Weight) -> bool {
    let waited = matches!(
        kind,
        Kind::Wait(_) | Kind::KernelLock(_) | Kind::Futex { .. } | Kind::Goroutine | Kind::Woken
    );
    waited && weight.samples == 1
}

/// Splits an event that took `took` nanoseconds until `end` into samples, so that each moment has its share: one sample
/// for each 10 ms, or 128 samples if there would be more. Only the sample at `end` counts as an event.
fn parts(end: u64, took: u64, whole: Weight) -> impl Iterator<Item = (u64, Weight)> {
    const STEP: u64 = 10_000_000;
    const MOST: u64 = 128;
    let step = STEP.max(took.div_ceil(MOST));
    let count = took.div_ceil(step).max(1);
    (0..count).map(move |part| {
        let value = if part + 1 < count { step } else { whole.value - part * step };
        let samples = if part == 0 { whole.samples } else { 0 };
        (end.saturating_sub(part * step), Weight { value, samples })
    })
}

impl<F: Files> Resolver<F> {
    /// Returns the files that were opened since the last call.
    pub fn opened_files(&mut self) -> Vec<OpenedFile> {
        let fresh = self.modules.take_fresh();
        fresh.into_iter().map(|(key, id)| self.opened_file(key, id)).collect()
    }

    /// Path of a module, or its name in brackets.
    pub fn module_path(&self, module: u32) -> &str {
        self.modules.get(ModuleId(module)).map_or("[unknown]", |module| &module.path)
    }

    fn opened_file(&mut self, key: Option<FileKey>, id: ModuleId) -> OpenedFile {
        self.find_interpreter(id);
        let interpreter = self.languages.interpreter(id).cloned().map(Box::new);
        OpenedFile { key, module: id.0, unwind: self.modules.unwind(id).cloned(), interpreter }
    }

    /// Opens the file that a process has mapped at a range, by its path as the process sees it.
    pub fn lookup(&mut self, pid: i32, range: Range<u64>, path: &str) -> Lookup {
        if is_anonymous(path) && !is_memory_file(path) {
            return Lookup::Anonymous;
        }
        let mapped = MappedFile { pid, range, path, identity: &Identity::Unknown };
        match self.modules.file_at(&mut self.files, &mapped) {
            Some(id) => Lookup::File(self.opened_file(None, id)),
            // Not an ELF file: JIT-compiled code.
            None if is_memory_file(path) => Lookup::Anonymous,
            None => Lookup::Gone,
        }
    }

    /// Returns true if a process has threads, after all records so far.
    pub fn runs(&self, pid: i32) -> bool {
        self.processes.runs(pid)
    }

    /// Opens a file before it is mapped.
    pub fn expect_file(&mut self, path: &str) {
        let pid = i32::try_from(std::process::id()).unwrap_or(0);
        let mapped = MappedFile { pid, range: 0..0, path, identity: &Identity::Unknown };
        // A failure to open it is reported when it is mapped.
        let _ = self.modules.file_at(&mut self.files, &mapped);
    }

    /// Module of a process's JIT-compiled code.
    fn jit_module(&mut self, pid: i32, address: u64) -> ModuleId {
        // A forked process runs code that its parent compiled.
        let mapping = self.processes.space(pid).lookup(address);
        match mapping.map(|mapping| module_of_tag(mapping.tag)) {
            Some((module, false)) => module,
            _ => {
                let runs = self.processes.runs(pid);
                self.modules.jit.at_last(&mut self.files, pid, runs)
            }
        }
    }

    /// Adds a stack that was counted elsewhere. `labels`: frames that represent no code, added at the leaf, leaf first;
    /// `root`: text of such a frame that is added at the root, or of the thread's field.
    pub fn counted<U>(&mut self, counted: Counted<'_, U>, labels: &[Label], root: Option<&str>)
    where
        U: Iterator<Item = UserFrame>,
    {
        let mut thread = self.counted_thread(&counted);
        let (field, root) = if self.options.root_is_field { (root, None) } else { (None, root) };
        if let Some(field) = field {
            thread = self.with_field(thread, field);
        }
        self.frames.clear();
        self.languages.samples = counted.events;
        let has_only_waker = counted.kind == Kind::Woken;
        if let Some(waker) = counted.waker {
            self.push_waker(waker, has_only_waker);
        }
        for label in labels {
            let text = self.unnamed.labels.intern(&label.text);
            self.frames.push(RawFrame::label(text, label.in_kernel));
        }
        if let Kind::Wait(wait) = counted.kind {
            self.frames.push(RawFrame::marker(marker_of(wait)));
        }
        let has_user = counted.user.is_some();
        let (mut cut, guessed) =
            counted.user.as_ref().map_or((None, false), |user| (user.cut, user.guessed));
        if !has_only_waker {
            cut = self.push_code(counted.pid, counted.kernel, counted.user);
        }
        if let Some(root) = root {
            let text = self.unnamed.labels.intern(root);
            self.frames.push(RawFrame::label(text, false));
        }
        let is_jit = Unnamed::is_jit(&self.frames);
        let keeps_time = self.options.keep_times || is_jit && self.keeps_time(counted.pid);
        let time = counted.time.filter(|_| keeps_time);
        let raw = self.unnamed.table(is_jit);
        let stack = raw.intern(&self.frames);
        let marker = cut.map(marker_of_cut);
        let collected = Collected { user: has_user, marker, cut, guessed, ..Collected::default() };
        self.stats.samples += counted.events;
        self.stats.count_stacks(collected, counted.events);
        let value = if self.options.count_samples { counted.events } else { counted.value };
        let weight = Weight { value, samples: counted.events };
        let row = profile::Sample { thread, cpu: counted.cpu, ..profile::Sample::new(stack) };
        match time {
            Some(time) => {
                let took = if is_wait(&counted.kind, weight) { value } else { 0 };
                for (time, weight) in parts(time, took, weight) {
                    raw.push(profile::Sample { time: Some(time), ..row }, weight);
                }
            }
            None => raw.add_on_cpu(row, weight),
        }
    }

    /// Adds the frames of a stack, leaf first. Returns the reason why its outer part is missing, if it is.
    pub(crate) fn push_code<U>(
        &mut self,
        pid: i32,
        kernel: &[u64],
        user: Option<UserStack<'_, U>>,
    ) -> Option<Cut>
    where
        U: Iterator<Item = UserFrame>,
    {
        if !self.options.user_only {
            let callers = kernel.iter().enumerate();
            self.frames.extend(callers.map(|(depth, &address)| {
                RawFrame::new(ModuleId::KERNEL, address.wrapping_sub(u64::from(depth > 0)))
            }));
        }
        let user = user?;
        // The kernel flags a whole stack, not a frame, as guessed: the guess was made at the code that has no table.
        let mut is_guess = false;
        let mut frames = self.languages.take_native_room();
        for (depth, UserFrame { module, address }) in user.frames.enumerate() {
            let module = match module.map(ModuleId) {
                Some(module) if self.modules.is_known_file(module) => module,
                Some(_) => ModuleId::UNKNOWN,
                None => self.jit_module(pid, address),
            };
            frames.push(RawFrame::new(module, address).guessed(is_guess));
            is_guess = user.guessed && self.has_no_table(module, address, depth > 0);
        }
        let whole = self.push_spliced(frames, &user.calls, user.cut.is_none());
        let cut = user.cut.filter(|_| !whole);
        self.frames.extend(cut.map(marker_of_cut).map(RawFrame::marker));
        cut
    }

    /// Returns true if the caller of this code had to be guessed, because there is no unwind table for it.
    fn has_no_table(&mut self, module: ModuleId, offset: u64, is_call: bool) -> bool {
        if module.is_jit() {
            return true;
        }
        let Some(info) = self.modules.unwind(module) else { return true };
        let unwinder = &mut self.copied.unwinder;
        info.svma(offset).is_none_or(|svma| unwinder.has_no_table(info, svma, is_call))
    }

    /// Adds the stack of a waker, with its process's name as the root. Unless it is `alone`, it is reversed and put
    /// beyond the waiting thread's stack, after a marker.
    fn push_waker<U>(&mut self, waker: Waker<'_, U>, alone: bool)
    where
        U: Iterator<Item = UserFrame>,
    {
        // Guessed frames of wakers are not shown as such.
        let user = waker.user.map(|user| UserStack { guessed: false, ..user });
        self.push_code(waker.pid, waker.kernel, user);
        let process = self.unnamed.labels.intern(&String::from_utf8_lossy(waker.process));
        self.frames.push(RawFrame::label(process, false));
        if !alone {
            self.frames.reverse();
            self.frames.push(RawFrame::marker(Marker::Waker));
        }
    }

    fn counted_thread<U>(&mut self, counted: &Counted<'_, U>) -> ThreadId {
        let (process, name) = match counted.pid {
            // The idle threads have a different name on each CPU; they get a common one.
            0 => ("swapper".into(), "swapper".into()),
            _ => {
                (String::from_utf8_lossy(counted.process), String::from_utf8_lossy(counted.thread))
            }
        };
        self.thread_named((counted.pid, counted.tid), &process, &name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_wait_are_its_whole_and_lie_within_it() {
        const MS: u64 = 1_000_000;
        let end = 200_000 * MS;
        for took in [1, 9 * MS, 10 * MS, 10 * MS + 1, 600 * MS, 1280 * MS, 1281 * MS, 90_007 * MS] {
            let rows: Vec<(u64, Weight)> = parts(end, took, Weight::one(took)).collect();
            let [value, samples] = rows.iter().fold([0, 0], |[value, samples], (_, weight)| {
                [value + weight.value, samples + weight.samples]
            });
            assert_eq!((value, samples, rows[0].0), (took, 1, end), "{took}");
            // Each ends where the next one of its thread begins.
            assert!(rows.windows(2).all(|pair| pair[0].0 - pair[0].1.value == pair[1].0), "{took}");
            let longest = rows.iter().map(|(_, weight)| weight.value).max();
            assert!(rows.len() <= 128 && longest <= Some((10 * MS).max(took / 127)), "{took}");
        }
        let whole = Weight { value: 7, samples: 3 };
        assert_eq!(parts(end, 0, whole).collect::<Vec<_>>(), [(end, whole)]);
    }
}
