//! Recordings of many kinds, as `perf script` (6.1) printed them with various options, and what
//! they fold to.
//!
//! `fixtures/NAME.perf` folds to `fixtures/NAME.folded`. To bless what comes out now, after looking
//! at it: `PYROGRAPH_BLESS=1 cargo test -p pyrograph-format --test fixtures`.

use std::fs;
use std::path::Path;

use pyrograph_format::{Input, Options, read, write_folded};
use pyrograph_profile::{LabelOptions, Tree};

fn fold(name: &str, text: &[u8]) -> String {
    let inputs = vec![Input::bytes(name, text)];
    let (profile, warnings) = read(inputs, &Options::default()).expect(name);
    assert!(!warnings.any_loss(), "{name}: {warnings:?}");
    let labels = LabelOptions {
        mark_kernel: true,
        mark_jit: true,
        mark_inlined: true,
        source: true,
        ..LabelOptions::default()
    };
    let mut out = Vec::new();
    for warning in &warnings {
        out.extend_from_slice(format!("# {warning}\n").as_bytes());
    }
    write_folded(&Tree::new(&profile, &labels), &mut out).expect("writing to memory");
    String::from_utf8(out).expect("folded text is UTF-8")
}

#[test]
fn recordings_fold_to_what_was_blessed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let bless = std::env::var_os("PYROGRAPH_BLESS").is_some();
    let mut count = 0;
    for entry in fs::read_dir(&folder).expect("the folder of fixtures") {
        let path = entry.expect("an entry").path();
        if path.extension().is_none_or(|extension| extension != "perf") {
            continue;
        }
        count += 1;
        let name = path.file_stem().and_then(|stem| stem.to_str()).expect("a name");
        let folded = fold(name, &fs::read(&path).expect(name));
        let expected = path.with_extension("folded");
        if bless {
            fs::write(&expected, &folded).expect("a fixture to bless");
        }
        assert_eq!(folded, fs::read_to_string(&expected).expect(name), "{name}");
    }
    assert!(count >= 25, "{count} fixtures");
}

#[test]
fn line_ends_and_the_last_blank_line_make_no_difference() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    for name in ["frame_pointers", "srcline", "no_callchains", "several_events", "fields_ip_sym"] {
        let text = fs::read_to_string(folder.join(name).with_extension("perf")).expect(name);
        let expected = fold(name, text.as_bytes());
        assert_eq!(fold(name, text.replace('\n', "\r\n").as_bytes()), expected, "{name}");
        assert_eq!(fold(name, text.trim_end().as_bytes()), expected, "{name}");
        assert_eq!(fold(name, format!("{text}\n\n").as_bytes()), expected, "{name}");
    }
}
