//! Functions by their source, as `pyrograph list` shows them.

use std::collections::BTreeSet;

use pyrograph_annotate::{SourceTexts, Sources};
use pyrograph_render::{ListedFunction, ListedLine, ListedVariable};
use pyrograph_session::{Function, SourceFunction, Variable};

/// Maximum number of lines between two with code for which the text is shown.
const MOST_BETWEEN: u32 = 200;

pub fn listed(functions: Vec<SourceFunction>) -> Vec<ListedFunction> {
    let mut texts = SourceTexts::new(Sources::default());
    functions.into_iter().map(|function| one(function, &mut texts)).collect()
}

fn one(source: SourceFunction, texts: &mut SourceTexts) -> ListedFunction {
    let SourceFunction { function, lines, variables } = source;
    let Function { name, signature, file, line, bodies, .. } = function;
    let mut listed = Vec::new();
    for (&number, &places) in &lines {
        let before = listed.last().map_or(number, |last: &ListedLine| last.number + 1);
        let first = if number.abs_diff(before) <= MOST_BETWEEN { before } else { number };
        for at in first..=number {
            let text = file.as_deref().and_then(|file| texts.line(file, at));
            let places = if at == number { places } else { 0 };
            listed.push(ListedLine { number: at, text, places });
        }
    }
    let inlined_into: BTreeSet<String> =
        bodies.iter().filter_map(|body| body.inlined_into.clone()).collect();
    ListedFunction {
        name,
        signature,
        file,
        line,
        has_code: bodies.iter().any(|body| body.inlined_into.is_none()),
        inlined_into: inlined_into.into_iter().collect(),
        lines: listed,
        variables: merged(variables),
    }
}

/// The variables at all places of a line, each once: a line may begin in several places, and a variable may be in another
/// register in each.
fn merged(places: Vec<Vec<Variable>>) -> Vec<ListedVariable> {
    let all = places.len();
    // Of each variable, where it is, and at how many places of the line it is there.
    let mut merged: Vec<(ListedVariable, Vec<(String, usize)>)> = Vec::new();
    for variable in places.into_iter().flatten() {
        let Variable { name, kind, is_parameter, location, .. } = variable;
        let (place, is_readable) = match location {
            Ok(location) => (location.text(), true),
            Err(gone) => (gone.to_string(), false),
        };
        let known = merged.iter().position(|(known, _)| known.name == name && known.kind == kind);
        let at = known.unwrap_or_else(|| {
            let place = String::new();
            let variable = ListedVariable { name, kind, is_parameter, place, is_readable };
            merged.push((variable, Vec::new()));
            merged.len() - 1
        });
        let (variable, found) = &mut merged[at];
        variable.is_readable &= is_readable;
        match found.iter_mut().find(|(known, _)| *known == place) {
            Some((_, times)) => *times += 1,
            None => found.push((place, 1)),
        }
    }
    let joined = |(variable, found): (ListedVariable, Vec<(String, usize)>)| {
        let text = |(place, times): (String, usize)| match times == all {
            true => place,
            false => format!("{place} ({times} of {all} places)"),
        };
        let place = found.into_iter().map(text).collect::<Vec<_>>().join(", ");
        ListedVariable { place, ..variable }
    };
    merged.into_iter().map(joined).collect()
}
