//! Flags that filter by thread name and control group, and that add levels of frames. Subcommands that read files use
//! the same names.

use std::path::PathBuf;

use pyrograph_analyze::Level;
use pyrograph_session::{Error, Filters, Target, control_group};

use crate::filters::LEVELS;
use crate::units::one_of;

/// Flags that choose.
#[derive(Default, clap::Args)]
#[group(multiple = true)]
pub struct ChoiceArgs {
    /// Only processes and threads of these names; of the whole machine if nothing else is named (needs root)
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', help_heading = "Filters")]
    comm: Vec<String>,

    /// Only what is in this control group, or in one inside of it: its folder; of the whole machine if nothing
    /// else is named (needs root)
    #[arg(long, value_name = "PATH", help_heading = "Filters")]
    cgroup: Option<PathBuf>,
}

impl ChoiceArgs {
    /// Converts the flags to filters.
    pub fn read(self) -> anyhow::Result<Filters> {
        let group = self.cgroup.as_deref().map(control_group).transpose()?;
        Ok(Filters { names: self.comm, group, by_cpu: false })
    }
}

/// The flags.
#[derive(Default, clap::Args)]
#[group(multiple = true)]
pub struct FilterArgs {
    #[command(flatten)]
    choice: ChoiceArgs,

    /// Put levels of frames at the root (needs root)
    #[arg(long, value_name = "WHAT,…", value_parser = one_of(LEVELS), value_delimiter = ',', help_heading = "Filters")]
    by: Vec<Level>,
}

impl FilterArgs {
    /// Converts the flags to filters and levels.
    pub fn read(self) -> anyhow::Result<(Filters, Vec<Level>)> {
        let by_cpu = self.by.contains(&Level::Cpu);
        Ok((Filters { by_cpu, ..self.choice.read()? }, self.by))
    }
}

/// Checks that processes or threads with the requested names exist.
pub fn check_names(filters: &Filters, target: &Target, inherit: bool) -> anyhow::Result<()> {
    filters.check_names(target, inherit).map_err(|error| match error {
        error @ Error::NoSuchName { .. } => anyhow::Error::from(error).context("--comm"),
        error => error.into(),
    })
}
