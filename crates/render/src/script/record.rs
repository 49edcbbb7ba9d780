//! Records other than samples: the part of the line after thread and time.
//!
//! ```text
//! PERF_RECORD_COMM exec: ls:4711/4711
//! PERF_RECORD_FORK(4712:4712):(4711:4711)
//! PERF_RECORD_MMAP2 4711/4711: [0x7f7a000(0x26000) @ 0x1000 fe:00 325843 0]: r-xp /usr/lib/libc.so.6
//! ```

use std::fmt::{Display, Formatter, Result as FmtResult, from_fn};
use std::io::Write;

use pyrograph_profile::{EventRecord, MappedFile, MappingDetails, MappingRecord, SingleEvent};

use super::fields::FieldSet;
use super::json::{address, count, key, origin, string};
use super::text::one_line;

const NAMESPACES: [&str; 7] = ["net", "uts", "ipc", "pid", "user", "mnt", "cgroup"];

/// Appends a record as text, and a line end.
pub fn line(text: &mut Vec<u8>, record: &EventRecord<'_>) {
    // Writing to memory cannot fail.
    let _ = match record {
        EventRecord::Comm { pid, tid, name, exec } => {
            let _ = write!(text, "PERF_RECORD_COMM{}: ", if *exec { " exec" } else { "" });
            one_line(text, name);
            write!(text, ":{pid}/{tid}")
        }
        EventRecord::Fork(of) | EventRecord::Exit(of) => write!(
            text,
            "PERF_RECORD_{}({}:{}):({}:{})",
            name_of(record),
            of.pid,
            of.tid,
            of.parent_pid,
            of.parent_tid
        ),
        EventRecord::Mmap(of) => {
            mapping(text, of);
            Ok(())
        }
        EventRecord::Switch { out, preempted, other } => {
            let how = match (out, preempted) {
                (false, _) => "IN         ",
                (true, false) => "OUT        ",
                (true, true) => "OUT preempt",
            };
            let _ = write!(text, "PERF_RECORD_{} {how}", name_of(record));
            let place = if *out { "next" } else { "prev" };
            match other {
                Some((pid, tid)) => write!(text, "  {place} pid/tid: {pid:5}/{tid:<5}"),
                None => Ok(()),
            }
        }
        EventRecord::Namespaces { pid, tid, links } => {
            let count = links.len();
            let _ = write!(text, "PERF_RECORD_NAMESPACES {pid}/{tid} - nr_namespaces: {count}");
            namespaces(text, links);
            Ok(())
        }
        EventRecord::Lost { count } => write!(text, "PERF_RECORD_LOST lost {count}"),
        EventRecord::Cgroup { id, path } => {
            let _ = write!(text, "PERF_RECORD_CGROUP cgroup: {id} ");
            one_line(text, path);
            Ok(())
        }
    };
    text.push(b'\n');
}

/// Name of the record type in the kernel.
fn name_of(record: &EventRecord<'_>) -> &'static str {
    match record {
        EventRecord::Comm { .. } => "COMM",
        EventRecord::Fork(_) => "FORK",
        EventRecord::Exit(_) => "EXIT",
        EventRecord::Mmap(of) => match of.details {
            MappingDetails::Short { .. } => "MMAP",
            MappingDetails::Long { .. } => "MMAP2",
        },
        EventRecord::Switch { other: None, .. } => "SWITCH",
        EventRecord::Switch { .. } => "SWITCH_CPU_WIDE",
        EventRecord::Namespaces { .. } => "NAMESPACES",
        EventRecord::Lost { .. } => "LOST",
        EventRecord::Cgroup { .. } => "CGROUP",
    }
}

/// Formats a number as C's `%#x` does: 0 without `0x`.
fn hexadecimal(number: u64) -> impl Display {
    from_fn(move |out: &mut Formatter<'_>| -> FmtResult {
        if number == 0 { out.write_str("0") } else { write!(out, "{number:#x}") }
    })
}

fn bytes(id: &[u8]) -> impl Display {
    from_fn(move |out: &mut Formatter<'_>| id.iter().try_for_each(|byte| write!(out, "{byte:02x}")))
}

/// Formats permissions, such as `r-xp`.
fn permissions(protection: u32, shared: bool) -> String {
    let bit = |bit: u32, name: char| if protection & bit != 0 { name } else { '-' };
    [bit(1, 'r'), bit(2, 'w'), bit(4, 'x'), if shared { 's' } else { 'p' }].iter().collect()
}

fn mapping(text: &mut Vec<u8>, of: &MappingRecord<'_>) {
    let [start, len, offset] = [of.start, of.len, of.offset].map(hexadecimal);
    let (pid, tid) = (of.pid, of.tid);
    let place = format_args!("{pid}/{tid}: [{start}({len}) @ {offset}").to_string();
    let _ = match &of.details {
        MappingDetails::Short { executable } => {
            let kind = if *executable { 'x' } else { 'r' };
            write!(text, "PERF_RECORD_MMAP {place}]: {kind} ")
        }
        MappingDetails::Long { file, protection, shared } => {
            let _ = write!(text, "PERF_RECORD_MMAP2 {place} ");
            let _ = match file {
                MappedFile::Inode { major, minor, inode, generation } => {
                    write!(text, "{major:02x}:{minor:02x} {inode} {generation}")
                }
                MappedFile::BuildId(id) => write!(text, "<{}>", bytes(id)),
            };
            write!(text, "]: {} ", permissions(*protection, *shared))
        }
    };
    one_line(text, &of.path);
}

/// Appends namespaces, four per line.
fn namespaces(text: &mut Vec<u8>, links: &[(u64, u64)]) {
    text.extend_from_slice(b"\n\t\t[");
    for (at, &(device, inode)) in links.iter().enumerate() {
        if at > 0 {
            text.extend_from_slice(if at % 4 == 0 { b", \n\t\t " } else { b", " });
        }
        let name = NAMESPACES.get(at).unwrap_or(&"unknown");
        let _ = write!(text, "{at}/{name}: {device}/{}", hexadecimal(inode));
    }
    text.push(b']');
}

/// Appends a record as JSON, and a line end.
pub fn json(
    text: &mut Vec<u8>,
    fields: FieldSet,
    event: &SingleEvent<'_>,
    record: &EventRecord<'_>,
) {
    origin(text, fields, event);
    key(text, "record");
    string(text, name_of(record));
    key(text, "fields");
    text.push(b'{');
    let (pid, tid) = record.thread().unzip();
    count(text, "pid", pid);
    count(text, "tid", tid);
    match record {
        EventRecord::Comm { name, exec, .. } => {
            key(text, "name");
            string(text, name);
            boolean(text, "exec", *exec);
        }
        EventRecord::Fork(of) | EventRecord::Exit(of) => {
            count(text, "parent_pid", Some(of.parent_pid));
            count(text, "parent_tid", Some(of.parent_tid));
        }
        EventRecord::Mmap(of) => mapping_json(text, of),
        EventRecord::Switch { out, preempted, other } => {
            boolean(text, "out", *out);
            boolean(text, "preempted", *preempted);
            let (pid, tid) = other.unzip();
            count(text, "other_pid", pid);
            count(text, "other_tid", tid);
        }
        EventRecord::Namespaces { links, .. } => {
            for (name, (device, inode)) in NAMESPACES.iter().zip(links) {
                key(text, name);
                let _ = write!(text, "{{\"device\":{device},\"inode\":{inode}}}");
            }
        }
        EventRecord::Lost { count: lost } => count(text, "lost", Some(*lost)),
        EventRecord::Cgroup { id, path } => {
            count(text, "id", Some(*id));
            key(text, "path");
            string(text, path);
        }
    }
    text.extend_from_slice(b"}}\n");
}

fn mapping_json(text: &mut Vec<u8>, of: &MappingRecord<'_>) {
    address(text, "start", Some(of.start));
    count(text, "len", Some(of.len));
    count(text, "offset", Some(of.offset));
    key(text, "path");
    string(text, &of.path);
    match &of.details {
        MappingDetails::Short { executable } => boolean(text, "executable", *executable),
        MappingDetails::Long { file, protection, shared } => {
            key(text, "permissions");
            string(text, &permissions(*protection, *shared));
            match file {
                MappedFile::Inode { major, minor, inode, generation } => {
                    count(text, "major", Some(*major));
                    count(text, "minor", Some(*minor));
                    count(text, "inode", Some(*inode));
                    count(text, "generation", Some(*generation));
                }
                MappedFile::BuildId(id) => {
                    key(text, "build_id");
                    string(text, &bytes(id).to_string());
                }
            }
        }
    }
}

fn boolean(text: &mut Vec<u8>, name: &str, value: bool) {
    key(text, name);
    text.extend_from_slice(if value { b"true" } else { b"false" });
}
