//! `struct perf_event_attr`: the event to count and the contents of its records.
//!
//! Source: `include/uapi/linux/perf_event.h`.

use crate::cursor::{ByteOrder, Cursor};

/// `struct perf_event_attr` in the kernel's memory layout, up to `config4` (`PERF_ATTR_SIZE_VER9`, 144 bytes).
///
/// A kernel that knows only a shorter structure accepts this one if all bytes beyond the part that it knows are zero. A
/// union of the C structure has the name of the member that is used for sampling.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attr {
    /// Type of the event ([`type_id`], or the number of a PMU from sysfs).
    pub type_: u32,
    /// Size of this structure in bytes.
    pub size: u32,
    /// Event of that type ([`hardware`], [`software`], a tracepoint's ID, …).
    pub config: u64,
    /// Number of events between samples, or samples per second if [`flag::FREQ`] is set.
    pub sample_period: u64,
    /// Contents of a sample, bits of [`sample_type`].
    pub sample_type: u64,
    /// Contents of a read(2) of the event, bits of [`read_format`].
    pub read_format: u64,
    /// The bit fields as one word, bits of [`flag`]; `disabled` is bit 0.
    pub flags: u64,
    /// Number of bytes (without [`flag::WATERMARK`]: samples) in the buffer after which a reader is woken.
    pub wakeup: u32,
    /// Breakpoint type.
    pub bp_type: u32,
    /// Extension of `config`; breakpoint or probe address.
    pub config1: u64,
    /// Extension of `config1`; breakpoint length or probe offset.
    pub config2: u64,
    /// Branches to record, bits of [`branch_sample`].
    pub branch_sample_type: u64,
    /// User registers in a sample, one bit per register (see [`crate::regs`]).
    pub sample_regs_user: u64,
    /// Maximum number of bytes of the user stack in a sample; a multiple of 8.
    pub sample_stack_user: u32,
    /// Clock of the timestamps if [`flag::USE_CLOCKID`] is set.
    pub clockid: i32,
    /// Registers at the point of sampling in a sample, one bit per register.
    pub sample_regs_intr: u64,
    /// Number of bytes in the AUX area after which a reader is woken.
    pub aux_watermark: u32,
    /// Maximum length of a callchain; 0 for the limit in `/proc/sys/kernel/perf_event_max_stack`.
    pub sample_max_stack: u16,
    /// Reserved.
    pub reserved_2: u16,
    /// Number of bytes of AUX data in a sample.
    pub aux_sample_size: u32,
    /// `aux_action`, since Linux 6.14.
    pub aux_action: u32,
    /// Value passed to the signal handler if [`flag::SIGTRAP`] is set. Linux 5.13.
    pub sig_data: u64,
    /// Extension of `config2`. Linux 6.3.
    pub config3: u64,
    /// Extension of `config3`. Linux 6.18.
    pub config4: u64,
}

impl Attr {
    /// Returns a structure with its size set and all other fields zero.
    pub const fn new() -> Self {
        Self {
            type_: 0,
            size: size_of::<Self>() as u32,
            config: 0,
            sample_period: 0,
            sample_type: 0,
            read_format: 0,
            flags: 0,
            wakeup: 0,
            bp_type: 0,
            config1: 0,
            config2: 0,
            branch_sample_type: 0,
            sample_regs_user: 0,
            sample_stack_user: 0,
            clockid: 0,
            sample_regs_intr: 0,
            aux_watermark: 0,
            sample_max_stack: 0,
            reserved_2: 0,
            aux_sample_size: 0,
            aux_action: 0,
            sig_data: 0,
            config3: 0,
            config4: 0,
        }
    }

    /// Returns the structure with the bits of `flags` set.
    #[must_use]
    pub const fn with(mut self, flags: u64) -> Self {
        self.flags |= flags;
        self
    }

    /// Returns the structure with the bits of `flags` cleared.
    #[must_use]
    pub const fn without(mut self, flags: u64) -> Self {
        self.flags &= !flags;
        self
    }

    /// Returns true if all bits of `flags` are set.
    pub const fn has(&self, flags: u64) -> bool {
        self.flags & flags == flags
    }

    /// Requested skid constraint: 0 (any skid) to 3 (no skid).
    pub const fn precise_ip(&self) -> u8 {
        (self.flags >> PRECISE_IP_SHIFT & 3) as u8
    }

    /// Returns the structure with `precise_ip` set to `level`, 0 to 3.
    #[must_use]
    pub const fn with_precise_ip(mut self, level: u8) -> Self {
        self.flags =
            self.flags & !(3 << PRECISE_IP_SHIFT) | ((level & 3) as u64) << PRECISE_IP_SHIFT;
        self
    }

    /// Reads a structure that another machine or an older kernel wrote, for example in a `perf.data` header. Fields
    /// beyond the end of `bytes` are zero; bytes beyond the last known field are ignored. `size` is the value of the
    /// structure's own field.
    ///
    /// ```
    /// use pyrograph_event::{Attr, ByteOrder};
    /// let attr = Attr::parse(&[1, 0, 0, 0, 64, 0, 0, 0, 3], ByteOrder::Little);
    /// assert_eq!((attr.type_, attr.size, attr.config), (1, 64, 0));
    /// ```
    pub fn parse(bytes: &[u8], order: ByteOrder) -> Self {
        let mut padded = [0; size_of::<Self>()];
        let known = bytes.len().min(padded.len()) / 8 * 8;
        padded[..known].copy_from_slice(&bytes[..known]);
        let mut attr = Self::new();
        // The padded copy is as long as all fields together, so reading cannot fail.
        let _ = attr.fill(&mut Cursor::new(&padded, order));
        if order == ByteOrder::Big {
            attr.flags = flags_from_big_endian(attr.flags);
        }
        attr
    }

    fn fill(&mut self, from: &mut Cursor<'_>) -> Option<()> {
        self.type_ = from.u32()?;
        self.size = from.u32()?;
        self.config = from.u64()?;
        self.sample_period = from.u64()?;
        self.sample_type = from.u64()?;
        self.read_format = from.u64()?;
        self.flags = from.u64()?;
        self.wakeup = from.u32()?;
        self.bp_type = from.u32()?;
        self.config1 = from.u64()?;
        self.config2 = from.u64()?;
        self.branch_sample_type = from.u64()?;
        self.sample_regs_user = from.u64()?;
        self.sample_stack_user = from.u32()?;
        self.clockid = from.i32()?;
        self.sample_regs_intr = from.u64()?;
        self.aux_watermark = from.u32()?;
        self.sample_max_stack = from.u16()?;
        self.reserved_2 = from.u16()?;
        self.aux_sample_size = from.u32()?;
        self.aux_action = from.u32()?;
        self.sig_data = from.u64()?;
        self.config3 = from.u64()?;
        self.config4 = from.u64()?;
        Some(())
    }
}

impl Default for Attr {
    fn default() -> Self {
        Self::new()
    }
}

const PRECISE_IP_SHIFT: u32 = 15;

/// A big-endian machine allocates bit fields from the most significant bit. All fields are one bit wide except
/// `precise_ip`, whose two bits keep their order.
fn flags_from_big_endian(flags: u64) -> u64 {
    let reversed = flags.reverse_bits();
    let (low, high) = (reversed >> PRECISE_IP_SHIFT & 1, reversed >> (PRECISE_IP_SHIFT + 1) & 1);
    reversed & !(3 << PRECISE_IP_SHIFT) | low << (PRECISE_IP_SHIFT + 1) | high << PRECISE_IP_SHIFT
}

/// Values of [`Attr::type_`] (`enum perf_type_id`).
pub mod type_id {
    /// A generalized event of the CPU's PMU.
    pub const HARDWARE: u32 = 0;
    /// An event that the kernel itself counts.
    pub const SOFTWARE: u32 = 1;
    /// A tracepoint.
    pub const TRACEPOINT: u32 = 2;
    /// A generalized cache event.
    pub const HW_CACHE: u32 = 3;
    /// An event in the PMU's own encoding.
    pub const RAW: u32 = 4;
    /// A hardware breakpoint.
    pub const BREAKPOINT: u32 = 5;
    /// Bit offset of the PMU's number in `config` of [`HARDWARE`] and [`HW_CACHE`] events, on machines with different
    /// kinds of cores. Linux 5.13.
    pub const PMU_SHIFT: u32 = 32;
}

/// Values of [`Attr::config`] for [`type_id::HARDWARE`] (`enum perf_hw_id`).
#[expect(missing_docs, reason = "the names are the kernel's, and perf_event_open(2) explains each")]
pub mod hardware {
    pub const CPU_CYCLES: u64 = 0;
    pub const INSTRUCTIONS: u64 = 1;
    pub const CACHE_REFERENCES: u64 = 2;
    pub const CACHE_MISSES: u64 = 3;
    pub const BRANCH_INSTRUCTIONS: u64 = 4;
    pub const BRANCH_MISSES: u64 = 5;
    pub const BUS_CYCLES: u64 = 6;
    pub const STALLED_CYCLES_FRONTEND: u64 = 7;
    pub const STALLED_CYCLES_BACKEND: u64 = 8;
    pub const REF_CPU_CYCLES: u64 = 9;
}

/// Values of [`Attr::config`] for [`type_id::SOFTWARE`] (`enum perf_sw_ids`).
#[expect(missing_docs, reason = "the names are the kernel's, and perf_event_open(2) explains each")]
pub mod software {
    pub const CPU_CLOCK: u64 = 0;
    pub const TASK_CLOCK: u64 = 1;
    pub const PAGE_FAULTS: u64 = 2;
    pub const CONTEXT_SWITCHES: u64 = 3;
    pub const CPU_MIGRATIONS: u64 = 4;
    pub const PAGE_FAULTS_MIN: u64 = 5;
    pub const PAGE_FAULTS_MAJ: u64 = 6;
    pub const ALIGNMENT_FAULTS: u64 = 7;
    pub const EMULATION_FAULTS: u64 = 8;
    pub const DUMMY: u64 = 9;
    pub const BPF_OUTPUT: u64 = 10;
    pub const CGROUP_SWITCHES: u64 = 11;
}

/// Bits of [`Attr::sample_type`] (`enum perf_event_sample_format`).
#[expect(missing_docs, reason = "the names are the kernel's, and perf_event_open(2) explains each")]
pub mod sample_type {
    pub const IP: u64 = 1 << 0;
    pub const TID: u64 = 1 << 1;
    pub const TIME: u64 = 1 << 2;
    pub const ADDR: u64 = 1 << 3;
    pub const READ: u64 = 1 << 4;
    pub const CALLCHAIN: u64 = 1 << 5;
    pub const ID: u64 = 1 << 6;
    pub const CPU: u64 = 1 << 7;
    pub const PERIOD: u64 = 1 << 8;
    pub const STREAM_ID: u64 = 1 << 9;
    pub const RAW: u64 = 1 << 10;
    pub const BRANCH_STACK: u64 = 1 << 11;
    pub const REGS_USER: u64 = 1 << 12;
    pub const STACK_USER: u64 = 1 << 13;
    pub const WEIGHT: u64 = 1 << 14;
    pub const DATA_SRC: u64 = 1 << 15;
    pub const IDENTIFIER: u64 = 1 << 16;
    pub const TRANSACTION: u64 = 1 << 17;
    pub const REGS_INTR: u64 = 1 << 18;
    pub const PHYS_ADDR: u64 = 1 << 19;
    pub const AUX: u64 = 1 << 20;
    pub const CGROUP: u64 = 1 << 21;
    pub const DATA_PAGE_SIZE: u64 = 1 << 22;
    pub const CODE_PAGE_SIZE: u64 = 1 << 23;
    pub const WEIGHT_STRUCT: u64 = 1 << 24;
}

/// Bits of [`Attr::read_format`] (`enum perf_event_read_format`).
#[expect(missing_docs, reason = "the names are the kernel's, and perf_event_open(2) explains each")]
pub mod read_format {
    pub const TOTAL_TIME_ENABLED: u64 = 1 << 0;
    pub const TOTAL_TIME_RUNNING: u64 = 1 << 1;
    pub const ID: u64 = 1 << 2;
    pub const GROUP: u64 = 1 << 3;
    /// Linux 6.0.
    pub const LOST: u64 = 1 << 4;
}

/// Bits of [`Attr::branch_sample_type`] (`enum perf_branch_sample_type`) that affect the layout of a sample.
pub mod branch_sample {
    /// The branch stack starts with an index. Linux 5.7.
    pub const HW_INDEX: u64 = 1 << 17;
    /// The branch stack is followed by one counter word for each branch. Linux 6.8.
    pub const COUNTERS: u64 = 1 << 19;
}

/// Bits of [`Attr::flags`].
pub mod flag {
    /// The event is off until it is enabled.
    pub const DISABLED: u64 = 1 << 0;
    /// Children are counted, too.
    pub const INHERIT: u64 = 1 << 1;
    /// The event must always be on the PMU.
    pub const PINNED: u64 = 1 << 2;
    /// The event's group must be the only one on the PMU.
    pub const EXCLUSIVE: u64 = 1 << 3;
    /// User mode is not counted.
    pub const EXCLUDE_USER: u64 = 1 << 4;
    /// Kernel mode is not counted.
    pub const EXCLUDE_KERNEL: u64 = 1 << 5;
    /// The hypervisor is not counted.
    pub const EXCLUDE_HV: u64 = 1 << 6;
    /// The idle task is not counted.
    pub const EXCLUDE_IDLE: u64 = 1 << 7;
    /// MMAP records are written for executable mappings.
    pub const MMAP: u64 = 1 << 8;
    /// COMM records are written.
    pub const COMM: u64 = 1 << 9;
    /// `sample_period` is a frequency.
    pub const FREQ: u64 = 1 << 10;
    /// Counts are kept per task for inherited events.
    pub const INHERIT_STAT: u64 = 1 << 11;
    /// The next `exec` enables the event.
    pub const ENABLE_ON_EXEC: u64 = 1 << 12;
    /// FORK and EXIT records are written.
    pub const TASK: u64 = 1 << 13;
    /// `wakeup` is a number of bytes.
    pub const WATERMARK: u64 = 1 << 14;
    /// MMAP records are also written for mappings that are not executable.
    pub const MMAP_DATA: u64 = 1 << 17;
    /// All records end with the fields of [`crate::SampleId`].
    pub const SAMPLE_ID_ALL: u64 = 1 << 18;
    /// The host is not counted.
    pub const EXCLUDE_HOST: u64 = 1 << 19;
    /// Guests are not counted.
    pub const EXCLUDE_GUEST: u64 = 1 << 20;
    /// Callchains have no kernel part.
    pub const EXCLUDE_CALLCHAIN_KERNEL: u64 = 1 << 21;
    /// Callchains have no user part.
    pub const EXCLUDE_CALLCHAIN_USER: u64 = 1 << 22;
    /// MMAP2 records are written instead of MMAP. Linux 3.16.
    pub const MMAP2: u64 = 1 << 23;
    /// COMM records have a flag that is set if an `exec` caused the change. Linux 3.16.
    pub const COMM_EXEC: u64 = 1 << 24;
    /// `clockid` is the clock of the timestamps. Linux 4.1.
    pub const USE_CLOCKID: u64 = 1 << 25;
    /// SWITCH records are written. Linux 4.3.
    pub const CONTEXT_SWITCH: u64 = 1 << 26;
    /// The ring buffer is written backward. Linux 4.7.
    pub const WRITE_BACKWARD: u64 = 1 << 27;
    /// NAMESPACES records are written. Linux 4.12.
    pub const NAMESPACES: u64 = 1 << 28;
    /// KSYMBOL records are written. Linux 5.1.
    pub const KSYMBOL: u64 = 1 << 29;
    /// BPF_EVENT records are written. Linux 5.1.
    pub const BPF_EVENT: u64 = 1 << 30;
    /// AUX records are written instead of samples. Linux 5.4.
    pub const AUX_OUTPUT: u64 = 1 << 31;
    /// CGROUP records are written. Linux 5.7.
    pub const CGROUP: u64 = 1 << 32;
    /// TEXT_POKE records are written. Linux 5.9.
    pub const TEXT_POKE: u64 = 1 << 33;
    /// MMAP2 records hold the file's build ID. Linux 5.12.
    pub const BUILD_ID: u64 = 1 << 34;
    /// Only threads inherit the event, not processes. Linux 5.13.
    pub const INHERIT_THREAD: u64 = 1 << 35;
    /// An `exec` removes the event. Linux 5.13.
    pub const REMOVE_ON_EXEC: u64 = 1 << 36;
    /// The event raises SIGTRAP. Linux 5.13.
    pub const SIGTRAP: u64 = 1 << 37;
    /// User callchains follow later, in CALLCHAIN_DEFERRED records. Linux 6.19.
    pub const DEFER_CALLCHAIN: u64 = 1 << 38;
    /// This event writes the CALLCHAIN_DEFERRED records. Linux 6.19.
    pub const DEFER_OUTPUT: u64 = 1 << 39;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attr_has_the_size_and_offsets_of_the_kernels_structure() {
        use std::mem::offset_of;
        assert_eq!(size_of::<Attr>(), 144);
        assert_eq!(offset_of!(Attr, flags), 40);
        assert_eq!(offset_of!(Attr, branch_sample_type), 72);
        assert_eq!(offset_of!(Attr, clockid), 92);
        assert_eq!(offset_of!(Attr, sig_data), 120);
    }

    #[test]
    fn parse_reads_both_byte_orders() {
        // type 1, size 112, config 2, period 99, then flags: disabled, precise_ip 2, sample_id_all.
        let words = |order: fn(u64) -> [u8; 8], narrow: fn(u32) -> [u8; 4], flags: u64| {
            let mut bytes = Vec::new();
            bytes.extend(narrow(1));
            bytes.extend(narrow(112));
            for word in [2, 99, 7, 0, flags] {
                bytes.extend(order(word));
            }
            bytes
        };
        let little_flags = 1 | 2 << 15 | 1 << 18;
        let big_flags = 1 << 63 | 2 << (64 - 17) | 1 << (63 - 18);
        let little = Attr::parse(
            &words(u64::to_le_bytes, u32::to_le_bytes, little_flags),
            ByteOrder::Little,
        );
        let big =
            Attr::parse(&words(u64::to_be_bytes, u32::to_be_bytes, big_flags), ByteOrder::Big);
        assert_eq!(little, big);
        assert!(big.has(flag::DISABLED | flag::SAMPLE_ID_ALL));
        assert_eq!((big.precise_ip(), big.sample_period, big.size), (2, 99, 112));
    }

    #[test]
    fn precise_ip_is_two_bits() {
        for level in 0..4 {
            let attr = Attr::new()
                .with(flag::WATERMARK | flag::MMAP_DATA)
                .with_precise_ip(3)
                .with_precise_ip(level);
            assert_eq!(attr.precise_ip(), level);
            assert!(attr.has(flag::WATERMARK | flag::MMAP_DATA));
        }
    }
}
