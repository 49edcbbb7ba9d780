//! What stands in the footer of a segment, beside Parquet's own: JSON under a key of its own.

use pyrograph_profile::{About, Profile, ValueType};
use serde::{Deserialize, Serialize};

use crate::error::SegmentError;

/// Key of this text among those of the footer.
pub const KEY: &str = "pyrograph";
/// Key of the source and instructions that a page had: the JSON of each page.
pub const CODE_KEY: &str = "pyrograph.code";
/// Version of the format.
const VERSION: u32 = 1;

/// The largest segment that is read, in bytes; also what its columns may take without compression.
pub const LARGEST_SEGMENT: u64 = 16 << 30;

/// What is known of a segment as a whole.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Footer {
    /// Version of the format.
    pub version: u32,
    /// What all times in the file are added to, in nanoseconds of the recording's clock.
    pub first: u64,
    /// Start of the recording, in nanoseconds since 1970-01-01 UTC.
    pub start: Option<u64>,
    /// Its duration in nanoseconds.
    pub duration: Option<u64>,
    /// Name of the machine.
    pub host: Option<String>,
    /// True if the owners of samples have machines of their own; else the column of these has the one machine.
    pub hosts: bool,
    /// The recorded command, or the names of the recorded processes.
    pub command: Option<String>,
    /// Sampling period: name, unit and decimals of the value, and its length.
    pub period: Option<(Value, u64)>,
    /// Number of samples that were lost.
    pub lost: u64,
    /// True if rows are sums of several samples.
    pub sums: bool,
    /// Comments of the author or the tool.
    pub comments: Vec<String>,
    /// The columns of values of the profile.
    pub columns: Vec<Column>,
    /// The column that is shown by default.
    pub shown: usize,
    /// True if stacks begin with the process or thread.
    pub rooted: bool,
    /// Sums before samples were filtered out on request.
    pub unfiltered: Vec<u64>,
    /// Ends of the row groups in the file, and their checksums.
    pub groups: Vec<(u64, String)>,
    /// What is known of a segment of a store, whose times are of the wall clock.
    pub kept: Option<Kept>,
}

/// What is known of a segment of a store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// Start of its time, in nanoseconds since 1970-01-01 UTC.
    pub from: u64,
    /// End of its time.
    pub to: u64,
    /// Names of the segments that were merged into it.
    #[serde(default)]
    pub merged: Vec<String>,
    /// Their times, from and to each; empty if none were merged.
    #[serde(default)]
    pub times: Vec<(u64, u64)>,
}

impl Kept {
    /// The times of which it has the samples, from and to each.
    pub fn times(&self) -> Vec<(u64, u64)> {
        if self.times.is_empty() { vec![(self.from, self.to)] } else { self.times.clone() }
    }
}

/// A type of values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Value {
    /// Its name.
    pub name: String,
    /// Its unit.
    pub unit: String,
    /// Number of decimals.
    pub decimals: u8,
}

/// A column of values of a profile, and where its values are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    /// What it is.
    #[serde(flatten)]
    pub value: Value,
    /// Index of the event whose rows have its values.
    pub event: usize,
    /// True if these are its counts, and not its values.
    pub counts: bool,
}

impl From<&ValueType> for Value {
    fn from(of: &ValueType) -> Self {
        Self { name: of.name.clone(), unit: of.unit.clone(), decimals: of.decimals }
    }
}

impl From<Value> for ValueType {
    fn from(Value { name, unit, decimals }: Value) -> Self {
        Self { name, unit, decimals }
    }
}

impl Footer {
    /// What is known of a profile, without its row groups.
    pub(crate) fn of(profile: &Profile) -> Self {
        let about = &profile.about;
        let first = profile.samples.iter().filter_map(|sample| sample.time).min();
        Self {
            version: VERSION,
            first: first.unwrap_or(0),
            start: about.start,
            duration: about.duration,
            host: about.host.clone(),
            hosts: profile.threads.iter().any(|thread| !thread.host.is_empty()),
            command: about.command.clone(),
            period: about.period.as_ref().map(|(of, length)| (of.into(), *length)),
            lost: about.lost,
            sums: about.sums,
            comments: about.comments.clone(),
            columns: columns(profile),
            shown: profile.shown,
            rooted: profile.rooted,
            unfiltered: profile.unfiltered.clone(),
            groups: Vec::new(),
            kept: None,
        }
    }

    pub(crate) fn parse(text: &str) -> Result<Self, SegmentError> {
        let version = serde_json::from_str::<Version>(text);
        let damaged = |error: serde_json::Error| SegmentError::Damaged(error.to_string());
        match version.map_err(damaged)?.version {
            VERSION => {
                let footer: Self = serde_json::from_str(text).map_err(damaged)?;
                let columns = footer.columns.len();
                if footer.columns.iter().any(|column| column.event >= columns) || columns == 0 {
                    let why = "its columns are of events that are not there".to_owned();
                    return Err(SegmentError::Damaged(why));
                }
                Ok(footer)
            }
            version => Err(SegmentError::Version(version)),
        }
    }

    pub(crate) fn about(&self) -> About {
        About {
            start: self.start,
            duration: self.duration,
            period: self.period.clone().map(|(of, length)| (of.into(), length)),
            host: self.host.clone(),
            lost: self.lost,
            sums: self.sums,
            command: self.command.clone(),
            comments: self.comments.clone(),
        }
    }

    /// The events, in the order of their indices.
    pub(crate) fn events(&self) -> Vec<Event> {
        let column = |event: usize, counts: bool| {
            self.columns.iter().position(|of| of.event == event && of.counts == counts)
        };
        let event = |number: usize| {
            let values = column(number, false)?;
            let value = self.columns.get(values)?.value.clone();
            Some(Event { value, counts: column(number, true), values })
        };
        (0..self.columns.len()).filter_map(event).collect()
    }
}

/// An event, whose rows have the values of one column or two.
pub struct Event {
    /// Name and unit of the event: those of its values.
    pub value: Value,
    /// Index of the column of its counts.
    pub counts: Option<usize>,
    /// Index of the column of its values.
    pub values: usize,
}

#[derive(Deserialize)]
struct Version {
    version: u32,
}

/// The columns of a profile: one that counts what is summed up in another is in the same rows.
fn columns(profile: &Profile) -> Vec<Column> {
    let types = &profile.value_types;
    let beside: Vec<Option<usize>> =
        (0..types.len()).map(|at| profile.numbers_beside(at)).collect();
    // Only one of several sums has the counts; the others are events without.
    let mut sums: Vec<Option<usize>> = vec![None; types.len()];
    for (sum, counts) in beside.iter().enumerate() {
        if let Some(of) = counts.filter(|counts| beside[*counts].is_none())
            && sums[of].is_none()
        {
            sums[of] = Some(sum);
        }
    }
    let events: Vec<usize> = (0..types.len()).filter(|at| sums[*at].is_none()).collect();
    let event_of = |at: usize| events.iter().position(|event| *event == at).unwrap_or(0);
    let column = |(at, of): (usize, &ValueType)| match sums[at] {
        Some(sum) => Column { value: of.into(), event: event_of(sum), counts: true },
        None => Column { value: of.into(), event: event_of(at), counts: false },
    };
    types.iter().enumerate().map(column).collect()
}
