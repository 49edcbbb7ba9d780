//! Filters among the target's processes, by names and control groups. They are applied in the kernel.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use pyrograph_event::proc_text;
use pyrograph_record::{Target, family};

use crate::error::Error;

/// Filters on the target. Only the in-kernel engine has them.
#[derive(Clone, Debug, Default)]
pub struct Filters {
    /// Record only processes and threads with these names. Empty for all.
    pub names: Vec<String>,
    /// Record only members of the control group with this ID ([`control_group`]), or of one inside it.
    pub group: Option<u64>,
    /// Keep the counts of each CPU apart.
    pub by_cpu: bool,
}

impl Filters {
    /// Returns true if everything is recorded and CPUs are not kept apart.
    pub fn is_all(&self) -> bool {
        !self.chooses() && !self.by_cpu
    }

    /// Returns true if only some processes are recorded.
    pub fn chooses(&self) -> bool {
        !self.names.is_empty() || self.group.is_some()
    }

    /// Describes the filters in words: `processes and threads named bash, sh in control group /batch`. `None` if all
    /// processes are recorded.
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

    /// Checks that a running process or thread of the target has one of the names.
    ///
    /// # Errors
    ///
    /// If none has.
    pub fn check_names(&self, target: &Target, inherit: bool) -> Result<(), Error> {
        let named = self.names.iter().map(|name| name.as_bytes()).collect::<Vec<_>>();
        let found = match target {
            // The command gets its name only when it runs.
            Target::Command(_) => return Ok(()),
            _ if named.is_empty() => return Ok(()),
            Target::System => processes().any(|pid| has_name(pid, &named)),
            Target::Processes(pids) => {
                family(pids, inherit).into_iter().any(|pid| has_name(pid, &named))
            }
        };
        let runs = target.check().is_ok();
        // A process that does not exist is reported as another error elsewhere.
        match found || !runs {
            true => Ok(()),
            false => {
                let all = *target == Target::System;
                Err(Error::NoSuchName { names: self.names.clone(), all })
            }
        }
    }
}

/// Returns all processes.
fn processes() -> impl Iterator<Item = i32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Returns true if a process or one of its threads has one of these names. The kernel keeps only the first 15 bytes of
/// a name.
fn has_name(pid: i32, names: &[&[u8]]) -> bool {
    const LONGEST: usize = 15;
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let mut found = threads.filter_map(|thread| std::fs::read(thread.path().join("comm")).ok());
    found.any(|comm| {
        let comm = comm.strip_suffix(b"\n").unwrap_or(&comm);
        names.iter().any(|name| &name[..name.len().min(LONGEST)] == comm)
    })
}

/// Mount point of the control group file system.
fn groups_folder() -> Option<PathBuf> {
    let mounted = proc_text("/proc/self/mounts").ok()?;
    mounted.lines().find_map(|line| {
        let mut words = line.split(' ');
        let place = words.nth(1)?;
        (words.next() == Some("cgroup2")).then(|| place.into())
    })
}

/// Returns the path of the control group with an ID, relative to the mount point, beginning with a slash. `None` if
/// there is no such group.
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

/// Returns the ID of a control group, which is the inode of its directory. A path that does not begin with a slash is
/// relative to the mount point of the control group file system.
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
