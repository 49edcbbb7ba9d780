//! Single events as JSON, one object per line (wrapped in this example).
//!
//! ```json
//! {"comm":"w","tid":4711,"time_ns":83864041674123,"event":"cpu-clock","period":2004008,
//! "stack":[{"ip":"0x1288","sym":"leaf","symoff":72,"dso":"/tmp/w"}]}
//! ```

use pyrograph_profile::{EventBranch, Frame, FrameKind, Location, Locations, SingleEvent};

use super::fields::{FieldSet, ScriptField as F};
use super::tail::type_name;
use super::text::{hex, number};

/// Appends everything before the stack.
pub fn head(text: &mut Vec<u8>, name: &str, fields: FieldSet, event: &SingleEvent<'_>) {
    let has = |field| fields.has(field);
    origin(text, fields, event);
    if has(F::Event) {
        key(text, "event");
        string(text, name);
    }
    count(text, "period", Some(event.period).filter(|_| has(F::Period)));
    if has(F::Trace) {
        key(text, "trace");
        string(text, event.trace);
    }
    address(text, "addr", event.addr.filter(|_| has(F::Addr)));
    address(text, "data_src", event.data_src.filter(|_| has(F::DataSrc)));
    count(text, "weight", event.weight.filter(|_| has(F::Weight)));
    address(text, "phys_addr", event.phys_addr.filter(|_| has(F::PhysAddr)));
}

/// Begins an object with thread, CPU and time.
pub fn origin(text: &mut Vec<u8>, fields: FieldSet, event: &SingleEvent<'_>) {
    text.push(b'{');
    let has = |field| fields.has(field);
    if has(F::Comm) {
        key(text, "comm");
        string(text, event.comm);
    }
    count(text, "pid", event.pid.filter(|_| has(F::Pid)));
    count(text, "tid", event.tid.filter(|_| has(F::Tid)));
    count(text, "cpu", event.cpu.filter(|_| has(F::Cpu)));
    count(text, "time_ns", event.time.filter(|_| has(F::Time)));
}

/// Appends everything after the stack.
pub fn tail(text: &mut Vec<u8>, fields: FieldSet, event: &SingleEvent<'_>) {
    let Some(details) = event.details else { return };
    let has = |field| fields.has(field);
    for (field, name, of) in
        [(F::Iregs, "iregs", details.registers), (F::Uregs, "uregs", details.user_registers)]
    {
        if let Some(of) = of.filter(|_| has(field)) {
            key(text, name);
            text.push(b'{');
            of.values.iter().for_each(|(name, value)| address(text, name, Some(*value)));
            text.push(b'}');
        }
    }
    if has(F::Brstack) {
        key(text, "brstack");
        text.push(b'[');
        for (at, of) in details.branches.iter().enumerate() {
            if at > 0 {
                text.push(b',');
            }
            branch(text, of);
        }
        text.push(b']');
    }
    count(text, "data_page_size", details.data_page_size.filter(|_| has(F::DataPageSize)));
    count(text, "code_page_size", details.code_page_size.filter(|_| has(F::CodePageSize)));
}

fn branch(text: &mut Vec<u8>, of: &EventBranch) {
    text.push(b'{');
    address(text, "from", Some(of.from));
    address(text, "to", Some(of.to));
    if of.predicted || of.mispredicted {
        key(text, "mispredicted");
        text.extend_from_slice(if of.predicted { b"false" } else { b"true" });
    }
    for (name, is_set) in [("in_transaction", of.in_transaction), ("abort", of.abort)] {
        if is_set {
            key(text, name);
            text.extend_from_slice(b"true");
        }
    }
    count(text, "cycles", Some(of.cycles).filter(|&cycles| cycles > 0));
    if !type_name(of).is_empty() {
        key(text, "type");
        string(text, type_name(of));
    }
    text.push(b'}');
}

/// Begins the stack.
pub fn stack(text: &mut Vec<u8>) {
    key(text, "stack");
    text.push(b'[');
}

/// Appends a frame.
pub fn frame(
    text: &mut Vec<u8>,
    fields: FieldSet,
    at: u64,
    frame: Option<(&Frame, &Location, &Locations)>,
) {
    text.push(b'{');
    let shown = |id| frame.map_or("", |(_, _, all)| all.strings.get(id));
    address(text, "ip", Some(at));
    if let Some((frame, location, _)) = frame {
        let function = shown(frame.function);
        if fields.has(F::Sym) && !function.is_empty() {
            key(text, "sym");
            string(text, function);
            count(text, "symoff", location.offset.filter(|_| fields.has(F::Symoff)));
        }
        let module = shown(frame.module);
        if fields.has(F::Dso) && !module.is_empty() {
            key(text, "dso");
            string(text, module);
        }
        let file = shown(frame.file);
        if fields.has(F::Srcline) && !file.is_empty() {
            key(text, "file");
            string(text, file);
            count(text, "line", Some(frame.line).filter(|&line| line > 0));
        }
        if frame.kind == FrameKind::Inlined {
            key(text, "inlined");
            text.extend_from_slice(b"true");
        }
    }
    text.push(b'}');
}

pub fn key(text: &mut Vec<u8>, name: &str) {
    if !matches!(text.last(), Some(b'{')) {
        text.push(b',');
    }
    text.push(b'"');
    text.extend_from_slice(name.as_bytes());
    text.extend_from_slice(b"\":");
}

pub fn count(text: &mut Vec<u8>, name: &str, value: Option<impl itoa::Integer>) {
    if let Some(value) = value {
        key(text, name);
        number(text, value, 0);
    }
}

pub fn address(text: &mut Vec<u8>, name: &str, value: Option<u64>) {
    if let Some(value) = value {
        key(text, name);
        text.extend_from_slice(b"\"0x");
        hex(text, value, 1);
        text.push(b'"');
    }
}

pub fn string(text: &mut Vec<u8>, value: &str) {
    // Writing a string to memory cannot fail.
    let _ = serde_json::to_writer(text, value);
}
