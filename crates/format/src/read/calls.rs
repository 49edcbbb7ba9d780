//! Conversion of calls and returns in traces to samples.

use pyrograph_profile::{Frame, FrameId, FrameKind, Marker, Profile, Sample, StackId, ThreadId};

/// Maximum depth of stacks. Deeper calls are counted as a frame `[deeper calls]`: otherwise a text of `n` nested
/// calls would create `n²` frames.
pub(crate) const MOST_DEPTH: usize = 2000;

/// Maximum number of open calls that are tracked; deeper ones are only counted. Finding the call that a return
/// belongs to takes time proportional to the number of open calls, so a text of `n` calls that return in the order in
/// which they began would take `n²`.
const MOST_OPEN: usize = 8 * MOST_DEPTH;

/// The open calls of one thread.
///
/// Each interval during which the stack stays the same becomes one sample. So totals are self times, and a flame
/// chart shows each call at its time.
#[derive(Default)]
pub(crate) struct Calls {
    thread: ThreadId,
    /// Token and frame of each open call, outermost first.
    open: Vec<(u64, FrameId)>,
    /// Number of calls beyond the innermost of `open`, which are only counted. They return first.
    beyond: usize,
    /// The stack of each prefix of `open`.
    stacks: Vec<StackId>,
    /// Time in nanoseconds up to which samples have been added.
    until: u64,
    /// Number of calls that were too deep to be shown.
    pub too_deep: u64,
}

impl Calls {
    pub fn new(thread: ThreadId) -> Self {
        Self { thread, ..Self::default() }
    }

    /// Number of open calls.
    pub fn depth(&self) -> usize {
        self.open.len() + self.beyond
    }

    /// Records a call of `frame` at `time`. `token` identifies its return.
    pub fn call(&mut self, profile: &mut Profile, time: u64, frame: FrameId, token: u64) {
        self.pass(profile, time);
        if self.open.len() == MOST_OPEN {
            self.beyond += 1;
            self.too_deep += 1;
            return;
        }
        self.open.push((token, frame));
        self.enter(profile, frame);
        self.too_deep += u64::from(self.stacks.len() > MOST_DEPTH);
    }

    /// Appends the stack of the next open call.
    fn enter(&mut self, profile: &mut Profile, frame: FrameId) {
        let caller = self.stacks.last().copied().unwrap_or(StackId::ROOT);
        let stack = match self.stacks.len() {
            MOST_DEPTH => {
                let name = profile.strings.intern("[deeper calls]");
                let marker =
                    profile.frames.intern(Frame::named(name, FrameKind::Marker(Marker::Remark)));
                profile.stacks.intern(caller, marker)
            }
            depth if depth > MOST_DEPTH => caller,
            _ => profile.stacks.intern(caller, frame),
        };
        self.stacks.push(stack);
    }

    /// Records the return of the innermost call at `time`; returns `false` if there is none.
    pub fn end(&mut self, profile: &mut Profile, time: u64) -> bool {
        self.pass(profile, time);
        if self.beyond > 0 {
            self.beyond -= 1;
            return true;
        }
        self.stacks.pop();
        self.open.pop().is_some()
    }

    /// Records the return of the innermost call with this token, which need not be the innermost of all; returns
    /// `false` if there is none.
    pub fn end_token(&mut self, profile: &mut Profile, time: u64, token: u64) -> bool {
        self.end_where(profile, time, |open| open == token)
    }

    /// Records the return of the innermost call whose token matches `is_it`.
    pub fn end_where(
        &mut self,
        profile: &mut Profile,
        time: u64,
        is_it: impl Fn(u64) -> bool,
    ) -> bool {
        self.pass(profile, time);
        if self.beyond > 0 {
            self.beyond -= 1;
            return true;
        }
        let Some(at) = self.open.iter().rposition(|&(open, _)| is_it(open)) else { return false };
        self.open.remove(at);
        self.stacks.truncate(at);
        for index in at..self.open.len() {
            self.enter(profile, self.open[index].1);
        }
        true
    }

    /// Adds a sample of the current stack for the time up to `time`. Time that goes backwards is ignored.
    pub fn pass(&mut self, profile: &mut Profile, time: u64) {
        if let Some(&stack) = self.stacks.last()
            && time > self.until
        {
            let sample =
                Sample { thread: self.thread, time: Some(self.until), ..Sample::new(stack) };
            profile.push(sample, &[time - self.until]);
        }
        self.until = self.until.max(time);
    }
}

#[cfg(test)]
mod tests {
    use pyrograph_profile::ValueType;

    use super::*;

    #[test]
    fn calls_that_return_in_the_order_in_which_they_began_took_the_square_of_their_number() {
        let mut profile = Profile::new(vec![ValueType::new("time", "ns")]);
        let name = profile.strings.intern("f");
        let frame = profile.frames.intern(Frame::named(name, FrameKind::User));
        let most = MOST_OPEN as u64 + 10;
        // Those inside of all others return first, whatever their tokens are; then the outermost.
        let mut calls = Calls::default();
        (0..most).for_each(|call| calls.call(&mut profile, call, frame, call));
        assert_eq!((calls.depth(), calls.beyond), (MOST_OPEN + 10, 10));
        assert!((0..10).all(|call| calls.end_token(&mut profile, most + call, most - call)));
        assert!((0..10).all(|call| calls.end_token(&mut profile, most + 10 + call, call)));
        assert_eq!((calls.depth(), calls.beyond), (MOST_OPEN - 10, 0));
        assert!(!calls.end_token(&mut profile, most + 20, 3));
        // What returns in the right order is as it was.
        let mut calls = Calls::default();
        (0..most).for_each(|call| calls.call(&mut profile, call, frame, 0));
        assert!((0..most).all(|call| calls.end(&mut profile, most + call)));
        assert!(!calls.end(&mut profile, 2 * most));
        assert_eq!(calls.too_deep, most - MOST_DEPTH as u64);
    }
}
