//! Value types: the meaning of a column of values.

use std::str::FromStr;

/// Type of one column of values.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ValueType {
    /// Name: `cpu`, `samples`, `off-cpu`, `alloc` …
    pub name: String,
    /// In which unit: `ns`, `count`, `bytes` …
    pub unit: String,
    /// Values are whole numbers of 10^-`decimals` units, so that text with decimal counts keeps
    /// its exact value. 0 for nearly all sources.
    pub decimals: u8,
}

/// The kind of quantity that a unit measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitKind {
    /// Time, in this unit.
    Time(TimeUnit),
    /// Memory or data, in bytes.
    Bytes,
    /// Things that the value type names.
    Count,
    /// The source does not say.
    Unknown,
    /// Another unit, as `cycles` or `percent`.
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

/// The quantity that a value type names, as far as views depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// Samples.
    Samples,
    /// Time in which threads did not run, of stacks that end in the reason; a sample is at the end of its time.
    OffCpu,
    /// Time in which threads ran or did not run.
    Wall,
    /// Time in which threads did not run, by the stack that ended it.
    Wakeup,
    /// The same, below the stack that waited.
    OffWake,
    /// Reading and writing: files, block devices, sockets.
    Io,
    /// Allocations and page faults.
    Memory,
    /// Waits for locks.
    Locks,
    /// Objects of a heap, which are estimated from samples.
    Objects,
    /// The first column of a comparison.
    Before,
    /// The second column of a comparison.
    After,
    /// The value of a source that does not name it.
    Unnamed,
    /// Any other, as `cpu` or the name of an event.
    Other,
}

/// As [`TimeUnit::named`].
impl FromStr for TimeUnit {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::named(text).ok_or("use s, ms, us or ns")
    }
}

impl TimeUnit {
    /// Each unit, its short and its long name, and how many nanoseconds it is.
    const ALL: [(Self, &str, &str, u64); 4] = [
        (Self::Nanoseconds, "ns", "nanoseconds", 1),
        (Self::Microseconds, "us", "microseconds", 1_000),
        (Self::Milliseconds, "ms", "milliseconds", 1_000_000),
        (Self::Seconds, "s", "seconds", 1_000_000_000),
    ];

    /// The unit of this name, in any of the usual spellings.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "ns" | "nsec" | "nsecs" | "nanoseconds" => Self::Nanoseconds,
            "us" | "usec" | "usecs" | "µs" | "μs" | "microseconds" => Self::Microseconds,
            "ms" | "msec" | "msecs" | "milliseconds" => Self::Milliseconds,
            "s" | "sec" | "secs" | "seconds" => Self::Seconds,
            _ => return None,
        })
    }

    /// A unit's name in value types: that of a time is the short one.
    pub fn short_name(unit: &str) -> &str {
        Self::named(unit).map_or(unit, |unit| unit.short())
    }

    /// A unit's name in pprof, speedscope and others: that of a time is the long one.
    pub fn long_name(unit: &str) -> &str {
        Self::named(unit).map_or(unit, |unit| unit.long())
    }

    /// `us`.
    pub fn short(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    /// `microseconds`.
    pub fn long(self) -> &'static str {
        Self::ALL[self as usize].2
    }

    /// Number of nanoseconds it is.
    pub fn nanoseconds(self) -> u64 {
        Self::ALL[self as usize].3
    }
}

impl UnitKind {
    /// The measure of a unit.
    pub fn of_unit(unit: &str) -> Self {
        match unit {
            "count" => Self::Count,
            "bytes" | "B" => Self::Bytes,
            "" => Self::Unknown,
            unit => TimeUnit::named(unit).map_or(Self::Other, Self::Time),
        }
    }

    /// The unit of a time.
    pub fn time_unit(self) -> Option<TimeUnit> {
        match self {
            Self::Time(unit) => Some(unit),
            _ => None,
        }
    }

    /// True of numbers of things, named or not.
    pub fn is_count(self) -> bool {
        matches!(self, Self::Count | Self::Unknown)
    }
}

impl ValueType {
    /// Any name and unit, whole numbers.
    pub fn new(name: &str, unit: &str) -> Self {
        Self { name: name.to_owned(), unit: unit.to_owned(), decimals: 0 }
    }

    /// Values of an input that does not say what they count, as folded text.
    pub fn unnamed() -> Self {
        Self::new("value", "")
    }

    /// Counted samples.
    pub fn samples() -> Self {
        Self::new("samples", "count")
    }

    /// Values of a unit, as a user names it: `ms`, `bytes`, `samples`, or what is counted: `calls`. `None` if it is empty.
    pub fn of_unit(unit: &str) -> Option<Self> {
        Some(match UnitKind::of_unit(unit) {
            UnitKind::Unknown => return None,
            UnitKind::Time(unit) => Self::new("time", unit.short()),
            UnitKind::Bytes => Self::new("size", "bytes"),
            UnitKind::Count => Self::samples(),
            UnitKind::Other => Self::new(unit, "count"),
        })
    }

    /// Both columns of a comparison of values like these.
    pub fn before_and_after(&self) -> [Self; 2] {
        ["before", "after"].map(|name| Self { name: name.to_owned(), ..self.clone() })
    }

    /// The kind of quantity that its unit measures.
    pub fn unit_kind(&self) -> UnitKind {
        UnitKind::of_unit(&self.unit)
    }

    /// The quantity that it names.
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

    /// True if it is not known what the values count.
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
