//! A profile as columns: the data of the page, which `pyrograph` can read back (`crates/format/src/read/page.rs`).
//!
//! The data is compressed with gzip. It consists of eleven bytes, `pyrograph`, 0 and the version, followed by
//! columns: the column number, the length in bytes, and the bytes. Readers skip unknown columns. Columns with only
//! zeros are left out. Numbers are in LEB128: seven bits per byte, lowest first.
//! [docs/viewer.md](../../../../docs/viewer.md) lists the columns.

use std::io;

use flate2::Compression;
use pyrograph_analyze::{Diff, Verdict, ViewAddress, ViewData, ViewFrame, ViewSample, ViewThread};
use pyrograph_names::Tier;
use serde_json::Value;

use super::ViewLook;
use crate::annotate::packed;
use crate::packed::{Packed, push};

/// Version of the format; incremented when an existing column changes its meaning.
const VERSION: u8 = 1;

/// Compression level.
const LEVEL: u32 = 2;

/// Column numbers.
#[derive(Clone, Copy)]
enum Column {
    /// Everything that is not in a column, as JSON.
    About = 1,
    /// All texts, concatenated, in UTF-8.
    Texts = 2,
    /// Length of each text, in UTF-16 code units.
    TextLengths = 3,
    /// Label of each frame, as the difference to the previous one; labels never decrease.
    Labels = 4,
    /// Function of each frame: 0 if it is the label, otherwise the text + 1.
    Functions = 5,
    Modules = 6,
    Files = 7,
    Lines = 8,
    StartLines = 9,
    Addresses = 10,
    Kinds = 11,
    Guessed = 12,
    Paints = 13,
    /// For each stack, the number of levels by which its caller is above the previous stack.
    Ups = 14,
    Leaves = 15,
    /// For each thread, 0 if the process ID is unknown, otherwise the zigzag-encoded ID + 1.
    Pids = 16,
    Tids = 17,
    Processes = 18,
    ThreadNames = 19,
    Hosts = 20,
    /// Four labels per thread.
    ThreadLabels = 21,
    /// Text and start time of each host.
    Starts = 22,
    /// Times of samples: the unit in nanoseconds; the number of samples without a time, which come first; then the
    /// time since the previous sample.
    Times = 23,
    SampleStacks = 24,
    /// If there are no times: stack of each sample, as the difference to the previous one.
    SampleStackSteps = 25,
    SampleThreads = 26,
    /// CPU of each sample: 0 if unknown, otherwise the CPU number + 1.
    Cpus = 27,
    /// All values of the first value type, then all of the second, and so on.
    Values = 28,
    /// Verdict on each stack.
    Verdicts = 29,
    /// Text and verdict of each function that changed.
    FunctionVerdicts = 30,
    AddressModules = 31,
    AddressBuildIds = 32,
    AddressFunctions = 33,
    AddressOffsets = 34,
    /// Address of each sample: 0 if unknown, otherwise the index of the address + 1.
    SampleAddresses = 35,
    /// Annotated functions, as JSON.
    Code = 36,
    /// Control group of each thread.
    Cgroups = 37,
    /// Command line of each thread.
    CommandLines = 38,
    /// Full name of each frame: 0 if it is the name, otherwise the text + 1.
    FullNames = 39,
    /// Name of each frame: 0 if it is the label, otherwise the text + 1.
    Names = 40,
    /// Tier of each frame: 0 if unknown, 1 interpreted, 2 baseline compiler, 3 optimizing compiler, 4 compiled ahead
    /// of time.
    Tiers = 41,
    /// Each frame's [`StartPart`](pyrograph_analyze::StartPart).
    StartParts = 42,
}

/// Packs all columns.
pub(super) fn pack(
    data: &ViewData<'_>,
    about: &Value,
    paints: &[u64],
    look: &ViewLook<'_>,
) -> io::Result<Vec<u8>> {
    // Higher levels save little: 4 saves 4 % of the bytes, 6 another 1 % for a tenth of the whole time, and 9 takes
    // as long as everything else.
    let mut out = Columns { packed: Packed::new(Compression::new(LEVEL)), bytes: Vec::new() };
    out.packed.bytes(b"pyrograph\0")?;
    out.packed.bytes(&[VERSION])?;
    out.bytes(Column::About, &serde_json::to_vec(about)?)?;
    out.bytes(Column::Texts, data.texts.concat().as_bytes())?;
    out.numbers(
        Column::TextLengths,
        data.texts.iter().map(|text| text.encode_utf16().count() as u64),
    )?;
    frames(data, &mut out)?;
    out.numbers(Column::Paints, paints.iter().copied())?;
    let mut depth = 0;
    let ups = data.stacks.iter().map(|stack| {
        let up = depth + 1 - stack.depth;
        depth = stack.depth;
        u64::from(up)
    });
    out.numbers(Column::Ups, ups)?;
    // Never left out, because these columns give the numbers of stacks and samples.
    out.all_numbers(Column::Leaves, data.stacks.iter().map(|stack| stack.frame.into()))?;
    out.all_numbers(Column::SampleThreads, data.samples.iter().map(|of| of.thread.into()))?;
    threads(data, &mut out)?;
    samples(data, &mut out)?;
    addresses(data, &mut out)?;
    if !look.code.is_empty() {
        let code = packed(look.code, data.profile.shown);
        out.bytes(Column::Code, &serde_json::to_vec(&code)?)?;
    }
    if let Some(diff) = look.compared {
        verdicts(data, diff, &mut out)?;
    }
    out.packed.finish()
}

fn verdicts(data: &ViewData<'_>, diff: &Diff, out: &mut Columns) -> io::Result<()> {
    let code = |verdict: Verdict| match verdict {
        Verdict::Noise => 0,
        Verdict::More => 1,
        Verdict::Less => 2,
    };
    let mut of_stacks = vec![0; data.stacks.len() + 1];
    for (&number, &verdict) in data.numbers.iter().zip(&diff.nodes) {
        // Several nodes may have number 0: those without samples.
        of_stacks[number as usize] = of_stacks[number as usize].max(code(verdict));
    }
    out.all_numbers(Column::Verdicts, of_stacks.into_iter())?;
    let place = |name: &String| data.texts.binary_search(name).ok().map(|place| place as u64);
    let changed = diff.functions.iter().filter(|of| of.verdict != Verdict::Noise);
    let pairs = changed.filter_map(|of| Some([place(&of.name)?, code(of.verdict)]));
    out.numbers(Column::FunctionVerdicts, pairs.flatten())
}

fn frames(data: &ViewData<'_>, out: &mut Columns) -> io::Result<()> {
    let mut before = 0;
    let labels = data.frames.iter().map(|frame| {
        let step = frame.label - before;
        before = frame.label;
        u64::from(step)
    });
    out.numbers(Column::Labels, labels)?;
    let mut column =
        |column, value: fn(&ViewFrame) -> u64| out.numbers(column, data.frames.iter().map(value));
    column(Column::Functions, |of| {
        if of.function == of.label { 0 } else { u64::from(of.function) + 1 }
    })?;
    column(Column::Names, |of| if of.name == of.label { 0 } else { u64::from(of.name) + 1 })?;
    column(Column::FullNames, |of| if of.full == of.name { 0 } else { u64::from(of.full) + 1 })?;
    column(Column::Tiers, |of| match of.tier {
        None => 0,
        Some(Tier::Interpreted) => 1,
        Some(Tier::Baseline) => 2,
        Some(Tier::Optimized) => 3,
        Some(Tier::Ahead) => 4,
    })?;
    column(Column::Modules, |of| of.module.into())?;
    column(Column::Files, |of| of.file.into())?;
    column(Column::Lines, |of| of.line.into())?;
    column(Column::StartLines, |of| of.start_line.into())?;
    column(Column::Addresses, |of| of.address)?;
    column(Column::Kinds, |of| of.kind.code().into())?;
    column(Column::StartParts, |of| of.start.code().into())?;
    column(Column::Guessed, |of| of.guessed.into())
}

fn threads(data: &ViewData<'_>, out: &mut Columns) -> io::Result<()> {
    fn number(id: Option<i32>) -> u64 {
        id.map_or(0, |id| u64::from((id << 1 ^ id >> 31) as u32) + 1)
    }
    let mut column =
        |column, value: fn(&ViewThread) -> u64| out.numbers(column, data.threads.iter().map(value));
    column(Column::Pids, |of| number(of.pid))?;
    column(Column::Tids, |of| number(of.tid))?;
    column(Column::Processes, |of| of.process.into())?;
    column(Column::ThreadNames, |of| of.name.into())?;
    column(Column::Hosts, |of| of.host.into())?;
    column(Column::Cgroups, |of| of.cgroup.into())?;
    column(Column::CommandLines, |of| of.command_line.into())?;
    out.numbers(Column::ThreadLabels, data.threads.iter().flat_map(|of| of.labels).map(u64::from))?;
    out.numbers(Column::Starts, data.starts.iter().flat_map(|(&host, &time)| [host.into(), time]))
}

fn samples(data: &ViewData<'_>, out: &mut Columns) -> io::Result<()> {
    let without = data.samples.iter().filter(|sample| sample.time.is_none()).count();
    let is_timed = without < data.samples.len();
    let mut column =
        |column, value: fn(&ViewSample) -> u64| out.numbers(column, data.samples.iter().map(value));
    column(Column::Cpus, |of| of.cpu.map_or(0, |cpu| u64::from(cpu) + 1))?;
    let mut before = 0;
    if is_timed {
        column(Column::SampleStacks, |of| of.stack.into())?;
        let times = data.samples.iter().filter_map(|sample| sample.time);
        let unit = times.clone().fold(0, greatest_common_divisor).max(1);
        let steps = times.map(|time| std::mem::replace(&mut before, time).abs_diff(time) / unit);
        out.numbers(Column::Times, [unit, without as u64].into_iter().chain(steps))?;
    } else {
        let stacks = data.samples.iter().map(|sample| u64::from(sample.stack));
        let steps = stacks.map(|stack| std::mem::replace(&mut before, stack).abs_diff(stack));
        out.numbers(Column::SampleStackSteps, steps)?;
    }
    out.numbers(Column::Values, data.values.iter().flatten().copied())
}

fn addresses(data: &ViewData<'_>, out: &mut Columns) -> io::Result<()> {
    if data.addresses.is_empty() {
        return Ok(());
    }
    let mut column = |column, value: fn(&ViewAddress) -> u64| {
        out.numbers(column, data.addresses.iter().map(value))
    };
    column(Column::AddressModules, |of| of.module.into())?;
    column(Column::AddressBuildIds, |of| of.build_id.into())?;
    column(Column::AddressFunctions, |of| of.function.into())?;
    // Never left out, because this column gives the number of addresses.
    out.all_numbers(Column::AddressOffsets, data.addresses.iter().map(|of| of.offset))?;
    let of_samples = data.samples.iter().map(|of| of.address.map_or(0, |at| u64::from(at) + 1));
    out.numbers(Column::SampleAddresses, of_samples)
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

/// Columns that are being packed.
struct Columns {
    packed: Packed,
    /// Encoded numbers of the current column.
    bytes: Vec<u8>,
}

impl Columns {
    /// Writes a column of numbers, unless all are 0.
    fn numbers(&mut self, column: Column, numbers: impl Iterator<Item = u64>) -> io::Result<()> {
        if self.fill(numbers) == 0 { Ok(()) } else { self.write(column) }
    }

    /// Writes a column of numbers, even if all are 0.
    fn all_numbers(
        &mut self,
        column: Column,
        numbers: impl Iterator<Item = u64>,
    ) -> io::Result<()> {
        self.fill(numbers);
        self.write(column)
    }

    /// Writes a column of bytes.
    fn bytes(&mut self, column: Column, bytes: &[u8]) -> io::Result<()> {
        self.packed.number(column as u64)?;
        self.packed.block(bytes)
    }

    /// Encodes the numbers of a column. Returns the bitwise OR of all numbers.
    fn fill(&mut self, numbers: impl Iterator<Item = u64>) -> u64 {
        self.bytes.clear();
        numbers.fold(0, |any, number| {
            push(&mut self.bytes, number);
            any | number
        })
    }

    fn write(&mut self, column: Column) -> io::Result<()> {
        self.packed.number(column as u64)?;
        self.packed.block(&self.bytes)
    }
}
