//! Information about the whole recording.

use crate::ValueType;

/// When and how a profile was recorded, as far as its source says. Formats that have room for it
/// keep it; no view depends on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// When the recording began, in nanoseconds since 1970 (UTC).
    pub start: Option<u64>,
    /// Its duration, in nanoseconds.
    pub duration: Option<u64>,
    /// After how many of what a sample was taken, as 10,000,000 ns of CPU time.
    pub period: Option<(ValueType, u64)>,
    /// The machine that it was recorded on, where one was for all threads.
    pub host: Option<String>,
    /// Number of samples that were lost while it was recorded.
    pub lost: u64,
    /// Rows with times are sums of samples, or parts of long waits: how many there are says nothing.
    pub sums: bool,
    /// Remarks of its author or tool.
    pub comments: Vec<String>,
}

impl About {
    /// Makes this speak of both: the time from the first beginning to the last end, the period if
    /// it is the same, all comments.
    pub(crate) fn merge(&mut self, other: &Self) {
        let end = |about: &Self| Some(about.start?.saturating_add(about.duration?));
        let ends = end(self).zip(end(other)).map(|(ours, theirs)| ours.max(theirs));
        self.start = self.start.zip(other.start).map(|(ours, theirs)| ours.min(theirs));
        self.duration = ends.zip(self.start).map(|(end, start)| end.saturating_sub(start));
        if self.period != other.period {
            self.period = None;
        }
        if self.host != other.host {
            self.host = None;
        }
        self.lost = self.lost.saturating_add(other.lost);
        self.sums |= other.sums;
        for comment in &other.comments {
            if !self.comments.contains(comment) {
                self.comments.push(comment.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_recordings_last_from_the_first_to_the_last() {
        let about = |start, duration, comment: &str| About {
            start: Some(start),
            duration: Some(duration),
            period: Some((ValueType::new("cpu", "ns"), 7)),
            host: Some(comment.to_owned()),
            sums: false,
            lost: 3,
            comments: vec![comment.to_owned()],
        };
        let mut both = about(100, 50, "a");
        both.merge(&about(20, 10, "b"));
        both.merge(&about(20, 10, "a"));
        let comments = vec!["a".to_owned(), "b".to_owned()];
        assert_eq!(both, About { comments, host: None, lost: 9, ..about(20, 130, "") });
        both.merge(&About::default());
        assert_eq!((both.start, both.duration, both.period), (None, None, None));
    }
}
