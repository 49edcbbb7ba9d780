//! Code without names: the functions of stripped files, and code made at run time.

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use pyrograph_profile::{FrameKind, Profile, StringId};

/// Values of samples that ended in code without a name, the largest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nameless {
    /// By the path of the file that the code is in.
    pub modules: Vec<(String, u64)>,
    /// In code made at run time, by process.
    pub jit: Vec<(String, u64)>,
}

/// The samples of a column that ended in code without a name.
pub fn nameless(profile: &Profile, column: usize) -> Nameless {
    let mut modules: HashMap<StringId, u64, FixedState> = HashMap::default();
    let mut jit: HashMap<StringId, u64, FixedState> = HashMap::default();
    let values = profile.samples.values(column);
    for (row, sample) in profile.samples.iter().enumerate() {
        let Some((_, frame)) = profile.stacks.get(sample.stack) else { continue };
        let frame = profile.frames.get(frame);
        if !frame.function.is_empty() || matches!(frame.kind, FrameKind::Marker(_)) {
            continue;
        }
        let module = profile.strings.get(frame.module);
        if module.starts_with('/') && !module.starts_with("/memfd:") {
            *modules.entry(frame.module).or_default() += values[row];
        } else if frame.kind == FrameKind::Jit || module.is_empty() || module.contains("anon") {
            let thread = profile.threads.get(sample.thread);
            let name = if thread.process.is_empty() { thread.name } else { thread.process };
            *jit.entry(name).or_default() += values[row];
        }
    }
    let sorted = |of: HashMap<StringId, u64, FixedState>| {
        let name = |(name, value)| (profile.strings.get(name).to_owned(), value);
        let mut rows: Vec<(String, u64)> = of.into_iter().map(name).collect();
        rows.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        rows
    };
    Nameless { modules: sorted(modules), jit: sorted(jit) }
}
