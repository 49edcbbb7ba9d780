//! Colours of frames.
//!
//! The default palette has one hue per meaning, with different lightness on light and dark pages. The other palettes
//! have the names, hues and rules of `flamegraph.pl` and similar tools, either with even lightness
//! (`palette_even.rs`) or, as `classic-…`, with the original colours, drawn from a fixed number of steps.

use std::str::FromStr;

use pyrograph_analyze::FlameGraph;
use pyrograph_profile::{Quantity, ValueType};

use crate::palette_change::ChangeColors;
use crate::palette_even::even;
use crate::role::Role;
use crate::{Rgb, Theme};

/// A palette: a set of colours, and the rule that selects one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Palette {
    /// One hue per meaning: user, inlined, kernel, JIT-compiled and interpreted code.
    #[default]
    Meaning,
    /// Warm colours for running code, blue for waiting.
    Wall,
    /// The hues of a rule with even lightness, and different colours on dark pages.
    Even(Rule),
    /// The hues of a rule in the original colours of other tools, on light and dark pages alike.
    Classic(Rule),
}

/// Rule that selects the hue of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// One hue for all frames.
    Hue(Hue),
    /// Blue for code, aqua for the stacks of wakers.
    Chain,
    /// Aqua for all frames.
    Wakeup,
    /// Hues by the annotations and names of Java stacks.
    Java,
    /// Hues by the annotations and names of JavaScript stacks.
    Js,
    /// Hues by the names of Perl stacks.
    Perl,
    /// Hues by the file names of Python stacks.
    Python,
    /// Hues by the crates of Rust stacks.
    Rust,
}

/// A hue with its range of tones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hue {
    /// From red to yellow.
    Hot,
    /// From green to cyan, for memory.
    Mem,
    /// From blue to grey-blue, for input and output.
    Io,
    /// Reds.
    Red,
    /// Greens.
    Green,
    /// Blues.
    Blue,
    /// Yellows.
    Yellow,
    /// Purples.
    Purple,
    /// Aquas.
    Aqua,
    /// Oranges.
    Orange,
}

impl Palette {
    /// Returns the customary colours for values other than CPU time, so that the graph is not mistaken for a CPU
    /// profile.
    pub fn of(value_type: &ValueType) -> Self {
        match value_type.quantity() {
            Quantity::OffCpu => Self::Even(Rule::Hue(Hue::Blue)),
            Quantity::Wall => Self::Wall,
            Quantity::Wakeup => Self::Even(Rule::Wakeup),
            Quantity::OffWake => Self::Even(Rule::Chain),
            Quantity::Io => Self::Even(Rule::Hue(Hue::Io)),
            Quantity::Memory => Self::Even(Rule::Hue(Hue::Mem)),
            Quantity::Locks => Self::Even(Rule::Hue(Hue::Purple)),
            _ => Self::default(),
        }
    }
}

impl Palette {
    /// Paint of a frame by its name.
    pub(crate) fn named(self, name: &str, role: Role) -> Paint {
        self.shade(name, role, unit(hash(name.as_bytes())))
    }

    /// Paint of a name in a role; `tone` is from 0 to below 1.
    fn shade(self, name: &str, role: Role, tone: f64) -> Paint {
        match (self, role) {
            (Palette::Meaning, _) => meaning(role, tone),
            (Palette::Wall, _) => meaning(role.running_or_not(), tone),
            (
                Palette::Even(_),
                Role::Whole | Role::Marker | Role::Separator | Role::WideSeparator,
            ) => meaning(role, tone),
            (Palette::Even(rule), _) => even(rule, hue_of(rule, name, role), tone),
            (Palette::Classic(_), Role::Separator) => Paint::same(Rgb(200, 200, 200)),
            (Palette::Classic(_), Role::WideSeparator) => Paint::same(Rgb(160, 160, 160)),
            (Palette::Classic(rule), _) => Paint {
                hatched: role == Role::Marker,
                ..Paint::same(hue_of(rule, name, role).tone(tone))
            },
        }
    }

    /// Meaning of a colour, if the palette has several meanings; `value` is the name of the value type.
    pub(crate) fn meaning_of(self, name: &str, role: Role, value: &str) -> Option<String> {
        let label = match (self, role) {
            (Palette::Meaning, _) => role.label()?,
            (Palette::Wall, _) => match role.running_or_not() {
                Role::User => "running",
                other => other.label()?,
            },
            (_, Role::Whole | Role::Separator | Role::WideSeparator) => return None,
            (_, Role::Marker) => role.label()?,
            (Palette::Even(rule) | Palette::Classic(rule), _) => {
                rule.label(hue_of(rule, name, role)).unwrap_or(value)
            }
        };
        Some(label.to_owned())
    }
}

/// The name of a palette is unknown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no palette has the name `{0}`: there are default, wall, hot, mem, io, wakeup, chain, java, js, perl, \
     python, rust; the last ten with classic- before them in the colours of the established tools; and red, \
     green, blue, yellow, purple, aqua, orange"
)]
pub struct UnknownPalette(String);

impl FromStr for Palette {
    type Err = UnknownPalette;

    fn from_str(name: &str) -> Result<Self, UnknownPalette> {
        let unknown = || UnknownPalette(name.to_owned());
        let rule = |name: &str| {
            Some(match name {
                "hot" => Rule::Hue(Hue::Hot),
                "mem" => Rule::Hue(Hue::Mem),
                "io" => Rule::Hue(Hue::Io),
                "wakeup" => Rule::Wakeup,
                "chain" => Rule::Chain,
                "java" => Rule::Java,
                "js" => Rule::Js,
                "perl" => Rule::Perl,
                "python" => Rule::Python,
                "rust" => Rule::Rust,
                _ => return None,
            })
        };
        Ok(match name {
            "default" => Self::Meaning,
            "wall" => Self::Wall,
            "red" => Self::Classic(Rule::Hue(Hue::Red)),
            "green" => Self::Classic(Rule::Hue(Hue::Green)),
            "blue" => Self::Classic(Rule::Hue(Hue::Blue)),
            "yellow" => Self::Classic(Rule::Hue(Hue::Yellow)),
            "purple" => Self::Classic(Rule::Hue(Hue::Purple)),
            "aqua" => Self::Classic(Rule::Hue(Hue::Aqua)),
            "orange" => Self::Classic(Rule::Hue(Hue::Orange)),
            _ => match name.strip_prefix("classic-") {
                Some(classic) => Self::Classic(rule(classic).ok_or_else(unknown)?),
                None => Self::Even(rule(name).ok_or_else(unknown)?),
            },
        })
    }
}

/// Rule that selects a tone within a hue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    /// By a hash of the whole name: a function has the same colour in every graph.
    #[default]
    Name,
    /// By a hash in which the first letters have the most weight: similar names get similar colours.
    Prefix,
    /// By the position of the frame in the graph. Deterministic.
    Place,
}

/// Colours of a frame on light and on dark pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Paint {
    pub(crate) light: Rgb,
    pub(crate) dark: Rgb,
    /// True if the frame is hatched.
    pub(crate) hatched: bool,
}

impl Paint {
    /// Restricts the paint to the colours of a theme.
    pub(crate) fn themed(self, theme: Theme) -> Self {
        let (light, dark) = theme.choose((self.light, self.dark));
        Self { light, dark, ..self }
    }

    /// Text colours on light and on dark pages. The colours for dark pages are chosen for white text.
    pub(crate) fn inks(self, theme: Theme) -> (Rgb, Rgb) {
        let readable = |colour: Rgb, ink: Rgb| {
            if colour.contrast(ink) >= 4.5 { ink } else { colour.ink() }
        };
        if self.light == self.dark && theme == Theme::Auto {
            return (self.light.ink(), self.light.ink());
        }
        theme.choose((readable(self.light, Rgb::INK), readable(self.dark, Rgb::WHITE)))
    }

    fn same(colour: Rgb) -> Self {
        Self { light: colour, dark: colour, hatched: false }
    }
}

/// Selects the paints of a graph's frames.
pub(crate) struct Painter<'a> {
    pub(crate) palette: Palette,
    pub(crate) tone: Tone,
    /// Swaps blue and red in differential flame graphs.
    pub(crate) negate: bool,
    pub(crate) graph: &'a FlameGraph,
}

impl Painter<'_> {
    /// Paints of all frames. Each pair of name and role is computed only once: for 72,000 deep stacks, computing each
    /// frame separately took 4 % of the time.
    pub(crate) fn paints(&self, roles: &[Role]) -> Vec<Paint> {
        let by_name = self.graph.comparison.is_none() && self.tone != Tone::Place;
        let mut known: Vec<Option<(Role, Paint)>> = vec![None; self.graph.names.len()];
        let paint = |(index, &role): (usize, &Role)| {
            let slot = &mut known[self.graph.frames[index].name.index()];
            match *slot {
                Some((of, paint)) if by_name && of == role => paint,
                _ => slot.insert((role, self.paint(index, role))).1,
            }
        };
        roles.iter().enumerate().map(paint).collect()
    }

    pub(crate) fn paint(&self, index: usize, role: Role) -> Paint {
        let frame = &self.graph.frames[index];
        if let Some(comparison) = &self.graph.comparison {
            return self.change(frame.self_change, comparison.largest);
        }
        let name = self.graph.names.get(frame.name);
        let tone = match self.tone {
            Tone::Name => unit(hash(name.as_bytes())),
            Tone::Prefix => prefix_tone(name),
            Tone::Place => unit(hash(&(index as u64).to_le_bytes())),
        };
        self.palette.shade(name, role, tone)
    }

    /// Paint of a change, in a differential flame graph.
    pub(crate) fn changed(&self, change: i64) -> Paint {
        self.change(change, self.graph.comparison.as_ref().map_or(1, |c| c.largest))
    }

    /// Paint of a frame with the middle tone of its hue, for the legend.
    pub(crate) fn middle(&self, index: usize, role: Role) -> Paint {
        self.palette.shade(self.graph.names.get(self.graph.frames[index].name), role, 0.5)
    }

    /// Meaning of a frame's colour, if the palette has several meanings; `value` is the name of the value type.
    pub(crate) fn meaning_of(&self, index: usize, role: Role, value: &str) -> Option<String> {
        let name = self.graph.names.get(self.graph.frames[index].name);
        self.palette.meaning_of(name, role, value)
    }

    /// Paint by the change of the function's self value.
    fn change(&self, change: i64, largest: u64) -> Paint {
        let share = change as f64 / largest.max(1) as f64;
        ChangeColors::RedBlue.paint(if self.negate { -share } else { share })
    }
}

/// Paint of the default palette.
pub(crate) fn meaning(role: Role, tone: f64) -> Paint {
    /// Number of distinct tones per hue.
    const TONES: f64 = 6.0;
    let step = (tone * TONES).floor() / (TONES - 1.0) - 0.5;
    // Hue, its width, chroma on light and dark pages, lightness on light and dark pages. Kinds of code also differ in
    // lightness, because many people cannot distinguish green and orange.
    let (hue, width, (light_chroma, dark_chroma), (light, dark)) = match role {
        Role::User => (53.0, 42.0, (0.125, 0.13), (0.80, 0.475)),
        Role::Inlined => (109.0, 14.0, (0.125, 0.11), (0.93, 0.552)),
        Role::Kernel => (262.0, 30.0, (0.11, 0.13), (0.70, 0.555)),
        Role::Jit => (150.0, 24.0, (0.11, 0.075), (0.87, 0.505)),
        Role::Interpreted => (200.0, 26.0, (0.085, 0.12), (0.93, 0.425)),
        Role::Waker => (318.0, 24.0, (0.10, 0.12), (0.65, 0.51)),
        Role::Waiting => (235.0, 16.0, (0.11, 0.10), (0.79, 0.36)),
        Role::Whole => (75.0, 0.0, (0.012, 0.008), (0.90, 0.31)),
        Role::Unknown => (75.0, 0.0, (0.015, 0.012), (0.80, 0.345)),
        Role::Marker | Role::Separator => (75.0, 0.0, (0.005, 0.005), (0.86, 0.45)),
        Role::WideSeparator => (75.0, 0.0, (0.005, 0.005), (0.74, 0.38)),
    };
    let hue = hue + width * step;
    let lift = if width > 0.0 { 0.02 * step } else { 0.0 };
    Paint {
        light: Rgb::oklch(light + lift, light_chroma, hue),
        dark: Rgb::oklch(dark + 0.4 * lift, dark_chroma, hue),
        hatched: role == Role::Marker,
    }
}

/// Hue of a frame by the rules of other tools.
fn hue_of(rule: Rule, name: &str, role: Role) -> Hue {
    let cpp = name.contains("::");
    match rule {
        Rule::Hue(hue) => hue,
        Rule::Wakeup => Hue::Aqua,
        Rule::Chain if role == Role::Waker => Hue::Aqua,
        Rule::Chain => Hue::Blue,
        Rule::Java => match role {
            Role::Jit => Hue::Green,
            Role::Inlined => Hue::Aqua,
            _ if cpp => Hue::Yellow,
            Role::Kernel => Hue::Orange,
            _ => Hue::Red,
        },
        Rule::Js => match role {
            Role::Jit if name.contains('/') => Hue::Green,
            Role::Jit => Hue::Aqua,
            _ if cpp => Hue::Yellow,
            _ if name.starts_with('/') => Hue::Red,
            Role::Kernel => Hue::Orange,
            _ if name.contains(':') => Hue::Aqua,
            _ => Hue::Red,
        },
        Rule::Perl => match role {
            _ if cpp => Hue::Yellow,
            _ if name.contains("Perl") || name.contains(".pl") => Hue::Green,
            Role::Kernel => Hue::Orange,
            _ => Hue::Red,
        },
        Rule::Python => match role {
            Role::Kernel => Hue::Orange,
            // Installed packages, then the standard library, then the user's own code.
            _ if name.contains("site-packages/") || name.contains("dist-packages/") => Hue::Aqua,
            _ if name.contains("lib/python") || name.starts_with("<frozen") => Hue::Yellow,
            _ => Hue::Red,
        },
        Rule::Rust => {
            let path = name.trim_start_matches(['<', '&']);
            match role {
                Role::Kernel => Hue::Red,
                _ if ["core::", "std::", "alloc::"].iter().any(|c| path.starts_with(c)) => {
                    Hue::Orange
                }
                _ if cpp => Hue::Aqua,
                _ => Hue::Yellow,
            }
        }
    }
}

impl Hue {
    /// Tone at a position from 0 to 1.
    fn tone(self, at: f64) -> Rgb {
        /// Number of steps from the first to the last tone: enough to look smooth, few enough for colours to be shared.
        const STEPS: f64 = 23.0;
        let at = (at * STEPS).round() / STEPS;
        let c = |low: f64, range: f64| (low + range * at).round() as u8;
        match self {
            Self::Hot => Rgb(c(205.0, 50.0), c(0.0, 230.0), c(0.0, 55.0)),
            Self::Mem => Rgb(0, c(190.0, 50.0), c(0.0, 210.0)),
            Self::Io => Rgb(c(80.0, 60.0), c(80.0, 60.0), c(190.0, 55.0)),
            Self::Red => Rgb(c(200.0, 55.0), c(50.0, 80.0), c(50.0, 80.0)),
            Self::Green => Rgb(c(50.0, 60.0), c(200.0, 55.0), c(50.0, 60.0)),
            Self::Blue => Rgb(c(80.0, 60.0), c(80.0, 60.0), c(205.0, 50.0)),
            Self::Yellow => Rgb(c(175.0, 55.0), c(175.0, 55.0), c(50.0, 20.0)),
            Self::Purple => Rgb(c(190.0, 65.0), c(80.0, 60.0), c(190.0, 65.0)),
            Self::Aqua => Rgb(c(50.0, 60.0), c(165.0, 55.0), c(165.0, 55.0)),
            Self::Orange => Rgb(c(190.0, 65.0), c(90.0, 65.0), 0),
        }
    }
}

/// FNV-1a with a final mix, so that names that differ only in the last letter get different tones.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &b| {
        (hash ^ u64::from(b)).wrapping_mul(0x100_0000_01b3)
    });
    let hash: u64 = (hash ^ hash >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash ^ hash >> 29
}

/// Converts a hash to a fraction from 0 to below 1.
fn unit(hash: u64) -> f64 {
    (hash >> 11) as f64 / (1u64 << 53) as f64
}

/// Tone from 0 to below 1; close for names with the same beginning.
fn prefix_tone(name: &str) -> f64 {
    let (mut sum, mut whole, mut weight) = (0.0, 0.0, 1.0);
    for byte in name.bytes().take(12) {
        sum += weight * f64::from(byte % 16) / 16.0;
        whole += weight;
        weight *= 0.7;
    }
    if whole > 0.0 { sum / whole } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use pyrograph_profile::FrameKind;

    use super::*;

    #[test]
    fn text_on_frames_has_contrast_enough() {
        for role in Role::LABELLED.into_iter().chain([Role::Whole]) {
            for tone in [0.0, 0.2, 0.4, 0.6, 0.8, 0.999] {
                let paint = meaning(role, tone);
                let light = paint.light.contrast(Rgb::INK);
                let dark = paint.dark.contrast(Rgb::WHITE);
                assert!(light >= 4.5 && dark >= 4.5, "{role:?} {tone}: {light:.2} {dark:.2}");
            }
        }
    }

    #[test]
    fn palettes_follow_the_established_rules() {
        let hue = |rule, name: &str| hue_of(rule, name, Role::of(name, FrameKind::User));
        assert_eq!(hue(Rule::Java, "java/lang/Foo.bar_[j]"), Hue::Green);
        assert_eq!(hue(Rule::Java, "org/x/Y"), Hue::Green);
        assert_eq!(hue(Rule::Java, "inl_[i]"), Hue::Aqua);
        assert_eq!(hue(Rule::Java, "Foo::bar"), Hue::Yellow);
        assert_eq!(hue(Rule::Java, "baz_[k]"), Hue::Orange);
        assert_eq!(hue(Rule::Java, "/usr/bin/x"), Hue::Red);
        assert_eq!(hue(Rule::Js, "x.js:3"), Hue::Aqua);
        assert_eq!(hue(Rule::Perl, "Perl_pp_add"), Hue::Green);
        assert_eq!(hue(Rule::Rust, "<core::iter::Map as Iterator>::next"), Hue::Orange);
        assert_eq!(hue(Rule::Rust, "serde::de"), Hue::Aqua);
        assert!("rainbow".parse::<Palette>().is_err());
    }

    #[test]
    fn colours_are_those_of_the_value_that_is_drawn() {
        let of = |name, unit| Palette::of(&ValueType::new(name, unit));
        assert_eq!(of("calls", "count"), Palette::default());
        assert_eq!(of("off-cpu", "ns"), Palette::Even(Rule::Hue(Hue::Blue)));
    }

    #[test]
    fn the_old_colours_stay_behind_their_names() {
        assert_eq!("classic-hot".parse(), Ok(Palette::Classic(Rule::Hue(Hue::Hot))));
        assert_eq!("aqua".parse(), Ok(Palette::Classic(Rule::Hue(Hue::Aqua))));
        assert_eq!("hot".parse(), Ok(Palette::Even(Rule::Hue(Hue::Hot))));
        assert!("classic-default".parse::<Palette>().is_err());
        assert_eq!(Hue::Hot.tone(0.0), Rgb(205, 0, 0));
        assert_eq!(Hue::Io.tone(1.0), Rgb(140, 140, 245));
    }

    #[test]
    fn paints_of_all_frames_are_those_of_each() {
        use pyrograph_analyze::{FlameOptions, flame};
        use pyrograph_profile::{LabelOptions, Profile, Sample, Tree};
        let mut profile = Profile::new(vec![ValueType::samples()]);
        let names =
            ["main", "main", "read_[k]", "a::b", "--", "java/x.Y", "[waiting for a lock]", "main"];
        for (at, name) in names.iter().enumerate() {
            let stack = profile.stack_of_names([names[at * 3 % 5], name, names[at / 2], name]);
            profile.push(Sample::new(stack), &[at as u64 + 1]);
        }
        let tree = Tree::new(&profile, &LabelOptions::default());
        let graph = flame(&profile, &tree, &FlameOptions::default()).expect("a graph");
        let roles = Role::of_frames(&graph);
        for palette in ["default", "wall", "java", "classic-rust"] {
            for tone in [Tone::Name, Tone::Prefix, Tone::Place] {
                let palette = palette.parse().expect("a palette");
                let painter = Painter { palette, tone, negate: false, graph: &graph };
                let each: Vec<Paint> = roles
                    .iter()
                    .enumerate()
                    .map(|(index, &role)| painter.paint(index, role))
                    .collect();
                assert_eq!(painter.paints(&roles), each, "{palette:?} {tone:?}");
            }
        }
    }

    #[test]
    fn like_names_have_like_tones_when_asked() {
        let near = (prefix_tone("ext4_file_read") - prefix_tone("ext4_file_write")).abs();
        assert!(near < 0.05, "{near}");
    }
}
