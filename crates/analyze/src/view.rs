//! A profile in the order and with the numbers of the page that shows it: `pyrograph view`.
//!
//! Texts are sorted, so that names compare as their numbers do; stacks are in preorder, callees by name; samples are in
//! the order of their times, so that a span of time is a slice of them. Nothing is left out, but where there are very
//! many samples: see [`view_data`].

use std::borrow::Cow;
use std::collections::BTreeMap;

use pyrograph_names::{Name, Tier};
use pyrograph_profile::{
    Address, FrameId, FrameKind, LabelOptions, Labels, ProcessLabel, Profile, Sample, StackId,
    StringId, Strings, Thread,
};

use crate::{AsOne, ShownNames};

/// The span to which the times of samples are rounded down where there are too many, in nanoseconds.
pub const VIEW_STEP: u64 = 10_000_000;

/// A profile, numbered anew. Texts are places in [`ViewData::texts`].
#[derive(Clone, Debug)]
pub struct ViewData<'a> {
    /// The profile, for what is not numbered: value types, and what it says about itself.
    pub profile: &'a Profile,
    /// All texts, sorted by their bytes; the first is empty.
    pub texts: Vec<String>,
    /// The frames that are on a stack, sorted by label.
    pub frames: Vec<ViewFrame>,
    /// Stacks in preorder, without the empty one, which has the number 0; the first here has the number 1.
    pub stacks: Vec<ViewStack>,
    /// The number here of each stack of the profile; 0 for those that no sample has.
    pub numbers: Vec<u32>,
    /// The threads, by the profile's numbers.
    pub threads: Vec<ViewThread>,
    /// The time of the first sample of each host that has one.
    pub starts: BTreeMap<u32, u64>,
    /// The addresses of samples, where the profile has them, by module and offset.
    pub addresses: Vec<ViewAddress>,
    /// The samples: those without a time first, then by time.
    pub samples: Vec<ViewSample>,
    /// The values of the samples, a column a value type.
    pub values: Vec<Vec<u64>>,
    /// The span to which times were rounded, if they were: samples of a stack and a thread in one are added up.
    pub step: Option<u64>,
}

/// A frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ViewFrame {
    /// The name that views show: the short one, with as much before it as tells functions apart. Frames of one function that a
    /// compiler at run time made several times have one.
    pub label: u32,
    /// The label of the frame in all other outputs.
    pub name: u32,
    /// The name with all that is known of it, for details.
    pub full: u32,
    /// How far the compiler at run time had got, where the name says it.
    pub tier: Option<Tier>,
    /// The name of the function; empty if there is no symbol.
    pub function: u32,
    /// The module that holds the code.
    pub module: u32,
    /// The source file.
    pub file: u32,
    /// The source line.
    pub line: u32,
    /// The line on which the function begins.
    pub start_line: u32,
    /// The address in its module.
    pub address: u64,
    /// The kind of its code.
    pub kind: FrameKind,
    /// Found by a guess.
    pub guessed: bool,
}

/// A stack: its caller is the last one before it of the level above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ViewStack {
    /// Number of frames, from 1.
    pub depth: u32,
    /// The leaf, in [`ViewData::frames`].
    pub frame: u32,
}

/// A thread, and the names of the rows at the root that views show for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ViewThread {
    /// Process identifier.
    pub pid: Option<i32>,
    /// Thread identifier.
    pub tid: Option<i32>,
    /// The process's name.
    pub process: u32,
    /// The thread's name.
    pub name: u32,
    /// The machine.
    pub host: u32,
    /// The control group.
    pub cgroup: u32,
    /// The command line of its process.
    pub command_line: u32,
    /// Its label as [`ProcessLabel::Name`], `Process`, `PidTid` and `Pool`.
    pub labels: [u32; 4],
}

/// A sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ViewSample {
    /// The stack; 0 for the empty one.
    pub stack: u32,
    /// The thread.
    pub thread: u32,
    /// The CPU.
    pub cpu: Option<u32>,
    /// Nanoseconds since the first sample of its host.
    pub time: Option<u64>,
    /// The instruction of its leaf, in [`ViewData::addresses`].
    pub address: Option<u32>,
}

/// The address of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ViewAddress {
    /// The file that holds it.
    pub module: u32,
    /// Its build ID.
    pub build_id: u32,
    /// The name of the function.
    pub function: u32,
    /// The offset in the file.
    pub offset: u64,
}

/// The names that views show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViewNames {
    /// Short ones; in a comparison, each its own, as they were compared.
    Short,
    /// Those of the profile.
    AsTheyAre,
}

/// Numbers a profile anew. Of more than `most` samples the times are rounded down to [`VIEW_STEP`], and those that are then
/// the same in stack, thread, CPU and time are added up.
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

/// The frames that are on the stack of a sample, with texts as they are in `texts`; and the place of each frame of the
/// profile among them.
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
            // Of names in another form.
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
        });
    }
    (frames, places)
}

/// How functions are shown, by their labels in other outputs.
fn shown(profile: &Profile, labels: &Labels, is_used: &[bool]) -> ShownNames {
    let mut functions = BTreeMap::new();
    for (id, frame) in profile.frames.iter().enumerate().filter(|(id, _)| is_used[*id]) {
        if !frame.function.is_empty() && !matches!(frame.kind, FrameKind::Marker(_)) {
            functions.insert(labels.frames[id], full_name(profile, frame.function));
        }
    }
    let text = |(&label, &full)| (labels.names.get(label), profile.strings.get(full));
    let functions: Vec<(&str, &str)> = functions.iter().map(text).collect();
    // What was compared with another's values stays what it was compared as.
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

/// Which stacks samples have, and those that call them.
fn used(profile: &Profile) -> Vec<bool> {
    let mut used = vec![false; profile.stacks.len()];
    profile.samples.iter().for_each(|sample| used[sample.stack.index()] = true);
    // Callees come last.
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

/// The texts in the order of their bytes, and the place of each; the empty one, which is always there, stays the first.
fn sorted(texts: &Strings) -> (Vec<String>, Vec<u32>) {
    let all: Vec<&str> = texts.iter().collect();
    let mut order: Vec<u32> = (0..all.len() as u32).collect();
    order.sort_unstable_by_key(|&text| all[text as usize]);
    let sorted = order.iter().map(|&text| all[text as usize].to_owned()).collect();
    (sorted, inverse(&order))
}

/// The place of each number in a list of all of them.
fn inverse(order: &[u32]) -> Vec<u32> {
    let mut places = vec![0; order.len()];
    for (place, &number) in order.iter().enumerate() {
        places[number as usize] = place as u32;
    }
    places
}

/// The stacks of samples in preorder, callees in the order of their frames, and the number of each stack of the profile.
fn preorder(
    profile: &Profile,
    used: &[bool],
    frame_of: impl Fn(FrameId) -> u32,
) -> (Vec<ViewStack>, Vec<u32>) {
    // Callees of a stack are side by side; those of `stack` end at `ends[stack]`, where those of the next begin.
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
    // The first of them is at the end.
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
    /// Its leaf, by its new number.
    frame: u32,
    /// Its number in the profile.
    stack: u32,
}

/// The samples in the order of time, with their values, a column a value type. With `adds_up`, those that are the same are one.
fn in_order(
    profile: &Profile,
    adds_up: bool,
    sample: impl Fn(Sample) -> ViewSample,
) -> (Vec<ViewSample>, Vec<Vec<u64>>) {
    let of_row = |row: u32| sample(profile.samples.get(row as usize));
    // Of samples at one time, and of all where none has one, those of a stack are together: it packs better.
    let key = |row| {
        let ViewSample { time, stack, .. } = of_row(row);
        (time, stack, row)
    };
    let rest = |row| {
        let ViewSample { thread, cpu, address, .. } = of_row(row);
        (thread, cpu, address)
    };
    let mut order: Vec<_> = (0..profile.samples.len() as u32).map(key).collect();
    // Profiles are in the order of their times, or nearly: this sort takes what is sorted as it is.
    order.sort_by(|a, b| (a.0, a.1).cmp(&(b.0, b.1)).then_with(|| rest(a.2).cmp(&rest(b.2))));
    let mut samples: Vec<ViewSample> = Vec::with_capacity(order.len());
    // Whether each is a sample of its own, or is added to the one before.
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
