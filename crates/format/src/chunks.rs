//! An input split into chunks that can be parsed independently.

use std::io::Read;
use std::sync::{Mutex, PoisonError};

/// Approximate size of a chunk in bytes: large enough that locking costs nothing, small enough to stay in the
/// second-level cache between reading and parsing.
const CHUNK: usize = 512 << 10;

/// Maximum size of a chunk in bytes; a chunk of this size is cut even if `cut` finds no boundary.
const LONGEST: usize = 64 << 20;

/// Hands out the chunks of an input, in order, to any number of threads.
pub(crate) struct Chunks {
    state: Mutex<State>,
    cut: fn(&[u8]) -> Option<usize>,
    size: usize,
}

struct State {
    source: Box<dyn Read + Send>,
    /// Bytes that were read but belong to the next chunk.
    carry: Vec<u8>,
    next: u64,
    ended: bool,
    error: Option<String>,
}

impl Chunks {
    /// Splits `source` at boundaries found by `cut`, which returns the last index in the given bytes at which a chunk
    /// may end and the next one begin.
    pub fn new(source: Box<dyn Read + Send>, cut: fn(&[u8]) -> Option<usize>) -> Self {
        Self::with_size(source, cut, CHUNK)
    }

    /// Same as [`new`](Self::new), with chunks of about `size` bytes.
    pub fn with_size(
        source: Box<dyn Read + Send>,
        cut: fn(&[u8]) -> Option<usize>,
        size: usize,
    ) -> Self {
        let state = State { source, carry: Vec::new(), next: 0, ended: false, error: None };
        Self { state: Mutex::new(state), cut, size: size.max(1) }
    }

    /// Fills `buffer` with the next chunk and returns its number, from 0; `None` after the last one.
    pub fn next(&self, buffer: &mut Vec<u8>) -> Option<u64> {
        buffer.clear();
        // If a thread panicked while it read, only `carry` may be incomplete.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let state = &mut *state;
        buffer.append(&mut state.carry);
        let mut wanted = self.size;
        while !state.ended {
            buffer.reserve(wanted);
            match state.source.by_ref().take(wanted as u64).read_to_end(buffer) {
                Ok(count) => state.ended = count < wanted,
                Err(error) => {
                    state.error = Some(error.to_string());
                    state.ended = true;
                }
            }
            if state.ended {
                break;
            }
            let at = match (self.cut)(buffer) {
                None if buffer.len() >= LONGEST => {
                    Some(memchr::memrchr(b'\n', buffer).map_or(buffer.len(), |at| at + 1))
                }
                at => at,
            };
            if let Some(at) = at.filter(|&at| at > 0) {
                state.carry.extend_from_slice(&buffer[at..]);
                buffer.truncate(at);
                break;
            }
            wanted = buffer.len();
        }
        if buffer.is_empty() {
            return None;
        }
        state.next += 1;
        Some(state.next - 1)
    }

    /// The error that ended the input early, if any.
    pub fn into_error(self) -> Option<String> {
        self.state.into_inner().unwrap_or_else(PoisonError::into_inner).error
    }
}

/// Number of lines in `text`, including a last one without a line end.
pub(crate) fn count_lines(text: &[u8]) -> u64 {
    let ends = memchr::memchr_iter(b'\n', text).count() as u64;
    ends + u64::from(text.last().is_some_and(|&last| last != b'\n'))
}

/// Replaces each CR LF by LF, as the parsers expect, and any other CR by a blank: names contain no CR.
pub(crate) fn drop_carriage_returns(text: &mut Vec<u8>) {
    let Some(first) = memchr::memchr(b'\r', text) else { return };
    let mut to = first;
    for from in first..text.len() {
        let ends_line = || text.get(from + 1).is_none_or(|&next| next == b'\n');
        text[to] = match text[from] {
            b'\r' if ends_line() => continue,
            b'\r' => b' ',
            byte => byte,
        };
        to += 1;
    }
    text.truncate(to);
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    fn after_newline(text: &[u8]) -> Option<usize> {
        memchr::memrchr(b'\n', text).map(|at| at + 1)
    }

    #[test]
    fn pieces_end_at_a_cut_and_nothing_is_lost() {
        let text = b"one\ntwo\nthree is longer than a piece\n\nlast";
        for size in 1..50 {
            let source = Box::new(Cursor::new(text.to_vec()));
            let chunks = Chunks::with_size(source, after_newline, size);
            let (mut all, mut buffer) = (Vec::new(), Vec::new());
            let mut expected = 0;
            while let Some(number) = chunks.next(&mut buffer) {
                assert_eq!(number, expected);
                expected += 1;
                all.extend_from_slice(&buffer);
                assert!(buffer.ends_with(b"\n") || all == text);
            }
            assert_eq!(all, text);
            assert_eq!(chunks.into_error(), None);
        }
    }

    #[test]
    fn line_ends() {
        let mut text = b"a\r\nb\rc\r\n\r\nd\r".to_vec();
        drop_carriage_returns(&mut text);
        assert_eq!(text, b"a\nb c\n\nd");
        assert_eq!(count_lines(&text), 4);
        assert_eq!(count_lines(b""), 0);
    }
}
