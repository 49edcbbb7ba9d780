//! `docs/options.md`: which subcommands have which option, and what each letter means; generated from the definitions.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;

/// Table of all options of all subcommands, except hidden ones, which exist for users of other programs.
fn table() -> String {
    let program = crate::command();
    let mut verbs = Vec::new();
    for verb in program.get_subcommands().filter(|verb| !verb.is_hide_set()) {
        // The views of `sched` are listed like subcommands.
        let views: Vec<_> =
            verb.get_subcommands().filter(|view| view.get_name() != "help").collect();
        verbs.push((verb.get_name().to_owned(), verb));
        verbs.extend(
            views.iter().map(|view| (format!("{} {}", verb.get_name(), view.get_name()), *view)),
        );
    }
    let mut options: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut letters: BTreeMap<char, BTreeMap<String, BTreeSet<String>>> = BTreeMap::new();
    for (name, verb) in &verbs {
        for arg in verb.get_arguments().filter(|arg| !arg.is_hide_set() && !arg.is_positional()) {
            let long =
                arg.get_long().map_or_else(|| arg.get_id().to_string(), |long| format!("--{long}"));
            options.entry(long.clone()).or_default().insert(name.clone());
            for letter in arg
                .get_short()
                .into_iter()
                .chain(arg.get_visible_short_aliases().unwrap_or_default())
            {
                letters
                    .entry(letter)
                    .or_default()
                    .entry(long.clone())
                    .or_default()
                    .insert(name.clone());
            }
        }
    }
    let list = |names: &BTreeSet<String>| names.iter().cloned().collect::<Vec<_>>().join(", ");
    let mut text = String::from(
        "# Options of all verbs\n\nMade from the definitions; `PYROGRAPH_BLESS=1 cargo test -p pyrograph options_table` makes it anew.\n\n\
         ## Letters\n\n| letter | option | verbs |\n|---|---|---|\n",
    );
    for (letter, meanings) in &letters {
        for (long, names) in meanings {
            writeln!(text, "| `-{letter}` | `{long}` | {} |", list(names)).expect("memory");
        }
    }
    text.push_str("\n## Options\n\n| option | verbs |\n|---|---|\n");
    for (long, names) in &options {
        writeln!(text, "| `{long}` | {} |", list(names)).expect("memory");
    }
    text
}

#[test]
fn the_table_of_options_is_as_the_definitions() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/options.md");
    let table = table();
    if std::env::var_os("PYROGRAPH_BLESS").is_some() {
        std::fs::write(&path, &table).expect("docs can be written");
    }
    let known = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(known == table, "docs/options.md differs; PYROGRAPH_BLESS=1 makes it anew");
}
