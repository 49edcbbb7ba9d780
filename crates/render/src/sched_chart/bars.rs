//! What stands in a row of the picture: spans, shared out to pixels, as paths of one colour each.

use super::Kind;
use super::colours::{Pair, of_idle, of_kind, of_process};

/// The height of a row's bar, in pixels: as many shares of a pixel's time are told apart.
pub(super) const BAR: u32 = 16;

/// What has one colour.
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

    /// The class of what has its colour, or of text on that.
    pub(super) fn name(self, text: bool) -> String {
        match self {
            Self::Kind(kind) => format!("{}{}", if text { 'n' } else { 'k' }, kind as usize),
            Self::Process(rank) => format!("{}{rank}", if text { 'o' } else { 'p' }),
            Self::Idle(state) => format!("i{state}"),
        }
    }

    /// True of what takes nobody's time.
    pub(super) fn is_quiet(self) -> bool {
        matches!(self, Self::Kind(kind) if kind > Kind::Ready)
    }

    /// True of what is seen however short it is.
    fn is_always_seen(self) -> bool {
        !self.is_quiet() && !matches!(self, Self::Idle(_))
    }
}

/// What stands in a row: of each pixel, the shares of each class.
#[derive(Default)]
pub(super) struct Bars {
    /// Sorted by class: that is the order from the bottom up.
    pub(super) pixels: Vec<Vec<(Class, f64)>>,
    pub(super) labels: Vec<Label>,
    /// The height of one full share.
    pub(super) scale: f64,
}

/// A text on a span.
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

    /// Adds a span from one place to another, in pixels.
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

    /// Of each pixel, from where to where each class stands, from the top of the bar.
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

    /// The path of each class: neighbours of one height are one rectangle.
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
