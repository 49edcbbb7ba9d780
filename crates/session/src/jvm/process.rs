//! Facts about a process that has HotSpot's library mapped, from `/proc` (proc_pid_status(5), proc_pid_maps(5)).

use std::fs;
use std::ops::Range;

use pyrograph_event::proc_text;
use pyrograph_record::Mapping;
use pyrograph_resolve::Identity;

/// Bit of SIGQUIT in a signal mask. Signal 1 has the lowest bit.
const QUIT: u64 = 1 << (libc::SIGQUIT - 1);

/// Name of the thread that handles SIGQUIT in HotSpot: `Signal Dispatcher`, of which the kernel keeps 15 bytes.
const DISPATCHER: &[u8] = b"Signal Dispatch";

/// Fields of `/proc/PID/status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// Process ID in its own PID namespace.
    pub inner_pid: i32,
    /// Effective user ID.
    pub user: u32,
    /// Effective group ID.
    pub group: u32,
    /// True if it has a handler for SIGQUIT.
    pub catches_quit: bool,
    /// True if it is stopped by a signal or a debugger.
    pub is_stopped: bool,
}

impl Status {
    /// Reads the status of a process. `None` if the process has ended.
    pub fn of(pid: i32) -> Option<Self> {
        Self::parse(&proc_text(format!("/proc/{pid}/status")).ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
        // Real, effective, saved, and file system ID.
        let effective = |name| field(name)?.split_ascii_whitespace().nth(1)?.parse().ok();
        let caught = u64::from_str_radix(field("SigCgt:")?.trim(), 16).ok()?;
        Some(Self {
            inner_pid: field("NSpid:")?.split_ascii_whitespace().next_back()?.parse().ok()?,
            user: effective("Uid:")?,
            group: effective("Gid:")?,
            catches_quit: caught & QUIT != 0,
            is_stopped: field("State:")?.trim_start().starts_with(['T', 't']),
        })
    }
}

/// Returns true if a process has the thread that handles SIGQUIT in HotSpot.
pub fn has_dispatcher(pid: i32) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let mut names = threads.filter_map(|thread| fs::read(thread.path().join("comm")).ok());
    names.any(|name| name.trim_ascii_end() == DISPATCHER)
}

/// Returns true if a process has a file of this name open.
pub fn has_open(pid: i32, name: &str) -> bool {
    let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let mut paths = files.filter_map(|file| fs::read_link(file.path()).ok());
    paths.any(|path| path.file_name().is_some_and(|found| found == name))
}

/// Returns true if a virtual machine may have options outside of its process's command line and environment, or if
/// these contain the option that forbids attaching. `maps` are the process's mappings.
pub fn options_may_be_hidden(pid: i32, maps: &str) -> bool {
    let read = |what: &str| fs::read(format!("/proc/{pid}/{what}")).ok();
    // Programs that are not started by the JDK's launcher pass options of their own.
    let is_launched = maps.lines().any(|line| line.ends_with("/libjli.so"));
    match (read("cmdline"), read("environ")) {
        (Some(command), Some(environment)) if is_launched => {
            [command, environment].iter().any(|words| has_hidden_options(words))
        }
        _ => true,
    }
}

/// Returns true if these zero-terminated words name a file with options, or contain the option that forbids attaching.
fn has_hidden_options(words: &[u8]) -> bool {
    let words = String::from_utf8_lossy(words);
    let mut words = words.split(['\0', ' ', '=', '\t', '\n']);
    words.any(|word| {
        word.starts_with('@')
            || ["DisableAttachMechanism", "-XX:Flags", "VMOptionsFile"]
                .iter()
                .any(|option| word.contains(option))
    })
}

/// HotSpot's library in a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Library {
    /// Addresses of the mapping that starts at file offset 0.
    pub range: Range<u64>,
    /// Path of the file, as the process sees it.
    pub path: String,
    /// Identity of the file.
    pub identity: Identity,
    /// True if an agent that writes perf maps is mapped, too.
    pub has_map_agent: bool,
}

impl Library {
    /// Finds the library in a process's `maps`. `None` if it is not mapped.
    ///
    /// ```text
    /// 7fbf03c00000-7fbf03e92000 r--p 00000000 fe:01 99    /usr/lib/jvm/java-17-openjdk-amd64/lib/server/libjvm.so
    /// ```
    pub fn in_maps(maps: &str) -> Option<Self> {
        let mut library = maps.lines().find_map(first_of_library)?;
        // perf-map-agent (`libperfmap.so`) and similar agents.
        library.has_map_agent = maps.lines().any(|line| {
            line.rsplit('/').next().is_some_and(|name| {
                name.starts_with("libperfmap") || name.starts_with("libperf-map")
            })
        });
        Some(library)
    }
}

/// Parses the library from a line of `maps`. `None` unless it is the library's mapping at file offset 0.
fn first_of_library(line: &str) -> Option<Library> {
    let Mapping { start, end, offset, device: (major, minor), inode, path, .. } =
        Mapping::parse(line.as_bytes())?;
    let path = String::from_utf8_lossy(&path).into_owned();
    let name = path.strip_suffix(" (deleted)").unwrap_or(&path);
    let is_first = offset == 0 && name.ends_with(super::LIBRARY);
    let identity = Identity::Inode { major, minor, inode, generation: 0 };
    is_first.then_some(Library { range: start..end, path, identity, has_map_agent: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: &str = "Name:\tjava\nState:\tS (sleeping)\nTgid:\t4711\nNSpid:\t4711\t12\t7\nUid:\t0\t1000\t0\t0\n\
        Gid:\t0\t100\t0\t0\nSigIgn:\t0000000000000002\nSigCgt:\t0000000101005ccd\n";

    #[test]
    fn status() {
        let expect =
            Status { inner_pid: 7, user: 1000, group: 100, catches_quit: true, is_stopped: false };
        assert_eq!(Status::parse(STATUS), Some(expect));
        let reduced =
            STATUS.replace("101005ccd", "101005cc9").replace("S (sleeping)", "T (stopped)");
        let expect = Status { catches_quit: false, is_stopped: true, ..expect };
        assert_eq!(Status::parse(&reduced), Some(expect));
        assert_eq!(Status::parse("Name:\tjava\n"), None);
        let own = Status::of(std::process::id().cast_signed()).expect("this process runs");
        assert!(!own.is_stopped);
        assert_eq!(Status::of(i32::MAX), None);
    }

    #[test]
    fn options_that_are_elsewhere() {
        let check = |words: &str| has_hidden_options(words.as_bytes());
        assert!(!check("java\0-Xmx1g\0-cp\0a.jar\0Main\0a@b\0"));
        for words in [
            "java\0@options\0Main\0",
            "java\0-XX:+DisableAttachMechanism\0Main\0",
            "java\0-XX:VMOptionsFile=x\0Main\0",
            "java\0-XX:Flags=.hotspotrc\0Main\0",
            "A=b\0JDK_JAVA_OPTIONS=-Xmx1g @/etc/options\0",
            "JAVA_TOOL_OPTIONS=-Xmx1g -XX:+DisableAttachMechanism\0",
        ] {
            assert!(check(words), "{words:?}");
        }
        assert!(options_may_be_hidden(std::process::id().cast_signed(), ""));
    }

    #[test]
    fn the_library_is_found() {
        let maps = "55d000000000-55d000001000 r--p 00000000 fe:01 7    /usr/bin/java\n\
            7f0100001000-7f0100002000 r-xp 00001000 fe:01 99    /opt/a jdk/lib/server/libjvm.so\n\
            7f0100000000-7f0100001000 r--p 00000000 fe:01 99    /opt/a jdk/lib/server/libjvm.so\n\
            7f0200000000-7f0200001000 rw-p 00000000 00:00 0 \n";
        let found = Library::in_maps(maps).expect("it is mapped");
        assert_eq!(found.range, 0x7f01_0000_0000..0x7f01_0000_1000);
        assert_eq!(found.path, "/opt/a jdk/lib/server/libjvm.so");
        let identity = Identity::Inode { major: 0xfe, minor: 1, inode: 99, generation: 0 };
        assert_eq!((found.identity, found.has_map_agent), (identity, false));
        let agent = "7f0300000000-7f0300001000 r-xp 00000000 fe:01 8    /tmp/libperfmap.so\n";
        assert!(Library::in_maps(&format!("{maps}{agent}")).expect("it is mapped").has_map_agent);
        assert_eq!(Library::in_maps(agent), None);
        assert_eq!(Library::in_maps(&maps.replace("libjvm.so", "notlibjvm.so.1")), None);
    }
}
