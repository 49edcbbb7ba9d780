//! Samples: where a thread was, and the other data that the event requests.

use crate::attr::{branch_sample, read_format, sample_type};
use crate::callchain::Callchain;
use crate::cursor::{ByteOrder, Cursor, DecodeError, word_at};
use crate::header::{CpuMode, Header, kind, misc};
use crate::layout::Layout;
use crate::record::SampleId;
use crate::regs::{Abi, Regs};

/// A sample. Fields that the event's `sample_type` does not request are `None` or empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample<'a> {
    /// Mode of the CPU.
    pub mode: CpuMode,
    /// True if the instruction pointer has no skid.
    pub exact_ip: bool,
    /// Process, thread, time, CPU and event of the sample.
    pub id: SampleId,
    /// The instruction pointer.
    pub ip: Option<u64>,
    /// Address of the data, page fault or breakpoint; its meaning depends on the event.
    pub addr: Option<u64>,
    /// Amount of what the event counts (cycles, nanoseconds, …) that the sample represents.
    pub period: Option<u64>,
    /// Counts of the event or of its group.
    pub read: Option<ReadValues<'a>>,
    /// The callchain.
    pub callchain: Callchain<'a>,
    /// Raw data of the event, such as the fields of a tracepoint.
    pub raw: Option<&'a [u8]>,
    /// The most recent branches.
    pub branches: Option<BranchStack<'a>>,
    /// User-mode registers. `None` for kernel threads, too.
    pub user_regs: Option<Regs<'a>>,
    /// Copy of the top of the user stack. `None` for kernel threads, too.
    pub user_stack: Option<UserStack<'a>>,
    /// Cost of the sampled access or transaction. With `WEIGHT_STRUCT` it holds three numbers: 32, 16 and 16 bits, lowest
    /// first.
    pub weight: Option<u64>,
    /// Source of the data in the memory hierarchy (`union perf_mem_data_src`).
    pub data_src: Option<u64>,
    /// Flags of a hardware transaction.
    pub transaction: Option<u64>,
    /// Registers at the point of sampling.
    pub intr_regs: Option<Regs<'a>>,
    /// Physical address of the data.
    pub phys_addr: Option<u64>,
    /// ID of the cgroup, as in [`crate::Cgroup`].
    pub cgroup: Option<u64>,
    /// Size in bytes of the page that holds the data.
    pub data_page_size: Option<u64>,
    /// Size in bytes of the page that holds the code.
    pub code_page_size: Option<u64>,
    /// AUX data.
    pub aux: Option<&'a [u8]>,
}

/// Copy of the top of a user stack: `bytes[0]` is at the user stack pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserStack<'a> {
    /// The bytes that could be copied.
    pub bytes: &'a [u8],
    /// Number of bytes reserved for the copy. If all of them were used, the stack may continue beyond it.
    pub capacity: usize,
}

impl UserStack<'_> {
    /// Returns true if the copy fills its capacity, so that it may end before the stack does.
    pub fn is_cut(&self) -> bool {
        self.bytes.len() >= self.capacity
    }
}

impl Layout {
    /// Returns true if a record is exactly as long as its fields require. `record` is one whole record.
    pub fn fits(&self, record: &[u8]) -> bool {
        /// Bits that are known. Later kernels may have more fields.
        const KNOWN: u64 = (1 << 25) - 1;
        let Ok(header) = Header::parse(record, self.order) else { return false };
        if header.kind != kind::SAMPLE {
            return self.decode(record).is_ok();
        }
        let body = &record[Header::SIZE..usize::from(header.size)];
        let mut from = Cursor::new(body, self.order);
        let is_whole = self.sample_fields(header, &mut from, &mut "fields").is_some();
        is_whole && (self.sample_type & !KNOWN != 0 || from.rest().is_empty())
    }

    /// Decodes a sample. `record` is exactly one record.
    #[inline]
    pub(crate) fn decode_sample<'a>(
        &self,
        header: Header,
        record: &'a [u8],
    ) -> Result<Sample<'a>, DecodeError> {
        let mut from = Cursor::new(&record[Header::SIZE..], self.order);
        let mut field = "fields";
        self.sample_fields(header, &mut from, &mut field).ok_or(DecodeError::Truncated {
            kind: kind::SAMPLE,
            size: header.size,
            field,
        })
    }

    /// Decodes the fields, in the order of `perf_output_sample`. `field` is set to the part that is being read, for error
    /// messages.
    #[inline]
    fn sample_fields<'a>(
        &self,
        header: Header,
        from: &mut Cursor<'a>,
        field: &mut &'static str,
    ) -> Option<Sample<'a>> {
        let mut sample = self.sample_prefix(header, from)?;
        let has = |bit| self.sample_type & bit != 0;
        let word =
            |bit, from: &mut Cursor<'a>| if has(bit) { from.u64().map(Some) } else { Some(None) };
        if has(sample_type::READ) {
            *field = "read values";
            sample.read = Some(ReadValues::parse(from, self)?);
        }
        if has(sample_type::CALLCHAIN) {
            *field = "callchain";
            let count = from.u64()?;
            sample.callchain = Callchain::new(from.words(count)?, self.order);
        }
        if has(sample_type::RAW) {
            *field = "raw data";
            let size = from.u32()?;
            sample.raw = Some(from.take(size.into())?);
        }
        if has(sample_type::BRANCH_STACK) {
            *field = "branch stack";
            sample.branches = Some(BranchStack::parse(from, self)?);
        }
        if has(sample_type::REGS_USER) {
            *field = "user registers";
            sample.user_regs = self.sampled_regs(self.regs_user, from)?;
        }
        if has(sample_type::STACK_USER) {
            *field = "user stack";
            sample.user_stack = user_stack(from)?;
        }
        *field = "last fields";
        sample.weight = word(sample_type::WEIGHT | sample_type::WEIGHT_STRUCT, from)?;
        sample.data_src = word(sample_type::DATA_SRC, from)?;
        sample.transaction = word(sample_type::TRANSACTION, from)?;
        if has(sample_type::REGS_INTR) {
            sample.intr_regs = self.sampled_regs(self.regs_intr, from)?;
        }
        sample.phys_addr = word(sample_type::PHYS_ADDR, from)?;
        sample.cgroup = word(sample_type::CGROUP, from)?;
        sample.data_page_size = word(sample_type::DATA_PAGE_SIZE, from)?;
        sample.code_page_size = word(sample_type::CODE_PAGE_SIZE, from)?;
        if has(sample_type::AUX) {
            *field = "AUX data";
            let size = from.u64()?;
            sample.aux = Some(from.take(size)?);
        }
        Some(sample)
    }

    /// Decodes the fields of fixed size at the start of a sample.
    #[inline]
    fn sample_prefix<'a>(&self, header: Header, from: &mut Cursor<'a>) -> Option<Sample<'a>> {
        let has = |bit| self.sample_type & bit != 0;
        let word =
            |bit, from: &mut Cursor<'a>| if has(bit) { from.u64().map(Some) } else { Some(None) };
        let mut id = SampleId { id: word(sample_type::IDENTIFIER, from)?, ..SampleId::default() };
        let ip = word(sample_type::IP, from)?;
        if has(sample_type::TID) {
            (id.pid, id.tid) = (Some(from.i32()?), Some(from.i32()?));
        }
        id.time = word(sample_type::TIME, from)?;
        let addr = word(sample_type::ADDR, from)?;
        id.id = word(sample_type::ID, from)?.or(id.id);
        id.stream_id = word(sample_type::STREAM_ID, from)?;
        if has(sample_type::CPU) {
            id.cpu = Some(from.u32()?);
            from.u32()?;
        }
        Some(Sample {
            mode: CpuMode::from_misc(header.misc),
            exact_ip: header.misc & misc::EXACT_IP != 0,
            id,
            ip,
            addr,
            period: word(sample_type::PERIOD, from)?.or(self.period),
            read: None,
            callchain: Callchain::default(),
            raw: None,
            branches: None,
            user_regs: None,
            user_stack: None,
            weight: None,
            data_src: None,
            transaction: None,
            intr_regs: None,
            phys_addr: None,
            cgroup: None,
            data_page_size: None,
            code_page_size: None,
            aux: None,
        })
    }

    /// Decodes `u64 abi`, followed, unless that is `PERF_SAMPLE_REGS_ABI_NONE`, by one word for each bit of `mask`.
    #[inline]
    fn sampled_regs<'a>(&self, mask: u64, from: &mut Cursor<'a>) -> Option<Option<Regs<'a>>> {
        let abi = match from.u64()? {
            0 => return Some(None),
            1 => Abi::Bits32,
            _ => Abi::Bits64,
        };
        let bytes = from.words(mask.count_ones().into())?;
        Some(Some(Regs::new(abi, mask, bytes, self.order)))
    }
}

/// Decodes `u64 size`, followed, unless that is 0, by `size` bytes and `u64 dyn_size`.
#[inline]
fn user_stack<'a>(from: &mut Cursor<'a>) -> Option<Option<UserStack<'a>>> {
    let size = from.u64()?;
    if size == 0 {
        return Some(None);
    }
    let room = from.take(size)?;
    let copied = usize::try_from(from.u64()?).unwrap_or(usize::MAX).min(room.len());
    Some(Some(UserStack { bytes: &room[..copied], capacity: room.len() }))
}

/// Result of reading an event (`struct read_format`): one count, or the counts of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadValues<'a> {
    /// Time for which the event was enabled, in nanoseconds.
    pub time_enabled: Option<u64>,
    /// Time for which the event actually counted, in nanoseconds.
    pub time_running: Option<u64>,
    bytes: &'a [u8],
    format: u64,
    order: ByteOrder,
}

/// Count of one event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadValue {
    /// The count.
    pub value: u64,
    /// ID of the event.
    pub id: Option<u64>,
    /// Number of lost samples of the event.
    pub lost: Option<u64>,
}

impl<'a> ReadValues<'a> {
    /// Decodes the counts. Without `GROUP` the times are between the value and its ID; with `GROUP` they precede all
    /// values.
    pub(crate) fn parse(from: &mut Cursor<'a>, layout: &Layout) -> Option<Self> {
        let format = layout.read_format;
        let has = |bit| format & bit != 0;
        let word =
            |bit, from: &mut Cursor<'a>| if has(bit) { from.u64().map(Some) } else { Some(None) };
        let mut values = Self {
            time_enabled: None,
            time_running: None,
            bytes: &[],
            format,
            order: layout.order,
        };
        if !has(read_format::GROUP) {
            let start = *from;
            let words = 1 + u64::from((format & ONE_WORD_EACH).count_ones());
            values.bytes = from.words(words)?;
            let mut times = start;
            times.u64()?;
            values.time_enabled = word(read_format::TOTAL_TIME_ENABLED, &mut times)?;
            values.time_running = word(read_format::TOTAL_TIME_RUNNING, &mut times)?;
            return Some(values);
        }
        let count = from.u64()?;
        values.time_enabled = word(read_format::TOTAL_TIME_ENABLED, from)?;
        values.time_running = word(read_format::TOTAL_TIME_RUNNING, from)?;
        values.bytes = from.words(count.checked_mul(values.words_a_value() as u64)?)?;
        Some(values)
    }

    /// Iterates over the counts; a group's leader is first.
    pub fn iter(&self) -> impl Iterator<Item = ReadValue> + use<'a> {
        let values = *self;
        (0..values.len()).filter_map(move |index| values.get(index))
    }

    /// Number of counts.
    pub fn len(&self) -> usize {
        if self.format & read_format::GROUP == 0 {
            1
        } else {
            self.bytes.len() / 8 / self.words_a_value()
        }
    }

    /// Returns true if there are no counts. The kernel never writes an empty group.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn get(&self, index: usize) -> Option<ReadValue> {
        let has = |bit| self.format & bit != 0;
        let mut at = index * self.words_a_value();
        let value = word_at(self.bytes, at, self.order)?;
        at += 1;
        if !has(read_format::GROUP) {
            at += (self.format & TIMES).count_ones() as usize;
        }
        let id = if has(read_format::ID) { word_at(self.bytes, at, self.order) } else { None };
        at += usize::from(has(read_format::ID));
        let lost = if has(read_format::LOST) { word_at(self.bytes, at, self.order) } else { None };
        Some(ReadValue { value, id, lost })
    }

    fn words_a_value(&self) -> usize {
        1 + (self.format & (read_format::ID | read_format::LOST)).count_ones() as usize
    }
}

const TIMES: u64 = read_format::TOTAL_TIME_ENABLED | read_format::TOTAL_TIME_RUNNING;
const ONE_WORD_EACH: u64 = TIMES | read_format::ID | read_format::LOST;

/// The most recent branches that the CPU took, newest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BranchStack<'a> {
    /// Index of the newest branch in the hardware's own buffer.
    pub hardware_index: Option<u64>,
    bytes: &'a [u8],
    counters: &'a [u8],
    order: ByteOrder,
}

/// One branch (`struct perf_branch_entry`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Branch {
    /// Address of the branch instruction.
    pub from: u64,
    /// Address of its target.
    pub to: u64,
    /// True if it was mispredicted. If neither this nor `predicted` is set, the prediction is not known.
    pub mispredicted: bool,
    /// True if it was predicted correctly.
    pub predicted: bool,
    /// True if it was in a hardware transaction.
    pub in_transaction: bool,
    /// True if it aborted a hardware transaction.
    pub abort: bool,
    /// Cycles since the previous branch; 0 if not known.
    pub cycles: u16,
    /// Type of the branch, `PERF_BR_*`; 0 if not known.
    pub branch_type: u8,
    /// Counts of other events since the previous branch, in the hardware's encoding.
    pub counters: Option<u64>,
}

impl<'a> BranchStack<'a> {
    fn parse(from: &mut Cursor<'a>, layout: &Layout) -> Option<Self> {
        let has = |bit| layout.branch_sample_type & bit != 0;
        let count = from.u64()?;
        let hardware_index = if has(branch_sample::HW_INDEX) { Some(from.u64()?) } else { None };
        let bytes = from.words(count.checked_mul(3)?)?;
        let counters = if has(branch_sample::COUNTERS) { from.words(count)? } else { &[] };
        Some(Self { hardware_index, bytes, counters, order: layout.order })
    }

    /// Number of branches.
    pub fn len(&self) -> usize {
        self.bytes.len() / 24
    }

    /// Returns true if there are no branches.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Iterates over the branches, newest first.
    pub fn iter(&self) -> impl Iterator<Item = Branch> + use<'a> {
        let stack = *self;
        (0..stack.len()).filter_map(move |index| stack.get(index))
    }

    fn get(&self, index: usize) -> Option<Branch> {
        let word = |part| word_at(self.bytes, 3 * index + part, self.order);
        let flags = word(2)?;
        // Bit fields start at the most significant bit on a big-endian machine.
        let bits = |start: u32, len: u32| {
            let shift = if self.order == ByteOrder::Big { 64 - start - len } else { start };
            flags >> shift & ((1 << len) - 1)
        };
        Some(Branch {
            from: word(0)?,
            to: word(1)?,
            mispredicted: bits(0, 1) != 0,
            predicted: bits(1, 1) != 0,
            in_transaction: bits(2, 1) != 0,
            abort: bits(3, 1) != 0,
            cycles: bits(4, 16) as u16,
            branch_type: bits(20, 4) as u8,
            counters: word_at(self.counters, index, self.order),
        })
    }
}
