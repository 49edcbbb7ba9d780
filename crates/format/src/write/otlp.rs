//! Writer for OTLP profiles (`v1development`) as a file: one `ProfilesData` message. [`read::otlp`](crate::read)
//! describes the format.
//!
//! - Each value type becomes a profile, as the format requires; the shown one comes first.
//! - Samples with the same stack, thread and CPU become one sample with many times and values.
//! - Attributes follow OpenTelemetry's semantic conventions: `process.pid`, `process.executable.name`,
//!   `process.command_line`, `process.linux.cgroup`, `thread.id`, `thread.name`, `host.name`, `cpu.logical_number`;
//!   `profile.frame.type` for the kind of code of a frame. `pyrograph.frame.guessed` is our own.
//! - Times are written unchanged. The format requires times since 1970; if the source counts from another origin, so do
//!   the written times.

use std::io::{self, Write};

use hashbrown::HashMap;
use pyrograph_profile::{FrameId, FrameKind, Profile, Sample, StackId, StringId};

use super::tables::{Places, Table, string, value_type};
use crate::capabilities::Capabilities;
use crate::capabilities::above_i64;
use crate::protobuf;
use crate::writer::{WriteOptions, Writer};

/// Writer for OTLP profiles.
pub(super) struct Otlp;

impl Writer for Otlp {
    fn name(&self) -> &'static str {
        "OTLP"
    }

    fn endings(&self) -> &'static [&'static str] {
        &["otlp"]
    }

    fn opened_by(&self) -> &'static str {
        "OpenTelemetry collectors and their back ends"
    }

    fn also_called(&self) -> &'static [&'static str] {
        &["opentelemetry"]
    }

    fn changes(&self, profile: &Profile) -> Option<String> {
        above_i64(profile)
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { decimals: false, instructions: false, comments: false, ..Capabilities::ALL }
    }

    fn write(
        &self,
        profile: &Profile,
        _options: &WriteOptions,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let mut encoder = Encoder::new(profile);
        let mut profiles = protobuf::Writer::default();
        let columns = profile.value_types.len();
        let shown_first = std::iter::once(profile.shown).chain(0..columns);
        let mut seen = vec![false; columns];
        for column in shown_first.filter(|&column| column < columns) {
            if !std::mem::replace(&mut seen[column], true) {
                encoder.profile(&mut profiles, column);
            }
        }
        let mut data = protobuf::Writer::default();
        data.message(1, |resource| {
            resource.message(2, |scope| {
                scope.message(1, |about| {
                    about.put(1, b"pyrograph");
                    about.put(2, env!("CARGO_PKG_VERSION").as_bytes());
                });
                scope.bytes.extend_from_slice(&profiles.bytes);
            });
        });
        data.message(2, |dictionary| encoder.dictionary(dictionary));
        out.write_all(&data.bytes)
    }
}

/// Attribute of a mapping with the build ID of its file.
const BUILD_ID: &str = "process.executable.build_id.gnu";

type Fixed = foldhash::fast::FixedState;

/// Properties by which samples are grouped: stack and attributes.
type Identity = (StackId, Vec<u64>);

/// Builds the dictionary while profiles are written. Row 0 of each table means "none".
struct Encoder<'a> {
    profile: &'a Profile,
    strings: pyrograph_profile::Strings,
    mappings: Table<StringId>,
    places: Places<'a>,
    stacks: Table<StackId>,
    attributes: Table<Attribute>,
    /// Rows of samples, grouped by identity, in the order of first occurrence.
    groups: Vec<(Identity, Vec<usize>)>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
enum Attribute {
    Text(&'static str, String),
    Number(&'static str, i64),
}

impl<'a> Encoder<'a> {
    fn new(profile: &'a Profile) -> Self {
        let mut encoder = Self {
            profile,
            strings: pyrograph_profile::Strings::default(),
            mappings: Table::default(),
            places: Places::new(profile),
            stacks: Table::default(),
            attributes: Table::default(),
            groups: Vec::new(),
        };
        let mut index: HashMap<Identity, usize, Fixed> = HashMap::default();
        for (row, sample) in profile.samples.iter().enumerate() {
            let identity = (sample.stack, encoder.attributes(sample));
            let at = *index.entry(identity).or_insert_with_key(|identity| {
                encoder.groups.push((identity.clone(), Vec::new()));
                encoder.groups.len() - 1
            });
            encoder.groups[at].1.push(row);
        }
        encoder
    }

    fn text(&mut self, id: StringId) -> u64 {
        let profile = self.profile;
        string(&mut self.strings, profile.strings.get(id))
    }

    /// Attributes of a sample: thread, host and CPU.
    fn attributes(&mut self, sample: Sample) -> Vec<u64> {
        let profile = self.profile;
        let thread = profile.threads.get(sample.thread);
        let texts = [
            ("process.executable.name", thread.process),
            ("thread.name", thread.name),
            ("host.name", thread.host),
            ("process.linux.cgroup", thread.cgroup),
            ("process.command_line", thread.command_line),
        ];
        let numbers = [
            ("process.pid", thread.pid.map(i64::from)),
            ("thread.id", thread.tid.map(i64::from)),
            ("cpu.logical_number", sample.cpu.map(i64::from)),
        ];
        let texts = texts
            .into_iter()
            .filter(|(_, text)| !text.is_empty())
            .map(|(key, text)| Attribute::Text(key, profile.strings.get(text).to_owned()));
        let numbers =
            numbers.into_iter().filter_map(|(key, number)| Some(Attribute::Number(key, number?)));
        let all: Vec<Attribute> = texts.chain(numbers).collect();
        all.into_iter().map(|attribute| self.attributes.id(attribute)).collect()
    }

    /// Writes one value type of all samples as a profile.
    fn profile(&mut self, out: &mut protobuf::Writer, column: usize) {
        let profile = self.profile;
        let of = &profile.value_types[column];
        let values = profile.samples.values(column);
        let divisor = 10u64.saturating_pow(of.decimals.into());
        let groups = std::mem::take(&mut self.groups);
        let mut samples = protobuf::Writer::default();
        for ((stack, attributes), rows) in &groups {
            let stack = self.stacks.id(*stack);
            // Samples with and without times are separated: the lists of times and values must have equal lengths.
            let time = |row: &&usize| profile.samples.get(**row).time.is_some();
            let (timed, untimed): (Vec<&usize>, Vec<&usize>) = rows.iter().partition(time);
            for rows in [timed, untimed] {
                let rows: Vec<usize> =
                    rows.into_iter().copied().filter(|&row| values[row] > 0).collect();
                if rows.is_empty() {
                    continue;
                }
                samples.message(2, |out| {
                    out.number(1, stack);
                    out.packed(2, attributes.iter().copied());
                    out.packed(
                        4,
                        rows.iter().map(|&row| (values[row] / divisor).min(i64::MAX as u64)),
                    );
                    let times = rows.iter().filter_map(|&row| profile.samples.get(row).time);
                    out.packed_fixed(5, times);
                });
            }
        }
        self.groups = groups;
        out.message(2, |out| {
            value_type(out, 1, &mut self.strings, of);
            out.bytes.extend_from_slice(&samples.bytes);
            out.fixed(3, profile.about.start.unwrap_or(0));
            out.number(4, profile.about.duration.unwrap_or(0));
            if let Some((of, period)) = &profile.about.period {
                value_type(out, 5, &mut self.strings, of);
                out.number(6, *period);
            }
        });
    }

    /// Writes all tables. Each table may add rows to the tables after it, so the order matters.
    fn dictionary(&mut self, out: &mut protobuf::Writer) {
        let profile = self.profile;
        out.message(7, |_| {});
        let stacks = std::mem::take(&mut self.stacks.rows);
        for &stack in &stacks {
            let mut locations = Vec::new();
            self.places.add_stack(stack, &mut locations);
            out.message(7, |out| out.packed(1, locations));
        }
        out.message(2, |_| {});
        let locations = std::mem::take(&mut self.places.locations.rows);
        for calls in &locations {
            self.location(out, calls);
        }
        out.message(3, |_| {});
        let functions = std::mem::take(&mut self.places.functions.rows);
        for &(name, file, start_line) in &functions {
            let (name, file) = (self.text(name), self.text(file));
            out.message(3, |out| {
                out.number(1, name);
                out.number(3, file);
                out.number(4, start_line.into());
            });
        }
        out.message(1, |_| {});
        let mappings = std::mem::take(&mut self.mappings.rows);
        let build_ids: HashMap<StringId, StringId, Fixed> =
            profile.addresses.iter().map(|of| (of.module, of.build_id)).collect();
        for &module in &mappings {
            let build_id = build_ids.get(&module).filter(|id| !id.is_empty());
            let build_id = build_id.map(|&id| profile.strings.get(id).to_owned());
            let build_id = build_id.map(|id| self.attributes.id(Attribute::Text(BUILD_ID, id)));
            let highest = profile.frames.iter().filter(|frame| frame.module == module);
            let highest = highest.map(|frame| frame.address).max().unwrap_or(0);
            let file = self.text(module);
            out.message(1, |out| {
                out.number(2, highest.saturating_add(1));
                out.number(4, file);
                out.packed(5, build_id);
            });
        }
        // Tables 4 (links) and 6 (attributes) begin with an empty row; no sample is linked to a trace.
        out.message(4, |_| {});
        out.message(6, |_| {});
        let attributes = std::mem::take(&mut self.attributes.rows);
        for attribute in &attributes {
            let (Attribute::Text(key, _) | Attribute::Number(key, _)) = attribute;
            let key = string(&mut self.strings, key);
            out.message(6, |out| {
                out.number(1, key);
                out.message(2, |out| match attribute {
                    Attribute::Text(_, text) => out.put(1, text.as_bytes()),
                    // Written even if 0: the field determines that the value is a number.
                    Attribute::Number(_, number) => out.explicit_number(3, *number as u64),
                });
            });
        }
        for text in self.strings.iter() {
            out.put(5, text.as_bytes());
        }
    }

    fn location(&mut self, out: &mut protobuf::Writer, calls: &[FrameId]) {
        let profile = self.profile;
        let Some(&caller) = calls.last() else { return };
        let caller = profile.frames.get(caller);
        let mapping = match caller.module {
            StringId::EMPTY => 0,
            module => self.mappings.id(module),
        };
        let kind = Attribute::Text("profile.frame.type", frame_type(caller.kind).to_owned());
        let guessed = caller.guessed.then_some(Attribute::Number(GUESSED_ATTRIBUTE, 1));
        let attributes: Vec<u64> =
            [Some(kind), guessed].into_iter().flatten().map(|of| self.attributes.id(of)).collect();
        let lines = self.places.lines(calls);
        out.message(2, |out| {
            out.number(1, mapping);
            out.number(2, caller.address);
            for (function, line) in lines {
                out.message(3, |out| {
                    out.number(1, function);
                    out.number(2, line.into());
                });
            }
            out.packed(4, attributes);
        });
    }
}

/// Attribute of a location that is 1 if the location was guessed.
pub(crate) const GUESSED_ATTRIBUTE: &str = "pyrograph.frame.guessed";

/// Frame type by the semantic conventions. These have names for languages, but none for an unknown interpreter, for
/// remarks, or for calls inlined into an unknown frame.
fn frame_type(kind: FrameKind) -> &'static str {
    match kind {
        FrameKind::User => "native",
        kind => kind.name(),
    }
}
