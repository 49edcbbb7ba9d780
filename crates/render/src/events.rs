//! Lists of events, as text and JSON.

use std::io::{self, Write};

use serde_json::{Value, json};

/// An event that can be asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedEvent {
    /// Its name.
    pub name: String,
    /// Other names of it.
    pub aliases: Vec<String>,
    /// Its kind, which is a heading.
    pub class: String,
    /// Description in one line.
    pub about: String,
    /// Fields with their types.
    pub fields: Vec<String>,
    /// Why it is not counted here; `None` if it is.
    pub refused: Option<String>,
}

/// Names longer than this do not push what they count further to the right.
const WIDEST: usize = 48;

/// Writes events under a heading for each kind. What is not counted has a mark, and below its kind there is a line for
/// each reason.
///
/// # Errors
///
/// Those of `out`.
pub fn events_text(events: &[ListedEvent], fields: bool, out: &mut dyn Write) -> io::Result<()> {
    for (number, group) in events.chunk_by(|a, b| a.class == b.class).enumerate() {
        let Some(first) = group.first() else { continue };
        if number > 0 {
            writeln!(out)?;
        }
        writeln!(out, "{}:", first.class)?;
        let names = |event: &ListedEvent| {
            let names = std::iter::once(&event.name).chain(&event.aliases);
            names.map(String::as_str).collect::<Vec<_>>().join(", ")
        };
        let width = group.iter().map(|event| names(event).len()).max().unwrap_or(0).min(WIDEST);
        let mut reasons: Vec<&str> = Vec::new();
        for event in group {
            let names = names(event);
            let mark = match &event.refused {
                Some(reason) => {
                    if !reasons.contains(&&reason[..]) {
                        reasons.push(reason);
                    }
                    '-'
                }
                None => ' ',
            };
            writeln!(out, "{}", format!("{mark} {names:<width$}  {}", event.about).trim_end())?;
            if fields {
                event.fields.iter().try_for_each(|field| writeln!(out, "      {field}"))?;
            }
        }
        for reason in reasons {
            writeln!(out, "  (-: not counted: {reason})")?;
        }
    }
    Ok(())
}

/// Events as JSON.
pub fn events_json(events: &[ListedEvent]) -> Value {
    let one = |event: &ListedEvent| {
        json!({
            "name": event.name,
            "aliases": event.aliases,
            "class": event.class,
            "about": event.about,
            "fields": event.fields,
            "is_counted": event.refused.is_none(),
            "reason": event.refused,
        })
    };
    Value::Array(events.iter().map(one).collect())
}
