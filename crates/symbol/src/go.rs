//! Go's own table of functions: stripped programs of Go have their names and lines there.

use std::sync::Arc;

use pyrograph_go::{Function, Layout};

use crate::symbolize::{Frame, Options, Symbolized};

/// Adds what the table of a file of Go knows of addresses that nothing else knows.
pub(crate) fn complete(
    file: &[u8],
    addresses: &[u64],
    options: &Options,
    answers: &mut [Symbolized],
) {
    let lacks = |answer: &Symbolized| match &answer.frames[..] {
        [] => true,
        [frame] => options.lines && frame.file.is_none(),
        _ => false,
    };
    if !answers.iter().any(lacks) {
        return;
    }
    let Some(layout) = Layout::find(file) else { return };
    let table = layout.table(file);
    for (&address, answer) in addresses.iter().zip(answers).filter(|(_, answer)| lacks(answer)) {
        let Some(function) = table.lookup(address) else { continue };
        if answer.frames.is_empty() {
            let Some(name) = function.name() else { continue };
            answer.start = Some(function.start);
            answer.frames = vec![Frame { function: text(name), file: None, line: 0 }];
        }
        if options.lines {
            add_place(function, address, &mut answer.frames[0]);
        }
    }
}

fn add_place(function: Function<'_>, address: u64, frame: &mut Frame) {
    if let Some(place) = function.place(address) {
        (frame.file, frame.line) = (Some(text(place.file)), place.line);
    }
}

fn text(bytes: &[u8]) -> Arc<str> {
    String::from_utf8_lossy(bytes).into()
}
