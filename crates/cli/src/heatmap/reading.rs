//! How profiles are read, for `--offsets` alone: two columns of text have none of this.

use clap::{ArgMatches, Args, Command, Error, FromArgMatches};

use crate::reading::ReadArgs;

/// [`ReadArgs`], each of which asks for `--offsets`.
pub struct ProfileArgs(pub ReadArgs);

impl FromArgMatches for ProfileArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        ReadArgs::from_arg_matches(matches).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.0.update_from_arg_matches(matches)
    }
}

impl Args for ProfileArgs {
    fn augment_args(command: Command) -> Command {
        only_with_offsets(command, ReadArgs::augment_args)
    }

    fn augment_args_for_update(command: Command) -> Command {
        only_with_offsets(command, ReadArgs::augment_args_for_update)
    }
}

fn only_with_offsets(command: Command, augment: fn(Command) -> Command) -> Command {
    let names = |command: &Command| -> Vec<clap::Id> {
        command.get_arguments().map(|argument| argument.get_id().clone()).collect()
    };
    let before = names(&command);
    let command = augment(command);
    let added = names(&command).into_iter().filter(|name| !before.contains(name));
    added.fold(command, |command, name| {
        command.mut_arg(name, |argument| argument.requires("offsets"))
    })
}
