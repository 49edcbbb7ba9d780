//! Flame graph drawn with half-block cells.
//!
//! One terminal row shows one row of frames with names, whose edges have a resolution of half a cell. Optionally it
//! shows two rows of frames without names, so that twice as many are visible.

use pyrograph_analyze::{DiffGraph, FlameFrame, FlameGraph, FlameOptions, flame};
use pyrograph_profile::Tree;
use pyrograph_render::{
    FrameColors, Palette, change_colors, exact_percent, frame_colors, value_text,
};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};

use crate::changes::{change, side};
use crate::frame_rows::FrameRows;
use crate::look::Look;
use crate::search::Search;
use crate::shown::Shown;
use crate::table::{Step, file_name};
use crate::text::fit;

/// The flame graph and the state of its view.
#[derive(Debug, Default)]
pub struct Flame {
    graph: Option<FlameGraph>,
    /// The comparison, one side of which the graph shows.
    compared: Option<DiffGraph>,
    /// Widths show the side before.
    shows_before: bool,
    colors: Vec<FrameColors>,
    /// Labels from the root to the frame that fills the width; empty if not zoomed.
    zoom: Vec<String>,
    /// Index of the frame that fills the width.
    zoomed: usize,
    /// Frame under the mouse, or selected by keys.
    pointed: Option<usize>,
    /// Depth of the visible row that is nearest to the root.
    scroll: usize,
    /// The root is at the top.
    inverted: bool,
    /// Two rows of frames in a terminal row, without names.
    dense: bool,
    /// Rows of functions that only start a thread are shown, too.
    all_rows: bool,
    /// Current search.
    search: Search,
    matching: Vec<bool>,
    /// Rows as last drawn, and their area.
    rows: FrameRows,
    area: Rect,
    is_dense: bool,
}

impl Flame {
    /// Lays out a profile.
    pub fn update(&mut self, shown: &Shown) {
        let profile = shown.frames();
        let tree = Tree::new(&profile, &shown.labels());
        let options = FlameOptions {
            column: shown.column(),
            fold_start: !self.all_rows,
            ..FlameOptions::default()
        };
        let graph = flame(&profile, &tree, &options).ok();
        let colors = graph
            .as_ref()
            .map(|graph| frame_colors(graph, Palette::of(&graph.value_type)))
            .unwrap_or_default();
        self.compared = None;
        self.replace(graph, colors, shown);
    }

    /// Shows a comparison.
    pub fn compare(&mut self, compared: DiffGraph, shown: &Shown) {
        let graph = side(&compared, self.shows_before);
        let colors = change_colors(&compared);
        self.compared = Some(compared);
        self.replace(Some(graph), colors, shown);
    }

    /// Switches the side of a comparison that determines the widths.
    pub fn change_side(&mut self, shown: &Shown) {
        self.shows_before = !self.shows_before;
        if let Some(compared) = self.compared.take() {
            self.compare(compared, shown);
        }
    }

    /// Returns the side of a comparison that determines the widths.
    pub fn side(&self) -> Option<&'static str> {
        self.compared.as_ref().map(|_| if self.shows_before { "before" } else { "after" })
    }

    fn replace(&mut self, graph: Option<FlameGraph>, colors: Vec<FrameColors>, shown: &Shown) {
        let pointed = self.pointed.map(|at| self.path(at));
        (self.graph, self.colors) = (graph, colors);
        let Some(graph) = &self.graph else {
            (self.zoomed, self.pointed) = (0, None);
            return;
        };
        self.zoomed = find(graph, &self.zoom);
        self.pointed = pointed.map(|path| find(graph, &path));
        self.search_again(shown);
    }

    /// Marks frames whose names match.
    pub fn search(&mut self, text: &str, shown: &Shown) {
        self.search = Search::new(text);
        self.search_again(shown);
    }

    fn search_again(&mut self, shown: &Shown) {
        let Some(graph) = &self.graph else { return };
        let finds = |name| self.search.finds(name, shown);
        let names: Vec<bool> = graph.names.iter().map(finds).collect();
        self.matching = graph.frames.iter().map(|frame| names[frame.name.index()]).collect();
        // The root has no name.
        self.matching[0] = false;
    }

    /// Returns the matching frames, and the values of samples that contain them. Frames inside a match are counted with
    /// it.
    pub fn matches(&self) -> Matches {
        let mut found = Matches::default();
        let Some(graph) = &self.graph else { return found };
        let zoom = graph.frames[self.zoomed];
        // Parents come first.
        let mut inside = vec![false; graph.frames.len()];
        for (at, frame) in graph.frames.iter().enumerate() {
            let is_counted = inside[frame.parent as usize];
            inside[at] = is_counted || self.matching[at];
            if at == self.zoomed && inside[at] {
                found.in_zoom = frame.value;
            }
            found.frames += usize::from(self.matching[at] && frame.value > 0);
            if self.matching[at] && !is_counted {
                found.value = found.value.saturating_add(frame.value);
                if at != self.zoomed && is_within(frame, &zoom) {
                    found.in_zoom = found.in_zoom.saturating_add(frame.value);
                }
            }
        }
        (found.whole, found.zoom) = (graph.whole, zoom.value);
        found
    }

    /// Selects the next or previous matching frame, ordered from the widest to the narrowest, and makes it visible.
    pub fn next_match(&mut self, back: bool) {
        let Some(graph) = &self.graph else { return };
        let matches = |&at: &usize| self.matching[at] && graph.frames[at].value > 0;
        let mut found: Vec<usize> = (0..graph.frames.len()).filter(matches).collect();
        found.sort_by_key(|&at| std::cmp::Reverse(graph.frames[at].value));
        let at = self.pointed.and_then(|pointed| found.iter().position(|&at| at == pointed));
        let next = match (at, back) {
            _ if found.is_empty() => return,
            (None, false) => 0,
            (None, true) => found.len() - 1,
            (Some(at), false) => (at + 1) % found.len(),
            (Some(at), true) => (at + found.len() - 1) % found.len(),
        };
        self.show(found[next]);
    }

    /// Selects a frame, and zooms so that it is visible.
    fn show(&mut self, frame: usize) {
        let Some(graph) = &self.graph else { return };
        self.pointed = Some(frame);
        let is_seen = |zoomed: usize| {
            let cells = usize::from(self.area.width.max(1));
            let rows = FrameRows::new(graph, zoomed, cells);
            rows.columns(graph.frames[frame].depth as usize, frame).is_some()
        };
        let caller = graph.frames[frame].parent as usize;
        let zoomed = [self.zoomed, 0].into_iter().find(|&zoomed| is_seen(zoomed));
        let zoomed = zoomed.unwrap_or(if is_seen(caller) { caller } else { frame });
        if zoomed != self.zoomed {
            self.zoomed = zoomed;
            self.zoom = self.path(zoomed);
            self.scroll_to_zoom();
        }
        self.scroll_to(frame);
    }

    fn scroll_to(&mut self, frame: usize) {
        let Some(graph) = &self.graph else { return };
        let depth = graph.frames[frame].depth as usize;
        self.scroll = self.scroll.min(depth).max((depth + 1).saturating_sub(self.levels()));
    }

    /// Returns label and module of the selected frame, or of the frame that fills the width; `None` for the root.
    pub fn function(&self) -> Option<(&str, &str)> {
        let graph = self.graph.as_ref()?;
        let frame = graph.frames[self.pointed.unwrap_or(self.zoomed)];
        let name = Some(graph.names.get(frame.name)).filter(|name| !name.is_empty())?;
        Some((name, graph.names.get(frame.module)))
    }

    /// Returns the labels from the root to the frame that fills the width.
    pub fn zoom(&self) -> &[String] {
        &self.zoom
    }

    /// Zooms to the selected frame.
    pub fn zoom_in(&mut self) {
        if let Some(at) = self.pointed {
            self.zoomed = at;
            self.zoom = self.path(at);
            self.scroll_to_zoom();
        }
    }

    /// Undoes one level of zoom; returns true if there was one.
    pub fn zoom_out(&mut self) -> bool {
        let Some(graph) = self.graph.as_ref().filter(|_| !self.zoom.is_empty()) else {
            return !std::mem::take(&mut self.zoom).is_empty();
        };
        self.zoomed = graph.frames[self.zoomed].parent as usize;
        self.zoom = self.path(self.zoomed);
        self.scroll_to_zoom();
        true
    }

    /// Scrolls so that two rows of callers of the zoomed frame remain visible.
    fn scroll_to_zoom(&mut self) {
        self.scroll = self.zoom.len().saturating_sub(2);
    }

    pub fn invert(&mut self) {
        self.inverted = !self.inverted;
    }

    /// Shows the rows of functions that only start a thread, or one row in their place; a comparison has all rows.
    pub fn change_rows(&mut self, shown: &Shown) {
        self.all_rows = !self.all_rows;
        if self.compared.is_none() {
            self.update(shown);
        }
    }

    pub fn change_height(&mut self) {
        self.dense = !self.dense;
    }

    /// Scrolls away from the root, or back.
    pub fn scroll(&mut self, outwards: bool) {
        let levels = self.levels();
        let most = self.rows.rows.len().saturating_sub(levels);
        self.scroll = match outwards {
            true => (self.scroll + 3).min(most),
            false => self.scroll.saturating_sub(3),
        };
    }

    /// Selects the frame at a position of the terminal; returns true if the selection has changed.
    pub fn point(&mut self, x: u16, y: u16) -> bool {
        let found = self.at(x, y);
        std::mem::replace(&mut self.pointed, found) != found
    }

    fn at(&self, x: u16, y: u16) -> Option<usize> {
        if !self.area.contains((x, y).into()) {
            return None;
        }
        let line = usize::from(y - self.area.y);
        let column = 2 * usize::from(x - self.area.x);
        let [upper, lower] = self.depths(line);
        let at = |depth: Option<usize>| self.rows.at(depth?, column);
        at(upper).or_else(|| at(lower))
    }

    /// Moves the selection to a neighbor: left, right, up or down on the screen.
    pub fn step(&mut self, step: Step) {
        let Some(graph) = &self.graph else { return };
        let Some(at) = self.pointed else {
            self.pointed = Some(self.zoomed);
            return;
        };
        let depth = graph.frames[at].depth as usize;
        let Some(columns) = self.rows.columns(depth, at) else {
            self.pointed = Some(self.zoomed);
            return;
        };
        let inwards = matches!(step, Step::Up) != self.inverted;
        let next = match step {
            Step::Up | Step::Down if inwards => {
                // The widest callee.
                let mut below = columns.clone().filter_map(|x| self.rows.at(depth + 1, x));
                let first = below.next();
                below.fold(first, |best, at| best.max_by_value(at, graph))
            }
            Step::Up | Step::Down => Some(graph.frames[at].parent as usize),
            Step::First => (0..columns.start).rev().find_map(|x| self.rows.at(depth, x)),
            Step::Last => {
                (columns.end..2 * usize::from(self.area.width)).find_map(|x| self.rows.at(depth, x))
            }
            Step::PageUp | Step::PageDown => None,
        };
        let Some(next) = next else { return };
        self.pointed = Some(next);
        self.scroll_to(next);
    }

    /// Returns the labels from the root to the frame that fills the width, to change them.
    pub fn names_of_zoom(&mut self) -> impl Iterator<Item = &mut String> {
        self.zoom.iter_mut()
    }

    /// Returns the labels from the root to a frame.
    fn path(&self, frame: usize) -> Vec<String> {
        let Some(graph) = &self.graph else { return Vec::new() };
        let mut path = Vec::new();
        let mut at = frame;
        while at != 0 {
            path.push(graph.names.get(graph.frames[at].name).to_owned());
            at = graph.frames[at].parent as usize;
        }
        path.reverse();
        path
    }

    /// Describes the selected frame, or the frame that fills the width, in one line.
    pub fn detail(&self, shown: &Shown) -> String {
        let Some(graph) = &self.graph else { return String::new() };
        let at = self.pointed.unwrap_or(self.zoomed);
        let frame = graph.frames[at];
        let (name, module) = match graph.names.get(frame.name) {
            "" => ("all".into(), ""),
            name => (shown.full(name), file_name(graph.names.get(frame.module))),
        };
        let module = match (module, frame.modules) {
            (_, 2..) => format!(" (in {} modules)", frame.modules),
            ("", _) => String::new(),
            (module, _) => format!(" ({module})"),
        };
        if let Some(compared) = &self.compared {
            return format!("{name}{module}: {}", change(compared, &compared.frames[at]));
        }
        let share = |value| exact_percent(value, graph.whole);
        let own = frame.own.map(|own| format!(", self {}", share(own))).unwrap_or_default();
        let value = value_text(&graph.value_type, frame.value);
        let zoom = graph.frames[self.zoomed];
        let of_zoom = match self.zoomed != 0 && is_within(&frame, &zoom) {
            true => format!(", {} of zoom", exact_percent(frame.value, zoom.value)),
            false => String::new(),
        };
        let more = match frame.folded {
            0 => String::new(),
            1 => ", 1 more row of the start in this one".to_owned(),
            more => format!(", {more} more rows of the start in this one"),
        };
        format!("{name}{module}: {} of all{of_zoom}{own}, {value}{more}", share(frame.value))
    }

    /// Returns the number of rows beyond the visible ones, away from the root.
    pub fn rows_beyond(&self) -> usize {
        self.rows.rows.len().saturating_sub(self.scroll + self.levels())
    }

    /// Returns the number of visible rows of frames.
    fn levels(&self) -> usize {
        usize::from(self.area.height) * if self.is_dense { 2 } else { 1 }
    }

    /// Returns the depths of the upper and lower row of frames in a line; both are equal if there is only one.
    fn depths(&self, line: usize) -> [Option<usize>; 2] {
        let per_line = if self.is_dense { 2 } else { 1 };
        let levels = self.levels();
        let depth = |row: usize| match self.inverted {
            true => Some(self.scroll + row),
            false => (levels - 1).checked_sub(row).map(|row| self.scroll + row),
        };
        [depth(line * per_line), depth(line * per_line + per_line - 1)]
    }

    /// Draws the graph; returns the number of frames that are too narrow to be visible.
    pub fn draw(&mut self, shown: &Shown, look: Look, area: Rect, buffer: &mut Buffer) -> usize {
        self.area = area;
        let Some(graph) = &self.graph else {
            let text = "nothing was recorded yet";
            buffer.set_stringn(area.x, area.y, text, usize::from(area.width), look.faint());
            self.rows = FrameRows::default();
            return 0;
        };
        self.rows = FrameRows::new(graph, self.zoomed, usize::from(area.width));
        let height = usize::from(area.height);
        // Two rows in one can be distinguished only by colour.
        self.is_dense = look.has_colors() && self.dense;
        self.scroll = self.scroll.min(self.rows.rows.len().saturating_sub(self.levels()));
        for line in 0..height {
            let y = area.y + line as u16;
            match (self.depths(line), self.is_dense) {
                ([Some(depth), _], false) => {
                    let of = Line { graph, shown, y, look };
                    self.draw_names(&of, depth, buffer);
                }
                ([upper, lower], true) => self.draw_two(upper, lower, y, look, buffer),
                _ => {}
            }
        }
        self.rows.narrow
    }

    fn style(&self, frame: usize, look: Look) -> FrameColors {
        match frame {
            _ if self.pointed == Some(frame) => look.selected_frame(),
            _ if self.matching.get(frame) == Some(&true) => look.matching_frame(),
            _ => self.colors[frame],
        }
    }

    /// Draws a row of frames with their names.
    fn draw_names(&self, of: &Line<'_>, depth: usize, buffer: &mut Buffer) {
        let Line { y, look, .. } = *of;
        let Some(row) = self.rows.rows.get(depth) else { return };
        for (cell, halves) in row.chunks(2).enumerate() {
            let x = self.area.x + cell as u16;
            let color =
                |at: Option<u32>| at.and_then(|at| look.color(self.style(at as usize, look).fill));
            let (symbol, style) = match (halves[0], halves[1]) {
                (None, None) => continue,
                (Some(left), Some(right)) if left == right => {
                    (" ", look.frame(self.style(left as usize, look)))
                }
                (None, right) => ("▐", with(Style::new(), color(right), None)),
                (left, right) => ("▌", with(Style::new(), color(left), color(right))),
            };
            buffer.set_stringn(x, y, symbol, 1, style);
        }
        let mut at = 0;
        for part in row.chunk_by(|a, b| a == b) {
            let columns = at..at + part.len();
            at = columns.end;
            if let Some(frame) = part[0] {
                self.draw_name(of, frame as usize, columns, buffer);
            }
        }
    }

    /// Draws the name of a frame in the cells that it fills completely.
    fn draw_name(
        &self,
        of: &Line<'_>,
        frame: usize,
        columns_of_frame: std::ops::Range<usize>,
        buffer: &mut Buffer,
    ) {
        let &Line { graph, shown, y, look } = of;
        let cells = columns_of_frame.start.div_ceil(2)..columns_of_frame.end / 2;
        if cells.len() < 2 {
            return;
        }
        let name = match graph.names.get(graph.frames[frame].name) {
            "" => "all",
            name => shown.label(name),
        };
        // The edge separates neighbors of the same colour. Fewer than three letters of a name are not useful.
        let name = match graph.frames[frame].folded_text() {
            None => name.to_owned(),
            Some(more) => format!("{name} {more}"),
        };
        let name = if cells.len() < 4 { String::new() } else { fit(&name, cells.len() - 1) };
        let text = format!("▏{name}");
        let mut style = look.frame(self.style(frame, look));
        if !look.has_colors() {
            let is_marked = self.matching.get(frame) == Some(&true);
            style = match self.pointed == Some(frame) {
                true => look.selected(),
                false if is_marked => look.strong().add_modifier(Modifier::UNDERLINED),
                false => style,
            };
        }
        let x = self.area.x + cells.start as u16;
        buffer.set_stringn(x, y, text, cells.len(), style);
    }

    /// Draws two rows of frames in one line.
    fn draw_two(
        &self,
        upper: Option<usize>,
        lower: Option<usize>,
        y: u16,
        look: Look,
        buffer: &mut Buffer,
    ) {
        for cell in 0..usize::from(self.area.width) {
            let color = |depth: Option<usize>| {
                let frame = self.rows.at(depth?, 2 * cell)?;
                look.color(self.style(frame, look).fill)
            };
            let (symbol, style) = match (color(upper), color(lower)) {
                (None, None) => continue,
                (None, lower) => ("▄", with(Style::new(), lower, None)),
                (upper, lower) => ("▀", with(Style::new(), upper, lower)),
            };
            buffer.set_stringn(self.area.x + cell as u16, y, symbol, 1, style);
        }
    }
}

/// A row of frames with names, and its position.
struct Line<'a> {
    graph: &'a FlameGraph,
    shown: &'a Shown,
    y: u16,
    look: Look,
}

/// Result of a search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Matches {
    /// Number of frames.
    pub frames: usize,
    /// Value of the samples with matching frames, and the whole.
    pub value: u64,
    pub whole: u64,
    /// The same for the frame that fills the width.
    pub in_zoom: u64,
    pub zoom: u64,
}

/// Selects the wider of two frames, and the first if both are equal.
trait Wider {
    fn max_by_value(self, other: usize, graph: &FlameGraph) -> Self;
}

impl Wider for Option<usize> {
    fn max_by_value(self, other: usize, graph: &FlameGraph) -> Self {
        match self {
            Some(best) if graph.frames[best].value >= graph.frames[other].value => Some(best),
            _ => Some(other),
        }
    }
}

fn with(style: Style, fg: Option<Color>, bg: Option<Color>) -> Style {
    let style = fg.map_or(style, |fg| style.fg(fg));
    bg.map_or(style, |bg| style.bg(bg))
}

/// Returns true if a frame is the outer one or below it; callers of the outer one are not.
fn is_within(frame: &FlameFrame, outer: &FlameFrame) -> bool {
    let range = outer.start..outer.start.saturating_add(outer.value);
    frame.depth >= outer.depth && range.contains(&frame.start)
}

/// Returns the frame at the end of a path of labels, or the last one that exists.
fn find(graph: &FlameGraph, path: &[String]) -> usize {
    let mut at = 0;
    // Callees come after their callers.
    let mut frames = graph.frames.iter().enumerate().skip(1);
    for label in path {
        let is_next = |(_, frame): &(usize, &FlameFrame)| {
            frame.parent as usize == at && graph.names.get(frame.name) == label
        };
        match frames.find(is_next) {
            Some((next, _)) => at = next,
            None => break,
        }
    }
    at
}
