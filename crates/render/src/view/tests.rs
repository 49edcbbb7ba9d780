use pyrograph_analyze::{ViewNames, view_data};
use pyrograph_profile::{Profile, Sample, ValueType};

use super::*;

const NASTY: &str = "</script><img src=x onerror=alert(1)>]]>\u{2028}";

fn page() -> String {
    let mut profile = Profile::new(vec![ValueType::samples()]);
    let stack = profile.stack_of_names(["main", NASTY]);
    profile.push(Sample::new(stack), &[1]);
    let look = ViewLook { title: NASTY.to_owned(), ..ViewLook::default() };
    let mut out = Vec::new();
    view_html(&view_data(&profile, 10, ViewNames::Short), &look, &mut out).expect("memory");
    String::from_utf8(out).expect("UTF-8")
}

#[test]
fn names_are_never_markup() {
    let html = page();
    assert!(!html.contains("<img"));
    // The profile, and the page's own.
    assert_eq!(html.matches("<script").count(), 2);
    assert_eq!(html.matches("</script").count(), 2);
}

#[test]
fn nothing_comes_from_outside() {
    let html = page();
    for outside in
        ["src=\"", "@import", "url(", "fetch(", "http:", "https:", "XMLHttpRequest", "eval("]
    {
        assert!(!html.contains(outside), "{outside}");
    }
}

#[test]
fn the_script_is_small() {
    assert!(SCRIPT.len() <= 80_000, "{} bytes", SCRIPT.len());
}
