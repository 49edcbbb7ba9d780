//! Page around the frames: the root element, style, title and footer.

use super::diff::stripes;
use super::number;
use crate::palette::Paint;
use crate::tag::{Tag, end, tag};
use crate::text::{Metrics, escape};
use crate::{Rgb, SvgOptions, Theme};

/// Fonts: the reader's interface font.
pub(crate) const FONT: &str =
    "system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',Verdana,sans-serif";

/// Text colours, on light and on dark pages.
pub(crate) const TEXT: (Rgb, Rgb) = (Rgb(0x1d, 0x1d, 0x20), Rgb(0xec, 0xec, 0xee));
pub(crate) const MUTED: (Rgb, Rgb) = (Rgb(0x5c, 0x5c, 0x63), Rgb(0xa8, 0xa8, 0xb0));
/// Default background, on light and on dark pages.
pub(crate) const BACKGROUND: (Rgb, Rgb) = (Rgb::WHITE, Rgb(0x17, 0x17, 0x1b));

/// Colour of search hits, which no palette contains.
pub(crate) const FOUND: (Rgb, Rgb) = (Rgb(0xf0, 0x6a, 0xbf), Rgb(0xd4, 0x00, 0x7f));

/// Page around the frames.
pub(super) struct Page<'a> {
    pub(super) options: &'a SvgOptions,
    /// Class of the root element, and prefix of unique names.
    pub(super) id: &'a str,
    pub(super) width: f64,
    /// Top of the frames.
    pub(super) top: f64,
    metrics: Metrics,
}

/// Content of the footer.
pub(super) struct Footer<'a> {
    legend: &'a [(Paint, String)],
    /// Notice, split into lines.
    notice: Vec<&'a str>,
    /// True if the notice is below the legend.
    below: bool,
    pub(super) height: f64,
}

/// Text and background colours on light and on dark pages, derived from the theme or from a fixed background.
struct Inks {
    text: (Rgb, Rgb),
    muted: (Rgb, Rgb),
    background: (Rgb, Rgb),
}

impl<'a> Page<'a> {
    pub(super) fn new(options: &'a SvgOptions, id: &'a str) -> Self {
        let width = options.width.unwrap_or(SvgOptions::DEFAULT_WIDTH).max(40.0);
        let title = options.font_size + 5.0;
        let mut top = if options.title.is_empty() { 36.0 } else { title + 23.0 };
        let metrics = Metrics { size: options.font_size, uniform: options.font_width };
        let subtitle = wrap(metrics, &options.subtitle, width - 2.0 * SvgOptions::MARGIN);
        top += subtitle.len() as f64 * (options.font_size + 6.0);
        Self { options, id, width, top: top.round(), metrics }
    }

    pub(super) fn metrics(&self) -> Metrics {
        self.metrics
    }

    fn inks(&self) -> Inks {
        let theme = self.options.theme;
        match self.options.background {
            None => Inks {
                text: theme.choose(TEXT),
                muted: theme.choose(MUTED),
                background: theme.choose(BACKGROUND),
            },
            Some(fixed) => {
                let ink = fixed.top.ink();
                let same = (ink, ink);
                Inks { text: same, muted: same, background: (fixed.top, fixed.top) }
            }
        }
    }

    /// Colour of the gaps between frames.
    pub(super) fn gap(&self) -> Rgb {
        self.inks().background.0
    }

    pub(super) fn footer<'f>(&self, legend: &'f [(Paint, String)], notice: &'f str) -> Footer<'f> {
        let legend_width: f64 = legend.iter().map(|(_, label)| self.entry_width(label)).sum();
        let room = self.width - 2.0 * SvgOptions::MARGIN;
        let below = !legend.is_empty() && self.metrics.width(notice) > room - legend_width;
        let whole = legend.is_empty() || below;
        let notice = wrap(self.metrics, notice, if whole { room } else { f64::INFINITY });
        let lines = notice.len() + usize::from(below);
        let lines = lines.max(usize::from(!legend.is_empty()));
        let height = SvgOptions::MARGIN + lines as f64 * (self.options.font_size + 8.0);
        Footer { legend, notice, below, height }
    }

    /// Writes the XML prolog and the start of the root element. `summary` is markup; `below` is the height of
    /// everything from the frames on.
    pub(super) fn open(&self, out: &mut String, summary: &str, below: f64) {
        let options = self.options;
        if !options.embed {
            out.push_str("<?xml version=\"1.0\" encoding=\"");
            out.push_str(options.encoding.name());
            out.push_str("\"?>\n");
        }
        let height = self.top + below;
        let mut svg = tag(out, "svg")
            .attr("xmlns", "http://www.w3.org/2000/svg")
            .attr("class", self.id)
            .attr_by("viewBox", |out| {
                out.push_str("0 0 ");
                number(out, self.width);
                out.push(' ');
                number(out, height);
            })
            .pixels("width", self.width)
            .pixels("height", height);
        if options.width.is_none() {
            svg = svg.attr("style", "max-width:100%;height:auto");
        }
        svg = svg
            .attr("role", "figure")
            .attr_by("aria-label", |out| {
                if !options.title.is_empty() {
                    escape(out, &options.title);
                    out.push_str(": ");
                }
                out.push_str(summary);
            })
            .attr_by("font-family", |out| {
                if !options.font.is_empty() {
                    escape(out, &options.font);
                    out.push(',');
                }
                out.push_str(FONT);
            })
            .pixels("font-size", options.font_size);
        if options.embed { svg } else { self.settings(svg) }.open_line();
        if !options.notes.is_empty() {
            // XML forbids two hyphens in a comment.
            out.push_str("<!-- ");
            escape(out, &options.notes.replace('-', "\u{2010}"));
            out.push_str(" -->\n");
        }
        if !options.title.is_empty() {
            tag(out, "title").text(&options.title).push('\n');
        }
    }

    /// Adds the attributes for the script.
    fn settings<'o>(&self, tag: Tag<'o>) -> Tag<'o> {
        let options = self.options;
        let tag = tag
            .pixels("data-row", options.row_height)
            .attr_if("data-inverted", options.inverted.then_some(""))
            .attr_if("data-fixed", options.width.map(|_| ""))
            .attr_if("data-theme", options.theme.name())
            .attr_if("data-char", options.font_width);
        match &options.name_type[..] {
            "" => tag,
            name => tag.attr_text("data-nametype", name),
        }
    }

    /// Writes the style: everything that attributes cannot express.
    pub(super) fn style(&self, out: &mut String, paints: &[Paint], legend: &[(Paint, String)]) {
        let background = self.inks().background;
        let id = self.id;
        out.push_str("<style>\n");
        for rule in [
            "{font-variant-numeric:tabular-nums}",
            " text{cursor:default}",
            " .frames,.ID .text{cursor:pointer}",
            " .text text{cursor:pointer}",
            " .frames{overflow:hidden;-webkit-user-select:none;user-select:none}",
            " .frames:focus,.ID path:focus{outline:none}",
            " .up{opacity:.5}",
            " text.up{opacity:.8}",
        ] {
            let rule = rule.replace("ID", id);
            out.push_str(&format!(".{id}{rule}\n"));
        }
        self.search_style(out, paints, false);
        // Fills the rest of the window if the file is opened on its own.
        let below = self.options.background.map_or(background.0, |fixed| fixed.bottom);
        out.push_str(&format!(".{id}{{background:{below}}}\n"));
        // Printed pages are light.
        if self.options.theme == Theme::Auto {
            out.push_str("@media screen and (prefers-color-scheme:dark){\n");
            self.dark_style(out, paints, legend);
            out.push_str("}\n");
        }
        // A printed page cannot be clicked; the whole picture fits on one page.
        out.push_str(&format!(
            "@media print{{.{id} .controls{{display:none}}\
             .{id}:root{{width:100vw;height:100vh}}}}\n</style>\n"
        ));
        self.background(out, background.0);
    }

    /// Writes the rules that differ on dark pages.
    fn dark_style(&self, out: &mut String, paints: &[Paint], legend: &[(Paint, String)]) {
        let Inks { text, muted, background } = self.inks();
        let id = self.id;
        if background.0 != background.1 {
            out.push_str(&format!(".{id}{{background:{}}}\n", background.1));
            let rules = [
                ("bg", "fill", background.1),
                ("gap", "stroke", background.1),
                ("head", "fill", text.1),
                ("foot", "fill", muted.1),
                ("sub", "fill", muted.1),
            ];
            for (class, property, colour) in rules {
                out.push_str(&format!(".{id} .{class}{{{property}:{colour}}}\n"));
            }
        }
        let mut inks_differ = false;
        for (index, paint) in paints.iter().enumerate() {
            let inks = paint.inks(self.options.theme);
            inks_differ |= inks.0 != inks.1;
            if paint.dark != paint.light {
                let colour = paint.dark;
                let stroke =
                    if paint.hatched { format!("url(#{id}-{index}d)") } else { colour.to_string() };
                out.push_str(&format!(".{id} .c{index}{{stroke:{stroke}}}\n"));
            }
        }
        for (index, (paint, _)) in legend.iter().enumerate() {
            let fill = if paint.hatched {
                format!("url(#{id}-l{index}d)")
            } else {
                paint.dark.to_string()
            };
            out.push_str(&format!(".{id} .l{index}{{fill:{fill}}}\n"));
        }
        if inks_differ {
            out.push_str(&format!(".{id} .text{{fill:#fff}}\n"));
        }
        self.search_style(out, paints, true);
    }

    /// Writes the colours of a search: matching frames have a colour of their own, and other frames keep their hue
    /// with less chroma.
    fn search_style(&self, out: &mut String, paints: &[Paint], dark: bool) {
        let id = self.id;
        for (index, paint) in paints.iter().enumerate().filter(|(_, paint)| !paint.hatched) {
            if dark && paint.dark == paint.light {
                continue;
            }
            let colour = if dark { paint.dark } else { paint.light };
            out.push_str(&format!(".{id}.hits .c{index}{{stroke:{}}}\n", colour.muted()));
        }
        let found = if dark { FOUND.1 } else { self.options.theme.choose(FOUND).0 };
        out.push_str(&format!(".{id}.hits .frames path.hit{{stroke:{found}}}\n"));
    }

    fn background(&self, out: &mut String, flat: Rgb) {
        let id = self.id;
        match self.options.background {
            Some(fixed) if fixed.top != fixed.bottom => out.push_str(&format!(
                "<defs><linearGradient id=\"{id}-bg\" x2=\"0\" y2=\"1\"><stop stop-color=\"{}\"/>\
                 <stop offset=\"1\" stop-color=\"{}\"/></linearGradient></defs>\n\
                 <rect width=\"100%\" height=\"100%\" fill=\"url(#{id}-bg)\"/>\n",
                fixed.top, fixed.bottom
            )),
            _ => {
                tag(out, "rect")
                    .attr("class", "bg")
                    .attr("width", "100%")
                    .attr("height", "100%")
                    .attr("fill", flat)
                    .close();
                out.push('\n');
            }
        }
    }

    pub(super) fn head(&self, out: &mut String) {
        let options = self.options;
        let size = options.font_size + 5.0;
        let inks = self.inks();
        tag(out, "g").attr("class", "head").attr("fill", inks.text.0).open_line();
        let room = self.width - 2.0 * SvgOptions::MARGIN;
        let mut y = 6.0;
        if !options.title.is_empty() {
            y += size + 2.0;
            let metrics = Metrics { size, ..self.metrics };
            if let Some(shown) = metrics.fit(&options.title, room) {
                tag(out, "text")
                    .attr("class", "title")
                    .attr("x", SvgOptions::MARGIN)
                    .pixels("y", y)
                    .attr("font-size", size)
                    .attr("font-weight", 600)
                    .text(&shown)
                    .push('\n');
            }
        }
        if !options.subtitle.is_empty() {
            y += options.font_size + 7.0;
            let lines = wrap(self.metrics, &options.subtitle, room);
            let text = tag(out, "text")
                .attr("class", "sub")
                .attr("x", SvgOptions::MARGIN)
                .pixels("y", y)
                .attr("fill", inks.muted.0);
            self.lines(text, &lines, SvgOptions::MARGIN, options.font_size + 6.0);
        }
        end(out, "g");
    }

    /// Writes the lines of a text; all but the first are in elements of their own.
    fn lines(&self, text: Tag<'_>, lines: &[&str], x: f64, height: f64) {
        let out = text.open();
        let (first, more) = lines.split_first().unwrap_or((&"", &[]));
        escape(out, first);
        for more in more {
            tag(out, "tspan").pixels("x", x).pixels("dy", height).text(more);
        }
        end(out, "text");
    }

    fn entry_width(&self, label: &str) -> f64 {
        let swatch = if label.is_empty() { 0.0 } else { 18.0 };
        12.0 + swatch + self.metrics.width(label)
    }

    /// Writes the footer: the legend, and the notice to its right or below it.
    pub(super) fn foot(&self, out: &mut String, footer: &Footer<'_>, frames_height: f64) {
        let size = self.options.font_size;
        let line = size + 8.0;
        tag(out, "g")
            .attr("class", "foot")
            .attr("fill", self.inks().muted.0)
            .attr_by("transform", |out| {
                out.push_str("translate(0 ");
                number(out, self.top + frames_height);
                out.push(')');
            })
            .open_line();
        let baseline = size + 8.0;
        let mut x = SvgOptions::MARGIN;
        if !footer.legend.is_empty() {
            tag(out, "g").attr("class", "legend").open_line();
            for (index, (paint, label)) in footer.legend.iter().enumerate() {
                let id = format!("{}-l{index}", self.id);
                let mut fill = paint.light.to_string();
                if paint.hatched {
                    out.push_str(&stripes(&id, "", paint.light, "rotate(45)"));
                    out.push_str(&stripes(&format!("{id}d"), "", paint.dark, "rotate(45)"));
                    fill = format!("url(#{id})");
                }
                tag(out, "rect")
                    .attr("class", format_args!("l{index}"))
                    .attr("width", 12)
                    .attr("height", 12)
                    .attr("rx", 2)
                    .attr("fill", fill)
                    .pixels("x", x)
                    .pixels("y", baseline - 10.0)
                    .close();
                x += 12.0;
                if !label.is_empty() {
                    tag(out, "text").pixels("x", x + 5.0).pixels("y", baseline).text(label);
                    x += 5.0 + self.metrics.width(label) + 13.0;
                }
                out.push('\n');
            }
            end(out, "g");
        }
        if !footer.notice.is_empty() {
            let y = if footer.below { baseline + line } else { baseline };
            let right = !footer.legend.is_empty() && !footer.below;
            let x = if right { self.width - SvgOptions::MARGIN } else { SvgOptions::MARGIN };
            let text = tag(out, "text")
                .attr("class", "notice")
                .pixels("y", y)
                .pixels("x", x)
                .attr_if("text-anchor", right.then_some("end"));
            self.lines(text, &footer.notice, x, line);
        }
        end(out, "g");
    }
}

/// Splits text into lines that fit; each includes the blank at which it was split. `2-view.js` implements the same
/// rule.
pub(crate) fn wrap(metrics: Metrics, text: &str, room: f64) -> Vec<&str> {
    let mut lines = Vec::new();
    let (mut start, mut end) = (0, 0);
    for word in text.split_inclusive(' ') {
        let line = text[start..end + word.len()].trim_end();
        if end > start && metrics.width(line) > room {
            lines.push(&text[start..end]);
            start = end;
        }
        end += word.len();
    }
    if end > start {
        lines.push(&text[start..end]);
    }
    lines
}
