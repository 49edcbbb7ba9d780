//! How profiles are read, for `--offsets` alone, and which events are taken: two columns of text have
//! none of this.

use clap::{ArgGroup, ArgMatches, Args, Command, Error, FromArgMatches};

use crate::reading::ReadArgs;

/// [`ReadArgs`], each of which asks for `--offsets`; those that choose by thread, CPU and time may
/// stand with `--begin`, too.
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

/// Hints how to choose events. The group is that of the options which read them.
const OF_EVENTS: [&str; 6] = ["pid", "tid", "comm", "cpu", "time", "max_memory"];
const HAS_EVENTS: &str = "has_events";

fn only_with_offsets(command: Command, augment: fn(Command) -> Command) -> Command {
    let names = |command: &Command| -> Vec<clap::Id> {
        command.get_arguments().map(|argument| argument.get_id().clone()).collect()
    };
    let before = names(&command);
    let command = augment(command);
    let command =
        command.group(ArgGroup::new(HAS_EVENTS).args(["offsets", "begin"]).multiple(true));
    let added = names(&command).into_iter().filter(|name| !before.contains(name));
    added.fold(command, |command, name| {
        let wanted = if OF_EVENTS.contains(&name.as_str()) { HAS_EVENTS } else { "offsets" };
        command.mut_arg(name, |argument| argument.requires(wanted))
    })
}
