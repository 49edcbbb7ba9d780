//! Headers of records: type, flags and size.
//!
//! Source: `struct perf_event_header` and the definitions after it in `include/uapi/linux/perf_event.h`.

use crate::cursor::{ByteOrder, Cursor, DecodeError};

/// Values of [`Header::kind`].
#[expect(missing_docs, reason = "each is explained at its variant of `Record`")]
pub mod kind {
    pub const MMAP: u32 = 1;
    pub const LOST: u32 = 2;
    pub const COMM: u32 = 3;
    pub const EXIT: u32 = 4;
    pub const THROTTLE: u32 = 5;
    pub const UNTHROTTLE: u32 = 6;
    pub const FORK: u32 = 7;
    pub const READ: u32 = 8;
    pub const SAMPLE: u32 = 9;
    pub const MMAP2: u32 = 10;
    pub const AUX: u32 = 11;
    pub const ITRACE_START: u32 = 12;
    pub const LOST_SAMPLES: u32 = 13;
    pub const SWITCH: u32 = 14;
    pub const SWITCH_CPU_WIDE: u32 = 15;
    pub const NAMESPACES: u32 = 16;
    pub const KSYMBOL: u32 = 17;
    pub const BPF_EVENT: u32 = 18;
    pub const CGROUP: u32 = 19;
    pub const TEXT_POKE: u32 = 20;
    pub const AUX_OUTPUT_HW_ID: u32 = 21;
    pub const CALLCHAIN_DEFERRED: u32 = 22;
    /// First type that the kernel does not write: types from here on are written by perf, into `perf.data`.
    pub const FIRST_OF_PERF: u32 = 64;

    /// Name of the type in the kernel's header, without `PERF_RECORD_`; `unknown` for other types.
    pub fn name(kind: u32) -> &'static str {
        const NAMES: [&str; 23] = [
            "unknown",
            "MMAP",
            "LOST",
            "COMM",
            "EXIT",
            "THROTTLE",
            "UNTHROTTLE",
            "FORK",
            "READ",
            "SAMPLE",
            "MMAP2",
            "AUX",
            "ITRACE_START",
            "LOST_SAMPLES",
            "SWITCH",
            "SWITCH_CPU_WIDE",
            "NAMESPACES",
            "KSYMBOL",
            "BPF_EVENT",
            "CGROUP",
            "TEXT_POKE",
            "AUX_OUTPUT_HW_ID",
            "CALLCHAIN_DEFERRED",
        ];
        usize::try_from(kind).ok().and_then(|index| NAMES.get(index)).unwrap_or(&"unknown")
    }
}

/// Bits of [`Header::misc`]. The meaning of some bits depends on the record's type.
pub mod misc {
    /// Mask of the bits that hold the [`crate::CpuMode`].
    pub const CPU_MODE: u16 = 7;
    /// MMAP, MMAP2: the mapping is not executable.
    pub const MMAP_DATA: u16 = 1 << 13;
    /// COMM: the name was changed by an `exec`.
    pub const COMM_EXEC: u16 = 1 << 13;
    /// FORK: the record was synthesized from `/proc`, not written by the kernel.
    pub const FORK_EXEC: u16 = 1 << 13;
    /// SWITCH, SWITCH_CPU_WIDE: the task left the CPU.
    pub const SWITCH_OUT: u16 = 1 << 13;
    /// SAMPLE: the instruction pointer has no skid.
    pub const EXACT_IP: u16 = 1 << 14;
    /// SWITCH, SWITCH_CPU_WIDE: the task left the CPU although it was runnable (it was preempted).
    pub const SWITCH_OUT_PREEMPT: u16 = 1 << 14;
    /// MMAP2: the record holds a build ID instead of device and inode.
    pub const MMAP_BUILD_ID: u16 = 1 << 14;
}

/// `struct perf_event_header`: the start of every record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The record's type ([`kind`]).
    pub kind: u32,
    /// Flags ([`misc`]).
    pub misc: u16,
    /// The record's size in bytes, this header included.
    pub size: u16,
}

impl Header {
    /// Size of a header in bytes.
    pub const SIZE: usize = 8;

    /// Reads the header at the start of `bytes`, which must hold the whole record.
    ///
    /// # Errors
    ///
    /// If there is no header, or if its size is below 8 or beyond the end of `bytes`.
    pub fn parse(bytes: &[u8], order: ByteOrder) -> Result<Self, DecodeError> {
        let len = bytes.len();
        let header =
            Self::read(&mut Cursor::new(bytes, order)).ok_or(DecodeError::Header { len })?;
        if usize::from(header.size) < Self::SIZE || usize::from(header.size) > len {
            return Err(DecodeError::Size { kind: header.kind, size: header.size, len });
        }
        Ok(header)
    }

    fn read(from: &mut Cursor<'_>) -> Option<Self> {
        Some(Self { kind: from.u32()?, misc: from.u16()?, size: from.u16()? })
    }

    /// The CPU's mode.
    pub fn cpu_mode(&self) -> CpuMode {
        CpuMode::from_misc(self.misc)
    }
}

/// Mode of the CPU when the record was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names say it")]
pub enum CpuMode {
    Unknown,
    Kernel,
    User,
    Hypervisor,
    GuestKernel,
    GuestUser,
}

impl CpuMode {
    /// Decodes the CPU mode in [`Header::misc`].
    pub fn from_misc(misc: u16) -> Self {
        match misc & misc::CPU_MODE {
            1 => Self::Kernel,
            2 => Self::User,
            3 => Self::Hypervisor,
            4 => Self::GuestKernel,
            5 => Self::GuestUser,
            _ => Self::Unknown,
        }
    }
}
