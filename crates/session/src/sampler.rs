//! What an engine that takes stacks has to do, and what it gives.

use std::time::{Duration, Instant};

use pyrograph_record::{Child, Event, Stopper, Summary};
use pyrograph_resolve::{LiveFiles, Resolver};

use crate::error::Error;
use crate::lost::Losses;
use crate::message::Report;

/// An engine that takes stacks.
pub(crate) trait Sampler {
    /// Does the work that is due, or waits for some. Returns true if the recording goes on.
    fn step(
        &mut self,
        resolver: &mut Resolver<LiveFiles>,
        report: &mut Report,
    ) -> Result<bool, Error>;

    /// Handle that ends the recording. The following steps take the samples until then.
    fn stopper(&self) -> Stopper;

    /// Number of samples lost until now.
    fn lost(&self) -> u64;

    /// Adds the times at which samples were lost until `now`.
    fn losses(&mut self, losses: &mut Losses, now: u64) {
        losses.look(self.lost(), now);
    }

    /// Takes the counts until now.
    fn collect(&mut self, resolver: &mut Resolver<LiveFiles>) -> Result<(), Error>;

    /// Takes the memory that is allocated now, for questions about memory that is not freed.
    fn hold(&mut self, _: &mut Resolver<LiveFiles>) -> Result<(), Error> {
        Ok(())
    }

    /// Starts or stops dropping samples.
    fn set_paused(&mut self, paused: bool, resolver: &mut Resolver<LiveFiles>)
    -> Result<(), Error>;

    /// Takes the remaining samples after the end of the recording.
    fn finish(
        self: Box<Self>,
        resolver: &mut Resolver<LiveFiles>,
        report: &mut Report,
    ) -> Result<Ended, Error>;
}

/// An engine that is ready to record.
pub(crate) struct Opened {
    pub sampler: Box<dyn Sampler>,
    pub resolver: Resolver<LiveFiles>,
    /// The event that was opened.
    pub event: Event,
    /// True if samples have times of `CLOCK_MONOTONIC`.
    pub monotonic_time: bool,
}

/// Result of a recording, without its stacks.
pub(crate) struct Ended {
    pub summary: Summary,
    pub child: Option<Child>,
    /// CPU time of this process at the beginning and at the end.
    pub cpu_time: (Duration, Duration),
    /// Beginning and end of the recording.
    pub span: (Instant, Instant),
    /// Guard for results that are kept for the next recording.
    pub kept: Kept,
}

/// Guard for results of this recording that the next one can use. They are written to the cache at the latest when it
/// is dropped: hold it until all other work is done.
#[derive(Debug, Default)]
pub struct Kept {
    #[cfg(feature = "bpf")]
    #[expect(dead_code, reason = "they are there to be dropped")]
    pub(crate) threads: [Option<pyrograph_bpf::Keeping>; 2],
}
