//! Numbers of system calls by their names, as questions and traces name them.

use crate::error::Error;

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

/// Parses names and groups (`%file`) of calls, and returns their numbers, or `None` for all calls. A name or group with
/// `!` before it is excluded; if all are excluded ones, the result is all other calls.
///
/// # Errors
///
/// If there is no such call or group.
pub fn call_numbers(words: &[String]) -> Result<Option<Vec<u32>>, Error> {
    let mut wanted: Option<Vec<u32>> = None;
    let mut unwanted = Vec::new();
    for word in words.iter().flat_map(|words| words.split(',')).map(str::trim) {
        let (word, is_unwanted) = match word.strip_prefix('!') {
            Some(word) => (word, true),
            None => (word, false),
        };
        let numbers = numbers_of(word)?;
        match is_unwanted {
            true => unwanted.extend(numbers),
            false => wanted.get_or_insert_default().extend(numbers),
        }
    }
    if unwanted.is_empty() {
        return Ok(wanted);
    }
    let mut wanted =
        wanted.unwrap_or_else(|| pyrograph_syscall::all().map(|(number, _)| number).collect());
    wanted.retain(|number| !unwanted.contains(number));
    Ok(Some(wanted))
}

/// Returns the number of the call with this name.
pub fn call_number(name: &str) -> Option<u32> {
    pyrograph_syscall::number_of(name)
}

fn numbers_of(word: &str) -> Result<Vec<u32>, Error> {
    let plain = word.trim_start_matches("sys_");
    if plain == "all" {
        return Ok(pyrograph_syscall::all().map(|(number, _)| number).collect());
    }
    if let Some(numbers) = plain.strip_prefix('%').and_then(pyrograph_syscall::group) {
        return Ok(numbers);
    }
    if plain.contains(['*', '?']) {
        let matching: Vec<u32> = pyrograph_syscall::all()
            .filter(|(_, call)| pyrograph_record::matches_pattern(plain, call.name))
            .map(|(number, _)| number)
            .collect();
        if !matching.is_empty() {
            return Ok(matching);
        }
    }
    pyrograph_syscall::number_of(plain).map(|number| vec![number]).ok_or_else(|| {
        let calls = pyrograph_syscall::all().map(|(_, call)| call.name.to_owned());
        let groups = pyrograph_syscall::GROUPS.iter().map(|name| format!("%{name}"));
        let near = pyrograph_record::nearest(plain, calls.chain(groups));
        Error::UnknownCall { name: word.to_owned(), near }
    })
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
