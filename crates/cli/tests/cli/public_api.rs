//! The public interfaces of the crates that others can use, as lists in `crates/NAME/public-api.txt`: what changes there is
//! a change for their users, and belongs in the changelog.
//!
//! `PYROGRAPH_BLESS=1 cargo test -p pyrograph --test cli public_api -- --include-ignored` writes the lists anew.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The model, which all others build on, is looked at each time.
const MODEL: &str = "profile";
const OTHERS: [&str; 7] = ["elf", "event", "format", "perf-data", "session", "symbol", "unwind"];

/// A target folder of its own: Cargo builds one thing at a time in each, and lints may be built beside the tests.
fn target() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("public-api")
}

/// The public items of a crate, one a line; an error where this toolchain cannot list them.
fn items(name: &str) -> Result<String, String> {
    let output = Command::new(env!("CARGO"))
        // The JSON that rustdoc writes is not stable yet: its version is part of it.
        .env("RUSTC_BOOTSTRAP", "1")
        .args(["rustdoc", "--locked", "--quiet", "--lib", "-p", &format!("pyrograph-{name}")])
        .args(["--manifest-path", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")])
        .arg("--target-dir")
        .arg(target())
        .args(["--", "-Zunstable-options", "--output-format", "json", "--cap-lints", "allow"])
        .output()
        .map_err(|error| error.to_string())?;
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    let json = target().join(format!("doc/pyrograph_{}.json", name.replace('-', "_")));
    let api = public_api::Builder::from_rustdoc_json(json)
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .omit_auto_derived_impls(true)
        .build()
        .map_err(|error| error.to_string())?;
    let mut text = String::new();
    for item in api.items() {
        writeln!(text, "{item}").expect("text can grow");
    }
    Ok(text)
}

#[test]
fn the_interface_of_the_model_is_as_recorded() {
    check(&[MODEL]);
}

#[test]
#[ignore = "nightly: each crate is documented once more, in a minute"]
fn interfaces_are_as_recorded() {
    check(&OTHERS);
}

fn check(crates: &[&str]) {
    for name in crates {
        let items = match items(name) {
            Ok(items) => items,
            // Of another version than that which the crate `public-api` reads: see `Cargo.toml`.
            Err(error) => return eprintln!("skipped: public interfaces: {error}"),
        };
        assert!(items.lines().count() > 20, "{name}: {items}");
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../{name}/public-api.txt"));
        if std::env::var_os("PYROGRAPH_BLESS").is_some() {
            std::fs::write(&path, items).expect("the list can be written");
            continue;
        }
        let recorded = std::fs::read_to_string(&path).unwrap_or_default();
        let lines = |text: &str, other: &str| {
            let new = text.lines().filter(|line| !other.lines().any(|seen| seen == *line));
            new.map(|line| format!("\n    {line}")).collect::<String>()
        };
        assert!(
            items == recorded,
            "the public interface of {name} changed:\n  gone:{}\n  new:{}\n\
             if that is meant: PYROGRAPH_BLESS=1 cargo test -p pyrograph --test cli public_api -- --include-ignored",
            lines(&recorded, &items),
            lines(&items, &recorded)
        );
    }
}
