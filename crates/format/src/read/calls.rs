//! Calls and returns, as traces have them, to samples.

use pyrograph_profile::{Frame, FrameId, FrameKind, Marker, Profile, Sample, StackId, ThreadId};

/// More calls inside each other are counted to the last of these, as `[deeper calls]`: text of `n` calls that each
/// begin inside the one before would make `n²` frames.
pub(crate) const MOST_DEPTH: usize = 2000;

/// More calls than these inside each other are only counted: looking for the one that a return belongs to takes as long as
/// there are calls, and so a text of `n` calls that return in the order in which they began `n²`.
const MOST_OPEN: usize = 8 * MOST_DEPTH;

/// The calls of one thread that have not returned yet.
///
/// Each stretch of time in which the stack stays the same becomes one sample, so that totals are
/// the time that each function itself took, and a chart of time shows each call where it was.
#[derive(Default)]
pub(crate) struct Calls {
    thread: ThreadId,
    /// Called functions with the caller's token, outermost first.
    open: Vec<(u64, FrameId)>,
    /// Number of calls inside the innermost of `open`, of which nothing else is known. The next returns are theirs.
    beyond: usize,
    /// The stack that `open` comes to, for each length of it.
    stacks: Vec<StackId>,
    /// Until when, in nanoseconds, the time is given to stacks.
    until: u64,
    /// Calls that were too deep to be shown.
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

    /// A call of `frame` at `time`. `token` identifies its return.
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

    /// Puts the stack of the next open call behind those of its callers.
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

    /// The return of the innermost call at `time`; `false` if there is none.
    pub fn end(&mut self, profile: &mut Profile, time: u64) -> bool {
        self.pass(profile, time);
        if self.beyond > 0 {
            self.beyond -= 1;
            return true;
        }
        self.stacks.pop();
        self.open.pop().is_some()
    }

    /// The return of the innermost call with this token, which need not be the innermost of all;
    /// `false` if there is none.
    pub fn end_token(&mut self, profile: &mut Profile, time: u64, token: u64) -> bool {
        self.end_where(profile, time, |open| open == token)
    }

    /// The same of the innermost call with one of several tokens.
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

    /// Gives the time up to `time` to the present stack. Time that goes back counts nothing.
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
