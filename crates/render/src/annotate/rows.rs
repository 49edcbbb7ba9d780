//! Rows of an annotated function: source lines, instructions, and gaps.

use std::collections::BTreeMap;

use pyrograph_analyze::{Annotation, Arrow, SourceBlock, SourcePlace, arrows};

use super::{AnnotationParts, AnnotationStyle};
use crate::report::{base_name, plain};

/// A row. Its text has no control characters.
pub(crate) enum Row {
    /// A source line, before its instructions or with its own values.
    Source { label: String, text: String, values: Option<Vec<u64>> },
    /// The owner of the following code.
    Owner(String),
    /// An instruction, as an index into [`Annotation::instructions`], with its arrows.
    Instruction { at: usize, arrows: String },
    /// Number of omitted instructions without samples.
    LeftOut(usize),
}

/// Number of instructions shown before and after an instruction with samples.
const CONTEXT: usize = 6;

/// Minimum number of instructions to omit: for fewer, the line that says so takes as much room.
const LEAST_LEFT_OUT: usize = 4;

/// Maximum number of functions to name between an inlined function and the annotated one.
const MOST_BETWEEN: usize = 2;

/// Maximum number of arrows side by side.
const LANES: usize = 8;

/// Returns the rows to show.
pub(crate) fn rows(of: &Annotation, style: AnnotationStyle) -> Vec<Row> {
    match style.parts {
        AnnotationParts::Source => source_rows(of),
        AnnotationParts::Both => instruction_rows(of, style, true),
        AnnotationParts::Instructions => instruction_rows(of, style, false),
    }
}

fn label(of: &Annotation, SourcePlace { file, line }: SourcePlace) -> String {
    let path = of.files.get(file).map_or("", |file| file.path.as_str());
    format!("{}:{line}", plain(base_name(path)))
}

fn source_rows(of: &Annotation) -> Vec<Row> {
    let mut rows = Vec::new();
    for SourceBlock { inlined, file, lines, .. } in of.source_blocks() {
        let path = plain(of.files.get(file).map_or("", |file| file.path.as_str()));
        rows.push(Row::Owner(match inlined {
            Some(name) => format!("{} (inlined), {path}", plain(&name)),
            None => path,
        }));
        let mut last = None;
        for (line, values) in lines {
            if last.is_some_and(|last| line > last + 1) {
                rows.push(Row::Owner("…".to_owned()));
            }
            last = Some(line);
            let text = plain(of.text(SourcePlace { file, line }).unwrap_or_default());
            rows.push(Row::Source { label: line.to_string(), text, values: Some(values) });
        }
    }
    rows
}

fn instruction_rows(of: &Annotation, style: AnnotationStyle, with_source: bool) -> Vec<Row> {
    let shown = shown(of, style.all);
    let drawn = arrows(&of.instructions, LANES);
    let arrows = arrow_cells(&drawn, of.instructions.len());
    let mut rows = Vec::new();
    let mut left_out = 0;
    let mut before: (usize, Option<SourcePlace>) = (0, None);
    for (at, instruction) in of.instructions.iter().enumerate() {
        if !shown[at] {
            left_out += 1;
            continue;
        }
        if left_out > 0 {
            rows.push(Row::LeftOut(left_out));
            left_out = 0;
        }
        if with_source {
            add_source(of, (instruction.scope, instruction.place), &mut before, &mut rows);
        }
        rows.push(Row::Instruction { at, arrows: arrows[at].clone() });
    }
    if left_out > 0 {
        rows.push(Row::LeftOut(left_out));
    }
    rows
}

/// Adds the source line and the owner of an instruction, if they differ from the previous instruction's.
fn add_source(
    of: &Annotation,
    (scope, place): (usize, Option<SourcePlace>),
    before: &mut (usize, Option<SourcePlace>),
    rows: &mut Vec<Row>,
) {
    if scope != before.0 {
        rows.push(Row::Owner(owner(of, scope)));
        before.1 = None;
    }
    before.0 = scope;
    if let Some(place) = place.filter(|_| place != before.1) {
        let text = plain(of.text(place).unwrap_or_default());
        rows.push(Row::Source { label: label(of, place), text, values: None });
        before.1 = Some(place);
    }
}

/// Describes inlined code: `get, inlined at work.c:12 through read, next and 2 more`. Names the innermost function,
/// the call site in the annotated function with its text, and the functions in between, outermost first.
fn owner(of: &Annotation, scope: usize) -> String {
    let inlined = of.scopes.get(scope).map_or(&[][..], |of| &of.inlined);
    let (Some((innermost, _)), Some((_, call))) = (inlined.last(), inlined.first()) else {
        return plain(&of.function);
    };
    let mut text = format!("{}, inlined", plain(innermost));
    if let Some(place) = call {
        text.push_str(&format!(" at {}", label(of, *place)));
    }
    let between = &inlined[..inlined.len() - 1];
    let names: Vec<String> =
        between.iter().take(MOST_BETWEEN).map(|(name, _)| plain(without_arguments(name))).collect();
    if !names.is_empty() {
        text.push_str(&format!(" through {}", names.join(", ")));
    }
    let more = between.len().saturating_sub(MOST_BETWEEN);
    if more > 0 {
        text.push_str(&format!(" and {more} more"));
    }
    match call.and_then(|place| of.text(place)) {
        Some(line) => text + ":  " + plain(line).trim(),
        None => text,
    }
}

/// Removes type arguments: `next<usize>` → `next`.
fn without_arguments(name: &str) -> &str {
    name.find('<').filter(|&at| at > 0).map_or(name, |at| &name[..at])
}

/// For each instruction, true if it is shown: instructions with samples, and those near them.
fn shown(of: &Annotation, all: bool) -> Vec<bool> {
    let count = of.instructions.len();
    let mut shown = vec![all; count];
    let hot = |at: &usize| of.instructions[*at].values.iter().any(|&value| value > 0);
    let mut is_any = false;
    for at in (0..count).filter(hot) {
        is_any = true;
        let end = (at + CONTEXT + 1).min(count);
        shown[at.saturating_sub(CONTEXT)..end].fill(true);
    }
    if !is_any {
        shown.fill(true);
    }
    let mut start = 0;
    while start < count {
        let run = shown[start..].iter().take_while(|shown| !**shown).count();
        if (1..LEAST_LEFT_OUT).contains(&run) {
            shown[start..start + run].fill(true);
        }
        start += run.max(1);
    }
    shown
}

/// Arrow cells to the left of each instruction: one per lane, and one for the arrowhead.
fn arrow_cells(arrows: &[Arrow], count: usize) -> Vec<String> {
    let lanes = arrows.iter().map(|arrow| arrow.lane + 1).max().unwrap_or(0);
    if lanes == 0 {
        return vec![String::new(); count];
    }
    let mut starting: BTreeMap<usize, Vec<&Arrow>> = BTreeMap::new();
    for arrow in arrows {
        starting.entry(arrow.top()).or_default().push(arrow);
    }
    let mut active: Vec<Option<&Arrow>> = vec![None; lanes];
    (0..count)
        .map(|at| {
            for arrow in starting.get(&at).into_iter().flatten() {
                active[arrow.lane] = Some(arrow);
            }
            let cells = cells(&active, at);
            for lane in &mut active {
                *lane = lane.filter(|arrow| arrow.bottom() > at);
            }
            cells
        })
        .collect()
}

/// Arrow cells of one row, outermost lane first.
fn cells(active: &[Option<&Arrow>], at: usize) -> String {
    let mut out = String::new();
    let (mut is_joined, mut is_head) = (false, false);
    for arrow in active.iter().rev() {
        let Some(arrow) = arrow else {
            out.push(if is_joined { '─' } else { ' ' });
            continue;
        };
        let is_target = arrow.target == at;
        let touches = is_target || arrow.from.binary_search(&at).is_ok();
        let is_single = arrow.top() == arrow.bottom();
        out.push(match (touches, is_joined) {
            (false, false) => '│',
            (false, true) => '┼',
            (true, _) if is_single => '↻',
            (true, joined) if at == arrow.top() => {
                if joined {
                    '┬'
                } else {
                    '┌'
                }
            }
            (true, joined) if at == arrow.bottom() => {
                if joined {
                    '┴'
                } else {
                    '└'
                }
            }
            (true, joined) => {
                if joined {
                    '┼'
                } else {
                    '├'
                }
            }
        });
        is_joined |= touches;
        is_head |= is_target;
    }
    out.push(match (is_head, is_joined) {
        (true, _) => '►',
        (false, true) => '─',
        (false, false) => ' ',
    });
    out
}
