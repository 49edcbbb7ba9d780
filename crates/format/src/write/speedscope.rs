//! Writer for speedscope's file format. [`read::speedscope`](crate::read) describes it.
//!
//! Each pair of value type and thread becomes a profile, because speedscope lets its users choose among profiles; its
//! name contains both. speedscope treats frames with equal names in different rows as different functions, so a function
//! has one row, without a line. Samples are sorted by time, if they have times; each is as wide as its value.

use std::io::{self, Write};

use hashbrown::HashMap;
use pyrograph_profile::{LabelOptions, Labels, Profile, Quantity, StringId, Thread, UnitKind};

use super::json::Json;
use crate::capabilities::Capabilities;
use crate::read::speedscope::SEPARATOR;
use crate::writer::{WriteOptions, Writer};

/// Writer for speedscope's file format.
pub(super) struct Speedscope;

impl Writer for Speedscope {
    fn name(&self) -> &'static str {
        "speedscope"
    }

    fn endings(&self) -> &'static [&'static str] {
        &["speedscope.json", "speedscope"]
    }

    fn opened_by(&self) -> &'static str {
        "speedscope.app"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            columns: true,
            decimals: true,
            thread_names: true,
            files: true,
            ..Capabilities::NAMES
        }
    }

    fn write(
        &self,
        profile: &Profile,
        options: &WriteOptions,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let groups = groups(profile);
        let columns = columns(profile);
        let labels = Labels::new(profile, &LabelOptions::default());
        let frames = Frames::new(profile, &labels);
        let mut json = Json::new(out);
        json.object(|json| {
            json.key("$schema").string("https://www.speedscope.app/file-format-schema.json");
            json.key("exporter").string(concat!("pyrograph@", env!("CARGO_PKG_VERSION")));
            json.key("name").string(&options.title);
            json.key("activeProfileIndex").value(heaviest(profile, &groups, &columns));
            json.line().key("shared").object(|json| {
                json.key("frames").array(|json| frames.write(profile, &labels, json));
            });
            json.line().key("profiles").array(|json| {
                for &column in &columns {
                    for group in &groups {
                        one_profile(profile, &frames, group, column, json);
                    }
                }
                json.end_line();
            });
        });
        json.end_line();
        json.finish()
    }
}

/// Samples of one thread, in order.
struct Group {
    name: String,
    rows: Vec<usize>,
}

/// The threads that have samples, in the order of the profile's threads.
fn groups(profile: &Profile) -> Vec<Group> {
    let mut groups: Vec<Group> = profile
        .threads
        .iter()
        .map(|thread| Group { name: thread_name(profile, thread), rows: Vec::new() })
        .collect();
    for (row, sample) in profile.samples.iter().enumerate() {
        groups[sample.thread.index()].rows.push(row);
    }
    groups.retain(|group| !group.rows.is_empty());
    for group in &mut groups {
        // A stable sort: without times, the order does not change.
        group.rows.sort_by_key(|&row| profile.samples.get(row).time);
    }
    if groups.is_empty() {
        groups.push(Group { name: String::new(), rows: Vec::new() });
    }
    groups
}

/// Name of a thread: `process`, `process worker`, with IDs `process worker (12/13)`.
fn thread_name(profile: &Profile, thread: Thread) -> String {
    let (process, name) = (profile.strings.get(thread.process), profile.strings.get(thread.name));
    let mut text = match (process, name) {
        (process, "") => process.to_owned(),
        ("", name) => name.to_owned(),
        (process, name) if process == name => name.to_owned(),
        (process, name) => format!("{process} {name}"),
    };
    let numbers: Vec<String> =
        [thread.pid, thread.tid].iter().flatten().map(ToString::to_string).collect();
    if !numbers.is_empty() {
        text.push_str(&format!(" ({})", numbers.join("/")));
    }
    text
}

/// The columns of values to write: all except the number of samples if it is 1 in each row, as with a clock. (Numbers of
/// waits and allocations are interesting themselves.)
fn columns(profile: &Profile) -> Vec<usize> {
    let plain = profile.numbers_beside(profile.shown).filter(|&numbers| {
        profile.value_types[numbers].quantity() == Quantity::Samples
            && profile.samples.values(numbers).iter().all(|&number| number == 1)
    });
    (0..profile.value_types.len()).filter(|&column| Some(column) != plain).collect()
}

/// Index of the profile to show first: the shown value of the thread with the highest total.
fn heaviest(profile: &Profile, groups: &[Group], columns: &[usize]) -> usize {
    let values = profile.samples.values(profile.shown);
    let total =
        |group: &Group| group.rows.iter().fold(0u64, |sum, &row| sum.saturating_add(values[row]));
    // The first one, if several are equal.
    let best = (0..groups.len()).rev().max_by_key(|&at| total(&groups[at])).unwrap_or_default();
    let shown = columns.iter().position(|&column| column == profile.shown).unwrap_or_default();
    shown * groups.len() + best
}

/// One row for each function, identified by name and file: the row of each frame, and the rows.
struct Frames {
    row_of: Vec<usize>,
    rows: Vec<(StringId, StringId)>,
}

impl Frames {
    fn new(profile: &Profile, labels: &Labels) -> Self {
        let mut index: HashMap<_, usize, foldhash::fast::FixedState> = HashMap::default();
        let mut frames = Self { row_of: Vec::new(), rows: Vec::new() };
        for (at, frame) in profile.frames.iter().enumerate() {
            let row = (labels.frames[at], frame.file);
            frames.row_of.push(*index.entry(row).or_insert_with(|| {
                frames.rows.push(row);
                frames.rows.len() - 1
            }));
        }
        frames
    }

    fn write(&self, profile: &Profile, labels: &Labels, json: &mut Json<'_>) {
        for (name, file) in &self.rows {
            json.line().object(|json| {
                json.key("name").string(labels.names.get(*name));
                if !file.is_empty() {
                    json.key("file").string(profile.strings.get(*file));
                }
            });
        }
    }
}

fn one_profile(
    profile: &Profile,
    frames: &Frames,
    group: &Group,
    column: usize,
    json: &mut Json<'_>,
) {
    let of = &profile.value_types[column];
    let name = match &*group.name {
        "" => of.name.clone(),
        thread => format!("{}{SEPARATOR}{thread}", of.name),
    };
    let unit = match of.unit_kind() {
        UnitKind::Time(unit) => unit.long(),
        UnitKind::Bytes => "bytes",
        _ => "none",
    };
    let values = profile.samples.values(column);
    let total = group.rows.iter().fold(0u64, |sum, &row| sum.saturating_add(values[row]));
    // Samples with value 0 in this column are left out.
    let rows: Vec<usize> = group.rows.iter().copied().filter(|&row| values[row] > 0).collect();
    let mut path = Vec::new();
    json.line().object(|json| {
        json.key("type").string("sampled").key("name").string(&name).key("unit").string(unit);
        json.key("startValue").value(0).key("endValue").decimal(total, of.decimals);
        json.column("samples", &rows, |json, &row| {
            path.clear();
            path.extend(profile.stacks.leaf_first(profile.samples.get(row).stack));
            json.array(|json| {
                for frame in path.iter().rev() {
                    json.value(frames.row_of[frame.index()]);
                }
            })
        });
        json.column("weights", &rows, |json, &row| json.decimal(values[row], of.decimals));
    });
}
