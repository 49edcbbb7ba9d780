use std::io::Read;

use pyrograph_analyze::{HeatMapOptions, TimedGraph, heat_map, offsets, timed_graph};
use pyrograph_profile::{LabelOptions, Profile, Sample, StringId, ValueType};

use super::*;

const NASTY: &str = "</script><img src=x onerror=alert(1)>]]>\u{2028}";

fn timed() -> (TimedGraph, Profile) {
    let mut profile = Profile::new(vec![ValueType::samples()]);
    for (name, time) in [("main", 5_000_000_000), (NASTY, 5_250_000_000), ("main", 6_000_001_000)] {
        let stack = profile.stack_of_names([name]);
        profile.push(Sample { time: Some(time), ..Sample::new(stack) }, &[1]);
    }
    let timed = timed_graph(&profile, &LabelOptions::default(), 0).expect("a graph");
    (timed, profile)
}

fn unpack(packed: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(packed).read_to_end(&mut bytes).expect("gzip");
    bytes
}

#[test]
fn samples_are_packed_as_the_script_reads_them() {
    let (timed, _) = timed();
    let Paints { paint_of, .. } = paints(&timed.graph, Palette::default());
    let bytes = unpack(&pack(&timed, &paint_of, 5_000_000_000).expect("memory"));
    let name = |name: &str| {
        let id = (0..).map(StringId).find(|id| timed.graph.names.get(*id) == name);
        id.expect("it is there").0 as u8
    };
    let names: Vec<&str> = timed.graph.names.iter().collect();
    let mut expect = vec![names.len() as u8];
    for name in &names {
        expect.push(name.len() as u8);
        expect.extend(name.as_bytes());
    }
    // Two frames, both called by the whole, in the order of their names.
    expect.extend([2, 0, 0, name(NASTY), name("main"), 0, 0]);
    expect.extend(paint_of.iter().map(|paint| *paint as u8));
    // Three samples: 0, 250,000 and 1,000,001 microseconds; frames; one each.
    expect.extend([3, 0, 0x90, 0xa1, 0x0f, 0xb1, 0xe3, 0x2d, 2, 1, 2, 1]);
    assert_eq!(bytes, expect);
}

#[test]
fn names_are_never_markup() {
    let (timed, profile) = timed();
    let at = offsets(&profile, 0, 1_000_000_000);
    let options = HeatMapOptions { column_step: Some(1e9), ..HeatMapOptions::default() };
    let map = heat_map(&at.times, &at.values, &options).expect("a map");
    let look = HeatMapLook {
        title: NASTY.to_owned(),
        font: format!("x}}{NASTY}"),
        noun: NASTY.to_owned(),
        ..HeatMapLook::default()
    };
    let mut out = Vec::new();
    offsets_html(&map, &look, &timed, at.start, &mut out).expect("memory");
    let html = String::from_utf8(out).expect("UTF-8");
    assert!(!html.contains("<img"));
    // The heat map's, the samples, and the page's own.
    assert_eq!(html.matches("<script").count(), 3);
    assert_eq!(html.matches("</script").count(), 3);
    for outside in ["src=\"", "@import", "url(", "fetch("] {
        assert!(!html.contains(outside), "{outside}");
    }
}
