//! Calls and returns, as traces have them, to samples.

use pyrograph_profile::{Frame, FrameId, FrameKind, Marker, Profile, Sample, StackId, ThreadId};

/// More calls inside each other are counted to the last of these, as `[deeper calls]`: text of `n` calls that each
/// begin inside the one before would make `n²` frames.
pub(crate) const MOST_DEPTH: usize = 2000;

/// The calls of one thread that have not returned yet.
///
/// Each stretch of time in which the stack stays the same becomes one sample, so that totals are
/// the time that each function itself took, and a chart of time shows each call where it was.
#[derive(Default)]
pub(crate) struct Calls {
    thread: ThreadId,
    /// Called functions with the caller's token, outermost first.
    open: Vec<(u64, FrameId)>,
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
        self.open.len()
    }

    /// A call of `frame` at `time`. `token` identifies its return.
    pub fn call(&mut self, profile: &mut Profile, time: u64, frame: FrameId, token: u64) {
        self.pass(profile, time);
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
