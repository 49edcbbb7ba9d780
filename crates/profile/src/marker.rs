//! Markers: frames that stand for no code.

use crate::{Frame, FrameKind, Profile};

/// Meaning of a frame that stands for no code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Marker {
    /// At the root: the copy of the stack was too small to hold it, or it has more frames than are kept.
    Truncated,
    /// At the root: it could not be unwound any further.
    Broken,
    /// In place of the stack, which could not be copied: `execve` has replaced it already, or it was paged out.
    Unreadable,
    /// In place of the stack: of so many waits, only a part had theirs taken.
    NotTaken,
    /// In place of the inner part: there was no memory left for another stack.
    LeftOut,
    /// At the leaf, as all waits: the thread slept.
    Sleeping,
    /// It waited for a lock.
    Lock,
    /// It waited for a condition, a semaphore, the end of a thread.
    Condition,
    /// It waited for a block device.
    Io,
    /// It waited for something else in the kernel.
    Uninterruptible,
    /// It could have run, but another did.
    Preempted,
    /// It called `futex` for a lock.
    FutexLock,
    /// It called `futex` for a condition.
    FutexCondition,
    /// Between a stack that waits and, in reverse order, the stack that woke it.
    Waker,
    /// Between the parts of a stack.
    Separator,
    /// Between the frames of a virtual thread and its carrier's: callers that the virtual machine keeps in the heap until
    /// the thread returns to them.
    Frozen,
    /// In place of a stack: samples that were taken, but lost on their way.
    Lost,
    /// Remark of a source in its own words, as `[below massif's threshold]`.
    Remark,
}

impl Marker {
    /// All with a label of their own.
    pub const ALL: [Self; 17] = [
        Self::Truncated,
        Self::Broken,
        Self::Unreadable,
        Self::NotTaken,
        Self::LeftOut,
        Self::Sleeping,
        Self::Lock,
        Self::Condition,
        Self::Io,
        Self::Uninterruptible,
        Self::Preempted,
        Self::FutexLock,
        Self::FutexCondition,
        Self::Waker,
        Self::Separator,
        Self::Frozen,
        Self::Lost,
    ];

    /// The name of its frame; empty for [`Remark`](Self::Remark).
    pub fn label(self) -> &'static str {
        match self {
            Self::Truncated => "[truncated]",
            Self::Broken => "[unwinding failed]",
            Self::Unreadable => "[user stack unreadable]",
            Self::NotTaken => "[stack not taken]",
            Self::LeftOut => "[stack left out]",
            Self::Sleeping => "[sleeping]",
            Self::Lock => "[waiting for a lock]",
            Self::Condition => "[waiting for a condition]",
            Self::Io => "[waiting for I/O]",
            Self::Uninterruptible => "[waiting in the kernel]",
            Self::Preempted => "[preempted]",
            Self::FutexLock => "[lock]",
            Self::FutexCondition => "[condition]",
            Self::Waker => "--",
            Self::Separator => "-",
            Self::Frozen => "[frozen frames]",
            Self::Lost => "[lost]",
            Self::Remark => "",
        }
    }

    /// The marker with this label.
    pub fn of_label(label: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|marker| marker.label() == label)
    }

    /// True of a reason why a thread did not run.
    pub fn is_wait(self) -> bool {
        matches!(
            self,
            Self::Sleeping
                | Self::Lock
                | Self::Condition
                | Self::Io
                | Self::Uninterruptible
                | Self::Preempted
                | Self::FutexLock
                | Self::FutexCondition
        )
    }
}

impl Profile {
    /// Gives frames that are named as a marker its kind, for formats that hold names, but no kinds, or not as many.
    pub fn recognize_markers(&mut self) {
        let label = |marker: Marker| Some((self.strings.find(marker.label())?, marker));
        let known: Vec<_> = Marker::ALL.into_iter().filter_map(label).collect();
        if known.is_empty() {
            return;
        }
        self.frames.set_kinds(|frame| {
            let is_open = matches!(
                frame.kind,
                FrameKind::User | FrameKind::Kernel | FrameKind::Marker(Marker::Remark)
            );
            let is_bare = frame == Frame::named(frame.function, frame.kind);
            let named =
                known.iter().find(|(label, _)| is_open && is_bare && *label == frame.function);
            named.map_or(frame.kind, |&(_, marker)| FrameKind::Marker(marker))
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_are_recognized_by_name() {
        let mut profile = Profile::default();
        let names = ["main", "[sleeping]", "--", "[lock]", "-"];
        let [main, sleeping, waker, lock, _] = names.map(|name| profile.strings.intern(name));
        let module = profile.strings.intern("/usr/bin/app");
        let frames = [
            Frame::named(main, FrameKind::User),
            Frame::named(sleeping, FrameKind::User),
            Frame::named(waker, FrameKind::Marker(Marker::Remark)),
            Frame::named(lock, FrameKind::Kernel),
            // A function of that name, and one in both ways.
            Frame { module, ..Frame::named(sleeping, FrameKind::User) },
            Frame::named(lock, FrameKind::Marker(Marker::FutexLock)),
        ];
        let ids = frames.map(|frame| profile.frames.intern(frame));
        profile.recognize_markers();
        let kinds: Vec<_> = profile.frames.iter().map(|frame| frame.kind).collect();
        let expect = [
            FrameKind::User,
            FrameKind::Marker(Marker::Sleeping),
            FrameKind::Marker(Marker::Waker),
            // It stays: frames are distinct.
            FrameKind::Kernel,
            FrameKind::User,
            FrameKind::Marker(Marker::FutexLock),
        ];
        assert_eq!(kinds, expect);
        let found: Vec<_> = profile.frames.iter().map(|frame| profile.frames.find(frame)).collect();
        assert_eq!(found, ids.map(Some), "the index follows");
    }

    #[test]
    fn labels_are_distinct() {
        let mut labels = Marker::ALL.map(Marker::label);
        labels.sort_unstable();
        assert!(labels.windows(2).all(|pair| pair[0] < pair[1]));
        assert_eq!(Marker::Remark as usize, Marker::ALL.len());
    }
}
