//! System calls that threads are in, read from `/proc` without stopping the threads.
//!
//! Source: proc_pid_syscall(5).

use std::io;

use super::TracedCall;
use crate::procfs;

/// Returns the calls that the threads of processes are waiting in now, and the number of threads that could not be read
/// for lack of permission. Up to `text` bytes of each string are copied. The beginning of the calls is not known; their
/// time is that of this reading.
pub fn calls_in_progress(processes: &[i32], text: u32) -> (Vec<TracedCall>, usize) {
    let (mut calls, mut unreadable) = (Vec::new(), 0);
    for &process in processes {
        // A 32-bit program has other call numbers.
        let is_32_bit = is_32_bit(process);
        for thread in procfs::threads(process) {
            let line = std::fs::read_to_string(format!("/proc/{process}/task/{thread}/syscall"));
            match line {
                Ok(line) => calls.extend(parse(&line).map(|(number, arguments)| {
                    let number = if is_32_bit { u32::MAX } else { number };
                    TracedCall::entered((process, thread), number, arguments, text)
                })),
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => unreadable += 1,
                // The thread has ended.
                Err(_) => {}
            }
        }
    }
    (calls, unreadable)
}

/// Parses a line of `syscall`: `0 0x3 0x7f…  0x400 0x0 0x0 0x0 0x7ffc… 0x7f…`, which is the call, its arguments, stack
/// pointer, and program counter. Returns `None` for `running`, or for `-1` with the last two fields, of a thread that
/// waits outside of a system call.
fn parse(line: &str) -> Option<(u32, [u64; 6])> {
    let mut words = line.split_whitespace();
    let number = words.next()?.parse().ok()?;
    let mut arguments = [0; 6];
    for argument in &mut arguments {
        *argument = u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok()?;
    }
    Some((number, arguments))
}

/// Returns true if the process runs a 32-bit program (`EI_CLASS` of elf(5)).
fn is_32_bit(process: i32) -> bool {
    let mut ident = [0; 5];
    let read = std::fs::File::open(format!("/proc/{process}/exe"))
        .and_then(|mut file| io::Read::read_exact(&mut file, &mut ident));
    read.is_ok() && ident == *b"\x7fELF\x01"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_proc() {
        let line = "0 0x3 0x7f10 0x400 0x0 0x0 0xffffffffffffffff 0x7ffc1 0x7f2\n";
        assert_eq!(parse(line), Some((0, [3, 0x7f10, 0x400, 0, 0, u64::MAX])));
        assert_eq!(parse("running\n"), None);
        assert_eq!(parse("-1 0x7ffc1 0x7f2\n"), None);
        assert_eq!(parse("0 0x3\n"), None);
    }
}
