//! Names of Go: `github.com/acme/shop.(*Cart).Add`, `main.Map[go.shape.int]`, `main.run.func1.2`.

use crate::scan::{digits, outside};
use crate::{Language, Name, suffix};

/// Takes a name apart; `None` if it shows no sign of Go.
pub(crate) fn name(name: &str) -> Option<Name<'_>> {
    if name.contains("::")
        || name.starts_with(['/', '<', '['])
        || name.contains(' ') && !name.contains('[')
    {
        return None;
    }
    let bare = suffix::without(name);
    let bare = bare.strip_suffix("-fm").unwrap_or(bare);
    let slash = outside(bare).rfind(|&(_, byte)| byte == b'/').map(|(at, _)| at);
    let own = &bare[slash.map_or(0, |at| at + 1)..];
    let (package, function) = own.split_once('.')?;
    let is_package = |text: &str| {
        text.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-%".contains(&b))
    };
    if !is_package(package) || function.is_empty() {
        return None;
    }
    let generic = bare.contains("[go.shape.") || bare.contains("[...]");
    let plain = without_arguments(bare);
    let identity = without_numbers(&plain);
    let is_one = generic
        || bare.contains(".(*")
        || identity.len() < plain.len()
        || bare.len() < name.len()
        || slash.is_some() && function.starts_with(|c: char| c.is_ascii_alphabetic());
    is_one.then(|| {
        let plain = without_arguments(own);
        Name {
            identity: identity.into(),
            short: plain.into(),
            full: name.into(),
            language: Some(Language::Go),
            tier: None,
        }
    })
}

/// `Map[go.shape.int,go.shape.string]` is `Map[...]`, as the runtime prints it: what shapes there are depends on the rest
/// of the program.
fn without_arguments(name: &str) -> String {
    let Some((before, rest)) = name.split_once('[') else { return name.to_owned() };
    let mut depth = 1;
    for (at, byte) in rest.bytes().enumerate() {
        match byte {
            b'[' => depth += 1,
            b']' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return format!("{before}[...]{}", without_arguments(&rest[at + 1..]));
        }
    }
    name.to_owned()
}

/// `run.func1.2` is `run.func`, `main.init.0` is `main.init`, `run.gowrap1` is `run.gowrap`.
fn without_numbers(name: &str) -> String {
    const COUNTED: &[&str] = &["func", "gowrap", "deferwrap", "init"];
    let mut parts: Vec<&str> = Vec::new();
    let mut is_behind = false;
    for part in name.split('.') {
        let counted = COUNTED.iter().find(|word| {
            part.strip_prefix(**word).is_some_and(|number| digits(number) == number.len())
        });
        // Closures in closures, each with its own number.
        let is_number = !part.is_empty() && digits(part) == part.len();
        let repeats = counted.is_some_and(|word| is_behind && parts.last() == Some(word));
        let is_counted = is_behind && is_number || repeats;
        if !is_counted {
            parts.push(counted.copied().unwrap_or(part));
        }
        is_behind = counted.is_some() || is_behind && is_number;
    }
    parts.join(".")
}
