//! Role of a frame: user or kernel code, JIT-compiled code, waiting, or not a function. It is derived from the
//! frame's kind, the annotation at the end of its name, and other frames of the stack.

use pyrograph_analyze::FlameGraph;
use pyrograph_names::{CodeKind, kind_by_form, marked_kind};
use pyrograph_profile::{FrameKind, Labels, Marker};

/// Role of a frame, as shown by its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Role {
    User,
    Inlined,
    Kernel,
    Jit,
    Interpreted,
    Waker,
    /// More than half of the frame's value was waiting.
    Waiting,
    /// The whole graph, or a thread in a chart.
    Whole,
    /// Code without a symbol.
    Unknown,
    /// A marker, which is a remark on the stack.
    Marker,
    /// `-`, between the parts of a stack.
    Separator,
    /// `--`, between stacks.
    WideSeparator,
}

impl Role {
    /// Roles that have a label in the legend.
    #[cfg(test)]
    pub(crate) const LABELLED: [Self; 9] = [
        Self::User,
        Self::Inlined,
        Self::Kernel,
        Self::Jit,
        Self::Interpreted,
        Self::Waker,
        Self::Waiting,
        Self::Unknown,
        Self::Marker,
    ];

    /// Label in the legend.
    pub(crate) fn label(self) -> Option<&'static str> {
        Some(match self {
            Self::User => "user",
            Self::Inlined => "inlined",
            Self::Kernel => "kernel",
            Self::Jit => "JIT",
            Self::Interpreted => "interpreted",
            Self::Waker => "waker",
            Self::Waiting => "waiting",
            Self::Unknown => "no symbol",
            Self::Marker => "incomplete",
            Self::Whole | Self::Separator | Self::WideSeparator => return None,
        })
    }

    /// Merges all roles of code that ran into [`Role::User`].
    pub(crate) fn running_or_not(self) -> Self {
        match self {
            Self::Kernel | Self::Inlined | Self::Jit | Self::Interpreted | Self::Waker => {
                Self::User
            }
            other => other,
        }
    }

    /// Role of each frame of a graph. Frames above a `--` belong to wakers, and the stack of the waiting thread is
    /// below it; waits are marked only in graphs without such frames.
    pub(crate) fn of_frames(graph: &FlameGraph) -> Vec<Self> {
        let mut roles: Vec<Self> = Vec::with_capacity(graph.frames.len());
        // Parents come before their children.
        let mut woken = vec![false; graph.frames.len()];
        // By name: most frames with the same name have the same kind.
        let mut known: Vec<Option<(FrameKind, Self)>> = vec![None; graph.names.len()];
        for (index, frame) in graph.frames.iter().enumerate() {
            let parent = frame.parent as usize;
            let names_thread = graph.threads.binary_search(&frame.depth).is_ok();
            let role = if index == 0 || names_thread {
                Self::Whole
            } else {
                woken[index] = woken[parent] || roles[parent] == Self::WideSeparator;
                let slot = &mut known[frame.name.index()];
                match *slot {
                    Some((kind, role)) if kind == frame.kind => role,
                    _ => {
                        let role = Self::of(graph.names.get(frame.name), frame.kind);
                        slot.insert((frame.kind, role)).1
                    }
                }
            };
            let is_code = matches!(role, Self::User | Self::Kernel | Self::Inlined | Self::Jit);
            roles.push(if woken[index] && is_code { Self::Waker } else { role });
        }
        if !roles.contains(&Self::WideSeparator) {
            Self::mark_waits(graph, &mut roles);
        }
        roles
    }

    fn mark_waits(graph: &FlameGraph, roles: &mut [Self]) {
        let mut waited = vec![0u64; graph.frames.len()];
        // Children come after their parents, and are processed first to add their waits to these.
        for (index, frame) in graph.frames.iter().enumerate().skip(1).rev() {
            let waits = is_wait(frame.kind);
            if waits {
                waited[index] = frame.value;
            }
            let share = waited[index];
            waited[frame.parent as usize] = waited[frame.parent as usize].saturating_add(share);
            let is_counted = !matches!(roles[index], Self::Whole | Self::Marker | Self::Separator);
            if waits || is_counted && share > frame.value / 2 {
                roles[index] = Self::Waiting;
            }
        }
    }

    pub(crate) fn of(name: &str, kind: FrameKind) -> Self {
        if let Some(code) = marked_kind(name) {
            return match kind {
                FrameKind::Marker(Marker::Separator) => Self::Separator,
                FrameKind::Marker(Marker::Waker) => Self::WideSeparator,
                _ if is_wait(kind) => Self::Waiting,
                _ => Self::of_code(code),
            };
        }
        match kind {
            FrameKind::Marker(Marker::Separator) => Self::Separator,
            FrameKind::Marker(Marker::Waker) => Self::WideSeparator,
            _ if name == Labels::UNKNOWN => Self::Unknown,
            _ if is_wait(kind) => Self::Waiting,
            _ if mark(name) == Some('w') => Self::Waker,
            FrameKind::Kernel => Self::Kernel,
            FrameKind::Inlined => Self::Inlined,
            FrameKind::Jit => Self::Jit,
            FrameKind::Interpreted => Self::Interpreted,
            FrameKind::Marker(_) => Self::Marker,
            FrameKind::User => kind_by_form(name).map_or(Self::User, Self::of_code),
        }
    }

    fn of_code(code: CodeKind) -> Self {
        match code {
            CodeKind::Kernel => Self::Kernel,
            CodeKind::Inlined => Self::Inlined,
            CodeKind::Jit => Self::Jit,
            CodeKind::Interpreted => Self::Interpreted,
        }
    }
}

/// Returns true for a leaf frame that gives the reason why a thread did not run.
fn is_wait(kind: FrameKind) -> bool {
    matches!(kind, FrameKind::Marker(marker) if marker.is_wait())
}

/// Letter of the annotation at the end of a name: `_[k]` kernel, `_[i]` inlined, `_[j]` JIT-compiled, `_[w]` waker.
fn mark(name: &str) -> Option<char> {
    let letter = name.strip_suffix(']')?.chars().next_back()?;
    (matches!(letter, 'k' | 'i' | 'j' | 'w') && name[..name.len() - 2].ends_with("_["))
        .then_some(letter)
}

/// Name without its annotation, as it is displayed.
pub(crate) fn without_mark(name: &str) -> &str {
    if mark(name).is_some() { &name[..name.len() - 4] } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_and_names_tell_the_role() {
        let cases = [
            ("vfs_read_[k]", FrameKind::User, Role::Kernel),
            ("vfs_read", FrameKind::Kernel, Role::Kernel),
            ("push_[i]", FrameKind::User, Role::Inlined),
            ("run_[j]", FrameKind::User, Role::Jit),
            ("wake_[w]", FrameKind::User, Role::Waker),
            ("main", FrameKind::User, Role::User),
            ("Ljava/util/List.get", FrameKind::User, Role::Jit),
            ("run (app.py:7)", FrameKind::User, Role::Interpreted),
            ("app.pyx", FrameKind::User, Role::User),
            ("[unknown]", FrameKind::User, Role::Unknown),
            ("cut off here", FrameKind::Marker(Marker::Remark), Role::Marker),
            ("[truncated]", FrameKind::Marker(Marker::Truncated), Role::Marker),
            ("[sleeping]", FrameKind::Marker(Marker::Sleeping), Role::Waiting),
            ("--", FrameKind::Marker(Marker::Waker), Role::WideSeparator),
            ("-", FrameKind::Marker(Marker::Separator), Role::Separator),
        ];
        for (name, kind, role) in cases {
            assert_eq!(Role::of(name, kind), role, "{name}");
        }
        assert_eq!(without_mark("vfs_read_[k]"), "vfs_read");
        assert_eq!(without_mark("a[k]"), "a[k]");
        assert_eq!(without_mark("é]"), "é]");
    }
}
