//! Value types: the meanings of columns of values.

use std::str::FromStr;

/// Type of one column of values.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ValueType {
    /// Name: `cpu`, `samples`, `off-cpu`, `alloc` …
    pub name: String,
    /// Unit: `ns`, `count`, `bytes` …
    pub unit: String,
    /// Number of decimals. Values are whole multiples of 10^-`decimals` units, so that decimal numbers in text keep their
    /// exact value. 0 for nearly all sources.
    pub decimals: u8,
}

/// The kind of quantity that a unit measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitKind {
    /// Time, in the given unit.
    Time(TimeUnit),
    /// Memory or data, in bytes.
    Bytes,
    /// Number of the things that the value type's name says.
    Count,
    /// Not known: the source does not have a unit.
    Unknown,
    /// Another unit, such as `cycles` or `percent`.
    Other,
}

/// A unit of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum TimeUnit {
    Nanoseconds,
    Microseconds,
    Milliseconds,
    Seconds,
}

/// The quantity that a value type's name means, as far as views depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// Number of samples.
    Samples,
    /// Time in which threads did not run. Stacks end in the reason; the time of a sample is the end of its wait.
    OffCpu,
    /// Elapsed time of threads, running or not.
    Wall,
    /// Time in which threads did not run, by the stack that woke them.
    Wakeup,
    /// Time in which threads did not run, by the stack that waited, followed by the stack that woke it.
    OffWake,
    /// Input and output: files, block devices, sockets.
    Io,
    /// Allocations and page faults.
    Memory,
    /// Time spent waiting for locks.
    Locks,
    /// Number of objects in a heap, estimated from samples.
    Objects,
    /// The first column of a comparison.
    Before,
    /// The second column of a comparison.
    After,
    /// A value that the source does not name.
    Unnamed,
    /// Any other quantity, such as `cpu` or the name of an event.
    Other,
}

/// Parses a unit with [`TimeUnit::named`].
impl FromStr for TimeUnit {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::named(text).ok_or("use s, ms, us or ns")
    }
}

impl TimeUnit {
    /// Units with their short name, long name, and length in nanoseconds.
    const ALL: [(Self, &str, &str, u64); 4] = [
        (Self::Nanoseconds, "ns", "nanoseconds", 1),
        (Self::Microseconds, "us", "microseconds", 1_000),
        (Self::Milliseconds, "ms", "milliseconds", 1_000_000),
        (Self::Seconds, "s", "seconds", 1_000_000_000),
    ];

    /// Returns the unit with this name, in any of the usual spellings.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "ns" | "nsec" | "nsecs" | "nanoseconds" => Self::Nanoseconds,
            "us" | "usec" | "usecs" | "µs" | "μs" | "microseconds" => Self::Microseconds,
            "ms" | "msec" | "msecs" | "milliseconds" => Self::Milliseconds,
            "s" | "sec" | "secs" | "seconds" => Self::Seconds,
            _ => return None,
        })
    }

    /// Short form of a unit's name, for value types: `us` for `microseconds`. Units other than times are returned
    /// unchanged.
    pub fn short_name(unit: &str) -> &str {
        Self::named(unit).map_or(unit, |unit| unit.short())
    }

    /// Long form of a unit's name, for pprof, speedscope and others: `microseconds` for `us`. Units other than times are
    /// returned unchanged.
    pub fn long_name(unit: &str) -> &str {
        Self::named(unit).map_or(unit, |unit| unit.long())
    }

    /// Short name, such as `us`.
    pub fn short(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    /// Long name, such as `microseconds`.
    pub fn long(self) -> &'static str {
        Self::ALL[self as usize].2
    }

    /// Length of the unit in nanoseconds.
    pub fn nanoseconds(self) -> u64 {
        Self::ALL[self as usize].3
    }
}

impl UnitKind {
    /// Returns the kind of quantity that a unit measures.
    pub fn of_unit(unit: &str) -> Self {
        match unit {
            "count" => Self::Count,
            "bytes" | "B" => Self::Bytes,
            "" => Self::Unknown,
            unit => TimeUnit::named(unit).map_or(Self::Other, Self::Time),
        }
    }

    /// Returns the unit of time, if the kind is a time.
    pub fn time_unit(self) -> Option<TimeUnit> {
        match self {
            Self::Time(unit) => Some(unit),
            _ => None,
        }
    }

    /// Returns true for numbers of things, also if the unit is not known.
    pub fn is_count(self) -> bool {
        matches!(self, Self::Count | Self::Unknown)
    }
}

impl ValueType {
    /// Creates a value type with this name and unit, and without decimals.
    pub fn new(name: &str, unit: &str) -> Self {
        Self { name: name.to_owned(), unit: unit.to_owned(), decimals: 0 }
    }

    /// Values of a source that does not say what they count, such as folded text.
    pub fn unnamed() -> Self {
        Self::new("value", "")
    }

    /// Number of samples.
    pub fn samples() -> Self {
        Self::new("samples", "count")
    }

    /// Value type for a unit as a user writes it: `ms`, `bytes`, `samples`, or what is counted: `calls`. `None` if it is
    /// empty.
    pub fn of_unit(unit: &str) -> Option<Self> {
        Some(match UnitKind::of_unit(unit) {
            UnitKind::Unknown => return None,
            UnitKind::Time(unit) => Self::new("time", unit.short()),
            UnitKind::Bytes => Self::new("size", "bytes"),
            UnitKind::Count => Self::samples(),
            UnitKind::Other => Self::new(unit, "count"),
        })
    }

    /// Returns the value types of the two columns of a comparison of such values.
    pub fn before_and_after(&self) -> [Self; 2] {
        ["before", "after"].map(|name| Self { name: name.to_owned(), ..self.clone() })
    }

    /// Kind of quantity that the unit measures.
    pub fn unit_kind(&self) -> UnitKind {
        UnitKind::of_unit(&self.unit)
    }

    /// Quantity that the name means.
    pub fn quantity(&self) -> Quantity {
        match self.name.as_str() {
            "samples" => Quantity::Samples,
            "off-cpu" => Quantity::OffCpu,
            "wall" => Quantity::Wall,
            "wakeup" => Quantity::Wakeup,
            "off-wake" => Quantity::OffWake,
            "file-io" | "block-io" | "net" => Quantity::Io,
            "alloc" | "live" | "page-faults" => Quantity::Memory,
            "locks" => Quantity::Locks,
            "before" => Quantity::Before,
            "after" => Quantity::After,
            "value" => Quantity::Unnamed,
            name if name.contains("objects") => Quantity::Objects,
            _ => Quantity::Other,
        }
    }

    /// Returns true if it is not known what the values count.
    pub fn is_unnamed(&self) -> bool {
        use Quantity::{After, Before, Unnamed};

        self.unit_kind() == UnitKind::Unknown && matches!(self.quantity(), Unnamed | Before | After)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_of_time_have_two_names() {
        for (unit, short, long, nanoseconds) in TimeUnit::ALL {
            assert_eq!((unit.short(), unit.long(), unit.nanoseconds()), (short, long, nanoseconds));
            for name in [short, long] {
                assert_eq!(UnitKind::of_unit(name).time_unit(), Some(unit), "{name}");
            }
        }
        assert_eq!(UnitKind::of_unit("min"), UnitKind::Other);
    }

    #[test]
    fn what_has_neither_name_nor_unit_is_unnamed() {
        assert!(ValueType::unnamed().is_unnamed());
        let [before, after] = ValueType::unnamed().before_and_after();
        assert!(before.is_unnamed() && after.is_unnamed());
        for (name, unit) in [("value", "count"), ("calls", ""), ("value", "ns")] {
            assert!(!ValueType::new(name, unit).is_unnamed(), "{name} {unit}");
        }
    }
}
