//! The hues of other flame graph tools with even lightness: one text colour is readable on all of them, light and
//! dark pages have separate colours, and kinds of code differ in lightness in palettes with several hues.

use crate::Rgb;
use crate::palette::{Hue, Paint, Rule};

/// Number of distinct tones per hue.
const TONES: f64 = 6.0;

/// Paint of a hue at a tone from 0 to 1.
pub(crate) fn even(rule: Rule, hue: Hue, tone: f64) -> Paint {
    let step = (tone * TONES).floor() / (TONES - 1.0) - 0.5;
    let alone = matches!(rule, Rule::Hue(_) | Rule::Wakeup);
    // Middle and width of the hue, chroma, and the lightness on light and on dark pages in a palette with several hues.
    let (middle, width, chroma, beside) = match hue {
        Hue::Hot => (55.0, 60.0, 0.125, (0.78, 0.51)),
        Hue::Mem => (165.0, 46.0, 0.11, (0.84, 0.50)),
        Hue::Io => (268.0, 50.0, 0.085, (0.78, 0.51)),
        Hue::Red => (25.0, 20.0, 0.13, (0.65, 0.36)),
        Hue::Green => (150.0, 22.0, 0.115, (0.83, 0.48)),
        Hue::Blue => (255.0, 30.0, 0.09, (0.84, 0.53)),
        Hue::Yellow => (103.0, 12.0, 0.13, (0.945, 0.555)),
        Hue::Purple => (312.0, 26.0, 0.10, (0.70, 0.47)),
        Hue::Aqua => (212.0, 22.0, 0.08, (0.72, 0.365)),
        Hue::Orange => (65.0, 18.0, 0.115, (0.745, 0.425)),
    };
    let hue = middle + width * step;
    let (light, dark) = if alone { (0.80, 0.51) } else { beside };
    Paint {
        light: Rgb::oklch(light, chroma, hue),
        dark: Rgb::oklch(dark, 0.92 * chroma, hue),
        hatched: false,
    }
}

impl Rule {
    /// Meaning of a hue in this rule; `None` if it represents the value type.
    pub(crate) fn label(self, hue: Hue) -> Option<&'static str> {
        Some(match (self, hue) {
            (Self::Hue(_) | Self::Wakeup, _) => return None,
            (Self::Chain, Hue::Aqua) => "waker",
            (Self::Chain, _) => "waiting",
            (Self::Rust, Hue::Red)
            | (Self::Java | Self::Js | Self::Perl | Self::Python, Hue::Orange) => "kernel",
            (Self::Java, Hue::Green) => "Java",
            (Self::Java, Hue::Aqua) => "inlined",
            (Self::Js, Hue::Green) => "JavaScript",
            (Self::Js, Hue::Aqua) => "built-in",
            (Self::Java | Self::Js | Self::Perl, Hue::Yellow) => "C++",
            (Self::Perl, Hue::Green) => "Perl",
            (Self::Python, Hue::Aqua) => "packages",
            (Self::Python, Hue::Yellow) => "standard library",
            (Self::Rust, Hue::Orange) => "core, alloc, std",
            (Self::Rust, Hue::Aqua) => "other crates",
            _ => "other",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rgb;

    /// The view of eyes without one sort of cones (Machado, Oliveira and Fernandes, "A Physiologically-based Model
    /// for Simulation of Color Vision Deficiency", 2009, severity 1.0); first what others see.
    const EYES: [(&str, [[f64; 3]; 3]); 4] = [
        ("all cones", [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]),
        (
            "protanopia",
            [
                [0.152286, 1.052583, -0.204868],
                [0.114503, 0.786281, 0.099216],
                [-0.003882, -0.048116, 1.051998],
            ],
        ),
        (
            "deuteranopia",
            [
                [0.367322, 0.860646, -0.227968],
                [0.280085, 0.672501, 0.047413],
                [-0.011820, 0.042940, 0.968881],
            ],
        ),
        (
            "tritanopia",
            [
                [1.255528, -0.076749, -0.178779],
                [-0.078411, 0.930809, 0.147602],
                [0.004733, 0.691367, 0.303900],
            ],
        ),
    ];

    /// Distance of two colours in OKLab, for the eyes that see it worst.
    fn distance(a: Rgb, b: Rgb) -> (f64, &'static str) {
        let seen = |colour: Rgb, eyes: &[[f64; 3]; 3]| {
            let light = colour.linear();
            let see = |row: &[f64; 3]| row.iter().zip(light).map(|(m, c)| m * c).sum::<f64>();
            Rgb::lab(eyes.each_ref().map(|row| see(row).clamp(0.0, 1.0)))
        };
        let far = |eyes: &[[f64; 3]; 3]| {
            let (a, b) = (seen(a, eyes), seen(b, eyes));
            a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
        };
        let distances = EYES.iter().map(|(name, eyes)| (far(eyes), *name));
        distances.reduce(|a, b| if b.0 < a.0 { b } else { a }).expect("four sorts")
    }

    /// Colours of kinds are so far apart at least. 0.02 is just seen where two touch.
    const APART: f64 = 0.05;
    /// Any two tones of two kinds are so far apart at least.
    const SEEN: f64 = 0.027;

    #[track_caller]
    fn check_apart(kinds: &[(&str, Paint)]) {
        for (at, (name, paint)) in kinds.iter().enumerate() {
            for (other, beside) in &kinds[at + 1..] {
                for (page, a, b) in
                    [("light", paint.light, beside.light), ("dark", paint.dark, beside.dark)]
                {
                    let (far, eyes) = distance(a, b);
                    assert!(far >= APART, "{name} and {other}, {page}, {eyes}: {far:.3}");
                }
            }
        }
    }

    #[test]
    fn kinds_are_told_apart_by_the_colour_blind() {
        use crate::palette::meaning;
        use crate::role::Role;
        // Incomplete stacks are hatched.
        let kinds: Vec<Role> =
            Role::LABELLED.into_iter().filter(|role| *role != Role::Marker).collect();
        let paints = |tone: f64| -> Vec<(&str, Paint)> {
            let paint = |role: &Role| (role.label().expect("a kind"), meaning(*role, tone));
            kinds.iter().map(paint).collect()
        };
        check_apart(&paints(0.5));
        // Also where the tones of two come nearest.
        let tones = [0.0, 0.2, 0.4, 0.6, 0.8, 0.999].map(paints);
        for one in &tones {
            for other in &tones {
                for ((name, paint), (beside, of)) in one
                    .iter()
                    .enumerate()
                    .flat_map(|(at, a)| other[at + 1..].iter().map(move |b| (*a, *b)))
                {
                    for (a, b) in [(paint.light, of.light), (paint.dark, of.dark)] {
                        let (far, eyes) = distance(a, b);
                        assert!(far >= SEEN, "{name} and {beside}, {eyes}: {far:.3}");
                    }
                }
            }
        }
        // As they were, kernel and wakers were not.
        let (kernel, waker) = (Rgb::oklch(0.80, 0.085, 262.0), Rgb::oklch(0.81, 0.09, 318.0));
        assert!(distance(kernel, waker).0 < APART);
        // Nor were kernel and waiting, to anybody.
        let (kernel, waiting) = (Rgb::oklch(0.73, 0.085, 262.0), Rgb::oklch(0.72, 0.10, 240.0));
        assert!(distance(kernel, waiting).0 < APART);
    }

    #[test]
    fn hues_of_a_rule_are_told_apart_by_the_colour_blind() {
        for (rule, hues) in [
            (Rule::Java, &[Hue::Green, Hue::Aqua, Hue::Yellow, Hue::Orange, Hue::Red][..]),
            (Rule::Chain, &[Hue::Aqua, Hue::Blue]),
        ] {
            let kind =
                |&hue: &Hue| (rule.label(hue).expect("it means something"), even(rule, hue, 0.5));
            check_apart(&hues.iter().map(kind).collect::<Vec<_>>());
        }
    }

    #[test]
    fn an_even_palette_has_one_lightness_one_ink_and_dark_twins() {
        let rules = [
            (Rule::Hue(Hue::Hot), Hue::Hot),
            (Rule::Hue(Hue::Mem), Hue::Mem),
            (Rule::Hue(Hue::Io), Hue::Io),
            (Rule::Hue(Hue::Blue), Hue::Blue),
            (Rule::Hue(Hue::Purple), Hue::Purple),
            (Rule::Wakeup, Hue::Aqua),
            (Rule::Java, Hue::Green),
            (Rule::Java, Hue::Yellow),
            (Rule::Java, Hue::Red),
        ];
        for (rule, hue) in rules {
            let paints: Vec<Paint> =
                (0..24).map(|step| even(rule, hue, f64::from(step) / 24.0)).collect();
            for pick in [|paint: &Paint| paint.light, |paint: &Paint| paint.dark] {
                let lightness = paints.iter().map(|paint| pick(paint).to_oklch().0);
                let (low, high) = lightness
                    .fold((1.0, 0.0), |(low, high): (f64, f64), one| (low.min(one), high.max(one)));
                assert!(high - low < 0.01, "{rule:?} {hue:?}: {low} to {high}");
            }
            for paint in paints {
                assert_ne!(paint.light, paint.dark);
                let (light, dark) =
                    (paint.light.contrast(Rgb::INK), paint.dark.contrast(Rgb::WHITE));
                assert!(light >= 4.5 && dark >= 4.5, "{rule:?} {hue:?}: {light:.2} {dark:.2}");
            }
        }
    }
}
