//! Screens of the views, kept as text in `tests/screens`. `PYROGRAPH_BLESS=1 cargo nextest run -p pyrograph-tui` writes them
//! anew.

mod frames;
mod names;

use std::path::Path;

use pyrograph_analyze::{Alike, DiffOptions, Run, diff};
use pyrograph_profile::{
    Frame, FrameKind, LabelOptions, Marker, ProcessLabel, Profile, Sample, StackId, Thread, Tree,
    ValueType,
};
use pyrograph_tui::{Action, App, ColorDepth, Grouping, Look, Settings, Status};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{
    Event, KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier};

/// `process:pid;frame;frame value`; frames as `name@module`, the kernel's in `[k]`.
const STACKS: &[(&str, i32, &str, u64)] = &[
    (
        "server",
        12,
        "_start@/usr/bin/server;main@/usr/bin/server;handle@/usr/bin/server;parse@/usr/lib/libparse.so.2;memchr@/usr/lib/libc.so.6",
        300,
    ),
    (
        "server",
        12,
        "_start@/usr/bin/server;main@/usr/bin/server;handle@/usr/bin/server;parse@/usr/lib/libparse.so.2",
        250,
    ),
    (
        "server",
        12,
        "_start@/usr/bin/server;main@/usr/bin/server;handle@/usr/bin/server;read@/usr/lib/libc.so.6;sys_read@[k];vfs_read@[k]",
        200,
    ),
    (
        "worker",
        13,
        "clone3@/usr/lib/libc.so.6;run@/usr/bin/worker;parse@/usr/lib/libparse.so.2",
        120,
    ),
    ("worker", 13, "clone3@/usr/lib/libc.so.6;run@/usr/bin/worker;計算する@/usr/bin/worker", 80),
    ("bad", 14, "[truncated]@;evil\x1b[31m\x07name@/tmp/\x1b]2title\x07lib.so", 30),
    ("swapper", 0, "idle@[k]", 20),
];

fn profile() -> Profile {
    let mut profile = Profile::new(vec![ValueType::samples()]);
    for (process, pid, path, value) in STACKS {
        let mut stack = StackId::ROOT;
        for frame in path.split(';') {
            let (name, module) = frame.split_once('@').unwrap_or((frame, ""));
            let kind = match (name, module) {
                ("[truncated]", _) => FrameKind::Marker(Marker::Truncated),
                (_, "[k]") => FrameKind::Kernel,
                _ => FrameKind::User,
            };
            let module = if module == "[k]" { "[kernel.kallsyms]" } else { module };
            let (function, module) = (profile.strings.intern(name), profile.strings.intern(module));
            let frame = profile.frames.intern(Frame { module, ..Frame::named(function, kind) });
            stack = profile.stacks.intern(stack, frame);
        }
        let process = profile.strings.intern(process);
        let cgroup = if matches!(pid, 12 | 13) { "/web.slice" } else { "" };
        let cgroup = profile.strings.intern(cgroup);
        let (pid, tid) = (Some(*pid), Some(*pid));
        let thread = Thread { pid, tid, process, cgroup, ..Thread::default() };
        let thread = profile.threads.intern(thread);
        profile.push(Sample { thread, ..Sample::new(stack) }, &[*value]);
    }
    profile
}

fn status() -> Status {
    Status {
        subject: "cpu-clock: Whole machine".to_owned(),
        span: Some("last 10 s".to_owned()),
        samples: Some(1000),
        noun: "sample".to_owned(),
        engine: Some("in-kernel".to_owned()),
        ..Status::default()
    }
}

/// A view on a terminal of a size.
struct Terminal {
    app: App,
    buffer: Buffer,
}

impl Terminal {
    fn new(width: u16, height: u16, depth: ColorDepth) -> Self {
        let settings = Settings { live: true, look: Look { depth }, ..Settings::default() };
        let mut app = App::new(settings);
        app.update(profile(), status());
        let mut terminal = Self { app, buffer: Buffer::empty(Rect::new(0, 0, width, height)) };
        terminal.draw();
        terminal
    }

    fn draw(&mut self) {
        self.app.render(&mut self.buffer);
    }

    fn event(&mut self, event: &Event) -> Action {
        let action = self.app.handle(event);
        self.draw();
        action
    }

    fn press(&mut self, code: KeyCode) -> Action {
        self.event(&Event::Key(KeyEvent::new(code, KeyModifiers::NONE)))
    }

    fn keys(&mut self, keys: &str) -> &mut Self {
        keys.chars().for_each(|c| drop(self.press(KeyCode::Char(c))));
        self
    }

    fn mouse(&mut self, kind: MouseEventKind, column: u16, row: u16) -> Action {
        let modifiers = KeyModifiers::NONE;
        self.event(&Event::Mouse(MouseEvent { kind, column, row, modifiers }))
    }

    fn text(&self) -> String {
        let area = self.buffer.area;
        let row = |y| {
            let mut row = String::new();
            let mut x = 0;
            while x < area.width {
                let symbol = self.buffer[(x, y)].symbol();
                row.push_str(symbol);
                // A wide character takes the next cell, too.
                x += u16::try_from(unicode_width::UnicodeWidthStr::width(symbol))
                    .expect("few")
                    .max(1);
            }
            format!("{}\n", row.trim_end())
        };
        (0..area.height).map(row).collect()
    }

    /// Compares the screen with the one that is kept.
    fn check(&self, name: &str) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/screens/{name}.txt"));
        let text = self.text();
        if std::env::var_os("PYROGRAPH_BLESS").is_some() {
            std::fs::write(&path, &text).expect("the screen can be written");
        }
        let kept = std::fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(text, kept, "{name}: PYROGRAPH_BLESS=1 if that is meant");
    }

    /// The first cell that shows a text, below the head.
    fn find(&self, text: &str) -> (u16, u16) {
        let is_there = |&(x, y): &(u16, u16)| {
            text.chars().zip(x..).all(|(c, x)| {
                x < self.buffer.area.width && self.buffer[(x, y)].symbol() == c.to_string()
            })
        };
        let area = self.buffer.area;
        let all = (2..area.height).flat_map(|y| (0..area.width).map(move |x| (x, y)));
        all.into_iter().find(is_there).unwrap_or_else(|| panic!("{text} in:\n{}", self.text()))
    }
}

#[test]
fn the_table_of_functions() {
    Terminal::new(80, 24, ColorDepth::True).check("table-80x24");
    Terminal::new(200, 60, ColorDepth::True).check("table-200x60");
}

#[test]
fn all_keys_are_shown_until_the_next_one() {
    let mut terminal = Terminal::new(80, 24, ColorDepth::True);
    let before = terminal.text();
    terminal.keys("?").check("keys");
    terminal.keys("?");
    assert_eq!(terminal.text(), before);
    // Another key does what it says.
    terminal.keys("?p");
    let text = terminal.text();
    assert!(text.contains("by process") && !text.contains("write SVG"), "{text}");
}

#[test]
fn functions_by_process_and_total() {
    let mut terminal = Terminal::new(100, 24, ColorDepth::True);
    terminal.keys("ps").check("by-process");
    terminal.keys("p");
    assert!(!terminal.text().contains("worker-13"));
    terminal.keys("t");
    assert!(terminal.text().contains("worker-13/13"));
}

#[test]
fn functions_by_control_group() {
    let mut terminal = Terminal::new(100, 24, ColorDepth::True);
    terminal.keys("c");
    assert_eq!(terminal.app.grouping(), Grouping::ControlGroup);
    let text = terminal.text();
    // Both processes in one, and what cannot be known is not put anywhere.
    let row = text.lines().find(|line| line.contains("parse")).expect("a row");
    assert!(row.contains("/web.slice") && row.contains("37.00%"), "{row}");
    assert!(text.contains("[not known]"), "{text}");
}

#[test]
fn a_filter_says_how_much_it_keeps() {
    let mut terminal = Terminal::new(80, 24, ColorDepth::True);
    // Upper case is what it is; lower case is either.
    assert!(terminal.keys("/PARS").text().contains("0 of 14 functions"));
    terminal.press(KeyCode::Esc);
    terminal.keys("/pars").check("filter");
    terminal.press(KeyCode::Enter);
    // Keys are keys again.
    assert!(matches!(terminal.press(KeyCode::Char('q')), Action::Quit));
    terminal.press(KeyCode::Esc);
    assert!(terminal.text().contains("14 functions"), "{}", terminal.text());
}

#[test]
fn only_functions_of_the_kernel_or_of_programs() {
    let mut terminal = Terminal::new(80, 24, ColorDepth::True);
    terminal.keys("k");
    let text = terminal.text();
    assert!(text.contains("user functions") && !text.contains("vfs_read"), "{text}");
    // What the others took is not given to these.
    let row = text.lines().find(|line| line.ends_with(" read")).expect("a row");
    assert!(row.contains("0.00%  20.00%"), "{row}");
    terminal.keys("k");
    let text = terminal.text();
    assert!(text.contains("vfs_read") && !text.contains("memchr"), "{text}");
}

#[test]
fn the_flame_graph_with_names() {
    let mut terminal = Terminal::new(80, 24, ColorDepth::True);
    terminal.keys("f").check("flame-80x24");
    terminal.keys("i").check("flame-inverted");
    let mut plain = Terminal::new(80, 24, ColorDepth::None);
    plain.keys("f").check("flame-no-color");
    // Without colours, rows of two could not be told apart.
    plain.keys("d");
    assert!(!plain.text().contains('▀'));
}

#[test]
fn the_flame_graph_without_names_has_two_rows_in_one() {
    let mut terminal = Terminal::new(80, 24, ColorDepth::True);
    terminal.keys("fd").check("flame-dense");
    let mut low = Terminal::new(60, 9, ColorDepth::Indexed);
    low.keys("f");
    assert!(low.text().contains("more rows: PgUp"), "it is higher:\n{}", low.text());
    low.keys("d");
    assert!(low.text().contains('▀') && !low.text().contains("more rows"), "{}", low.text());
}

#[test]
fn the_mouse_points_and_zooms() {
    let mut terminal = Terminal::new(80, 24, ColorDepth::True);
    terminal.keys("f");
    let (x, y) = terminal.find("handle");
    assert!(matches!(terminal.mouse(MouseEventKind::Moved, x, y), Action::Draw));
    assert!(matches!(terminal.mouse(MouseEventKind::Moved, x, y), Action::None), "it is there");
    let detail = "handle (server): 75.00% of all, self 0.00%, 750 samples";
    assert!(terminal.text().contains(detail), "{}", terminal.text());
    assert_eq!(terminal.buffer[(x, y)].bg, Color::Rgb(0, 0, 0));
    terminal.mouse(MouseEventKind::Down(MouseButton::Left), x, y);
    terminal.check("flame-zoomed");
    terminal.press(KeyCode::Esc);
    assert!(terminal.find("main").0 <= x, "one level");
    (0..4).for_each(|_| drop(terminal.press(KeyCode::Esc)));
    assert!(terminal.text().contains("by self"), "the table:\n{}", terminal.text());
}

#[test]
fn keys_go_from_frame_to_frame() {
    let mut terminal = Terminal::new(80, 24, ColorDepth::True);
    terminal.keys("f");
    let detail = |terminal: &Terminal| {
        let text = terminal.text();
        text.lines().find(|line| line.contains("of all")).expect("a line").to_owned()
    };
    let mut go = |codes: &[KeyCode]| {
        codes.iter().for_each(|code| drop(terminal.press(*code)));
        detail(&terminal)
    };
    assert!(go(&[KeyCode::Up]).starts_with("all"));
    assert!(go(&[KeyCode::Up, KeyCode::Up]).starts_with("main (server): 75.00%"));
    assert!(go(&[KeyCode::Right]).starts_with("run (worker): 20.00%"));
    assert!(go(&[KeyCode::Down]).starts_with("clone3"));
    assert!(go(&[KeyCode::Left]).starts_with("_start") || go(&[]).starts_with("[truncated]"));
}

#[test]
fn a_search_marks_frames_and_says_their_share() {
    let mut terminal = Terminal::new(80, 24, ColorDepth::True);
    terminal.keys("f/parse");
    let text = terminal.text();
    // `parse` in two places, and what is in its library counts once.
    assert!(text.contains("2 frames match, 67 %"), "{text}");
    let (x, y) = terminal.find("parse");
    assert_eq!(terminal.buffer[(x, y)].bg, Color::Rgb(230, 0, 230));
}

#[test]
fn callers_and_callees_of_one_function() {
    let mut terminal = Terminal::new(80, 24, ColorDepth::True);
    terminal.keys("/parse");
    terminal.press(KeyCode::Enter);
    terminal.press(KeyCode::Enter);
    terminal.check("calls");
    // `handle` is the first caller.
    terminal.press(KeyCode::Enter);
    assert!(terminal.text().contains("callers and callees of handle"), "{}", terminal.text());
    terminal.press(KeyCode::Esc);
    assert!(terminal.text().contains("callers and callees of parse"), "{}", terminal.text());
    terminal.press(KeyCode::Esc);
    assert!(terminal.text().contains("/parse"), "{}", terminal.text());
}

#[test]
fn what_is_selected_stays_selected_where_it_goes() {
    let mut terminal = Terminal::new(80, 24, ColorDepth::True);
    terminal.press(KeyCode::Down);
    let selected = |terminal: &Terminal| {
        let is_selected = |y: &u16| terminal.buffer[(0, *y)].modifier.contains(Modifier::REVERSED);
        let y = (0..24).find(is_selected).expect("a selected row");
        terminal.text().lines().nth(y.into()).expect("a line").to_owned()
    };
    let before = selected(&terminal);
    assert!(before.contains("memchr"), "{before}");
    terminal.keys("s");
    assert!(selected(&terminal).contains("memchr"));
}

#[test]
fn what_cannot_be_known_is_said() {
    let mut terminal = Terminal::new(80, 24, ColorDepth::True);
    let status = Status { lost: 1234, paused: true, ..status() };
    terminal.app.update(profile(), status);
    terminal.draw();
    let text = terminal.text();
    let head = text.lines().next().expect("a line");
    assert!(head.contains("PAUSED") && head.contains("1,234 LOST"), "{head}");
    let head = Terminal::new(120, 24, ColorDepth::True).text();
    assert!(head.contains("3.0 % not whole") && head.contains("in-kernel"), "{head}");
}

#[test]
fn nothing_in_a_name_reaches_the_terminal() {
    for keys in ["", "p", "f", "fd"] {
        let mut terminal = Terminal::new(80, 24, ColorDepth::True);
        terminal.keys(keys);
        assert!(!terminal.text().chars().any(|c| c.is_control() && c != '\n'));
    }
}

#[test]
fn any_size_can_be_drawn() {
    for (width, height) in [(1, 1), (5, 3), (20, 6), (21, 7), (40, 10), (300, 4), (30, 100)] {
        for keys in ["", "p", "f", "fd", "/x"] {
            let mut terminal = Terminal::new(width, height, ColorDepth::Indexed);
            terminal.keys(keys);
            terminal.press(KeyCode::Enter);
            terminal.press(KeyCode::Down);
            terminal.mouse(MouseEventKind::Moved, width / 2, height / 2);
            terminal.mouse(MouseEventKind::Down(MouseButton::Left), width / 2, height / 2);
        }
    }
}

#[test]
fn a_view_without_samples_says_so() {
    let mut terminal = Terminal::new(80, 24, ColorDepth::True);
    terminal.app.update(Profile::default(), Status::default());
    for keys in ["", "f", "w"] {
        terminal.keys(keys);
    }
    assert!(terminal.text().contains("nothing was recorded yet"), "{}", terminal.text());
}

#[test]
fn what_is_written_is_what_is_shown() {
    let mut terminal = Terminal::new(80, 24, ColorDepth::True);
    terminal.keys("k");
    let Action::Write(profile, _) = terminal.press(KeyCode::Char('w')) else { panic!("a picture") };
    assert!(profile.samples.total(0) == 1000);
    terminal.keys("kkf");
    let (x, y) = terminal.find("handle");
    terminal.mouse(MouseEventKind::Down(MouseButton::Left), x, y);
    let Action::Write(profile, _) = terminal.press(KeyCode::Char('w')) else { panic!("a picture") };
    assert_eq!((profile.samples.total(0), profile.whole(0)), (750, 1000));
}

#[test]
fn filters_are_put_on_and_taken_off() {
    let mut terminal = Terminal::new(100, 24, ColorDepth::True);
    // The first row.
    terminal.keys("o");
    let text = terminal.text();
    assert!(text.contains("--focus '^parse$'") && text.contains("67.00%"), "{text}");
    assert!(!text.contains("vfs_read"), "{text}");
    terminal.press(KeyCode::Backspace);
    assert!(terminal.text().contains("14 functions"), "{}", terminal.text());
    for (keys, is, is_not) in [
        ("-ignore parse", "vfs_read", "memchr"),
        ("-hide ^vfs", "sys_read", "vfs_read"),
        ("-from-frame handle", "memchr", "_start"),
        ("-comm worker", "run", "handle"),
        ("-pid=13", "run", "handle"),
    ] {
        terminal.keys(keys);
        terminal.press(KeyCode::Enter);
        let text = terminal.text();
        let row = |name: &str| text.lines().any(|line| line.ends_with(&format!(" {name}")));
        assert!(row(is) && !row(is_not), "{keys}:\n{text}");
        // In the flame graph, too, and percentages are still of the whole.
        terminal.keys("f");
        assert!(!terminal.text().contains(&format!("▏{is_not}")), "{keys}");
        terminal.keys("f");
        terminal.press(KeyCode::Backspace);
    }
    terminal.keys("-focus nowhere");
    terminal.press(KeyCode::Enter);
    assert!(terminal.text().contains("the filters leave nothing"), "{}", terminal.text());
    terminal.keys("-");
    terminal.press(KeyCode::Esc);
    assert!(terminal.text().contains("14 functions"), "{}", terminal.text());
}

#[test]
fn filters_stay_on_what_comes_next() {
    let mut terminal = Terminal::new(100, 24, ColorDepth::True);
    terminal.keys("x");
    terminal.app.update(profile(), status());
    terminal.draw();
    assert!(terminal.text().contains("--ignore '^parse$'") && !terminal.text().contains("memchr"));
    // There may be nothing of it for a while.
    terminal.app.update(Profile::new(vec![ValueType::samples()]), status());
    terminal.draw();
    assert!(terminal.text().contains("0 functions"), "{}", terminal.text());
    terminal.app.update(profile(), status());
    terminal.draw();
    assert!(terminal.text().contains("vfs_read"), "{}", terminal.text());
}

#[test]
fn matches_are_gone_through_by_width() {
    let mut terminal = Terminal::new(80, 24, ColorDepth::True);
    terminal.keys("f/parse");
    terminal.press(KeyCode::Enter);
    let mut detail = |key: char| {
        terminal.press(KeyCode::Char(key));
        let text = terminal.text();
        text.lines().find(|line| line.contains("of all")).expect("a line").to_owned()
    };
    assert!(detail('n').contains("55.00% of all"));
    assert!(detail('n').contains("12.00% of all"));
    assert!(detail('n').contains("55.00% of all"), "round and round");
    assert!(detail('N').contains("12.00% of all"));
    // Of what is zoomed: a fifth is the worker's, and three fifths of that are in `parse`.
    terminal.press(KeyCode::Esc);
    terminal.keys("f");
    let (x, y) = terminal.find("run");
    terminal.mouse(MouseEventKind::Down(MouseButton::Left), x, y);
    let text = terminal.text();
    assert!(text.contains("67 % of all, 60 % of what is zoomed"), "{text}");
}

#[test]
fn shares_of_a_search_are_those_of_the_stacks() {
    let mut generator = StdRng::seed_from_u64(16);
    for _ in 0..100 {
        let stacks: Vec<(Vec<String>, u64)> = (0..generator.random_range(1..40))
            .map(|_| {
                let name = |_| format!("f{}", generator.random_range(0..6));
                let path: Vec<String> = (0..6).map(name).collect();
                let depth = generator.random_range(1..7);
                (path[..depth].to_vec(), generator.random_range(1..9))
            })
            .collect();
        let mut profile = Profile::new(vec![ValueType::samples()]);
        for (path, value) in &stacks {
            let stack = profile.stack_of_names(path.iter().map(String::as_str));
            profile.push(Sample::new(stack), &[*value]);
        }
        let mut terminal = Terminal::new(80, 24, ColorDepth::True);
        terminal.app.update(profile, status());
        terminal.keys("f/f3");
        terminal.press(KeyCode::Enter);
        let all: u64 = stacks.iter().map(|(_, value)| value).sum();
        let is_in = |path: &[String]| path.iter().any(|name| name == "f3");
        let found = stacks.iter().filter(|(path, _)| is_in(path)).map(|(_, value)| value).sum();
        let share = pyrograph_render::percent(found, all);
        let text = terminal.text();
        let is_said = [" ·", ","].map(|end| text.contains(&format!("frames match, {share}{end}")));
        assert!(is_said.contains(&true), "{share}:\n{text}");
    }
}

#[test]
fn both_sides_of_a_comparison() {
    let before = profile();
    let mut after = profile();
    let stack = after.stack_of_names(["_start", "new"]);
    after.push(Sample::new(stack), &[500]);
    let labels = LabelOptions { process: ProcessLabel::None, ..LabelOptions::default() };
    let trees = [&before, &after].map(|side| Tree::new(side, &labels));
    let run = |profile, tree| Run { profile, tree, column: 0 };
    let (before, after) = ([run(&before, &trees[0])], [run(&after, &trees[1])]);
    let alike = Alike::new(&before, &after, 0);
    let diff = diff(&before, &after, &alike, &DiffOptions::default()).expect("a comparison");
    let settings = Settings { flame_first: true, ..Settings::default() };
    let mut terminal = Terminal::new(80, 24, ColorDepth::True);
    terminal.app = App::new(settings);
    terminal.app.compare(diff, Status { subject: "a → b".to_owned(), ..Status::default() });
    terminal.draw();
    let (x, y) = terminal.find("new");
    terminal.mouse(MouseEventKind::Moved, x, y);
    let detail = "new: before 0.00%, after 33.33%, +33.33 points ▲ more, beyond noise";
    assert!(terminal.text().contains(detail), "{}", terminal.text());
    terminal.press(KeyCode::Char('v'));
    assert!(!terminal.text().contains("▏new"), "it was not there:\n{}", terminal.text());
    terminal.keys("f");
    terminal.check("comparison");
    terminal.keys("/parse");
    terminal.press(KeyCode::Enter);
    terminal.press(KeyCode::Enter);
    terminal.check("comparison-calls");
    assert!(matches!(terminal.press(KeyCode::Char('w')), Action::WriteComparison));
    assert!(matches!(terminal.press(KeyCode::Char('x')), Action::Compare(..)));
    terminal.app.refuse_filter("it leaves nothing");
    terminal.draw();
    let text = terminal.text();
    assert!(text.contains("it leaves nothing") && !text.contains("--ignore"), "{text}");
}

#[test]
fn keys_of_recordings_are_for_recordings() {
    let mut app = App::new(Settings::default());
    app.update(profile(), Status::default());
    let key = |code| Event::Key(KeyEvent::new(code, KeyModifiers::NONE));
    assert!(matches!(app.handle(&key(KeyCode::Char(' '))), Action::Draw));
    assert!(matches!(app.handle(&key(KeyCode::Char('r'))), Action::Draw));
    let mut live = Terminal::new(80, 24, ColorDepth::True);
    assert!(matches!(live.press(KeyCode::Char(' ')), Action::Pause));
    assert!(matches!(live.press(KeyCode::Char('r')), Action::NextSpan));
}

/// A view of stacks `frame;frame`, of a recording or a file.
fn view_of(stacks: &[(&str, u64)], live: bool) -> Terminal {
    let mut terminal = Terminal::new(100, 24, ColorDepth::True);
    let settings = Settings { live, look: Look { depth: ColorDepth::True }, ..Settings::default() };
    terminal.app = App::new(settings);
    terminal.app.update(profile_of(stacks), status());
    terminal.draw();
    terminal
}

fn profile_of(stacks: &[(&str, u64)]) -> Profile {
    let mut profile = Profile::new(vec![ValueType::samples()]);
    for (path, value) in stacks {
        let stack = profile.stack_of_names(path.split(';'));
        profile.push(Sample::new(stack), &[*value]);
    }
    profile
}

/// Self, total and name of each row of a table.
fn rows(terminal: &Terminal) -> Vec<String> {
    let text = terminal.text();
    let row = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        (words.len() > 2 && words[0].ends_with('%') && words[1].ends_with('%')).then(|| {
            let name = words[2..]
                .iter()
                .filter(|word| !word.contains(['█', '▌', '▏', '▎', '▍', '▋', '▊', '▉']));
            format!("{} {} {}", words[0], words[1], name.copied().collect::<Vec<_>>().join(" "))
        })
    };
    text.lines().filter_map(row).collect()
}
