//! Detection of the order of chains, from the outermost caller or from the callee, which reports do not state.

use hashbrown::{HashMap, HashSet};

use super::Report;
use super::entry::Entry;
use crate::read::text::is_kernel_entry;

impl Report {
    /// True if chains begin with the outermost caller.
    pub(super) fn callers_first(&self) -> bool {
        if self.columns.has_children
            && let Some(callers_first) = self.callers_first_of_children()
        {
            return callers_first;
        }
        let (mut first, mut last) = (0usize, 0usize);
        let (mut firsts, mut lasts) = (HashSet::new(), HashSet::new());
        for (entry, begin, end) in self.ends_of_paths() {
            let is_own = !entry.symbol.is_empty() && entry.own == entry.percent;
            first += usize::from(is_own && entry.is_symbol(end));
            last += usize::from(is_own && entry.is_symbol(begin));
            first += usize::from(is_root(begin));
            last += usize::from(is_root(end));
            firsts.insert(begin);
            lasts.insert(end);
        }
        if first == last { firsts.len() <= lasts.len() } else { first > last }
    }

    /// The same for entries that include their callees. Chains of an entry that calls nothing begin or end with it;
    /// those of all other entries begin with it in both orders, but end in its callees or its callers. `None` if
    /// undecided.
    fn callers_first_of_children(&self) -> Option<bool> {
        if let Some(decided) = self.callers_first_by_sums() {
            return Some(decided);
        }
        let calls_nothing = |entry: &Entry| entry.own == entry.percent && entry.own > 0;
        let by_symbol: HashMap<&str, &Entry> =
            self.entries.iter().map(|entry| (entry.symbol.as_str(), entry)).collect();
        let (mut own, mut called) = (0isize, 0isize);
        for (entry, begin, end) in self.ends_of_paths() {
            if calls_nothing(entry) {
                own += isize::from(entry.is_symbol(end)) - isize::from(entry.is_symbol(begin));
            } else if entry.is_symbol(begin) {
                let last = by_symbol.get(end);
                called += isize::from(last.is_some_and(|last| calls_nothing(last)));
                called -= isize::from(is_root(end) || last.is_some_and(|last| last.own == 0));
            }
        }
        [own, called].into_iter().find(|&votes| votes != 0).map(|votes| votes > 0)
    }

    /// The same by sums: callees of an entry account for at most its total minus its self value; callers account for
    /// nearly its whole total. This also works for branches that are cut off because the rest is below perf's limit.
    /// `None` if no entry with a self value has branches.
    fn callers_first_by_sums(&self) -> Option<bool> {
        if self.is_fractal() {
            return None;
        }
        let mut decided = None;
        for entry in self.entries.iter().filter(|entry| entry.own > 0 && !entry.symbol.is_empty()) {
            let (sum, branches) = entry.chains.behind(entry.percent, |name| entry.is_symbol(name));
            // Each number may have been rounded.
            if sum > entry.percent.saturating_sub(entry.own).saturating_add(branches + 2) {
                return Some(false);
            }
            if sum > 0 {
                decided = Some(true);
            }
        }
        decided
    }

    /// Iterates over chains of two or more frames: the entry, and the chain's first and last frame.
    fn ends_of_paths<'a>(&'a self) -> impl Iterator<Item = (&'a Entry, &'a str, &'a str)> {
        let paths = |entry: &'a Entry| entry.chains.paths().map(move |path| (entry, path));
        self.entries.iter().flat_map(paths).filter_map(|(entry, path)| match path[..] {
            [begin, .., end] => Some((entry, begin, end)),
            _ => None,
        })
    }
}

/// True for functions at the root of programs' stacks.
fn is_root(frame: &str) -> bool {
    const ROOTS: &[&str] = &[
        "_start",
        "main",
        "__libc_start_main",
        "__libc_start_call_main",
        "start_thread",
        "clone",
        "clone3",
        "__clone",
        "__clone3",
        "thread_start",
        "_dl_start_user",
        "__restore_rt",
        "runtime.goexit",
    ];
    let name = without_version(frame.strip_suffix(" (inlined)").unwrap_or(frame));
    ROOTS.contains(&name) || name.starts_with("__libc_start_main") || is_kernel_entry(name)
}

fn without_version(symbol: &str) -> &str {
    symbol.split('@').next().unwrap_or(symbol)
}
