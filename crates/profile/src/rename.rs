//! Other names for functions, and other frames.

use crate::{Frame, FrameId, Frames, Profile, StackId, Stacks, StringId};

impl Profile {
    /// Gives functions other names: `names` has that of each string that is one. What is the same then is one.
    pub fn rename_functions(&mut self, names: &[StringId]) {
        self.map_frames(|frame| Frame { function: names[frame.function.index()], ..frame });
        self.addresses.set_functions(|function| names[function.index()]);
    }

    /// Puts another frame in the place of each. What is the same then is one.
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
