//! Command lines of programs, taken when they are executed.

use crate::layout;

/// Command line with which a process began to run a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandLine {
    /// Time of the execution: nanoseconds of `CLOCK_MONOTONIC`.
    pub time: u64,
    /// ID of the process.
    pub pid: i32,
    /// Words that each end with a NUL, as in `/proc/PID/cmdline`: at most 4097 bytes.
    pub words: Vec<u8>,
}

impl CommandLine {
    /// Decodes a `struct command_line`.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let (head, words) = bytes.split_at_checked(size_of::<layout::CommandLine>())?;
        let head: layout::CommandLine = bytemuck::try_pod_read_unaligned(head).ok()?;
        let words = words.get(..usize::try_from(head.len).ok()?)?.to_vec();
        Some(Self { time: head.time, pid: head.tgid, words })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_has_as_many_bytes_as_it_says() {
        let record = |len: u32| {
            let head = layout::CommandLine { time: 7, tgid: 1, len };
            [bytemuck::bytes_of(&head), b"sh\0-c\0\0\0"].concat()
        };
        let line = |words: &[u8]| Some(CommandLine { time: 7, pid: 1, words: words.to_vec() });
        assert_eq!(CommandLine::read(&record(6)), line(b"sh\0-c\0"));
        assert_eq!(CommandLine::read(&record(9)), None);
        assert_eq!(CommandLine::read(&[0; 15]), None);
    }
}
