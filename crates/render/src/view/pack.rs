//! A profile as columns: what is in the page, and what `pyrograph` reads again (`crates/format/src/read/page.rs`).
//!
//! gzip of eleven bytes, `pyrograph` and 0 and the version, and of columns: a number that says which, a length in bytes,
//! the bytes. Who does not know a column skips it; one that is all 0 is left out. Numbers are of seven bits a byte, the
//! lowest first (LEB128). [docs/viewer.md](../../../../docs/viewer.md) lists the columns.

use std::io;

use flate2::Compression;
use pyrograph_analyze::{Diff, Verdict, ViewAddress, ViewData, ViewFrame, ViewSample, ViewThread};
use pyrograph_names::Tier;
use serde_json::Value;

use super::ViewLook;
use crate::annotate::packed;
use crate::packed::{Packed, push};

/// Counts up when a column that is there means something else.
const VERSION: u8 = 1;

/// How hard to compress.
const LEVEL: u32 = 2;

/// The columns.
#[derive(Clone, Copy)]
enum Column {
    /// JSON.
    About = 1,
    /// UTF-8, all texts one behind the other.
    Texts = 2,
    /// Of each text, in units of UTF-16.
    TextLengths = 3,
    /// Of frames, as differences: they never go down.
    Labels = 4,
    /// Of frames: 0 if it is the label, else one more than the text.
    Functions = 5,
    Modules = 6,
    Files = 7,
    Lines = 8,
    StartLines = 9,
    Addresses = 10,
    Kinds = 11,
    Guessed = 12,
    Paints = 13,
    /// Of stacks: by how many levels the caller is above the stack before.
    Ups = 14,
    Leaves = 15,
    /// Of threads: 0 if it is not known, else one more than twice the number, or for negative ones its complement.
    Pids = 16,
    Tids = 17,
    Processes = 18,
    ThreadNames = 19,
    Hosts = 20,
    /// Four for each thread.
    ThreadLabels = 21,
    /// Text and time, of each host.
    Starts = 22,
    /// Of samples: the unit in nanoseconds; how many have none, who come first; the time since the one before.
    Times = 23,
    SampleStacks = 24,
    /// Of samples without times: the stack as difference.
    SampleStackSteps = 25,
    SampleThreads = 26,
    /// Of samples: 0 if it is not known, else one more than the CPU.
    Cpus = 27,
    /// All of the first value type, then all of the second, and so on.
    Values = 28,
    /// Of stacks.
    Verdicts = 29,
    /// Text and verdict, of functions that have one.
    FunctionVerdicts = 30,
    AddressModules = 31,
    AddressBuildIds = 32,
    AddressFunctions = 33,
    AddressOffsets = 34,
    /// Of samples: 0 if it is not known, else one more than the address.
    SampleAddresses = 35,
    /// JSON.
    Code = 36,
    /// Of threads.
    Cgroups = 37,
    /// Of threads.
    CommandLines = 38,
    /// Of frames: 0 if it is the name, else one more than the text.
    FullNames = 39,
    /// Of frames: 0 if it is the label, else one more than the text.
    Names = 40,
    /// Of frames: 0 if it is not known, else one more than that of the interpreter, the first and the later compilers at run time, and
    /// of what was compiled before.
    Tiers = 41,
}

/// All columns.
pub(super) fn pack(
    data: &ViewData<'_>,
    about: &Value,
    paints: &[u64],
    look: &ViewLook<'_>,
) -> io::Result<Vec<u8>> {
    // Each level more takes longer for few bytes: 4 saves 4 % of them, 6 another 1 % for a tenth of the whole time, 9 takes as
    // long as all the rest.
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
    // These are always there: they say that there are so many.
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
        // Nodes without samples are the only ones without a number of their own.
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
    // This one is always there: it says that there are so many.
    out.all_numbers(Column::AddressOffsets, data.addresses.iter().map(|of| of.offset))?;
    let of_samples = data.samples.iter().map(|of| of.address.map_or(0, |at| u64::from(at) + 1));
    out.numbers(Column::SampleAddresses, of_samples)
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

/// The columns that are being packed.
struct Columns {
    packed: Packed,
    /// The numbers of the column that is being written.
    bytes: Vec<u8>,
}

impl Columns {
    /// A column of numbers, unless all are 0.
    fn numbers(&mut self, column: Column, numbers: impl Iterator<Item = u64>) -> io::Result<()> {
        if self.fill(numbers) == 0 { Ok(()) } else { self.write(column) }
    }

    /// The same, also if all are 0.
    fn all_numbers(
        &mut self,
        column: Column,
        numbers: impl Iterator<Item = u64>,
    ) -> io::Result<()> {
        self.fill(numbers);
        self.write(column)
    }

    /// A column of bytes.
    fn bytes(&mut self, column: Column, bytes: &[u8]) -> io::Result<()> {
        self.packed.number(column as u64)?;
        self.packed.block(bytes)
    }

    /// Takes the numbers of a column, and tells all bits that any of them has.
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
