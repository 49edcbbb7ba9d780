//! The table of writers, one file per format.

mod callgrind;
mod chrome_trace;
mod firefox;
mod folded;
mod json;
mod otlp;
mod pprof;
mod program;
#[cfg(feature = "store")]
mod segment;
mod speedscope;
mod start_lines;
mod tables;

use pyrograph_profile::Profile;

use crate::reader::same_name;
use crate::warnings::{WarningKind, Warnings};
use crate::writer::Writer;

pub(crate) use otlp::GUESSED_ATTRIBUTE;

pub use folded::{counts_of_folded, write_folded};

/// All formats that can be written.
pub static WRITERS: &[&dyn Writer] = &[
    &folded::Folded,
    &pprof::Pprof,
    &firefox::Firefox,
    &speedscope::Speedscope,
    &callgrind::Callgrind,
    &chrome_trace::ChromeTrace,
    &otlp::Otlp,
    #[cfg(feature = "store")]
    &segment::KeptProfile,
];

/// Chooses the format of a file by the ending of its name; the longest matching ending wins.
pub fn writer_for(file_name: &str) -> Option<&'static dyn Writer> {
    // File names as valgrind writes them and KCachegrind looks for them.
    if file_name.starts_with("callgrind.out") {
        return writer_named("callgrind");
    }
    let length = |ending: &&str| {
        let stem = file_name.strip_suffix(*ending)?;
        stem.ends_with('.').then_some(ending.len())
    };
    let fits = |writer: &&'static dyn Writer| {
        writer.endings().iter().filter_map(length).max().map(|length| (length, *writer))
    };
    WRITERS.iter().filter_map(fits).max_by_key(|(length, _)| *length).map(|(_, writer)| writer)
}

/// Other formats that share the last ending of `file_name`, each with its own longer ending. Empty if the chosen format
/// was not selected by its last ending alone: `x.json` is a Firefox profile, and `.speedscope.json` another format.
pub fn similar_endings(file_name: &str) -> Vec<(&'static str, &'static dyn Writer)> {
    let chosen = writer_for(file_name);
    let (Some(chosen), Some((_, last))) = (chosen, file_name.rsplit_once('.')) else {
        return Vec::new();
    };
    let fitting = chosen.endings().iter().filter(|ending| file_name.ends_with(*ending));
    if fitting.max_by_key(|ending| ending.len()).is_none_or(|longest| *longest != last) {
        return Vec::new();
    }
    let longer = |ending: &&&str| ending.ends_with(&format!(".{last}"));
    let others = WRITERS.iter().filter(|writer| writer.name() != chosen.name());
    others.filter_map(|other| Some((*other.endings().iter().find(longer)?, *other))).collect()
}

/// Finds a writer by its name or by one of its other names. Case, blanks and punctuation do not matter.
pub fn writer_named(name: &str) -> Option<&'static dyn Writer> {
    WRITERS.iter().copied().find(|writer| names(*writer).any(|of| same_name(of, name)))
}

fn names(writer: &dyn Writer) -> impl Iterator<Item = &'static str> {
    std::iter::once(writer.name()).chain(writer.also_called().iter().copied())
}

/// Warnings about a profile that `writer` would write: one lists the parts that the format has no place for, one how its
/// values change. Empty if the format holds everything.
pub fn not_held(profile: &Profile, writer: &dyn Writer) -> Warnings {
    let mut warnings = Warnings::default();
    let missing = writer.capabilities().missing(profile);
    if !missing.is_empty() {
        let said =
            format!("left out, as {} has no place for it: {}", writer.name(), missing.join("; "));
        warnings.add(WarningKind::NotHeld(said), 1, []);
    }
    if let Some(changes) = writer.changes(profile) {
        warnings.add(WarningKind::NotHeld(changes), 1, []);
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings() {
        let name = |file| writer_for(file).map(Writer::name);
        assert_eq!(name("out.folded"), Some("folded"));
        assert_eq!(name("outfolded"), None);
        assert_eq!(name("out.svg"), None);
        assert_eq!(name("a.b.pb.gz"), Some("pprof"));
        assert_eq!(name("pb.gz"), None);
        assert_eq!(name("a.json"), Some("firefox"));
        assert_eq!(name("a.speedscope.json"), Some("speedscope"));
        assert_eq!(name("a.trace.json"), Some("Chrome trace"));
        assert_eq!(name("callgrind.out.12"), Some("callgrind"));
    }

    #[test]
    fn names_that_people_use() {
        let name = |name| writer_named(name).map(Writer::name);
        assert_eq!(name("chrome-trace"), Some("Chrome trace"));
        assert_eq!(name("chrome"), Some("Chrome trace"));
        assert_eq!(name("Perfetto"), Some("Chrome trace"));
        assert_eq!(name("firefox-profiler"), Some("firefox"));
        assert_eq!(name("collapsed"), Some("folded"));
        assert_eq!(name("KCachegrind"), Some("callgrind"));
        assert_eq!(name("opentelemetry"), Some("OTLP"));
        assert_eq!(name("jfr"), None);
    }

    #[test]
    fn no_two_formats_share_a_name_or_an_ending() {
        let mut names: Vec<&str> = WRITERS.iter().flat_map(|writer| names(*writer)).collect();
        let mut endings: Vec<&str> =
            WRITERS.iter().flat_map(|writer| writer.endings().iter().copied()).collect();
        for list in [&mut names, &mut endings] {
            let count = list.len();
            list.sort_unstable();
            list.dedup();
            assert_eq!(list.len(), count);
        }
    }
}
