//! Distinct labels for table rows whose shortened names or modules would be equal.

use std::collections::{BTreeMap, BTreeSet};

/// Labels for modules, given pairs of name and module: file names without folders, with as many folders as are needed
/// to distinguish rows with equal names.
pub fn file_labels<'a>(rows: &[(&str, &'a str)]) -> Vec<&'a str> {
    let mut modules: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for &(name, module) in rows {
        modules.entry(name).or_default().insert(module);
    }
    let label = |&(name, module): &(&str, &'a str)| {
        let others = || modules[name].iter().filter(|&&other| other != module);
        let mut starts = module.rmatch_indices('/').map(|(at, _)| at + 1).chain([0]);
        let is_own = |&at: &usize| others().all(|other| !is_end(other, &module[at..]));
        // A path that is the end of another one is shown whole.
        starts.find(is_own).map_or(module, |at| &module[at..])
    };
    rows.iter().map(label).collect()
}

/// Returns true if a path ends with these components.
fn is_end(path: &str, parts: &str) -> bool {
    path.strip_suffix(parts).is_some_and(|rest| rest.is_empty() || rest.ends_with('/'))
}

/// Number of characters to show before the difference if the rest does not fit.
const BEFORE: usize = 2;

/// Shortens names with `cut`. Names that would become equal are shown with the part that distinguishes them, as far
/// as `fits` permits.
pub fn cut_apart(
    names: &[&str],
    cut: impl Fn(&str) -> String,
    fits: impl Fn(&str) -> bool,
) -> Vec<String> {
    let mut shown: Vec<String> = names.iter().map(|name| cut(name)).collect();
    let mut alike: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (text, name) in shown.iter().zip(names) {
        alike.entry(text).or_default().insert(name);
    }
    let alike: Vec<BTreeSet<&str>> = alike.into_values().filter(|of| of.len() > 1).collect();
    let mut apart: BTreeMap<&str, String> = BTreeMap::new();
    for &name in alike.iter().flatten() {
        let group = alike.iter().filter(|of| of.contains(name)).flatten();
        let shared = group.filter(|&&other| other != name).map(|other| shared(name, other)).max();
        apart.insert(name, tail(name, shared.unwrap_or(0), &fits));
    }
    for (text, name) in shown.iter_mut().zip(names) {
        if let Some(apart) = apart.get(name) {
            text.clone_from(apart);
        }
    }
    shown
}

/// Length in characters of the common prefix of two texts.
fn shared(a: &str, b: &str) -> usize {
    a.chars().zip(b.chars()).take_while(|(a, b)| a == b).count()
}

/// The longest end of a name that fits and includes the difference. If none fits, the part from just before the
/// difference, cut at its end.
fn tail(name: &str, shared: usize, fits: &impl Fn(&str) -> bool) -> String {
    let starts: Vec<usize> = name.char_indices().map(|(at, _)| at).collect();
    let from = |at: usize| {
        let mark = if at > 0 { "…" } else { "" };
        format!("{mark}{}", &name[starts[at]..])
    };
    let last = shared.min(starts.len().saturating_sub(1));
    if let Some(text) = (0..=last).map(from).find(|text| fits(text)) {
        return text;
    }
    let mut text = from(last.saturating_sub(BEFORE));
    while !fits(&text) && text.chars().count() > BEFORE + 2 {
        text.truncate(text.trim_end_matches('…').len());
        text.pop();
        text.push('…');
    }
    text
}

/// Minimum width of names, even on narrow terminals.
pub(crate) const SHORTEST_NAME: usize = 16;

/// Cuts names to `room` characters such that different names stay different.
pub(crate) fn cut_all(names: &[impl AsRef<str>], room: usize) -> Vec<String> {
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    cut_apart(&names, |name| cut(name, room), |name| name.chars().count() <= room)
}

/// Cuts a name to `room` characters by removing the middle: the beginning and the end are most informative.
pub(crate) fn cut(name: &str, room: usize) -> String {
    let length = name.chars().count();
    if length <= room {
        return name.to_owned();
    }
    let kept = room.saturating_sub(1);
    let end = kept / 2;
    let head: String = name.chars().take(kept - end).collect();
    let tail: String = name.chars().skip(length - end).collect();
    format!("{head}…{tail}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_of_one_name_have_their_folders() {
        let rows = [
            ("main", "/usr/bin/app"),
            ("main", "/opt/bin/app"),
            ("main", "/opt/lib/other"),
            ("init", "/usr/bin/app"),
            ("f", "app"),
            ("f", "/x/app"),
            ("g", ""),
            ("g", "/x/app"),
        ];
        let expect = ["usr/bin/app", "opt/bin/app", "other", "app", "app", "x/app", "", "app"];
        assert_eq!(file_labels(&rows), expect);
    }

    #[test]
    fn names_that_were_cut_to_one_text() {
        let width = |text: &str| text.chars().count();
        let cut = |room: usize| {
            move |name: &str| match name.chars().count() > room {
                true => format!("{}…", name.chars().take(room - 1).collect::<String>()),
                false => name.to_owned(),
            }
        };
        let check = |names: &[&str], room: usize, expect: &[&str]| {
            assert_eq!(cut_apart(names, cut(room), |text| width(text) <= room), expect);
        };
        let names = ["ComparableTimSort.mergeLo", "ComparableTimSort.mergeHi", "main"];
        check(&names, 12, &["…ort.mergeLo", "…ort.mergeHi", "main"]);
        check(&names, 30, &names);
        check(&["abcdefghijklX", "abcdefghijklY"], 6, &["…ijklX", "…ijklY"]);
        check(&["abcdefXghijkl", "abcdefYghijkl"], 6, &["…efXg…", "…efYg…"]);
        check(&["abcdefg", "abcdefgh"], 4, &["…efg", "…fgh"]);
    }
}
