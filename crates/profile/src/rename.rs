//! Other names for functions.

use crate::{Frame, FrameId, Frames, Profile, StackId, Stacks, StringId};

impl Profile {
    /// Gives functions other names: `names` has that of each string that is one. What is the same then is one.
    pub fn rename_functions(&mut self, names: &[StringId]) {
        let mut frames = Frames::default();
        let new: Vec<FrameId> = self
            .frames
            .iter()
            .map(|frame| frames.intern(Frame { function: names[frame.function.index()], ..frame }))
            .collect();
        let mut stacks = Stacks::default();
        let rows = self.stacks.rows().map(|(caller, frame)| (caller.index(), new[frame.index()]));
        let moved: Vec<StackId> = stacks.intern_tree(rows);
        self.samples.map_stacks(|stack| moved[stack.index()]);
        self.addresses.set_functions(|function| names[function.index()]);
        (self.frames, self.stacks) = (frames, stacks);
    }
}
