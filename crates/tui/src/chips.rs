//! Filters added in a view, in the syntax of the command line.

use pyrograph_analyze::{Filter, Pattern};

/// A filter that can be removed.
#[derive(Clone, Debug)]
pub struct Chip {
    kind: Kind,
    /// Text as on the command line.
    text: String,
}

#[derive(Clone, Debug)]
enum Kind {
    Focus(Pattern),
    Ignore(Pattern),
    Hide(Pattern),
    FromFrame(Pattern),
    SkipAfter(Pattern),
    Pid(i32),
    Tid(i32),
    Comm(String),
    FoldRecursion,
}

/// Known filters, for error messages.
const WORDS: &str =
    "focus, ignore, hide, from-frame, skip-after RE; pid, tid NUMBER; comm NAME; fold-recursion";

impl Chip {
    /// Parses a filter as on the command line, with or without its dashes: `--focus RE`, `tid 12`.
    ///
    /// # Errors
    ///
    /// Returns a message for the user if there is no such filter, or if it is incomplete.
    pub fn read(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let text = text.strip_prefix("--").unwrap_or(text);
        let (word, value) = text.split_once([' ', '=']).unwrap_or((text, ""));
        let value = value.trim();
        let is_alone = word == "fold-recursion";
        if is_alone != value.is_empty() {
            return Err(format!("--{word}: there are {WORDS}"));
        }
        let pattern = || value.parse().map_err(|error| format!("--{word} {value}: {error}"));
        let number = || value.parse().map_err(|_| format!("--{word} {value}: not a number"));
        let kind = match word {
            "focus" => Kind::Focus(pattern()?),
            "ignore" => Kind::Ignore(pattern()?),
            "hide" => Kind::Hide(pattern()?),
            "from-frame" => Kind::FromFrame(pattern()?),
            "skip-after" => Kind::SkipAfter(pattern()?),
            "pid" => Kind::Pid(number()?),
            "tid" => Kind::Tid(number()?),
            "comm" => Kind::Comm(value.to_owned()),
            "fold-recursion" => Kind::FoldRecursion,
            _ => return Err(format!("--{word}: there are {WORDS}")),
        };
        let equals = if matches!(kind, Kind::Pid(_) | Kind::Tid(_)) { '=' } else { ' ' };
        let text = match is_alone {
            true => format!("--{word}"),
            false => format!("--{word}{equals}{}", quoted(value)),
        };
        Ok(Self { kind, text })
    }

    /// Creates a filter by a function: `focus`, `ignore`, `hide` or `from-frame`, and its names.
    ///
    /// # Errors
    ///
    /// As [`Chip::read`].
    pub fn of_function(word: &str, names: &[String]) -> Result<Self, String> {
        Self::read(&format!("{word} {}", Pattern::exactly_one_of(names)))
    }

    /// Returns the text as on the command line.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Adds it to a filter.
    pub fn put_on(&self, filter: &mut Filter) {
        match &self.kind {
            Kind::Focus(pattern) => filter.focus.push(pattern.clone()),
            Kind::Ignore(pattern) => filter.ignore.push(pattern.clone()),
            Kind::Hide(pattern) => filter.hide.push(pattern.clone()),
            Kind::FromFrame(pattern) => filter.from_frame.push(pattern.clone()),
            Kind::SkipAfter(pattern) => filter.skip_after.push(pattern.clone()),
            Kind::Pid(pid) => filter.pids.push(*pid),
            Kind::Tid(tid) => filter.tids.push(*tid),
            Kind::Comm(name) => filter.comms.push(name.clone()),
            Kind::FoldRecursion => filter.fold_recursion = true,
        }
    }

    /// Combines several into one filter.
    pub fn filter(chips: &[Self]) -> Filter {
        let mut filter = Filter::default();
        chips.iter().for_each(|chip| chip.put_on(&mut filter));
        filter
    }
}

/// Quotes a text for a shell, if necessary.
fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:@,+".contains(c);
    match text.chars().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_read_as_the_command_line_has_them() {
        let text = |text: &str| Chip::read(text).map(|chip| chip.text().to_owned());
        assert_eq!(text("--focus parse").as_deref(), Ok("--focus parse"));
        assert_eq!(text("hide=^std::").as_deref(), Ok("--hide '^std::'"));
        assert_eq!(text("ignore it's").as_deref(), Ok(r"--ignore 'it'\''s'"));
        assert_eq!(text(" tid 12 ").as_deref(), Ok("--tid=12"));
        assert_eq!(text("fold-recursion").as_deref(), Ok("--fold-recursion"));
        for wrong in ["", "focus", "focus (", "pid x", "fold-recursion 3", "colour red"] {
            assert!(text(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_function_is_meant_exactly() {
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let tiers = Chip::of_function("hide", &names(&["JS:*f", "JS:~f"])).expect("a filter");
        assert_eq!(tiers.text(), r"--hide '^(JS:\*f|JS:\~f)$'");
        let chip = Chip::of_function("focus", &names(&["operator+(int)"])).expect("a filter");
        assert_eq!(chip.text(), r"--focus '^operator\+\(int\)$'");
        let filter = Chip::filter(&[chip, Chip::read("pid 3").expect("a filter")]);
        assert_eq!((filter.focus.len(), filter.pids), (1, vec![3]));
    }
}
