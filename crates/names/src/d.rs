//! Names of D: `_D3app6Parser4nextMFZv` is `app.Parser.next`.

use crate::scan::digits;
use crate::{Language, Name};

/// Takes a name apart whose parts are words; those with templates and back references stay encoded.
///
/// The encoding: <https://dlang.org/spec/abi.html#name_mangling>.
pub(crate) fn name(name: &str) -> Option<Name<'_>> {
    let mut rest = name.strip_prefix("_D")?;
    let mut parts: Vec<&str> = Vec::new();
    loop {
        let length = digits(rest);
        if length == 0 {
            break;
        }
        let size: usize = rest[..length].parse().ok()?;
        let part = rest.get(length..length.checked_add(size)?)?;
        if part.is_empty() || part.starts_with("__T") || part.starts_with("__S") {
            return None;
        }
        parts.push(part);
        rest = &rest[length + size..];
    }
    // A function in a function: the type of the outer one is between them.
    let is_nested = rest.split('Z').skip(1).any(|part| digits(part) > 0);
    if parts.is_empty() || is_nested || rest.contains('Q') {
        return None;
    }
    let readable: Vec<&str> = parts
        .iter()
        .map(|part| match *part {
            "__ctor" => "this",
            "__dtor" => "~this",
            part => part,
        })
        .collect();
    let from = readable.len().saturating_sub(2);
    Some(Name {
        identity: name.into(),
        short: readable[from..].join(".").into(),
        full: readable.join(".").into(),
        language: Some(Language::D),
        tier: None,
    })
}
