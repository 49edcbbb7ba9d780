//! Annotated functions as a column of the viewer's page: JSON, which its script shows as it is.

use pyrograph_analyze::Annotation;
use serde_json::{Value, json};

use super::rows::{Row, rows};
use super::{AnnotationStyle, hottest_line};

/// The most bytes of all functions together, before they are compressed.
const MOST_BYTES: usize = 2 << 20;

/// As many functions as there is room for, in their order.
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
    // Of four: an instruction; of two: a source line; of one: whose code follows, or how many instructions do not.
    let row = |row: Row| match row {
        Row::Owner(name) => json!([name]),
        Row::LeftOut(count) => json!([count]),
        Row::Source { label, text, .. } => json!([label, text]),
        Row::Instruction { at, arrows } => {
            let instruction = &of.instructions[at];
            let address = format!("{:x}", instruction.address);
            json!([
                instruction.values[column],
                address,
                arrows,
                crate::report::plain(&instruction.text)
            ])
        }
    };
    json!({
        "name": of.function,
        "module": of.module,
        "self": of.totals[column],
        "hottest": hottest_line(of, column),
        "notes": of.notes,
        "rows": rows(of, style).into_iter().map(row).collect::<Vec<_>>(),
    })
}
