//! Values of events that programs in the kernel read, and filters and sums by them. Plain data.

/// Maximum number of values that are read of an event.
pub const MOST_VALUES: usize = 8;

/// Maximum number of steps of a number.
pub const MOST_STEPS: usize = 6;

/// Maximum number of steps of a filter.
pub const MOST_CHECKS: usize = 16;

/// Maximum number of bytes of a text that are read.
pub const MOST_TEXT: usize = 512;

/// The values of an event, and which events are wanted by them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventValues {
    /// For each place of the event, from where its values are read, at most [`MOST_VALUES`]; a tracepoint has one place.
    /// Empty for none.
    pub reads: Vec<Vec<ReadValue>>,
    /// Number of values, the first ones, that the event's data have; the others are for the filter alone.
    pub shown: usize,
    /// The filter: results of comparisons on a stack, of which the last one decides. At most [`MOST_CHECKS`] steps; empty
    /// for all events.
    pub filter: Vec<Check>,
}

/// A value that is read when an event happens. Its data are 8 bytes for a number; for a text the number of bytes that
/// were read and the number that there are, 4 bytes each, then the bytes, rounded up to 8. In front of all values is a word
/// with a bit for each that could not be read, and has no data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadValue {
    /// Some bits of a number.
    Number(ReadNumber, Bits),
    /// A text that ends with a zero byte, at an address.
    Text(ReadNumber, Memory),
    /// A text of the program at an address, and its length in bytes.
    TextOf(ReadNumber, ReadNumber),
    /// A text in the data of a tracepoint: the number holds its place in the lower 16 bits.
    TextInData(ReadNumber),
    /// Name of the thread.
    ThreadName,
    /// ID of the process.
    Process,
    /// ID of the thread.
    Thread,
    /// Number of the CPU.
    Cpu,
}

impl EventValues {
    /// Returns true if a value is read from registers as they were when the function was called that returns.
    pub fn need_call(&self) -> bool {
        let is_called = |number: &ReadNumber| matches!(number.base, ReadBase::Called(_));
        self.reads.iter().flatten().any(|value| match value {
            ReadValue::Number(number, _)
            | ReadValue::Text(number, _)
            | ReadValue::TextInData(number) => is_called(number),
            ReadValue::TextOf(number, length) => is_called(number) || is_called(length),
            ReadValue::ThreadName | ReadValue::Process | ReadValue::Thread | ReadValue::Cpu => {
                false
            }
        })
    }
}

impl ReadValue {
    /// Returns true for a text.
    pub fn is_text(&self) -> bool {
        matches!(self, Self::Text(..) | Self::TextOf(..) | Self::TextInData(_) | Self::ThreadName)
    }
}

/// Whose memory is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Memory {
    /// The program's.
    #[default]
    Program,
    /// The kernel's.
    Kernel,
}

/// Bits of a number that are its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bits {
    /// The first one.
    pub first: u8,
    /// Their number, 64 at most.
    pub count: u8,
    /// True if the last one is the sign.
    pub signed: bool,
}

impl Bits {
    /// All bits, without a sign.
    pub const ALL: Self = Self { first: 0, count: 64, signed: false };
}

/// A number that is read: the steps are applied to the base in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadNumber {
    /// The base.
    pub base: ReadBase,
    /// The steps, at most [`MOST_STEPS`].
    pub steps: Vec<ReadStep>,
}

/// The base of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadBase {
    /// A general register, or the instruction pointer, by its number in DWARF.
    Register(u16),
    /// The same, as it was when the function was called that returns.
    Called(u16),
    /// An address at this distance from the instruction.
    Distance(i64),
    /// A constant.
    Constant(u64),
    /// An address at this distance from the thread pointer.
    Thread(i64),
    /// Address of a tracepoint's data.
    Data,
}

/// A step of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadStep {
    /// A number that is added.
    pub add: i64,
    /// Number of bytes that are then read at this address; 0 for none.
    pub load: u8,
    /// Whose memory it is.
    pub memory: Memory,
}

/// A step of a filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Check {
    /// Compares a number.
    Number {
        /// Index of the value.
        value: usize,
        /// How it is compared.
        operator: Operator,
        /// The number that it is compared with.
        number: u64,
        /// True if both are signed.
        signed: bool,
    },
    /// Compares a text.
    Text {
        /// Index of the value.
        value: usize,
        /// The pattern.
        pattern: Box<Pattern>,
    },
    /// True if the last two results are.
    And,
    /// True if one of the last two results is.
    Or,
    /// True if the last result is not.
    Not,
}

/// How numbers are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// They are equal.
    Equal,
    /// The value is less.
    Less,
    /// The value is greater.
    Greater,
    /// At least one bit of the number is set in the value.
    Bits,
}

/// A pattern for texts as an automaton with at most 64 states, a bit each: those that a byte leads to from the states before,
/// moved by one, and those that stay whatever comes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// For each byte, the states that can be reached by it.
    pub by_byte: [u64; 256],
    /// States that stay.
    pub stays: u64,
    /// The state in which a text matches.
    pub end: u64,
}

impl Pattern {
    /// Makes a pattern. `*` stands for any text and `?` for any byte if these are `wild`, a backslash takes the meaning from
    /// what follows. `None` if it has more than 63 bytes.
    pub fn new(text: &str, wild: bool) -> Option<Self> {
        let mut pattern = Self { by_byte: [0; 256], stays: 0, end: 0 };
        let mut state = 0u32;
        let mut bytes = text.bytes();
        while let Some(byte) = bytes.next() {
            if wild && byte == b'*' {
                pattern.stays |= 1 << state;
                continue;
            }
            state += 1;
            if state > 63 {
                return None;
            }
            match byte {
                b'?' if wild => pattern.by_byte.iter_mut().for_each(|of| *of |= 1 << state),
                _ => {
                    let byte =
                        if wild && byte == b'\\' { bytes.next().unwrap_or(byte) } else { byte };
                    pattern.by_byte[usize::from(byte)] |= 1 << state;
                }
            }
        }
        pattern.end = 1 << state;
        Some(pattern)
    }

    /// Returns true if a text matches.
    pub fn matches(&self, text: &[u8]) -> bool {
        let step = |states: u64, byte: &u8| {
            states << 1 & self.by_byte[usize::from(*byte)] | states & self.stays
        };
        text.iter().fold(1, step) & self.end != 0
    }
}

/// How the values of events are added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// Index of the value by which sums are kept apart; `None` for the key by which counts are.
    pub by: Option<usize>,
    /// Index of the value that is added up; `None` counts events.
    pub value: Option<usize>,
    /// Ranges of values that are kept apart.
    pub ranges: Ranges,
    /// Index of the value that is the address of the frame (DWARF's CFA): the time of calls until they return is added up, in
    /// nanoseconds, in place of a value.
    pub frame: Option<usize>,
    /// The value of `frame` is a key that another event has, too, of any thread: the time until then is added up.
    pub keyed: bool,
}

/// Ranges of values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ranges {
    /// None are kept apart.
    #[default]
    None,
    /// Powers of two.
    Powers,
    /// Ranges of equal size.
    Equal {
        /// Where the first one begins.
        least: i64,
        /// Size of each.
        size: u64,
        /// Their number. What is below and above them has two ranges more.
        count: u32,
    },
}

impl Ranges {
    /// The first and the last value of a range, by its number as the programs in the kernel have it.
    pub fn bounds(self, range: u32) -> (i64, i64) {
        match self {
            Self::None => (i64::MIN, i64::MAX),
            Self::Powers => match range {
                0 => (0, 0),
                1..=63 => (1 << (range - 1), ((1u64 << range) - 1).cast_signed()),
                // The only one whose negation has no room.
                128.. => (i64::MIN, i64::MIN),
                64.. => {
                    let (first, last) =
                        (1i64 << (range - 65).min(62), (1u64 << (range - 64).min(63)) - 1);
                    (-last.cast_signed(), -first)
                }
            },
            Self::Equal { least, size, count } => {
                let begin = |number: u32| {
                    let bytes =
                        i64::try_from(u64::from(number).saturating_mul(size)).unwrap_or(i64::MAX);
                    least.saturating_add(bytes)
                };
                match range {
                    0 => (i64::MIN, least.saturating_sub(1)),
                    range if range > count => (begin(count), i64::MAX),
                    range => (begin(range - 1), begin(range).saturating_sub(1)),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_a_shell_does() {
        let check = |pattern: &str, yes: &[&str], no: &[&str]| {
            let pattern = Pattern::new(pattern, true).expect("it is short");
            for text in yes {
                assert!(pattern.matches(text.as_bytes()), "{text}");
            }
            for text in no {
                assert!(!pattern.matches(text.as_bytes()), "{text}");
            }
        };
        check("GET*", &["GET", "GET /"], &["GE", "aGET", ""]);
        check("*.so", &[".so", "libc.so", ".so.so"], &["libc.so.6", ""]);
        check("*a*b*", &["ab", "xxaxxbxx", "aab"], &["ba", "a", ""]);
        check("a?c", &["abc", "a?c"], &["ac", "abbc"]);
        check("", &[""], &["a"]);
        check("*", &["", "a", "abc"], &[]);
        check("a\\*", &["a*"], &["ab", "a"]);
        check("**a", &["a", "ba"], &["ab"]);
        let exact = Pattern::new("a*", false).expect("it is short");
        assert!(exact.matches(b"a*") && !exact.matches(b"ab"));
        assert_eq!(Pattern::new(&"a".repeat(64), true), None);
        assert!(Pattern::new(&"a".repeat(63), true).is_some_and(|of| of.matches(&[b'a'; 63])));
    }

    #[test]
    fn ranges_have_no_gaps() {
        let powers = Ranges::Powers;
        assert_eq!(powers.bounds(0), (0, 0));
        assert_eq!(powers.bounds(1), (1, 1));
        assert_eq!(powers.bounds(4), (8, 15));
        assert_eq!(powers.bounds(63), (1 << 62, i64::MAX));
        assert_eq!(powers.bounds(65), (-1, -1));
        assert_eq!(powers.bounds(67), (-7, -4));
        assert_eq!(powers.bounds(128), (i64::MIN, i64::MIN));
        for range in 1..63 {
            assert_eq!(powers.bounds(range).1 + 1, powers.bounds(range + 1).0);
            assert_eq!(powers.bounds(range + 64).0 - 1, powers.bounds(range + 65).1);
        }
        assert_eq!(powers.bounds(127).0 - 1, i64::MIN);
        let equal = Ranges::Equal { least: -10, size: 10, count: 3 };
        let all: Vec<_> = (0..5).map(|range| equal.bounds(range)).collect();
        assert_eq!(all, [(i64::MIN, -11), (-10, -1), (0, 9), (10, 19), (20, i64::MAX)]);
    }
}
