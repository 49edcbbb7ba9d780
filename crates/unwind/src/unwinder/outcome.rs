//! The result of unwinding a stack.

/// Where the frames of a stack ended, and why. All but [`Root`](Self::Root) leave outer frames
/// unknown; the last frame found is the one whose caller was not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StackEnd {
    /// With the first frame of the thread: the stack is whole.
    Root,
    /// The caller is further up the stack than was copied.
    Truncated,
    /// The caller is below the stack pointer: on another stack (a signal handler's own, a
    /// coroutine's), of which there is no copy, or the stack is damaged.
    OffStack,
    /// The last frame's code has no table, and no frame pointer that would lead on.
    NoRule,
    /// The last frame's table makes no sense, or asks for a register that is not known.
    BadRule,
    /// There are more frames than were asked for.
    TooManyFrames,
    /// The registers are of a later instruction than the one that was counted ([`Registers::set_after`](crate::Registers::set_after)),
    /// and lead to no caller: the function has returned, or more has changed.
    Moved,
    /// The last frame's code has no table, and was not read yet ([`UnreadCode::Stop`]).
    Unread,
}

/// What to do at code that no table covers and whose instructions were not read yet: that takes some milliseconds for each
/// 8 KiB. What was read is kept with the [`UnwindInfo`](crate::UnwindInfo), for all who unwind through it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnreadCode {
    /// Read it.
    #[default]
    Read,
    /// End the stack there ([`StackEnd::Unread`]).
    Stop,
    /// Go on without, by frame pointers and return addresses on the stack.
    Skip,
}

/// How a stack ended, and how far its frames can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unwound {
    /// Where the frames ended, and why.
    pub end: StackEnd,
    /// How many frames were left without the help of a table, by frame pointers for the most part.
    /// Next to such a frame, one may be missing: in its first and last instructions a function's
    /// frame pointer is still its caller's.
    pub without_table: u32,
    /// How many frames were found by a guess ([`Frame::guessed`](crate::Frame::guessed)). Frame pointers are none: code that keeps them
    /// does so for this.
    pub guessed: u32,
    /// How many frames were found by what was read from beyond the copy
    /// ([`Unwinder::unwind_live`](crate::Unwinder::unwind_live)): they are as the stack was when it was unwound.
    pub beyond_copy: u32,
    /// A recursion goes on where the copy ends: its frames look alike whatever led to it, so that those which were
    /// read later, and do lead on, may be of another moment ([`LiveMemory::has_root`](crate::LiveMemory::has_root)).
    pub recursion_goes_beyond: bool,
    /// Bytes of the stack up to the last frame found: what a copy had to hold to get there.
    pub depth: u64,
    /// The outer frames are on another stack than the copied one: a signal handler had its own.
    pub on_other_stack: bool,
}
