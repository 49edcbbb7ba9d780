//! State before the recording began (processes, threads, names and executable mappings), as the records that the kernel
//! would have written.
//!
//! Sources: proc_pid_maps(5), proc_pid_stat(5).

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fmt::Display;
use std::fs;
use std::io;

use pyrograph_event::{Comm, FileId, Layout, Mmap2, SampleId, Task, proc_text};

/// Returns the threads of a process. Empty if there is no such process.
pub fn threads(pid: i32) -> Vec<i32> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    entries.flatten().filter_map(|entry| number(&entry.file_name())).collect()
}

/// Returns the number of threads of a process, 0 if there is no such process.
pub(crate) fn count_threads(pid: i32) -> usize {
    fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count)
}

/// Returns the process that a thread belongs to, or `None` if there is no such thread.
pub fn process_of(tid: i32) -> Option<i32> {
    let status = proc_text(format!("/proc/{tid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Tgid:"))?;
    line.trim().parse().ok()
}

/// Synthesized records of the initial state: processes before their threads, names and mappings.
#[derive(Debug, Default)]
pub(crate) struct Initial {
    /// Bytes of the records.
    pub bytes: Vec<u8>,
    /// Number of processes whose mappings could not be read.
    pub unreadable: usize,
}

impl Initial {
    /// Reads `/proc` for `pids`, or for all processes. Call this once the events are enabled, so that the kernel
    /// records all later mappings.
    pub(crate) fn read(layout: &Layout, pids: Option<&[i32]>) -> Self {
        let mut all = Vec::new();
        let pids = pids.unwrap_or_else(|| {
            let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
            all.extend(entries.filter_map(|entry| number(&entry.file_name())));
            all.sort_unstable();
            &all
        });
        let mut initial = Self::default();
        pids.iter().for_each(|pid| initial.process(layout, *pid));
        initial
    }

    /// Adds the records of a process. If it ends meanwhile, some or all of them are missing.
    fn process(&mut self, layout: &Layout, pid: i32) {
        let Ok(stat) = fs::read(format!("/proc/{pid}/stat")) else { return };
        let parent = parent_in(&stat).unwrap_or(0);
        self.task(layout, (pid, pid), (parent, parent));
        let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        for tid in threads.filter_map(|entry| number(&entry.file_name())).filter(|tid| *tid != pid)
        {
            self.task(layout, (pid, tid), (pid, pid));
        }
        match mappings(pid) {
            Ok(mappings) => mappings
                .iter()
                .filter(|mapping| mapping.is_executable())
                .for_each(|mapping| mapping.encode(pid, layout, &mut self.bytes)),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => self.unreadable += 1,
            Err(_) => {}
        }
    }

    /// Adds FORK and COMM records of a thread.
    fn task(
        &mut self,
        layout: &Layout,
        (pid, tid): (i32, i32),
        (parent_pid, parent_tid): (i32, i32),
    ) {
        let Ok(name) = fs::read(format!("/proc/{pid}/task/{tid}/comm")) else { return };
        let id = at_the_start(pid, tid);
        Task { pid, parent_pid, tid, parent_tid, time: 0, synthesized: true, id }
            .encode_fork(layout, &mut self.bytes);
        let name = name.strip_suffix(b"\n").unwrap_or(&name);
        Comm { pid, tid, name, exec: false, id }.encode(layout, &mut self.bytes);
    }
}

/// Returns these processes and, with `inherit`, all that they have [started](descendants).
pub fn family(pids: &[i32], inherit: bool) -> Vec<i32> {
    let started = if inherit { descendants(pids) } else { Vec::new() };
    pids.iter().copied().chain(started).collect()
}

/// Returns the processes that these have started, directly or through others, and that still run. Parents come before
/// their children; the given processes and this one are left out. A process whose parent has ended is not found, since
/// it is no longer its descendant in `/proc`.
pub fn descendants(pids: &[i32]) -> Vec<i32> {
    if pids.is_empty() {
        return Vec::new();
    }
    let own = i32::try_from(std::process::id()).unwrap_or(0);
    let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let pid = number(&entry.file_name()).filter(|pid| *pid != own);
        let parent = pid.and_then(|pid| parent_in(&fs::read(format!("/proc/{pid}/stat")).ok()?));
        if let (Some(pid), Some(parent)) = (pid, parent) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut seen: BTreeSet<i32> = pids.iter().copied().collect();
    let mut found = Vec::new();
    let mut parents = pids.to_vec();
    while let Some(parent) = parents.pop() {
        // Children are removed here, so that the loop ends even if the parent IDs, which change during the read, form a
        // cycle.
        let new = children.remove(&parent).unwrap_or_default();
        let new: Vec<i32> = new.into_iter().filter(|pid| seen.insert(*pid)).collect();
        found.extend(&new);
        parents.extend(new);
    }
    found
}

/// Time 0, before all records of the kernel.
fn at_the_start(pid: i32, tid: i32) -> SampleId {
    SampleId { pid: Some(pid), tid: Some(tid), time: Some(0), ..SampleId::default() }
}

/// Parses a file name of `/proc` that is a number.
pub(crate) fn number(name: &OsStr) -> Option<i32> {
    name.to_str()?.parse().ok()
}

/// Parses the parent ID, the fourth field of `stat`: `7 (a name (with) spaces) S 1 ...`.
fn parent_in(stat: &[u8]) -> Option<i32> {
    let after_name = &stat[stat.iter().rposition(|byte| *byte == b')')? + 1..];
    text(after_name.split(|byte| *byte == b' ').filter(|word| !word.is_empty()).nth(1)?)?
        .parse()
        .ok()
}

/// Returns the mappings of a process, given by its ID or another name in `/proc`, in order of address.
///
/// # Errors
///
/// If there is no such process, or the file may not be read.
pub fn mappings(process: impl Display) -> io::Result<Vec<Mapping>> {
    let maps = fs::read(format!("/proc/{process}/maps"))?;
    Ok(maps.split(|byte| *byte == b'\n').filter_map(Mapping::parse).collect())
}

/// A mapping of a process.
#[derive(Debug, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// Address after the last byte.
    pub end: u64,
    protection: u32,
    flags: u32,
    /// File offset of its first byte.
    pub offset: u64,
    /// Device of the file: major and minor number.
    pub device: (u32, u32),
    /// Inode of the file.
    pub inode: u64,
    /// Path of the file in the mount namespace of the process, `//anon` for anonymous memory, or `[heap]`, `[stack]`,
    /// `[vdso]`.
    pub path: Vec<u8>,
}

impl Mapping {
    /// Parses a line of `maps`: `7f01-7f02 r-xp 00001000 fe:01 99   /usr/lib/libc.so.6`.
    pub fn parse(line: &[u8]) -> Option<Self> {
        let mut words = line.splitn(6, |byte| *byte == b' ');
        let (start, end) = text(words.next()?)?.split_once('-')?;
        let permissions = words.next()?;
        let offset = hex(text(words.next()?)?)?;
        let (major, minor) = text(words.next()?)?.split_once(':')?;
        let inode = text(words.next()?)?.parse().ok()?;
        let path = words.next().unwrap_or_default().trim_ascii_start();
        let bit = |index: usize, letter: u8, bit: u32| {
            if permissions.get(index) == Some(&letter) { bit } else { 0 }
        };
        Some(Self {
            start: hex(start)?,
            end: hex(end)?,
            protection: bit(0, b'r', 1) | bit(1, b'w', 2) | bit(2, b'x', 4),
            flags: bit(3, b's', 1) | bit(3, b'p', 2),
            offset,
            device: (u32::from_str_radix(major, 16).ok()?, u32::from_str_radix(minor, 16).ok()?),
            inode,
            path: if path.is_empty() { ANONYMOUS.to_vec() } else { unescape(path) },
        })
    }

    /// Returns true if it maps a file, which may have been removed since.
    pub fn is_of_file(&self) -> bool {
        self.path.starts_with(b"/") && self.path != ANONYMOUS
    }

    fn is_executable(&self) -> bool {
        self.protection & 4 != 0
    }

    fn encode(&self, pid: i32, layout: &Layout, out: &mut Vec<u8>) {
        let (major, minor) = self.device;
        Mmap2 {
            pid,
            tid: pid,
            start: self.start,
            len: self.end.saturating_sub(self.start),
            offset: self.offset,
            file: FileId::Inode { major, minor, inode: self.inode, generation: 0 },
            protection: self.protection,
            flags: self.flags,
            path: &self.path,
            id: at_the_start(pid, pid),
        }
        .encode(layout, out);
    }
}

/// Name of anonymous memory in the kernel's mmap records.
const ANONYMOUS: &[u8] = b"//anon";

/// Replaces `\012` by a newline. It is the only escape sequence in the paths of `maps`.
fn unescape(path: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some((first, after)) = rest.split_first() {
        if let Some(after) = rest.strip_prefix(br"\012") {
            out.push(b'\n');
            rest = after;
        } else {
            out.push(*first);
            rest = after;
        }
    }
    out
}

fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

fn hex(text: &str) -> Option<u64> {
    u64::from_str_radix(text, 16).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Names of more than 15 bytes are cut, be it within a character: there was no such thread.
    #[test]
    fn threads_have_processes_whatever_their_names() {
        let named = std::thread::spawn(|| {
            fs::write("/proc/thread-self/comm", "программа-сервер").expect("it can be named");
            let thread = fs::read_link("/proc/thread-self").expect("procfs is mounted");
            process_of(number(thread.file_name().expect("a thread")).expect("a number"))
        });
        let process = named.join().expect("it ends");
        assert_eq!(process, i32::try_from(std::process::id()).ok());
    }

    #[test]
    fn lines_of_maps() {
        let line = b"7f0100000000-7f0100002000 r-xp 00001000 fe:01 99                         /usr/lib/a b (deleted)";
        let mapping = Mapping::parse(line).unwrap();
        assert_eq!(
            (mapping.start, mapping.end, mapping.offset),
            (0x7f01_0000_0000, 0x7f01_0000_2000, 0x1000)
        );
        assert_eq!(
            (mapping.protection, mapping.flags, mapping.device, mapping.inode),
            (5, 2, (0xfe, 1), 99)
        );
        assert_eq!(mapping.path, b"/usr/lib/a b (deleted)");

        let path = |line: &[u8]| Mapping::parse(line).unwrap().path;
        assert_eq!(path(b"1000-2000 rwxs 00000000 00:00 0 "), b"//anon");
        assert_eq!(
            path(b"1000-2000 r-xp 00000000 00:00 0                          [vdso]"),
            b"[vdso]"
        );
        assert_eq!(path(br"1000-2000 r-xp 00000000 00:00 0 /a\012b\134"), b"/a\nb\\134");
        let of_file = |line: &[u8]| Mapping::parse(line).unwrap().is_of_file();
        assert!(of_file(b"1000-2000 r-xp 00000000 00:00 0 /a (deleted)"));
        assert!(!of_file(b"1000-2000 r-xp 00000000 00:00 0 "));
        assert!(!of_file(b"1000-2000 rw-p 00000000 00:00 0 [anon:/a]"));
        assert_eq!(Mapping::parse(b""), None);
        assert_eq!(Mapping::parse(b"1000-2000 r-xp zz 00:00 0"), None);
    }

    #[test]
    fn a_name_in_stat_may_hold_anything() {
        assert_eq!(parent_in(b"7 (a) S 1 (b) R 99 7 7"), Some(99));
        assert_eq!(parent_in(b"7 (xz) S 1 7"), Some(1));
        assert_eq!(parent_in(b"7 (xz"), None);
    }

    #[test]
    fn descendants_are_found_without_this_process() {
        let mut child = std::process::Command::new("sh")
            .args(["-c", "sleep 100 & echo; wait"])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = [0];
        io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut line).unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let of_child = descendants(&[pid]);
        let own = i32::try_from(std::process::id()).unwrap();
        let of_own = descendants(&[own]);
        let parent = std::os::unix::process::parent_id().cast_signed();
        let of_parent = descendants(&[parent]);
        for pid in &of_child {
            // SAFETY: it is the process that was started above.
            unsafe { libc::kill(*pid, libc::SIGKILL) };
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(of_child.len(), 1);
        let place = |wanted: i32| of_own.iter().position(|pid| *pid == wanted);
        assert!(place(pid).is_some() && place(pid) < place(of_child[0]), "{of_own:?}");
        assert!(!of_own.contains(&own) && !of_parent.contains(&own));
        assert_eq!(descendants(&[]), []);
    }

    proptest! {
        #[test]
        fn any_line_is_survived(line in "[0-9a-f: \\\\rwxp/-]{0,60}") {
            let _ = Mapping::parse(line.as_bytes());
            let _ = parent_in(line.as_bytes());
        }
    }
}
