//! Flags that choose among what runs, and the levels of frames that keep it apart. The verbs that read files have
//! the same words.

use std::path::PathBuf;

use pyrograph_analyze::Level;
use pyrograph_recorder::{Error, Filters, Target, control_group};

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
    /// The filters.
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
    /// The filters, and the levels.
    pub fn read(self) -> anyhow::Result<(Filters, Vec<Level>)> {
        let by_cpu = self.by.contains(&Level::Cpu);
        Ok((Filters { by_cpu, ..self.choice.read()? }, self.by))
    }
}

/// Checks that there is something of the names that are asked for.
pub fn check_names(filters: &Filters, target: &Target, inherit: bool) -> anyhow::Result<()> {
    filters.check_names(target, inherit).map_err(|error| match error {
        error @ Error::NoSuchName { .. } => anyhow::Error::from(error).context("--comm"),
        error => error.into(),
    })
}
