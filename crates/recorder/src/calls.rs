//! System calls of x86-64 by their names.

use pyrograph_record::nearest;
use syscalls::x86_64::Sysno;

use crate::error::Error;

/// Those that move data from or to what a file descriptor stands for, or wait until it is on the disk.
const FILES: [Sysno; 20] = [
    Sysno::read,
    Sysno::write,
    Sysno::pread64,
    Sysno::pwrite64,
    Sysno::readv,
    Sysno::writev,
    Sysno::preadv,
    Sysno::pwritev,
    Sysno::preadv2,
    Sysno::pwritev2,
    Sysno::sendfile,
    Sysno::splice,
    Sysno::copy_file_range,
    Sysno::fsync,
    Sysno::fdatasync,
    Sysno::sync_file_range,
    Sysno::ftruncate,
    Sysno::fallocate,
    Sysno::readahead,
    Sysno::fadvise64,
];

/// The numbers of the calls that read and write files.
pub fn of_files() -> Vec<u32> {
    FILES.iter().map(|call| call.id().cast_unsigned()).collect()
}

/// The numbers of calls by their names, with commas between them; of all, if there are none.
///
/// # Errors
///
/// If no call has one of the names.
pub fn numbers(names: &str) -> Result<Vec<u32>, Error> {
    /// More than there are: a newer kernel may have some that have no name here.
    const ALL: u32 = 512;
    if names.is_empty() {
        return Ok((0..ALL).collect());
    }
    names
        .split(',')
        .map(|name| {
            let plain = name.trim().trim_start_matches("sys_");
            let Some(call) = Sysno::iter().find(|call| call.name() == plain) else {
                let near = nearest(plain, Sysno::iter().map(|call| call.name().to_owned()));
                return Err(Error::UnknownCall { name: name.to_owned(), near });
            };
            Ok(call.id().cast_unsigned())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_have_names_and_numbers() {
        assert_eq!(numbers("read, sys_write,futex").ok(), Some(vec![0, 1, 202]));
        assert_eq!(numbers("").map(|all| all.len()).ok(), Some(512));
        let error = numbers("opneat").expect_err("there is none").to_string();
        assert!(error.contains("openat"), "{error}");
        assert!(of_files().contains(&17));
    }
}
