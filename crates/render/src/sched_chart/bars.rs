//! Content of a row of the SVG file: spans, divided among pixels, as one path per colour.

use super::Kind;
use super::colours::{Pair, of_idle, of_kind, of_process};

/// Height of a row's bar in pixels, and therefore the number of distinguishable shares of a pixel's time.
pub(super) const BAR: u32 = 16;

/// Class of spans with the same colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Class {
    Kind(Kind),
    Process(usize),
    Idle(u32),
}

impl Class {
    pub(super) fn colours(self) -> Pair {
        match self {
            Self::Kind(kind) => of_kind(kind),
            Self::Process(rank) => of_process(rank),
            Self::Idle(state) => of_idle(state),
        }
    }

    /// CSS class of shapes with this colour or, if `text` is set, of text on them.
    pub(super) fn name(self, text: bool) -> String {
        match self {
            Self::Kind(kind) => format!("{}{}", if text { 'n' } else { 'k' }, kind as usize),
            Self::Process(rank) => format!("{}{rank}", if text { 'o' } else { 'p' }),
            Self::Idle(state) => format!("i{state}"),
        }
    }

    /// Returns true for activities that use no CPU and wait for none.
    pub(super) fn is_quiet(self) -> bool {
        matches!(self, Self::Kind(kind) if kind > Kind::Ready)
    }

    /// Returns true for classes whose spans are visible however short they are.
    fn is_always_seen(self) -> bool {
        !self.is_quiet() && !matches!(self, Self::Idle(_))
    }
}

/// Content of a row: for each pixel, the share of each class.
#[derive(Default)]
pub(super) struct Bars {
    /// Shares of each pixel, sorted by class, which is the order from the bottom up.
    pub(super) pixels: Vec<Vec<(Class, f64)>>,
    pub(super) labels: Vec<Label>,
    /// Height of a share of 1, relative to the bar.
    pub(super) scale: f64,
}

/// Text on a span.
pub(super) struct Label {
    pub(super) class: Class,
    pub(super) from: f64,
    pub(super) to: f64,
    pub(super) text: String,
}

impl Bars {
    pub(super) fn new(width: usize) -> Self {
        Self { pixels: vec![Vec::new(); width], labels: Vec::new(), scale: 1.0 }
    }

    /// Adds a span between two positions in pixels.
    pub(super) fn add(&mut self, class: Class, from: f64, to: f64) {
        for at in (from as usize)..(to.ceil() as usize).min(self.pixels.len()) {
            let share = to.min(at as f64 + 1.0) - from.max(at as f64);
            let shares = &mut self.pixels[at];
            match shares.binary_search_by_key(&class, |(class, _)| *class) {
                Ok(place) => shares[place].1 += share,
                Err(place) => shares.insert(place, (class, share)),
            }
        }
    }

    pub(super) fn label(&mut self, class: Class, from: f64, to: f64, text: String) {
        if to - from >= 30.0 {
            self.labels.push(Label { class, from, to, text });
        }
    }

    /// For each pixel, the classes with their upper and lower edges, in pixels from the top of the bar.
    pub(super) fn heights(&self) -> Vec<Vec<(Class, u32, u32)>> {
        let stack = |shares: &Vec<(Class, f64)>| {
            let (mut sum, mut bottom) = (0.0, BAR);
            let mut made = Vec::new();
            for (class, share) in shares {
                sum += share * self.scale;
                let least = u32::from(class.is_always_seen() && *share > 0.0);
                let filled = (sum * f64::from(BAR)).round() as u32;
                let top = BAR.saturating_sub(filled).min(bottom.saturating_sub(least));
                if top < bottom {
                    made.push((*class, top, bottom));
                    bottom = top;
                }
            }
            made
        };
        self.pixels.iter().map(stack).collect()
    }

    /// Path of each class: adjacent pixels with equal edges form one rectangle.
    pub(super) fn paths(&self) -> Vec<(Class, String)> {
        let heights = self.heights();
        let mut classes: Vec<Class> = heights.iter().flatten().map(|(class, ..)| *class).collect();
        classes.sort_unstable();
        classes.dedup();
        let path = |class: Class| {
            let of = |x: usize| {
                heights[x]
                    .iter()
                    .find(|(of, ..)| *of == class)
                    .map(|(_, top, bottom)| (*top, *bottom))
            };
            let mut path = String::new();
            let mut x = 0;
            while x < heights.len() {
                let start = x;
                let here = of(x);
                x += 1;
                while x < heights.len() && of(x) == here {
                    x += 1;
                }
                let Some((top, bottom)) = here else { continue };
                let (width, height) = (x - start, bottom - top);
                path.push_str(&format!("M{start} {top}h{width}v{height}h-{width}z"));
            }
            path
        };
        classes.into_iter().map(|class| (class, path(class))).collect()
    }
}
