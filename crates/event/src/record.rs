//! The records that the kernel writes into an event's buffer.
//!
//! Source: `enum perf_event_type` in `include/uapi/linux/perf_event.h`.

use crate::callchain::Callchain;
use crate::cursor::{ByteOrder, Cursor, DecodeError};
use crate::header::{Header, kind, misc};
use crate::layout::Layout;
use crate::sample::{ReadValues, Sample};

/// Process, thread, time, CPU and event of a record: `struct sample_id`. The known fields depend on the event's
/// attributes; records other than samples have them only if `sample_id_all` is set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SampleId {
    /// Process (thread group). 0 is the idle task; −1 is a task that has already exited.
    pub pid: Option<i32>,
    /// Thread. 0 is the idle task; −1 is a task that has already exited.
    pub tid: Option<i32>,
    /// Nanoseconds on the event's clock.
    pub time: Option<u64>,
    /// The CPU's number.
    pub cpu: Option<u32>,
    /// ID of the event.
    pub id: Option<u64>,
    /// ID of the event's instance: inherited instances have the same `id`, but different stream IDs.
    pub stream_id: Option<u64>,
}

/// A file was mapped, in the form of kernels before 3.16.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mmap<'a> {
    /// Process; −1 if the mapping is the kernel's own.
    pub pid: i32,
    /// Thread.
    pub tid: i32,
    /// First address.
    pub start: u64,
    /// Size in bytes.
    pub len: u64,
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// The file's path, or a name such as `[vdso]` or `//anon`.
    pub path: &'a [u8],
    /// True if the mapping is executable.
    pub executable: bool,
    /// Process, thread, time, CPU and event of the record.
    pub id: SampleId,
}

/// Identity of a mapped file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileId {
    /// By device and inode.
    Inode {
        /// Major number of the device.
        major: u32,
        /// Minor number of the device.
        minor: u32,
        /// The inode; 0 if no file is mapped.
        inode: u64,
        /// Generation of the inode, which distinguishes successive files with the same inode number, if the file system
        /// keeps it.
        generation: u64,
    },
    /// By its build ID.
    BuildId(BuildId),
}

/// A build ID, of at most 20 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct BuildId {
    bytes: [u8; 20],
    len: u8,
}

impl BuildId {
    /// Creates a build ID from the first 20 of `bytes`, or fewer.
    pub fn new(bytes: &[u8]) -> Self {
        let len = bytes.len().min(20);
        let mut id = Self { bytes: [0; 20], len: len as u8 };
        id.bytes[..len].copy_from_slice(&bytes[..len]);
        id
    }

    /// The bytes of the build ID.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl std::fmt::Debug for BuildId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.as_bytes().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A file was mapped, or a mapping's protection changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mmap2<'a> {
    /// Process; −1 if the mapping is the kernel's own.
    pub pid: i32,
    /// Thread.
    pub tid: i32,
    /// First address.
    pub start: u64,
    /// Size in bytes.
    pub len: u64,
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// The mapped file.
    pub file: FileId,
    /// Protection flags: `PROT_READ` and so on.
    pub protection: u32,
    /// Mapping flags: `MAP_SHARED` and so on.
    pub flags: u32,
    /// The file's path, or a name such as `[vdso]` or `//anon`.
    pub path: &'a [u8],
    /// Process, thread, time, CPU and event of the record.
    pub id: SampleId,
}

/// A thread's name was set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Comm<'a> {
    /// Process.
    pub pid: i32,
    /// Thread.
    pub tid: i32,
    /// The name, at most 15 bytes; often UTF-8.
    pub name: &'a [u8],
    /// True if `exec` changed the name. All mappings from before it are gone then.
    pub exec: bool,
    /// Process, thread, time, CPU and event of the record.
    pub id: SampleId,
}

/// A thread or process started (FORK) or ended (EXIT).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// The process that started or ended, or the process of the thread that did.
    pub pid: i32,
    /// Parent of the process.
    pub parent_pid: i32,
    /// The thread that started or ended.
    pub tid: i32,
    /// Parent of the thread: the thread that started it.
    pub parent_tid: i32,
    /// Time on the event's clock.
    pub time: u64,
    /// FORK: the record was synthesized from `/proc`, not written by the kernel. The mappings known for the parent then
    /// need not be the child's; the child's own mappings are in the records that follow.
    pub synthesized: bool,
    /// Process, thread, time, CPU and event of the record.
    pub id: SampleId,
}

/// Records were lost because the buffer was full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// ID of the event.
    pub event_id: u64,
    /// Number of lost records.
    pub count: u64,
    /// Process, thread, time, CPU and event of the record.
    pub id: SampleId,
}

/// The hardware lost samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostSamples {
    /// Number of lost samples.
    pub count: u64,
    /// Process, thread, time, CPU and event of the record.
    pub id: SampleId,
}

/// The kernel paused sampling because of its rate (THROTTLE), or resumed it (UNTHROTTLE).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Throttle {
    /// Time of the change.
    pub time: u64,
    /// ID of the event.
    pub event_id: u64,
    /// ID of the event's instance.
    pub stream_id: u64,
    /// Process, thread, time, CPU and event of the record.
    pub id: SampleId,
}

/// Count of an inherited event at the exit of its task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read<'a> {
    /// Process.
    pub pid: i32,
    /// Thread.
    pub tid: i32,
    /// The counts.
    pub values: ReadValues<'a>,
    /// Process, thread, time, CPU and event of the record.
    pub id: SampleId,
}

/// The event's task was switched to a CPU or away from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switch {
    /// True if the task left the CPU.
    pub out: bool,
    /// True if it left the CPU although it was runnable.
    pub preempted: bool,
    /// Process, thread, time, CPU and event of the record.
    pub id: SampleId,
}

/// A CPU switched tasks; recorded by events that count whole CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchCpuWide {
    /// True if the task in [`SampleId`] left the CPU; false if it was switched to the CPU.
    pub out: bool,
    /// True if it left the CPU although it was runnable.
    pub preempted: bool,
    /// Process of the other task: the next one if `out` is set, otherwise the previous one.
    pub other_pid: i32,
    /// Thread of the other task.
    pub other_tid: i32,
    /// Process, thread, time, CPU and event of the record.
    pub id: SampleId,
}

/// Namespaces of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Namespaces<'a> {
    /// Process.
    pub pid: i32,
    /// Thread.
    pub tid: i32,
    links: &'a [u8],
    order: ByteOrder,
    /// Process, thread, time, CPU and event of the record.
    pub id: SampleId,
}

impl<'a> Namespaces<'a> {
    /// Device and inode of each namespace: network, UTS, IPC, PID, user, mount, cgroup, in this order.
    pub fn links(&self) -> impl Iterator<Item = (u64, u64)> + use<'a> {
        let mut from = Cursor::new(self.links, self.order);
        std::iter::from_fn(move || Some((from.u64()?, from.u64()?)))
    }
}

/// A kernel symbol was registered or unregistered: a BPF program or a trampoline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ksymbol<'a> {
    /// First address.
    pub start: u64,
    /// Size in bytes.
    pub len: u32,
    /// 1 for a BPF program, 2 for out-of-line code such as a trampoline.
    pub symbol_type: u16,
    /// True if the symbol was unregistered.
    pub unregister: bool,
    /// Name of the symbol.
    pub name: &'a [u8],
    /// Process, thread, time, CPU and event of the record.
    pub id: SampleId,
}

/// A BPF program was loaded or unloaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BpfEvent {
    /// 1 if the program was loaded, 2 if it was unloaded.
    pub event_type: u16,
    /// Flags.
    pub flags: u16,
    /// ID of the program.
    pub program: u32,
    /// Tag of the program.
    pub tag: [u8; 8],
    /// Process, thread, time, CPU and event of the record.
    pub id: SampleId,
}

/// A cgroup was created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cgroup<'a> {
    /// ID of the cgroup, as in samples.
    pub cgroup: u64,
    /// Path relative to the root of the hierarchy.
    pub path: &'a [u8],
    /// Process, thread, time, CPU and event of the record.
    pub id: SampleId,
}

/// The kernel modified its own code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextPoke<'a> {
    /// Address of the modified code.
    pub address: u64,
    /// The bytes before the modification.
    pub old: &'a [u8],
    /// The bytes after the modification.
    pub new: &'a [u8],
    /// Process, thread, time, CPU and event of the record.
    pub id: SampleId,
}

/// Data was written into the AUX area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aux {
    /// Position of the data: number of AUX bytes before it.
    pub offset: u64,
    /// Number of bytes.
    pub size: u64,
    /// `PERF_AUX_FLAG_*`.
    pub flags: u64,
    /// Process, thread, time, CPU and event of the record.
    pub id: SampleId,
}

/// User part of callchains that were sampled in the kernel. Linux 6.19.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallchainDeferred<'a> {
    /// Cookie of the callchains that it completes, which are of the same thread.
    pub cookie: u64,
    /// The user part of the callchain.
    pub callchain: Callchain<'a>,
    /// Process, thread, time, CPU and event of the record.
    pub id: SampleId,
}

/// A record whose type is not decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unknown<'a> {
    /// Header of the record.
    pub header: Header,
    /// The bytes after the header, the fields of [`SampleId`] included.
    pub body: &'a [u8],
}

/// A decoded record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each variant holds a type of its name, which has the docs")]
#[expect(
    clippy::large_enum_variant,
    reason = "samples are nearly all of what is decoded, and live on the stack"
)]
pub enum Record<'a> {
    Sample(Sample<'a>),
    Mmap(Mmap<'a>),
    Mmap2(Mmap2<'a>),
    Comm(Comm<'a>),
    Fork(Task),
    Exit(Task),
    Lost(Lost),
    LostSamples(LostSamples),
    Throttle(Throttle),
    Unthrottle(Throttle),
    Read(Read<'a>),
    Switch(Switch),
    SwitchCpuWide(SwitchCpuWide),
    Namespaces(Namespaces<'a>),
    Ksymbol(Ksymbol<'a>),
    BpfEvent(BpfEvent),
    Cgroup(Cgroup<'a>),
    TextPoke(TextPoke<'a>),
    Aux(Aux),
    CallchainDeferred(CallchainDeferred<'a>),
    Unknown(Unknown<'a>),
}

/// Returns the bytes before the first NUL. Names are padded with NULs to a multiple of 8 bytes.
fn c_string(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}

impl Layout {
    /// Decodes any record except a sample. `record` is exactly one record.
    pub(crate) fn decode_other<'a>(
        &self,
        header: Header,
        record: &'a [u8],
    ) -> Result<Record<'a>, DecodeError> {
        let body = &record[Header::SIZE..];
        if !is_decoded(header.kind) {
            return Ok(Record::Unknown(Unknown { header, body }));
        }
        let truncated =
            |field| DecodeError::Truncated { kind: header.kind, size: header.size, field };
        let (own, id) = self.split_trailer(body).ok_or_else(|| truncated("sample id"))?;
        self.decode_body(header, own, id).ok_or_else(|| truncated("fields"))
    }

    fn decode_body<'a>(
        &self,
        header: Header,
        mut from: Cursor<'a>,
        id: SampleId,
    ) -> Option<Record<'a>> {
        let from = &mut from;
        Some(match header.kind {
            kind::MMAP => Record::Mmap(mmap(header, from, id)?),
            kind::MMAP2 => Record::Mmap2(self.mmap2(header, from, id)?),
            kind::COMM => Record::Comm(Comm {
                pid: from.i32()?,
                tid: from.i32()?,
                name: c_string(from.rest()),
                exec: header.misc & misc::COMM_EXEC != 0,
                id,
            }),
            kind::FORK => Record::Fork(task(header, from, id)?),
            kind::EXIT => Record::Exit(task(header, from, id)?),
            kind::LOST => Record::Lost(Lost { event_id: from.u64()?, count: from.u64()?, id }),
            kind::LOST_SAMPLES => Record::LostSamples(LostSamples { count: from.u64()?, id }),
            kind::THROTTLE => Record::Throttle(throttle(from, id)?),
            kind::UNTHROTTLE => Record::Unthrottle(throttle(from, id)?),
            kind::READ => {
                let (pid, tid) = (from.i32()?, from.i32()?);
                Record::Read(Read { pid, tid, values: ReadValues::parse(from, self)?, id })
            }
            kind::SWITCH => {
                let (out, preempted) = switch(header);
                Record::Switch(Switch { out, preempted, id })
            }
            kind::SWITCH_CPU_WIDE => {
                let (out, preempted) = switch(header);
                Record::SwitchCpuWide(SwitchCpuWide {
                    out,
                    preempted,
                    other_pid: from.i32()?,
                    other_tid: from.i32()?,
                    id,
                })
            }
            kind::NAMESPACES => {
                let (pid, tid, count) = (from.i32()?, from.i32()?, from.u64()?);
                Record::Namespaces(Namespaces {
                    pid,
                    tid,
                    links: from.words(count.checked_mul(2)?)?,
                    order: self.order,
                    id,
                })
            }
            kind::KSYMBOL => Record::Ksymbol(Ksymbol {
                start: from.u64()?,
                len: from.u32()?,
                symbol_type: from.u16()?,
                unregister: from.u16()? & 1 != 0,
                name: c_string(from.rest()),
                id,
            }),
            kind::BPF_EVENT => Record::BpfEvent(BpfEvent {
                event_type: from.u16()?,
                flags: from.u16()?,
                program: from.u32()?,
                tag: *from.take(8)?.first_chunk()?,
                id,
            }),
            kind::CGROUP => {
                Record::Cgroup(Cgroup { cgroup: from.u64()?, path: c_string(from.rest()), id })
            }
            kind::TEXT_POKE => {
                let (address, old_len, new_len) = (from.u64()?, from.u16()?, from.u16()?);
                let (old, new) = (from.take(old_len.into())?, from.take(new_len.into())?);
                Record::TextPoke(TextPoke { address, old, new, id })
            }
            kind::AUX => {
                Record::Aux(Aux { offset: from.u64()?, size: from.u64()?, flags: from.u64()?, id })
            }
            kind::CALLCHAIN_DEFERRED => {
                let (cookie, count) = (from.u64()?, from.u64()?);
                let callchain = Callchain::new(from.words(count)?, self.order);
                Record::CallchainDeferred(CallchainDeferred { cookie, callchain, id })
            }
            _ => return None,
        })
    }
}

impl Layout {
    fn mmap2<'a>(&self, header: Header, from: &mut Cursor<'a>, id: SampleId) -> Option<Mmap2<'a>> {
        Some(Mmap2 {
            pid: from.i32()?,
            tid: from.i32()?,
            start: from.u64()?,
            len: from.u64()?,
            offset: from.u64()?,
            file: self.file_id(header, from.take(24)?)?,
            protection: from.u32()?,
            flags: from.u32()?,
            path: c_string(from.rest()),
            id,
        })
    }

    /// Decodes the identity of a mapped file: a build ID (u8 size, u8 and u16 reserved, u8 build ID[20]) or device and
    /// inode.
    ///
    /// The flag alone does not distinguish them. The kernel announces a mapping to one event after the other. Linux 5.12
    /// and later sets the flag for the first event that requests build IDs and never clears it: all events after that
    /// one, no matter which process opened them, get device and inode with the flag set. The device's major number is
    /// then in the place of the size.
    fn file_id(&self, header: Header, bytes: &[u8]) -> Option<FileId> {
        let [size, reserved @ .., _] = *bytes.first_chunk::<5>()?;
        let is_build_id = self.build_id
            && header.misc & misc::MMAP_BUILD_ID != 0
            && (1..=20).contains(&size)
            && reserved == [0; 3];
        if is_build_id {
            return Some(FileId::BuildId(BuildId::new(bytes.get(4..4 + usize::from(size))?)));
        }
        let mut from = Cursor::new(bytes, self.order);
        Some(FileId::Inode {
            major: from.u32()?,
            minor: from.u32()?,
            inode: from.u64()?,
            generation: from.u64()?,
        })
    }
}

/// Returns true if [`Layout::decode_body`] decodes this type.
fn is_decoded(kind: u32) -> bool {
    (kind::MMAP..=kind::CALLCHAIN_DEFERRED).contains(&kind)
        && !matches!(kind, kind::SAMPLE | kind::ITRACE_START | kind::AUX_OUTPUT_HW_ID)
}

fn mmap<'a>(header: Header, from: &mut Cursor<'a>, id: SampleId) -> Option<Mmap<'a>> {
    Some(Mmap {
        pid: from.i32()?,
        tid: from.i32()?,
        start: from.u64()?,
        len: from.u64()?,
        offset: from.u64()?,
        path: c_string(from.rest()),
        executable: header.misc & misc::MMAP_DATA == 0,
        id,
    })
}

fn task(header: Header, from: &mut Cursor<'_>, id: SampleId) -> Option<Task> {
    Some(Task {
        pid: from.i32()?,
        parent_pid: from.i32()?,
        tid: from.i32()?,
        parent_tid: from.i32()?,
        time: from.u64()?,
        synthesized: header.misc & misc::FORK_EXEC != 0,
        id,
    })
}

fn throttle(from: &mut Cursor<'_>, id: SampleId) -> Option<Throttle> {
    Some(Throttle { time: from.u64()?, event_id: from.u64()?, stream_id: from.u64()?, id })
}

fn switch(header: Header) -> (bool, bool) {
    (header.misc & misc::SWITCH_OUT != 0, header.misc & misc::SWITCH_OUT_PREEMPT != 0)
}
