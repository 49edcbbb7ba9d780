//! Flame graph in the page of a scheduler chart: its colours, and its packed frames.

use std::collections::BTreeMap;
use std::io;

use pyrograph_analyze::FlameGraph;
use pyrograph_profile::StringId;

use crate::packed::Packed;
use crate::palette::{Paint, Painter};
use crate::role::Role;
use crate::{Palette, Tone};

/// Colours of frames.
pub(super) struct Paints {
    /// Distinct colours on light and on dark pages, separated by blanks.
    pub(super) light: String,
    pub(super) dark: String,
    /// Index of each frame's colour.
    pub(super) paint_of: Vec<u64>,
}

/// Selects the colours of a graph's frames.
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

/// Packs the frames of a graph: the distance of each frame's caller from the previous frame's caller, then names,
/// modules and colours. `name_of` returns the number of a name.
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
        // Frames are in row order, so that the indices of callers never decrease.
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
