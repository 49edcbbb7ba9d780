//! Colours of activities and processes.

use super::Kind;
use crate::Rgb;

/// Colours on light and on dark pages.
pub(super) type Pair = (Rgb, Rgb);

/// Colours of activities. Running and waiting for a CPU are saturated, waits for other things are pale, so that
/// sleeping threads do not draw attention.
pub(super) fn of_kind(kind: Kind) -> Pair {
    // Lightness and chroma on light pages and on dark pages, and hue.
    let ((light, light_chroma), (dark, dark_chroma), hue) = match kind {
        Kind::Running => ((0.58, 0.14), (0.64, 0.15), 150.0),
        Kind::Ready => ((0.74, 0.17), (0.74, 0.16), 60.0),
        Kind::Disk => ((0.87, 0.075), (0.42, 0.09), 20.0),
        Kind::Lock => ((0.86, 0.07), (0.41, 0.09), 315.0),
        Kind::Network => ((0.87, 0.065), (0.42, 0.08), 250.0),
        Kind::Pipe => ((0.92, 0.042), (0.38, 0.045), 205.0),
        Kind::Child => ((0.92, 0.055), (0.38, 0.05), 105.0),
        Kind::Uninterruptible => ((0.90, 0.035), (0.35, 0.05), 0.0),
        Kind::Timer => ((0.925, 0.03), (0.31, 0.035), 275.0),
        Kind::Blocked => ((0.95, 0.003), (0.285, 0.003), 270.0),
        Kind::Stopped => ((0.80, 0.01), (0.50, 0.01), 90.0),
        Kind::Unknown => ((0.975, 0.035), (0.25, 0.035), 95.0),
    };
    (Rgb::oklch(light, light_chroma, hue), Rgb::oklch(dark, dark_chroma, hue))
}

/// Number of processes with a colour of their own.
pub(super) const PROCESSES: usize = 12;

/// Colour of the process with this rank by running time; grey for ranks from [`PROCESSES`] on.
pub(super) fn of_process(rank: usize) -> Pair {
    if rank >= PROCESSES {
        return (Rgb::oklch(0.72, 0.012, 270.0), Rgb::oklch(0.50, 0.012, 270.0));
    }
    // The golden angle makes adjacent ranks, and the first few ranks, as different as possible.
    let hue = (250.0 + rank as f64 * 137.508) % 360.0;
    let step = if rank.is_multiple_of(2) { 0.0 } else { 0.07 };
    (Rgb::oklch(0.70 + step, 0.115, hue), Rgb::oklch(0.52 + step, 0.115, hue))
}

/// Number of colours for idle states of a CPU, as many as are distinguishable. Deeper states differ more from the
/// background.
pub(super) const DEPTHS: usize = 6;

pub(super) fn of_idle(state: u32) -> Pair {
    let depth = f64::from(state.min(DEPTHS as u32 - 1)) / (DEPTHS as f64 - 1.0);
    (
        Rgb::oklch(0.955 - 0.16 * depth, 0.012 + 0.035 * depth, 240.0),
        Rgb::oklch(0.25 + 0.13 * depth, 0.012 + 0.04 * depth, 240.0),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What runs and what waits for a CPU is told from everything else, and from each other by lightness too, and all
    /// is told from the page.
    #[test]
    fn kinds_differ() {
        let distance = |a: Rgb, b: Rgb| {
            let ((l, c, h), (m, d, i)) = (a.to_oklch(), b.to_oklch());
            let (h, i) = (h.to_radians(), i.to_radians());
            ((l - m).powi(2)
                + (c * h.cos() - d * i.cos()).powi(2)
                + (c * h.sin() - d * i.sin()).powi(2))
            .sqrt()
        };
        for pick in [|pair: Pair| pair.0, |pair: Pair| pair.1] {
            let page = pick(crate::svg::BACKGROUND);
            for (at, kind) in Kind::ALL.into_iter().enumerate() {
                let colour = pick(of_kind(kind));
                assert!(
                    distance(colour, page) > 0.03,
                    "{kind:?} on the page: {}",
                    distance(colour, page)
                );
                for other in &Kind::ALL[at + 1..] {
                    let least = if at < 2 { 0.15 } else { 0.03 };
                    let between = distance(colour, pick(of_kind(*other)));
                    assert!(between > least, "{kind:?} and {other:?}: {between}");
                }
            }
            let (running, ready) = (pick(of_kind(Kind::Running)), pick(of_kind(Kind::Ready)));
            assert!((running.to_oklch().0 - ready.to_oklch().0).abs() > 0.08);
        }
    }
}
