//! How inputs are read: the options that all verbs have that read profiles.

use anyhow::{Context, bail};
use pyrograph_format::{Input, Options, READERS, Reader, Warnings, read, reader_named};
use pyrograph_profile::Profile;

use crate::say::say;
use crate::symbols::SymbolArgs;

/// What inputs are, and what of them is read.
#[derive(clap::Args)]
pub struct ReadArgs {
    /// The format of the inputs [default: by their content]; `pyrograph formats` lists them
    #[arg(long, value_name = "FORMAT", value_parser = format, help_heading = "Input")]
    from: Option<&'static dyn Reader>,

    /// The event to count where there are several [default: the first]
    #[arg(long, value_name = "EVENT", help_heading = "Input")]
    event_filter: Option<String>,

    /// What to show of inputs that count several things, as alloc_space [default: what they say]
    #[arg(long, value_name = "NAME", help_heading = "Input")]
    value: Option<String>,

    #[command(flatten)]
    symbols: SymbolArgs,
}

impl ReadArgs {
    /// Reads all inputs into one profile; says what could not be read. [`Profile::shown`] is the
    /// column to show.
    ///
    /// `options` is what the verb needs; what the user chose is put over it.
    ///
    /// # Errors
    ///
    /// If an input cannot be read at all; if nothing has the value that was asked for.
    pub fn read(
        &self,
        inputs: Vec<Input>,
        options: Options,
    ) -> anyhow::Result<(Profile, Warnings)> {
        let options = Options {
            from: self.from,
            event: self.event_filter.clone(),
            symbols: self.symbols.options(),
            ..options
        };
        let (mut profile, warnings) = read(inputs, &options)?;
        for warning in &warnings {
            say!("{warning}");
        }
        if let Some(name) = &self.value {
            let Some(column) = profile.column(name) else {
                let known = profile.value_types.iter().map(|of| format!("{}/{}", of.name, of.unit));
                let known = known.collect::<Vec<_>>().join(", ");
                bail!("find value {name}; the input has {known}");
            };
            profile.shown = column;
        }
        Ok((profile, warnings))
    }
}

fn format(name: &str) -> Result<&'static dyn Reader, String> {
    reader_named(name).ok_or_else(|| "no such format; `pyrograph formats` lists them".to_owned())
}

/// List the formats that can be read, with the tool that writes each
#[derive(clap::Args)]
pub struct FormatsArgs {}

/// Lists them.
///
/// # Errors
///
/// Those of standard output.
pub fn formats(_: FormatsArgs) -> anyhow::Result<std::process::ExitCode> {
    let width = READERS.iter().map(|reader| reader.name().len()).max().unwrap_or_default();
    let lines = READERS
        .iter()
        .map(|reader| format!("{:width$}  {}\n", reader.name(), reader.written_by()))
        .collect::<String>();
    crate::streams::write_output(None, |out| out.write_all(lines.as_bytes()))
        .context("failed to list formats")?;
    Ok(std::process::ExitCode::SUCCESS)
}
