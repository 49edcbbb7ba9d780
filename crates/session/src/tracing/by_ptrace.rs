//! Tracing by ptrace, which stops a thread at each call, if eBPF programs are not permitted.

use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use pyrograph_event::traced::{Action, Call, CallCount, CallEnd, LostCalls, Stack, Traced};
use pyrograph_record::ptrace::{self, TracedCall};
use pyrograph_record::{Child, Target, Waiting, exit_code_of};
use pyrograph_syscall::Copied;

use super::plan::TracePlan;
use super::tracer::Tracer;
use crate::error::Error;

/// Returns true if ptrace can carry out the plan: there is a process to stop, and nothing in the plan needs the
/// kernel's filters or programs.
pub fn can_trace(plan: &TracePlan) -> bool {
    !plan.scope.is_machine()
        && plan.scope.beside.is_none()
        && !plan.scope.filters.chooses()
        && plan.events.is_empty()
        && plan.filter.is_none()
        && !plan.faults.any()
}

/// Traces calls by ptrace.
pub struct ByPtrace {
    plan: TracePlan,
    tracer: Option<ptrace::Tracer>,
    /// Names of threads.
    names: HashMap<i32, Vec<u8>>,
    command: i32,
    exit_code: Option<u8>,
    /// Remaining calls when tracing ended.
    left: Option<ptrace::Detached>,
}

impl ByPtrace {
    pub fn new(plan: &TracePlan) -> Self {
        Self {
            plan: plan.clone(),
            tracer: None,
            names: HashMap::new(),
            command: 0,
            exit_code: None,
            left: None,
        }
    }

    /// Returns the name of a thread. With `look` it is read again, since it may have changed when the thread has
    /// executed a program.
    fn name(&mut self, thread: i32, look: bool) -> &[u8] {
        let name = self.names.entry(thread).or_default();
        if (look || name.is_empty())
            && let Some(text) = super::thread_name(thread)
        {
            *name = text;
        }
        name
    }

    /// Returns the calls that had not returned when tracing ended.
    fn hand_out_unfinished(&mut self, out: &mut dyn FnMut(&Traced<'_>)) {
        let calls = self.left.as_mut().map(|left| std::mem::take(&mut left.calls));
        for call in calls.unwrap_or_default() {
            let end = CallEnd::Unfinished { after: call.duration };
            hand_out_call(&call, end, self.name(call.thread, false), out);
        }
    }

    fn hand_out(&mut self, traced: ptrace::Traced, out: &mut dyn FnMut(&Traced<'_>)) {
        match traced {
            ptrace::Traced::Call(call) => {
                let end = match call.result {
                    Some(result) => CallEnd::Returned { result, duration: call.duration },
                    None => CallEnd::Never,
                };
                let is_exec = pyrograph_syscall::by_number(call.number)
                    .is_some_and(|call| call.name.starts_with("execve"));
                hand_out_call(&call, end, self.name(call.thread, is_exec), out);
            }
            ptrace::Traced::Signal { time, process, thread, signal, info } => {
                // siginfo_t: numbers of 4 bytes, the third of which is the code; a union from byte 16 on.
                let word = |at: usize| {
                    let bytes = info.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
                    bytes.map_or(0, u64::from_ne_bytes)
                };
                let code = word(8) as i32;
                let fields = [word(16), word(24)];
                let action = Action::Signal { number: signal, code, fields };
                let name = self.name(thread, false);
                out(&Traced { time, process, thread, name, action, stack: Stack::NotTaken });
            }
            ptrace::Traced::Started { .. } => {}
            ptrace::Traced::Ended { time, process, thread, status } => {
                if thread == self.command {
                    self.exit_code = Some(exit_code_of(ExitStatus::from_raw(status)));
                }
                let name = self.names.remove(&thread).unwrap_or_default();
                let action = Action::Exit { status };
                out(&Traced { time, process, thread, name: &name, action, stack: Stack::NotTaken });
            }
        }
    }
}

/// Passes a call of the thread with this name to `out`.
pub fn hand_out_call(
    call: &TracedCall,
    end: CallEnd,
    name: &[u8],
    out: &mut dyn FnMut(&Traced<'_>),
) {
    let copied = call.copied.iter().map(|taken| Copied {
        copy: taken.copy,
        bytes: &taken.bytes,
        length: taken.length,
    });
    let copied: Vec<Copied<'_>> = copied.collect();
    let action = Action::Call(Call {
        is_wanted: true,
        number: call.number,
        compat: call.number == u32::MAX,
        arguments: call.arguments,
        copied: &copied,
        end,
    });
    let (process, thread) = (call.process, call.thread);
    out(&Traced { time: call.time, process, thread, name, action, stack: Stack::NotTaken });
}

impl Tracer for ByPtrace {
    fn start(&mut self, command: Option<Waiting>, _: bool) -> Result<Option<Child>, Error> {
        let text = u32::try_from(self.plan.text).unwrap_or(u32::MAX);
        let tracer = match (command, &self.plan.scope.target) {
            (Some(command), _) => {
                self.command = command.pid();
                ptrace::Tracer::command(command, text)?
            }
            (None, Target::Processes(pids)) => ptrace::Tracer::attach(pids, text)?,
            (None, _) => return Err(Error::NotStarted),
        };
        self.tracer = Some(tracer);
        Ok(None)
    }

    fn stop(&mut self) -> Result<(), Error> {
        // Processes that still run continue.
        if let Some(tracer) = self.tracer.take().filter(|tracer| !tracer.is_done()) {
            self.left = Some(tracer.detach()?);
        }
        Ok(())
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn is_done(&self) -> bool {
        let is_over = self.tracer.as_ref().is_none_or(ptrace::Tracer::is_done);
        is_over || self.exit_code.is_some()
    }

    fn counts(&self) -> bool {
        false
    }

    fn take(&mut self, out: &mut dyn FnMut(&Traced<'_>)) -> Result<bool, Error> {
        /// Maximum time for which the caller has to wait.
        const TURN: Duration = Duration::from_millis(50);
        let until = Instant::now() + TURN;
        while Instant::now() < until {
            let Some(tracer) = &mut self.tracer else {
                self.hand_out_unfinished(out);
                return Ok(false);
            };
            match tracer.step()? {
                Some(traced) => self.hand_out(traced, out),
                None => return Ok(false),
            }
        }
        Ok(true)
    }

    fn take_counts(&mut self, _: &mut dyn FnMut(CallCount)) -> Result<(), Error> {
        Ok(())
    }

    fn lost(&self) -> LostCalls {
        LostCalls::default()
    }

    fn take_command(&mut self) -> Option<Child> {
        self.left.as_mut()?.command.take()
    }

    fn exit_code(&self) -> Option<u8> {
        self.exit_code
    }
}
