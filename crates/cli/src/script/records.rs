//! Records other than samples: which ones are printed, and messages about kinds that the input does not contain.

use pyrograph_profile::RecordGroup;

/// Which records are printed beside samples.
#[derive(clap::Args)]
pub struct RecordArgs {
    /// Print threads that start, end and get names
    #[arg(long, help_heading = "Records beside events")]
    show_task_events: bool,

    /// Print mappings of files
    #[arg(long, help_heading = "Records beside events")]
    show_mmap_events: bool,

    /// Print switches of threads, of `perf record --switch-events`
    #[arg(long, help_heading = "Records beside events")]
    show_switch_events: bool,

    /// Print namespaces of threads, of `perf record --namespaces`
    #[arg(long, help_heading = "Records beside events")]
    show_namespace_events: bool,

    /// Print losses of records
    #[arg(long, help_heading = "Records beside events")]
    show_lost_events: bool,

    /// Print control groups, of `perf record --all-cgroups`
    #[arg(long, help_heading = "Records beside events")]
    show_cgroup_events: bool,
}

impl RecordArgs {
    /// The requested kinds of records.
    pub fn groups(&self) -> Vec<RecordGroup> {
        let all = [
            (self.show_task_events, RecordGroup::Task),
            (self.show_mmap_events, RecordGroup::Mmap),
            (self.show_switch_events, RecordGroup::Switch),
            (self.show_namespace_events, RecordGroup::Namespace),
            (self.show_lost_events, RecordGroup::Lost),
            (self.show_cgroup_events, RecordGroup::Cgroup),
        ];
        all.into_iter().filter_map(|(wanted, group)| wanted.then_some(group)).collect()
    }
}

/// A message for each kind of records that was requested but not found. Missing losses are no reason for a message.
pub fn missing(wanted: &[RecordGroup], printed: &[RecordGroup]) -> Vec<String> {
    let missing = wanted.iter().filter(|group| !printed.contains(group));
    let line = |group: &RecordGroup| {
        let (what, how) = match group {
            RecordGroup::Task => ("starts and ends of threads", ""),
            RecordGroup::Mmap => ("mappings", ""),
            RecordGroup::Switch => ("switches", "; `perf record --switch-events` records them"),
            RecordGroup::Namespace => ("namespaces", "; `perf record --namespaces` records them"),
            RecordGroup::Cgroup => ("control groups", "; `perf record --all-cgroups` records them"),
            RecordGroup::Lost => return None,
        };
        Some(format!("no {what} are in what was printed{how}"))
    };
    missing.filter_map(line).collect()
}
