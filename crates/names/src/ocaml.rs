//! Names of OCaml: `camlStdlib__List__map_442` is `Stdlib.List.map`, the number that of a definition in its file.

use crate::scan::is_number;
use crate::{Language, Name};

/// Takes a name apart, as `ocamlopt` of any version writes it: `__`, `.` or `$` between modules.
pub(crate) fn name(name: &str) -> Option<Name<'_>> {
    let symbol = name.strip_prefix("caml")?;
    let (path, number) = symbol.rsplit_once('_').filter(|(_, number)| is_number(number))?;
    let path = decoded(&path.replace("__", "."));
    let parts: Vec<&str> = path.split('.').filter(|part| !part.is_empty()).collect();
    let from = parts.len().saturating_sub(2);
    Some(Name {
        identity: parts.join(".").into(),
        short: parts[from..].join(".").into(),
        full: format!("{}_{number}", parts.join(".")).into(),
        language: Some(Language::OCaml),
        tier: None,
    })
}

/// Operators are `$` and two hexadecimal digits a character: `$40$40` is `@@`. On some systems `$` is also between modules.
fn decoded(path: &str) -> String {
    let mut text = String::with_capacity(path.len());
    let mut rest = path;
    while let Some((before, after)) = rest.split_once('$') {
        text.push_str(before);
        let code = after.get(..2).and_then(|code| u8::from_str_radix(code, 16).ok());
        match code.filter(u8::is_ascii_graphic) {
            Some(code) => {
                text.push(char::from(code));
                rest = &after[2..];
            }
            None => {
                text.push('.');
                rest = after;
            }
        }
    }
    text + rest
}
