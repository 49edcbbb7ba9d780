//! Single events with their fields.

use std::borrow::Cow;
use std::fmt;

/// One event.
#[derive(Clone, Debug)]
pub struct TraceEvent<'a> {
    /// Name of the event, as it was requested: `block:block_rq_issue`, `cpu-clock`.
    pub name: &'a str,
    /// Nanoseconds of the recording's clock.
    pub time: Option<u64>,
    /// The CPU on which it occurred.
    pub cpu: Option<u32>,
    /// The process that was running; 0 is the idle task.
    pub pid: Option<i32>,
    /// The thread that was running; 0 is the idle task.
    pub tid: Option<i32>,
    /// Name of the thread; empty if not known.
    pub comm: &'a str,
    /// Fields of the event, in their original order; empty if it is not a tracepoint.
    pub fields: &'a [TraceField<'a>],
}

impl<'a> TraceEvent<'a> {
    /// Returns the value of the field with this name.
    pub fn field(&self, name: &str) -> Option<&FieldValue<'a>> {
        self.fields.iter().find(|field| field.name == name).map(|field| &field.value)
    }
}

/// A field of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceField<'a> {
    /// Name of the field.
    pub name: &'a str,
    /// Value of the field.
    pub value: FieldValue<'a>,
}

/// Value of a field. [`Display`](fmt::Display) writes it in the form of `perf script`. Nearly all values from text inputs
/// are [`Text`](Self::Text).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldValue<'a> {
    /// A signed number.
    Signed(i64),
    /// An unsigned number.
    Unsigned(u64),
    /// A pointer or the address of an instruction; displayed in hexadecimal.
    Address(u64),
    /// Major and minor number of a device, displayed as `8,0`.
    Device(u32, u32),
    /// Text.
    Text(Cow<'a, str>),
    /// Bytes that are not text; displayed in hexadecimal.
    Bytes(&'a [u8]),
    /// Several values; displayed with commas between them.
    List(Vec<FieldValue<'a>>),
}

impl FieldValue<'_> {
    /// Converts the value to a number, also from text: decimal, or hexadecimal with the prefix `0x`. `None` if it is not
    /// a number or does not fit.
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Self::Signed(number) => Some(*number),
            Self::Unsigned(number) | Self::Address(number) => i64::try_from(*number).ok(),
            Self::Text(text) if !text.starts_with("0x") => text.parse().ok(),
            _ => self.as_u64().and_then(|number| i64::try_from(number).ok()),
        }
    }

    /// Converts the value to a number, also from text: decimal, or hexadecimal with the prefix `0x`. `None` if it is not
    /// a number or is negative.
    pub fn as_u64(&self) -> Option<u64> {
        match self {
            Self::Signed(number) => u64::try_from(*number).ok(),
            Self::Unsigned(number) | Self::Address(number) => Some(*number),
            Self::Text(text) => match text.strip_prefix("0x") {
                Some(digits) => u64::from_str_radix(digits, 16).ok(),
                None => text.parse().ok(),
            },
            _ => None,
        }
    }
}

impl fmt::Display for FieldValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Signed(number) => write!(f, "{number}"),
            Self::Unsigned(number) => write!(f, "{number}"),
            Self::Address(number) => write!(f, "{number:#x}"),
            Self::Device(major, minor) => write!(f, "{major},{minor}"),
            Self::Text(text) => f.write_str(text),
            Self::Bytes(bytes) => bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}")),
            Self::List(values) => values.iter().enumerate().try_for_each(|(at, value)| {
                if at > 0 {
                    f.write_str(",")?;
                }
                value.fmt(f)
            }),
        }
    }
}
