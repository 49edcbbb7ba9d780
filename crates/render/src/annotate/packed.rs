//! Annotated functions as a column of the viewer's page: JSON that its script shows without further processing.

use std::collections::BTreeSet;

use pyrograph_analyze::{Annotation, Scope, SourcePlace};
use serde_json::{Value, json};

use super::rows::{Row, rows};
use super::{AnnotationStyle, hottest_line};

/// Maximum size in bytes of all functions together, before compression.
const MOST_BYTES: usize = 2 << 20;

/// Packs as many functions as there is room for, in their order.
pub(crate) fn packed(functions: &[Annotation], column: usize) -> Vec<Value> {
    let mut left = MOST_BYTES;
    let mut packed = Vec::new();
    for of in functions {
        let function = function(of, column);
        let Some(rest) = left.checked_sub(function.to_string().len()) else { break };
        left = rest;
        packed.push(function);
    }
    packed
}

fn function(of: &Annotation, column: usize) -> Value {
    let style = AnnotationStyle { column, ..AnnotationStyle::default() };
    let rows = rows(of, style);
    let mut shown = vec![None; of.instructions.len()];
    let instructions = rows.iter().filter_map(|row| match row {
        Row::Instruction { at, .. } => Some(*at),
        _ => None,
    });
    instructions.enumerate().for_each(|(place, at)| shown[at] = Some(place));
    let place = |of: SourcePlace| json!([of.file, of.line]);
    // Rows are distinguished by length. Six or more elements: an instruction. Two: a source line. One: the owner of the
    // following code, or the number of omitted instructions. The page shows the first four elements; the others are
    // for readers of the data: jump target, scope, file and line.
    let row = |row: Row| match row {
        Row::Owner(name) => json!([name]),
        Row::LeftOut(count) => json!([count]),
        Row::Source { label, text, .. } => json!([label, text]),
        Row::Instruction { at, arrows } => {
            let instruction = &of.instructions[at];
            let address = format!("{:x}", instruction.address);
            let mut row = vec![
                json!(instruction.values[column]),
                json!(address),
                json!(arrows),
                json!(crate::report::plain(&instruction.text)),
                json!(instruction.target.and_then(|target| shown[target])),
                json!(instruction.scope),
            ];
            if let Some(SourcePlace { file, line }) = instruction.place {
                row.extend([json!(file), json!(line)]);
            }
            Value::Array(row)
        }
    };
    let scope = |of: &Scope| -> Vec<Value> {
        let inlined = of.inlined.iter();
        inlined.map(|(name, at)| json!([crate::report::plain(name), at.map(place)])).collect()
    };
    // Lines that are in no row: call sites of inlined functions, and the start of this function.
    let calls = of.scopes.iter().flat_map(|of| of.inlined.iter().filter_map(|(_, at)| *at));
    let other: BTreeSet<SourcePlace> = calls.chain(of.start).collect();
    let text =
        |at: SourcePlace| Some(json!([at.file, at.line, crate::report::plain(of.text(at)?)]));
    json!({
        "name": of.function,
        "module": of.module,
        "build": of.build_id,
        "bias": of.bias as i64,
        "self": of.totals[column],
        "hottest": hottest_line(of, column),
        "notes": of.notes,
        "files": of.files.iter().map(|of| &of.path).collect::<Vec<_>>(),
        "scopes": of.scopes.iter().map(scope).collect::<Vec<_>>(),
        "start": of.start.map(place),
        "texts": other.into_iter().filter_map(text).collect::<Vec<_>>(),
        "rows": rows.into_iter().map(row).collect::<Vec<_>>(),
    })
}
