//! Reading of inputs: the options that all verbs have that read profiles.

use anyhow::{Context, bail};
use pyrograph_analyze::{Filter, Level, NameForm, function_names, merged_by_identity, named};
use pyrograph_format::{
    Options, READERS, Reader, SymbolOptions, WarningKind, Warnings, demangled, label_all, read,
    read_each, read_each_event, reader_named, remove_unfinished,
};
use pyrograph_memory::{limit, usual_limit};
use pyrograph_profile::{Profile, ValueType};
use pyrograph_symbol::demangle;

use crate::filters::{FilterArgs, LevelOrField};
use crate::found::say_read;
use crate::names::NameArgs;
use crate::say::say;
use crate::streams::Inputs;
use crate::symbols::SymbolArgs;
use crate::units::parse_size;

/// Kind of the inputs, and the parts of them to read.
#[derive(clap::Args)]
#[command(next_help_heading = "Input")]
pub struct ReadArgs {
    /// The format of the inputs [default: by their content]; `pyrograph formats` lists them
    #[arg(long, value_name = "FORMAT", value_parser = format)]
    from: Option<&'static dyn Reader>,

    /// The event to count where there are several [default: the first]
    #[arg(long, value_name = "EVENT")]
    event_filter: Option<String>,

    /// The value to use of inputs with several, as alloc_space [default: the one that the input names]
    #[arg(long, value_name = "NAME")]
    value: Option<String>,

    /// The unit of values where the input names none, as folded text: ns, us, ms, s, bytes, samples,
    /// or any other name
    #[arg(long, value_name = "UNIT", value_parser = value_of_unit)]
    unit: Option<ValueType>,

    /// Memory that reading may take: bytes, or with K, M, G [default: three quarters of what is free]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    max_memory: Option<usize>,

    /// Leave mangled names of C++ and Rust in text as they are
    #[arg(long)]
    no_demangle: bool,

    #[command(flatten)]
    names: NameArgs,

    #[command(flatten)]
    filters: FilterArgs,

    #[command(flatten)]
    symbols: SymbolArgs,
}

impl ReadArgs {
    /// Filter of events by thread, CPU and time, for subcommands that do not read profiles.
    pub fn of_events(&self) -> anyhow::Result<Filter> {
        if self.asks_for_profiles() {
            bail!(
                "--from, --event-filter, --value and --unit are for profiles, not for pairs of events"
            );
        }
        self.limit_memory();
        self.filters.of_events()
    }

    /// Form of names that the user requested, if any.
    pub fn names(&self) -> Option<NameForm> {
        self.names.form()
    }

    /// Number of levels of frames that the user requested at the root: processes, threads, hosts.
    pub fn levels(&self) -> usize {
        self.filters.count_of_levels()
    }

    /// Returns true if all inputs are merged into one profile, each under a frame of its own.
    pub fn merges(&self) -> bool {
        self.filters.merge()
    }

    /// Returns true if the user specified the unit of the values.
    pub fn names_unit(&self) -> bool {
        self.unit.is_some()
    }

    /// Returns true if no option specifies the format, or selects or changes what is read.
    pub fn keeps_all(&self) -> bool {
        !self.asks_for_profiles()
            && !self.filters.merge()
            && self.names.form().is_none()
            && self.filters.filter(&Profile::default()).is_empty()
    }

    /// Returns true if an option specifies the format, the event, the value or its unit.
    fn asks_for_profiles(&self) -> bool {
        let names = [&self.event_filter, &self.value];
        self.from.is_some() || self.unit.is_some() || names.into_iter().any(Option::is_some)
    }

    /// Limits the memory that reading may take from now on.
    pub fn limit_memory(&self) {
        limit_memory(self.max_memory);
    }

    /// Reads all inputs into one profile and applies the filters; prints what could not be read. [`Profile::shown`] is
    /// the column to show, [`Profile::whole`] the total that percentages refer to.
    ///
    /// `options` is what the subcommand needs; the user's choices override it.
    pub fn read(&self, inputs: Inputs, options: Options) -> anyhow::Result<(Profile, Warnings)> {
        self.read_with(inputs, options, |profile| profile)
    }

    /// Same as [`ReadArgs::read`], with `prepare` applied between reading and filtering.
    pub fn read_with(
        &self,
        inputs: Inputs,
        options: Options,
        prepare: impl FnOnce(Profile) -> Profile,
    ) -> anyhow::Result<(Profile, Warnings)> {
        let (profile, warnings) = self.read_columns(inputs, options, prepare)?;
        Ok((self.filters.filter(&profile).apply(profile)?, warnings))
    }

    /// Same as [`ReadArgs::read`], but returns one column, or one for each event if these were requested.
    pub fn read_events(&self, inputs: Inputs, options: Options) -> anyhow::Result<Profile> {
        let (mut profile, _) = self.read_columns(inputs, options, |profile| profile)?;
        if !self.filters.events() {
            profile.keep_shown();
        }
        let mut filter = self.filters.filter(&profile);
        filter.by.retain(|&level| level != Level::Event);
        Ok(filter.apply(profile)?)
    }

    /// Reads everything that was requested from the inputs, before filtering.
    fn read_columns(
        &self,
        inputs: Inputs,
        options: Options,
        prepare: impl FnOnce(Profile) -> Profile,
    ) -> anyhow::Result<(Profile, Warnings)> {
        self.limit_memory();
        let mut options = Options {
            from: self.from,
            event: self.event_filter.clone(),
            unit: self.unit.clone(),
            symbols: SymbolOptions { lines: options.symbols.lines, ..self.symbols.options() },
            ..options
        };
        self.filters.need(&mut options);
        options.field = self.filters.field()?.map(str::to_owned);
        let Inputs { list: inputs, found } = inputs;
        let inputs = if self.filters.merge() { label_all(inputs) } else { inputs };
        // Names of functions in each input, if there are several.
        let mut functions = Vec::new();
        let (mut profile, warnings) = match self.filters.events() && options.event.is_none() {
            true => read_each_event(inputs, &options)?,
            false if inputs.len() > 1 => read_each(inputs, &options, &mut |profile| {
                let readable = |name: &String| demangle(name).into_owned();
                functions.push(function_names(profile).iter().map(readable).collect());
            })?,
            false => read(inputs, &options)?,
        };
        if let Some(path) = found {
            say_read(path, &profile);
        }
        if let Some(field) = &options.field
            && profile.threads.iter().all(|of| of.field.is_empty())
        {
            bail!(
                "no event that is counted has a field '{field}' (`pyrograph script` shows their fields); --by also takes {}",
                LevelOrField::names()
            );
        }
        for (kind, line) in warnings.lines() {
            match kind {
                WarningKind::OnlyEvent(_) => say!("{line}; --event-filter chooses another"),
                _ => say!("{line}"),
            }
        }
        if let Some(name) = &self.value {
            let Some(column) = profile.column(name) else {
                let known = profile.value_types.iter().map(|of| match of.unit.as_str() {
                    "" => of.name.clone(),
                    unit => format!("{}/{unit}", of.name),
                });
                let known = known.collect::<Vec<_>>().join(", ");
                bail!("no value {name}; the input has {known}");
            };
            profile.shown = column;
        }
        let profile = prepare(profile);
        let form = self.names.form();
        let keeps = self.no_demangle || form == Some(NameForm::Raw);
        let profile = match keeps {
            true => profile,
            false => merged_by_identity(demangled(profile), &functions),
        };
        let profile = match form {
            Some(form) => named(profile, form),
            None => profile,
        };
        say_saturated(&profile);
        Ok((profile, warnings))
    }

    /// Options for the lookup of symbols.
    pub fn symbols(&self) -> SymbolOptions {
        self.symbols.options()
    }
}

/// Limits the memory that reading may take from now on.
pub fn limit_memory(most: Option<usize>) {
    let (how, more) = match most {
        Some(_) => ("", "--max-memory"),
        None => (", three quarters of what is free", "--max-memory SIZE"),
    };
    let message = |mib| {
        format!(
            "pyrograph: failed to read: this input needs more than {mib} MiB of memory{how}; {more} permits more\n"
        )
    };
    if let Some(bytes) = most.map(|bytes| bytes as u64).or_else(usual_limit) {
        limit(bytes, message, remove_unfinished);
    }
}

/// Warns about columns whose sum exceeds 64 bits.
fn say_saturated(profile: &Profile) {
    for (column, of) in profile.value_types.iter().enumerate() {
        if profile.samples.total(column) == u64::MAX {
            let name = if of.is_unnamed() { "values" } else { &of.name };
            say!("the {name} add up to more than 2^64: sums are too low, and so are percentages");
        }
    }
}

fn value_of_unit(unit: &str) -> Result<ValueType, String> {
    ValueType::of_unit(unit).ok_or_else(|| "must be a unit".to_owned())
}

/// Finds the reader of a format by name.
pub fn format(name: &str) -> Result<&'static dyn Reader, String> {
    reader_named(name).ok_or_else(|| "no such format; `pyrograph formats` lists them".to_owned())
}

/// List the formats that can be read, with the tool that writes each, and those that are written
#[derive(clap::Args)]
pub struct FormatsArgs {}

/// Prints the list.
pub fn formats(_: FormatsArgs) -> anyhow::Result<std::process::ExitCode> {
    let read: Vec<_> =
        READERS.iter().map(|reader| (reader.name(), reader.written_by().to_owned())).collect();
    let written = pyrograph_export::formats();
    let width = read.iter().chain(&written).map(|(name, _)| name.len()).max().unwrap_or_default();
    let list = |formats: &[(&str, String)]| -> String {
        formats.iter().map(|(name, what)| format!("  {name:width$}  {what}\n")).collect()
    };
    let lines = format!(
        "Read, and written by:\n{}\nWritten by `pyrograph convert`, by the ending of -o or with --to:\n{}",
        list(&read),
        list(&written)
    );
    crate::streams::write_output(None, |out| out.write_all(lines.as_bytes()))
        .context("failed to list formats")?;
    Ok(std::process::ExitCode::SUCCESS)
}
