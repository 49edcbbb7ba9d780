//! The names of units: formats spell one and the same in several ways.

/// Ours and the long form, which pprof, speedscope and others write.
const UNITS: &[(&str, &str)] =
    &[("ns", "nanoseconds"), ("us", "microseconds"), ("ms", "milliseconds"), ("s", "seconds")];

/// The name that profiles have for a unit.
pub(crate) fn short_unit(unit: &str) -> &str {
    UNITS.iter().find(|(_, long)| *long == unit).map_or(unit, |(short, _)| short)
}

/// The long name of a unit.
pub(crate) fn long_unit(unit: &str) -> &str {
    UNITS.iter().find(|(short, _)| *short == unit).map_or(unit, |(_, long)| long)
}

/// How many nanoseconds a unit of time is.
pub(crate) fn nanoseconds_of(unit: &str) -> Option<u64> {
    match short_unit(unit) {
        "ns" => Some(1),
        "us" => Some(1_000),
        "ms" => Some(1_000_000),
        "s" => Some(1_000_000_000),
        _ => None,
    }
}
