//! How functions are named on the screen: by short names, tiers as one.

use super::*;

const TIERS: &[(&str, u64)] = &[
    ("main;JS:*parse /srv/app.js:12;shop::Cart::add", 10),
    ("main;JS:~parse /srv/app.js:12", 20),
    ("main;JS:~parse /srv/app.js:12;depot::Cart::add", 40),
    ("void com.acme.shop.Orders.total(int, long)", 5),
    ("run (app.py:7);a.Shop$$Lambda$14/0x0000000800066840.apply", 15),
    ("run (app.py:7);a.Shop$$Lambda$15/0x0000000800066c40.apply", 10),
];

#[test]
fn names_were_long_and_tiers_several_rows() {
    let mut terminal = view_of(TIERS, false);
    let expect = [
        "40.00% 40.00% depot::Cart::add",
        "20.00% 70.00% parse",
        "15.00% 15.00% Shop$$Lambda$14.apply",
        "10.00% 10.00% Shop$$Lambda$15.apply",
        "10.00% 10.00% shop::Cart::add",
        "5.00% 5.00% Orders.total",
        "0.00% 70.00% main",
        "0.00% 25.00% run",
    ];
    assert_eq!(rows(&terminal), expect);
    // A filter has the names of the command line, and keeps all tiers.
    terminal.press(KeyCode::Down);
    terminal.keys("o");
    let text = terminal.text();
    assert!(
        text.contains(r"--focus '^(JS:\*parse /srv/app\.js:12|JS:\~parse /srv/app\.js:12)$'"),
        "{text}"
    );
    assert!(rows(&terminal).contains(&expect[1].to_owned()), "{text}");
    terminal.press(KeyCode::Backspace);
    // A search finds all forms.
    for (search, found) in
        [("JS:~", "parse"), ("acme", "Orders.total"), ("int, long", "Orders.total")]
    {
        terminal.keys("/").keys(search);
        let rows = rows(&terminal);
        assert!(rows.len() == 1 && rows[0].ends_with(found), "{search}: {rows:?}");
        terminal.press(KeyCode::Esc);
    }
    // In the graph it is one frame, and its details have all that is known.
    terminal.keys("f");
    let (x, y) = terminal.find("▏parse");
    terminal.mouse(MouseEventKind::Moved, x + 1, y);
    let text = terminal.text();
    assert!(text.contains("parse /srv/app.js:12: 70.00% of all"), "{text}");
    assert_eq!(text.matches("▏parse").count(), 1, "{text}");
    terminal.keys("e");
    assert!(terminal.text().contains("callers and callees of parse /srv/app.js:12"));
    // A script's function is painted as one, which its short name does not say.
    let bar = |stacks: &[(&str, u64)], name: &str| {
        let terminal = view_of(stacks, false);
        let (_, y) = terminal.find(name);
        terminal.buffer[(17, y)].fg
    };
    let script = [("main", 50), ("run (app.py:7)", 50)];
    assert_ne!(bar(&script, "run"), bar(&script, "main"));
    assert_eq!(bar(&[("run", 50), ("run (app.py:7)", 50)], "run (app.py:7)"), bar(&script, "run"));
}

#[test]
fn names_that_are_asked_for_are_left_as_they_are() {
    let mut terminal = view_of(TIERS, false);
    terminal.app = App::new(Settings { keeps_names: true, ..Settings::default() });
    let mut profile = profile_of(TIERS);
    let stack = profile.stack_of_names(["price"]);
    profile.push(Sample::new(stack), &[100]);
    let [price, full] = ["price", "shop::price(int)"].map(|name| profile.strings.intern(name));
    profile.full_names.insert(price, full);
    terminal.app.update(profile, status());
    terminal.draw();
    let text = terminal.text();
    let is_row = |name: &str| text.lines().any(|line| line.ends_with(&format!(" {name}")));
    assert!(is_row("JS:*parse /srv/app.js:12") && is_row("JS:~parse /srv/app.js:12"), "{text}");
    terminal.keys("f");
    let (x, y) = terminal.find("▏price");
    terminal.mouse(MouseEventKind::Moved, x + 1, y);
    assert!(terminal.text().contains("shop::price(int): 50.00% of all"), "{}", terminal.text());
}

#[test]
fn a_recording_shows_functions_by_identity() {
    let mut terminal = view_of(TIERS, true);
    let lambda = "25.00% 25.00% Shop$$Lambda.apply";
    assert!(rows(&terminal).contains(&lambda.to_owned()), "{}", terminal.text());
    terminal.keys("f");
    let (x, y) = terminal.find("Shop$$Lambda.");
    terminal.mouse(MouseEventKind::Moved, x, y);
    let full = "a.Shop$$Lambda$14/0x0000000800066840.apply and 1 more: 25.00% of all";
    assert!(terminal.text().contains(full), "{}", terminal.text());
}

#[test]
fn a_function_that_gets_another_label_stays_zoomed() {
    let mut terminal = view_of(&[("main;shop::Cart::add;x", 3), ("main;other", 1)], true);
    terminal.keys("f");
    let (x, y) = terminal.find("▏Cart::add");
    terminal.mouse(MouseEventKind::Down(MouseButton::Left), x + 1, y);
    assert!(!terminal.text().contains("▏other"), "{}", terminal.text());
    let later = [("main;shop::Cart::add;x", 3), ("main;depot::Cart::add", 2), ("main;other", 1)];
    terminal.app.update(profile_of(&later), status());
    terminal.draw();
    let text = terminal.text();
    assert!(text.contains("▏shop::Cart::add") && !text.contains("▏other"), "{text}");
}

#[test]
fn a_comparison_shows_short_names_of_what_was_compared() {
    let sides = [
        [
            ("main;void com.acme.shop.Orders.total(int)", 10),
            ("main;JS:*f /a.js:1", 10),
            ("main;JS:~f /a.js:1", 80),
        ],
        [
            ("main;void com.acme.shop.Orders.total(int)", 70),
            ("main;JS:*f /a.js:1", 20),
            ("main;JS:~f /a.js:1", 10),
        ],
    ];
    let profiles = sides.each_ref().map(|side| profile_of(side));
    let labels = LabelOptions { process: ProcessLabel::None, ..LabelOptions::default() };
    let trees = profiles.each_ref().map(|of| Tree::new(of, &labels));
    let runs = [0, 1].map(|at| [Run { profile: &profiles[at], tree: &trees[at], column: 0 }]);
    let alike = Alike::new(&runs[0], &runs[1], 0);
    let diff = diff(&runs[0], &runs[1], &alike, &DiffOptions::default()).expect("a comparison");
    let mut terminal = view_of(&[], false);
    terminal.app.compare(diff, Status::default());
    terminal.draw();
    let text = terminal.text();
    let row = |name: &str| {
        let mut lines = text.lines().filter(|line| line.ends_with(&format!(" {name}")));
        let line = lines.next().unwrap_or_else(|| panic!("{name} in {text}")).to_owned();
        assert_eq!(lines.next(), None);
        line
    };
    assert!(row("Orders.total").contains("10.00%  70.00%"), "{text}");
    // Tiers were compared, and stay two functions.
    assert!(row("JS:*f /a.js:1").contains("10.00%  20.00%"), "{text}");
    terminal.keys("f");
    let (x, y) = terminal.find("Orders.total");
    terminal.mouse(MouseEventKind::Moved, x, y);
    let full = "void com.acme.shop.Orders.total(int): before 10.00%, after 70.00%";
    assert!(terminal.text().contains(full), "{}", terminal.text());
}
