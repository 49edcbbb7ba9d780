//! Events to count, by name.

use pyrograph_record::Event;

use crate::error::Error;
use crate::matching;
use crate::places;

/// Parses events to count: a list as [`Event::parse_list`] takes it, whose parts may also be places in programs:
/// `uprobe:FILE:FUNCTION`, `uprobe:FILE:FUNCTION:LINE`, `uretprobe:FILE:FUNCTION`, `usdt:FILE:PROVIDER:NAME`. The events
/// of a group are counted together.
///
/// # Errors
///
/// If there is no such event, file, function, line or probe.
pub fn counted_events(text: &str) -> Result<Vec<Vec<Event>>, Error> {
    let mut groups = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let end = next_place(rest).unwrap_or(rest.len());
        let part = rest[..end].trim_end_matches(',');
        // Names of functions may contain commas, so the longest part that is a place is taken.
        let ends = || std::iter::once(part.len()).chain(part.rmatch_indices(',').map(|(at, _)| at));
        let mut error = None;
        let matching = ends().find_map(|end| match matching::expand(&part[..end])? {
            Ok(found) => Some((end, found)),
            Err(reason) => {
                error = Some(reason);
                None
            }
        });
        if let Some((taken, found)) = matching {
            groups.extend(found.into_iter().map(|of| vec![Event::at_place(&of.name, of.trigger)]));
            groups.extend(Event::parse_list(part[taken..].trim_start_matches(','))?);
            rest = &rest[end..];
            continue;
        }
        if let Some(reason) = error {
            return Err(reason.into());
        }
        let place = ends().find_map(|end| match places::named(&part[..end])? {
            Ok(place) => Some((end, Event::at_place(&part[..end], place))),
            Err(reason) => {
                error = Some(reason);
                None
            }
        });
        match (place, error) {
            (Some((taken, event)), _) => {
                groups.push(vec![event]);
                groups.extend(Event::parse_list(part[taken..].trim_start_matches(','))?);
            }
            (None, Some(reason)) => return Err(reason.into()),
            (None, None) => groups.extend(Event::parse_list(part)?),
        }
        rest = &rest[end..];
    }
    Ok(groups)
}

/// Offset of the next place in a list, behind its first part.
fn next_place(list: &str) -> Option<usize> {
    const BEGINS: [&str; 7] =
        [",uprobe:", ",uretprobe:", ",usdt:", ",kprobe:", ",kretprobe:", ",fentry:", ",fexit:"];
    BEGINS.iter().filter_map(|begin| list.find(begin)).min().map(|at| at + 1)
}
