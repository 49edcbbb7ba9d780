//! Result of unwinding a stack.

/// Reason why the frames of a stack ended. All but [`Root`](Self::Root) leave outer frames unknown: the caller of
/// the last frame was not found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StackEnd {
    /// The last frame is the first frame of the thread: the stack is whole.
    Root,
    /// The caller's frame is further up the stack than the copy reaches.
    Truncated,
    /// The caller's frame is below the stack pointer: it is on another stack (of a signal handler, of a coroutine)
    /// that was not copied, or the stack is damaged.
    OffStack,
    /// The code of the last frame has no table, and no frame pointer finds the caller.
    NoRule,
    /// The table of the last frame is invalid, or needs a register that is unknown.
    BadRule,
    /// The stack has more frames than were requested.
    TooManyFrames,
    /// The registers are from a later instruction than the counted one
    /// ([`Registers::set_after`](crate::Registers::set_after)), and lead to no caller: the function has returned,
    /// or more has changed.
    Moved,
    /// The code of the last frame has no table, and has not been analysed yet ([`UnreadCode::Stop`]).
    Unread,
}

/// Action at code that no table covers and whose instructions have not been analysed yet. The analysis takes some
/// milliseconds for each 8 KiB. Its result is kept in the [`UnwindInfo`](crate::UnwindInfo), for all unwinders that
/// use it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnreadCode {
    /// Analyse it.
    #[default]
    Read,
    /// End the stack there ([`StackEnd::Unread`]).
    Stop,
    /// Continue without the analysis, by frame pointers and return addresses on the stack.
    Skip,
}

/// Result of unwinding a stack: how it ended, and how far its frames can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unwound {
    /// Reason why the frames ended.
    pub end: StackEnd,
    /// Number of frames that were unwound without a table, mostly by frame pointers. A neighbour of such a frame
    /// may be missing: in the first and last instructions of a function, the frame pointer is still its caller's.
    pub without_table: u32,
    /// Number of frames that were guessed ([`Frame::guessed`](crate::Frame::guessed)). Frames found by frame
    /// pointers do not count: code that keeps frame pointers does so for unwinding.
    pub guessed: u32,
    /// Number of frames that were found with bytes from beyond the copy
    /// ([`Unwinder::unwind_live`](crate::Unwinder::unwind_live)): these frames are as of the time of unwinding.
    pub beyond_copy: u32,
    /// True if a recursion goes on where the copy ends. Its frames look the same whatever led to it, so frames that
    /// were read later may be of another moment even if they connect
    /// ([`LiveMemory::has_root`](crate::LiveMemory::has_root)).
    pub recursion_goes_beyond: bool,
    /// Bytes of the stack up to the last frame found: the size that a copy needs to reach it.
    pub depth: u64,
    /// True if the outer frames are on another stack than the copied one: a signal handler had its own stack.
    pub on_other_stack: bool,
}
