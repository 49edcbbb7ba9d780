//! Flags that filter by thread name and control group, and that add levels of frames. Subcommands that read files use
//! the same names.

use std::path::PathBuf;

use pyrograph_analyze::Level;
use pyrograph_session::{Error, Filters, Target, control_group};

use crate::filters::LEVELS;
use crate::say::misuse;
use crate::units::value_of_event;

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

    /// Put levels of frames at the root (needs root): process (name-PID), pool (the thread's name, one for threads whose
    /// names differ only in numbers), thread (name-PID/TID), cpu, cgroup, cmdline; or a value of the event of -e: a variable, a
    /// field
    #[arg(long, value_name = "WHAT,…", value_parser = parse_by, value_delimiter = ',', help_heading = "Filters")]
    by: Vec<By>,
}

/// Frames at the root of stacks.
#[derive(Clone, Debug)]
enum By {
    /// A level of frames.
    Level(Level),
    /// A value of the event.
    Value(String),
}

fn parse_by(text: &str) -> Result<By, String> {
    let level = LEVELS.iter().find(|(_, name, _)| *name == text);
    match level {
        Some((level, ..)) => Ok(By::Level(*level)),
        None => {
            value_of_event(text).map(By::Value).ok_or("a level or a value is missing".to_owned())
        }
    }
}

/// Filters, and the frames at the root of stacks.
pub struct Asked {
    /// Filters.
    pub filters: Filters,
    /// Levels of frames at the root.
    pub levels: Vec<Level>,
    /// The value of the event that is at the root.
    pub value: Option<String>,
}

impl FilterArgs {
    /// Converts the flags.
    pub fn read(self) -> anyhow::Result<Asked> {
        let (mut levels, mut value) = (Vec::new(), None);
        for by in self.by {
            match by {
                By::Level(level) => levels.push(level),
                By::Value(second) if value.is_some() => {
                    misuse!("--by takes one value of an event, and {second} is another")
                }
                By::Value(first) => value = Some(first),
            }
        }
        let by_cpu = levels.contains(&Level::Cpu);
        Ok(Asked { filters: Filters { by_cpu, ..self.choice.read()? }, levels, value })
    }
}

/// Checks that processes or threads with the requested names exist.
pub fn check_names(filters: &Filters, target: &Target, inherit: bool) -> anyhow::Result<()> {
    filters.check_names(target, inherit).map_err(|error| match error {
        error @ Error::NoSuchName { .. } => anyhow::Error::from(error).context("--comm"),
        error => error.into(),
    })
}
