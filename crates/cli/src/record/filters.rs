//! Flags that choose among what runs, and the levels of frames that keep it apart. The verbs that read files have
//! the same words.

use std::path::PathBuf;

use pyrograph_analyze::{Filter, Level};
use pyrograph_profile::{Profile, ThreadDetail};
use pyrograph_recorder::{Filters, control_group};

/// The flags.
#[derive(Default, clap::Args)]
#[group(multiple = true)]
pub struct FilterArgs {
    /// Only processes and threads of these names; of the whole machine if nothing else is named (needs root)
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', help_heading = "Filters")]
    comm: Vec<String>,

    /// Only what is in this control group, or in one inside of it: its folder; of the whole machine if nothing
    /// else is named (needs root)
    #[arg(long, value_name = "PATH", help_heading = "Filters")]
    cgroup: Option<PathBuf>,

    /// Put levels of frames at the root (needs root)
    #[arg(
        long,
        value_name = "WHAT,…",
        value_enum,
        value_delimiter = ',',
        help_heading = "Filters"
    )]
    by: Vec<By>,
}

/// The property that a level of frames shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum By {
    /// name-PID.
    Process,
    /// The thread's name, one for threads whose names differ only in numbers.
    Pool,
    /// name-PID/TID.
    Thread,
    /// The CPU.
    Cpu,
}

/// Levels of frames at the root of stacks.
#[derive(Clone, Debug, Default)]
pub struct Levels(Vec<By>);

impl FilterArgs {
    /// The filters, and the levels.
    ///
    /// # Errors
    ///
    /// If there is no such control group.
    pub fn read(self) -> anyhow::Result<(Filters, Levels)> {
        let group = self.cgroup.as_deref().map(control_group).transpose()?;
        let by_cpu = self.by.contains(&By::Cpu);
        Ok((Filters { names: self.comm, group, by_cpu }, Levels(self.by)))
    }
}

impl Levels {
    /// Returns true if none was asked for.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How far threads are to be kept apart.
    pub fn threads(&self) -> ThreadDetail {
        let detail = |by: &By| match by {
            By::Thread => ThreadDetail::Thread,
            By::Process => ThreadDetail::Process,
            By::Cpu | By::Pool => ThreadDetail::Name,
        };
        self.0.iter().map(detail).max().unwrap_or_default()
    }

    /// Puts the levels into stacks.
    ///
    /// # Errors
    ///
    /// If the profile does not hold what they show.
    pub fn put(&self, profile: Profile) -> anyhow::Result<Profile> {
        if self.is_empty() {
            return Ok(profile);
        }
        let level = |by: &By| match by {
            By::Process => Level::Process,
            By::Pool => Level::Pool,
            By::Thread => Level::Thread,
            By::Cpu => Level::Cpu,
        };
        let by = self.0.iter().map(level).collect();
        Ok(Filter { by, ..Filter::default() }.apply(profile)?)
    }
}
