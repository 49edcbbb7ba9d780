//! Lists of available events, as text and JSON.

use std::io::{self, Write};

use serde_json::{Value, json};

/// An event in the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedEvent {
    /// Name of the event.
    pub name: String,
    /// Alternative names.
    pub aliases: Vec<String>,
    /// Class of the event, used as a heading.
    pub class: String,
    /// One-line description.
    pub about: String,
    /// Fields with their types.
    pub fields: Vec<String>,
    /// Reason why the event is not counted on this system; `None` if it is.
    pub refused: Option<String>,
}

/// Maximum width of the name column; longer names do not shift the descriptions of other events.
const WIDEST: usize = 48;

/// Writes events, with a heading for each class. Events that are not counted are marked, and their reasons are listed
/// below their class.
///
/// # Errors
///
/// Fails if writing to `out` fails.
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

/// Converts events to JSON.
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
