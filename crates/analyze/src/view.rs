//! A profile in the order and with the numbering of the page that shows it: `pyrograph view`.
//!
//! Strings are sorted, so that names compare like their numbers. Stacks are in preorder, with callees sorted by name.
//! Samples are in time order, so that a time span is a slice of them. Nothing is left out, but very many samples are
//! merged: see [`view_data`].

use std::borrow::Cow;
use std::collections::BTreeMap;

use pyrograph_names::{Name, Tier};
use pyrograph_profile::{
    Address, FrameId, FrameKind, LabelOptions, Labels, ProcessLabel, Profile, Sample, StackId,
    StringId, Strings, Thread,
};

use crate::{AsOne, ShownNames, StartPart};

/// Step to which the times of samples are rounded down if there are too many, in nanoseconds.
pub const VIEW_STEP: u64 = 10_000_000;

/// A renumbered profile. Strings are indices into [`ViewData::texts`].
#[derive(Clone, Debug)]
pub struct ViewData<'a> {
    /// The original profile, for everything that is not renumbered: value types, and its description.
    pub profile: &'a Profile,
    /// All strings, sorted by their bytes; the first is empty.
    pub texts: Vec<String>,
    /// Frames that are on a stack, sorted by label.
    pub frames: Vec<ViewFrame>,
    /// Stacks in preorder, without the empty stack, which has number 0; the first element has number 1.
    pub stacks: Vec<ViewStack>,
    /// New number of each stack of the profile; 0 for stacks without samples.
    pub numbers: Vec<u32>,
    /// Threads, by the profile's numbers.
    pub threads: Vec<ViewThread>,
    /// Time of the first sample of each host that has samples with times.
    pub starts: BTreeMap<u32, u64>,
    /// Addresses of samples, if the profile has them, sorted by module, build ID and offset.
    pub addresses: Vec<ViewAddress>,
    /// Samples: first those without a time, then by time.
    pub samples: Vec<ViewSample>,
    /// Values of the samples, one column per value type.
    pub values: Vec<Vec<u64>>,
    /// Step to which times were rounded, if they were; samples that became equal were merged.
    pub step: Option<u64>,
}

/// A frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ViewFrame {
    /// Name shown by views: the short name, with as much of the full name as is needed to distinguish functions.
    /// Frames of one function that a JIT compiler compiled several times share a label.
    pub label: u32,
    /// Label of the frame in all other outputs.
    pub name: u32,
    /// Full name, for details.
    pub full: u32,
    /// Compilation tier, if the name contains it.
    pub tier: Option<Tier>,
    /// Name of the function; empty if there is no symbol.
    pub function: u32,
    /// Module that contains the code.
    pub module: u32,
    /// Source file.
    pub file: u32,
    /// Source line.
    pub line: u32,
    /// Line on which the function starts.
    pub start_line: u32,
    /// Address in the module.
    pub address: u64,
    /// Kind of code.
    pub kind: FrameKind,
    /// True if the frame was found by a guess.
    pub guessed: bool,
    /// Role in the start of a thread.
    pub start: StartPart,
}

/// A stack. Its caller is the last stack before it with a depth that is smaller by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ViewStack {
    /// Number of frames, at least 1.
    pub depth: u32,
    /// Leaf frame, as an index into [`ViewData::frames`].
    pub frame: u32,
}

/// A thread, with its labels at the roots of stacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ViewThread {
    /// Process ID.
    pub pid: Option<i32>,
    /// Thread ID.
    pub tid: Option<i32>,
    /// Process name.
    pub process: u32,
    /// Thread name.
    pub name: u32,
    /// Host name.
    pub host: u32,
    /// Control group.
    pub cgroup: u32,
    /// Command line of the process.
    pub command_line: u32,
    /// Labels as [`ProcessLabel::Name`], `Process`, `PidTid` and `Pool`.
    pub labels: [u32; 4],
}

/// A sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ViewSample {
    /// Number of the stack; 0 for the empty stack.
    pub stack: u32,
    /// Index into [`ViewData::threads`].
    pub thread: u32,
    /// CPU, if known.
    pub cpu: Option<u32>,
    /// Nanoseconds since the first sample of the same host, if known.
    pub time: Option<u64>,
    /// Address of the leaf's instruction, as an index into [`ViewData::addresses`].
    pub address: Option<u32>,
}

/// The address of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ViewAddress {
    /// File that contains the instruction.
    pub module: u32,
    /// Build ID of the file.
    pub build_id: u32,
    /// Name of the function.
    pub function: u32,
    /// Offset in the file.
    pub offset: u64,
}

/// Form of the names that views show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViewNames {
    /// Short names; in a comparison, names of different functions stay different.
    Short,
    /// Names of the profile.
    AsTheyAre,
}

/// Renumbers a profile. If it has more than `most` samples with times, times are rounded down to [`VIEW_STEP`], and
/// samples with the same stack, thread, CPU, time and address are merged.
pub fn view_data(profile: &Profile, most: usize, names: ViewNames) -> ViewData<'_> {
    let mut texts = Strings::default();
    let used = used(profile);
    let (mut frames, frame_ids) = frames(profile, &used, names, &mut texts);
    let mut threads = threads(profile, &mut texts);
    let mut addresses = addresses(profile, &mut texts);
    let (sorted, rank) = sorted(&texts);
    addresses.iter_mut().flat_map(ViewAddress::texts).for_each(|text| *text = rank[*text as usize]);
    let mut address_order: Vec<u32> = (0..addresses.len() as u32).collect();
    address_order.sort_by_key(|&at| {
        let ViewAddress { module, build_id, offset, function } = addresses[at as usize];
        (module, build_id, offset, function)
    });
    let address_rank = inverse(&address_order);
    let addresses = address_order.iter().map(|&at| addresses[at as usize]).collect();
    frames.iter_mut().flat_map(ViewFrame::texts).for_each(|text| *text = rank[*text as usize]);
    threads.iter_mut().flat_map(ViewThread::texts).for_each(|text| *text = rank[*text as usize]);

    let mut order: Vec<u32> = (0..frames.len() as u32).collect();
    order.sort_by_key(|&frame| {
        let ViewFrame { label, module, kind, name, .. } = frames[frame as usize];
        (label, module, kind.code(), name, frame)
    });
    let frame_rank = inverse(&order);
    let frames: Vec<ViewFrame> = order.iter().map(|&frame| frames[frame as usize]).collect();
    let frame_of = |id: FrameId| frame_rank[frame_ids[id.index()] as usize];
    let (stacks, numbers) = preorder(profile, &used, frame_of);

    let mut starts = BTreeMap::new();
    let host = |sample: &Sample| threads[sample.thread.index()].host;
    for sample in profile.samples.iter() {
        if let Some(time) = sample.time {
            let start = starts.entry(host(&sample)).or_insert(time);
            *start = time.min(*start);
        }
    }
    let is_timed = profile.samples.iter().any(|sample| sample.time.is_some());
    let step = (is_timed && profile.samples.len() > most).then_some(VIEW_STEP);
    let sample = |sample: Sample| ViewSample {
        stack: numbers[sample.stack.index()],
        thread: sample.thread.0,
        cpu: sample.cpu,
        time: sample.time.map(|time| {
            let time = time - starts[&host(&sample)];
            step.map_or(time, |step| time - time % step)
        }),
        address: sample.address.map(|address| address_rank[address.index()]),
    };
    let (samples, values) = in_order(profile, step.is_some(), sample);
    ViewData {
        profile,
        texts: sorted,
        frames,
        stacks,
        numbers,
        threads,
        starts,
        addresses,
        samples,
        values,
        step,
    }
}

impl ViewFrame {
    fn texts(&mut self) -> [&mut u32; 6] {
        let Self { label, name, full, function, module, file, .. } = self;
        [label, name, full, function, module, file]
    }
}

impl ViewAddress {
    fn texts(&mut self) -> [&mut u32; 3] {
        [&mut self.module, &mut self.build_id, &mut self.function]
    }
}

impl ViewThread {
    fn texts(&mut self) -> impl Iterator<Item = &mut u32> {
        let Self { process, name, host, cgroup, command_line, labels, .. } = self;
        [process, name, host, cgroup, command_line].into_iter().chain(labels)
    }
}

/// Frames that are on the stack of a sample, with IDs of strings in `texts`; and for each frame of the profile its
/// index among them.
fn frames(
    profile: &Profile,
    used: &[bool],
    names: ViewNames,
    texts: &mut Strings,
) -> (Vec<ViewFrame>, Vec<u32>) {
    let labels = Labels::new(profile, &LabelOptions::default());
    let mut is_used = vec![false; profile.frames.len()];
    for (&stack, (_, frame)) in used[1..].iter().zip(profile.stacks.rows()) {
        is_used[frame.index()] |= stack;
    }
    let shown = match names {
        ViewNames::Short => shown(profile, &labels, &is_used),
        ViewNames::AsTheyAre => ShownNames::default(),
    };
    let mut frames = Vec::new();
    let mut places = vec![0; is_used.len()];
    for (id, frame) in profile.frames.iter().enumerate().filter(|(id, _)| is_used[*id]) {
        places[id] = frames.len() as u32;
        let name = labels.names.get(labels.frames[id]);
        let label = shown.label(name);
        let full = match (shown.function(label), profile.full_names.get(frame.function)) {
            (Some(_), _) => {
                let full = Name::of(profile.strings.get(full_name(profile, frame.function)));
                (full.full, full.tier)
            }
            // Names that have been converted to another form.
            (None, Some(full)) => (profile.strings.get(full).into(), None),
            (None, None) => (name.into(), None),
        };
        let (full, tier): (Cow<'_, str>, Option<Tier>) = full;
        let mut text = |of: &str| texts.intern(of).0;
        frames.push(ViewFrame {
            label: text(label),
            name: text(name),
            full: text(&full),
            tier,
            function: text(profile.strings.get(frame.function)),
            module: text(profile.strings.get(frame.module)),
            file: text(profile.strings.get(frame.file)),
            line: frame.line,
            start_line: frame.start_line,
            address: frame.address,
            kind: frame.kind,
            guessed: frame.guessed,
            start: StartPart::of(
                name,
                || Some(&full),
                profile.strings.get(frame.module),
                frame.kind,
            ),
        });
    }
    (frames, places)
}

/// Names shown for functions, by their labels in other outputs.
fn shown(profile: &Profile, labels: &Labels, is_used: &[bool]) -> ShownNames {
    let mut functions = BTreeMap::new();
    for (id, frame) in profile.frames.iter().enumerate().filter(|(id, _)| is_used[*id]) {
        if !frame.function.is_empty() && !matches!(frame.kind, FrameKind::Marker(_)) {
            functions.insert(labels.frames[id], full_name(profile, frame.function));
        }
    }
    let text = |(&label, &full)| (labels.names.get(label), profile.strings.get(full));
    let functions: Vec<(&str, &str)> = functions.iter().map(text).collect();
    // The values of a comparison belong to the names that were compared.
    let as_one = if profile.is_comparison() { AsOne::Nothing } else { AsOne::Tiers };
    ShownNames::of(&functions, as_one)
}

fn full_name(profile: &Profile, function: StringId) -> StringId {
    profile.full_names.get(function).unwrap_or(function)
}

fn addresses(profile: &Profile, texts: &mut Strings) -> Vec<ViewAddress> {
    let mut text = |id| texts.intern(profile.strings.get(id)).0;
    let address = |of: Address| ViewAddress {
        module: text(of.module),
        build_id: text(of.build_id),
        function: text(of.function),
        offset: of.offset,
    };
    profile.addresses.iter().map(address).collect()
}

/// For each stack, true if a sample has it or one of its callees.
fn used(profile: &Profile) -> Vec<bool> {
    let mut used = vec![false; profile.stacks.len()];
    profile.samples.iter().for_each(|sample| used[sample.stack.index()] = true);
    // Callers have lower numbers than their callees.
    for stack in (1..used.len()).rev() {
        if let Some((parent, _)) = profile.stacks.get(StackId::from_index(stack)) {
            used[parent.index()] |= used[stack];
        }
    }
    used
}

fn threads(profile: &Profile, texts: &mut Strings) -> Vec<ViewThread> {
    let labels =
        [ProcessLabel::Name, ProcessLabel::Process, ProcessLabel::PidTid, ProcessLabel::Pool]
            .map(|process| Labels::of_threads(profile, process));
    let thread = |(id, thread): (usize, Thread)| {
        let mut text = |of: &str| texts.intern(of).0;
        ViewThread {
            pid: thread.pid,
            tid: thread.tid,
            process: text(profile.strings.get(thread.process)),
            name: text(profile.strings.get(thread.name)),
            host: text(profile.strings.get(thread.host)),
            cgroup: text(profile.strings.get(thread.cgroup)),
            command_line: text(profile.strings.get(thread.command_line)),
            labels: labels.each_ref().map(|of| text(&of[id])),
        }
    };
    profile.threads.iter().enumerate().map(thread).collect()
}

/// Sorts strings by their bytes, and returns the new index of each; the empty string, which always exists, stays first.
fn sorted(texts: &Strings) -> (Vec<String>, Vec<u32>) {
    let all: Vec<&str> = texts.iter().collect();
    let mut order: Vec<u32> = (0..all.len() as u32).collect();
    order.sort_unstable_by_key(|&text| all[text as usize]);
    let sorted = order.iter().map(|&text| all[text as usize].to_owned()).collect();
    (sorted, inverse(&order))
}

/// Inverts a permutation.
fn inverse(order: &[u32]) -> Vec<u32> {
    let mut places = vec![0; order.len()];
    for (place, &number) in order.iter().enumerate() {
        places[number as usize] = place as u32;
    }
    places
}

/// Stacks of samples in preorder, with callees in the order of their frames; and the new number of each stack of the
/// profile.
fn preorder(
    profile: &Profile,
    used: &[bool],
    frame_of: impl Fn(FrameId) -> u32,
) -> (Vec<ViewStack>, Vec<u32>) {
    // The callees of a stack are adjacent: those of `stack` end at `ends[stack]`, where those of the next stack begin.
    let mut ends = vec![0_u32; used.len() + 1];
    let rows = || profile.stacks.rows().zip(1_u32..).filter(|&(_, stack)| used[stack as usize]);
    rows().for_each(|((parent, _), _)| ends[parent.index() + 1] += 1);
    let mut sum = 0;
    for end in &mut ends {
        sum += *end;
        *end = sum;
    }
    let mut callees = vec![Callee::default(); sum as usize];
    for ((parent, frame), stack) in rows() {
        let end = &mut ends[parent.index()];
        callees[*end as usize] = Callee { frame: frame_of(frame), stack };
        *end += 1;
    }
    let mut stacks = Vec::with_capacity(callees.len());
    let mut numbers = vec![0; used.len()];
    // The next stack is the last element.
    let mut waiting: Vec<(Callee, u32)> = Vec::new();
    let mut at = Some((0, 0));
    while let Some((stack, depth)) = at {
        let begin = if stack == 0 { 0 } else { ends[stack as usize - 1] };
        let callees = &mut callees[begin as usize..ends[stack as usize] as usize];
        callees.sort_unstable_by_key(|of| (of.frame, of.stack));
        waiting.extend(callees.iter().rev().map(|&callee| (callee, depth + 1)));
        at = waiting.pop().map(|(Callee { frame, stack }, depth)| {
            stacks.push(ViewStack { depth, frame });
            numbers[stack as usize] = stacks.len() as u32;
            (stack, depth)
        });
    }
    (stacks, numbers)
}

/// A stack among those with the same caller.
#[derive(Clone, Copy, Default)]
struct Callee {
    /// New number of its leaf frame.
    frame: u32,
    /// Number of the stack in the profile.
    stack: u32,
}

/// Samples in time order with their values, one column per value type. With `adds_up`, equal samples are merged.
fn in_order(
    profile: &Profile,
    adds_up: bool,
    sample: impl Fn(Sample) -> ViewSample,
) -> (Vec<ViewSample>, Vec<Vec<u64>>) {
    let of_row = |row: u32| sample(profile.samples.get(row as usize));
    // Samples with the same time, or all samples if there are no times, are sorted by stack, which compresses better.
    let key = |row| {
        let ViewSample { time, stack, .. } = of_row(row);
        (time, stack, row)
    };
    let rest = |row| {
        let ViewSample { thread, cpu, address, .. } = of_row(row);
        (thread, cpu, address)
    };
    let mut order: Vec<_> = (0..profile.samples.len() as u32).map(key).collect();
    // Profiles are nearly in time order; this sort is fast for sorted input.
    order.sort_by(|a, b| (a.0, a.1).cmp(&(b.0, b.1)).then_with(|| rest(a.2).cmp(&rest(b.2))));
    let mut samples: Vec<ViewSample> = Vec::with_capacity(order.len());
    // For each row, true if it begins a new sample, false if it is merged into the previous one.
    let is_new = order.iter().map(|&(_, _, row)| {
        let sample = of_row(row);
        let is_new = !adds_up || samples.last() != Some(&sample);
        if is_new {
            samples.push(sample);
        }
        is_new
    });
    let is_new: Vec<bool> = is_new.collect();
    let column = |of| {
        let all = profile.samples.values(of);
        let mut values: Vec<u64> = Vec::with_capacity(samples.len());
        for (&(_, _, row), &is_new) in order.iter().zip(&is_new) {
            let value = all[row as usize];
            match values.last_mut().filter(|_| !is_new) {
                Some(sum) => *sum = sum.saturating_add(value),
                None => values.push(value),
            }
        }
        values
    };
    let values = (0..profile.samples.columns()).map(column).collect();
    (samples, values)
}

#[cfg(test)]
mod tests;
