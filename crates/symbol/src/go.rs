//! Go's own function table (`.gopclntab`), which gives stripped Go programs names, lines and inlined calls.

use std::sync::Arc;

use pyrograph_elf::Image;
use pyrograph_go::{Function, InlineTrees, Layout, Place};

use crate::symbolize::{Frame, Options, Symbolized};

/// Completes `answers` from the function table of a Go program: names for addresses without frames, lines and
/// inlined calls for addresses with only a name. `is_known` is true for each address that debug information covers.
pub(crate) fn complete(
    image: &Image,
    addresses: &[u64],
    is_known: &[bool],
    options: &Options,
    answers: &mut [Symbolized],
) {
    let lacks = |answer: &Symbolized, is_known: bool| match &answer.frames[..] {
        [] => true,
        [_] => !is_known && (options.lines || options.inlines),
        _ => false,
    };
    if !answers.iter().zip(is_known).any(|(answer, is_known)| lacks(answer, *is_known)) {
        return;
    }
    let Some(layout) = Layout::find(image.elf()) else { return };
    let table = layout.table(image.bytes());
    let trees = (options.lines || options.inlines).then(|| InlineTrees::find(image.elf(), table));
    let trees = trees.flatten();
    for ((&address, answer), &is_known) in addresses.iter().zip(answers).zip(is_known) {
        if !lacks(answer, is_known) {
            continue;
        }
        let Some(function) = table.lookup(address) else { continue };
        let own_name = match answer.frames.first() {
            Some(frame) => Arc::clone(&frame.function),
            None => {
                let Some(name) = function.name() else { continue };
                answer.start = Some(function.start);
                text(name)
            }
        };
        let frames = frames(&function, trees.as_ref(), address, own_name, options);
        answer.frames = frames.into();
    }
}

/// A function of a Go program.
#[derive(Clone, Copy, Debug)]
pub struct GoFunction<'a> {
    /// Offset in the file.
    pub offset: u64,
    /// Its code.
    pub code: &'a [u8],
}

/// Returns the function of this name, by the function table, which stripped programs have, too; `None` if the file has no
/// such table or function.
pub fn go_function<'a>(image: &'a Image, name: &str) -> Option<GoFunction<'a>> {
    let layout = Layout::find(image.elf())?;
    let table = layout.table(image.bytes());
    let function = table.functions().find(|of| of.name() == Some(name.as_bytes()))?;
    let code = image.bytes_at(function.start, (function.end - function.start).try_into().ok()?)?;
    Some(GoFunction { offset: image.offset_of(function.start)?, code })
}

/// Frames at an address of a function, innermost first.
fn frames(
    function: &Function<'_>,
    trees: Option<&InlineTrees<'_>>,
    address: u64,
    own_name: Arc<str>,
    options: &Options,
) -> Vec<Frame> {
    let placed = |function: Arc<str>, place: Option<Place<'_>>, start_line: Option<u32>| {
        let mut frame = Frame::named(function);
        if options.lines {
            frame.start_line = start_line.unwrap_or(0);
            if let Some(place) = place {
                (frame.file, frame.line) = (Some(text(place.file)), place.line);
            }
        }
        frame
    };
    let Some(mut calls) = trees.and_then(|trees| function.calls(trees, address)) else {
        // If the code at the address is inlined, only the inline trees have the line of the call in `function`.
        let place = function.place(address).filter(|_| !function.is_inlined(address));
        return vec![placed(own_name, place, function.start_line())];
    };
    let own = calls.pop();
    if !options.inlines {
        calls.clear();
    }
    let inlined = calls.iter().map(|call| placed(text(call.name), call.place, call.start_line));
    let mut frames: Vec<Frame> = inlined.collect();
    frames.extend(own.map(|own| placed(own_name, own.place, own.start_line)));
    frames
}

fn text(bytes: &[u8]) -> Arc<str> {
    String::from_utf8_lossy(bytes).into()
}
