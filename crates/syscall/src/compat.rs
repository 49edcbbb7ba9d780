//! System calls of 32-bit programs on x86-64, which have i386's numbers (`arch/x86/entry/syscalls/syscall_32.tbl`).

use syscalls::x86::Sysno;

use crate::numbers::number_of;

/// Calls that have the same name on x86-64, but other arguments: in a structure, in another order, or 64-bit values
/// split into two words.
const OTHER_ARGUMENTS: [&str; 15] = [
    "clone",
    "fadvise64",
    "fallocate",
    "fanotify_mark",
    "ipc",
    "mmap",
    "pread64",
    "preadv",
    "preadv2",
    "pwrite64",
    "pwritev",
    "pwritev2",
    "readahead",
    "select",
    "sync_file_range",
];

/// i386's calls with another name, and the corresponding call of x86-64.
const OTHER_NAMES: [(&str, &str); 6] = [
    ("_llseek", "lseek"),
    ("_newselect", "select"),
    ("mmap2", "mmap"),
    ("ugetrlimit", "getrlimit"),
    ("umount", "umount2"),
    ("waitpid", "wait4"),
];

/// Returns the name of a call of a 32-bit program.
pub fn compat_name(number: u32) -> Option<&'static str> {
    Sysno::new(usize::try_from(number).ok()?).map(|call| call.name())
}

/// Returns the number on x86-64 of the call that corresponds to one of a 32-bit program: `stat` for `stat64`.
pub fn compat_same(number: u32) -> Option<u32> {
    let name = compat_name(number)?;
    let other = OTHER_NAMES.iter().find(|(of, _)| *of == name).map(|(_, native)| *native);
    let without = |end: &str| name.strip_suffix(end).and_then(number_of);
    number_of(other.unwrap_or(name))
        .or_else(|| without("_time64"))
        .or_else(|| without("64"))
        .or_else(|| without("32"))
}

/// Returns the number on x86-64 of a call of a 32-bit program, if its arguments are the same there. Structures that
/// they point to may differ.
pub fn compat_alike(number: u32) -> Option<u32> {
    let name = compat_name(number).filter(|name| !OTHER_ARGUMENTS.contains(name))?;
    number_of(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_kernels_table() {
        // syscall_32.tbl of Linux.
        for (number, name, same) in [
            (3, "read", Some("read")),
            (5, "open", Some("open")),
            (90, "mmap", Some("mmap")),
            (192, "mmap2", Some("mmap")),
            (195, "stat64", Some("stat")),
            (199, "getuid32", Some("getuid")),
            (221, "fcntl64", Some("fcntl")),
            (240, "futex", Some("futex")),
            (295, "openat", Some("openat")),
            (403, "clock_gettime64", Some("clock_gettime")),
            (422, "futex_time64", Some("futex")),
            (102, "socketcall", None),
        ] {
            assert_eq!(compat_name(number), Some(name));
            if cfg!(target_arch = "x86_64") {
                assert_eq!(compat_same(number), same.and_then(number_of), "{name}");
            }
        }
        assert_eq!(compat_name(100_000), None);
        assert_eq!(compat_alike(90), None, "its arguments are in a structure");
        assert_eq!(compat_alike(295), number_of("openat"));
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn memory_is_copied_where_it_is_laid_out_alike() {
        use crate::by_number;
        let copied = |name: &str| {
            let call = number_of(name).and_then(by_number).expect(name);
            let copies = call.compat_copies();
            assert_eq!(copies.len(), call.copies().len(), "the places are the same");
            copies.iter().filter(|copy| copy.is_some()).count()
        };
        // `char *`, `char **`, `struct sockaddr`, `struct pollfd`, `struct linux_dirent64`, two `int`.
        for (name, copies) in [
            ("openat", 1),
            ("rename", 2),
            ("read", 1),
            ("execve", 2),
            ("connect", 1),
            ("poll", 2),
            ("getdents64", 1),
            ("pipe", 1),
        ] {
            assert_eq!(copied(name), copies, "{name}");
        }
        // They have `long` in them, or pointers.
        for name in ["stat", "writev", "sendmsg", "nanosleep", "getdents", "rt_sigaction", "ioctl"]
        {
            assert_eq!(copied(name), usize::from(name == "stat"), "{name}");
        }
    }
}
