//! Colours by function name that stay the same in several pictures: the file `palette.map`.
//!
//! One function per line: `NAME->rgb(R,G,B)`. Other lines are ignored.

use std::collections::BTreeMap;

use pyrograph_analyze::FlameGraph;

use crate::palette::Painter;
use crate::role::{Role, without_mark};
use crate::{Rgb, SvgOptions};

/// Colours by function name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PaletteMap(BTreeMap<String, Rgb>);

impl PaletteMap {
    /// Parses the text of a file.
    pub fn parse(text: &str) -> Self {
        Self(text.lines().filter_map(parse_line).collect())
    }

    /// Formats as the text of a file, sorted by name.
    pub fn to_text(&self) -> String {
        self.0.iter().map(|(name, Rgb(r, g, b))| format!("{name}->rgb({r},{g},{b})\n")).collect()
    }

    /// Adds the functions of a graph that are not in the map yet, with the colours of these options.
    pub fn add(&mut self, graph: &FlameGraph, options: &SvgOptions) {
        let painter =
            Painter { palette: options.palette, tone: options.tone, negate: options.negate, graph };
        for (index, role) in Role::of_frames(graph).into_iter().enumerate() {
            let name = without_mark(graph.names.get(graph.frames[index].name));
            if name.contains(['\n', '\r']) || self.0.contains_key(name) {
                continue;
            }
            self.0.insert(name.to_owned(), painter.paint(index, role).light);
        }
    }

    pub(crate) fn get(&self, name: &str) -> Option<Rgb> {
        self.0.get(name).copied()
    }
}

fn parse_line(line: &str) -> Option<(String, Rgb)> {
    let (name, colour) = line.rsplit_once("->")?;
    let numbers = colour.trim().strip_prefix("rgb(")?.strip_suffix(')')?;
    let mut parts = numbers.split(',').map(|part| part.trim().parse::<u8>());
    let colour = Rgb(parts.next()?.ok()?, parts.next()?.ok()?, parts.next()?.ok()?);
    parts.next().is_none().then(|| (name.to_owned(), colour))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_again() {
        let text = "a->rgb(1,2,3)\noperator->->rgb(255,0,9)\n";
        assert_eq!(PaletteMap::parse(text).to_text(), text);
    }

    #[test]
    fn lines_of_another_form_are_left_out() {
        let text = "a->rgb(1,2)\nb->rgb(1,2,300)\nc->red\"/><script>\n->rgb(1,2,3)\nd";
        assert_eq!(PaletteMap::parse(text).to_text(), "->rgb(1,2,3)\n");
    }
}
