//! Plans of recordings.

use pyrograph_event::interpreter::Language;
use pyrograph_profile::{ThreadDetail, ValueType};
use pyrograph_record::{Event, Rate, StackMode, Unit};
use pyrograph_resolve::{NATIVE, SymbolOptions};

use crate::question::Question;
use crate::scope::Scope;

/// A plan: what to record, how, and the level of detail of the profile.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Target and duration.
    pub scope: Scope,
    /// Record only these threads of the target's processes, and nothing that they start. For [`Engine::Perf`].
    pub threads: Option<Vec<i32>>,
    /// Record only these CPUs of the machine. For [`Engine::Perf`].
    pub cpus: Option<Vec<u32>>,

    /// Question that the recording answers.
    pub question: Question,
    /// Sample rate. `None` for the default of the target and event.
    pub rate: Option<Rate>,
    /// Take the user part of stacks.
    pub user: bool,
    /// Take the kernel part of stacks.
    pub kernel: bool,
    /// The engine that takes stacks. `None` for the in-kernel engine if it is permitted and can provide what the
    /// profile needs, else `perf_event_open`.
    pub engine: Option<Engine>,
    /// Method by which [`Engine::Perf`] takes the user part of stacks.
    pub stack: StackMode,
    /// For code without an unwind table, find callers by analysing its instructions.
    pub guessing: bool,
    /// Languages whose interpreted calls are read, by [`Engine::InKernel`]. Empty for native frames only.
    pub languages: Vec<Language>,
    /// Distinguish the frames of an interpreted function by the line of the call.
    pub lines: bool,
    /// Maximum size of the unwind tables in the kernel in bytes. The least used tables are left out.
    pub table_memory: usize,
    /// Take the stack of a wait when the thread stops running, as older kernels require, and not when it runs again.
    pub at_switches: bool,

    /// Ask recorded Java virtual machines for the names of their compiled code.
    pub attach: bool,

    /// The value by which stacks of the question are kept apart is a field of the thread
    /// ([`Thread::field`](pyrograph_profile::Thread::field)), and no frame at the root.
    pub value_is_field: bool,
    /// Count samples (or waits, calls, …) instead of the values that they represent.
    pub count_samples: bool,
    /// Keep the time and CPU of each sample, and not only a total for each stack and thread.
    pub keep_times: bool,
    /// Keep the instruction at which each sample was taken.
    pub instructions: bool,
    /// Level of detail of threads. With several outputs, this is the highest level that any of them needs; the same
    /// applies to [`Self::keep_times`] and to the lines of [`Self::symbols`].
    pub thread_detail: ThreadDetail,
    /// Maximum size of stacks and their names in bytes, unless times are kept. Beyond it, a new stack is cut off where
    /// it leaves the known ones.
    pub stack_memory: usize,
    /// Options for symbolization. [`Self::symbol_options`] has the cache directory, too.
    pub symbols: SymbolOptions,
}

/// Engines, which are ways to take stacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// eBPF programs unwind and count stacks in the kernel.
    InKernel,
    /// `perf_event_open`: samples are copied out and unwound in user space.
    Perf,
}

impl Plan {
    /// Returns the defaults for a scope or target: CPU time by function.
    pub fn new(scope: impl Into<Scope>) -> Self {
        Self {
            scope: scope.into(),
            threads: None,
            cpus: None,
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
            value_is_field: false,
            attach: true,
            count_samples: false,
            keep_times: false,
            instructions: false,
            thread_detail: ThreadDetail::Name,
            stack_memory: 256 << 20,
            symbols: SymbolOptions::default(),
        }
    }

    /// Options for symbolization, with the cache directory of the scope.
    pub fn symbol_options(&self) -> SymbolOptions {
        SymbolOptions { cache: self.scope.cache.clone(), ..self.symbols.clone() }
    }

    /// Returns true if only the in-kernel engine can answer the question or apply the filters.
    pub(crate) fn needs_in_kernel(&self) -> bool {
        self.question.needs_in_kernel() || !self.scope.filters.is_all()
    }

    /// Options of the events for [`Engine::Perf`].
    pub(crate) fn events(&self) -> pyrograph_record::Options {
        pyrograph_record::Options {
            event: self.question.event().cloned(),
            rate: self.rate,
            threads: self.threads.clone(),
            cpus: self.cpus.clone(),
            launch: self.scope.launch.clone(),
            stack: self.stack,
            user: self.user,
            kernel: self.kernel,
            inherit: self.scope.inherit,
            duration: self.scope.duration,
            ..pyrograph_record::Options::new(self.scope.target.clone())
        }
    }

    /// Name of the number of samples behind each value. `None` if the values are that number.
    fn number_of(&self) -> Option<String> {
        let is_sum = match self.question.unit() {
            Some(unit) => matches!(unit, "ns" | "bytes") || self.question.summed().is_some(),
            None => true,
        };
        (is_sum && !self.count_samples).then(|| match self.question.noun() {
            "sample" => "samples".to_owned(),
            noun => format!("{noun}s"),
        })
    }

    /// Type of the values. `event` is the event that was opened.
    fn value_type(&self, event: &Event) -> ValueType {
        let unit = self.question.unit().unwrap_or(match event.unit() {
            Unit::Nanoseconds => "ns",
            Unit::Count => "count",
        });
        match self.count_samples {
            true if self.question.unit().is_none() => ValueType::samples(),
            true => {
                let noun = self.question.noun();
                // The unit of system calls is "calls".
                let noun = format!("{}s", noun.rsplit(' ').next().unwrap_or(noun));
                ValueType::new(self.question.name(event), &noun)
            }
            false => ValueType::new(self.question.name(event), unit),
        }
    }

    /// Options of the resolver. `event` is the event that was opened.
    pub(crate) fn resolve_options(&self, event: &Event) -> pyrograph_resolve::Options {
        pyrograph_resolve::Options {
            value_type: self.value_type(event),
            count_samples: self.count_samples,
            number_of: self.number_of(),
            keep_times: self.keep_times,
            stack_memory: Some(self.stack_memory),
            threads: self.thread_detail,
            // The in-kernel engine uses `CLOCK_MONOTONIC`.
            monotonic_time: true,
            guessing: self.guessing,
            languages: self.languages.clone(),
            root_is_field: self.value_is_field,
            user_only: !self.kernel,
            unknown_addresses: true,
            instructions: self.instructions,
            arch: NATIVE,
            symbols: self.symbol_options(),
        }
    }
}
