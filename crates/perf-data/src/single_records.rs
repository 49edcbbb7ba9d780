//! Records other than samples, as plain data.

use pyrograph_event::{FileId, Record, SampleId, Task};
use pyrograph_profile::{
    EventRecord, MappedFile, MappingDetails, MappingRecord, SingleEvent, TaskRecord,
};

/// Converts a record; returns it with the fields of `sample_id`. `None` if records of its type are not printed.
pub fn event_record<'a>(record: &Record<'a>) -> Option<(EventRecord<'a>, SampleId)> {
    Some(match record {
        Record::Comm(comm) => {
            let name = String::from_utf8_lossy(comm.name);
            let (pid, tid, exec) = (comm.pid, comm.tid, comm.exec);
            (EventRecord::Comm { pid, tid, name, exec }, comm.id)
        }
        Record::Fork(task) => (EventRecord::Fork(task_record(task)), task_id(task)),
        Record::Exit(task) => (EventRecord::Exit(task_record(task)), task_id(task)),
        Record::Mmap(of) => {
            let details = MappingDetails::Short { executable: of.executable };
            let place = (of.start, of.len, of.offset);
            (mapping_record((of.pid, of.tid), place, of.path, details), of.id)
        }
        Record::Mmap2(of) => {
            const MAP_SHARED: u32 = 1;
            let file = match of.file {
                FileId::Inode { major, minor, inode, generation } => {
                    MappedFile::Inode { major, minor, inode, generation }
                }
                FileId::BuildId(id) => MappedFile::BuildId(id.as_bytes().to_vec()),
            };
            let (protection, shared) = (of.protection, of.flags & MAP_SHARED != 0);
            let details = MappingDetails::Long { file, protection, shared };
            let place = (of.start, of.len, of.offset);
            (mapping_record((of.pid, of.tid), place, of.path, details), of.id)
        }
        Record::Switch(switch) => {
            let (out, preempted) = (switch.out, switch.preempted);
            (EventRecord::Switch { out, preempted, other: None }, switch.id)
        }
        Record::SwitchCpuWide(switch) => {
            let (out, preempted) = (switch.out, switch.preempted);
            let other = Some((switch.other_pid, switch.other_tid));
            (EventRecord::Switch { out, preempted, other }, switch.id)
        }
        Record::Namespaces(of) => {
            let (pid, tid, links) = (of.pid, of.tid, of.links().collect());
            (EventRecord::Namespaces { pid, tid, links }, of.id)
        }
        Record::Lost(lost) => (EventRecord::Lost { count: lost.count }, lost.id),
        Record::Cgroup(of) => {
            let path = String::from_utf8_lossy(of.path);
            (EventRecord::Cgroup { id: of.cgroup, path }, of.id)
        }
        _ => return None,
    })
}

fn mapping_record<'a>(
    (pid, tid): (i32, i32),
    (start, len, offset): (u64, u64, u64),
    path: &'a [u8],
    details: MappingDetails,
) -> EventRecord<'a> {
    let path = String::from_utf8_lossy(path);
    EventRecord::Mmap(MappingRecord { pid, tid, start, len, offset, path, details })
}

fn task_record(task: &Task) -> TaskRecord {
    TaskRecord {
        pid: task.pid,
        tid: task.tid,
        parent_pid: task.parent_pid,
        parent_tid: task.parent_tid,
    }
}

/// Without `sample_id_all` the time is in the record itself.
fn task_id(task: &Task) -> SampleId {
    SampleId { time: task.id.time.or(Some(task.time)), ..task.id }
}

/// Builds the event for a record, without its thread's name. Records that perf wrote at the start did not happen in a
/// thread: their IDs are 0.
pub fn single_record<'a>(
    kind: usize,
    record: &'a EventRecord<'a>,
    id: SampleId,
) -> SingleEvent<'a> {
    let (pid, tid) = record.thread().unzip();
    SingleEvent {
        kind,
        pid: id.pid.or(pid),
        tid: id.tid.or(tid),
        cpu: id.cpu,
        time: id.time,
        record: Some(record),
        ..SingleEvent::default()
    }
}
