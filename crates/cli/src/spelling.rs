//! Alternative spellings of options, which users of `flamegraph.pl` and similar scripts are used to.

use std::ffi::OsString;

/// Normalizes arguments for clap: `-title X`, `-title=X`, `--Tit X` become `--title=X`, as the established scripts
/// accept them. Values are joined to their options, so that a value may begin with a hyphen. Unknown options are left
/// unchanged, so that clap reports them.
pub fn normalized<A: clap::Args>(arguments: Vec<OsString>) -> Vec<OsString> {
    let command = A::augment_args(clap::Command::new("verb"));
    let options: Vec<(String, bool)> = command
        .get_arguments()
        .filter_map(|option| Some((option.get_long()?.to_owned(), takes_next(option))))
        .chain([("help".to_owned(), false)])
        .collect();
    let mut normal = Vec::with_capacity(arguments.len());
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        if argument == "--" {
            normal.push(argument);
            normal.extend(arguments);
            break;
        }
        let known = argument.to_str().and_then(|text| {
            let body = text.strip_prefix("--").or_else(|| text.strip_prefix('-'))?;
            let (name, value) = match body.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (body, None),
            };
            // `-o` and `-h` are short options of ours, unless they have two hyphens.
            (!["o", "h"].contains(&name) || text.starts_with("--"))
                .then(|| find(&options, &name.to_lowercase()))
                .flatten()
                .map(|option| (option, value))
        });
        normal.push(match known {
            None => argument,
            Some(((name, false), None)) => format!("--{name}").into(),
            Some(((name, _), Some(value))) => format!("--{name}={value}").into(),
            Some(((name, true), None)) => match arguments.next() {
                None => format!("--{name}").into(),
                Some(value) => {
                    let mut joined = OsString::from(format!("--{name}="));
                    joined.push(value);
                    joined
                }
            },
        });
    }
    normal
}

/// Returns true if the value of an option may be the next argument. An optional value must be given after an equals sign.
pub fn takes_next(option: &clap::Arg) -> bool {
    let optional = option.get_num_args().is_some_and(|count| count.min_values() == 0);
    option.get_action().takes_values() && !optional
}

/// Finds the option with this name, or the only one with this prefix.
fn find<'a>(options: &'a [(String, bool)], name: &str) -> Option<&'a (String, bool)> {
    let exact = options.iter().find(|(long, _)| long == name);
    let mut beginning =
        options.iter().filter(|(long, _)| !name.is_empty() && long.starts_with(name));
    exact.or_else(|| beginning.next().filter(|_| beginning.next().is_none()))
}
