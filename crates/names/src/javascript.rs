//! Names of JavaScript, as V8 writes them for profilers.
//!
//! ```text
//! LazyCompile:*parse /srv/app.js:12:3     compiled and optimized, by older versions
//! JS:^parse /srv/app.js:12:3              compiled quickly
//! Function:~(anonymous) /srv/app.js:40    interpreted
//! ```

use crate::scan::is_number;
use crate::{Language, Name, Tier};

/// What the code is of.
const KINDS: &[&str] =
    &["LazyCompile:", "Function:", "Script:", "Eval:", "JS:", "InterpretedFunction:", "Callback:"];

/// Takes a name apart; `None` if V8 did not write it.
pub(crate) fn name(name: &str) -> Option<Name<'_>> {
    let kind = KINDS.iter().find(|kind| name.starts_with(**kind))?;
    let (tier, rest) = tier(&name[kind.len()..]);
    let tier = tier.or((*kind == "InterpretedFunction:").then_some(Tier::Interpreted));
    // A kind alone may begin the name of a function of another language: `Script::run`.
    if rest.starts_with(':') {
        return None;
    }
    let rest = rest.trim_start();
    let (function, place) = match rest.rsplit_once(' ') {
        Some((function, place)) => (function.trim_end(), place),
        None if rest.contains('/') && rest.contains('.') => ("", rest),
        None => (rest, ""),
    };
    let function = if function.is_empty() { "(anonymous)" } else { function };
    let file = without_lines(place);
    let base = file.rsplit('/').next().unwrap_or(file);
    let identity = if file.is_empty() { function.to_owned() } else { format!("{function} {base}") };
    let full = if place.is_empty() { function.to_owned() } else { format!("{function} {place}") };
    let is_nameless = function.starts_with('(');
    let short = match place {
        "" => function.to_owned(),
        place if is_nameless => format!("{function} {}", place.rsplit('/').next().unwrap_or(place)),
        _ => function.to_owned(),
    };
    Some(Name {
        identity: identity.into(),
        short: short.into(),
        full: full.into(),
        language: Some(Language::JavaScript),
        tier,
    })
}

/// The tier, by its sign, and what follows it. A quotation mark behind the sign says that the code is of one closure, an `o`
/// before it that a running loop was replaced by it (V8 13).
fn tier(name: &str) -> (Option<Tier>, &str) {
    let sign = name.strip_prefix('o').filter(|rest| rest.starts_with(['+', '*'])).unwrap_or(name);
    let (tier, rest) = match sign.as_bytes().first() {
        Some(b'~') => (Tier::Interpreted, &sign[1..]),
        Some(b'^') => (Tier::Baseline, &sign[1..]),
        Some(b'+' | b'*') => (Tier::Optimized, &sign[1..]),
        _ => return (None, name),
    };
    (Some(tier), rest.strip_prefix('\'').unwrap_or(rest))
}

/// The file without line and column.
fn without_lines(place: &str) -> &str {
    let mut file = place;
    while let Some((rest, number)) = file.rsplit_once(':')
        && is_number(number)
    {
        file = rest;
    }
    file
}
