//! Markers: frames that represent no code.

use crate::{Frame, FrameKind, Profile};

/// Meaning of a frame that represents no code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Marker {
    /// At the root: the stack was larger than its copy, has more frames than are kept, or could not be read any further.
    Truncated,
    /// At the root: the stack could not be unwound any further.
    Broken,
    /// Instead of the stack: it could not be copied, because `execve` had already replaced it or because it was paged
    /// out.
    Unreadable,
    /// Instead of the stack: there were so many waits that stacks were taken for only a part of them.
    NotTaken,
    /// Instead of the inner frames: there was no memory left for another stack.
    LeftOut,
    /// At the leaf, as for all waits: the thread slept.
    Sleeping,
    /// The thread waited for a lock.
    Lock,
    /// The thread waited for a condition variable, a semaphore, or the end of a thread.
    Condition,
    /// The thread waited for a block device.
    Io,
    /// The thread waited for something else in the kernel.
    Uninterruptible,
    /// The thread was runnable, but another thread had the CPU.
    Preempted,
    /// The thread called `futex` for a lock.
    FutexLock,
    /// The thread called `futex` for a condition variable or the like.
    FutexCondition,
    /// Between the stack of a waiting thread and the stack of its waker, which follows in reverse order.
    Waker,
    /// Between two parts of a stack.
    Separator,
    /// Between the frames of a virtual thread and its carrier's frames: callers that the virtual machine keeps in the
    /// heap until the thread returns to them.
    Frozen,
    /// Instead of a stack: samples that were taken and then lost.
    Lost,
    /// A remark in the words of the source, such as `[below massif's threshold]`.
    Remark,
}

impl Marker {
    /// All markers with a fixed label.
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

    /// Label of the marker's frame; empty for [`Remark`](Self::Remark).
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

    /// Returns the marker with this label.
    pub fn of_label(label: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|marker| marker.label() == label)
    }

    /// Returns true if the marker is a reason why a thread did not run.
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
    /// Turns frames that are named like a marker into markers, for formats that have names but no frame kinds, or only
    /// some of them.
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
