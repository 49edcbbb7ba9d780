//! Java: asks the virtual machines that are recorded for the names of the code that they compile (HotSpot, JDK 17 and newer).
//! They need no flag and no agent for it. It is done on background threads, one a question, while stacks are taken; a
//! virtual machine is asked
//!
//! - when it can be, if its process was chosen, else when there are samples of code that it compiled;
//! - while it runs, when there are samples of code that has no name yet, for one that ends by itself takes its names with it;
//! - once more when the recording is over.

mod attach;
mod collected;
mod error;
mod hotspot;
mod machine;
mod process;

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
use crate::message::Message;
use crate::plan::Plan;
use crate::recorder::Report;

/// The end of the path of HotSpot's library.
const LIBRARY: &str = "/libjvm.so";

/// How often it is looked whether code has no name.
const CHECK: Duration = Duration::from_millis(250);

/// An answer is worth no more than this part of the time: a machine that took 10 ms is left alone for half a second.
const LEFT_ALONE: u32 = 50;

/// But this long at most.
const LONGEST_LEFT_ALONE: Duration = Duration::from_secs(60);

/// How long a machine is left alone that could not be asked.
const AFTER_FAILURE: Duration = Duration::from_secs(5);

/// How often it is tried again.
const MOST_FAILURES: u32 = 3;

/// How long to wait at the end for the last answers.
const AT_THE_END: Duration = Duration::from_secs(3);

/// So many are asked at once.
const MOST_AT_ONCE: usize = 16;

/// Of more than so many, those that are not asked any more are forgotten.
const MOST_KEPT: usize = 4096;

/// After so many addresses without a name, those that were asked about are forgotten.
const MOST_ASKED_ABOUT: usize = 1 << 16;

/// A report of a virtual machine.
#[derive(Debug)]
#[non_exhaustive]
pub enum JvmReport {
    /// Detail: it has named its code for the first time.
    Named {
        /// Its process.
        pid: i32,
        /// Version of its JDK, if it is known.
        release: Option<String>,
        /// How many pieces of code it has named: methods, and the machine's own.
        names: usize,
        /// How long it took, once it could be asked.
        took: Duration,
    },
    /// It has not, and is not asked any more.
    Failed {
        /// Its process.
        pid: i32,
        /// Why.
        error: JvmError,
    },
    /// Detail: the recording is over, or the process.
    Done {
        /// Its process.
        pid: i32,
        /// How many pieces of code had names at last.
        names: usize,
        /// How often it was asked.
        times: u32,
        /// How long that took in all.
        took: Duration,
    },
}

/// The virtual machines of a recording.
pub(crate) struct Jvms {
    machines: Vec<Jvm>,
    answers: (Sender<Answer>, Receiver<Answer>),
    /// Nothing is waited for any more.
    ending: Arc<AtomicBool>,
    /// They are asked when they can be.
    at_once: bool,
    checked: Instant,
}

/// A virtual machine.
struct Jvm {
    pid: i32,
    code: RunTimeCode,
    state: State,
    /// Names that it has given.
    map: PerfMap,
    names: usize,
    /// Addresses that had no name before it was asked last.
    asked_about: HashSet<u64>,
    times: u32,
    took: Duration,
    failures: u32,
    /// Why it could not be asked last.
    error: Option<JvmError>,
}

enum State {
    /// It may be asked from then on.
    Waiting { machine: Option<Machine>, from: Instant },
    /// It is to be asked.
    Due(Option<Machine>),
    /// It is being asked.
    Asked,
    /// It is not asked any more.
    Done,
}

/// What a background thread comes back with.
struct Answer {
    code: RunTimeCode,
    machine: Option<Machine>,
    names: Result<Names, JvmError>,
    took: Duration,
}

impl Jvms {
    /// Those of a recording; none if they are not to be asked.
    ///
    /// `reads_methods`: the engine names methods by itself, so that they are asked about other code alone.
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
            at_once: plan.target != Target::System && !plan.filters.chooses() && !reads_methods,
            checked: Instant::now(),
        })
    }

    /// Takes answers, and asks who is to be asked.
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

    /// Asks once more those that still run, waits a while for the answers, and leaves all as it was.
    pub fn finish(mut self, resolver: &mut Resolver<LiveFiles>, report: &mut Report) {
        self.ending.store(true, Ordering::Relaxed);
        self.find(resolver);
        let until = Instant::now() + AT_THE_END;
        self.wait(until, resolver, report);
        // Those that were just asked, too.
        self.machines.iter_mut().for_each(|jvm| jvm.check_last(resolver));
        self.wait(until, resolver, report);
        for jvm in &mut self.machines {
            if matches!(jvm.state, State::Asked) {
                jvm.error = Some(JvmError::NoAnswer(AT_THE_END.as_secs()));
            }
            jvm.leave(report);
        }
    }

    /// Finds new ones.
    fn find(&mut self, resolver: &mut Resolver<LiveFiles>) {
        for pid in resolver.take_watched() {
            let code = resolver.run_time_code(pid);
            if self.machines.iter().all(|jvm| jvm.code != code) {
                self.machines.push(Jvm::new(pid, code, self.at_once));
            }
        }
    }

    /// Asks those that are due, on threads of their own.
    fn ask(&mut self) {
        let asked = self.machines.iter().filter(|jvm| matches!(jvm.state, State::Asked)).count();
        let due = self.machines.iter_mut().filter(|jvm| matches!(jvm.state, State::Due(_)));
        for jvm in due.take(MOST_AT_ONCE.saturating_sub(asked)) {
            if let State::Due(machine) = std::mem::replace(&mut jvm.state, State::Asked) {
                let (pid, code) = (jvm.pid, jvm.code);
                let (sender, ending) = (self.answers.0.clone(), Arc::clone(&self.ending));
                let ask = move || {
                    // Nobody may wait for it any more.
                    let _ = sender.send(answer(pid, code, machine, &ending));
                };
                if thread::Builder::new().name("java".to_owned()).spawn(ask).is_err() {
                    jvm.state =
                        State::Waiting { machine: None, from: Instant::now() + AFTER_FAILURE };
                }
            }
        }
    }

    /// Waits until all have answered that were or are to be asked, or the time is over.
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

/// Asks a virtual machine; the first time, waits until it can be asked.
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

    /// Makes it due if there is code without a name, or it has ended.
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

    /// Makes it due if there is any code of it.
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

    /// Leaves all as it was before it was asked.
    fn leave(&mut self, report: &mut Report) {
        let state = std::mem::replace(&mut self.state, State::Done);
        let is_new = !matches!(state, State::Done);
        if let State::Waiting { machine: Some(machine), .. } | State::Due(Some(machine)) = state {
            machine.clean_up();
        }
        (self.map, self.asked_about) = Default::default();
        // If it has named its code, it may end.
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
