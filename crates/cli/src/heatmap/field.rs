//! A field of events over time, and messages about it.

use anyhow::{anyhow, bail};
use pyrograph_analyze::{EventName, FieldPoints, Filter, HeatMapOptions};
use pyrograph_format::{Head, events};

use crate::say::say;
use crate::units::counted;

/// Reads the values of a field in all inputs.
pub fn read<'a>(
    field: &'a str,
    names: &'a [EventName],
    filter: &'a Filter,
    heads: Vec<Head>,
) -> anyhow::Result<FieldPoints<'a>> {
    let mut points = FieldPoints::new(field, names, filter);
    for head in heads {
        let warnings = events(head, &mut |event| points.add(event))
            .map_err(|error| anyhow!("failed to {error}"))?;
        for (_, line) in warnings.lines() {
            say!("{line}");
        }
    }
    if points.values.is_empty() {
        if points.unwanted > 0 {
            let values = counted(points.unwanted, "value");
            bail!("nothing is left to draw: the filters leave none of {values} of {field}");
        }
        bail!(
            "no event has a time and a number in the field {field}; the input has {}",
            others(&points)
        );
    }
    if points.without > 0 {
        let events = counted(points.without, "event");
        say!("{events} not drawn, for want of a number in the field {field}");
    }
    if points.unwanted > 0 {
        say!("{} left out by filters", counted(points.unwanted, "value"));
    }
    Ok(points)
}

/// The events that there are, with their fields: `sched:sched_switch (prev_comm, prev_pid)`.
fn others(points: &FieldPoints<'_>) -> String {
    let of = |(name, fields): (&String, &Vec<String>)| match &fields[..] {
        [] => name.clone(),
        fields => format!("{name} ({})", fields.join(", ")),
    };
    match points.others.is_empty() {
        true => "no events".to_owned(),
        false => points.others.iter().map(of).collect::<Vec<_>>().join(", "),
    }
}

/// Sets what the options leave open for addresses: rows from the lowest one on, whose height is a power of two.
pub fn set_rows_of_addresses(options: &mut HeatMapOptions, values: &[f64]) {
    /// Maximum number of rows.
    const ROWS: f64 = 50.0;
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let least = ((high - low) / ROWS).max(1.0);
    if !least.is_finite() {
        return;
    }
    let step = options.row_step.unwrap_or_else(|| least.log2().ceil().exp2());
    if options.rows.is_none() {
        options.row_step = Some(step);
    }
    options.low.get_or_insert((low / step).floor() * step);
}
