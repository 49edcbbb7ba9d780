//! Whom `record` looks at besides its target, and how it tells them apart: filters that work in the
//! kernel. The verbs that read files have the same words.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use pyrograph_analyze::{Filter, Level};
use pyrograph_profile::{Profile, ThreadDetail};
use pyrograph_record::{Target, descendants};

use crate::question::NotThere;

/// The flags.
#[derive(Default, clap::Args)]
#[group(multiple = true)]
pub struct WhomArgs {
    /// Only processes and threads of these names; of the whole machine if nothing else is named (needs root)
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', help_heading = "Filters")]
    comm: Vec<String>,

    /// Only what is in this control group, or in one inside of it: its folder; of the whole machine if nothing
    /// else is named (needs root)
    #[arg(long, value_name = "PATH", help_heading = "Filters")]
    cgroup: Option<PathBuf>,

    /// Put levels of frames at the root (needs root)
    #[arg(
        long,
        value_name = "WHAT,…",
        value_enum,
        value_delimiter = ',',
        help_heading = "Filters"
    )]
    by: Vec<By>,
}

/// What a level of frames shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum By {
    /// name-PID.
    Process,
    /// The thread's name, one for threads whose names differ only in numbers.
    Pool,
    /// name-PID/TID.
    Thread,
    /// The CPU.
    Cpu,
}

/// What the flags come to.
#[derive(Clone, Debug, Default)]
pub struct Whom {
    /// The names; none for all.
    pub names: Vec<String>,
    /// The ID of the control group.
    pub group: Option<u64>,
    by: Vec<By>,
}

impl Whom {
    /// Reads the flags.
    ///
    /// # Errors
    ///
    /// If there is no such control group.
    pub fn new(args: WhomArgs) -> anyhow::Result<Self> {
        let group = args.cgroup.as_deref().map(group).transpose()?;
        Ok(Self { names: args.comm, group, by: args.by })
    }

    /// Whether processes are chosen among all that run.
    pub fn chooses(&self) -> bool {
        !self.names.is_empty() || self.group.is_some()
    }

    /// Checks that some of what is to be recorded has one of the names.
    ///
    /// # Errors
    ///
    /// If nothing has.
    pub fn find_names(&self, target: &Target, inherit: bool) -> anyhow::Result<()> {
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
        // If not, that will be said.
        if !found && runs {
            let whose = if *target == Target::System { "" } else { " of these" };
            let names = self.names.join(" or ");
            bail!(NotThere::new(format!(
                "--comm: no process or thread{whose} has the name {names}"
            )));
        }
        Ok(())
    }

    /// Whether nothing was asked for.
    pub fn is_all(&self) -> bool {
        self.names.is_empty() && self.group.is_none() && self.by.is_empty()
    }

    /// Whether CPUs are to be told apart.
    #[cfg_attr(not(feature = "bpf"), expect(dead_code, reason = "without an engine nobody asks"))]
    pub fn by_cpu(&self) -> bool {
        self.by.contains(&By::Cpu)
    }

    /// How far threads are to be told apart.
    pub fn threads(&self) -> ThreadDetail {
        let detail = |by: &By| match by {
            By::Thread => ThreadDetail::Thread,
            By::Process => ThreadDetail::Process,
            By::Cpu | By::Pool => ThreadDetail::Name,
        };
        self.by.iter().map(detail).max().unwrap_or_default()
    }

    /// Puts the levels that were asked for into stacks.
    ///
    /// # Errors
    ///
    /// If the profile does not tell what they show.
    pub fn put_levels(&self, profile: Profile) -> anyhow::Result<Profile> {
        if self.by.is_empty() {
            return Ok(profile);
        }
        let level = |by: &By| match by {
            By::Process => Level::Process,
            By::Pool => Level::Pool,
            By::Thread => Level::Thread,
            By::Cpu => Level::Cpu,
        };
        let by = self.by.iter().map(level).collect();
        Ok(Filter { by, ..Filter::default() }.apply(profile)?)
    }
}

/// All processes that run.
fn processes() -> impl Iterator<Item = i32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Whether a process or one of its threads has one of these names, of which the kernel keeps 15 bytes.
fn has_name(pid: i32, names: &[&[u8]]) -> bool {
    const LONGEST: usize = 15;
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let mut found = threads.filter_map(|thread| std::fs::read(thread.path().join("comm")).ok());
    found.any(|comm| {
        let comm = comm.strip_suffix(b"\n").unwrap_or(&comm);
        names.iter().any(|name| &name[..name.len().min(LONGEST)] == comm)
    })
}

/// The ID of a control group: its folder's inode. A path that does not begin with a slash is one below
/// where such groups are mounted.
fn group(path: &Path) -> anyhow::Result<u64> {
    /// `CGROUP2_SUPER_MAGIC`, include/uapi/linux/magic.h
    const CGROUP2: i64 = 0x6367_7270;
    let mounted = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let root = mounted.lines().find_map(|line| {
        let mut words = line.split(' ');
        let place = words.nth(1)?;
        (words.next() == Some("cgroup2")).then_some(place)
    });
    let path = root.map_or(path.to_owned(), |root| Path::new(root).join(path));
    let folder = std::fs::metadata(&path)
        .with_context(|| format!("there is no control group {}", path.display()))?;
    let name = std::ffi::CString::new(path.as_os_str().as_encoded_bytes())?;
    // SAFETY: zeros are a `statfs`, which the call fills in; the name ends with a zero.
    let magic = unsafe {
        let mut system: libc::statfs = std::mem::zeroed();
        libc::statfs(name.as_ptr(), &raw mut system);
        system.f_type
    };
    if magic != CGROUP2 || !folder.is_dir() {
        bail!("{} is not a folder of control groups (version 2)", path.display());
    }
    Ok(folder.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_folders_of_their_file_system() {
        let wrong = group(Path::new("/etc")).expect_err("no control group").to_string();
        assert!(wrong.contains("/etc is not a folder of control groups"), "{wrong}");
        let missing = group(Path::new("/no/such/group")).expect_err("nothing there").to_string();
        assert!(missing.contains("/no/such/group"), "{missing}");
    }
}
