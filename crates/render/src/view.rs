//! Page of `pyrograph view`: a profile with all its views, in a single file that needs neither a server nor other
//! files.
//!
//! The page contains the profile in the format of `pack.rs`, which the script unpacks. Names are external text: the
//! HTML itself contains only the escaped title and the static report of `still.rs`, and the script inserts names only
//! as text. A content security policy permits only the page's own script and style, by their hashes.

mod pack;
#[cfg(test)]
#[path = "../build/squeeze.rs"]
mod squeeze;
mod still;

use std::io::{self, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use pyrograph_analyze::{Annotation, Diff, Scale, ViewData, origin};
use pyrograph_profile::{FrameKind, Marker, Profile};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::packed::write_base64;
use crate::palette::Paint;
use crate::palette_change::ChangeColors;
use crate::role::Role;
use crate::text::escape;
use crate::{Palette, Theme, subtitle};

const STYLE: &str = include_str!("view/page.css");

/// The script, whose modules `build.rs` joins.
const SCRIPT: &str = include_str!(concat!(env!("OUT_DIR"), "/view.js"));

/// Appearance of the page, and additional content.
#[derive(Clone, Debug, Default)]
pub struct ViewLook<'a> {
    /// Title.
    pub title: String,
    /// Subtitle; by default, what was counted, for how long, where and when.
    pub subtitle: Option<String>,
    /// Light or dark theme, or the reader's setting.
    pub theme: Theme,
    /// Colour palette.
    pub palette: Palette,
    /// Initially shows the root at the bottom.
    pub upright: bool,
    /// Initially shows all rows, also those of the start of threads.
    pub all_rows: bool,
    /// Comparison that the profile was made from, by [`Diff::sides`].
    pub compared: Option<&'a Diff>,
    /// If set, the page opens with the heat map of sample offsets within periods of this many nanoseconds. Otherwise
    /// it opens with the load over time, and the heat map has periods of a second.
    pub second: Option<u64>,
    /// Functions with source and instructions, hottest first. The page contains as many as there is room for.
    pub code: &'a [Annotation],
}

/// Writes the page.
///
/// # Errors
///
/// Fails if writing to `out` fails.
pub fn view_html(data: &ViewData<'_>, look: &ViewLook<'_>, out: &mut dyn Write) -> io::Result<()> {
    let paints = Paints::new(data, look.palette);
    let about = about(data, look, &paints);
    let packed = pack::pack(data, &about, &paints.of_frame, look)?;
    let mut title = String::new();
    escape(&mut title, &look.title);
    let hash = |text: &str| STANDARD.encode(Sha256::digest(text.as_bytes()));
    let theme =
        look.theme.name().map_or_else(String::new, |name| format!(" data-theme=\"{name}\""));
    writeln!(out, "<!DOCTYPE html>\n<html lang=\"en\"{theme}>")?;
    writeln!(
        out,
        "<head>\n<meta charset=\"utf-8\">\n<meta name=\"generator\" content=\"Pyrograph\">"
    )?;
    writeln!(
        out,
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'sha256-{}'; \
         style-src 'sha256-{}'; worker-src blob:; form-action 'none'; base-uri 'none'\">",
        hash(SCRIPT),
        hash(STYLE)
    )?;
    writeln!(out, "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">")?;
    write!(out, "<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n")?;
    out.write_all(include_bytes!("view/page.html"))?;
    writeln!(out, "<script type=\"text/plain\" id=\"pyrograph-profile\">")?;
    write_base64(&packed, out)?;
    writeln!(out, "\n</script>\n<script>{SCRIPT}</script>")?;
    // Placed after the script, which removes it.
    out.write_all(
        still::still(data, look, about["subtitle"].as_str().unwrap_or_default()).as_bytes(),
    )?;
    writeln!(out, "</body>\n</html>")
}

/// Everything that is not in a column of its own: the profile's description, and the appearance of the page.
fn about(data: &ViewData<'_>, look: &ViewLook<'_>, paints: &Paints) -> Value {
    let profile = data.profile;
    let about = &profile.about;
    let value_type = |of: &pyrograph_profile::ValueType| json!({ "name": of.name, "unit": of.unit, "decimals": of.decimals });
    let period =
        about.period.as_ref().map(|(of, period)| json!({ "of": value_type(of), "value": period }));
    let origin = origin(profile, profile.shown);
    let line = look.subtitle.clone().or_else(|| origin.map(|of| subtitle(&of, None, 1.0)));
    let share = |step: i32| f64::from(step) / 12.0;
    let change = (-12..=12).map(|step| colours(ChangeColors::RedBlue.paint(share(step))));
    json!({
        "title": look.title,
        "subtitle": line.unwrap_or_default(),
        "upright": look.upright,
        "allRows": look.all_rows,
        "counts": {
            "texts": data.texts.len(),
            "frames": data.frames.len(),
            "stacks": data.stacks.len() + 1,
            "threads": data.threads.len(),
            "samples": data.samples.len(),
        },
        "values": profile.value_types.iter().map(value_type).collect::<Vec<_>>(),
        "shown": profile.shown,
        "rooted": profile.rooted,
        "unfiltered": profile.unfiltered,
        "start": about.start,
        "duration": about.duration,
        "period": period,
        "host": about.host,
        "lost": about.lost,
        "sums": about.sums,
        "command": about.command,
        "comments": about.comments,
        "step": data.step,
        "second": look.second,
        "first": data.starts.values().min(),
        "paints": paints.all.iter().map(|&paint| colours(paint)).collect::<Vec<_>>(),
        "legend": paints.legend,
        "change": change.collect::<Vec<_>>(),
        "waiting": paints.waiting.map(colours),
        "waker": paints.waker.map(colours),
        "whole": colours(crate::palette::meaning(Role::Whole, 0.5)),
        "compared": compared(profile, look.compared),
    })
}

/// Scale of a comparison, and the meaning of its verdicts; `null` if the profile is not a comparison.
fn compared(profile: &Profile, diff: Option<&Diff>) -> Value {
    let after = profile.value_types.last().map_or("", |of| &of.unit);
    match diff {
        Some(diff) => {
            let shares = diff.options.scale == Scale::Shares;
            json!({
                "meaning": format!("beyond noise at {:.4}", 100.0 * diff.options.confidence)
                    .trim_end_matches('0').trim_end_matches('.').to_owned() + " %",
                "shares": shares,
                "wholes": shares.then_some([diff.before.total, diff.after.total]),
                "noun": diff.after.value_type.name,
            })
        }
        None if profile.is_comparison() => {
            json!({ "meaning": null, "shares": true, "wholes": null, "noun": after })
        }
        None => Value::Null,
    }
}

/// Colours of a frame and of text on it, each for light and dark pages.
fn colours(paint: Paint) -> [String; 4] {
    let (light, dark) = paint.inks(Theme::Auto);
    [paint.light, paint.dark, light, dark].map(|colour| colour.to_string())
}

/// Paints of frames.
struct Paints {
    all: Vec<Paint>,
    /// Index of each frame's paint.
    of_frame: Vec<u64>,
    /// Meanings with the index of a paint, if there are several.
    legend: Vec<(usize, String)>,
    /// Paint of frames with more than half of their value in waits, if the profile has wait frames.
    waiting: Option<Paint>,
    /// Paint of frames above a `--`, if there is one; the page determines which frames these are.
    waker: Option<Paint>,
}

impl Paints {
    fn new(data: &ViewData<'_>, palette: Palette) -> Self {
        let value = data.profile.value_types.get(data.profile.shown).map_or("", |of| &of.name);
        let has = |test: fn(Marker) -> bool| {
            data.frames
                .iter()
                .any(|of| matches!(of.kind, FrameKind::Marker(marker) if test(marker)))
        };
        let has_wakers = has(|marker| marker == Marker::Waker);
        // In stacks with wakers, waits are not marked.
        let has_waits = has(Marker::is_wait) && !has_wakers;
        let mut made = Self {
            all: Vec::new(),
            of_frame: Vec::new(),
            legend: Vec::new(),
            waiting: has_waits.then(|| palette.named("", Role::Waiting)),
            waker: has_wakers.then(|| palette.named("", Role::Waker)),
        };
        for frame in &data.frames {
            let name = &data.texts[frame.name as usize];
            let role = Role::of(name, frame.kind);
            let paint = palette.named(name, role);
            let known = made.all.iter().position(|of| *of == paint);
            let place = known.unwrap_or_else(|| {
                made.all.push(paint);
                made.all.len() - 1
            });
            made.of_frame.push(place as u64);
            if let Some(meaning) = palette.meaning_of(name, role, value)
                && made.legend.iter().all(|(_, known)| *known != meaning)
            {
                made.legend.push((place, meaning));
            }
        }
        if made.legend.len() < 2 {
            made.legend.clear();
        }
        made
    }
}

#[cfg(test)]
mod tests;
