//! The colours of flame graphs, for views that draw frames themselves.

use pyrograph_analyze::{DiffGraph, FlameGraph};
use pyrograph_profile::FrameKind;

use crate::palette::{Paint, Painter, meaning};
use crate::role::Role;
use crate::svg::{DiffStyle, change_paint};
use crate::{Palette, Rgb, SvgOptions, Theme, Tone};

/// The colour of a frame on a light page, and that of text on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameColors {
    /// The frame.
    pub fill: Rgb,
    /// Text, with a contrast of 4.5 at least.
    pub ink: Rgb,
}

impl From<Paint> for FrameColors {
    fn from(paint: Paint) -> Self {
        Self { fill: paint.light, ink: paint.inks(Theme::Light).0 }
    }
}

/// The colours of all frames of a graph, as its SVG has them.
pub fn frame_colors(graph: &FlameGraph, palette: Palette) -> Vec<FrameColors> {
    let painter = Painter { palette, tone: Tone::Name, negate: false, graph };
    painter.paints(&Role::of_frames(graph)).into_iter().map(FrameColors::from).collect()
}

/// The colours of all frames of a comparison, as its SVG has them: nearly white where a change is noise.
pub fn change_colors(graph: &DiffGraph) -> Vec<FrameColors> {
    let options = SvgOptions { theme: Theme::Light, ..SvgOptions::default() };
    let style = DiffStyle::default();
    graph.frames.iter().map(|frame| change_paint(graph, &options, style, frame).into()).collect()
}

/// The colour of a kind of code in the default palette, in the middle of its tones.
pub fn function_colors(name: &str, kind: FrameKind) -> FrameColors {
    meaning(Role::of(name, kind), 0.5).into()
}

#[cfg(test)]
mod tests {
    use pyrograph_analyze::{FlameOptions, flame};
    use pyrograph_profile::{LabelOptions, Profile, Sample, Tree, ValueType};

    use super::*;

    #[test]
    fn text_is_readable_on_all_frames() {
        let mut profile = Profile::new(vec![ValueType::samples()]);
        for name in ["main", "vfs_read_[k]", "run_[j]", "push_[i]", "[truncated]", "--"] {
            let stack = profile.stack_of_names(["root", name, &format!("{name}x")]);
            profile.push(Sample::new(stack), &[1]);
        }
        let tree = Tree::new(&profile, &LabelOptions::default());
        let graph = flame(&profile, &tree, &FlameOptions::default()).expect("samples");
        for palette in [Palette::Meaning, Palette::of(&ValueType::new("off-cpu", "ns"))] {
            let colors = frame_colors(&graph, palette);
            assert_eq!(colors.len(), graph.frames.len());
            assert!(colors.iter().all(|of| of.fill.contrast(of.ink) >= 4.5), "{colors:?}");
        }
        let [user, kernel] = [FrameKind::User, FrameKind::Kernel].map(|k| function_colors("f", k));
        assert_ne!(user, kernel);
    }
}
