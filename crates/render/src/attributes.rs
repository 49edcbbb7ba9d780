//! SVG attributes for the frames of particular functions, read from a file. In this example, `→` represents a tab:
//!
//! ```text
//! main→href=https://example.org/main.c→target=_blank
//! read→title=waits for the disk→fill=#8888ff
//! ```
//!
//! Other tools copy any attribute into the SVG file. Here only attributes are accepted that cannot run a script, load
//! a file, or cover the page.

use std::collections::BTreeMap;

/// Attributes by function name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NameAttributes(BTreeMap<String, Attributes>);

/// Attributes of a function's frames.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Attributes {
    /// Text of the tooltip, instead of the frame's details.
    pub(crate) title: Option<String>,
    /// Link target: a web address, or one relative to the SVG file.
    pub(crate) href: Option<String>,
    pub(crate) target: Option<String>,
    /// Fill colour.
    pub(crate) fill: Option<String>,
    /// Names and values of `class`, `id` and `data-*`.
    pub(crate) others: Vec<(String, String)>,
}

/// An attribute that was rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "line {line}: `{attribute}` is not taken: only title, href (to the web), target, class, \
         id, fill (a colour), and data-* are"
)]
pub struct RefusedAttribute {
    /// Line number, starting at 1.
    pub line: usize,
    /// Text of the attribute.
    pub attribute: String,
}

impl NameAttributes {
    /// Parses the text of an attribute file. Also returns the rejected attributes.
    pub fn parse(text: &str) -> (Self, Vec<RefusedAttribute>) {
        let mut all = Self::default();
        let mut refused = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let mut parts = line.split('\t');
            let Some(name) = parts.next().filter(|name| !name.is_empty()) else { continue };
            let attributes = all.0.entry(name.to_owned()).or_default();
            for part in parts.filter(|part| !part.trim().is_empty()) {
                if attributes.take(part).is_none() {
                    let attribute = part.to_owned();
                    refused.push(RefusedAttribute { line: index + 1, attribute });
                }
            }
        }
        (all, refused)
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Attributes> {
        if self.0.is_empty() { None } else { self.0.get(name) }
    }
}

impl Attributes {
    /// Adds an attribute; `None` if it is not accepted.
    fn take(&mut self, part: &str) -> Option<()> {
        let (name, value) = part.split_once('=')?;
        let value = value.trim_matches('"').to_owned();
        match name.trim() {
            "title" => self.title = Some(value),
            "href" | "xlink:href" if is_web(&value) => self.href = Some(value),
            "target" => self.target = Some(value),
            "fill" if is_colour(&value) => self.fill = Some(value),
            name @ ("class" | "id") => self.others.push((name.to_owned(), value)),
            name if is_data(name) => self.others.push((name.to_owned(), value)),
            _ => return None,
        }
        Some(())
    }
}

/// Returns true for relative addresses and those with a scheme of `http` or `https`; `javascript:` and `data:` could
/// run scripts.
fn is_web(address: &str) -> bool {
    // Browsers ignore these characters when they parse the scheme.
    if address.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return false;
    }
    let scheme_end = address.find([':', '/', '?', '#', '\\']);
    match scheme_end.filter(|&at| address[at..].starts_with(':')) {
        Some(end) => ["http", "https"].iter().any(|s| address[..end].eq_ignore_ascii_case(s)),
        None => true,
    }
}

/// Returns true for colours such as `#rrggbb`, `orange`, `rgb(1, 2, 3)`, `hsl(…)`; false for `url(…)`.
fn is_colour(value: &str) -> bool {
    !value.is_empty()
        && value.chars().all(|c| c.is_ascii_alphanumeric() || "#(),.% ".contains(c))
        && !value.to_ascii_lowercase().contains("url")
}

fn is_data(name: &str) -> bool {
    name.strip_prefix("data-").is_some_and(|rest| {
        !rest.is_empty()
            && rest.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn harmless_attributes_are_taken() {
        let text = "main\thref=https://example.org/a?b=c&d\ttarget=_top\tdata-x=1\nf\tfill=#abc\n";
        let (all, refused) = NameAttributes::parse(text);
        assert_eq!(refused, []);
        let main = all.get("main").expect("main has attributes");
        assert_eq!(main.href.as_deref(), Some("https://example.org/a?b=c&d"));
        assert_eq!(main.others, [("data-x".to_owned(), "1".to_owned())]);
        assert_eq!(all.get("f").and_then(|f| f.fill.as_deref()), Some("#abc"));
        for relative in ["a.html", "#frame", "/x:y", "?q=a:b", "../up"] {
            assert!(is_web(relative), "{relative}");
        }
    }

    #[test]
    fn whatever_could_run_or_load_something_is_refused() {
        for bad in [
            "onclick=alert(1)",
            "href=javascript:alert(1)",
            "href=JaVaScRiPt:alert(1)",
            "href= javascript:alert(1)",
            "href=java\u{1}script:alert(1)",
            "xlink:href=data:text/html,x",
            "style=position:fixed",
            "fill=url(https://example.org/x)",
            "data-=1",
            "data-x\"=1",
            "a b=c",
            "nothing",
        ] {
            let (all, refused) = NameAttributes::parse(&format!("main\t{bad}"));
            assert_eq!(refused.len(), 1, "{bad}");
            assert_eq!(all.get("main"), Some(&Attributes::default()), "{bad}");
        }
    }
}
