//! Numbers of the system calls that questions count.

use crate::error::Error;
use crate::tracing::call_numbers;

/// Names of the calls that move data from or to a file descriptor, or wait until the data is on disk.
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

/// Returns the numbers of the calls that read and write files.
pub fn of_files() -> Vec<u32> {
    FILES.into_iter().filter_map(pyrograph_syscall::number_of).collect()
}

/// Returns the numbers of calls by their names, as [`call_numbers`] finds them. An empty text selects all calls.
///
/// # Errors
///
/// If no call has one of the names.
pub fn numbers(names: &str) -> Result<Vec<u32>, Error> {
    /// Number of calls in "all": more than exist, since a newer kernel may have calls that are not in the table.
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
