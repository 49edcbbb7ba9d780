//! Sources of the bytes of mapped files.

use std::cell::LazyCell;
use std::fmt::Display;
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use pyrograph_event::proc_text;
use pyrograph_symbol::{BuildId, running_kernel_build_id};

use crate::module_ids::{FileKey, is_memory_file};

/// A mapping of code, as an event describes it.
#[derive(Clone, Debug)]
pub struct MappedFile<'a> {
    /// ID of the process.
    pub pid: i32,
    /// Mapped addresses.
    pub range: Range<u64>,
    /// The file's path, as the process sees it, or a name in brackets.
    pub path: &'a str,
    /// Identity of the file among others with that path.
    pub identity: &'a Identity,
}

/// Identity of a file among others that have or had the same path.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Identity {
    /// The build ID that the kernel read from the mapped file itself.
    BuildId(Vec<u8>),
    /// Device and inode.
    Inode {
        /// Device number, major part.
        major: u32,
        /// Device number, minor part.
        minor: u32,
        /// Inode number.
        inode: u64,
        /// Generation of the inode number, which tells files that had it one after the other apart; 0 if it is unknown.
        generation: u64,
    },
    /// Unknown.
    Unknown,
}

impl Identity {
    /// Returns true if an open file can be this one, judging by its inode. A build ID has to be compared with the
    /// file's contents.
    pub fn may_be(&self, file: &File) -> bool {
        match *self {
            Self::Inode { major, minor, inode, generation } => file.metadata().is_ok_and(|data| {
                let device = data.dev();
                data.ino() == inode
                    // Overlay and btrfs file systems show one device in mappings and another in `stat`; at least one of
                    // them has major number 0, which means no device.
                    && ((libc::major(device), libc::minor(device)) == (major, minor)
                        || major == 0
                        || libc::major(device) == 0)
                    && (generation == 0
                        || generation_of(file).is_none_or(|found| found == generation))
            }),
            Self::BuildId(_) | Self::Unknown => true,
        }
    }
}

/// Generation of a file's inode number; `None` if the file system does not keep it.
fn generation_of(file: &File) -> Option<u64> {
    /// `FS_IOC_GETVERSION`, `_IOR('v', 1, long)`, include/uapi/linux/fs.h. File systems write an `int`.
    const GET_VERSION: libc::c_ulong = 0x8008_7601;
    let mut version = 0_u64;
    // SAFETY: the kernel writes at most a `long` to the pointer.
    let done = unsafe { libc::ioctl(file.as_raw_fd(), GET_VERSION as _, &raw mut version) };
    (done == 0).then_some(if cfg!(target_endian = "big") { version >> 32 } else { version })
}

/// Finds the files that processes have mapped. Live recordings look in `/proc`; for a file from another machine, lookup
/// is by build ID.
pub trait Files {
    /// Opens the mapped file. The flag is true if it is certain to be that file, and false if it was found only by its
    /// path. `None` if it is gone or may not be read.
    fn open(&mut self, mapped: &MappedFile<'_>) -> Option<(File, bool)>;

    /// Debug file of a mapped file that is gone.
    fn debug_file(&mut self, _mapped: &MappedFile<'_>) -> Option<File> {
        None
    }

    /// Returns true if a file was written to since its state was `known`. It was mapped before and after the write.
    fn was_rewritten(&self, _mapped: &MappedFile<'_>, _known: &FileKey) -> bool {
        false
    }

    /// Opens the perf map of a process's JIT-compiled code: `/tmp/perf-PID.map`, with the process ID that the process
    /// itself sees.
    fn perf_map(&mut self, pid: i32) -> Option<File>;

    /// Reads the current memory of a thread: all of `bytes`, or nothing. Returns true if it was read.
    fn read_memory(&self, _tid: i32, _address: u64, _bytes: &mut [u8]) -> bool {
        false
    }

    /// Current control group of a process, as in `/proc/PID/cgroup`.
    fn control_group(&mut self, _pid: i32) -> Option<String> {
        None
    }

    /// Current command line of a process, as in `/proc/PID/cmdline`, quoted as shell words.
    fn command_line(&mut self, _pid: i32) -> Option<String> {
        None
    }

    /// Symbols of the kernel that ran, in the format of `/proc/kallsyms`.
    fn kallsyms(&mut self) -> Option<PathBuf> {
        None
    }

    /// Build ID of the kernel that ran.
    fn kernel_build_id(&mut self) -> Option<BuildId> {
        None
    }

    /// The vDSO that was mapped, as an ELF file.
    fn vdso(&mut self) -> Option<Vec<u8>> {
        None
    }
}

/// The vDSO as mapped into this process; all 64-bit processes have the same one.
pub fn own_vdso() -> Option<&'static [u8]> {
    let maps = proc_text("/proc/self/maps").ok()?;
    let line = maps.lines().find(|line| line.ends_with("[vdso]"))?;
    let (start, end) = line.split_once(' ')?.0.split_once('-')?;
    let start = usize::from_str_radix(start, 16).ok()?;
    let length = usize::from_str_radix(end, 16).ok()?.checked_sub(start)?;
    // SAFETY: The kernel maps these pages readable into every process, for as long as it lives,
    // and never writes to them.
    Some(unsafe { std::slice::from_raw_parts(start as *const u8, length) })
}

/// Path of the control group of a process; `None` if the process is gone. With several hierarchies (version 1) it is
/// the path in the unified hierarchy, or else in the first one.
fn control_group_of(pid: i32) -> Option<String> {
    // `0::/user.slice`, `12:cpu,cpuacct:/`: see cgroups(7).
    let text = std::fs::read(format!("/proc/{pid}/cgroup")).ok()?;
    let text = String::from_utf8_lossy(&text);
    let unified = text.lines().find_map(|line| line.strip_prefix("0::"));
    let first = || text.lines().find_map(|line| line.splitn(3, ':').nth(2));
    unified.or_else(first).map(str::to_owned)
}

/// Number of bytes of a command line that are kept.
const MOST_OF_COMMAND_LINE: usize = 4096;

/// Command line of a process; `None` if the process is gone or has none, as kernel threads do.
fn command_line_of(pid: i32) -> Option<String> {
    let mut words = Vec::new();
    let file = File::open(format!("/proc/{pid}/cmdline")).ok()?;
    file.take(MOST_OF_COMMAND_LINE as u64 + 1).read_to_end(&mut words).ok()?;
    as_command_line(&words)
}

/// Joins NUL-terminated words and quotes them for a shell; control characters are octal (`\33`). `None` if there is no
/// text.
pub(crate) fn as_command_line(words: &[u8]) -> Option<String> {
    let is_cut = words.len() > MOST_OF_COMMAND_LINE;
    let text = String::from_utf8_lossy(&words[..words.len().min(MOST_OF_COMMAND_LINE)]);
    let text = text.trim_end_matches('\0');
    let is_plain = |c: char| c.is_alphanumeric() || "_-./+,:@%=~^".contains(c);
    // A title that a process sets for itself is a sentence, not a word: `nginx: worker process`.
    let is_title = !text.contains('\0');
    let mut line = String::with_capacity(text.len());
    for word in text.split('\0') {
        if !line.is_empty() {
            line.push(' ');
        }
        let quotes = !is_title && (word.is_empty() || !word.chars().all(is_plain));
        line.push_str(if quotes { "'" } else { "" });
        for c in word.chars() {
            match c {
                '\'' if quotes => line.push_str("'\\''"),
                _ if c.is_control() => line.push_str(&format!("\\{:o}", u32::from(c))),
                _ => line.push(c),
            }
        }
        line.push_str(if quotes { "'" } else { "" });
    }
    line.push_str(if is_cut { "…" } else { "" });
    (!text.is_empty()).then_some(line)
}

/// Files of processes that run on this machine, or ran until recently.
#[derive(Clone, Copy, Debug, Default)]
pub struct LiveFiles;

impl Files for LiveFiles {
    fn open(&mut self, mapped: &MappedFile<'_>) -> Option<(File, bool)> {
        let MappedFile { pid, range, path, identity } = mapped;
        // The link leads to the inode itself, even if the file was deleted or replaced, or lies in another mount
        // namespace. It needs privileges, and the exact range of one mapping.
        let link = format!("/proc/{pid}/map_files/{:x}-{:x}", range.start, range.end);
        if let Ok(file) = File::open(link)
            && (identity.may_be(&file) || is_mapped_still(mapped))
        {
            return Some((file, true));
        }
        // The executable's link needs fewer privileges. If there is no range, the executable is the wanted file when
        // the link has its path.
        let exe = format!("/proc/{pid}/exe");
        let is_program = match identity {
            Identity::Inode { .. } => true,
            _ => {
                range.is_empty()
                    && std::fs::read_link(&exe).is_ok_and(|link| link == Path::new(path))
            }
        };
        if is_program
            && let Ok(file) = File::open(exe)
            && identity.may_be(&file)
        {
            return Some((file, true));
        }
        let path = path.strip_suffix(" (deleted)").unwrap_or(path);
        if !path.starts_with('/') || is_memory_file(path) {
            return None;
        }
        // By its path as the process sees it or, if the process is gone, as we see it.
        let inside = in_root_of(*pid, Path::new(path));
        [inside.as_path(), Path::new(path)].into_iter().find_map(|path| {
            let file = open_regular(path)?;
            let certain = matches!(identity, Identity::Inode { .. });
            identity.may_be(&file).then_some((file, certain))
        })
    }

    /// Compilers, package managers and `install` replace files; `cp` and some linkers overwrite them, which keeps the
    /// inode.
    fn was_rewritten(&self, mapped: &MappedFile<'_>, known: &FileKey) -> bool {
        let path = Path::new(mapped.path);
        let data = std::fs::metadata(in_root_of(mapped.pid, path));
        data.or_else(|_| std::fs::metadata(path)).is_ok_and(|data| {
            let now = FileKey::new(&data);
            (now.device, now.inode) == (known.device, known.inode) && now != *known
        })
    }

    fn perf_map(&mut self, pid: i32) -> Option<File> {
        let inner = innermost_pid(pid).unwrap_or(pid);
        // Most processes have none, and some map thousands of places for code: whom to trust is read if there is a file.
        let writer = LazyCell::new(|| MapWriter::of(pid));
        let theirs = format!("/proc/{pid}/root/tmp/perf-{inner}.map");
        let paths = [theirs, format!("/tmp/perf-{pid}.map")].map(PathBuf::from);
        let mut found = paths.iter().filter(|path| path.symlink_metadata().is_ok());
        found.find_map(|path| writer.open(path))
    }

    fn read_memory(&self, tid: i32, address: u64, bytes: &mut [u8]) -> bool {
        let local = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: bytes.len() };
        // SAFETY: `local` is `bytes`, which lives through the call; `remote` is an address of the
        // other process, which the kernel checks.
        let read =
            unsafe { libc::process_vm_readv(tid, &raw const local, 1, &raw const remote, 1, 0) };
        usize::try_from(read).is_ok_and(|read| read == bytes.len())
    }

    fn control_group(&mut self, pid: i32) -> Option<String> {
        control_group_of(pid)
    }

    fn command_line(&mut self, pid: i32) -> Option<String> {
        command_line_of(pid)
    }

    fn kallsyms(&mut self) -> Option<PathBuf> {
        Some(PathBuf::from("/proc/kallsyms"))
    }

    fn kernel_build_id(&mut self) -> Option<BuildId> {
        running_kernel_build_id()
    }

    fn vdso(&mut self) -> Option<Vec<u8>> {
        own_vdso().map(<[u8]>::to_vec)
    }
}

/// Returns true if a process still maps a file at the same place, according to its own list of mappings: overlay file
/// systems show an inode there that `stat` does not.
fn is_mapped_still(mapped: &MappedFile<'_>) -> bool {
    let Identity::Inode { major, minor, inode, .. } = *mapped.identity else { return false };
    let Ok(maps) = proc_text(format!("/proc/{}/maps", mapped.pid)) else {
        return false;
    };
    let range = format!("{:x}-{:x} ", mapped.range.start, mapped.range.end);
    let line = maps.lines().find_map(|line| line.strip_prefix(&range));
    line.is_some_and(|line| {
        let mut words = line.split_ascii_whitespace().skip(2);
        words.next() == Some(&format!("{major:02x}:{minor:02x}"))
            && words.next() == Some(&inode.to_string())
    })
}

/// Opens a regular file and nothing else: a path from another process must not make us wait for the writer of a pipe.
pub fn open_regular(path: &Path) -> Option<File> {
    open_with(path, 0)
}

fn open_with(path: &Path, flags: i32) -> Option<File> {
    use std::os::unix::fs::OpenOptionsExt;

    let flags = libc::O_NONBLOCK | flags;
    let file = File::options().read(true).custom_flags(flags).open(path).ok()?;
    file.metadata().ok()?.is_file().then_some(file)
}

/// Conditions for trusting a perf map as a process's own. Every user may create a file in `/tmp`, and the map of a
/// process that has ended stays until another process gets its ID. So a map counts only if
///
/// - it is a regular file itself: a link in another mount namespace would lead out of it;
/// - it is owned by a user that the process acts as, or by root (agents that are attached with `sudo`). `perf` requires
///   root or the user who runs `perf`; that rule applies here to a process that is gone, whose user is not known any
///   more;
/// - it was last written after the process started.
///
/// A jitdump file needs none of this: its process has mapped it.
#[derive(Clone, Debug)]
pub struct MapWriter {
    users: Vec<u32>,
    start: Option<SystemTime>,
}

impl MapWriter {
    /// Reads the users and start time of a process on this machine.
    pub fn of(pid: i32) -> Self {
        match users_of(pid) {
            Some(users) => Self { users, start: start_of(pid) },
            None => Self::gone(),
        }
    }

    /// Conditions for a process of which nothing is known any more.
    pub fn gone() -> Self {
        // SAFETY: it takes no arguments and cannot fail.
        Self { users: vec![unsafe { libc::geteuid() }], start: None }
    }

    /// Opens a map, if it counts as this process's.
    pub fn open(&self, path: &Path) -> Option<File> {
        // At least one of the two times is in whole seconds.
        const ROUNDING: Duration = Duration::from_secs(2);
        let file = open_with(path, libc::O_NOFOLLOW)?;
        let data = file.metadata().ok()?;
        let is_owner = data.uid() == 0 || self.users.contains(&data.uid());
        let is_stale = self.start.is_some_and(|start| {
            data.modified().is_ok_and(|time| time.checked_add(ROUNDING).is_some_and(|t| t < start))
        });
        (is_owner && !is_stale).then_some(file)
    }
}

/// Real, effective, saved and file system user ID: `Uid: 1000 1000 1000 1000`.
fn users_of(pid: i32) -> Option<Vec<u32>> {
    let status = proc_text(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_ascii_whitespace().map(|user| user.parse().ok()).collect()
}

/// Time when the process started, to about a second.
fn start_of(pid: i32) -> Option<SystemTime> {
    let stat = proc_text(format!("/proc/{pid}/stat")).ok()?;
    // The name, the second field, is in parentheses and can hold anything. The start is the 22nd field, in ticks since
    // boot (proc_pid_stat(5)).
    let (_, after_name) = stat.rsplit_once(')')?;
    let ticks: u64 = after_name.split_ascii_whitespace().nth(19)?.parse().ok()?;
    // SAFETY: it takes a constant and returns a number.
    let ticks_a_second = u64::try_from(unsafe { libc::sysconf(libc::_SC_CLK_TCK) }).ok()?;
    let machine = std::fs::read_to_string("/proc/stat").ok()?;
    let booted: u64 = machine.lines().find_map(|l| l.strip_prefix("btime "))?.parse().ok()?;
    let seconds = booted.checked_add(ticks.checked_div(ticks_a_second)?)?;
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
}

/// Returns the path by which this process can open a file of another one, which has this name in `/proc`. In lists of
/// mappings, a path begins with the root directory of the process, as this process sees it, if they have not the same
/// (chroot(2)). In records of the kernel it begins inside of that.
pub fn in_root_of(process: impl Display, path: &Path) -> PathBuf {
    let root = PathBuf::from(format!("/proc/{process}/root"));
    let inner = match std::fs::read_link(&root) {
        Ok(link) => path.strip_prefix(link).unwrap_or(path),
        Err(_) => path,
    };
    root.join(inner.strip_prefix("/").unwrap_or(inner))
}

/// ID of the process in its own PID namespace: the last number of `NSpid: 1234 7`.
fn innermost_pid(pid: i32) -> Option<i32> {
    let status = proc_text(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    line.split_ascii_whitespace().next_back()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own_mapping() -> (Range<u64>, String) {
        let maps = proc_text("/proc/self/maps").expect("own maps");
        let line = maps.lines().find(|line| line.contains(" r-xp ")).expect("code is mapped");
        let (start, end) = line.split_once(' ').unwrap().0.split_once('-').unwrap();
        let address = |text| u64::from_str_radix(text, 16).expect("hexadecimal");
        (address(start)..address(end), line[line.find('/').unwrap()..].to_owned())
    }

    #[test]
    fn the_vdso_is_an_elf_file() {
        let vdso = own_vdso().expect("this process has one");
        assert_eq!(&vdso[..4], b"\x7fELF");
    }

    /// A recorder maps the programs that it records.
    #[test]
    fn the_vdso_is_found_whatever_the_paths_of_mapped_files() {
        use std::os::unix::ffi::OsStrExt;

        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(std::ffi::OsStr::from_bytes(b"\xff"));
        std::fs::write(&path, "text").expect("a file");
        let file = File::open(&path).expect("the file");
        // SAFETY: nobody changes the file.
        let mapped = unsafe { memmap2::Mmap::map(&file) }.expect("it has bytes");
        assert!(own_vdso().is_some());
        assert_eq!(&mapped[..], b"text");
    }

    /// Names of more than 15 bytes are cut, be it within a character: `программа-сервер`.
    #[test]
    fn users_and_starts_are_known_whatever_the_name() {
        let named = std::thread::spawn(|| {
            std::fs::write("/proc/thread-self/comm", "программа-сервер").expect("it can be named");
            assert_eq!(std::fs::read("/proc/thread-self/comm").expect("a name")[14], 0xd0);
            let thread = std::fs::read_link("/proc/thread-self").expect("procfs is mounted");
            let tid =
                thread.file_name().and_then(|name| name.to_str()).and_then(|tid| tid.parse().ok());
            let tid = tid.expect("a number");
            (users_of(tid).is_some(), start_of(tid).is_some(), innermost_pid(tid))
        });
        let (has_users, has_start, inner) = named.join().expect("it ends");
        assert!(has_users && has_start && inner.is_some());
    }

    #[test]
    fn opens_a_running_processs_file() {
        let (range, path) = own_mapping();
        let pid = i32::try_from(std::process::id()).unwrap();
        let identity = Identity::Unknown;
        let mapped = MappedFile { pid, range, path: &path, identity: &identity };
        let (file, _) = LiveFiles.open(&mapped).expect("own executable");
        let own = std::fs::metadata(&path).expect("own executable");
        assert_eq!(file.metadata().unwrap().ino(), own.ino());
    }

    #[test]
    fn a_file_that_was_replaced_is_not_taken_for_the_mapped_one() {
        let file = tempfile::NamedTempFile::new().expect("temporary file");
        let data = file.as_file().metadata().expect("metadata");
        let right = Identity::Inode {
            major: libc::major(data.dev()),
            minor: libc::minor(data.dev()),
            inode: data.ino(),
            generation: 0,
        };
        let wrong = Identity::Inode { major: 0, minor: 0, inode: data.ino() + 1, generation: 0 };
        let path = file.path().to_str().expect("plain path");
        // No such process: only the path is left.
        let open = |identity: &Identity| {
            LiveFiles.open(&MappedFile { pid: i32::MAX, range: 0..1, path, identity }).is_some()
        };
        assert!(open(&right));
        assert!(!open(&wrong));
    }

    #[test]
    fn a_perf_map_has_to_be_the_processs_own() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("perf-1.map");
        let map = File::create(&path).expect("a file");
        let owner = map.metadata().expect("metadata").uid();
        let now = SystemTime::now();
        let opens = |writer: &MapWriter, path| writer.open(path).is_some();

        let own = MapWriter::of(i32::try_from(std::process::id()).unwrap());
        assert!(opens(&own, &path));
        let start = own.start.expect("this process has a start");
        assert!(start <= now && now.duration_since(start).unwrap() < Duration::from_secs(3600));

        // Of an earlier process with this number.
        map.set_modified(start - Duration::from_secs(10)).expect("a time");
        assert!(!opens(&own, &path));
        assert!(opens(&MapWriter { start: None, ..own.clone() }, &path));
        map.set_modified(now).expect("a time");

        // Root's counts for everybody.
        let other = MapWriter { users: vec![owner + 1], start: None };
        assert_eq!(opens(&other, &path), owner == 0);
        if owner == 0 {
            std::os::unix::fs::chown(&path, Some(65534), None).expect("root may do this");
            assert!(!opens(&other, &path) && !opens(&own, &path));
            assert!(opens(&MapWriter { users: vec![65534], start: None }, &path));
        }

        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).expect("a link");
        let any = MapWriter { users: vec![owner, 65534], start: None };
        assert!(opens(&any, &path) && !opens(&any, &link));
        assert!(!opens(&any, folder.path()));
    }

    #[test]
    fn command_lines_are_words_as_a_shell_reads_them() {
        let check = |words: &str, expect: Option<&str>| {
            assert_eq!(as_command_line(words.as_bytes()).as_deref(), expect, "{words:?}");
        };
        check("", None);
        check("\0\0", None);
        check("python3\0/srv/mailer.py\0", Some("python3 /srv/mailer.py"));
        check("sh\0-c\0echo it's\0\0x\0", Some("sh -c 'echo it'\\''s' '' x"));
        check("printf\0\x1b[31m\n\0", Some("printf '\\33[31m\\12'"));
        // It writes this itself, with what was there before as NULs behind it.
        check("nginx: worker process\0\0\0", Some("nginx: worker process"));
        let long = as_command_line(&[b'a'; MOST_OF_COMMAND_LINE + 1]).expect("it has words");
        assert_eq!(long, "a".repeat(MOST_OF_COMMAND_LINE) + "…");
        assert!(command_line_of(std::process::id() as i32).is_some_and(|own| !own.is_empty()));
    }
}
