//! Selection of samples.

use std::collections::BTreeMap;

use pyrograph_profile::{FrameId, Labels, Profile, Sample, StackId, StringId, Thread};

use super::{Filter, FilterError, Moment, Pattern, TimeRange};

/// The samples that are still selected.
pub(super) struct Rows {
    /// For each row, true if the sample is kept.
    pub(super) kept: Vec<bool>,
}

impl Rows {
    pub(super) fn all(profile: &Profile) -> Self {
        Self { kept: vec![true; profile.samples.len()] }
    }

    /// Keeps only samples that pass; fails if none remains.
    fn keep(
        &mut self,
        profile: &Profile,
        what: &'static str,
        wanted: impl FnOnce() -> String,
        pass: impl Fn(Sample) -> bool,
    ) -> Result<(), FilterError> {
        let mut any = false;
        for (kept, sample) in self.kept.iter_mut().zip(profile.samples.iter()) {
            *kept = *kept && pass(sample);
            any |= *kept;
        }
        if any { Ok(()) } else { Err(FilterError::NothingLeft { what, wanted: wanted() }) }
    }

    /// Selects by the properties of samples other than their stacks.
    pub(super) fn by_sample(
        &mut self,
        filter: &Filter,
        profile: &Profile,
    ) -> Result<(), FilterError> {
        type Number = fn(&Thread) -> Option<i32>;
        let numbers: [(&'static str, &'static str, &'static str, &[i32], Number); 2] = [
            ("pid", "process numbers", "sample is of process", &filter.pids, |of| of.pid),
            ("tid", "thread numbers", "sample is of thread", &filter.tids, |of| of.tid),
        ];
        for (name, missing, what, wanted, number) in numbers {
            if wanted.is_empty() {
                continue;
            }
            if !profile.threads.iter().any(|thread| number(&thread).is_some()) {
                return Err(FilterError::Missing { filter: name, what: missing, hint: "" });
            }
            let list = || listed(wanted.iter());
            self.by_thread(profile, what, list, |thread| {
                number(thread).is_some_and(|number| wanted.contains(&number))
            })?;
        }
        if !filter.comms.is_empty() {
            self.by_comm(&filter.comms, profile)?;
        }
        if !filter.cpus.is_empty() {
            if profile.samples.iter().all(|sample| sample.cpu.is_none()) {
                return Err(FilterError::Missing { filter: "cpu", what: "CPUs", hint: "" });
            }
            let list = || {
                listed(filter.cpus.iter().map(|cpus| match (cpus.start(), cpus.end()) {
                    (first, last) if first == last => first.to_string(),
                    (first, last) => format!("{first}-{last}"),
                }))
            };
            self.keep(profile, "sample is on CPU", list, |sample| {
                sample.cpu.is_some_and(|cpu| filter.cpus.iter().any(|cpus| cpus.contains(&cpu)))
            })?;
        }
        filter.time.map_or(Ok(()), |range| self.by_time(range, profile))
    }

    fn by_thread(
        &mut self,
        profile: &Profile,
        what: &'static str,
        wanted: impl FnOnce() -> String,
        pass: impl Fn(&Thread) -> bool,
    ) -> Result<(), FilterError> {
        let passes: Vec<bool> = profile.threads.iter().map(|thread| pass(&thread)).collect();
        self.keep(profile, what, wanted, |sample| passes[sample.thread.index()])
    }

    fn by_comm(&mut self, comms: &[String], profile: &Profile) -> Result<(), FilterError> {
        let plain = |name: &str| name.replace(' ', "_");
        let wanted: Vec<String> = comms.iter().map(|comm| plain(comm)).collect();
        let is_named =
            |id: StringId| !id.is_empty() && wanted.contains(&plain(profile.strings.get(id)));
        if profile.threads.iter().all(|of| of.process.is_empty() && of.name.is_empty()) {
            return Err(FilterError::Missing {
                filter: "comm",
                what: "process names apart from frames",
                hint: "; focus on the frame of that name instead",
            });
        }
        let list = || listed(comms.iter());
        self.by_thread(profile, "sample is of a process or thread called", list, |thread| {
            is_named(thread.process) || is_named(thread.name)
        })
    }

    fn by_time(&mut self, range: TimeRange, profile: &Profile) -> Result<(), FilterError> {
        let host = |sample: Sample| profile.threads.get(sample.thread).host;
        let mut starts: BTreeMap<StringId, u64> = BTreeMap::new();
        for sample in profile.samples.iter() {
            if let Some(time) = sample.time {
                let start = starts.entry(host(sample)).or_insert(time);
                *start = time.min(*start);
            }
        }
        if starts.is_empty() {
            return Err(FilterError::Missing { filter: "time", what: "times", hint: "" });
        }
        let clock = |moment: Moment, start: u64| match moment {
            Moment::SinceStart(after) => start.saturating_add(after),
            Moment::Clock(time) => time,
        };
        self.keep(
            profile,
            "sample is",
            || "of that time".to_owned(),
            |sample| {
                let Some(time) = sample.time else { return false };
                let start = starts.get(&host(sample)).copied().unwrap_or(time);
                range.from.is_none_or(|from| clock(from, start) <= time)
                    && range.to.is_none_or(|to| time < clock(to, start))
            },
        )
    }

    /// Selects by the frames of stacks.
    pub(super) fn by_frame(
        &mut self,
        filter: &Filter,
        profile: &Profile,
        labels: &Labels,
    ) -> Result<(), FilterError> {
        for focus in &filter.focus {
            let found = Found::new(std::slice::from_ref(focus), profile, labels);
            let wanted = || format!("'{}'", focus.text);
            self.keep(profile, "stack has a frame like", wanted, |sample| found.any(sample))?;
        }
        if !filter.ignore.is_empty() {
            let found = Found::new(&filter.ignore, profile, labels);
            let wanted = || Pattern::texts(&filter.ignore);
            let what = "stack is without a frame like";
            self.keep(profile, what, wanted, |sample| !found.any(sample))?;
        }
        if !filter.from_frame.is_empty() {
            let found = Found::new(&filter.from_frame, profile, labels);
            let wanted = || Pattern::texts(&filter.from_frame);
            self.keep(profile, "stack has a frame like", wanted, |sample| found.any(sample))?;
        }
        Ok(())
    }
}

fn listed(items: impl Iterator<Item = impl ToString>) -> String {
    items.map(|item| item.to_string()).collect::<Vec<_>>().join(" or ")
}

/// Labels and frames that match any of some patterns.
pub(super) struct Matches {
    /// For each label of a function or process, true if it matches.
    label: Vec<bool>,
    /// For each frame, true if its label or its module matches.
    frame: Vec<bool>,
}

impl Matches {
    pub(super) fn new(patterns: &[Pattern], profile: &Profile, labels: &Labels) -> Self {
        let any = |module: bool, text: &str| {
            patterns.iter().any(|of| of.module == module && of.regex.is_match(text))
        };
        if patterns.is_empty() {
            let (label, frame) =
                (vec![false; labels.names.len()], vec![false; labels.frames.len()]);
            return Self { label, frame };
        }
        let label: Vec<bool> = labels.names.iter().map(|name| any(false, name)).collect();
        let by_module = patterns.iter().any(|of| of.module);
        let module: Vec<bool> = match by_module {
            // Most strings are not modules, but there are few strings compared with frames.
            true => profile.strings.iter().map(|text| any(true, text)).collect(),
            false => Vec::new(),
        };
        let in_module = |id: StringId| !id.is_empty() && module.get(id.index()) == Some(&true);
        let frame = labels.frames.iter().zip(profile.frames.iter());
        let frame = frame.map(|(name, of)| label[name.index()] || in_module(of.module)).collect();
        Self { label, frame }
    }

    pub(super) fn label(&self, label: StringId) -> bool {
        !label.is_empty() && self.label[label.index()]
    }

    pub(super) fn frame(&self, frame: FrameId) -> bool {
        self.frame[frame.index()]
    }
}

/// Threads and stacks in which any of some patterns matches.
struct Found {
    thread: Vec<bool>,
    stack: Vec<bool>,
}

impl Found {
    fn new(patterns: &[Pattern], profile: &Profile, labels: &Labels) -> Self {
        let matches = Matches::new(patterns, profile, labels);
        // Parents come before their children.
        let mut stack = vec![false; profile.stacks.len()];
        for index in 1..stack.len() {
            if let Some((parent, frame)) = profile.stacks.get(StackId::from_index(index)) {
                stack[index] = stack[parent.index()] || matches.frame(frame);
            }
        }
        let thread = labels.threads.iter().map(|&label| matches.label(label)).collect();
        Self { thread, stack }
    }

    fn any(&self, sample: Sample) -> bool {
        self.thread[sample.thread.index()] || self.stack[sample.stack.index()]
    }
}
