//! Flags of a target that is counted: a command, processes, the machine.

use std::ffi::OsString;
use std::time::Duration;

use pyrograph_recorder::Target;

use crate::record::{Cpus, parse_cpus};
use crate::say::misuse;
use crate::units::parse_duration;

/// Flags of a target.
#[derive(clap::Args, Default)]
pub struct TargetArgs {
    /// Processes, with all their threads, and the children they have started or will start
    #[arg(short, long, value_name = "PID", value_delimiter = ',', conflicts_with = "all_cpus",
        value_parser = clap::value_parser!(i32).range(1..))]
    pid: Vec<i32>,

    /// The whole machine
    #[arg(short, long)]
    all_cpus: bool,

    /// The whole machine, but these CPUs only: 0-3,8
    #[arg(short = 'C', long, value_name = "CPUS", conflicts_with = "pid", value_parser = parse_cpus)]
    cpu: Option<Cpus>,

    /// Without the processes that the target starts
    #[arg(long)]
    no_inherit: bool,

    /// For how long: seconds, or with a unit (500ms, 10s, 5m) [default: until it ends, or Ctrl-C]
    #[arg(short, long, value_name = "TIME", value_parser = parse_duration)]
    pub duration: Option<Duration>,

    /// The command to run, and its arguments. With -a, -C or -p it only sets for how long: until it ends
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// A target, as flags give it.
pub struct Chosen {
    pub target: Target,
    /// A command that runs beside it.
    pub beside: Option<Vec<OsString>>,
    pub cpus: Option<Vec<u32>>,
    pub inherit: bool,
    /// What it is, in words.
    pub title: String,
}

impl TargetArgs {
    /// The target.
    ///
    /// # Errors
    ///
    /// If there is none.
    pub fn choose(self) -> anyhow::Result<Chosen> {
        let inherit = !self.no_inherit;
        let title_of = |command: &[OsString]| {
            let words: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
            format!("'{}'", words.join(" "))
        };
        let beside = Some(self.command).filter(|command| !command.is_empty());
        let cpus = self.cpu.map(|cpus| cpus.0);
        let (target, title, beside) = match (self.all_cpus || cpus.is_some(), beside) {
            (true, beside) => {
                let title = match &cpus {
                    Some(cpus) => {
                        let cpus: Vec<_> = cpus.iter().map(u32::to_string).collect();
                        format!("CPU {}", cpus.join(", "))
                    }
                    None => "the machine".to_owned(),
                };
                (Target::System, title, beside)
            }
            (false, beside) if !self.pid.is_empty() => {
                let pids: Vec<_> = self.pid.iter().map(i32::to_string).collect();
                (Target::Processes(self.pid), format!("process {}", pids.join(", ")), beside)
            }
            (false, Some(command)) => {
                let title = title_of(&command);
                (Target::Command(command), title, None)
            }
            (false, None) => misuse!(
                "nothing to count: give a command after --, processes with -p, or the machine with -a"
            ),
        };
        Ok(Chosen { target, beside, cpus, inherit, title })
    }
}
