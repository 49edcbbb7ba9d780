//! Rewriting of the stacks of selected samples.

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use pyrograph_profile::{
    Frame, FrameId, FrameKind, LabelOptions, Labels, ProcessLabel, Profile, Sample, Samples,
    StackId, StringId, ThreadId, ValueType,
};

use super::recursion::recursive;
use super::select::Matches;
use super::shorten::shorten;
use super::{Filter, FilterError, Level, StackView};

/// Returns a profile with the samples in `kept`, their rewritten stacks, and no other stacks.
pub(super) fn rewrite(
    filter: &Filter,
    profile: &Profile,
    labels: &Labels,
    kept: &[bool],
) -> Result<Profile, FilterError> {
    for &level in &filter.by {
        check_level(level, profile)?;
    }
    let events = filter.by.contains(&Level::Event);
    let value_types = if events { vec![together(profile)] } else { profile.value_types.clone() };
    let mut out = Profile {
        samples: Samples::new(value_types.len()),
        value_types,
        strings: profile.strings.clone(),
        frames: profile.frames.clone(),
        threads: profile.threads.clone(),
        addresses: profile.addresses.clone(),
        full_names: profile.full_names.clone(),
        shown: if events { 0 } else { profile.shown },
        rooted: profile.rooted,
        code: profile.code.clone(),
        about: profile.about.clone(),
        ..Profile::default()
    };
    let rules = Rules::new(filter, profile, labels, &mut out);
    let roots = Roots::new(filter, profile, labels, &rules, &mut out);
    out.rooted |= roots.has_process;

    let (rows, groups) = grouped(filter, profile, kept, &roots);
    let mut stacks = vec![StackId::ROOT; rows.len()];
    let mut walk = Walk { states: vec![(0, State::default()); profile.stacks.len()], round: 0 };
    for (key, members) in groups {
        let root = roots.state(key, &rules, &mut out);
        walk.begin(root);
        for place in members {
            let sample = profile.samples.get(rows[place].0);
            stacks[place] = walk.stack(sample.stack, profile, &rules, labels, &mut out);
        }
    }
    if !filter.skip_after.is_empty() {
        // Stacks of skipped callers have been interned, too.
        drop_unused(&mut out, &mut stacks);
    }
    let mut values = vec![0; out.value_types.len()];
    for (&(row, column), stack) in rows.iter().zip(stacks) {
        if events {
            values[0] = profile.samples.values(column)[row];
        } else {
            for (column, value) in values.iter_mut().enumerate() {
                *value = profile.samples.values(column)[row];
            }
        }
        out.push(Sample { stack, ..profile.samples.get(row) }, &values);
    }
    Ok(out)
}

/// Drops the stacks that are neither in `needed` nor callers of these, and updates `needed`.
fn drop_unused(out: &mut Profile, needed: &mut [StackId]) {
    let old = std::mem::take(&mut out.stacks);
    let mut keep = vec![false; old.len()];
    for stack in &*needed {
        keep[stack.index()] = true;
    }
    // Parents come before their children.
    for index in (1..old.len()).rev() {
        if let Some((parent, _)) = old.get(StackId::from_index(index)).filter(|_| keep[index]) {
            keep[parent.index()] = true;
        }
    }
    let mut new = vec![StackId::ROOT; old.len()];
    for index in 1..old.len() {
        if let Some((parent, frame)) = old.get(StackId::from_index(index)).filter(|_| keep[index]) {
            new[index] = out.stacks.intern(new[parent.index()], frame);
        }
    }
    for stack in needed {
        *stack = new[stack.index()];
    }
}

/// Fails if the profile does not have the information that a level needs.
fn check_level(level: Level, profile: &Profile) -> Result<(), FilterError> {
    let mut threads = profile.threads.iter();
    let first = profile.value_types.first();
    let same =
        |of: &ValueType| first.is_some_and(|a| a.unit == of.unit && a.decimals == of.decimals);
    let known = match level {
        Level::Process | Level::Pool => {
            threads.any(|of| of.pid.is_some() || !of.process.is_empty() || !of.name.is_empty())
        }
        Level::Thread => threads.any(|of| of.tid.is_some()),
        Level::Host => threads.any(|of| !of.host.is_empty()),
        Level::Cgroup => threads.any(|of| !of.cgroup.is_empty()),
        Level::CommandLine => threads.any(|of| !of.command_line.is_empty()),
        Level::Field => threads.any(|of| !of.field.is_empty()),
        Level::Cpu => profile.samples.iter().any(|sample| sample.cpu.is_some()),
        Level::Event => profile.value_types.iter().all(same),
    };
    if known { Ok(()) } else { Err(FilterError::NoLevel(level)) }
}

/// The value type of all columns merged into one.
fn together(profile: &Profile) -> ValueType {
    let names: Vec<&str> = profile.value_types.iter().map(|of| of.name.as_str()).collect();
    let first = profile.value_types.first().cloned().unwrap_or_else(ValueType::samples);
    ValueType { name: names.join(" + "), ..first }
}

/// Key of samples with the same added root frames: the root of their threads, their CPU, and the column of their value.
type Key = (u32, Option<u32>, usize);

/// Rows of the result, each as a row and column of the input; and the indices of these rows, grouped by root.
type Grouped = (Vec<(usize, usize)>, Vec<(Key, Vec<usize>)>);

/// Groups the rows of the result by their added root frames.
fn grouped(filter: &Filter, profile: &Profile, kept: &[bool], roots: &Roots) -> Grouped {
    let by_cpu = filter.by.contains(&Level::Cpu);
    let by_event = filter.by.contains(&Level::Event);
    let columns = if by_event { profile.value_types.len() } else { 1 };
    let mut index: HashMap<Key, usize, FixedState> = HashMap::default();
    let mut groups: Vec<(Key, Vec<usize>)> = Vec::new();
    let mut rows = Vec::new();
    for (row, sample) in profile.samples.iter().enumerate().filter(|&(row, _)| kept[row]) {
        let cpu = sample.cpu.filter(|_| by_cpu);
        for column in 0..columns {
            if by_event && profile.samples.values(column)[row] == 0 {
                continue;
            }
            let key = (roots.of_thread[sample.thread.index()], cpu, column);
            let group = *index.entry(key).or_insert_with(|| {
                groups.push((key, Vec::new()));
                groups.len() - 1
            });
            groups[group].1.push(rows.len());
            rows.push((row, column));
        }
    }
    (rows, groups)
}

/// Rules for changing frames.
struct Rules {
    from_frame: Matches,
    needs_from_frame: bool,
    skip_after: Matches,
    hide: Matches,
    stacks: StackView,
    /// For each label, true if it is recursive and recursion is folded.
    recursive: Vec<bool>,
    /// For each frame, the frame that replaces it.
    renamed: Vec<FrameId>,
    /// Label of each replacement frame.
    label_of: Vec<StringId>,
}

impl Rules {
    fn new(filter: &Filter, profile: &Profile, labels: &Labels, out: &mut Profile) -> Self {
        let matches = |patterns| Matches::new(patterns, profile, labels);
        let mut renamed = Vec::with_capacity(profile.frames.len());
        for (index, frame) in profile.frames.iter().enumerate() {
            let short = match filter.shorten_packages {
                true => shorten(profile.strings.get(frame.function)),
                false => None,
            };
            renamed.push(match short {
                Some(short) => {
                    let function = out.strings.intern(&short);
                    out.frames.intern(Frame { function, ..frame })
                }
                None => FrameId::from_index(index),
            });
        }
        Self {
            from_frame: matches(&filter.from_frame),
            needs_from_frame: !filter.from_frame.is_empty(),
            skip_after: matches(&filter.skip_after),
            hide: matches(&filter.hide),
            stacks: filter.stacks,
            recursive: match filter.fold_recursion {
                true => recursive(profile, labels),
                false => vec![false; labels.names.len()],
            },
            label_of: labels_of(&renamed, labels),
            renamed,
        }
    }

    /// The part of a stack up to the innermost frame with a label, if there is one.
    fn back_to(&self, label: StringId, stack: StackId, out: &Profile) -> Option<StackId> {
        let mut at = stack;
        while let Some((caller, frame)) = out.stacks.get(at) {
            if self.label_of.get(frame.index()) == Some(&label) {
                return Some(at);
            }
            at = caller;
        }
        None
    }
}

/// The label of each replacement frame: the label of the first frame that it replaces.
fn labels_of(renamed: &[FrameId], labels: &Labels) -> Vec<StringId> {
    let len = renamed.iter().map(|frame| frame.index() + 1).max().unwrap_or(0);
    let mut of = vec![StringId::EMPTY; len];
    for (frame, &label) in renamed.iter().zip(&labels.frames).rev() {
        of[frame.index()] = label;
    }
    of
}

/// Root frames to add to the stacks of each thread.
struct Roots {
    /// Index into `distinct`.
    of_thread: Vec<u32>,
    distinct: Vec<Root>,
    /// True if the process is among the added frames.
    has_process: bool,
    /// The frame of each column, for [`Level::Event`].
    events: Vec<FrameId>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Root {
    levels: Vec<RootLevel>,
    /// Label of the process, if stacks may begin at it, even if a level replaces the process's frame.
    label: StringId,
    /// The process's frame, if it is added below the levels.
    process: Option<FrameId>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum RootLevel {
    Frame(FrameId),
    Cpu,
    Event,
}

impl Roots {
    fn new(
        filter: &Filter,
        profile: &Profile,
        labels: &Labels,
        rules: &Rules,
        out: &mut Profile,
    ) -> Self {
        let replaces =
            filter.by.iter().any(|by| matches!(by, Level::Process | Level::Thread | Level::Pool));
        // If nothing is put before the process or removes it, views add it at the root by themselves.
        let has_process = !filter.by.is_empty()
            || rules.needs_from_frame
            || labels.threads.iter().any(|&label| rules.hide.label(label));
        let threads = |process| {
            let options = LabelOptions { process, ..LabelOptions::default() };
            Labels::new(profile, &options)
        };
        let (by_process, by_thread) =
            (threads(ProcessLabel::Process), threads(ProcessLabel::PidTid));
        let by_pool = threads(ProcessLabel::Pool);
        let events = profile.value_types.iter().map(|of| level_frame(out, &of.name)).collect();
        let mut distinct = Vec::new();
        let mut index: HashMap<Root, u32, FixedState> = HashMap::default();
        let of_thread = (0..profile.threads.len())
            .map(ThreadId::from_index)
            .map(|id| {
                let mut level = |level: &Level| {
                    let name = match level {
                        Level::Cpu => return RootLevel::Cpu,
                        Level::Event => return RootLevel::Event,
                        Level::Process => by_process.names.get(by_process.threads[id.index()]),
                        Level::Thread => by_thread.names.get(by_thread.threads[id.index()]),
                        Level::Pool => by_pool.names.get(by_pool.threads[id.index()]),
                        Level::Host => profile.strings.get(profile.threads.get(id).host),
                        Level::Field => profile.strings.get(profile.threads.get(id).field),
                        Level::Cgroup => profile.strings.get(profile.threads.get(id).cgroup),
                        Level::CommandLine => {
                            let of = profile.threads.get(id);
                            let has_none = of.command_line.is_empty();
                            profile.strings.get(if has_none { of.process } else { of.command_line })
                        }
                    };
                    RootLevel::Frame(level_frame(out, name))
                };
                let levels = filter.by.iter().map(&mut level).collect();
                let label = labels.threads[id.index()];
                let is_shown =
                    has_process && !replaces && !label.is_empty() && !rules.hide.label(label);
                let process = is_shown.then(|| level_frame(out, labels.names.get(label)));
                let label = if rules.needs_from_frame { label } else { StringId::EMPTY };
                let root = Root { levels, label, process };
                *index.entry(root).or_insert_with_key(|root| {
                    distinct.push(root.clone());
                    distinct.len() as u32 - 1
                })
            })
            .collect();
        Self { of_thread, distinct, has_process, events }
    }

    /// State before the first frame of a stack.
    fn state(&self, (root, cpu, column): Key, rules: &Rules, out: &mut Profile) -> State {
        let root = &self.distinct[root as usize];
        let mut stack = StackId::ROOT;
        for level in &root.levels {
            let frame = match level {
                RootLevel::Frame(frame) => *frame,
                RootLevel::Event => self.events[column],
                RootLevel::Cpu => {
                    let name = cpu.map_or("CPU ?".to_owned(), |cpu| format!("CPU {cpu}"));
                    level_frame(out, &name)
                }
            };
            stack = out.stacks.intern(stack, frame);
        }
        let begun =
            !rules.needs_from_frame || !root.label.is_empty() && rules.from_frame.label(root.label);
        if let Some(frame) = root.process.filter(|_| begun) {
            stack = out.stacks.intern(stack, frame);
        }
        State { stack, begun, ..State::default() }
    }
}

/// Returns a frame that is not code.
fn level_frame(out: &mut Profile, name: &str) -> FrameId {
    let name = out.strings.intern(if name.is_empty() { "[unknown]" } else { name });
    out.frames.intern(Frame::named(name, FrameKind::User))
}

/// State while a stack is rewritten.
#[derive(Clone, Copy, Default)]
struct State {
    /// The rewritten stack so far.
    stack: StackId,
    /// True if the frame at which the stack is to begin was found.
    begun: bool,
    /// True if there was a frame, which may be the process.
    has_frames: bool,
    /// True if the last frame is not shown in this view; functions inlined into it are not shown either.
    out_of_view: bool,
}

/// Rewrites stacks that have the same added root frames, each only once.
struct Walk {
    /// By stack; a row counts only if it was written in this round.
    states: Vec<(u32, State)>,
    round: u32,
}

impl Walk {
    fn begin(&mut self, root: State) {
        self.round += 1;
        self.states[StackId::ROOT.index()] = (self.round, root);
    }

    fn stack(
        &mut self,
        stack: StackId,
        profile: &Profile,
        rules: &Rules,
        labels: &Labels,
        out: &mut Profile,
    ) -> StackId {
        let root = self.states[StackId::ROOT.index()].1;
        // Walk from the leaf to the nearest known caller, then back.
        let mut missing = Vec::new();
        let mut at = stack;
        while self.states[at.index()].0 != self.round {
            let Some((parent, frame)) = profile.stacks.get(at) else { break };
            missing.push((at, frame));
            at = parent;
        }
        let mut state = self.states[at.index()].1;
        while let Some((at, frame)) = missing.pop() {
            let kind = profile.frames.get(frame).kind;
            state.out_of_view = match (rules.stacks, kind) {
                (StackView::Merged, _) => false,
                // The first frame is the process.
                _ if profile.rooted && !state.has_frames => false,
                (_, FrameKind::Inlined) => state.out_of_view,
                (StackView::Language, kind) => kind == FrameKind::User,
                (StackView::Native, kind) => kind == FrameKind::Interpreted,
            };
            state.has_frames = true;
            state = step(state, root, frame, rules, labels, out);
            self.states[at.index()] = (self.round, state);
        }
        state.stack
    }
}

/// Adds one frame, towards the leaf.
fn step(
    mut state: State,
    root: State,
    frame: FrameId,
    rules: &Rules,
    labels: &Labels,
    out: &mut Profile,
) -> State {
    let label = labels.frames[frame.index()];
    state.begun |= rules.from_frame.frame(frame);
    if !state.begun {
        return state;
    }
    if rules.skip_after.frame(frame) {
        let State { has_frames, out_of_view, .. } = state;
        state = State { begun: true, has_frames, out_of_view, ..root };
    }
    if state.out_of_view || rules.hide.frame(frame) {
        return state;
    }
    let first = rules.recursive[label.index()].then(|| rules.back_to(label, state.stack, out));
    state.stack = match first.flatten() {
        Some(first) => first,
        None => out.stacks.intern(state.stack, rules.renamed[frame.index()]),
    };
    state
}
