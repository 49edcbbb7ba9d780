//! Writer for Chrome trace events, which Perfetto, `chrome://tracing` and speedscope open.
//! [`read::chrome_trace`](crate::read) describes the format.
//!
//! Each sample becomes a span of time ([`spans`]); frames that adjacent samples have in common are merged into one call.
//! A call is one complete event (`X`) with begin and duration: with pairs of events, readers would have to guess which
//! belong together if one ends when another begins. The events of a thread are sorted by begin, callers before callees.
//! Module and source are arguments of a call, its kind of code is the category. A sample without a stack becomes a call
//! of `[unknown]`, as in folded text: otherwise its time would be lost.
//! time would be lost.

use std::io::{self, Write};

use pyrograph_profile::{FrameId, LabelOptions, Labels, Profile, Span, ThreadId, spans};

use super::json::Json;
use crate::capabilities::Capabilities;
use crate::writer::{WriteOptions, Writer};

/// Writer for Chrome trace events.
pub(super) struct ChromeTrace;

impl Writer for ChromeTrace {
    fn name(&self) -> &'static str {
        "Chrome trace"
    }

    fn endings(&self) -> &'static [&'static str] {
        &["trace.json", "trace"]
    }

    fn opened_by(&self) -> &'static str {
        "ui.perfetto.dev, chrome://tracing, speedscope.app"
    }

    fn also_called(&self) -> &'static [&'static str] {
        &["chrome", "perfetto", "trace events"]
    }

    fn changes(&self, profile: &Profile) -> Option<String> {
        let of = profile.value_types.get(profile.shown)?;
        let Some(unit) = of.unit_kind().time_unit() else {
            return Some(format!(
                "calls are as long as their time; their number of {} ({}) is not written",
                of.name, of.unit
            ));
        };
        let threads = spans(profile, profile.shown)?;
        let lengths = threads.iter().flat_map(|(_, spans)| spans).map(|span| span.end - span.start);
        let written = lengths.map(u128::from).sum::<u128>() as f64;
        let divisor = 10f64.powi(of.decimals.into());
        let there =
            profile.samples.total(profile.shown) as f64 * unit.nanoseconds() as f64 / divisor;
        // Times in a trace have nanosecond resolution.
        ((written - there).abs() >= 1.0).then(|| {
            format!(
                "samples last until the next one of their thread, so that calls add up to {:.6} s in \
                 place of {:.6} s ({:+.2} %)",
                written / 1e9,
                there / 1e9,
                100.0 * (written - there) / there
            )
        })
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            columns: false,
            decimals: false,
            cpus: false,
            hosts: false,
            addresses: false,
            start: false,
            comments: false,
            instructions: false,
            ..Capabilities::ALL
        }
    }

    fn refuses(&self, profile: &Profile) -> Option<&'static str> {
        let timed = spans(profile, profile.shown).is_some_and(|threads| !threads.is_empty());
        (!timed).then_some("a Chrome trace shows time, and not all samples have one")
    }

    fn write(
        &self,
        profile: &Profile,
        options: &WriteOptions,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let labels = Labels::new(profile, &LabelOptions::default());
        let threads = spans(profile, profile.shown).unwrap_or_default();
        let mut json = Json::new(out);
        json.object(|json| {
            json.key("displayTimeUnit").string("ns").key("otherData").object(|json| {
                json.key("title").string(&options.title);
                json.key("creator").string(concat!("pyrograph ", env!("CARGO_PKG_VERSION")));
            });
            json.key("traceEvents").array(|json| {
                for (index, (thread, spans)) in threads.iter().enumerate() {
                    let ids = ids(profile, *thread);
                    let mut trace = Trace { profile, labels: &labels, ids, json };
                    trace.names(*thread, index == 0);
                    trace.calls(spans);
                }
                json.end_line();
            });
        });
        json.end_line();
        json.finish()
    }
}

/// Process and thread IDs, which the format requires as numbers. Unknown ones get numbers above all IDs of Linux.
fn ids(profile: &Profile, id: ThreadId) -> (i64, i64) {
    let thread = profile.threads.get(id);
    const NONE: i64 = 1 << 22;
    let pid = thread.pid.map_or(NONE + i64::from(thread.process.0), i64::from);
    let tid = thread.tid.map_or(NONE + i64::from(id.0), i64::from);
    (pid, tid)
}

/// A call with begin and end, in nanoseconds.
struct Call {
    /// `None` if a sample has no stack.
    frame: Option<FrameId>,
    start: u64,
    end: u64,
}

struct Trace<'a, 'b> {
    profile: &'a Profile,
    labels: &'a Labels,
    ids: (i64, i64),
    json: &'a mut Json<'b>,
}

/// Name of the call for samples without a stack.
const NO_STACK: &str = Labels::UNKNOWN;

impl Trace<'_, '_> {
    /// Writes the names of the process and the thread.
    fn names(&mut self, id: ThreadId, first: bool) {
        let thread = self.profile.threads.get(id);
        let name = if thread.name.is_empty() { thread.process } else { thread.name };
        for (event, name) in [("process_name", thread.process), ("thread_name", name)] {
            // The first thread always gets a name event, even with an empty name.
            if !name.is_empty() || first && event == "thread_name" {
                self.event("M", |trace| {
                    let name = trace.profile.strings.get(name);
                    trace.json.key("name").string(event).key("args").object(|json| {
                        json.key("name").string(name);
                    });
                });
            }
        }
    }

    fn event(&mut self, phase: &str, content: impl FnOnce(&mut Trace<'_, '_>)) {
        let (profile, labels, ids) = (self.profile, self.labels, self.ids);
        self.json.line().object(|json| {
            json.key("ph").string(phase).key("pid").value(ids.0).key("tid").value(ids.1);
            content(&mut Trace { profile, labels, ids, json });
        });
    }

    fn calls(&mut self, spans: &[Span]) {
        let mut calls: Vec<Call> = Vec::new();
        // Indices of the open calls, outermost first.
        let mut open: Vec<usize> = Vec::new();
        let mut path: Vec<Option<FrameId>> = Vec::new();
        let mut until = 0;
        for span in spans.iter().filter(|span| span.end > span.start) {
            path.clear();
            let stack = self.profile.samples.get(span.row).stack;
            path.extend(self.profile.stacks.leaf_first(stack).map(Some));
            path.reverse();
            if path.is_empty() {
                path.push(None);
            }
            let same = match span.start == until {
                true => {
                    open.iter().zip(&path).take_while(|(at, id)| calls[**at].frame == **id).count()
                }
                false => 0,
            };
            open.truncate(same);
            for &frame in &path[same..] {
                open.push(calls.len());
                calls.push(Call { frame, start: span.start, end: span.end });
            }
            for &at in &open[..same] {
                calls[at].end = span.end;
            }
            until = span.end;
        }
        for call in calls {
            self.event("X", |trace| trace.call(&call));
        }
    }

    fn call(&mut self, call: &Call) {
        // Microseconds.
        self.json.key("ts").decimal(call.start, 3);
        self.json.key("dur").decimal(call.end - call.start, 3);
        let Some(id) = call.frame else {
            self.json.key("name").string(NO_STACK);
            return;
        };
        self.json.key("name").string(self.labels.names.get(self.labels.frames[id.index()]));
        let frame = self.profile.frames.get(id);
        self.json.key("cat").string(frame.kind.name());
        let (module, file) = (frame.module, frame.file);
        if module.is_empty() && file.is_empty() {
            return;
        }
        let strings = &self.profile.strings;
        self.json.key("args").object(|json| {
            if !module.is_empty() {
                json.key("module").string(strings.get(module));
            }
            if !file.is_empty() {
                json.key("source").string(&format!("{}:{}", strings.get(file), frame.line));
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use pyrograph_profile::{Sample, Thread, ValueType};

    use super::*;

    fn profile(rows: &[(&[&str], u64, u64)]) -> Profile {
        let mut profile = Profile::new(vec![ValueType::new("cpu", "ns")]);
        let process = profile.strings.intern("app");
        let thread = Thread { process, pid: Some(1), tid: Some(2), ..Thread::default() };
        let thread = profile.threads.intern(thread);
        for &(path, time, value) in rows {
            let stack = profile.stack_of_names(path.iter().copied());
            profile.push(Sample { thread, time: Some(time), ..Sample::new(stack) }, &[value]);
        }
        profile
    }

    fn check(rows: &[(&[&str], u64, u64)], expect: &str) {
        let mut text = Vec::new();
        ChromeTrace
            .write(&profile(rows), &WriteOptions::default(), &mut text)
            .expect("writing to memory");
        let json: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
        let events = json["traceEvents"].as_array().expect("a list");
        let shown: Vec<String> = events
            .iter()
            .filter(|event| event["ph"] != "M")
            .map(|event| {
                assert_eq!(event["ph"], "X");
                let name = event["name"].as_str().unwrap_or("");
                format!("{name}@{}+{}", event["ts"], event["dur"])
            })
            .collect();
        assert_eq!(shown.join(" "), expect);
    }

    #[test]
    fn what_neighbours_share_goes_on() {
        check(
            &[
                (&["main", "a"], 1000, 1000),
                (&["main", "b"], 2000, 1000),
                (&["main", "b"], 3000, 1000),
                (&["main", "b"], 9000, 1000),
            ],
            "main@1+3 a@1+1 b@2+2 main@9+1 b@9+1",
        );
    }

    #[test]
    fn samples_without_a_stack_keep_their_time() {
        check(
            &[
                (&["main"], 1000, 1000),
                (&[], 2000, 1000),
                (&[], 3000, 1000),
                (&["main"], 4000, 1000),
            ],
            "main@1+1 [unknown]@2+2 main@4+1",
        );
    }

    #[test]
    fn totals_that_change_are_reported() {
        let exact = profile(&[(&["main"], 1000, 1000), (&["main"], 2000, 1000)]);
        assert_eq!(ChromeTrace.changes(&exact), None);
        let early = profile(&[(&["main"], 1000, 1000), (&["main"], 1900, 1000)]);
        let said = "samples last until the next one of their thread, so that calls add up to \
                    0.000002 s in place of 0.000002 s (-5.00 %)";
        assert_eq!(ChromeTrace.changes(&early).as_deref(), Some(said));
        let mut counts = exact;
        counts.value_types[0] = ValueType::new("cycles", "cycles");
        let said =
            "calls are as long as their time; their number of cycles (cycles) is not written";
        assert_eq!(ChromeTrace.changes(&counts).as_deref(), Some(said));
    }

    #[test]
    fn without_times_there_is_no_trace() {
        let mut untimed = profile(&[(&["main"], 1, 1)]);
        assert_eq!(ChromeTrace.refuses(&untimed), None);
        untimed.push(Sample::default(), &[1]);
        assert!(ChromeTrace.refuses(&untimed).is_some());
    }
}
