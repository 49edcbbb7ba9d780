//! Writing of XML and HTML tags.

use std::fmt::{Display, Write};

use crate::svg::number;
use crate::text::escape;

/// A start tag that is being written.
#[must_use]
pub(crate) struct Tag<'a> {
    out: &'a mut String,
    name: &'static str,
}

/// Begins a start tag: `<name`.
pub(crate) fn tag<'a>(out: &'a mut String, name: &'static str) -> Tag<'a> {
    out.push('<');
    out.push_str(name);
    Tag { out, name }
}

/// Writes an end tag and a line end.
pub(crate) fn end(out: &mut String, name: &str) {
    let _ = writeln!(out, "</{name}>");
}

impl<'a> Tag<'a> {
    /// Adds an attribute whose value needs no escaping: an identifier, a colour, a number.
    pub(crate) fn attr(self, name: &str, value: impl Display) -> Self {
        self.attr_by(name, |out| {
            let _ = write!(out, "{value}");
        })
    }

    /// Adds such an attribute if it has a value.
    pub(crate) fn attr_if(self, name: &str, value: Option<impl Display>) -> Self {
        match value {
            Some(value) => self.attr(name, value),
            None => self,
        }
    }

    /// Adds an attribute in pixels, rounded to tenths.
    pub(crate) fn pixels(self, name: &str, value: f64) -> Self {
        self.attr_by(name, |out| number(out, value))
    }

    /// Adds an attribute with escaped text.
    pub(crate) fn attr_text(self, name: &str, text: &str) -> Self {
        self.attr_by(name, |out| escape(out, text))
    }

    /// Adds an attribute whose value a function writes.
    pub(crate) fn attr_by(self, name: &str, value: impl FnOnce(&mut String)) -> Self {
        self.out.push(' ');
        self.out.push_str(name);
        self.out.push_str("=\"");
        value(self.out);
        self.out.push('"');
        self
    }

    /// Ends the start tag of an element with content.
    pub(crate) fn open(self) -> &'a mut String {
        self.out.push('>');
        self.out
    }

    /// Ends the start tag of an element with content, and the line.
    pub(crate) fn open_line(self) {
        self.open().push('\n');
    }

    /// Ends an element without content.
    pub(crate) fn close(self) {
        self.out.push_str("/>");
    }

    /// Writes the text of an element, and its end tag.
    pub(crate) fn text(self, text: &str) -> &'a mut String {
        let name = self.name;
        let out = self.open();
        escape(out, text);
        let _ = write!(out, "</{name}>");
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_outside_is_escaped() {
        let mut out = String::new();
        tag(&mut out, "g").attr("class", "a").attr_if("id", None::<u32>).open_line();
        tag(&mut out, "text").pixels("x", 1.25).attr_text("title", "\"<").text("a & b");
        tag(&mut out, "rect").attr_by("d", |out| out.push_str("M0")).close();
        end(&mut out, "g");
        let expect = "<g class=\"a\">\n<text x=\"1.3\" title=\"&quot;&lt;\">a &amp; b</text>\
                      <rect d=\"M0\"/></g>\n";
        assert_eq!(out, expect);
    }
}
