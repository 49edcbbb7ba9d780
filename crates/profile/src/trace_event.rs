//! Single events with their fields.

use std::borrow::Cow;
use std::fmt;

/// One event, as it happened.
#[derive(Clone, Debug)]
pub struct TraceEvent<'a> {
    /// Its name as it was asked for: `block:block_rq_issue`, `cpu-clock`.
    pub name: &'a str,
    /// Nanoseconds on the recording's clock.
    pub time: Option<u64>,
    /// The CPU that it happened on.
    pub cpu: Option<u32>,
    /// The process that ran there; 0 is the idle task.
    pub pid: Option<i32>,
    /// The thread that ran there; 0 is the idle task.
    pub tid: Option<i32>,
    /// The thread's name; empty if it is not known.
    pub comm: &'a str,
    /// Fields of the event, in its own order; empty for what is no tracepoint.
    pub fields: &'a [TraceField<'a>],
}

impl<'a> TraceEvent<'a> {
    /// The value of the field with this name.
    pub fn field(&self, name: &str) -> Option<&FieldValue<'a>> {
        self.fields.iter().find(|field| field.name == name).map(|field| &field.value)
    }
}

/// A field of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceField<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its value.
    pub value: FieldValue<'a>,
}

/// The value of a field. Its text ([`Display`](fmt::Display)) is how `perf script` shows it. Of a
/// text input nearly all values are [`Text`](Self::Text).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldValue<'a> {
    /// A signed number.
    Signed(i64),
    /// An unsigned number.
    Unsigned(u64),
    /// A pointer or the address of an instruction; its text is hexadecimal.
    Address(u64),
    /// A device, major and minor number: `8,0`.
    Device(u32, u32),
    /// Text.
    Text(Cow<'a, str>),
    /// Bytes that are no text; their text is hexadecimal.
    Bytes(&'a [u8]),
    /// Several; their text has commas between them.
    List(Vec<FieldValue<'a>>),
}

impl FieldValue<'_> {
    /// The number that it is, or that its text shows, decimal or with `0x` before it.
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Self::Signed(number) => Some(*number),
            Self::Unsigned(number) | Self::Address(number) => i64::try_from(*number).ok(),
            Self::Text(text) if !text.starts_with("0x") => text.parse().ok(),
            _ => self.as_u64().and_then(|number| i64::try_from(number).ok()),
        }
    }

    /// The number that it is, or that its text shows, decimal or with `0x` before it. Negative ones
    /// are none.
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
