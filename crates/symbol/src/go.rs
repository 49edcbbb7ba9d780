//! Go's own table of functions: stripped programs of Go have their names and lines there.

use std::sync::Arc;

use pyrograph_go::Layout;

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
        let mut frame = match answer.frames.first() {
            Some(frame) => frame.clone(),
            None => {
                let Some(name) = function.name() else { continue };
                answer.start = Some(function.start);
                Frame::named(text(name))
            }
        };
        if options.lines {
            frame.start_line = function.start_line().unwrap_or(0);
            // Where the call of what was inlined is, the table says only with data that is elsewhere in the file.
            if let Some(place) = function.place(address).filter(|_| !function.is_inlined(address)) {
                (frame.file, frame.line) = (Some(text(place.file)), place.line);
            }
        }
        answer.frames = vec![frame].into();
    }
}

fn text(bytes: &[u8]) -> Arc<str> {
    String::from_utf8_lossy(bytes).into()
}
