//! Flags of `record` and `top` that select the target, and which of its events are sampled.

use pyrograph_session::{Engine, Question, Rate, Target, Trigger};

use crate::say::{misuse, say};
use crate::targets::TargetArgs;
use crate::units::{parse_count, parse_id};

/// Flags of the target and of the sampling rate.
#[derive(clap::Args)]
pub struct SamplingArgs {
    #[command(flatten)]
    pub target: TargetArgs,

    /// Threads to attach to, without what they start
    #[arg(short, long, value_name = "TID", value_delimiter = ',', conflicts_with_all = ["pid", "all_cpus", "cpu"],
        value_parser = parse_id, display_order = 0)]
    tid: Vec<i32>,

    /// Samples a second [default: 997 of each thread; with -a 99 of each CPU]
    #[arg(short = 'F', long, visible_short_alias = 'r', value_name = "HZ",
        value_parser = parse_count)]
    frequency: Option<u64>,

    /// One sample for each COUNT of the event: cycles, page faults, nanoseconds of a clock
    #[arg(short = 'c', long = "period", value_name = "COUNT", conflicts_with = "frequency",
        value_parser = parse_count)]
    every: Option<u64>,
}

impl SamplingArgs {
    /// The threads, if single threads are recorded.
    pub fn threads(&self) -> Option<Vec<i32>> {
        (!self.tid.is_empty()).then(|| self.tid.clone())
    }

    /// Takes the target, if there is one. A command that only runs beside it is left.
    ///
    /// # Errors
    ///
    /// If there is no such thread.
    pub fn take_target(&mut self) -> anyhow::Result<Option<Target>> {
        match self.tid.is_empty() {
            true => Ok(self.target.take()),
            false => Ok(Some(Target::of_threads(&self.tid)?)),
        }
    }

    /// Returns true if only perf events can do what the flags ask for: record single threads, or some of the events of a
    /// tracepoint.
    pub fn needs_perf(&self, question: &Question) -> bool {
        let takes_some = self.every.is_some() || self.target.cpu.is_some();
        let is_tracepoint = matches!(question.trigger(), Trigger::Tracepoint { .. });
        !self.tid.is_empty() || takes_some && is_tracepoint
    }

    /// The requested sampling rate. Events that the kernel counts one by one have no frequency: the kernel would
    /// estimate the next period from the last few samples, which come in bursts, so that the sum would be many times the
    /// true count.
    pub fn rate(&self, question: &Question) -> Option<Rate> {
        let counted = question.event().filter(|event| event.is_counted_by_kernel());
        if let (Some(hertz), Some(event)) = (self.frequency, counted) {
            say!("-F {hertz} has no effect: each of {} counts; -c N takes every Nth", event.name());
            return None;
        }
        self.frequency.map(Rate::Hertz).or(self.every.map(Rate::Every))
    }

    /// Rejects flags that have no effect with a question, an engine, or with filters.
    ///
    /// # Errors
    ///
    /// If there is such a flag.
    pub fn check(
        &self,
        question: &Question,
        engine: Option<Engine>,
        is_filtered: bool,
    ) -> anyhow::Result<()> {
        let is_sampled = question.is_sampled();
        if self.every.is_some() && !is_sampled {
            misuse!("-c is for events that are sampled: cycles, clocks, page faults, tracepoints");
        }
        if self.target.cpu.is_some() && !is_sampled {
            misuse!("-C is for events that are sampled: cycles, clocks, page faults, tracepoints");
        }
        if !self.tid.is_empty() && (question.needs_in_kernel() || is_filtered) {
            misuse!("-t is for samples of the CPU and events; give the process with -p");
        }
        if !self.tid.is_empty() && engine == Some(Engine::InKernel) {
            misuse!("-t needs --engine perf: the in-kernel engine records processes");
        }
        Ok(())
    }
}
