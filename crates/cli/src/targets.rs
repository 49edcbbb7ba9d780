//! Flags that select a target: a command, processes, or the machine.

use std::ffi::OsString;

use pyrograph_recorder::{Cpus, Target};

use crate::units::parse_id;

/// Flags of a target.
#[derive(clap::Args)]
pub struct TargetArgs {
    /// Processes to attach to, with all their threads, and the children they have started or will start
    #[arg(short, long, value_name = "PID", value_delimiter = ',', conflicts_with = "all_cpus",
        value_parser = parse_id)]
    pid: Vec<i32>,

    /// The whole machine
    #[arg(short, long)]
    all_cpus: bool,

    /// The whole machine, but these CPUs only: 0-3,8
    #[arg(short = 'C', long, value_name = "CPUS", conflicts_with = "pid")]
    pub cpu: Option<Cpus>,

    /// The command to run, and its arguments. Beside another target it only sets for how long: until it ends
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

impl TargetArgs {
    /// Takes the target, if there is one. A command that only runs beside the target is left.
    pub fn take(&mut self) -> Option<Target> {
        if self.all_cpus || self.cpu.is_some() {
            return Some(Target::System);
        }
        let pids = std::mem::take(&mut self.pid);
        if !pids.is_empty() {
            return Some(Target::Processes(pids));
        }
        self.beside().map(Target::Command)
    }

    /// The selected processes.
    pub fn processes(&self) -> &[i32] {
        &self.pid
    }

    /// The selected CPUs.
    pub fn cpus(&self) -> &[u32] {
        self.cpu.as_ref().map(|cpus| &cpus.0[..]).unwrap_or_default()
    }

    /// Takes the command that is left, which only runs beside the target.
    pub fn beside(&mut self) -> Option<Vec<OsString>> {
        Some(std::mem::take(&mut self.command)).filter(|command| !command.is_empty())
    }
}
