//! Encodes the records that describe the processes and mappings from before the recording began.

use crate::attr::sample_type;
use crate::cursor::ByteOrder;
use crate::header::{CpuMode, Header, kind, misc};
use crate::layout::Layout;
use crate::record::{Comm, FileId, Mmap2, SampleId, Task};

impl Comm<'_> {
    /// Appends the record to `out`, as a COMM record with this layout.
    pub fn encode(&self, layout: &Layout, out: &mut Vec<u8>) {
        let misc = if self.exec { misc::COMM_EXEC } else { 0 };
        let mut to = Writer::start(layout, out, kind::COMM, misc);
        to.pair(self.pid, self.tid);
        to.string(self.name);
        to.finish(&self.id);
    }
}

impl Task {
    /// Appends the record to `out`, as a FORK record with this layout.
    pub fn encode_fork(&self, layout: &Layout, out: &mut Vec<u8>) {
        let misc = if self.synthesized { misc::FORK_EXEC } else { 0 };
        let mut to = Writer::start(layout, out, kind::FORK, misc);
        to.pair(self.pid, self.parent_pid);
        to.pair(self.tid, self.parent_tid);
        to.u64(self.time);
        to.finish(&self.id);
    }
}

impl Mmap2<'_> {
    /// Appends the record to `out`, as an MMAP2 record with this layout.
    pub fn encode(&self, layout: &Layout, out: &mut Vec<u8>) {
        let mut bits = CpuMode::USER_BITS;
        if matches!(self.file, FileId::BuildId(_)) {
            bits |= misc::MMAP_BUILD_ID;
        }
        const PROT_EXEC: u32 = 4;
        if self.protection & PROT_EXEC == 0 {
            bits |= misc::MMAP_DATA;
        }
        let mut to = Writer::start(layout, out, kind::MMAP2, bits);
        to.pair(self.pid, self.tid);
        to.u64(self.start);
        to.u64(self.len);
        to.u64(self.offset);
        match self.file {
            FileId::Inode { major, minor, inode, generation } => {
                to.u32(major);
                to.u32(minor);
                to.u64(inode);
                to.u64(generation);
            }
            FileId::BuildId(build_id) => {
                let mut union = [0; 24];
                let bytes = build_id.as_bytes();
                union[0] = bytes.len() as u8;
                union[4..4 + bytes.len()].copy_from_slice(bytes);
                to.out.extend(union);
            }
        }
        to.u32(self.protection);
        to.u32(self.flags);
        to.string(self.path);
        to.finish(&self.id);
    }
}

impl CpuMode {
    /// `PERF_RECORD_MISC_USER`.
    const USER_BITS: u16 = 2;
}

/// A record that is being written. The size in its header is filled in at the end.
struct Writer<'a> {
    layout: &'a Layout,
    out: &'a mut Vec<u8>,
    start: usize,
}

impl<'a> Writer<'a> {
    fn start(layout: &'a Layout, out: &'a mut Vec<u8>, kind: u32, misc: u16) -> Self {
        let start = out.len();
        let mut writer = Self { layout, out, start };
        writer.u32(kind);
        writer.u16(misc);
        writer.u16(0);
        writer
    }

    fn u16(&mut self, value: u16) {
        self.out.extend(match self.layout.order {
            ByteOrder::Little => value.to_le_bytes(),
            ByteOrder::Big => value.to_be_bytes(),
        });
    }

    fn u32(&mut self, value: u32) {
        self.out.extend(match self.layout.order {
            ByteOrder::Little => value.to_le_bytes(),
            ByteOrder::Big => value.to_be_bytes(),
        });
    }

    fn u64(&mut self, value: u64) {
        self.out.extend(match self.layout.order {
            ByteOrder::Little => value.to_le_bytes(),
            ByteOrder::Big => value.to_be_bytes(),
        });
    }

    fn pair(&mut self, first: i32, second: i32) {
        self.u32(first.cast_unsigned());
        self.u32(second.cast_unsigned());
    }

    /// Writes the bytes before the first NUL, at most `PATH_MAX - 1` of them, then 1 to 8 NULs up to a multiple of 8,
    /// which is the kernel's padding.
    fn string(&mut self, bytes: &[u8]) {
        const PATH_MAX: usize = 4096;
        self.out.extend(bytes.iter().take_while(|byte| **byte != 0).take(PATH_MAX - 1));
        let len = self.out.len() - self.start;
        self.out.resize(self.start + (len / 8 + 1) * 8, 0);
    }

    /// Writes the fields at the end of all records except samples, then fills in the size.
    fn finish(mut self, id: &SampleId) {
        let layout = self.layout;
        let has = |bit| layout.sample_id_all && layout.sample_type & bit != 0;
        if has(sample_type::TID) {
            self.pair(id.pid.unwrap_or(-1), id.tid.unwrap_or(-1));
        }
        if has(sample_type::TIME) {
            self.u64(id.time.unwrap_or(0));
        }
        if has(sample_type::ID) {
            self.u64(id.id.unwrap_or(0));
        }
        if has(sample_type::STREAM_ID) {
            self.u64(id.stream_id.unwrap_or(0));
        }
        if has(sample_type::CPU) {
            self.u32(id.cpu.unwrap_or(0));
            self.u32(0);
        }
        if has(sample_type::IDENTIFIER) {
            self.u64(id.id.unwrap_or(0));
        }
        // The size fits: a record has at most 8 + 64 + 4096 + 48 bytes.
        let size = (self.out.len() - self.start) as u16;
        let at = self.start + Header::SIZE - 2;
        self.out[at..at + 2].copy_from_slice(&match layout.order {
            ByteOrder::Little => size.to_le_bytes(),
            ByteOrder::Big => size.to_be_bytes(),
        });
    }
}
