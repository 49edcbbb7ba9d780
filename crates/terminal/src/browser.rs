//! Opens pictures in the browser.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::{Command, Stdio};

/// Opens a file in the browser named by `$BROWSER`, or with the desktop's default program.
///
/// # Errors
///
/// Returns the commands that were tried if none of them can be started.
pub fn open(path: &Path) -> Result<(), String> {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let browsers = browsers(std::env::var_os("BROWSER"));
    let started = browsers.iter().any(|browser| {
        let (program, arguments) = command(browser, path.as_os_str());
        let mut command = Command::new(program);
        let quiet = command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null());
        quiet.stderr(Stdio::null()).spawn().is_ok()
    });
    let tried = browsers.iter().map(|browser| browser.to_string_lossy());
    if started { Ok(()) } else { Err(tried.collect::<Vec<_>>().join(", ")) }
}

/// Returns true if a browser is likely to work: there is a display, or `$BROWSER` is set.
pub fn is_likely() -> bool {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    ["DISPLAY", "WAYLAND_DISPLAY", "BROWSER"].into_iter().any(is_set)
}

/// Returns a command line that opens a file.
pub fn command_line(path: &Path) -> String {
    let path = quoted(&path.to_string_lossy());
    match std::env::var("BROWSER") {
        Ok(browser) if !browser.is_empty() && !browser.contains([':', '%']) => {
            format!("{browser} {path}")
        }
        _ => format!("xdg-open {path}"),
    }
}

/// Returns the commands to try in order; `$BROWSER` is a list separated by colons.
fn browsers(variable: Option<OsString>) -> Vec<OsString> {
    let named = variable.filter(|named| !named.is_empty());
    let mut browsers: Vec<OsString> = named.map_or_else(Vec::new, |named| {
        named.to_string_lossy().split(':').filter(|one| !one.is_empty()).map(Into::into).collect()
    });
    browsers.push("xdg-open".into());
    browsers
}

/// Returns program and arguments of a command: the file replaces `%s`, or is the last argument.
fn command(browser: &OsStr, path: &OsStr) -> (OsString, Vec<OsString>) {
    let browser = browser.to_string_lossy();
    let mut words: Vec<OsString> = browser.split_whitespace().map(Into::into).collect();
    match words.iter_mut().find(|word| *word == "%s") {
        Some(place) => *place = path.to_owned(),
        None => words.push(path.to_owned()),
    }
    (words.remove(0), words)
}

/// Quotes a word for a shell.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./+,:@%".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn browsers_are_tried_in_turn() {
        assert_eq!(browsers(None), ["xdg-open"]);
        assert_eq!(browsers(Some("a -x:b %s y".into())), ["a -x", "b %s y", "xdg-open"]);
        let words = |browser: &str| command(browser.as_ref(), "p q".as_ref());
        assert_eq!(words("a -x"), ("a".into(), vec!["-x".into(), "p q".into()]));
        assert_eq!(words("b %s y"), ("b".into(), vec!["p q".into(), "y".into()]));
    }

    #[test]
    fn words_are_quoted_for_shells() {
        assert_eq!(quoted("a/b.svg"), "a/b.svg");
        assert_eq!(quoted("it's"), "'it'\\''s'");
    }
}
