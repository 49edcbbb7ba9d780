//! System calls of questions, by their numbers.

use crate::error::Error;
use crate::tracing::call_numbers;

/// Those that move data from or to what a file descriptor stands for, or wait until it is on the disk.
const FILES: [&str; 20] = [
    "read",
    "write",
    "pread64",
    "pwrite64",
    "readv",
    "writev",
    "preadv",
    "pwritev",
    "preadv2",
    "pwritev2",
    "sendfile",
    "splice",
    "copy_file_range",
    "fsync",
    "fdatasync",
    "sync_file_range",
    "ftruncate",
    "fallocate",
    "readahead",
    "fadvise64",
];

/// The numbers of the calls that read and write files.
pub fn of_files() -> Vec<u32> {
    FILES.into_iter().filter_map(pyrograph_syscall::number_of).collect()
}

/// The numbers of calls as [`call_numbers`] finds them; of all, if there are no names.
///
/// # Errors
///
/// If no call has one of the names.
pub fn numbers(names: &str) -> Result<Vec<u32>, Error> {
    /// More than there are: a newer kernel may have some that have no name here.
    const ALL: u32 = 512;
    let named = match names {
        "" => None,
        names => call_numbers(&[names.to_owned()])?,
    };
    Ok(named.unwrap_or_else(|| (0..ALL).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_have_names_and_numbers() {
        assert_eq!(numbers("read, sys_write,futex").ok(), Some(vec![0, 1, 202]));
        assert_eq!(numbers("").map(|all| all.len()).ok(), Some(512));
        assert!(numbers("%network").is_ok_and(|calls| calls.contains(&41) && !calls.contains(&0)));
        let error = numbers("opneat").expect_err("there is none").to_string();
        assert!(error.contains("openat"), "{error}");
        assert_eq!(of_files().len(), FILES.len());
        assert!(of_files().contains(&17));
    }
}
