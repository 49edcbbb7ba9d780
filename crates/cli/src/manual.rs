//! `completions` and `manual`: made from the same flags that are parsed.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::CommandFactory;
use clap_complete::Shell;

/// Print the completion script of a shell
#[derive(clap::Args)]
pub struct CompletionArgs {
    /// The shell
    shell: Shell,
}

/// Write the man pages, one for each verb, into a folder
#[derive(clap::Args)]
pub struct ManualArgs {
    /// The folder; it is made if it is not there
    #[arg(default_value = ".")]
    folder: PathBuf,
}

/// Runs `pyrograph completions`.
pub fn completions(args: CompletionArgs) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut crate::Cli::command(), "pyrograph", &mut script);
    std::io::stdout().write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}

/// Runs `pyrograph manual`.
pub fn manual(args: ManualArgs) -> anyhow::Result<ExitCode> {
    std::fs::create_dir_all(&args.folder)
        .with_context(|| format!("failed to make the folder {}", args.folder.display()))?;
    clap_mangen::generate_to(crate::Cli::command(), &args.folder)
        .with_context(|| format!("failed to write man pages into {}", args.folder.display()))?;
    Ok(ExitCode::SUCCESS)
}
