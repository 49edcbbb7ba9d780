//! Names of Haskell, as GHC encodes them: `base_GHCziBase_map_info` is `GHC.Base.map`.

use crate::{Language, Name};

/// Endings that say what of a function the symbol is.
const ENDINGS: &[&str] =
    &["_con_info", "_static_info", "_info", "_entry", "_closure", "_slow", "_fast", "_ret"];

/// Takes a name apart; `None` if it is not surely one.
///
/// The encoding: <https://gitlab.haskell.org/ghc/ghc/-/wikis/commentary/compiler/symbol-names>.
pub(crate) fn name(name: &str) -> Option<Name<'_>> {
    let symbol = ENDINGS.iter().find_map(|ending| name.strip_suffix(ending))?;
    if !symbol.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.'".contains(&b)) {
        return None;
    }
    let parts: Vec<&str> = symbol.split('_').collect();
    let is_module = |part: &str| part.starts_with(|c: char| c.is_ascii_uppercase());
    // `package_Module_function`, `Module_function` of the program itself, and what is local to a module after that.
    let module = parts.iter().position(|part| is_module(part)).filter(|&at| at < 2)?;
    let is_encoded = parts.iter().any(|part| {
        ["zi", "zm", "zd", "zq", "ZC", "ZM", "ZL"].iter().any(|code| part.contains(code))
    });
    let is_main = module == 0 && parts[0] == "Main";
    if parts.len() < module + 2 || !is_encoded && !is_main {
        return None;
    }
    let own = &parts[module..];
    let mut words: Vec<String> = own.iter().map(|part| decoded(part)).collect();
    let full = words.join(".");
    // GHC numbers what it made itself: `sat_s4Xs`, `lvl12_r3Kx`.
    while words.len() > 2 && words.last().is_some_and(|word| is_unique(word)) {
        words.pop();
    }
    let identity = words.join(".");
    let module_end = words[0].rsplit('.').next().unwrap_or_default().to_owned();
    let short =
        std::iter::once(module_end).chain(words[1..].iter().cloned()).collect::<Vec<_>>().join(".");
    Some(Name {
        identity: identity.into(),
        short: short.into(),
        full: full.into(),
        language: Some(Language::Haskell),
        tier: None,
    })
}

/// `s4Xs`, `r3Kx`, `c1aB`: a letter that says the kind, and a number in base 62.
fn is_unique(word: &str) -> bool {
    let mut letters = word.chars();
    let kind = letters.next().is_some_and(|c| "src".contains(c));
    let rest = letters.as_str();
    kind && (2..=6).contains(&rest.len())
        && rest.chars().all(|c| c.is_ascii_alphanumeric())
        && rest.chars().any(|c| c.is_ascii_digit() || c.is_ascii_uppercase())
}

/// The text of what is "z-encoded".
fn decoded(part: &str) -> String {
    let mut text = String::with_capacity(part.len());
    let mut letters = part.chars().peekable();
    while let Some(c) = letters.next() {
        if c != 'z' && c != 'Z' {
            text.push(c);
            continue;
        }
        let Some(code) = letters.next() else {
            text.push(c);
            break;
        };
        let sign = match (c, code) {
            ('z', 'a') => "&",
            ('z', 'b') => "|",
            ('z', 'c') => "^",
            ('z', 'd') => "$",
            ('z', 'e') => "=",
            ('z', 'g') => ">",
            ('z', 'h') => "#",
            ('z', 'i') => ".",
            ('z', 'l') => "<",
            ('z', 'm') => "-",
            ('z', 'n') => "!",
            ('z', 'p') => "+",
            ('z', 'q') => "'",
            ('z', 'r') => "\\",
            ('z', 's') => "/",
            ('z', 't') => "*",
            ('z', 'u') => "_",
            ('z', 'v') => "%",
            ('z', 'z') => "z",
            ('Z', 'C') => ":",
            ('Z', 'L') => "(",
            ('Z', 'R') => ")",
            ('Z', 'M') => "[",
            ('Z', 'N') => "]",
            ('Z', 'Z') => "Z",
            _ => {
                text.push(c);
                text.push(code);
                continue;
            }
        };
        text.push_str(sign);
    }
    text
}
