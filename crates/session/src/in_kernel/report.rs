//! Reports about the engine at the end of a recording.

use pyrograph_bpf::Engine;
use pyrograph_event::engine::TableStats;
use pyrograph_resolve::{LiveFiles, Resolver};

use super::maps::memory_of_maps;
use crate::memory::Resident;
use crate::message::{EngineReport, Message};

/// Returns the statistics of the engine.
pub fn engine_report(engine: &Engine) -> EngineReport {
    let stats = engine.stats();
    EngineReport {
        tables: engine.table_stats(),
        lost: stats.lost,
        unwound: stats.ends.iter().sum(),
        copied: stats.copied,
        not_copied: stats.copies_refused,
        resident: Resident::now(),
        kernel_bytes: memory_of_maps(),
    }
}

/// Returns the unwind tables for which there was no memory, and the number of stacks that end early because of that.
pub fn left_out(engine: &Engine, resolver: &Resolver<LiveFiles>) -> Option<Message> {
    let TableStats { bytes, omitted, .. } = engine.table_stats();
    let modules = engine.left_out();
    let path = |module| resolver.module_path(module).to_owned();
    (omitted > 0 || !modules.is_empty()).then(|| Message::TablesLeftOut {
        bytes,
        omitted,
        files: modules.into_iter().map(|(module, stacks)| (path(module), stacks)).collect(),
    })
}

/// Returns the number of interpreter files whose calls were not read, if there are any.
pub fn interpreters_left_out(engine: &Engine) -> Option<Message> {
    let files = engine.interpreters_left_out();
    (files > 0).then_some(Message::InterpretersLeftOut { files, limit: Engine::INTERPRETERS })
}

/// Returns the number of events that are not counted because of their values, if there are any.
pub fn values_left_out(engine: &Engine) -> Option<Message> {
    let stats = engine.stats();
    let (unread, negative) = (stats.unread, stats.negative);
    (unread + negative > 0).then_some(Message::ValuesLeftOut { unread, negative })
}
