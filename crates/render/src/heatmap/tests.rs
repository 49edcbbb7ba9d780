use pyrograph_analyze::{HeatMapOptions, heat_map};

use super::*;

fn draw(points: &[(f64, f64)], options: &HeatMapOptions, look: &HeatMapLook) -> String {
    let times: Vec<f64> = points.iter().map(|(time, _)| time * 1e9).collect();
    let values: Vec<f64> = points.iter().map(|(_, value)| *value).collect();
    let map = heat_map(&times, &values, options).expect("points");
    let mut out = Vec::new();
    heat_map_svg(&map, look, &mut out).expect("writing to memory");
    String::from_utf8(out).expect("UTF-8")
}

#[test]
fn the_script_can_stand_in_any_page() {
    let mut text = String::new();
    script(&mut text, SCRIPT);
    let body = &text["<script>\n".len()..text.len() - "</script>\n".len()];
    assert!(body.is_ascii());
    for bad in ["<", "&", "]]>", "\n\n"] {
        assert!(!body.contains(bad), "the script contains {bad:?}");
    }
}

#[test]
fn runs_of_one_colour_are_one_line_and_counts_are_beside_them() {
    let points = [(0.0, 0.0), (1.0, 0.0), (1.0, 0.0), (2.0, 0.0), (2.0, 9.0)];
    let options =
        HeatMapOptions { column_step: Some(1e9), rows: Some(3), ..HeatMapOptions::default() };
    let svg = draw(&points, &options, &HeatMapLook::default());
    assert!(svg.contains("d=\"M2 0h1M0 2h1M2 2h1\" data-n=\"1\""), "{svg}");
    assert!(svg.contains("d=\"M1 2h1\" data-n=\"2\""), "{svg}");
    assert!(svg.contains("data-points=\"1 2 2\""), "{svg}");
}

#[test]
fn text_from_outside_stays_text() {
    let nasty = "</script><script>alert(1)</script>\"'&".to_owned();
    let look = HeatMapLook {
        title: nasty.clone(),
        subtitle: nasty.clone(),
        unit: nasty.clone(),
        noun: nasty.clone(),
        font: nasty,
        ..HeatMapLook::default()
    };
    for embed in [false, true] {
        let look = HeatMapLook { embed, ..look.clone() };
        let svg = draw(&[(0.0, 1.0), (5.0, 7.0)], &HeatMapOptions::default(), &look);
        assert!(!svg.contains("alert(1)</script>"));
        assert_eq!(svg.matches("<script").count(), usize::from(!embed));
        let mut reader = quick_xml::Reader::from_str(&svg);
        loop {
            match reader.read_event().expect("well-formed") {
                quick_xml::events::Event::Eof => break,
                quick_xml::events::Event::Start(tag) | quick_xml::events::Event::Empty(tag) => {
                    assert!(tag.attributes().all(|attribute| attribute.is_ok()));
                }
                _ => {}
            }
        }
    }
}

#[test]
fn an_embedded_picture_says_what_is_in_each_cell() {
    let points = [(0.0, 1.0), (0.0, 1.0), (0.0, 10_000.0), (3.0, 2_000.0)];
    let options =
        HeatMapOptions { column_step: Some(1e9), rows: Some(10), ..HeatMapOptions::default() };
    let look = HeatMapLook { unit: "us".to_owned(), embed: true, ..HeatMapLook::default() };
    let svg = draw(&points, &options, &look);
    assert!(svg.contains("<title>0–1 s, 0–1 ms\n2 events, 66.67% of the column</title>"), "{svg}");
}

#[test]
fn what_is_not_drawn_is_said() {
    let points: Vec<(f64, f64)> = (0..100).map(|value| (0.0, f64::from(value))).collect();
    let options = HeatMapOptions { low: Some(10.0), high: Some(50.0), ..HeatMapOptions::default() };
    let look = HeatMapLook { unit: "ms".to_owned(), ..HeatMapLook::default() };
    let svg = draw(&points, &options, &look);
    assert!(svg.contains("not drawn of 100 events: 10 below 10 ms, 49 above 50 ms"), "{svg}");
}
