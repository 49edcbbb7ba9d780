//! Tracing of system calls by `ptrace`, which needs no privilege for one's own processes: every thread stops twice per
//! call, and this process reads the call's registers and memory.
//!
//! Source: ptrace(2), `linux/ptrace.h`. Linux 5.3 is needed, for `PTRACE_GET_SYSCALL_INFO`.

mod in_progress;
mod memory;
mod request;

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet, VecDeque};

use pyrograph_event::clock::monotonic_now;
use pyrograph_syscall::{Call, Copied, Seen, When, by_number};

use crate::command::{Child, Waiting};
use crate::error::Error;
use crate::procfs;
pub use in_progress::calls_in_progress;
use memory::Memory;
use request::{Info, Timer, Waited};

/// Traces the system calls of processes, all their threads and children, by `ptrace`.
///
/// It must stay on the thread that made it: the kernel accepts ptrace requests from that thread alone.
#[derive(Debug)]
pub struct Tracer {
    threads: HashMap<i32, Thread>,
    /// The command, until it has executed the program. What it does before that is not reported.
    waiting: Option<Waiting>,
    /// The command after that, until it has ended.
    command: Option<Child>,
    /// The thread that is stopped until the next step, and how it is resumed.
    stopped: Option<(i32, Resume)>,
    ready: VecDeque<Traced>,
    text: u32,
    detaching: bool,
    kill_on_drop: bool,
    _timer: Timer,
}

#[derive(Debug, Default)]
struct Thread {
    process: i32,
    call: Option<TracedCall>,
}

/// Ways to resume a stopped thread.
#[derive(Debug, Clone, Copy)]
enum Resume {
    /// Runs to the next system call stop, with this signal delivered, or 0 for none.
    Run(i32),
    /// Stays stopped until it gets `SIGCONT` (`PTRACE_LISTEN`).
    Listen,
}

/// An action of a traced thread. The thread stays stopped until the next [`Tracer::step`], so that `/proc` shows its
/// process as it was at that moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Traced {
    /// A call has returned, or its thread has ended in it.
    Call(TracedCall),
    /// A signal is about to be delivered.
    Signal {
        /// `CLOCK_MONOTONIC` in ns.
        time: u64,
        /// The process.
        process: i32,
        /// The thread.
        thread: i32,
        /// The signal's number.
        signal: i32,
        /// Its `siginfo_t`.
        info: Vec<u8>,
    },
    /// A thread has started.
    Started {
        /// `CLOCK_MONOTONIC` in ns.
        time: u64,
        /// The process that it belongs to. A new process if it has the same ID as the thread.
        process: i32,
        /// The thread.
        thread: i32,
    },
    /// A thread has ended.
    Ended {
        /// `CLOCK_MONOTONIC` in ns.
        time: u64,
        /// The process.
        process: i32,
        /// The thread. If its ID is that of the process, the whole process has ended.
        thread: i32,
        /// Wait status, as `waitpid` returns it.
        status: i32,
    },
}

/// A system call of a traced thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TracedCall {
    /// Time at which it began: `CLOCK_MONOTONIC` in ns.
    pub time: u64,
    /// The process.
    pub process: i32,
    /// The thread.
    pub thread: i32,
    /// Number of the call. `u32::MAX` for a call of another architecture (of a 32-bit program), for which no memory is
    /// copied.
    pub number: u32,
    /// Registers with the arguments.
    pub arguments: [u64; 6],
    /// Return value. `None` if the thread has ended in the call.
    pub result: Option<i64>,
    /// Duration in ns, including the ptrace stops.
    pub duration: u64,
    /// Memory that was copied for it.
    pub copied: Vec<Taken>,
}

/// State at the moment when all threads were detached.
#[derive(Debug)]
pub struct Detached {
    /// Calls that had not returned, ordered by their beginning. Durations are until the detach.
    pub calls: Vec<TracedCall>,
    /// The command, if it still runs.
    pub command: Option<Child>,
}

/// Memory that was copied for a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taken {
    /// Index into [`Call::copies`].
    pub copy: usize,
    /// Copied bytes.
    pub bytes: Vec<u8>,
    /// Full length of the object in bytes, of which `bytes` may be the beginning.
    pub length: u64,
}

impl TracedCall {
    /// Makes a call that a thread has just entered or is in. Up to `text` bytes of each string are copied.
    fn entered((process, thread): (i32, i32), number: u32, arguments: [u64; 6], text: u32) -> Self {
        let (time, copied) = (monotonic_now(), Vec::new());
        let (result, duration) = (None, 0);
        let mut call = Self { time, process, thread, number, arguments, result, duration, copied };
        call.copy(When::Entry, text);
        call
    }

    /// Copies the memory that is to be copied at this moment: on entry, or after the call has returned without an
    /// error.
    fn copy(&mut self, when: When, text: u32) {
        let Some(known) = by_number(self.number) else { return };
        if self.result.is_some_and(|result| (-4095..0).contains(&result)) {
            return;
        }
        let memory = Memory { process: self.thread, text };
        for (index, copy) in Call::copies(known).into_iter().enumerate() {
            if copy.when == when
                && let Some((bytes, length)) =
                    memory.take(&copy, &self.arguments, self.result.unwrap_or(0))
            {
                self.copied.push(Taken { copy: index, bytes, length });
            }
        }
    }

    /// Calls `f` with this call in the form that the decoder takes.
    pub fn seen<T>(&self, f: impl FnOnce(&Seen<'_>) -> T) -> T {
        let copied: Vec<Copied<'_>> = self
            .copied
            .iter()
            .map(|taken| Copied { copy: taken.copy, bytes: &taken.bytes, length: taken.length })
            .collect();
        f(&Seen {
            number: self.number,
            arguments: self.arguments,
            result: self.result,
            copied: &copied,
        })
    }
}

impl Tracer {
    /// Traces a command from its start. It continues if this process is killed. Up to `text` bytes of each string are
    /// copied.
    ///
    /// # Errors
    ///
    /// If the kernel does not permit it: `kernel.yama.ptrace_scope` is 3, or the process may not be traced.
    pub fn command(waiting: Waiting, text: u32) -> Result<Self, Error> {
        let mut tracer = Self::new(text)?;
        let pid = waiting.pid();
        request::seize(pid).map_err(Error::system("tracing the command"))?;
        tracer.threads.insert(pid, Thread { process: pid, call: None });
        // System call stops begin only after a first stop.
        request::interrupt(pid).map_err(Error::system("tracing the command"))?;
        tracer.waiting = Some(waiting);
        tracer.kill_on_drop = true;
        Ok(tracer)
    }

    /// Attaches to running processes, with all their threads. A call that a thread is in at that moment is reported
    /// only if it is restarted; see [`calls_in_progress`].
    ///
    /// # Errors
    ///
    /// If a process does not exist or may not be traced: it belongs to another user, it has another tracer, or
    /// `kernel.yama.ptrace_scope` is not 0.
    pub fn attach(processes: &[i32], text: u32) -> Result<Self, Error> {
        let mut tracer = Self::new(text)?;
        for &process in processes {
            tracer.attach_one(process)?;
        }
        Ok(tracer)
    }

    fn new(text: u32) -> Result<Self, Error> {
        Ok(Self {
            threads: HashMap::new(),
            waiting: None,
            command: None,
            stopped: None,
            ready: VecDeque::new(),
            text,
            detaching: false,
            kill_on_drop: false,
            _timer: Timer::start().map_err(Error::system("starting a timer"))?,
        })
    }

    /// Attaches to all threads of a process. They may start others meanwhile, so the list is read again until there is
    /// no new thread.
    fn attach_one(&mut self, process: i32) -> Result<(), Error> {
        let mut tried = HashSet::new();
        loop {
            let threads = procfs::threads(process);
            let new: Vec<i32> =
                threads.into_iter().filter(|thread| tried.insert(*thread)).collect();
            if new.is_empty() {
                break;
            }
            for thread in new {
                // A thread that a traced thread has just started is already traced.
                if self.threads.contains_key(&thread) {
                    continue;
                }
                match request::seize(thread).and_then(|()| request::interrupt(thread)) {
                    Ok(()) => {
                        self.threads.insert(thread, Thread { process, call: None });
                    }
                    // The thread has ended meanwhile.
                    Err(_) if thread != process => {}
                    Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {
                        return Err(Error::NoSuchProcess { pid: process });
                    }
                    Err(source) => {
                        return Err(Error::System {
                            doing: format!("tracing process {process}"),
                            source,
                        });
                    }
                }
            }
        }
        if tried.is_empty() { Err(Error::NoSuchProcess { pid: process }) } else { Ok(()) }
    }

    /// Returns true once everything that was traced has ended.
    pub fn is_done(&self) -> bool {
        self.threads.is_empty() && self.ready.is_empty()
    }

    /// Resumes the last thread, and waits for the next action. Returns `None` at least every 100 ms, so that the caller
    /// can do other work, and once [everything has ended](Self::is_done).
    ///
    /// # Errors
    ///
    /// If the command cannot be run, or the kernel refuses a request that it permitted before.
    pub fn step(&mut self) -> Result<Option<Traced>, Error> {
        loop {
            if let Some(traced) = self.ready.pop_front() {
                return Ok(Some(traced));
            }
            self.resume();
            if self.threads.is_empty() {
                return Ok(None);
            }
            match request::wait() {
                Ok(Some((thread, waited))) => self.handle(thread, waited)?,
                Ok(None) => return Ok(None),
                // Nothing is traced any more: the remaining threads ended when another thread of their process called
                // `exec`.
                Err(error) if error.raw_os_error() == Some(libc::ECHILD) => self.threads.clear(),
                Err(source) => {
                    return Err(Error::System {
                        doing: "waiting for traced threads".to_owned(),
                        source,
                    });
                }
            }
        }
    }

    fn resume(&mut self) {
        // If a thread cannot be resumed, it was killed: `wait` reports its end.
        match self.stopped.take() {
            Some((thread, Resume::Run(signal))) if self.detaching => {
                drop(request::detach(thread, signal))
            }
            Some((thread, Resume::Run(signal))) => drop(request::run_to_call(thread, signal)),
            Some((thread, Resume::Listen)) if self.detaching => drop(request::detach(thread, 0)),
            Some((thread, Resume::Listen)) => drop(request::listen(thread)),
            None => {}
        }
    }

    fn handle(&mut self, thread: i32, waited: Waited) -> Result<(), Error> {
        if !matches!(waited, Waited::Ended(_)) {
            self.stopped = Some((thread, Resume::Run(0)));
            self.announce(thread);
        }
        match waited {
            Waited::Call => self.call(thread),
            Waited::Signal(signal) => {
                self.stopped = Some((thread, Resume::Run(signal)));
                let (time, process) = (monotonic_now(), self.process(thread));
                let info = request::signal_info(thread);
                self.report(Traced::Signal { time, process, thread, signal, info });
            }
            // The first stop of a thread, or one that was requested.
            Waited::Stop => {
                if let Some(waiting) =
                    self.waiting.as_mut().filter(|waiting| waiting.pid() == thread)
                {
                    waiting.let_go();
                }
            }
            Waited::GroupStop => self.stopped = Some((thread, Resume::Listen)),
            Waited::Exec => self.exec(thread),
            // The new thread's own first stop may have been reported before this.
            Waited::NewThread => {
                if let Some(new) = request::event_message(thread) {
                    self.announce(new);
                }
            }
            Waited::Ended(status) => return self.ended(thread, status),
        }
        Ok(())
    }

    /// Reports a thread that is seen for the first time.
    fn announce(&mut self, thread: i32) {
        if let Entry::Vacant(new) = self.threads.entry(thread) {
            let process = procfs::process_of(thread).unwrap_or(thread);
            new.insert(Thread { process, call: None });
            self.report(Traced::Started { time: monotonic_now(), process, thread });
        }
    }

    fn process(&self, thread: i32) -> i32 {
        self.threads.get(&thread).map_or(thread, |thread| thread.process)
    }

    /// Queues an action. Before the child has executed the command, its actions are dropped.
    fn report(&mut self, traced: Traced) {
        if self.waiting.is_none() {
            self.ready.push_back(traced);
        }
    }

    /// Handles a system call stop: a thread stops before each call and after it.
    fn call(&mut self, thread: i32) {
        let Some(info) = request::call_info(thread) else { return };
        let process = self.process(thread);
        match info {
            Info::Entry { number, arguments } => {
                let call = TracedCall::entered((process, thread), number, arguments, self.text);
                self.threads.entry(thread).or_default().call = Some(call);
            }
            Info::Exit { result } => {
                let Some(mut call) =
                    self.threads.get_mut(&thread).and_then(|thread| thread.call.take())
                else {
                    return;
                };
                call.result = Some(result);
                call.duration = monotonic_now().saturating_sub(call.time);
                call.copy(When::Exit, self.text);
                self.report(Traced::Call(call));
            }
            Info::Other => {}
        }
    }

    /// Handles an `exec`: of the threads of the process one is left, with the ID of the process.
    fn exec(&mut self, thread: i32) {
        let former = request::event_message(thread).unwrap_or(thread);
        let mut call = self.threads.get_mut(&former).and_then(|thread| thread.call.take());
        if let Some(call) = call.as_mut() {
            call.thread = thread;
        }
        self.threads.retain(|&number, state| state.process != thread || number == thread);
        self.threads.entry(thread).or_default().call = call;
        if let Some(waiting) = self.waiting.take_if(|waiting| waiting.pid() == thread) {
            self.command = Some(waiting.running());
        }
    }

    fn ended(&mut self, thread: i32, status: i32) -> Result<(), Error> {
        let time = monotonic_now();
        let state = self.threads.remove(&thread);
        if let Some(waiting) = self.waiting.take_if(|waiting| waiting.pid() == thread) {
            return waiting.failed();
        }
        // The status has been taken by `waitpid`, so the command cannot be waited for.
        self.command.take_if(|command| command.pid() == thread);
        let Some(state) = state else { return Ok(()) };
        if let Some(mut call) = state.call {
            call.duration = time.saturating_sub(call.time);
            self.report(Traced::Call(call));
        }
        self.report(Traced::Ended { time, process: state.process, thread, status });
        Ok(())
    }

    /// Detaches from all threads, which continue untraced. Actions during this are not reported.
    ///
    /// # Errors
    ///
    /// If waiting for the threads to stop fails.
    pub fn detach(mut self) -> Result<Detached, Error> {
        self.kill_on_drop = false;
        let now = monotonic_now();
        let calls = self.threads.values_mut().filter_map(|thread| thread.call.take());
        let mut calls: Vec<TracedCall> = calls
            .map(|call| TracedCall { duration: now.saturating_sub(call.time), ..call })
            .collect();
        calls.sort_by_key(|call| (call.time, call.thread));
        self.let_all_go()?;
        Ok(Detached { calls, command: self.command.take() })
    }

    fn let_all_go(&mut self) -> Result<(), Error> {
        self.detaching = true;
        // A thread can be detached only while it is stopped.
        if let Some((thread, _)) = self.stopped {
            self.resume();
            self.threads.remove(&thread);
        }
        for &thread in self.threads.keys() {
            let _ = request::interrupt(thread);
        }
        while !self.threads.is_empty() {
            let (thread, waited) = match request::wait() {
                Ok(Some(waited)) => waited,
                Ok(None) => continue,
                Err(error) if error.raw_os_error() == Some(libc::ECHILD) => return Ok(()),
                Err(source) => {
                    return Err(Error::System {
                        doing: "waiting for traced threads".to_owned(),
                        source,
                    });
                }
            };
            self.stopped = match waited {
                Waited::Ended(_) => {
                    // Its status was taken here.
                    self.command.take_if(|command| command.pid() == thread);
                    None
                }
                Waited::Signal(signal) => Some((thread, Resume::Run(signal))),
                Waited::GroupStop => Some((thread, Resume::Listen)),
                Waited::NewThread => {
                    if let Some(new) = request::event_message(thread) {
                        self.threads.entry(new).or_default();
                    }
                    Some((thread, Resume::Run(0)))
                }
                _ => Some((thread, Resume::Run(0))),
            };
            self.resume();
            self.threads.remove(&thread);
        }
        Ok(())
    }
}

impl Drop for Tracer {
    /// Kills a command that is traced. Processes that were attached to continue.
    fn drop(&mut self) {
        if self.kill_on_drop {
            for &thread in self.threads.keys() {
                request::kill(thread);
            }
        } else if !self.threads.is_empty() {
            let _ = self.let_all_go();
        }
    }
}
