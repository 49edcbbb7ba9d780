//! Filters among what runs, which work in the kernel: by names and control groups.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use pyrograph_record::{Target, descendants};

use crate::error::Error;

/// Of the target, what is recorded. Only the in-kernel engine has filters.
#[derive(Clone, Debug, Default)]
pub struct Filters {
    /// Processes and threads of these names; none for all.
    pub names: Vec<String>,
    /// Members of the control group of this ID ([`control_group`]), or in one inside of it.
    pub group: Option<u64>,
    /// Keep the CPUs apart on which it was.
    pub by_cpu: bool,
}

impl Filters {
    /// Returns true if nothing is left out and nothing kept apart.
    pub fn is_all(&self) -> bool {
        !self.chooses() && !self.by_cpu
    }

    /// Returns true if processes are chosen among all that run.
    pub fn chooses(&self) -> bool {
        !self.names.is_empty() || self.group.is_some()
    }

    /// Describes what is chosen: `processes and threads named bash, sh in control group /batch`; `None` for all that runs.
    pub(crate) fn words(&self) -> Option<String> {
        let names = (!self.names.is_empty())
            .then(|| format!("processes and threads named {}", self.names.join(", ")));
        let group = self.group.map(|id| match path_of_group(id) {
            Some(path) => format!("control group {path}"),
            None => format!("control group {id}"),
        });
        match (names, group) {
            (Some(names), Some(group)) => Some(format!("{names} in {group}")),
            (names, group) => names.or(group),
        }
    }

    /// Checks that some of what runs has one of the names.
    ///
    /// # Errors
    ///
    /// If nothing has.
    pub fn check_names(&self, target: &Target, inherit: bool) -> Result<(), Error> {
        let named = self.names.iter().map(|name| name.as_bytes()).collect::<Vec<_>>();
        let found = match target {
            // It gets its name when it runs.
            Target::Command(_) => return Ok(()),
            _ if named.is_empty() => return Ok(()),
            Target::System => processes().any(|pid| has_name(pid, &named)),
            Target::Processes(pids) => {
                let children = if inherit { descendants(pids) } else { Vec::new() };
                pids.iter().copied().chain(children).any(|pid| has_name(pid, &named))
            }
        };
        let is_there = |pid: &i32| Path::new(&format!("/proc/{pid}")).exists();
        let runs = match target {
            Target::Processes(pids) => pids.iter().all(is_there),
            _ => true,
        };
        // A process that is gone is another error.
        match found || !runs {
            true => Ok(()),
            false => {
                let all = *target == Target::System;
                Err(Error::NoSuchName { names: self.names.clone(), all })
            }
        }
    }
}

/// All processes that run.
fn processes() -> impl Iterator<Item = i32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Returns true if a process or one of its threads has one of these names, of which the kernel keeps 15 bytes.
fn has_name(pid: i32, names: &[&[u8]]) -> bool {
    const LONGEST: usize = 15;
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let mut found = threads.filter_map(|thread| std::fs::read(thread.path().join("comm")).ok());
    found.any(|comm| {
        let comm = comm.strip_suffix(b"\n").unwrap_or(&comm);
        names.iter().any(|name| &name[..name.len().min(LONGEST)] == comm)
    })
}

/// Where the file system of control groups is mounted.
fn groups_folder() -> Option<PathBuf> {
    let mounted = std::fs::read_to_string("/proc/self/mounts").ok()?;
    mounted.lines().find_map(|line| {
        let mut words = line.split(' ');
        let place = words.nth(1)?;
        (words.next() == Some("cgroup2")).then(|| place.into())
    })
}

/// The path of the control group with an ID, below where their file system is mounted.
pub(crate) fn path_of_group(id: u64) -> Option<String> {
    let root = groups_folder()?;
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        if folder.metadata().ok()?.ino() == id {
            let path = folder.strip_prefix(&root).ok()?.to_string_lossy();
            return Some(format!("/{path}"));
        }
        let inner = std::fs::read_dir(&folder).into_iter().flatten().flatten();
        let is_folder = |entry: &std::fs::DirEntry| entry.file_type().is_ok_and(|of| of.is_dir());
        folders.extend(inner.filter(is_folder).map(|entry| entry.path()));
    }
    None
}

/// The ID of a control group: its folder's inode. A path that does not begin with a slash is below where the file
/// system of control groups is mounted.
///
/// # Errors
///
/// If there is no such control group.
pub fn control_group(path: &Path) -> Result<u64, Error> {
    /// `CGROUP2_SUPER_MAGIC`, include/uapi/linux/magic.h
    const CGROUP2: i64 = 0x6367_7270;
    let root = groups_folder();
    let path = root.map_or(path.to_owned(), |root| root.join(path));
    let missing = |source: io::Error| Error::NoSuchGroup { path: path.clone(), source };
    let folder = std::fs::metadata(&path).map_err(missing)?;
    let system = rustix::fs::statfs(&path).map_err(|errno| missing(errno.into()))?;
    if system.f_type != CGROUP2 || !folder.is_dir() {
        return Err(Error::NotAGroup { path });
    }
    Ok(folder.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_name_what_is_chosen() {
        let check = |names: &[&str], group, expect: Option<&str>| {
            let names = names.iter().map(ToString::to_string).collect();
            let filters = Filters { names, group, by_cpu: false };
            assert_eq!(filters.words().as_deref(), expect);
        };
        check(&[], None, None);
        check(&["a", "b"], None, Some("processes and threads named a, b"));
        // Such a group there is not.
        let group = "control group 18446744073709551615";
        check(&[], Some(u64::MAX), Some(group));
        check(&["a"], Some(u64::MAX), Some(&format!("processes and threads named a in {group}")));
    }

    #[test]
    fn groups_are_folders_of_their_file_system() {
        let wrong = control_group(Path::new("/etc")).expect_err("no control group").to_string();
        assert!(wrong.contains("/etc is not a folder of control groups"), "{wrong}");
        let missing =
            control_group(Path::new("/no/such/group")).expect_err("nothing there").to_string();
        assert!(missing.contains("/no/such/group"), "{missing}");
    }
}
