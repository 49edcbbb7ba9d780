//! Attributes for the frames of particular functions: a file of lines such as these, with tabs where
//! `→` stands here.
//!
//! ```text
//! main→href=https://example.org/main.c→target=_blank
//! read→title=waits for the disk→fill=#8888ff
//! ```
//!
//! The established tools copy anything into the picture. Here only attributes that cannot run a
//! script, load a file, or cover the page are taken.

use std::collections::BTreeMap;

/// Attributes by function name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NameAttributes(BTreeMap<String, Attributes>);

/// The attributes of a function's frames.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Attributes {
    /// Replaces the details shown when pointed at.
    pub(crate) title: Option<String>,
    /// A web address, or one relative to the picture.
    pub(crate) href: Option<String>,
    pub(crate) target: Option<String>,
    /// A colour.
    pub(crate) fill: Option<String>,
    /// `class`, `id`, `data-*`: names and values.
    pub(crate) others: Vec<(String, String)>,
}

/// An attribute that was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "line {line}: `{attribute}` is not taken: only title, href (to the web), target, class, \
         id, fill (a colour), and data-* are"
)]
pub struct RefusedAttribute {
    /// The line, from 1.
    pub line: usize,
    /// The text there.
    pub attribute: String,
}

impl NameAttributes {
    /// Reads the file's text.
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
    /// `None` if it is not one of those that are taken.
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

/// True of an address that leads to the web or is relative; `javascript:` and `data:` run scripts.
fn is_web(address: &str) -> bool {
    // Browsers skip these before they look for the scheme.
    if address.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return false;
    }
    let scheme_end = address.find([':', '/', '?', '#', '\\']);
    match scheme_end.filter(|&at| address[at..].starts_with(':')) {
        Some(end) => ["http", "https"].iter().any(|s| address[..end].eq_ignore_ascii_case(s)),
        None => true,
    }
}

/// `#rrggbb`, `orange`, `rgb(1, 2, 3)`, `hsl(…)`; not `url(…)`.
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
