//! Colours, depending on the capabilities of the terminal.

use pyrograph_render::{FrameColors, Rgb};
use ratatui::style::{Color, Modifier, Style};

/// Number of colours of a terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ColorDepth {
    /// None: `NO_COLOR` is set, or the terminal has no colours.
    None,
    /// The 256 colours of xterm.
    #[default]
    Indexed,
    /// True colour.
    True,
}

/// Styles for drawing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Look {
    /// Available colours.
    pub depth: ColorDepth,
}

/// Background of a selected frame, which no other frame has.
const SELECTED: Rgb = Rgb(0, 0, 0);
/// Background of frames that match a search, as in the SVG's script.
const MATCH: Rgb = Rgb(230, 0, 230);

impl Look {
    /// Determines the look from environment variables: `NO_COLOR`, `COLORTERM` and `TERM`.
    pub fn of(no_color: Option<&str>, color_term: Option<&str>, term: Option<&str>) -> Self {
        let depth = match (no_color, color_term, term) {
            (Some(set), ..) if !set.is_empty() => ColorDepth::None,
            (_, _, None | Some("" | "dumb" | "vt100" | "vt220")) => ColorDepth::None,
            (_, Some("truecolor" | "24bit"), _) => ColorDepth::True,
            _ => ColorDepth::Indexed,
        };
        Self { depth }
    }

    /// Returns true if there are colours.
    pub fn has_colors(self) -> bool {
        self.depth != ColorDepth::None
    }

    /// Returns a colour; `None` if there are none.
    pub fn color(self, rgb: Rgb) -> Option<Color> {
        match self.depth {
            ColorDepth::None => None,
            ColorDepth::Indexed => Some(Color::Indexed(indexed(rgb))),
            ColorDepth::True => Some(Color::Rgb(rgb.0, rgb.1, rgb.2)),
        }
    }

    /// Style of text in a frame.
    pub fn frame(self, colors: FrameColors) -> Style {
        let style = Style::new();
        match (self.color(colors.fill), self.color(colors.ink)) {
            (Some(fill), Some(ink)) => style.bg(fill).fg(ink),
            _ => style,
        }
    }

    /// Colours of a selected frame.
    pub fn selected_frame(self) -> FrameColors {
        FrameColors { fill: SELECTED, ink: Rgb::WHITE }
    }

    /// Colours of a frame that matches a search.
    pub fn matching_frame(self) -> FrameColors {
        FrameColors { fill: MATCH, ink: MATCH.ink() }
    }

    /// Style of an increase or a decrease.
    pub fn change(self, is_more: bool) -> Style {
        match (self.has_colors(), is_more) {
            (false, _) => Style::new(),
            (true, true) => Style::new().fg(Color::Red),
            (true, false) => Style::new().fg(Color::Blue),
        }
    }

    /// Style of the selected row of a list: readable with any colours of the terminal.
    pub fn selected(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// Style of headings and keys.
    pub fn strong(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// Style of less important text.
    pub fn faint(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    /// Style of warnings: a pause, losses.
    pub fn alarm(self) -> Style {
        let style = Style::new().add_modifier(Modifier::BOLD);
        if self.has_colors() { style.fg(Color::Red) } else { style }
    }
}

/// Returns the nearest of xterm's colours, from the cube with six steps per channel and the greys.
fn indexed(Rgb(r, g, b): Rgb) -> u8 {
    const STEPS: [u8; 6] = [0, 95, 135, 175, 215, 255];
    let nearest = |channel: u8| {
        let distance = |&step: &usize| STEPS[step].abs_diff(channel);
        (0..6).min_by_key(distance).unwrap_or(0)
    };
    let distance = |(x, y, z): (u8, u8, u8)| {
        [(x, r), (y, g), (z, b)].iter().map(|&(a, b)| u32::from(a.abs_diff(b)).pow(2)).sum::<u32>()
    };
    let cube = [r, g, b].map(nearest);
    let in_cube = (STEPS[cube[0]], STEPS[cube[1]], STEPS[cube[2]]);
    let grey = (0..24u8).min_by_key(|step| distance([8 + 10 * step; 3].into())).unwrap_or(0);
    if distance([8 + 10 * grey; 3].into()) < distance(in_cube) {
        return 232 + grey;
    }
    (16 + 36 * cube[0] + 6 * cube[1] + cube[2]) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_of_256_colours() {
        assert_eq!(indexed(Rgb(0, 0, 0)), 16);
        assert_eq!(indexed(Rgb(255, 255, 255)), 231);
        assert_eq!(indexed(Rgb(255, 0, 0)), 196);
        assert_eq!(indexed(Rgb(128, 128, 128)), 244);
    }

    #[test]
    fn the_environment_chooses_the_colours() {
        let depth = |no_color, color_term, term| Look::of(no_color, color_term, term).depth;
        assert_eq!(depth(None, None, Some("xterm-256color")), ColorDepth::Indexed);
        assert_eq!(depth(None, Some("truecolor"), Some("xterm")), ColorDepth::True);
        assert_eq!(depth(Some("1"), Some("truecolor"), Some("xterm")), ColorDepth::None);
        // As no-color.org has it: an empty one does not count.
        assert_eq!(depth(Some(""), None, Some("xterm")), ColorDepth::Indexed);
        assert_eq!(depth(None, None, Some("dumb")), ColorDepth::None);
    }
}
