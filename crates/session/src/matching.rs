//! Several places by one name: patterns with `*` and `?`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use pyrograph_elf::object::ObjectSymbol;
use pyrograph_event::request::{Place, Trigger};
use pyrograph_record::matches_pattern;
use pyrograph_symbol::{demangle, function_names, open_image, static_probes};

use crate::error::PlaceError;
use crate::kernel_places;
use crate::places::split_file;

/// Maximum number of functions or probes that one pattern may stand for: to attach to each takes the kernel a millisecond, and
/// more to take them away.
const MOST: usize = 1000;

/// Returns the places that a pattern stands for, each as a text without one: `uprobe:FILE:parse_*`, `usdt:FILE:PROVIDER:*`,
/// `kprobe:vfs_*`. Names of functions are compared as the symbol table has them, and demangled. `None` if the text is no
/// pattern; a name that exists as it is, such as `operator*`, is none.
pub(crate) fn expand(text: &str) -> Option<Result<Vec<String>, PlaceError>> {
    let (prefix, rest) = text.split_once(':')?;
    if !rest.contains(['*', '?']) {
        return None;
    }
    let matching = match prefix {
        "uprobe" | "uretprobe" => functions(rest),
        "usdt" => probes(rest),
        _ => kernel_places::pattern(text).map(|pattern| {
            let names = kernel_places::watchable();
            Ok(names.into_iter().filter(|name| matches_pattern(pattern, name)).collect())
        }),
    }?;
    Some(matching.and_then(|names| few(text, prefix, names)))
}

fn few(text: &str, prefix: &str, names: Vec<String>) -> Result<Vec<String>, PlaceError> {
    match names.len() {
        0 => Err(PlaceError::NoMatch { pattern: text.to_owned() }),
        1..=MOST => Ok(names.into_iter().map(|name| format!("{prefix}:{name}")).collect()),
        count => Err(PlaceError::ManyMatches { pattern: text.to_owned(), count, most: MOST }),
    }
}

fn functions(place: &str) -> Option<Result<Vec<String>, PlaceError>> {
    let (path, pattern) = split_file(place)?;
    let image = match open_image(Path::new(path)) {
        Ok(image) => image,
        Err(error) => return Some(Err(PlaceError::File(error))),
    };
    let names = function_names(&image);
    if !pattern.contains(['*', '?']) || names.contains(&pattern) {
        return None;
    }
    let is_meant =
        |name: &&&str| matches_pattern(pattern, name) || matches_pattern(pattern, &demangle(name));
    let found = names.iter().filter(is_meant).map(|name| format!("{path}:{name}"));
    Some(Ok(found.collect()))
}

fn probes(place: &str) -> Option<Result<Vec<String>, PlaceError>> {
    let (rest, name) = place.rsplit_once(':')?;
    let (path, provider) = rest.rsplit_once(':')?;
    let image = match open_image(Path::new(path)) {
        Ok(image) => image,
        Err(error) => return Some(Err(PlaceError::File(error))),
    };
    let all = static_probes(&image);
    let meant = all.iter().filter(|probe| {
        matches_pattern(provider, &probe.provider) && matches_pattern(name, &probe.name)
    });
    let found: BTreeSet<String> =
        meant.map(|probe| format!("{path}:{}:{}", probe.provider, probe.name)).collect();
    Some(Ok(found.into_iter().collect()))
}

/// Joins places into one event: those of one file, or functions of the kernel. `None` if they are of several kinds.
pub(crate) fn joined(triggers: Vec<Trigger>) -> Option<Trigger> {
    let mut triggers = triggers.into_iter();
    let first = whole(triggers.next()?)?;
    triggers.try_fold(first, |sum, next| match (sum, whole(next)?) {
        (
            Trigger::Places { path, mut places, returns },
            Trigger::Places { path: other, places: more, returns: same },
        ) if path == other && returns == same => {
            // Several names may be of one function.
            let is_new = |place: &Place| places.iter().all(|known| known.offset != place.offset);
            let more: Vec<Place> = more.into_iter().filter(is_new).collect();
            places.extend(more);
            Some(Trigger::Places { path, places, returns })
        }
        (
            Trigger::KernelFunctions { mut names, returns },
            Trigger::KernelFunctions { names: more, returns: same },
        ) if returns == same => {
            names.extend(more);
            Some(Trigger::KernelFunctions { names, returns })
        }
        _ => None,
    })
}

/// A function by its places.
fn whole(trigger: Trigger) -> Option<Trigger> {
    match trigger {
        Trigger::Function { path, name, offset: 0, returns } => places(path, &name, returns),
        Trigger::Places { .. } | Trigger::KernelFunctions { .. } => Some(trigger),
        _ => None,
    }
}

fn places(path: PathBuf, name: &str, returns: bool) -> Option<Trigger> {
    let image = open_image(&path).ok()?;
    let addresses = image.functions_named(name).map(|symbol| symbol.address());
    let offsets: BTreeSet<u64> = addresses.filter_map(|address| image.offset_of(address)).collect();
    let places = offsets.into_iter().map(|offset| Place { offset, semaphore: 0 }).collect();
    Some(Trigger::Places { path, places, returns })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::places;

    #[test]
    fn patterns_stand_for_what_they_match() {
        let path = std::env::current_exe().expect("a path");
        let text = path.to_str().expect("it is text");
        let expand = |pattern: &str| expand(&pattern.replace("FILE", text));
        assert!(expand("uprobe:FILE:main").is_none());
        assert!(expand("cycles:u").is_none());
        let found = expand("uprobe:FILE:mai?").expect("a pattern").expect("main");
        assert!(found.contains(&format!("uprobe:{text}:main")), "{found:?}");
        // By a name as the source has it.
        let found = expand("uretprobe:FILE:*matching*patterns_stand_for*").expect("a pattern");
        let found = found.expect("this test");
        assert!(found.iter().all(|of| of.starts_with("uretprobe:") && !of.contains("::")));
        let triggers: Vec<Trigger> = found
            .iter()
            .map(|of| places::named(of).expect("a place").expect("it is there"))
            .collect();
        let count = triggers.len();
        let Some(Trigger::Places { places, returns: true, .. }) = joined(triggers) else {
            panic!("{found:?} are places of one file");
        };
        assert!((1..=count).contains(&places.len()));
        let error = |pattern| expand(pattern).expect("a pattern").expect_err("wrong").to_string();
        assert!(error("uprobe:FILE:no_such_*").contains("matches nothing"));
        assert!(error("uprobe:FILE:*").contains("at most 1000"));
        assert!(error("uprobe:/nonexistent:*").contains("nonexistent"));
    }
}
