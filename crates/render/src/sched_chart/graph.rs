//! The flame graph in the page of the scheduler's chart: its colours, and its frames as they are packed.

use std::collections::BTreeMap;
use std::io;

use pyrograph_analyze::FlameGraph;
use pyrograph_profile::StringId;

use crate::packed::Packed;
use crate::palette::{Paint, Painter};
use crate::role::Role;
use crate::{Palette, Tone};

/// The colours of frames.
pub(super) struct Paints {
    /// On light and on dark pages, with blanks between them.
    pub(super) light: String,
    pub(super) dark: String,
    /// Which of them each frame has.
    pub(super) paint_of: Vec<u64>,
}

/// Chooses the colours of a graph's frames.
pub(super) fn paints(graph: &FlameGraph, palette: Palette) -> Paints {
    let painter = Painter { palette, tone: Tone::default(), negate: false, graph };
    let roles = Role::of_frames(graph);
    let chosen: Vec<Paint> = painter.paints(&roles);
    let mut index: BTreeMap<Paint, u64> = chosen.iter().map(|&paint| (paint, 0)).collect();
    let (mut light, mut dark) = (Vec::new(), Vec::new());
    for (number, (paint, place)) in index.iter_mut().enumerate() {
        *place = number as u64;
        light.push(paint.light.to_string());
        dark.push(paint.dark.to_string());
    }
    let paint_of = chosen.iter().map(|paint| index[paint]).collect();
    Paints { light: light.join(" "), dark: dark.join(" "), paint_of }
}

/// The frames of a graph, of which `name_of` gives the numbers of names: how far each one's caller is from the caller of the
/// one before it; names, modules, colours.
pub(super) fn pack_frames(
    list: &mut Packed,
    graph: &FlameGraph,
    paint_of: &[u64],
    name_of: impl Fn(StringId) -> u64,
) -> io::Result<()> {
    let frames = &graph.frames[1..];
    list.number(frames.len() as u64)?;
    let mut before = 0;
    for frame in frames {
        // Row by row, callers never go back.
        list.number(u64::from(frame.parent - before))?;
        before = frame.parent;
    }
    for frame in frames {
        list.number(name_of(frame.name))?;
    }
    for frame in frames {
        list.number(name_of(frame.module))?;
    }
    for paint in paint_of {
        list.number(*paint)?;
    }
    Ok(())
}
