//! Flags that select a target: a command, processes, or the machine.

use std::ffi::OsString;

use pyrograph_session::{Cpus, Filters, Launch, Target, User};
use rustix::process::geteuid;

use crate::say::{misuse, say};
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

    /// The user who runs the command [default: the caller]
    #[arg(long, value_name = "NAME", requires = "command")]
    user: Option<String>,

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

    /// How the command is started. Call this before the target is taken.
    ///
    /// # Errors
    ///
    /// If there is no such user, or only root may run commands as that user.
    pub fn launch(&self, output_to_stderr: bool) -> anyhow::Result<Launch> {
        let user = self.user.as_deref().map(User::find).transpose()?;
        let is_target = !self.all_cpus && self.cpu.is_none() && self.pid.is_empty();
        if let (None, true, Some(command)) = (&user, is_target, self.command.first())
            && let Some(caller) = caller_of_sudo()
        {
            let command = command.to_string_lossy();
            say!("{command} runs as root; --user {caller} runs it as {caller}");
        }
        Ok(Launch { output_to_stderr, user })
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

/// Returns the target that was given, or the whole machine if there are filters. `verb` is for the error.
///
/// # Errors
///
/// If there is neither a target nor a filter.
pub fn target_or_machine(
    given: Option<Target>,
    filters: &Filters,
    verb: &str,
) -> anyhow::Result<Target> {
    match given.or(filters.chooses().then_some(Target::System)) {
        Some(target) => Ok(target),
        None => misuse!(
            "nothing to {verb}: give a command after --, processes with -p, or the machine with -a"
        ),
    }
}

/// Name of the user who called sudo to run this program as root: sudo(8).
fn caller_of_sudo() -> Option<String> {
    let is_other = std::env::var("SUDO_UID").is_ok_and(|caller| caller != "0");
    (is_other && geteuid().is_root()).then(|| std::env::var("SUDO_USER").ok())?
}
