//! Stacks before symbolization: addresses in modules. Each distinct frame and stack is stored once.

use std::hash::BuildHasher;

use foldhash::fast::FixedState;
use hashbrown::HashTable;
pub use pyrograph_profile::Marker;
use pyrograph_profile::{FrameId, FrameKind, Sample, Samples, StackId, Stacks, StringId};

use crate::module_ids::ModuleId;

/// One frame before symbolization.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RawFrame {
    /// The module that holds the code.
    pub module: ModuleId,
    /// A file offset, or the address itself if the module is not a file. For a caller this is the last byte of the call
    /// instruction, not the return address, which may belong to another function.
    pub address: u64,
    /// Version of the function, if several functions were at the address one after the other: 0, or as `versions.rs`
    /// assigns it. The highest bit is set if the frame was guessed.
    bits: u32,
}

/// Flag in [`RawFrame::bits`]: the frame was guessed.
const GUESSED: u32 = 1 << 31;

/// Kind of code that runs a function of a language with a virtual machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FunctionCode {
    /// Run by the interpreter.
    Interpreted = 2,
    /// JIT-compiled code of the function itself.
    Compiled = 3,
    /// JIT-compiled code of a caller, into which the function was inlined.
    Inlined = 4,
}

impl RawFrame {
    /// Frame of an address in a module.
    pub const fn new(module: ModuleId, address: u64) -> Self {
        Self { module, address, bits: 0 }
    }

    /// Returns the frame, marked as guessed or not.
    pub const fn guessed(self, guessed: bool) -> Self {
        let bits = if guessed { self.bits | GUESSED } else { self.bits & !GUESSED };
        Self { bits, ..self }
    }

    /// Returns true if the frame was guessed.
    pub const fn is_guessed(self) -> bool {
        self.bits & GUESSED != 0
    }

    /// Version of the function, if several functions were at the address one after the other: 0, or as `versions.rs`
    /// assigns it.
    pub const fn version(self) -> u32 {
        self.bits & !GUESSED
    }

    /// Returns the frame with another version, which must be below 2^31.
    pub const fn with_version(self, version: u32) -> Self {
        Self { bits: self.bits & GUESSED | version & !GUESSED, ..self }
    }

    /// Marker frame, at the root of a stack whose outer part is missing, or at the leaf of a waiting thread's stack.
    pub const fn marker(marker: Marker) -> Self {
        Self::new(ModuleId(u32::MAX), marker as u64)
    }

    /// Frame that represents no code. Its text, in the table of labels, names a thread or process that acts, or a
    /// request to the kernel.
    pub fn label(text: StringId, in_kernel: bool) -> Self {
        Self::new(LABEL, u64::from(text.0) << 3 | u64::from(in_kernel))
    }

    /// Frame of a function of a language that is interpreted or JIT-compiled. `text` is its
    /// [`FunctionLabel`](crate::language_frames::FunctionLabel).
    pub fn function(text: StringId, code: FunctionCode) -> Self {
        Self::new(LABEL, u64::from(text.0) << 3 | code as u64)
    }

    /// Returns the frame of the same function in JIT-compiled code; frames other than interpreted functions are
    /// returned unchanged.
    pub(crate) fn compiled(self) -> Self {
        match self.as_label() {
            Some((text, FrameKind::Interpreted)) => Self::function(text, FunctionCode::Compiled),
            _ => self,
        }
    }

    /// Text and kind of a label; `None` for other frames.
    pub fn as_label(self) -> Option<(StringId, FrameKind)> {
        let kind = match self.address & 7 {
            0 => FrameKind::User,
            1 => FrameKind::Kernel,
            2 => FrameKind::Interpreted,
            3 => FrameKind::Jit,
            _ => FrameKind::Inlined,
        };
        let text = StringId(u32::try_from(self.address >> 3).ok()?);
        (self.module == LABEL).then_some((text, kind))
    }

    /// Returns true if the frame is an address in code.
    pub fn is_code(self) -> bool {
        self.as_marker().is_none() && self.as_label().is_none()
    }

    /// The marker; `None` for other frames.
    pub fn as_marker(self) -> Option<Marker> {
        (self.module.0 == u32::MAX).then(|| {
            Marker::ALL
                .into_iter()
                .find(|&marker| marker as u64 == self.address)
                .unwrap_or(Marker::Remark)
        })
    }
}

/// Pseudo-module of labels.
const LABEL: ModuleId = ModuleId(u32::MAX - 1);

/// One sample with its weight.
#[derive(Clone, Copy, Debug)]
pub struct RawSample {
    /// Stack, thread, CPU and time.
    pub sample: Sample,
    /// Weight of the sample.
    pub weight: Weight,
}

/// The weight of a sample, or the sum of several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weight {
    /// Sum of the event's periods.
    pub value: u64,
    /// Number of samples.
    pub samples: u64,
}

impl Weight {
    /// Number of value columns in tables of samples.
    pub const COLUMNS: usize = 2;

    /// Weight of one sample.
    pub const fn one(value: u64) -> Self {
        Self { value, samples: 1 }
    }

    /// Weight in a row of a table of samples.
    pub fn at(samples: &Samples, row: usize) -> Self {
        Self { value: samples.values(0)[row], samples: samples.values(1)[row] }
    }

    /// Values of the columns.
    pub const fn columns(self) -> [u64; Self::COLUMNS] {
        [self.value, self.samples]
    }

    /// Adds the weight to a row of a table of samples.
    pub fn add_to(self, samples: &mut Samples, row: usize) {
        for (column, value) in self.columns().into_iter().enumerate() {
            samples.add(row, column, value);
        }
    }
}

/// Interned frames: equal frames have equal [`FrameId`]s.
#[derive(Debug)]
struct RawFrames {
    rows: Vec<RawFrame>,
    index: HashTable<FrameId>,
    hasher: FixedState,
}

impl Default for RawFrames {
    fn default() -> Self {
        Self { rows: Vec::new(), index: HashTable::new(), hasher: FixedState::with_seed(0) }
    }
}

impl RawFrames {
    /// Distinct frames, indexed by [`FrameId`].
    fn rows(&self) -> &[RawFrame] {
        &self.rows
    }

    /// Returns the ID of a frame, which is added if it is new.
    fn intern(&mut self, frame: RawFrame) -> FrameId {
        let (rows, hasher) = (&mut self.rows, &self.hasher);
        let hash = hasher.hash_one(frame);
        if let Some(id) = self.index.find(hash, |id| rows[id.index()] == frame) {
            return *id;
        }
        let id = FrameId::from_index(rows.len());
        rows.push(frame);
        self.index.insert_unique(hash, id, |id| hasher.hash_one(rows[id.index()]));
        id
    }

    fn bytes(&self) -> usize {
        self.rows.capacity() * size_of::<RawFrame>() + self.index.allocation_size()
    }
}

/// Distinct frames and stacks, and the samples. A system-wide recording that runs for long has new ones all the time,
/// so each takes as little memory as possible.
#[derive(Debug)]
pub struct RawStacks {
    frames: RawFrames,
    /// Distinct stacks; their frames are rows of `frames`.
    pub stacks: Stacks,
    /// All samples, or, if times are not kept, one total for each stack and thread.
    samples: Samples,
    /// Index of the rows of `samples`, if times are not kept.
    totals: Totals,
}

/// Index of samples without times, by stack, thread, CPU and address.
#[derive(Debug)]
pub struct Totals {
    rows: HashTable<u32>,
    hasher: FixedState,
}

impl Default for Totals {
    fn default() -> Self {
        Self { rows: HashTable::new(), hasher: FixedState::with_seed(0) }
    }
}

impl Totals {
    /// Finds the row with the sample's stack, thread, CPU and address.
    pub fn find(&self, samples: &Samples, sample: Sample) -> Option<usize> {
        let is_it = |row: &u32| samples.get(*row as usize) == sample;
        self.rows.find(self.hash(sample), is_it).map(|row| *row as usize)
    }

    /// Adds a weight to the row with the sample's stack, thread, CPU and address. The sample has no time.
    pub fn add(&mut self, samples: &mut Samples, sample: Sample, weight: Weight) {
        if let Some(row) = self.find(samples, sample) {
            return weight.add_to(samples, row);
        }
        // The number of rows fits `u32`, as does the number of stacks.
        let row = samples.len() as u32;
        samples.push(sample, &weight.columns());
        let own = self.hash(sample);
        let hasher = &self.hasher;
        self.rows.insert_unique(own, row, |row| hash(hasher, samples.get(*row as usize)));
    }

    /// Size in memory, in bytes.
    pub fn bytes(&self) -> usize {
        self.rows.allocation_size()
    }

    fn hash(&self, sample: Sample) -> u64 {
        hash(&self.hasher, sample)
    }
}

fn hash(hasher: &FixedState, sample: Sample) -> u64 {
    hasher.hash_one((sample.stack, sample.thread, sample.cpu, sample.address))
}

impl Default for RawStacks {
    fn default() -> Self {
        Self {
            frames: RawFrames::default(),
            stacks: Stacks::default(),
            samples: Samples::new(Weight::COLUMNS),
            totals: Totals::default(),
        }
    }
}

impl RawStacks {
    /// Distinct frames; a [`FrameId`] in `stacks` is an index into them.
    pub fn frames(&self) -> &[RawFrame] {
        self.frames.rows()
    }

    /// Returns the ID of a stack, given **leaf first**.
    pub fn intern(&mut self, leaf_first: &[RawFrame]) -> StackId {
        let mut stack = StackId::ROOT;
        for &frame in leaf_first.iter().rev() {
            let id = self.frames.intern(frame);
            stack = self.stacks.intern(stack, id);
        }
        stack
    }

    /// Adds a stack of another table. `moved` maps that table's stacks to the stacks here, as far as they have been
    /// added.
    pub fn copy(&mut self, from: &Self, stack: StackId, moved: &mut [Option<StackId>]) -> StackId {
        let mut missing = Vec::new();
        let mut at = stack;
        let mut here = loop {
            if let Some(known) = moved[at.index()] {
                break known;
            }
            let Some((parent, frame)) = from.stacks.get(at) else { break StackId::ROOT };
            missing.push((at, frame));
            at = parent;
        };
        moved[at.index()] = Some(here);
        while let Some((at, frame)) = missing.pop() {
            let frame = self.frames.intern(from.frames()[frame.index()]);
            here = self.stacks.intern(here, frame);
            moved[at.index()] = Some(here);
        }
        here
    }

    /// Frames of a stack, leaf first.
    pub fn leaf_first(&self, stack: StackId) -> impl Iterator<Item = RawFrame> {
        self.stacks.leaf_first(stack).map(|frame| self.frames()[frame.index()])
    }

    /// Size of all tables in memory, in bytes.
    pub fn bytes(&self) -> usize {
        self.frames.bytes() + self.stacks.bytes() + self.samples.bytes() + self.totals.bytes()
    }

    /// All samples.
    pub fn samples(&self) -> impl ExactSizeIterator<Item = RawSample> + '_ {
        (0..self.samples.len()).map(|row| RawSample {
            sample: self.samples.get(row),
            weight: Weight::at(&self.samples, row),
        })
    }

    /// Removes all samples and returns them.
    pub fn take_samples(&mut self) -> impl ExactSizeIterator<Item = RawSample> + use<> {
        self.totals.rows.clear();
        let samples = std::mem::replace(&mut self.samples, Samples::new(Weight::COLUMNS));
        (0..samples.len()).map(move |row| RawSample {
            sample: samples.get(row),
            weight: Weight::at(&samples, row),
        })
    }

    /// Drops the times: samples become one total for each stack and thread.
    pub fn forget_times(&mut self) {
        for row in self.take_samples() {
            self.add(row.sample, row.weight);
        }
    }

    /// Adds a sample with its time.
    pub fn push(&mut self, sample: Sample, weight: Weight) {
        self.samples.push(sample, &weight.columns());
    }

    /// Adds a sample's weight to the total of its stack and thread; time and CPU are not kept.
    pub fn add(&mut self, sample: Sample, weight: Weight) {
        self.add_on_cpu(Sample { cpu: None, ..sample }, weight);
    }

    /// Like [`RawStacks::add`], but with a separate total for each CPU.
    pub fn add_on_cpu(&mut self, sample: Sample, weight: Weight) {
        self.totals.add(&mut self.samples, Sample { time: None, ..sample }, weight);
    }
}
