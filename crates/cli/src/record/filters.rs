//! Flags that choose among what runs, and the levels of frames that keep it apart. The verbs that read files have
//! the same words.

use std::path::PathBuf;

use pyrograph_analyze::Level;
use pyrograph_recorder::{Filters, control_group};

use crate::filters::LEVELS;
use crate::units::one_of;

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
    #[arg(long, value_name = "WHAT,…", value_parser = one_of(LEVELS), value_delimiter = ',', help_heading = "Filters")]
    by: Vec<Level>,
}

impl FilterArgs {
    /// The filters, and the levels.
    pub fn read(self) -> anyhow::Result<(Filters, Vec<Level>)> {
        let group = self.cgroup.as_deref().map(control_group).transpose()?;
        let by_cpu = self.by.contains(&Level::Cpu);
        Ok((Filters { names: self.comm, group, by_cpu }, self.by))
    }
}
