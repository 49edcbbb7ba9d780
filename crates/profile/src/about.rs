//! Information about the whole recording.

use crate::ValueType;

/// Metadata of a recording, as far as its source has it. Formats that have room for it keep it; no view depends on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// Start of the recording, in nanoseconds since 1970-01-01 UTC.
    pub start: Option<u64>,
    /// Duration of the recording, in nanoseconds.
    pub duration: Option<u64>,
    /// Sampling period, such as 10,000,000 ns of CPU time.
    pub period: Option<(ValueType, u64)>,
    /// Name of the recorded machine, if it was the same for all threads.
    pub host: Option<String>,
    /// Number of samples that were lost during the recording.
    pub lost: u64,
    /// True if rows with times are sums of several samples or parts of long waits, so that the number of rows is not the
    /// number of samples.
    pub sums: bool,
    /// The recorded command, or the names of the recorded processes.
    pub command: Option<String>,
    /// Comments of the author or of the recording tool.
    pub comments: Vec<String>,
}

impl About {
    /// Merges the metadata of `other`: the time from the earlier start to the later end, the period, the host and the
    /// command if they are equal, the sum of lost samples, and all comments.
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
        if self.command != other.command {
            self.command = None;
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
            command: Some("./app".to_owned()),
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
        assert_eq!(
            (both.start, both.duration, both.period, both.command),
            (None, None, None, None)
        );
    }
}
