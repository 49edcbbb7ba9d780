//! In place of `in_kernel.rs` where Pyrograph is built without it.

use std::time::{Duration, Instant};

use pyrograph_record::{Child, Session, Summary, Target, Waiting};
use pyrograph_resolve::{LiveFiles, Resolver};

use crate::question::Question;
use crate::tables::TableArgs;
use crate::whom::Whom;

/// There is none.
pub enum Engine {}

/// Why there is none.
#[derive(Debug, thiserror::Error)]
#[error("this Pyrograph was built without the in-kernel engine")]
pub struct NotBuilt;

impl NotBuilt {
    /// Nobody asked for it, so nobody need be told.
    pub fn is_permission(&self) -> bool {
        true
    }

    /// There is no more to say.
    pub fn details(&self) -> Option<&str> {
        None
    }
}

/// As long as ever.
pub const PATIENCE_WITH_RECORDS: Duration = Duration::from_millis(10);

/// Whom and what to record.
#[expect(dead_code, reason = "without an engine nobody asks")]
pub struct InKernel<'a> {
    pub target: &'a Target,
    pub inherit: bool,
    pub duration: Option<Duration>,
    pub interrupted: &'a dyn Fn() -> bool,
    pub verbose: bool,
    pub returned: Option<&'a str>,
    /// It is counted what asks for memory.
    pub allocations: bool,
}

/// What a recording leaves besides its profile.
pub struct Recorded {
    pub summary: Summary,
    pub child: Option<Child>,
    pub cpu_time: (Duration, Duration),
    pub span: (Instant, Instant),
}

/// Says that there is none.
pub fn load(
    _: &pyrograph_record::Options,
    _: &Question,
    _: &Whom,
    _: TableArgs,
) -> Result<Engine, NotBuilt> {
    Err(NotBuilt)
}

impl InKernel<'_> {
    /// Cannot be reached: there is no engine.
    pub fn record(
        &self,
        engine: Engine,
        _: Session,
        _: Option<Waiting>,
        _: &mut Resolver<LiveFiles>,
    ) -> anyhow::Result<Recorded> {
        match engine {}
    }
}

/// Nothing makes use of anything.
pub fn say_features() {}

/// Cannot be reached: there is no engine.
pub fn say_lacks(engine: &Engine) {
    match *engine {}
}

/// Whether a process with this number runs.
pub fn is_running(_: i32) -> bool {
    false
}
