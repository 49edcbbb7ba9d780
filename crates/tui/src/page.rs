//! Header lines above a view: the recording, and the state of the view.

use pyrograph_analyze::origin;
use pyrograph_render::{counted, grouped, percent, value_text};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::app::Status;
use crate::look::Look;
use crate::shown::Shown;
use crate::text::fit;

/// Draws the description of the recording, and what is missing from it.
pub fn draw_head(status: &Status, shown: &Shown, look: Look, area: Rect, buffer: &mut Buffer) {
    let mut x = area.left();
    let room = |x: u16| usize::from(area.right().saturating_sub(x));
    let alarms = [
        status.paused.then(|| "PAUSED".to_owned()),
        status.ended.as_ref().map(|why| format!("ENDED: {why}")),
        (status.lost > 0).then(|| format!("{} LOST", grouped(status.lost))),
    ];
    for alarm in alarms.into_iter().flatten() {
        let text = format!(" {} ", fit(&alarm, room(x).saturating_sub(2)));
        (x, _) = buffer.set_stringn(x, area.y, text, room(x), look.alarm());
    }
    let mut parts = vec![status.subject.clone()];
    parts.extend(status.span.clone());
    let column = shown.column();
    // For a file, the span contains the description.
    if let Some((samples, origin)) = status.samples.zip(origin(shown.profile(), column)) {
        parts.push(counted(samples, &status.noun));
        if status.lost == 0 {
            parts.push("0 lost".to_owned());
        }
        parts.push(format!("{} not whole", percent(origin.cut, origin.total)));
        parts.extend(status.engine.clone());
        parts.push(value_text(&origin.value_type, origin.total));
    }
    let text = fit(&parts.join(" · "), room(x));
    buffer.set_stringn(x, area.y, text, room(x), look.strong());
}
