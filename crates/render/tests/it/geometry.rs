//! Where frames stand, in pixels.

use pyrograph_render::{MinWidth, SvgOptions};

/// `name row x width`, rows counted from the root; pixels with one digit.
fn frames(xml: &str, inverted: bool) -> Vec<String> {
    let number = |text: &str, before: &str| -> f64 {
        let rest = text.split(before).nth(1).expect("the attribute is there");
        let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(rest.len());
        rest[..end].parse().expect("a number")
    };
    let picture = xml.split("<svg class=\"frames\"").nth(1).expect("frames");
    let (margin, width) = (number(picture, "x=\""), number(picture, "width=\""));
    let span = number(picture, "viewBox=\"0 0 ");
    let rows: Vec<f64> =
        picture.split("<g transform=\"").skip(1).map(|row| number(row, "translate(0 ")).collect();
    let mut found = Vec::new();
    for (row, text) in picture.split("<g transform=\"").skip(1).enumerate() {
        for path in text.split("<path d=\"M").skip(1).filter(|path| path.contains("<title>")) {
            let (start, rest) = path.split_once(" 0h").expect("a frame's path");
            let wide: f64 = rest.split('"').next().and_then(|w| w.parse().ok()).expect("a width");
            let start: f64 = start.parse().expect("a start");
            let name = path.split("<title>").nth(1).and_then(|t| t.split('\n').next());
            found.push(format!(
                "{} {row} {:.1} {:.1}",
                name.expect("a name"),
                margin + start / span * width,
                wide / span * width
            ));
        }
    }
    assert!(rows.is_sorted_by(|a, b| if inverted { a < b } else { a > b }));
    found.sort();
    found
}

#[test]
fn frames_stand_where_established_tools_put_them() {
    // x and width as flamegraph.pl draws this input.
    let options = SvgOptions::default();
    let xml =
        crate::common::picture(&crate::common::graph("a;b 10\na;c 2\nz 3", 1, &options), &options);
    let expect = [
        "a 1 10.0 944.0",
        "all 0 10.0 1180.0",
        "b 2 10.0 786.7",
        "c 2 796.7 157.3",
        "z 1 954.0 236.0",
    ];
    assert_eq!(frames(&xml, false), expect);
    let options = SvgOptions { inverted: true, ..Default::default() };
    let xml =
        crate::common::picture(&crate::common::graph("a;b 10\na;c 2\nz 3", 1, &options), &options);
    assert_eq!(frames(&xml, true), expect);
}

#[test]
fn large_totals_lose_no_tenth_of_a_pixel() {
    let lines = "a 123456789012345\nb 1000000000000000\nc 999999999999\nd 7";
    let options = SvgOptions { min_width: MinWidth::Pixels(0.1), ..Default::default() };
    let xml = crate::common::picture(&crate::common::graph(lines, 1, &options), &options);
    assert_eq!(
        frames(&xml, false),
        ["a 1 10.0 129.6", "all 0 10.0 1180.0", "b 1 139.6 1049.4", "c 1 1189.0 1.0"]
    );
    assert!(xml.contains(", 1 frame narrower than 0.1 px not drawn</text>"));
}

#[test]
fn text_is_cut_to_fit_and_left_out_where_nothing_fits() {
    let options = SvgOptions { width: Some(220.0), font_width: Some(0.6), ..Default::default() };
    let lines = "alpha::beta::gamma 70\nvery_long_function_name_that_does_not_fit 27\nzed 3";
    let xml = crate::common::picture(&crate::common::graph(lines, 1, &options), &options);
    for text in [">alpha::beta::gamma</text>", ">very_…</text>"] {
        assert!(xml.contains(text), "{text} in {xml}");
    }
    assert!(!xml.contains(">zed</text>"));
}
