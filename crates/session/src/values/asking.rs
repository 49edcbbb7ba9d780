//! Which values of an event are read, each once, and what is put together from them.

use pyrograph_event::values::{Bits, EventValues, MOST_VALUES, ReadValue};
use pyrograph_probe::{Condition, Shape};

use crate::error::PlaceError;

use super::filter::checks;

/// A value that is read of an event, by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedValue {
    /// Its name: that of the expression, or one that was given.
    pub name: String,
    /// How it is shown.
    pub shape: Shape,
}

/// Request for values of an event.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wanted<'a> {
    /// Values that are shown: `NAME=EXPRESSION`, or an expression alone; `:string` behind it reads a text.
    pub shown: &'a [&'a str],
    /// Condition on values; events for which it is false are left out.
    pub filter: Option<&'a Condition>,
    /// Value by which sums are kept apart: a name of a shown one, or an expression.
    pub by: Option<&'a str>,
    /// Value that is added up.
    pub sum: Option<&'a str>,
    /// Read the address of the frame, to tell calls from each other.
    pub frame: bool,
    /// Value by which the end of an event is found, in place of the frame.
    pub key: Option<&'a str>,
}

/// Expression of the address of the frame, which users cannot name.
pub(crate) const FRAME: &str = "$frame";

/// The values that are read of an event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Resolved {
    /// From where, and the filter.
    pub values: EventValues,
    /// All values, those that are shown first.
    pub named: Vec<NamedValue>,
    /// Index of the value by which sums are kept apart.
    pub by: Option<usize>,
    /// Index of the value that is added up.
    pub sum: Option<usize>,
    /// Index of the address of the frame, or of the key.
    pub frame: Option<usize>,
}

impl Wanted<'_> {
    /// Returns true if no value is read.
    pub fn is_empty(&self) -> bool {
        self.shown.is_empty()
            && self.filter.is_none()
            && self.by.is_none()
            && self.sum.is_none()
            && !self.frame
            && self.key.is_none()
    }
}

/// A value that is to be read.
#[derive(Clone, Debug)]
pub(crate) struct Asked<'a> {
    name: &'a str,
    pub expression: &'a str,
    /// Read the text that it is, or points to.
    pub as_text: bool,
}

/// The values to read, each once.
#[derive(Debug)]
pub(crate) struct Asking<'a> {
    all: Vec<Asked<'a>>,
    wanted: Wanted<'a>,
}

impl<'a> Asking<'a> {
    /// Lists the values.
    ///
    /// # Errors
    ///
    /// If there are too many.
    pub fn new(wanted: Wanted<'a>) -> Result<Self, PlaceError> {
        let mut asking =
            Self { all: wanted.shown.iter().map(|text| split(text)).collect(), wanted };
        let compared = wanted.filter.map(Condition::expressions).unwrap_or_default();
        let others = [wanted.by, wanted.sum, wanted.key].into_iter().flatten();
        let others = others.map(|expression| (expression, false));
        for (expression, as_text) in compared.into_iter().chain(others) {
            if asking.find(expression, as_text).is_none() {
                let asked = split(expression);
                asking.all.push(Asked { as_text: asked.as_text || as_text, ..asked });
            }
        }
        if wanted.frame {
            asking.all.push(Asked { name: FRAME, expression: FRAME, as_text: false });
        }
        match asking.all.len() > MOST_VALUES {
            true => Err(PlaceError::TooManyValues { most: MOST_VALUES }),
            false => Ok(asking),
        }
    }

    /// Index of the value that is meant: a name, or an expression.
    fn find(&self, text: &str, as_text: bool) -> Option<usize> {
        let plain = split(text);
        let as_text = as_text || plain.as_text;
        let is_it = |asked: &Asked<'_>| {
            let is_named = asked.name == text || asked.expression == plain.expression;
            is_named && (asked.as_text || !as_text)
        };
        self.all.iter().position(is_it)
    }

    /// Reads all values at one place.
    ///
    /// # Errors
    ///
    /// Errors of `read`.
    pub fn read(
        &self,
        mut read: impl FnMut(&Asked<'a>) -> Result<(ReadValue, Shape), PlaceError>,
    ) -> Result<(Vec<ReadValue>, Vec<NamedValue>), PlaceError> {
        let (mut reads, mut named) = (Vec::new(), Vec::new());
        for asked in &self.all {
            let (value, shape) = match special(asked.expression) {
                Some(special) => special,
                None => read(asked)?,
            };
            reads.push(value);
            named.push(NamedValue { name: asked.name.to_owned(), shape });
        }
        Ok((reads, named))
    }

    /// Puts together what was read at all places. The values have the same shapes at each.
    ///
    /// # Errors
    ///
    /// If the filter compares a value with something of another kind.
    pub fn resolve(
        &self,
        reads: Vec<Vec<ReadValue>>,
        named: Vec<NamedValue>,
    ) -> Result<Resolved, PlaceError> {
        let filter = match self.wanted.filter {
            Some(condition) => {
                let index = |expression: &str, as_text| self.find(expression, as_text);
                checks(condition, &index, &named)?
            }
            None => Vec::new(),
        };
        let index = |text: Option<&str>| text.and_then(|text| self.find(text, false));
        let sum = index(self.wanted.sum);
        if let Some(of) = sum.and_then(|sum| named.get(sum)) {
            let why = match of.shape {
                Shape::Text { .. } => Some("it is a text"),
                Shape::Float { .. } => {
                    Some("floating-point numbers are not added up in the kernel")
                }
                _ => None,
            };
            if let Some(why) = why {
                return Err(PlaceError::Value { expression: of.name.clone(), why });
            }
        }
        Ok(Resolved {
            values: EventValues { reads, shown: self.wanted.shown.len(), filter },
            named,
            by: index(self.wanted.by),
            sum,
            frame: index(self.wanted.key.or(self.wanted.frame.then_some(FRAME))),
        })
    }
}

/// Splits an event's text into its name and its values at blanks, but for those in parentheses: types have them in casts.
pub(crate) fn words(text: &str) -> Vec<&str> {
    let (mut words, mut depth, mut start) = (Vec::new(), 0usize, 0);
    for (at, letter) in text.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ if letter.is_ascii_whitespace() && depth == 0 => {
                words.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    words.push(&text[start..]);
    words.retain(|word| !word.is_empty());
    words
}

/// Splits `name=expression:string`.
fn split(text: &str) -> Asked<'_> {
    let (name, expression) =
        text.split_once('=').map_or((None, text), |(name, of)| (Some(name), of));
    let plain = expression.strip_suffix(":string");
    let alone = plain.unwrap_or(expression);
    Asked { name: name.unwrap_or(alone), expression: alone, as_text: plain.is_some() }
}

/// Values that all events have.
fn special(expression: &str) -> Option<(ReadValue, Shape)> {
    let number = Shape::Number { signed: false, bits: (0, 32) };
    match expression {
        "$comm" => Some((ReadValue::ThreadName, Shape::Text { length: None })),
        "$pid" => Some((ReadValue::Process, number)),
        "$tid" => Some((ReadValue::Thread, number)),
        "$cpu" => Some((ReadValue::Cpu, number)),
        _ => None,
    }
}

/// The bits of a number of some shape, and the shape without what was in front of them.
pub(crate) fn bits_of(shape: Shape) -> (Bits, Shape) {
    let bits = |first, count, signed| Bits { first, count, signed };
    match shape {
        Shape::Number { signed, bits: (first, count) } => {
            (bits(first, count, signed), Shape::Number { signed, bits: (0, count) })
        }
        Shape::Names { signed, bits: (first, count), names } => {
            (bits(first, count, signed), Shape::Names { signed, bits: (0, count), names })
        }
        Shape::Truth | Shape::Character => (bits(0, 8, false), shape),
        Shape::Float { size } => (bits(0, size.min(8) * 8, false), shape),
        Shape::Address | Shape::Text { .. } => (Bits::ALL, shape),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_are_between_values() {
        let check = |text, expect: &[&str]| assert_eq!(words(text), expect, "{text}");
        check("a:b", &["a:b"]);
        check(" a:b  x y=z ", &["a:b", "x", "y=z"]);
        check("f n=((struct req *)p)->len m", &["f", "n=((struct req *)p)->len", "m"]);
        check("f (a b", &["f", "(a b"]);
        check("f ) a", &["f", ")", "a"]);
        check("", &[]);
    }

    #[test]
    fn values_are_read_once() {
        let condition = Condition::parse("len > 1 && name ~ 'a*' && other == 2").expect("valid");
        let wanted = Wanted {
            shown: &["len=req->len", "name=req->name:string"],
            filter: Some(&condition),
            by: Some("req->name"),
            sum: Some("len"),
            ..Wanted::default()
        };
        let asking = Asking::new(wanted).expect("few values");
        let all: Vec<_> =
            asking.all.iter().map(|of| (of.name, of.expression, of.as_text)).collect();
        assert_eq!(
            all,
            [("len", "req->len", false), ("name", "req->name", true), ("other", "other", false)]
        );
        let number = |_: &Asked<'_>| {
            let number = pyrograph_event::values::ReadNumber {
                base: pyrograph_event::values::ReadBase::Register(0),
                steps: Vec::new(),
            };
            Ok((ReadValue::Number(number, Bits::ALL), Shape::Address))
        };
        let (reads, named) = asking.read(number).expect("all are read");
        // `name` is no text here, and is compared with one.
        assert!(asking.resolve(vec![reads], named).is_err());
        let many: Vec<String> = (0..9).map(|number| format!("v{number}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(Asking::new(Wanted { shown: &many, ..Wanted::default() }).is_err());
    }
}
