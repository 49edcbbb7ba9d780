//! Plans of recordings.

use std::ffi::OsString;
use std::time::Duration;

use pyrograph_event::interpreter::Language;
use pyrograph_profile::{ThreadDetail, ValueType};
use pyrograph_record::{Event, Rate, StackMode, Target, Unit};
use pyrograph_resolve::{NATIVE, SymbolOptions};

use crate::filters::Filters;
use crate::question::Question;

/// A plan: what to record, how, and how much of it the profile is to hold.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Target of the recording.
    pub target: Target,
    /// Of the target's processes only these threads, and nothing that they start. For [`Engine::Perf`].
    pub threads: Option<Vec<i32>>,
    /// Of the machine only these CPUs. For [`Engine::Perf`].
    pub cpus: Option<Vec<u32>>,
    /// Of the target only what passes these. For [`Engine::InKernel`].
    pub filters: Filters,
    /// Record the processes that the target starts, too.
    pub inherit: bool,
    /// A command that runs beside the target, which is recorded until this ends.
    pub beside: Option<Vec<OsString>>,
    /// The longest time to record.
    pub duration: Option<Duration>,
    /// The command writes to standard error what it would write to standard output, which is needed for something
    /// else.
    pub output_to_stderr: bool,

    /// Question that it answers.
    pub question: Question,
    /// How often to sample; `None` for what suits the target and the event.
    pub rate: Option<Rate>,
    /// Take the user part of stacks.
    pub user: bool,
    /// Take the kernel part of stacks.
    pub kernel: bool,
    /// The engine that takes stacks; `None` for the one in the kernel where it is permitted and can give what the
    /// profile is to hold, else `perf_event_open`.
    pub engine: Option<Engine>,
    /// How [`Engine::Perf`] takes the user part of stacks.
    pub stack: StackMode,
    /// Find the callers of code without an unwind table by its instructions.
    pub guessing: bool,
    /// Languages whose functions are found, by [`Engine::InKernel`]; none for native frames alone.
    pub languages: Vec<Language>,
    /// The line of each call of an interpreted function makes it a frame of its own.
    pub lines: bool,
    /// The most bytes of unwind tables in the kernel: those that are used least are left out.
    pub table_memory: usize,
    /// Take stacks of waits when threads stop to run, as older kernels need it, and not when they go on.
    pub at_switches: bool,

    /// Ask Java virtual machines that are recorded for the names of the code that they compile.
    pub attach: bool,

    /// Values are numbers of samples (or waits, calls, …), and not what these stand for.
    pub count_samples: bool,
    /// Keep each sample with its time and CPU, and not only a total for each stack and thread.
    pub keep_times: bool,
    /// Keep which instruction each sample was taken at.
    pub instructions: bool,
    /// How far threads are kept apart. For several outputs, as for [`Self::keep_times`] and the lines of
    /// [`Self::symbols`]: the most that any of them holds.
    pub thread_detail: ThreadDetail,
    /// The most bytes of stacks and their names, unless times are kept: new stacks end then where they leave those
    /// that are known.
    pub stack_memory: usize,
    /// How functions get names, and the folder of files that are kept for the next recording.
    pub symbols: SymbolOptions,
}

/// Ways to take stacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// Programs in the kernel unwind and count them.
    InKernel,
    /// `perf_event_open` copies samples out, which are unwound here.
    Perf,
}

impl Plan {
    /// The defaults for a target: its time on the CPU by functions, until it ends or the recorder is stopped.
    pub fn new(target: Target) -> Self {
        Self {
            target,
            threads: None,
            cpus: None,
            filters: Filters::default(),
            inherit: true,
            beside: None,
            duration: None,
            output_to_stderr: false,
            question: Question::default(),
            rate: None,
            user: true,
            kernel: true,
            engine: None,
            stack: StackMode::Dwarf { bytes: StackMode::DEFAULT_BYTES },
            guessing: true,
            languages: Language::ALL.to_vec(),
            lines: false,
            table_memory: 256 << 20,
            at_switches: false,
            attach: true,
            count_samples: false,
            keep_times: false,
            instructions: false,
            thread_detail: ThreadDetail::Name,
            stack_memory: 256 << 20,
            symbols: SymbolOptions::default(),
        }
    }

    /// Only programs in the kernel can answer the question, or apply the filters.
    pub(crate) fn needs_in_kernel(&self) -> bool {
        self.question.in_kernel_only || !self.filters.is_all()
    }

    /// Events of [`Engine::Perf`].
    pub(crate) fn events(&self) -> pyrograph_record::Options {
        pyrograph_record::Options {
            event: self.question.event.clone(),
            rate: self.rate,
            threads: self.threads.clone(),
            cpus: self.cpus.clone(),
            output_to_stderr: self.output_to_stderr,
            stack: self.stack,
            user: self.user,
            kernel: self.kernel,
            inherit: self.inherit,
            duration: self.duration,
            ..pyrograph_record::Options::new(self.target.clone())
        }
    }

    /// Name of the number of samples behind each value; `None` where the values are that number.
    fn number_of(&self) -> Option<String> {
        let is_sum = match self.question.unit() {
            Some(unit) => matches!(unit, "ns" | "bytes"),
            None => true,
        };
        (is_sum && !self.count_samples).then(|| match self.question.noun() {
            "sample" => "samples".to_owned(),
            noun => format!("{noun}s"),
        })
    }

    /// Type of the values, where `event` is open.
    fn value_type(&self, event: &Event) -> ValueType {
        let unit = self.question.unit().unwrap_or(match event.unit() {
            Unit::Nanoseconds => "ns",
            Unit::Count => "count",
        });
        match self.count_samples {
            true if self.question.unit().is_none() => ValueType::samples(),
            true => {
                let noun = self.question.noun();
                // The unit of system calls is calls.
                let noun = format!("{}s", noun.rsplit(' ').next().unwrap_or(noun));
                ValueType::new(self.question.name(event), &noun)
            }
            false => ValueType::new(self.question.name(event), unit),
        }
    }

    /// Options of the resolver, where `event` is open.
    pub(crate) fn resolve_options(&self, event: &Event) -> pyrograph_resolve::Options {
        pyrograph_resolve::Options {
            value_type: self.value_type(event),
            count_samples: self.count_samples,
            number_of: self.number_of(),
            keep_time: self.keep_times,
            stack_memory: Some(self.stack_memory),
            threads: self.thread_detail,
            // That of the programs in the kernel.
            monotonic_time: true,
            guessing: self.guessing,
            languages: self.languages.clone(),
            user_only: !self.kernel,
            addresses: true,
            instructions: self.instructions,
            arch: NATIVE,
            symbols: self.symbols.clone(),
        }
    }
}
