//! JSON output of an annotated function.

use std::io::{self, Write};

use pyrograph_analyze::{Annotation, SourcePlace};
use serde_json::{Value, json};

/// Writes an annotated function as JSON: names and texts unchanged, values as integers.
///
/// # Errors
///
/// Fails if writing to `out` fails.
pub fn annotation_json(of: &Annotation, out: &mut dyn Write) -> io::Result<()> {
    let value_types = of
        .value_types
        .iter()
        .map(|of| json!({ "name": of.name, "unit": of.unit, "decimals": of.decimals }));
    let place = |place: Option<SourcePlace>| match place {
        Some(SourcePlace { file, line }) => json!({ "file": of.files[file].path, "line": line }),
        None => Value::Null,
    };
    let instruction = |instruction: &pyrograph_analyze::AnnotatedInstruction| {
        let inlined = of.scopes.get(instruction.scope).map_or(&[][..], |of| &of.inlined);
        let target = instruction.target.map(|at| hex(of.instructions[at].address));
        json!({
            "address": hex(instruction.address),
            "text": instruction.text,
            "values": instruction.values,
            "target": target,
            "source": place(instruction.place),
            "inlined": inlined.iter().map(|(name, at)| json!({ "function": name, "call": place(*at) })).collect::<Vec<_>>(),
        })
    };
    let files = of.files.iter().map(|file| {
        let lines = file.lines.iter().map(|(line, text)| (line.to_string(), json!(text)));
        json!({ "path": file.path, "lines": lines.collect::<serde_json::Map<_, _>>() })
    });
    let whole = json!({
        "function": of.function,
        "module": of.module,
        "values": value_types.collect::<Vec<_>>(),
        "self": of.totals,
        "total": of.wholes,
        "start": place(of.start),
        "instructions": of.instructions.iter().map(instruction).collect::<Vec<_>>(),
        "files": files.collect::<Vec<_>>(),
        "notes": of.notes,
    });
    serde_json::to_writer_pretty(&mut *out, &whole)?;
    writeln!(out)
}

/// Formats an address as a string, because a JavaScript number cannot hold all 64 bits.
fn hex(address: u64) -> String {
    format!("{address:x}")
}
