//! The samples of a recording one by one, with the fields of tracepoints.

use hashbrown::HashMap;
use pyrograph_event::{Record, Sample, type_id};

use crate::lost::Losses;
use crate::recording::{Place, Recording};
use crate::tracepoint::Tracepoint;
use crate::tracing;
use pyrograph_profile::{TraceEvent, TraceField};

/// Records that were not read as events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unread {
    /// Number of samples that were lost while recording.
    pub lost: u64,
    /// Number of records that are damaged.
    pub unreadable: u64,
}

impl Recording {
    /// Hands over each sample, of all events, in the order of time.
    pub fn each_sample(&self, on_event: &mut dyn FnMut(&TraceEvent<'_>)) -> Unread {
        events(self, on_event)
    }
}

fn events(recording: &Recording, on_event: &mut dyn FnMut(&TraceEvent<'_>)) -> Unread {
    let tracepoints = tracing::parse(&recording.tracing_data, recording.order());
    let tracepoint_of = |event: &crate::events::Event| {
        let is_it = |tracepoint: &&Tracepoint| tracepoint.id == event.attr.config;
        (event.attr.type_ == type_id::TRACEPOINT).then(|| tracepoints.iter().find(is_it)).flatten()
    };
    let of_event: Vec<_> = recording.events.list.iter().map(tracepoint_of).collect();
    let mut names = Names::default();
    let (mut losses, mut unreadable) = (Losses::default(), 0);
    for &(_, place) in &recording.index {
        let place = Place::from_number(place);
        let event = &recording.events.list[place.event()];
        let bytes = recording.record_at(place);
        match event.layout.decode(bytes) {
            Ok(Record::Sample(sample)) => {
                let tracepoint = of_event[place.event()];
                let fields = tracepoint.zip(sample.raw).map(|(tracepoint, raw)| {
                    let values = tracepoint.values(raw, recording.order());
                    values.map(|(name, value)| TraceField { name, value }).collect::<Vec<_>>()
                });
                let comm = names.of(&sample);
                on_event(&trace_event(&event.name, &sample, comm, &fields.unwrap_or_default()));
            }
            Ok(record) if losses.add(event, &record, recording.misc(bytes)) => {}
            Ok(record) => names.follow(&record),
            Err(_) => unreadable += 1,
        }
    }
    Unread { lost: losses.total(), unreadable }
}

fn trace_event<'a>(
    name: &'a str,
    sample: &Sample<'a>,
    comm: &'a str,
    fields: &'a [TraceField<'a>],
) -> TraceEvent<'a> {
    let id = &sample.id;
    TraceEvent { name, time: id.time, cpu: id.cpu, pid: id.pid, tid: id.tid, comm, fields }
}

/// The names that threads have at the time.
#[derive(Default)]
pub struct Names(HashMap<i32, String, foldhash::fast::FixedState>);

impl Names {
    /// Follows a record that is no sample.
    pub fn follow(&mut self, record: &Record<'_>) {
        match record {
            Record::Comm(comm) => {
                self.0.insert(comm.tid, String::from_utf8_lossy(comm.name).into_owned());
            }
            Record::Fork(task) => {
                if let Some(name) = self.0.get(&task.parent_tid).cloned() {
                    self.0.insert(task.tid, name);
                }
            }
            _ => {}
        }
    }

    /// The name of a sample's thread; empty if it is not known.
    pub fn of(&self, sample: &Sample<'_>) -> &str {
        match (sample.id.pid, sample.id.tid) {
            (_, Some(0)) => "swapper",
            (pid, Some(tid)) => {
                // Of a thread that is nearly gone the kernel may name the process only.
                let name = self.0.get(&tid).or_else(|| self.0.get(&pid?));
                name.map_or("", String::as_str)
            }
            _ => "",
        }
    }
}
