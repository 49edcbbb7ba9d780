//! Every cell of the flame graph pointed at, and frames clicked, in generated profiles: what is said of a frame against sums over the
//! stacks.

use std::collections::{BTreeMap, BTreeSet};

use pyrograph_profile::{Frame, FrameKind, Profile, Sample, StackId, ValueType};
use pyrograph_tui::{Action, ColorDepth};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use ratatui::crossterm::event::{Event, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};

use super::{Terminal, status};

/// Wide enough for all that is said of a frame.
const WIDTH: u16 = 90;
const HEIGHT: u16 = 24;

/// Names of a stack from the root, with the number of its samples.
type Stack = (Vec<String>, u64);

/// Stacks with recursion, whose names are in two modules, and the profile of them.
fn generated(generator: &mut StdRng) -> (Vec<Stack>, Profile) {
    let mut profile = Profile::new(vec![ValueType::samples()]);
    let mut stacks = Vec::new();
    for _ in 0..generator.random_range(2..30) {
        let (mut names, mut stack) = (Vec::new(), StackId::ROOT);
        for _ in 0..generator.random_range(1..7) {
            let name = format!("f{}", generator.random_range(0..4));
            let module = ["/bin/alpha", "/bin/beta"][generator.random_range(0..2)];
            let (function, module) =
                (profile.strings.intern(&name), profile.strings.intern(module));
            let frame = Frame { module, ..Frame::named(function, FrameKind::User) };
            let frame = profile.frames.intern(frame);
            stack = profile.stacks.intern(stack, frame);
            names.push(name);
        }
        let value = generator.random_range(1..60);
        profile.push(Sample::new(stack), &[value]);
        stacks.push((names, value));
    }
    (stacks, profile)
}

/// Frames by their path of names: the samples in them, and of these, those in nothing that they call.
fn frames(stacks: &[Stack]) -> BTreeMap<Vec<String>, (u64, u64)> {
    let mut frames = BTreeMap::<Vec<String>, (u64, u64)>::new();
    for (names, value) in stacks {
        for depth in 1..=names.len() {
            frames.entry(names[..depth].to_vec()).or_default().0 += value;
        }
        frames.entry(names.clone()).or_default().1 += value;
    }
    frames
}

/// Detail line of a frame: name, samples, and the percentages as written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Said {
    name: String,
    samples: u64,
    of_all: String,
    of_zoom: Option<String>,
    own: String,
}

impl Said {
    /// Expected detail line. `zoom`: the samples of the zoomed frame, if this one is in it.
    fn expected(name: &str, (total, own): (u64, u64), all: u64, zoom: Option<u64>) -> Self {
        let share = |part: u64, whole: u64| pyrograph_render::exact_percent(part, whole);
        Self {
            name: name.to_owned(),
            samples: total,
            of_all: share(total, all),
            of_zoom: zoom.map(|zoom| share(total, zoom)),
            own: share(own, all),
        }
    }

    /// Reads the line below the graph. `None` for the root, and if nothing is pointed at.
    fn read(terminal: &Terminal) -> Option<Self> {
        let text = terminal.text();
        let line = text.lines().find(|line| line.contains("% of all"))?;
        let (head, rest) = line.split_once(": ")?;
        let parts: Vec<&str> = rest.split(", ").collect();
        let ending = |end: &str| parts.iter().find_map(|part| part.strip_suffix(end));
        let samples = ending(" samples").or_else(|| ending(" sample"))?.replace(',', "");
        Some(Self {
            name: head.split(' ').next()?.to_owned(),
            samples: samples.parse().ok()?,
            of_all: ending(" of all")?.to_owned(),
            of_zoom: ending(" of zoom").map(str::to_owned),
            own: parts.iter().find_map(|part| part.strip_prefix("self "))?.to_owned(),
        })
    }
}

/// Points at each cell; what is said of each, by rows from the top, with a cell where it is said.
fn pointed(terminal: &mut Terminal) -> Vec<BTreeMap<Said, u16>> {
    let row = |y| {
        let mut said = BTreeMap::new();
        for column in 0..WIDTH {
            let (kind, modifiers) = (MouseEventKind::Moved, KeyModifiers::NONE);
            let moved = Event::Mouse(MouseEvent { kind, column, row: y, modifiers });
            // The next cell is of the same frame most of the time.
            if matches!(terminal.app.handle(&moved), Action::Draw) {
                terminal.draw();
                said.extend(Said::read(terminal).map(|said| (said, column)));
            }
        }
        said
    };
    (2..HEIGHT - 2).map(row).collect()
}

fn view(profile: &Profile) -> Terminal {
    let mut terminal = Terminal::new(WIDTH, HEIGHT, ColorDepth::True);
    terminal.app.update(profile.clone(), status());
    terminal.keys("f");
    terminal
}

#[test]
fn every_frame_is_what_is_said_of_it() {
    let mut generator = StdRng::seed_from_u64(37);
    let mut clicked = 0;
    for _ in 0..40 {
        let (stacks, profile) = generated(&mut generator);
        let frames = frames(&stacks);
        let all: u64 = stacks.iter().map(|(_, value)| value).sum();
        let is_wide = |samples: u64, of: u64| samples * u64::from(WIDTH) >= 2 * of;
        let rows = pointed(&mut view(&profile));
        // The root is at the bottom.
        for (depth, row) in rows.iter().rev().enumerate() {
            let expected = |is_drawn: fn(bool) -> bool| -> BTreeSet<Said> {
                let here = frames.iter().filter(|(path, _)| path.len() == depth);
                let drawn = here.filter(|(_, sums)| is_drawn(is_wide(sums.0, all)));
                drawn
                    .map(|(path, sums)| Said::expected(&path[depth - 1], *sums, all, None))
                    .collect()
            };
            let said: BTreeSet<Said> = row.keys().cloned().collect();
            assert!(said.is_subset(&expected(|_| true)), "{depth}: {said:?}");
            assert!(said.is_superset(&expected(|is_wide| is_wide)), "{depth}: {said:?}");
        }
        for (up, row) in rows.iter().rev().enumerate() {
            let Some((target, x)) = row.iter().nth(generator.random_range(0..3)) else { continue };
            let mut terminal = view(&profile);
            let y = HEIGHT - 3 - u16::try_from(up).expect("few rows");
            terminal.mouse(MouseEventKind::Down(MouseButton::Left), *x, y);
            // Paths whose last frame is what was clicked: the zoom is one of them.
            let is_target = |path: &[String], sums: (u64, u64)| {
                path.len() == up && Said::expected(&path[up - 1], sums, all, None) == *target
            };
            let zooms: Vec<&Vec<String>> = frames
                .iter()
                .filter(|(path, sums)| is_target(path, **sums))
                .map(|(path, _)| path)
                .collect();
            let said: BTreeSet<Said> =
                pointed(&mut terminal).into_iter().flat_map(BTreeMap::into_keys).collect();
            let fits = |zoom: &Vec<String>| {
                let expected = |path: &Vec<String>, sums: &(u64, u64)| {
                    let zoom = path.starts_with(zoom).then(|| frames[zoom].0);
                    Said::expected(&path[path.len() - 1], *sums, all, zoom)
                };
                let seen = frames
                    .iter()
                    .filter(|(path, _)| path.starts_with(zoom) || zoom.starts_with(path));
                let seen: Vec<(Said, bool)> = seen
                    .map(|(path, sums)| {
                        (
                            expected(path, sums),
                            path.starts_with(zoom) && is_wide(sums.0, frames[zoom].0),
                        )
                    })
                    .collect();
                said.iter().all(|said| seen.iter().any(|(known, _)| known == said))
                    && seen
                        .iter()
                        .filter(|(_, is_drawn)| *is_drawn)
                        .all(|(known, _)| said.contains(known))
            };
            assert!(
                zooms.iter().any(|zoom| fits(zoom)),
                "{target:?} clicked: {said:?}\n{}",
                terminal.text()
            );
            clicked += 1;
        }
    }
    assert!(clicked > 130, "{clicked}");
}
