//! Replaces names of functions, or frames.

use crate::{Frame, FrameId, Frames, Profile, StackId, Stacks, StringId};

impl Profile {
    /// Renames functions: `names[i]` is the new name of the function whose name is string `i`. Frames and stacks that
    /// become equal are merged.
    pub fn rename_functions(&mut self, names: &[StringId]) {
        self.map_frames(|frame| Frame { function: names[frame.function.index()], ..frame });
        self.addresses.set_functions(|function| names[function.index()]);
    }

    /// Replaces each frame. Frames and stacks that become equal are merged.
    pub fn map_frames(&mut self, other: impl Fn(Frame) -> Frame) {
        let mut frames = Frames::default();
        let new: Vec<FrameId> =
            self.frames.iter().map(|frame| frames.intern(other(frame))).collect();
        let mut stacks = Stacks::default();
        let rows = self.stacks.rows().map(|(caller, frame)| (caller.index(), new[frame.index()]));
        let moved: Vec<StackId> = stacks.intern_tree(rows);
        self.samples.map_stacks(|stack| moved[stack.index()]);
        (self.frames, self.stacks) = (frames, stacks);
    }
}
