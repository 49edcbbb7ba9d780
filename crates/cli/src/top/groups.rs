//! The control groups of processes that were recorded.

use std::collections::BTreeMap;

use pyrograph_profile::Profile;
use pyrograph_resolve::control_group_of;
use pyrograph_tui::Grouping;

/// Control groups by process.
#[derive(Debug, Default)]
pub struct Groups(BTreeMap<i32, String>);

impl Groups {
    /// Those of the processes in a profile, if they are asked for. What is found stays known for as long as the process is in
    /// profiles, for it may be gone by then.
    pub fn of(&mut self, profile: &Profile, grouping: Grouping) -> BTreeMap<i32, String> {
        let mut groups = BTreeMap::new();
        if grouping == Grouping::ControlGroup {
            for pid in profile.threads.iter().filter_map(|thread| thread.pid) {
                let known = self.0.remove(&pid);
                if let Some(group) = known.or_else(|| control_group_of(pid)) {
                    groups.insert(pid, group);
                }
            }
        }
        self.0.clone_from(&groups);
        groups
    }
}
