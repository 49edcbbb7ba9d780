//! Report of a profile: its functions and its call tree.

use pyrograph_profile::{LabelOptions, Profile, ValueType};

use crate::{CallTree, CallTreeOptions, ShownFunction, ShownNames, TopRow, call_tree, top};

/// Options of a report.
#[derive(Clone, Debug, Default)]
pub struct ReportOptions {
    /// Options for function labels.
    pub labels: LabelOptions,
    /// Maximum number of functions; all if `None`.
    pub functions: Option<usize>,
    /// Sorts functions by total instead of self value.
    pub by_total: bool,
    /// Includes source lines of functions, except lines below the tree's `min_share`.
    pub lines: bool,
    /// Options of the call tree; its column is also used for functions.
    pub tree: CallTreeOptions,
}

/// A report.
#[derive(Clone, Debug)]
pub struct Report {
    /// Value type of the column.
    pub value_type: ValueType,
    /// Sum of the samples.
    pub total: u64,
    /// Base of percentages; more than `total` if filters left out samples.
    pub whole: u64,
    /// Functions, highest value first.
    pub functions: Vec<TopRow>,
    /// Number of functions left out.
    pub more_functions: usize,
    /// Call tree; `None` if the options ask for no levels.
    pub tree: Option<CallTree>,
    /// Share of the whole below which nodes of the tree were left out.
    pub min_share: f64,
}

impl Report {
    /// Appends the merged tiers to the names of functions with [short names](ShownNames::rename).
    pub fn name_tiers(&mut self, names: &ShownNames) {
        for row in &mut self.functions {
            let tiers = names.function(&row.name).map(ShownFunction::several_tiers);
            if let Some(tiers) = tiers.filter(|tiers| !tiers.is_empty()) {
                row.name = format!("{} ({tiers})", row.name);
            }
        }
    }
}

/// Builds the report of a profile.
///
/// # Panics
///
/// Panics if there is no such column.
pub fn report(profile: &Profile, options: &ReportOptions) -> Report {
    let column = options.tree.column;
    let mut functions = top(profile, &options.labels, column);
    if options.by_total {
        functions.sort_by(|a, b| {
            let values = (b.total, b.self_value).cmp(&(a.total, a.self_value));
            values.then_with(|| (&a.name, &a.module).cmp(&(&b.name, &b.module)))
        });
    }
    let more_functions = functions.len().saturating_sub(options.functions.unwrap_or(usize::MAX));
    functions.truncate(functions.len() - more_functions);
    let least = options.tree.min_share * profile.whole(column) as f64;
    for row in &mut functions {
        let lines = row.lines.len();
        row.lines.retain(|line| options.lines && line.total as f64 >= least);
        row.more_lines = if options.lines { lines - row.lines.len() } else { 0 };
    }
    Report {
        value_type: profile.value_types[column].clone(),
        total: profile.samples.total(column),
        whole: profile.whole(column),
        functions,
        more_functions,
        tree: (options.tree.depth != Some(0))
            .then(|| call_tree(profile, &options.labels, &options.tree)),
        min_share: options.tree.min_share,
    }
}

#[cfg(test)]
mod tests {
    use pyrograph_profile::{Sample, ValueType};

    use super::*;
    use crate::AsOne;

    #[test]
    fn short_names_tell_functions_apart() {
        let mut profile = Profile::new(vec![ValueType::samples()]);
        let names = [
            "void java.util.ComparableTimSort.mergeLo(int, int, int, int)",
            "void java.util.ComparableTimSort.mergeHi(int, int, int, int)",
            "void java.util.ComparableTimSort.sort(java.lang.Object[])",
            "void java.util.ComparableTimSort.sort(java.lang.Object[], int)",
            "shop::Cart::add(int)",
            "depot::Cart::add(int)",
            "walk",
            "walk.part.0",
        ];
        for (value, name) in (1..).zip(names) {
            let stack = profile.stack_of_names(["main", name]);
            profile.push(Sample::new(stack), &[value]);
        }
        let names = ShownNames::new(&profile, AsOne::Tiers);
        let mut report = report(&names.rename(profile), &ReportOptions::default());
        report.name_tiers(&names);
        let found: Vec<&str> = report.functions.iter().map(|row| row.name.as_str()).collect();
        let expect = [
            "walk.part.0",
            "walk",
            "depot::Cart::add",
            "shop::Cart::add",
            "ComparableTimSort.sort(java.lang.Object[], int)",
            "ComparableTimSort.sort(java.lang.Object[])",
            "ComparableTimSort.mergeHi",
            "ComparableTimSort.mergeLo",
            "main",
        ];
        assert_eq!(found, expect);
        // The tree has the same names.
        let tree = report.tree.expect("a tree");
        assert!(tree.nodes.iter().all(|node| expect.contains(&node.name.as_str())));
    }

    #[test]
    fn tiers_of_one_function_were_rows_of_one_label() {
        let mut profile = Profile::new(vec![ValueType::samples()]);
        for (value, path) in [
            (1, "main;JS:*parse /srv/app.js:12"),
            (2, "main;JS:~parse /srv/app.js:12;JS:*parse /srv/app.js:12"),
            (4, "main;JS:~parse /srv/app.js:12"),
            (8, "main;void [A] A::f()[Tier0]"),
        ] {
            let stack = profile.stack_of_names(path.split(';'));
            profile.push(Sample::new(stack), &[value]);
        }
        let names = ShownNames::new(&profile, AsOne::Tiers);
        let mut report = report(&names.rename(profile), &ReportOptions::default());
        report.name_tiers(&names);
        let row = |row: &TopRow| (row.name.clone(), row.self_value, row.total);
        let found: Vec<_> = report.functions.iter().map(row).collect();
        // A stack that is in two tiers counts once.
        let expect = [("A::f", 8, 8), ("parse (interpreted, optimized)", 7, 7), ("main", 0, 15)];
        assert_eq!(found, expect.map(|(name, own, total)| (name.to_owned(), own, total)));
    }
}
