//! Pictures that hold hostile text are still well-formed, and hold nothing but text.

use pyrograph_render::{NameAttributes, PaletteMap, SvgOptions};
use quick_xml::events::Event;

const NASTY: &str =
    "</title><script>alert(1)</script>\"'>]]>&amp;\u{1}\u{1b}[31m\u{202e}\u{ffff}<!--";

/// The elements of a document, and all its attributes; panics if it is not well-formed.
fn parse(xml: &str) -> Vec<(String, Vec<(String, String)>)> {
    let mut reader = quick_xml::Reader::from_str(xml);
    reader.config_mut().check_end_names = true;
    reader.config_mut().check_comments = true;
    let mut elements = Vec::new();
    let mut depth = 0;
    loop {
        let event = reader.read_event().unwrap_or_else(|error| panic!("{error} in {xml}"));
        depth += match &event {
            Event::Start(_) => 1,
            Event::End(_) => -1,
            _ => 0,
        };
        match event {
            Event::Start(element) | Event::Empty(element) => {
                let name = String::from_utf8_lossy(element.name().as_ref()).into_owned();
                let attributes = element
                    .attributes()
                    .map(|attribute| {
                        let attribute = attribute.expect("a well-formed attribute");
                        let value = attribute.unescape_value().expect("known entities");
                        (
                            String::from_utf8_lossy(attribute.key.as_ref()).into_owned(),
                            value.into_owned(),
                        )
                    })
                    .collect();
                elements.push((name, attributes));
            }
            Event::CData(_) => panic!("pictures have no CDATA"),
            Event::DocType(_) => panic!("pictures have no DOCTYPE"),
            Event::Eof => break,
            _ => {}
        }
    }
    assert_eq!(depth, 0, "every element is closed");
    let allowed = |c: char| matches!(c, '\t' | '\n' | '\r' | ' '..='\u{fffd}' | '\u{10000}'..);
    assert!(xml.chars().all(allowed), "only characters that XML allows");
    elements
}

fn hostile() -> SvgOptions {
    let nasty = || NASTY.to_owned();
    let file = format!(
        "{NASTY}\ttitle={NASTY}\thref=https://example.org/?{NASTY}\ttarget={NASTY}\tclass={NASTY}\n\
         main\tonclick=alert(1)\thref=javascript:alert(1)\tstyle=x\tfill=url(x)\tdata-x={NASTY}"
    );
    SvgOptions {
        title: nasty(),
        subtitle: nasty(),
        font: nasty(),
        count_name: Some(nasty()),
        name_type: nasty(),
        notes: format!("{NASTY} -- ---> --!>"),
        attributes: NameAttributes::parse(&file).0,
        palette_map: Some(PaletteMap::parse("main->rgb(1,2,3)\n\"><script>->red")),
        ..Default::default()
    }
}

#[test]
fn hostile_text_stays_text() {
    for embed in [false, true] {
        let options = SvgOptions { embed, ..hostile() };
        let graph = crate::common::graph(&format!("main;{NASTY};x 2\n{NASTY} 1"), 1, &options);
        let elements = parse(&crate::common::picture(&graph, &options));
        let count = |wanted: &str| elements.iter().filter(|(name, _)| name == wanted).count();
        assert_eq!(count("script"), usize::from(!embed));
        for (element, attributes) in &elements {
            for (name, value) in attributes {
                assert!(!name.starts_with("on"), "{element} {name}");
                assert!(!value.trim().to_lowercase().starts_with("javascript:"), "{value}");
            }
        }
    }
}

#[test]
fn names_come_out_as_they_went_in() {
    let options = SvgOptions { embed: true, ..Default::default() };
    let name = "operator<<<char, &&>(std::ostream&)::{lambda()#1}";
    let xml = crate::common::picture(
        &crate::common::graph(&format!("main;{name} 1"), 1, &options),
        &options,
    );
    parse(&xml);
    let escaped = "operator&lt;&lt;&lt;char, &amp;&amp;&gt;(std::ostream&amp;)::{lambda()#1}";
    assert!(
        xml.contains(&format!("<title>{escaped}\n1 sample, 100.00%\nself 1, 100.00%</title>")),
        "{xml}"
    );
}

#[test]
fn an_embedded_picture_has_no_prolog_and_nothing_that_runs() {
    let options = SvgOptions { embed: true, ..Default::default() };
    let xml = crate::common::picture(&crate::common::graph("a;b 1", 1, &options), &options);
    assert!(xml.starts_with("<svg "));
    for absent in ["<?xml", "<script", "<!DOCTYPE", " data-"] {
        assert!(!xml.contains(absent), "{absent}");
    }
}

#[test]
fn a_blank_line_would_end_the_picture_in_markdown() {
    for embed in [false, true] {
        let options = SvgOptions { embed, ..Default::default() };
        let xml =
            crate::common::picture(&crate::common::graph(";; 1\n ;\u{1} 2", 1, &options), &options);
        assert!(xml.lines().all(|line| !line.trim().is_empty()), "{xml}");
    }
}

#[test]
fn every_id_begins_with_the_pictures_own_class() {
    let options = SvgOptions { background: "blue".parse().ok(), ..Default::default() };
    let elements = parse(&crate::common::picture(
        &crate::common::graph("[truncated] 1", 1, &options),
        &options,
    ));
    let value = |attributes: &[(String, String)], wanted: &str| {
        attributes.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.clone())
    };
    let class = value(&elements[0].1, "class").expect("the root has a class");
    let ids: Vec<String> = elements.iter().filter_map(|(_, a)| value(a, "id")).collect();
    assert!(ids.len() > 2, "a gradient and two hatchings");
    assert!(ids.iter().all(|id| id.starts_with(&format!("{class}-"))), "{ids:?}");
}

#[test]
fn other_encodings_hold_every_character() {
    let options = SvgOptions {
        encoding: "ISO-8859-1".parse().expect("an encoding"),
        title: "été 🔥".to_owned(),
        ..Default::default()
    };
    let xml = crate::common::picture(&crate::common::graph("メイン 1", 1, &options), &options);
    assert!(xml.starts_with("<?xml version=\"1.0\" encoding=\"ISO-8859-1\"?>"));
    assert!(xml.is_ascii());
    assert!(xml.contains("&#233;t&#233; &#128293;"));
    parse(&xml);
}

#[test]
fn the_same_graph_is_the_same_bytes_and_another_has_another_class() {
    let options = hostile();
    let draw =
        |lines: &str| crate::common::picture(&crate::common::graph(lines, 1, &options), &options);
    assert_eq!(draw("a;b 1\nc 2"), draw("a;b 1\nc 2"));
    let class = |xml: &str| xml.split("class=\"").nth(1).map(|rest| rest[..9].to_owned());
    assert_ne!(class(&draw("a;b 1\nc 2")), class(&draw("a;b 1\nc 3")));
}
