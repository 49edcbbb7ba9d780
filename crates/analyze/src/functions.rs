//! Numbered functions of a profile, for views that sum values per function.

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use pyrograph_profile::{FrameId, FrameKind, Labels, Marker, Profile, StackId, StringId};

/// Distinct functions: frames with the same label in the same module are one function.
pub(crate) struct Functions {
    /// First frame of each function.
    pub(crate) list: Vec<FrameId>,
    /// Function of each frame.
    pub(crate) of_frame: Vec<u32>,
}

impl Functions {
    pub(crate) fn new(profile: &Profile, labels: &Labels) -> Self {
        let mut list = Vec::new();
        let mut index: HashMap<(StringId, StringId), u32, FixedState> = HashMap::default();
        let number = |(frame, &label): (usize, &StringId)| {
            let id = FrameId::from_index(frame);
            *index.entry((label, profile.frames.get(id).module)).or_insert_with(|| {
                list.push(id);
                list.len() as u32 - 1
            })
        };
        let of_frame = labels.frames.iter().enumerate().map(number).collect();
        Self { list, of_frame }
    }

    /// Functions of a stack, leaf first.
    pub(crate) fn of_stack(
        &self,
        profile: &Profile,
        stack: StackId,
    ) -> impl Iterator<Item = usize> {
        let frames = profile.stacks.leaf_first(stack);
        frames.map(|frame| self.of_frame[frame.index()] as usize)
    }

    /// Label, module and kind of a function.
    pub(crate) fn name(
        &self,
        profile: &Profile,
        labels: &Labels,
        function: usize,
    ) -> (String, String, FrameKind) {
        let id = self.list[function];
        let frame = profile.frames.get(id);
        let name = labels.names.get(labels.frames[id.index()]).to_owned();
        (name, profile.strings.get(frame.module).to_owned(), frame.kind)
    }
}

/// Kind of samples without any known frame.
pub(crate) const NO_FRAME: FrameKind = FrameKind::Marker(Marker::Remark);

/// Samples of one stack below one root label.
#[derive(Clone, Copy)]
pub(crate) struct End {
    pub(crate) root: StringId,
    pub(crate) stack: StackId,
    pub(crate) value: u64,
}

/// Returns the samples whose value is not 0, sorted by root label and with the samples of a stack merged.
pub(crate) fn ends(profile: &Profile, labels: &Labels, column: usize) -> Vec<End> {
    let end = |(sample, &value): (pyrograph_profile::Sample, &u64)| {
        let root = labels.threads[sample.thread.index()];
        End { root, stack: sample.stack, value }
    };
    let samples = profile.samples.iter().zip(profile.samples.values(column));
    let mut ends: Vec<End> = samples.map(end).filter(|end| end.value > 0).collect();
    ends.sort_unstable_by_key(|end| (end.root, end.stack));
    ends.dedup_by(|next, kept| {
        let is_same = (next.root, next.stack) == (kept.root, kept.stack);
        if is_same {
            kept.value = kept.value.saturating_add(next.value);
        }
        is_same
    });
    ends
}
