//! Several places by one name: patterns with `*` and `?`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use pyrograph_elf::object::ObjectSymbol;
use pyrograph_event::request::{Place, Trigger};
use pyrograph_record::matches_pattern;
use pyrograph_symbol::{demangle, open_image, static_probes};

use crate::error::PlaceError;
use crate::kernel_places;
use crate::places::split_file;

/// Maximum number of functions or probes that one pattern may stand for: to attach to each takes the kernel a millisecond, and
/// more to take them away.
const MOST: usize = 1000;

/// A place that a pattern stands for.
#[derive(Clone, Debug)]
pub(crate) struct Matching {
    /// The place as a text without a pattern.
    pub name: String,
    /// The place: of functions their own code, and no calls that were inlined.
    pub trigger: Trigger,
}

/// Returns the places that a pattern stands for: `uprobe:FILE:parse_*`, `usdt:FILE:PROVIDER:*`, `kprobe:vfs_*`. Names of
/// functions are compared as the symbol table has them, and demangled. `None` if the text is no pattern; a name that exists as
/// it is, such as `operator*`, is none.
pub(crate) fn expand(text: &str) -> Option<Result<Vec<Matching>, PlaceError>> {
    let (prefix, rest) = text.split_once(':')?;
    if !rest.contains(['*', '?']) {
        return None;
    }
    let matching = match prefix {
        "uprobe" => functions(prefix, rest, false),
        "uretprobe" => functions(prefix, rest, true),
        "usdt" => probes(rest),
        _ => kernel_places::matching(text).map(|found| {
            let matching = |(name, trigger)| Matching { name, trigger };
            found.map(|found| found.into_iter().map(matching).collect())
        }),
    }?;
    Some(matching.and_then(|found| few(text, found)))
}

/// Same as [`expand`], by name alone. What is no pattern stands for itself.
pub(crate) fn names(text: &str) -> Result<Vec<String>, PlaceError> {
    match expand(text) {
        Some(found) => Ok(found?.into_iter().map(|of| of.name).collect()),
        None => Ok(vec![text.to_owned()]),
    }
}

fn few(text: &str, found: Vec<Matching>) -> Result<Vec<Matching>, PlaceError> {
    match found.len() {
        0 => Err(PlaceError::NoMatch { pattern: text.to_owned() }),
        1..=MOST => Ok(found),
        count => Err(PlaceError::ManyMatches { pattern: text.to_owned(), count, most: MOST }),
    }
}

type Found = Option<Result<Vec<Matching>, PlaceError>>;

fn functions(prefix: &str, place: &str, returns: bool) -> Found {
    let (path, pattern) = split_file(place)?;
    let image = match open_image(Path::new(path)) {
        Ok(image) => image,
        Err(error) => return Some(Err(PlaceError::File(error))),
    };
    let mut offsets: BTreeMap<String, BTreeSet<u64>> = BTreeMap::new();
    for symbol in image.functions() {
        let Ok(name) = symbol.name() else { continue };
        if name == pattern {
            return None;
        }
        if (matches_pattern(pattern, name) || matches_pattern(pattern, &demangle(name)))
            && let Some(offset) = image.offset_of(symbol.address())
        {
            offsets.entry(name.to_owned()).or_default().insert(offset);
        }
    }
    let matching = |(name, offsets): (String, BTreeSet<u64>)| Matching {
        name: format!("{prefix}:{path}:{name}"),
        trigger: Trigger::Places {
            path: PathBuf::from(path),
            places: offsets.into_iter().map(|offset| Place { offset, semaphore: 0 }).collect(),
            returns,
        },
    };
    // Without a wildcard in the name, one is in the path of the file.
    let is_pattern = pattern.contains(['*', '?']);
    is_pattern.then(|| Ok(offsets.into_iter().map(matching).collect()))
}

fn probes(place: &str) -> Found {
    let (rest, name) = place.rsplit_once(':')?;
    let (path, provider) = rest.rsplit_once(':')?;
    let image = match open_image(Path::new(path)) {
        Ok(image) => image,
        Err(error) => return Some(Err(PlaceError::File(error))),
    };
    let mut found: BTreeMap<String, Vec<Place>> = BTreeMap::new();
    // Without a wildcard it is the whole name.
    let is_it = |pattern: &str, name: &str| match pattern.contains(['*', '?']) {
        true => matches_pattern(pattern, name),
        false => pattern == name,
    };
    for probe in static_probes(&image) {
        if is_it(provider, &probe.provider) && is_it(name, &probe.name) {
            let places = found.entry(format!("{}:{}", probe.provider, probe.name)).or_default();
            places.push(Place { offset: probe.offset, semaphore: probe.semaphore });
        }
    }
    let matching = |(name, places)| Matching {
        name: format!("usdt:{path}:{name}"),
        trigger: Trigger::Places { path: PathBuf::from(path), places, returns: false },
    };
    Some(Ok(found.into_iter().map(matching).collect()))
}

/// Joins places into one event: those of one file, or functions of the kernel. `None` if there are none.
pub(crate) fn joined(found: Vec<Matching>) -> Option<Trigger> {
    let mut triggers = found.into_iter().map(|of| of.trigger);
    let first = triggers.next()?;
    triggers.try_fold(first, |sum, next| match (sum, next) {
        (Trigger::Places { path, mut places, returns }, Trigger::Places { places: more, .. }) => {
            // Several names may be of one function.
            let known: BTreeSet<u64> = places.iter().map(|place| place.offset).collect();
            places.extend(more.into_iter().filter(|place| !known.contains(&place.offset)));
            Some(Trigger::Places { path, places, returns })
        }
        (
            Trigger::KernelFunctions { mut names, returns },
            Trigger::KernelFunctions { names: more, .. },
        ) => {
            names.extend(more);
            Some(Trigger::KernelFunctions { names, returns })
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_stand_for_what_they_match() {
        let path = std::env::current_exe().expect("a path");
        let text = path.to_str().expect("it is text");
        let expand = |pattern: &str| expand(&pattern.replace("FILE", text));
        assert!(expand("uprobe:FILE:main").is_none());
        assert!(expand("cycles:u").is_none());
        let found = expand("uprobe:FILE:mai?").expect("a pattern").expect("main");
        assert!(found.iter().any(|of| of.name == format!("uprobe:{text}:main")), "{found:?}");
        // By a name as the source has it.
        let found = expand("uretprobe:FILE:*matching*patterns_stand_for*").expect("a pattern");
        let found = found.expect("this test");
        assert!(found.iter().all(|of| of.name.starts_with("uretprobe:")), "{found:?}");
        let count = found.len();
        let Some(Trigger::Places { places, returns: true, .. }) = joined(found) else {
            panic!("they are places of one file");
        };
        assert!((1..=count).contains(&places.len()));
        assert_eq!(names("cycles:u").expect("no pattern"), ["cycles:u"]);
        let error = |pattern| expand(pattern).expect("a pattern").expect_err("wrong").to_string();
        assert!(error("uprobe:FILE:no_such_*").contains("matches nothing"));
        assert!(error("uprobe:FILE:*").contains("at most 1000"));
        assert!(error("uprobe:/nonexistent:*").contains("nonexistent"));
    }
}
