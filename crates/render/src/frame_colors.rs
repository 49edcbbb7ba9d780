//! Colours of flame graphs, for views that draw frames themselves.

use pyrograph_analyze::{DiffGraph, FlameGraph};
use pyrograph_profile::FrameKind;

use crate::palette::{Paint, Painter, meaning};
use crate::role::Role;
use crate::svg::{DiffStyle, change_paint};
use crate::{Palette, Rgb, SvgOptions, Theme, Tone};

/// Colours of a frame and its text on a light background.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameColors {
    /// Fill colour of the frame.
    pub fill: Rgb,
    /// Text colour, with a contrast ratio of at least 4.5.
    pub ink: Rgb,
}

impl From<Paint> for FrameColors {
    fn from(paint: Paint) -> Self {
        Self { fill: paint.light, ink: paint.inks(Theme::Light).0 }
    }
}

/// Colours of all frames of a graph, as in its SVG file.
pub fn frame_colors(graph: &FlameGraph, palette: Palette) -> Vec<FrameColors> {
    let painter = Painter { palette, tone: Tone::Name, negate: false, graph };
    painter.paints(&Role::of_frames(graph)).into_iter().map(FrameColors::from).collect()
}

/// Colours of all frames of a comparison, as in its SVG file: nearly white for changes within noise.
pub fn change_colors(graph: &DiffGraph) -> Vec<FrameColors> {
    let options = SvgOptions { theme: Theme::Light, ..SvgOptions::default() };
    let style = DiffStyle::default();
    graph.frames.iter().map(|frame| change_paint(graph, &options, style, frame).into()).collect()
}

/// Colour of a kind of code in the default palette, at its medium tone.
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
