//! Reader of flame graphs in SVG: Pyrograph's own, inferno's and flamegraph.pl's.
//!
//! ```text
//! <g transform="translate(0 26.5)"><g class="c1"><path d="M40 0h60"><title>parse
//! 60 samples, 60.00%</title></path></g></g>                                               ours
//! <g><title>parse (60 samples, 60.00%)</title><rect y="53" fg:x="40" fg:w="60" …/></g>    inferno
//! <g ><title>parse (60 samples, 60.00%)</title><rect x="482" y="53" width="708" …/></g>   flamegraph.pl
//! ```
//!
//! - Values are taken from the titles. If a title of Pyrograph's has a unit chosen for the value's size (`1.82 s`),
//!   values are computed from the widths.
//! - A picture of a comparison is read as its "after" side.
//! - A frame's caller is the frame directly below or above it in the next row towards the root.
//! - Frames that were too narrow to be drawn are missing: their values count as their caller's self value.

use pyrograph_profile::{
    Frame, FrameKind, Profile, Sample, StackId, ThreadId, UnitKind, ValueType,
};

use crate::input::Head;
use crate::reader::{Options, ReadError, Reader, Reading};
use crate::warnings::WarningKind;

/// Reader of flame graphs in SVG.
pub struct Svg;

impl Reader for Svg {
    fn name(&self) -> &'static str {
        "svg"
    }

    fn written_by(&self) -> &'static str {
        "pyrograph flamegraph, inferno-flamegraph, flamegraph.pl"
    }

    fn detect(&self, head: &[u8]) -> bool {
        let has = |text: &str| memchr::memmem::find(head, text.as_bytes()).is_some();
        let start = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).trim_ascii_start();
        (start.starts_with(b"<?xml") || start.starts_with(b"<svg"))
            && has("<svg")
            && (has("class=\"frames\"") || has("id=\"frames\"") || has("%)</title>"))
    }

    fn read(&self, input: Head, _options: &Options) -> Result<Reading, ReadError> {
        let name = input.name().to_owned();
        let (bytes, mut warnings) = input.into_bytes();
        let text = String::from_utf8_lossy(&bytes);
        let boxes = boxes(&text);
        if boxes.is_empty() {
            let reason = "there is no flame graph in it".to_owned();
            return Err(ReadError::Nothing { name, reason });
        }
        if boxes.iter().any(|of| of.is_compared) {
            let said = "it is a picture of a comparison: only the side after is read";
            warnings.add(WarningKind::NotHeld(said.to_owned()), 1, []);
        }
        let profile = build(boxes);
        let narrow = "frames that were too narrow to be drawn are not in the picture: what they took counts as \
                      their caller's own";
        warnings.add(WarningKind::NotHeld(narrow.to_owned()), 1, []);
        Ok(Reading::new(profile, warnings))
    }
}

/// A frame as drawn.
struct Drawn {
    name: String,
    /// Its value and the value's number of decimals, if the title has it exactly.
    value: Option<(u64, u8)>,
    /// True if the title also has the value of another side, or the difference.
    is_compared: bool,
    /// True if the picture is Pyrograph's, whose units may depend on the size of the value.
    is_ours: bool,
    /// The value as written: `1.82 s`, `60 samples`.
    shown: String,
    x: f64,
    width: f64,
    y: f64,
}

/// A tag: name, attributes, and end offset.
struct Tag<'a> {
    name: &'a str,
    attributes: &'a str,
    end: usize,
}

fn next_tag(text: &str, at: usize) -> Option<Tag<'_>> {
    let start = at + memchr::memchr(b'<', text.as_bytes().get(at..)?)? + 1;
    let end = start + memchr::memchr(b'>', text.as_bytes().get(start..)?)?;
    let inside = &text[start..end];
    let name = inside.split([' ', '\n', '\t', '/']).next().unwrap_or_default();
    let name = if inside.starts_with('/') { "/" } else { name };
    Some(Tag { name, attributes: &inside[name.len().min(inside.len())..], end: end + 1 })
}

/// Returns the value of an attribute, unparsed.
fn attribute<'a>(attributes: &'a str, name: &str) -> Option<&'a str> {
    attributes.match_indices(name).find_map(|(at, _)| {
        let is_start = attributes[..at].chars().next_back().is_none_or(char::is_whitespace);
        let rest = attributes[at + name.len()..].strip_prefix("=\"")?;
        is_start.then_some(&rest[..rest.find('"')?])
    })
}

fn number(attributes: &str, name: &str) -> Option<f64> {
    let text = attribute(attributes, name)?;
    text.trim_end_matches('%').parse().ok().filter(|number: &f64| number.is_finite())
}

/// Returns all frames, in file order.
fn boxes(text: &str) -> Vec<Drawn> {
    let mut found = Vec::new();
    let (mut at, mut row) = (0, 0.0);
    let mut title: Option<&str> = None;
    let mut path: Option<(f64, f64)> = None;
    while let Some(tag) = next_tag(text, at) {
        at = tag.end;
        match tag.name {
            "g" => {
                if let Some(y) = translation(tag.attributes) {
                    row = y;
                }
                title = None;
            }
            "path" => path = span(tag.attributes),
            "title" => {
                let end = text[at..].find("</title>").map_or(text.len(), |end| at + end);
                match path.take() {
                    Some((x, width)) => found.extend(ours(&text[at..end], x, width, row)),
                    None => title = Some(&text[at..end]),
                }
                at = end;
            }
            "rect" => {
                found.extend(title.take().and_then(|title| established(title, tag.attributes)));
            }
            "script" | "style" => {
                // The content may look like anything.
                let close = if tag.name == "script" { "</script" } else { "</style" };
                at = match tag.attributes.ends_with('/') {
                    true => at,
                    false => text[at..].find(close).map_or(text.len(), |end| at + end),
                };
            }
            _ => {}
        }
    }
    found
}

/// Returns the vertical part of `transform="translate(0 26.5)"`.
fn translation(attributes: &str) -> Option<f64> {
    let inside = attribute(attributes, "transform")?.strip_prefix("translate(")?;
    inside.trim_end_matches(')').rsplit([' ', ',']).next()?.parse().ok()
}

/// Returns the start and width of `M40 0h60`.
fn span(attributes: &str) -> Option<(f64, f64)> {
    let (x, width) = attribute(attributes, "d")?.strip_prefix('M')?.split_once(" 0h")?;
    let width: f64 = width.parse().ok()?;
    Some((x.parse().ok()?, width)).filter(|(x, width): &(f64, f64)| (x + width).is_finite())
}

/// Parses a frame of Pyrograph's: the name, and on the next line value and percentage.
fn ours(title: &str, x: f64, width: f64, y: f64) -> Option<Drawn> {
    let mut lines = title.lines();
    let name = lines.next()?;
    // In a comparison, the "after" side comes first.
    let shown = lines.next()?.split_once('%')?.0.rsplit_once(", ")?.0;
    let after = shown.strip_prefix("after ");
    let is_compared = after.is_some();
    let shown = after.unwrap_or(shown).to_owned();
    let (name, value) = (unescaped(name), exact(&shown).filter(|_| !has_chosen_unit(&shown)));
    Some(Drawn { name, value, is_compared, is_ours: true, shown, x, width, y })
}

/// Parses a frame in the form of flamegraph.pl and compatible tools.
fn established(title: &str, attributes: &str) -> Option<Drawn> {
    let (name, shown) = title.trim_end().strip_suffix(')')?.rsplit_once(" (")?;
    // `60 samples, 60.00%`, followed by `; +1.20%` in a difference.
    let (shown, change) = shown.split_once('%')?;
    let (shown, _) = shown.rsplit_once(", ")?;
    let x = number(attributes, "fg:x").or_else(|| number(attributes, "x"))?;
    let width = number(attributes, "fg:w").or_else(|| number(attributes, "width"))?;
    let drawn = number(attributes, "fg:w").filter(|width| *width >= 0.0);
    Some(Drawn {
        name: unescaped(name),
        value: exact(shown).or(drawn.map(|width| (width as u64, 0))),
        is_compared: change.starts_with("; "),
        is_ours: false,
        shown: shown.to_owned(),
        x,
        width,
        y: number(attributes, "y")?,
    })
}

/// Returns the number at the start of a value, `1,234.5`, and its number of decimals.
fn exact(shown: &str) -> Option<(u64, u8)> {
    let digits: String = shown.split(' ').next()?.chars().filter(|&c| c != ',').collect();
    let (whole, decimals) = digits.split_once('.').unwrap_or((&digits, ""));
    let value = format!("{whole}{decimals}").parse().ok()?;
    Some((value, u8::try_from(decimals.len()).ok().filter(|&decimals| decimals <= 9)?))
}

/// True if the value is rounded to a unit that depends on its size.
fn has_chosen_unit(shown: &str) -> bool {
    let unit = shown.split_once(' ').map_or("", |(_, unit)| unit);
    ["s", "ms", "µs", "ns", "B", "KiB", "MiB", "GiB"].contains(&unit)
}

/// Returns the type of the values, and the root's value if it is rounded to a unit that depends on its size.
fn value_type(shown: &str, is_ours: bool) -> (ValueType, Option<f64>) {
    let (digits, unit) = shown.split_once(' ').unwrap_or((shown, ""));
    let digits: String = digits.chars().filter(|&c| c != ',').collect();
    let units = |factor: f64| digits.parse::<f64>().ok().map(|number| number * factor);
    let (time, size) = (ValueType::new("time", "ns"), ValueType::new("size", "bytes"));
    match unit {
        unit @ ("ns" | "us" | "ms" | "s") if !is_ours => (ValueType::new("time", unit), None),
        "s" => (time, units(1e9)),
        "ms" => (time, units(1e6)),
        "µs" => (time, units(1e3)),
        "ns" => (time, units(1.0)),
        "B" => (size, units(1.0)),
        "KiB" => (size, units(1024.0)),
        "MiB" => (size, units(1024.0 * 1024.0)),
        "GiB" => (size, units(1024.0 * 1024.0 * 1024.0)),
        "" => (ValueType::unnamed(), None),
        "sample" => (ValueType::samples(), None),
        noun => match UnitKind::of_unit(noun) {
            UnitKind::Time(unit) => (ValueType::new("time", unit.short()), None),
            UnitKind::Bytes => (size, None),
            _ => (ValueType::new(noun, "count"), None),
        },
    }
}

/// Replaces XML character references in a text.
fn unescaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let end = rest.bytes().take(12).position(|byte| byte == b';');
        let reference = end.and_then(|end| Some((end, character(&rest[1..end])?)));
        match reference {
            Some((end, c)) => {
                out.push(c);
                rest = &rest[end + 1..];
            }
            None => {
                out.push('&');
                rest = &rest[1..];
            }
        }
    }
    out.push_str(rest);
    out
}

fn character(reference: &str) -> Option<char> {
    let code = reference.strip_prefix('#');
    match (reference, code.and_then(|code| code.strip_prefix('x')), code) {
        ("lt", ..) => Some('<'),
        ("gt", ..) => Some('>'),
        ("amp", ..) => Some('&'),
        ("quot", ..) => Some('"'),
        ("apos", ..) => Some('\''),
        (_, Some(hex), _) => u32::from_str_radix(hex, 16).ok().and_then(char::from_u32),
        (_, _, Some(decimal)) => decimal.parse().ok().and_then(char::from_u32),
        _ => None,
    }
}

fn build(mut boxes: Vec<Drawn>) -> Profile {
    let widest = boxes.iter().max_by(|a, b| a.width.total_cmp(&b.width));
    let (root_y, root_width, shown, is_ours) = widest
        .map_or((0.0, 0.0, String::new(), false), |of| {
            (of.y, of.width, of.shown.clone(), of.is_ours)
        });
    // The root's row is the lowest, or the highest in an icicle graph.
    let up = !boxes.iter().any(|of| of.y > root_y && of.width < root_width);
    let down = |y: f64| if up { -y } else { y };
    boxes.sort_by(|a, b| down(a.y).total_cmp(&down(b.y)).then(a.x.total_cmp(&b.x)));
    let (of, total) = value_type(&shown, is_ours);
    let decimals = match total {
        None => {
            boxes.iter().filter_map(|of| of.value).map(|(_, decimals)| decimals).max().unwrap_or(0)
        }
        Some(_) => 0,
    };
    let fine = |(value, of): (u64, u8)| {
        value.saturating_mul(10u64.saturating_pow((decimals - of.min(decimals)).into()))
    };
    let total = total.or_else(|| exact(&shown).map(|value| fine(value) as f64));
    let scale = total.filter(|_| root_width > 0.0).map_or(1.0, |total| total / root_width);
    let is_scaled = has_chosen_unit(&shown) && is_ours;
    let value = |drawn: &Drawn| match drawn.value.filter(|_| !is_scaled) {
        Some(value) => fine(value),
        None => (drawn.width * scale).round() as u64,
    };
    let of = ValueType { decimals, ..of };

    let mut profile = Profile::new(vec![of]);
    let mut stacks = vec![StackId::ROOT; boxes.len()];
    let mut own: Vec<u64> = boxes.iter().map(value).collect();
    let (mut above, mut row) = (0..0, 0..0);
    for index in 0..boxes.len() {
        if boxes[index].y.total_cmp(&boxes[row.start].y).is_ne() {
            above = row;
            row = index..index;
        }
        row.end = index + 1;
        let (middle, total) = (boxes[index].x + boxes[index].width / 2.0, own[index]);
        let after = above.start + boxes[above.clone()].partition_point(|of| of.x <= middle);
        let caller = after.checked_sub(1).filter(|caller| above.contains(caller));
        let mut stack = StackId::ROOT;
        if let Some(caller) = caller {
            stack = stacks[caller];
            own[caller] = own[caller].saturating_sub(total);
        }
        // The root frame `all` is not a function.
        if caller.is_some() || boxes[index].name != "all" {
            let name = profile.strings.intern(&boxes[index].name);
            let frame = profile.frames.intern(Frame::named(name, FrameKind::User));
            stack = profile.stacks.intern(stack, frame);
        }
        stacks[index] = stack;
    }
    for (stack, value) in stacks.into_iter().zip(own).filter(|&(_, value)| value > 0) {
        let sample = Sample { thread: ThreadId::UNKNOWN, ..Sample::new(stack) };
        profile.push(sample, &[value]);
    }
    profile
}

#[cfg(test)]
mod tests {
    use pyrograph_profile::{LabelOptions, Tree};

    use super::*;
    use crate::{Input, detect, write_folded};

    #[track_caller]
    fn check(text: &str, of: ValueType, expect: &str) {
        assert_eq!(detect(text.as_bytes()).map(Reader::name), Some("svg"));
        let input = Input::bytes("x", text).begin().expect("bytes in memory");
        let profile = Svg.read(input, &Options::default()).expect("a picture").profile;
        let mut out = Vec::new();
        write_folded(&Tree::new(&profile, &LabelOptions::default()), &mut out).expect("to memory");
        assert_eq!(String::from_utf8_lossy(&out), expect);
        assert_eq!(profile.value_types, [of]);
    }

    #[test]
    fn titles_and_widths_become_stacks_again() {
        let pl = "<?xml version=\"1.0\"?><svg xmlns=\"http://www.w3.org/2000/svg\"><title>Flame Graph</title>\
            <rect x=\"0\" y=\"0\" width=\"1200\" height=\"9\"/><g id=\"frames\">\
            <g >\n<title>a&lt;b&gt; (c) (30 samples, 30.00%)</title><rect x=\"10.0\" y=\"37\" width=\"354.0\"/></g>\
            <g >\n<title>all (100 samples, 100%)</title><rect x=\"10.0\" y=\"69\" width=\"1180.0\"/></g>\
            <g >\n<title>main (90 samples, 90.00%; +1.00%)</title><rect x=\"10.0\" y=\"53\" width=\"1062.0\"/></g>\
            </g></svg>";
        let expect = "[unknown] 10\nmain 60\nmain;a<b> (c) 30\n";
        check(pl, ValueType::new("samples", "count"), expect);
        let inferno = "<svg><svg id=\"frames\"><g><title>all (2,000 ns, 100.00%)</title>\
            <rect x=\"0%\" y=\"5\" width=\"100%\" fg:x=\"0\" fg:w=\"2000\"/></g>\
            <g><title>f (1,500 ns, 75.00%)</title><rect x=\"0%\" y=\"21\" width=\"75%\" fg:x=\"0\" fg:w=\"1500\"/>\
            </g></svg></svg>";
        check(inferno, ValueType::new("time", "ns"), "[unknown] 500\nf 1500\n");
        let own = "<svg><svg class=\"frames\"><g transform=\"translate(0 26.5)\"><g class=\"c0\">\
            <path d=\"M0 0h100\"><title>all\n1.00 s, 100.00%</title></path></g></g>\
            <g transform=\"translate(0 8.5)\"><g class=\"c1\"><path d=\"M0 0h25\"><title>f\n250 ms, 25.00%</title>\
            </path></g></g></svg></svg>";
        check(own, ValueType::new("time", "ns"), "[unknown] 750000000\nf 250000000\n");
    }

    /// 12 ns are 12, and not what a width of 0.4 pixels comes to.
    #[test]
    fn numbers_in_titles_of_flamegraph_pl_are_exact_in_any_unit() {
        let picture = |unit: &str| {
            format!(
                "<svg id=\"frames\"><g ><title>all (10,892 {unit}, 100%)</title>\
                <rect x=\"10.0\" y=\"69\" width=\"1180.0\" /></g>\
                <g ><title>f (12 {unit}, 0.11%)</title><rect x=\"10.0\" y=\"53\" width=\"0.4\" /></g></svg>"
            )
        };
        for (unit, of) in [
            ("ns", ValueType::new("time", "ns")),
            ("ms", ValueType::new("time", "ms")),
            ("bytes", ValueType::new("size", "bytes")),
            ("samples", ValueType::new("samples", "count")),
        ] {
            check(&picture(unit), of, "[unknown] 10880\nf 12\n");
        }
    }

    /// 335.5 was taken for no number, so that widths of a million stood beside values of a few hundred.
    #[test]
    fn comparisons_are_read_as_their_side_after_and_decimals_are_kept() {
        let own = "<svg class=\"frames\"><g transform=\"translate(0 26.5)\"><g><path d=\"M0 0h1000000\" \
            data-other=\"M0 0h1000000\"><title>all\nafter 335.5, 100.00%\nbefore 405.5, 100.00%\n-70, +0.00 points\
            </title></path></g></g><g transform=\"translate(0 8.5)\"><g><path d=\"M0 0h10000\"><title>f\n\
            after 4, 1.19%\nbefore 9, 2.00%</title></path></g></g></svg>";
        check(own, ValueType { decimals: 1, ..ValueType::unnamed() }, "[unknown] 331.5\nf 4\n");
        let established = "<svg id=\"frames\"><g ><title>all (336 samples, 100%)</title>\
            <rect x=\"10.0\" y=\"69\" width=\"1180.0\" /></g><g ><title>f (25 samples, 7.45%; -1.00%)</title>\
            <rect x=\"10.0\" y=\"53\" width=\"87.9\" /></g></svg>";
        for text in [own, established] {
            let input = Input::bytes("x", text).begin().expect("bytes in memory");
            let warnings = Svg.read(input, &Options::default()).expect("a picture").warnings;
            let said: Vec<String> = warnings.iter().map(ToString::to_string).collect();
            assert!(said.iter().any(|line| line.contains("only the side after")), "{said:?}");
        }
    }

    #[test]
    fn what_is_no_flame_graph_is_an_error() {
        let input = Input::bytes("x", "<svg id=\"frames\"><title>a (1 x").begin().expect("bytes");
        let error = Svg.read(input, &Options::default()).expect_err("no frames");
        assert_eq!(error.to_string(), "read x: there is no flame graph in it");
    }
}
