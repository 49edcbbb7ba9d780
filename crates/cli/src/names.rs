//! Options for the form of function names.

use pyrograph_analyze::NameForm;

use crate::units::one_of;

/// The flags.
#[derive(Default, clap::Args)]
pub struct NameArgs {
    /// How functions are named [default: as they are read, with parameters where overloads need them; short in tables and
    /// narrow boxes]
    #[arg(long, value_name = "FORM", value_parser = one_of([
        (NameForm::Full, "full", "With all that is known: parameters, packages, namespaces"),
        (NameForm::Short, "short", "Without packages, namespaces and long template arguments, as far as that tells them apart"),
        (NameForm::Identity, "identity",
            "Without what a build or run numbers: lambdas, generated classes, clones, tiers, hashes, lines"),
        (NameForm::Raw, "raw", "As they were read, mangled ones too"),
    ]))]
    names: Option<NameForm>,

    /// --names identity, as async-profiler's converter calls it
    #[arg(long = "norm", hide = true, conflicts_with = "names")]
    norm: bool,
}

impl NameArgs {
    /// The requested form, if any.
    pub fn form(&self) -> Option<NameForm> {
        self.norm.then_some(NameForm::Identity).or(self.names)
    }
}
