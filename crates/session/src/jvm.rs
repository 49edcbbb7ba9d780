//! Java: asks the recorded virtual machines for the names of their compiled code (HotSpot, JDK 17 and newer). They need
//! no flag and no agent for it. Requests run on background threads, one thread per request, while stacks are taken. A
//! virtual machine is asked
//!
//! - as soon as possible if its process is a chosen target, otherwise when there are samples in its compiled code;
//! - while it runs, when there are samples in code that has no name yet, since the names are lost if it ends by itself;
//! - once more at the end of the recording.

mod attach;
mod collected;
mod error;
mod hotspot;
mod machine;
mod process;
pub(crate) mod report;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use pyrograph_record::Target;
use pyrograph_resolve::{LiveFiles, Resolver, RunTimeCode};
use pyrograph_symbol::PerfMap;

use self::collected::Names;
pub use self::error::JvmError;
use self::machine::Machine;
pub use self::report::JvmReport;
use crate::message::{Message, Report};
use crate::plan::Plan;

/// End of the path of HotSpot's library.
const LIBRARY: &str = "/libjvm.so";

/// Time between two checks for code without names.
const CHECK: Duration = Duration::from_millis(250);

/// Minimum pause after a request, as a multiple of its duration: after a request that took 10 ms, the machine is not
/// asked for half a second.
const LEFT_ALONE: u32 = 50;

/// Maximum pause after a request.
const LONGEST_LEFT_ALONE: Duration = Duration::from_secs(60);

/// Pause after a failed request.
const AFTER_FAILURE: Duration = Duration::from_secs(5);

/// Maximum number of failures.
const MOST_FAILURES: u32 = 3;

/// Maximum time to wait for the last answers at the end.
const AT_THE_END: Duration = Duration::from_secs(3);

/// Maximum number of concurrent requests.
const MOST_AT_ONCE: usize = 16;

/// Beyond this number of machines, those that are not asked any more are removed.
const MOST_KEPT: usize = 4096;

/// Beyond this number of addresses without a name, the set of those that were asked about is cleared.
const MOST_ASKED_ABOUT: usize = 1 << 16;

/// The virtual machines of a recording.
pub(crate) struct Jvms {
    machines: Vec<Jvm>,
    answers: (Sender<Answer>, Receiver<Answer>),
    /// True once the recording ends, so that requests do not wait any more.
    ending: Arc<AtomicBool>,
    /// True if machines are asked as soon as possible.
    at_once: bool,
    checked: Instant,
}

/// A virtual machine.
struct Jvm {
    pid: i32,
    code: RunTimeCode,
    state: State,
    /// Names that it has returned.
    map: PerfMap,
    names: usize,
    /// Addresses that had no name before the last request.
    asked_about: HashSet<u64>,
    times: u32,
    took: Duration,
    failures: u32,
    /// Error of the last request.
    error: Option<JvmError>,
}

enum State {
    /// The machine may be asked from this time on.
    Waiting { machine: Option<Machine>, from: Instant },
    /// The machine is to be asked.
    Due(Option<Machine>),
    /// A request is running.
    Asked,
    /// The machine is not asked any more.
    Done,
}

/// Result of a background thread.
struct Answer {
    code: RunTimeCode,
    machine: Option<Machine>,
    names: Result<Names, JvmError>,
    took: Duration,
}

impl Jvms {
    /// Makes the list for a recording, or returns `None` if virtual machines are not to be asked.
    ///
    /// `reads_methods`: the engine names methods by itself, so that machines are asked only about other code.
    pub fn new(
        plan: &Plan,
        resolver: &mut Resolver<LiveFiles>,
        reads_methods: bool,
    ) -> Option<Self> {
        if !plan.attach || !plan.user {
            return None;
        }
        resolver.watch_for(LIBRARY);
        Some(Self {
            machines: Vec::new(),
            answers: channel(),
            ending: Arc::default(),
            at_once: plan.scope.target != Target::System
                && !plan.scope.filters.chooses()
                && !reads_methods,
            checked: Instant::now(),
        })
    }

    /// Handles answers, and asks the machines that are due.
    pub fn step(&mut self, resolver: &mut Resolver<LiveFiles>, report: &mut Report) {
        self.find(resolver);
        while let Ok(answer) = self.answers.1.try_recv() {
            self.take(answer, resolver, report);
        }
        if self.checked.elapsed() >= CHECK {
            self.checked = Instant::now();
            for jvm in &mut self.machines {
                jvm.check(resolver);
            }
        }
        self.ask();
        if self.machines.len() > MOST_KEPT {
            self.machines.retain(|jvm| !matches!(jvm.state, State::Done));
        }
    }

    /// Asks all machines that still run once more, waits for the answers for a limited time, and removes the files that
    /// were created.
    pub fn finish(mut self, resolver: &mut Resolver<LiveFiles>, report: &mut Report) {
        self.ending.store(true, Ordering::Relaxed);
        self.find(resolver);
        let until = Instant::now() + AT_THE_END;
        self.wait(until, resolver, report);
        // Also the machines that were just asked.
        self.machines.iter_mut().for_each(|jvm| jvm.check_last(resolver));
        self.wait(until, resolver, report);
        for jvm in &mut self.machines {
            if matches!(jvm.state, State::Asked) {
                jvm.error = Some(JvmError::NoAnswer(AT_THE_END.as_secs()));
            }
            jvm.leave(report);
        }
    }

    /// Adds new machines.
    fn find(&mut self, resolver: &mut Resolver<LiveFiles>) {
        for pid in resolver.take_watched() {
            let code = resolver.run_time_code(pid);
            if self.machines.iter().all(|jvm| jvm.code != code) {
                self.machines.push(Jvm::new(pid, code, self.at_once));
            }
        }
    }

    /// Asks the machines that are due, each on a new thread.
    fn ask(&mut self) {
        let asked = self.machines.iter().filter(|jvm| matches!(jvm.state, State::Asked)).count();
        let due = self.machines.iter_mut().filter(|jvm| matches!(jvm.state, State::Due(_)));
        for jvm in due.take(MOST_AT_ONCE.saturating_sub(asked)) {
            if let State::Due(machine) = std::mem::replace(&mut jvm.state, State::Asked) {
                let (pid, code) = (jvm.pid, jvm.code);
                let (sender, ending) = (self.answers.0.clone(), Arc::clone(&self.ending));
                let ask = move || {
                    // This fails if the recording does not wait for answers any more.
                    let _ = sender.send(answer(pid, code, machine, &ending));
                };
                if thread::Builder::new().name("java".to_owned()).spawn(ask).is_err() {
                    jvm.state =
                        State::Waiting { machine: None, from: Instant::now() + AFTER_FAILURE };
                }
            }
        }
    }

    /// Waits until all machines that are being asked or are due have answered, or the time is over.
    fn wait(&mut self, until: Instant, resolver: &mut Resolver<LiveFiles>, report: &mut Report) {
        self.ask();
        let is_open = |jvm: &Jvm| matches!(jvm.state, State::Asked | State::Due(_));
        while self.machines.iter().any(is_open) {
            let left = until.saturating_duration_since(Instant::now());
            let Ok(answer) = self.answers.1.recv_timeout(left) else { return };
            self.take(answer, resolver, report);
            self.ask();
        }
    }

    fn take(&mut self, answer: Answer, resolver: &mut Resolver<LiveFiles>, report: &mut Report) {
        let jvm = self.machines.iter_mut().find(|jvm| jvm.code == answer.code);
        if let Some(jvm) = jvm {
            jvm.take(answer, resolver, report);
        }
    }
}

/// Asks a virtual machine. The first time, it waits until the machine can be asked.
fn answer(pid: i32, code: RunTimeCode, machine: Option<Machine>, ending: &AtomicBool) -> Answer {
    let machine = machine.map_or_else(|| Machine::open(pid, ending), Ok);
    let started = Instant::now();
    let (machine, names) = match machine {
        Ok(mut machine) => {
            let names = machine.ask();
            (Some(machine), names)
        }
        Err(error) => (None, Err(error)),
    };
    Answer { code, machine, names, took: started.elapsed() }
}

impl Jvm {
    fn new(pid: i32, code: RunTimeCode, at_once: bool) -> Self {
        let state = match at_once {
            true => State::Due(None),
            false => State::Waiting { machine: None, from: Instant::now() },
        };
        Self {
            pid,
            code,
            state,
            map: PerfMap::default(),
            names: 0,
            asked_about: HashSet::new(),
            times: 0,
            took: Duration::ZERO,
            failures: 0,
            error: None,
        }
    }

    /// Makes the machine due if there is code without a name, or its process has ended.
    fn check(&mut self, resolver: &Resolver<LiveFiles>) {
        let State::Waiting { machine, from } = &mut self.state else { return };
        let has_ended = machine.as_ref().is_some_and(Machine::has_ended);
        if !has_ended && Instant::now() < *from {
            return;
        }
        let (map, asked_about) = (&self.map, &mut self.asked_about);
        if asked_about.len() >= MOST_ASKED_ABOUT {
            asked_about.clear();
        }
        let mut is_new = false;
        for address in resolver.run_time_addresses(self.code) {
            is_new |= map.lookup(address).is_none() && asked_about.insert(address);
        }
        if has_ended || is_new {
            self.state = State::Due(machine.take());
        }
    }

    /// Makes the machine due if there are samples in its code.
    fn check_last(&mut self, resolver: &Resolver<LiveFiles>) {
        if let State::Waiting { machine, .. } = &mut self.state
            && resolver.run_time_addresses(self.code).next().is_some()
        {
            self.state = State::Due(machine.take());
        }
    }

    fn take(&mut self, answer: Answer, resolver: &mut Resolver<LiveFiles>, report: &mut Report) {
        let Answer { machine, names, took, .. } = answer;
        let mut pause = AFTER_FAILURE;
        match names {
            Ok(Names { file, map, count }) => {
                resolver.set_perf_map(self.code, file);
                (self.map, self.names) = (map, count);
                (self.times, self.took) = (self.times + 1, self.took + took);
                if self.times == 1 {
                    let release = machine.as_ref().and_then(Machine::release).map(str::to_owned);
                    let (pid, names) = (self.pid, count);
                    report(Message::Jvm(JvmReport::Named { pid, release, names, took }));
                }
                pause = (took * LEFT_ALONE).clamp(CHECK, LONGEST_LEFT_ALONE);
                self.error = None;
            }
            Err(error) => {
                self.failures += 1;
                self.error = Some(error);
            }
        }
        let may_pass = |error: &JvmError| error.may_pass() && self.failures < MOST_FAILURES;
        let has_ended = machine.as_ref().is_some_and(Machine::has_ended);
        self.state = State::Waiting { machine, from: Instant::now() + pause };
        if has_ended || self.error.as_ref().is_some_and(|error| !may_pass(error)) {
            self.leave(report);
        }
    }

    /// Removes the files that the requests have created, and reports the result.
    fn leave(&mut self, report: &mut Report) {
        let state = std::mem::replace(&mut self.state, State::Done);
        let is_new = !matches!(state, State::Done);
        if let State::Waiting { machine: Some(machine), .. } | State::Due(Some(machine)) = state {
            machine.clean_up();
        }
        (self.map, self.asked_about) = Default::default();
        // If it has named its code before, its end is no failure.
        let error = self.error.take().filter(|error| self.times == 0 || !error.is_expected());
        if let Some(error) = error.filter(|_| is_new) {
            report(Message::Jvm(JvmReport::Failed { pid: self.pid, error }));
        }
        if is_new && self.times > 0 {
            let Self { pid, names, times, took, .. } = *self;
            report(Message::Jvm(JvmReport::Done { pid, names, times, took }));
        }
    }
}
