//! Times at which samples were lost, and their representation in a profile.

use pyrograph_profile::{Marker, Profile, Sample};

/// Time in ns between two reads of the number of lost samples.
const LOOK: u64 = 50_000_000;

/// Maximum number of spans. Beyond that, each two consecutive spans are merged.
const MOST: usize = 4096;

/// Lost samples get one row in the profile for each part of this length of their span, in ns, so that charts of time
/// show the whole span.
const ROW: u64 = 10_000_000;

/// Maximum number of rows of a span.
const ROWS: u64 = 100;

/// Samples that were lost in an interval. Times are of the samples' clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    from: u64,
    to: u64,
    lost: u64,
}

/// Intervals in which samples were lost.
#[derive(Debug)]
pub struct Losses {
    spans: Vec<Span>,
    looked: u64,
    seen: u64,
}

impl Losses {
    /// Makes an empty list; `now` is the beginning of the first interval.
    pub fn new(now: u64) -> Self {
        Self { spans: Vec::new(), looked: now, seen: 0 }
    }

    /// Returns true if it is time to read the number of lost samples.
    pub fn is_due(&self, now: u64) -> bool {
        now.saturating_sub(self.looked) >= LOOK
    }

    /// Sets the time of the last read.
    pub fn looked(&mut self, now: u64) {
        self.looked = now;
    }

    /// Adds the samples that were lost since the last call. `lost`: total number until now.
    pub fn look(&mut self, lost: u64, now: u64) {
        let from = std::mem::replace(&mut self.looked, now);
        let more = lost.saturating_sub(self.seen);
        self.seen += more;
        self.add(from, now, more);
    }

    /// Adds an interval in which `lost` samples were lost.
    pub fn add(&mut self, from: u64, to: u64, lost: u64) {
        if lost == 0 {
            return;
        }
        if self.spans.len() == MOST {
            let two = |two: &[Span]| Span {
                from: two.iter().map(|span| span.from).fold(u64::MAX, u64::min),
                to: two.iter().map(|span| span.to).fold(0, u64::max),
                lost: two.iter().map(|span| span.lost).sum(),
            };
            self.spans = self.spans.chunks(2).map(two).collect();
        }
        self.spans.push(Span { from, to: to.max(from), lost });
    }
}

/// Adds lost samples as a separate stack, `[lost]`, so that the total is still what the target used. Each gets the
/// average value of the other samples. `losses`: times of the losses, if samples have times.
pub fn add_lost(profile: &mut Profile, lost: u64, losses: Option<&Losses>) {
    let numbers = profile.numbers_beside(0);
    let taken = numbers.map_or(0, |column| profile.samples.total(column));
    // If all samples were lost, their average value is not known.
    if lost == 0 || numbers.is_some() && taken == 0 {
        return;
    }
    let total = numbers.map(|_| (u128::from(profile.samples.total(0)), u128::from(taken)));
    // Value of the first `n` lost samples. With differences of these, the parts add up to the whole.
    let value = |n: u64| match total {
        Some((total, taken)) => u64::try_from(total * u128::from(n) / taken).unwrap_or(u64::MAX),
        None => n,
    };
    let stack = profile.stack_of_names([Marker::Lost.label()]);
    let mut done = 0;
    let mut add = |profile: &mut Profile, some: u64, time: Option<u64>| {
        let mut values = vec![some; profile.value_types.len()];
        values[0] = value(done + some).saturating_sub(value(done));
        done += some;
        profile.push(Sample { time, ..Sample::new(stack) }, &values);
    };
    let spans = losses.map_or(&[][..], |losses| &losses.spans);
    for Span { from, to, lost } in spans.iter().copied() {
        let rows = (to - from).div_ceil(ROW).clamp(1, ROWS).min(lost);
        let share = |of: u64, n: u64| {
            u64::try_from(u128::from(of) * u128::from(n) / u128::from(rows)).unwrap_or(of)
        };
        for row in 0..rows {
            let some = share(lost, row + 1) - share(lost, row);
            add(profile, some, Some(from + share(to - from, row)));
        }
    }
    let timed: u64 = spans.iter().map(|span| span.lost).sum();
    if lost > timed {
        add(profile, lost - timed, None);
    }
}

#[cfg(test)]
mod tests {
    use pyrograph_profile::ValueType;

    use super::*;

    fn with_two_samples(types: Vec<ValueType>, values: &[u64]) -> Profile {
        let mut profile = Profile::new(types);
        let stack = profile.stack_of_names(["main"]);
        profile.push(Sample::new(stack), values);
        profile
    }

    fn types() -> Vec<ValueType> {
        vec![ValueType::new("cpu-clock", "ns"), ValueType::new("samples", "count")]
    }

    #[test]
    fn what_was_lost_counts_as_much_as_the_rest() {
        let mut profile = with_two_samples(types(), &[2_000_000, 2]);
        add_lost(&mut profile, 3, None);
        let totals = [0, 1].map(|column| profile.samples.total(column));
        assert_eq!((totals, profile.samples.len()), ([5_000_000, 5], 2));
        assert_eq!(profile.frames.iter().last().map(|frame| frame.kind.name()), Some("remark"));
        let mut profile = with_two_samples(vec![ValueType::samples()], &[2]);
        add_lost(&mut profile, 3, None);
        assert_eq!(profile.samples.total(0), 5);
        // Nothing is known of what each stands for, or nothing was lost.
        let mut none = Profile::new(types());
        add_lost(&mut none, 3, None);
        let mut whole = with_two_samples(types(), &[2_000_000, 2]);
        add_lost(&mut whole, 0, None);
        assert_eq!((none.samples.len(), whole.samples.len()), (0, 1));
    }

    #[test]
    fn what_was_lost_is_where_it_was_lost() {
        const SECOND: u64 = 1_000_000_000;
        let mut losses = Losses::new(SECOND);
        assert!(!losses.is_due(SECOND + 1) && losses.is_due(SECOND + LOOK));
        losses.look(0, 2 * SECOND);
        losses.look(100, 2 * SECOND + 25_000_000);
        losses.look(100, 3 * SECOND);
        losses.look(101, 4 * SECOND);
        let mut profile = with_two_samples(types(), &[7, 3]);
        // One was seen to be lost when all was over.
        add_lost(&mut profile, 102, Some(&losses));
        let rows: Vec<_> = profile
            .samples
            .iter()
            .map(|it| it.time)
            .zip(profile.samples.values(1).iter().copied())
            .collect();
        let ms = |n: u64| Some(2 * SECOND + n * 1_000_000);
        // Three rows of a 25 ms span, of 33, 33 and 34.
        let parts =
            [(ms(0), 33), (Some(2 * SECOND + 8_333_333), 33), (Some(2 * SECOND + 16_666_666), 34)];
        let rest = [(Some(3 * SECOND), 1), (None, 1)];
        assert_eq!(rows, [&[(None, 3)][..], &parts, &rest].concat());
        assert_eq!(profile.samples.total(0), 7 + 7 * 102 / 3);
    }

    #[test]
    fn spans_are_limited() {
        let mut losses = Losses::new(0);
        for n in 1..=3 * MOST as u64 {
            losses.look(n, n);
        }
        assert!(losses.spans.len() <= MOST);
        assert_eq!(losses.spans.iter().map(|span| span.lost).sum::<u64>(), 3 * MOST as u64);
        assert!(losses.spans.windows(2).all(|two| two[0].to == two[1].from));
        let (first, last) = (losses.spans[0], losses.spans[losses.spans.len() - 1]);
        assert_eq!((first.from, last.to), (0, 3 * MOST as u64));
    }
}
