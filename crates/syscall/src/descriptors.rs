//! Tracks the files behind a process's descriptors, by its system calls.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::call::{Call, Returns, When};
use crate::context::{Context, number, until_nul};
use crate::words::name_of;
use crate::words::network::FAMILIES;
use crate::{Files, Seen, Written, all, by_number};

/// The files behind a process's descriptors, and its working directory, as far as its calls have shown them. For
/// unknown ones, the caller can look in `/proc` and [set](Self::set) them.
#[derive(Debug, Clone, Default)]
pub struct Descriptors {
    open: BTreeMap<i32, Open>,
    directory: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Open {
    /// `None` if the file is not known, because the earlier name is no longer valid.
    name: Option<String>,
    closes_on_exec: bool,
}

/// `O_CLOEXEC`, `SOCK_CLOEXEC`, `EFD_CLOEXEC` and all similar flags except `MFD_CLOEXEC`.
const CLOSE_ON_EXEC: u64 = 0o2_000_000;

impl Files for Descriptors {
    fn name(&self, descriptor: i32) -> Option<Cow<'_, str>> {
        self.open.get(&descriptor)?.name.as_deref().map(Cow::Borrowed)
    }
}

impl Descriptors {
    /// Creates the descriptors of a process about which nothing is known.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the file of a descriptor.
    pub fn set(&mut self, descriptor: i32, name: impl Into<String>) {
        let closes_on_exec = self.open.get(&descriptor).is_some_and(|open| open.closes_on_exec);
        self.open.insert(descriptor, Open { name: Some(name.into()), closes_on_exec });
    }

    /// Sets the file of a descriptor; `closes_on_exec` is true if `execve` closes it.
    pub fn add(&mut self, descriptor: i32, name: impl Into<String>, closes_on_exec: bool) {
        self.open.insert(descriptor, Open { name: Some(name.into()), closes_on_exec });
    }

    /// Sets the working directory, where relative paths start.
    pub fn set_directory(&mut self, path: impl Into<String>) {
        self.directory = Some(path.into());
    }

    /// Returns the working directory, if it is known.
    pub fn directory(&self) -> Option<&str> {
        self.directory.as_deref()
    }

    /// Returns true if the file of a descriptor is not known; it may be found in `/proc/PID/fd`.
    pub fn is_unknown(&self, descriptor: i32) -> bool {
        descriptor >= 0 && self.open.get(&descriptor).is_none_or(|open| open.name.is_none())
    }

    /// Returns the numbers of the calls that [`Self::follow`] uses.
    pub fn followed() -> Vec<u32> {
        let is_followed = |call: &Call| {
            let opens = call.returns == Returns::Descriptor;
            opens
                || matches!(call.name, "close" | "close_range" | "pipe" | "pipe2" | "socketpair")
                || matches!(call.name, "connect" | "bind" | "execve" | "execveat" | "fcntl")
                || matches!(call.name, "chdir" | "fchdir")
        };
        all().filter(|(_, call)| is_followed(call)).map(|(number, _)| number).collect()
    }

    /// Updates the descriptors by a call that has returned. Call it after writing the arguments and before writing the
    /// result.
    pub fn follow(&mut self, seen: &Seen<'_>) {
        let Some(call) = by_number(seen.number) else { return };
        let written = Written::default();
        let context = Context { call, seen, files: &(), written: &written };
        let Some(result) = context.success() else {
            // The connection is established in the background.
            const IN_PROGRESS: i64 = -115;
            if call.name == "connect" && seen.result == Some(IN_PROGRESS) {
                self.reach(&context, When::Entry);
            }
            return;
        };
        let argument = |index: usize| seen.arguments.get(index).map_or(0, |&value| value as i32);
        let bits = |index: usize| seen.arguments.get(index).copied().unwrap_or(0);
        let cloexec = |index| bits(index) & CLOSE_ON_EXEC != 0;
        match call.name {
            "open" | "openat" | "creat" | "openat2" | "open_tree" | "open_by_handle_at"
            | "fspick" => {
                let (directory, path, flags) = match call.name {
                    "open" => (-100, 0, bits(1)),
                    "creat" => (-100, 0, 0),
                    "openat2" => (argument(0), 1, self.how(&context)),
                    "open_by_handle_at" => (-100, 1, bits(2)),
                    _ => (argument(0), 1, bits(2)),
                };
                let name = self.path(&context, directory, path);
                self.open(result, name, flags & CLOSE_ON_EXEC != 0);
            }
            "close" => self.close(argument(0), argument(0)),
            "close_range" if bits(2) & 4 == 0 => self.close(argument(0), argument(1)),
            "close_range" => {
                let last = if argument(1) < 0 { i32::MAX } else { argument(1) };
                if argument(0) <= last && argument(0) >= 0 {
                    for (_, open) in self.open.range_mut(argument(0)..=last) {
                        open.closes_on_exec = true;
                    }
                }
            }
            "dup" | "dup2" | "dup3" => {
                self.copy(argument(0), result, call.name == "dup3" && cloexec(2))
            }
            "fcntl" => match bits(1) & 0xffff_ffff {
                0 => self.copy(argument(0), result, false),
                1030 => self.copy(argument(0), result, true),
                2 => {
                    if let Some(open) = self.open.get_mut(&argument(0)) {
                        open.closes_on_exec = bits(2) & 1 != 0;
                    }
                }
                _ => {}
            },
            "pipe" | "pipe2" | "socketpair" => {
                let (index, flags) = if call.name == "socketpair" { (3, 1) } else { (0, 1) };
                let closes = call.name != "pipe" && cloexec(flags);
                let name = if call.name == "socketpair" {
                    socket_name(&context)
                } else {
                    Some("pipe".to_owned())
                };
                for end in 0..2 {
                    let memory = context.memory(index, When::Exit);
                    if let Some(one) = memory.and_then(|memory| number(memory.bytes, end * 4, 4)) {
                        self.open(one as i64, name.clone(), closes);
                    }
                }
            }
            "socket" => self.open(result, socket_name(&context), cloexec(1)),
            "accept" | "accept4" => {
                // The listening socket may have a name with its own address.
                let kind = self
                    .name(argument(0))
                    .map(|name| name.split(':').next().unwrap_or_default().to_owned());
                let peer =
                    context.memory(1, When::Exit).and_then(|address| endpoint(address.bytes));
                let name = kind.map(|kind| with_address(&kind, peer));
                self.open(result, name, call.name == "accept4" && cloexec(3));
            }
            "connect" | "bind" => self.reach(&context, When::Entry),
            "memfd_create" => {
                let path = context.memory(0, When::Entry).map(|memory| memory.bytes);
                let name =
                    path.map(|path| format!("/memfd:{}", String::from_utf8_lossy(until_nul(path))));
                self.open(result, name, bits(1) & 1 != 0);
            }
            "execve" | "execveat" => self.open.retain(|_, open| !open.closes_on_exec),
            "chdir" => self.directory = self.path(&context, -100, 0),
            "fchdir" => self.directory = self.name(argument(0)).map(Cow::into_owned),
            _ if call.returns == Returns::Descriptor => {
                let (name, flags) = match call.name {
                    "eventfd" => ("anon_inode:[eventfd]", 0),
                    "eventfd2" => ("anon_inode:[eventfd]", bits(1)),
                    "epoll_create" => ("anon_inode:[eventpoll]", 0),
                    "epoll_create1" => ("anon_inode:[eventpoll]", bits(0)),
                    "timerfd_create" => ("anon_inode:[timerfd]", bits(1)),
                    "signalfd" => ("anon_inode:[signalfd]", 0),
                    "signalfd4" => ("anon_inode:[signalfd]", bits(3)),
                    "inotify_init" => ("anon_inode:inotify", 0),
                    "inotify_init1" => ("anon_inode:inotify", bits(0)),
                    // Always closed on exec.
                    "pidfd_open" => ("anon_inode:[pidfd]", CLOSE_ON_EXEC),
                    "io_uring_setup" => ("anon_inode:[io_uring]", CLOSE_ON_EXEC),
                    "userfaultfd" => ("anon_inode:[userfaultfd]", bits(0)),
                    "perf_event_open" => (
                        "anon_inode:[perf_event]",
                        if bits(4) & 8 != 0 { CLOSE_ON_EXEC } else { 0 },
                    ),
                    "fanotify_init" => {
                        ("anon_inode:[fanotify]", if bits(0) & 1 != 0 { CLOSE_ON_EXEC } else { 0 })
                    }
                    _ => return self.open(result, None, false),
                };
                self.open(result, Some(name.to_owned()), flags & CLOSE_ON_EXEC != 0);
            }
            _ => {}
        }
    }

    /// Returns true if the child that a call has started shares these descriptors, as threads do, and false if it has a
    /// copy of them. `None` if the call starts no child.
    pub fn shared_with_child(seen: &Seen<'_>) -> Option<bool> {
        const FILES: u64 = 0x400;
        let call = by_number(seen.number)?;
        let written = Written::default();
        let context = Context { call, seen, files: &(), written: &written };
        match call.name {
            "clone" => Some(context.raw(0) & FILES != 0),
            "clone3" => {
                let flags = context
                    .memory(0, When::Entry)
                    .and_then(|arguments| number(arguments.bytes, 0, 8));
                Some(flags.unwrap_or(0) & FILES != 0)
            }
            "fork" | "vfork" => Some(false),
            _ => None,
        }
    }

    /// Returns the flags of `openat2`.
    fn how(&self, context: &Context<'_>) -> u64 {
        context.memory(2, When::Entry).and_then(|how| number(how.bytes, 0, 8)).unwrap_or(0)
    }

    /// Returns the path in an argument; it is absolute if the directory that it is relative to is known.
    fn path(&self, context: &Context<'_>, directory: i32, index: usize) -> Option<String> {
        let memory = context.memory(index, When::Entry)?;
        let path = until_nul(memory.bytes);
        if path.len() == memory.bytes.len() && memory.length > path.len() as u64 {
            return None;
        }
        let path = str::from_utf8(path).ok()?;
        if path.starts_with('/') {
            return Some(clean(path));
        }
        let base = match directory {
            -100 => self.directory.as_deref()?,
            descriptor => self.open.get(&descriptor)?.name.as_deref()?,
        };
        Some(clean(&format!("{base}/{path}")))
    }

    /// Names a socket by the address that it is bound or connected to.
    fn reach(&mut self, context: &Context<'_>, when: When) {
        let address = context.memory(1, when).and_then(|address| endpoint(address.bytes));
        if let (Some(open), Some(address)) = (self.open.get_mut(&(context.raw(0) as i32)), address)
        {
            let kind =
                open.name.as_deref().and_then(|name| name.split(':').next()).unwrap_or("socket");
            open.name = Some(with_address(kind, Some(address)));
        }
    }

    fn open(&mut self, descriptor: i64, name: Option<String>, closes_on_exec: bool) {
        if let Ok(descriptor) = i32::try_from(descriptor) {
            self.open.insert(descriptor, Open { name, closes_on_exec });
        }
    }

    fn copy(&mut self, from: i32, to: i64, closes_on_exec: bool) {
        if i64::from(from) != to {
            let name = self.open.get(&from).and_then(|open| open.name.clone());
            self.open(to, name, closes_on_exec);
        }
    }

    fn close(&mut self, first: i32, last: i32) {
        // `close_range` takes unsigned numbers: up to the last possible descriptor.
        let last = if last < 0 { i32::MAX } else { last };
        if first == last {
            self.open.remove(&first);
        } else if first >= 0 {
            self.open.retain(|descriptor, _| !(first..=last).contains(descriptor));
        }
    }
}

/// Returns the protocol or the family of a new socket, `TCP` or `UNIX`; the call shows nothing else.
fn socket_name(context: &Context<'_>) -> Option<String> {
    let family = context.raw(0) & 0xffff_ffff;
    let name = match (family, context.raw(1) & 0xf) {
        (2 | 10, 1) => "TCP",
        (2 | 10, 2) => "UDP",
        _ => name_of(FAMILIES, family)?.trim_start_matches("AF_"),
    };
    Some(name.to_owned())
}

fn with_address(kind: &str, address: Option<String>) -> String {
    match address {
        Some(address) => format!("{kind}:{address}"),
        None => kind.to_owned(),
    }
}

/// Returns the address of a socket in the usual notation: `127.0.0.1:80`, `[::1]:80`, `/run/socket`, `@name`.
fn endpoint(bytes: &[u8]) -> Option<String> {
    let port = || bytes.get(2..4).map(|port| u16::from_be_bytes([port[0], port[1]]));
    match number(bytes, 0, 2)? {
        1 => match bytes.get(2..)? {
            [0, name @ ..] if !name.is_empty() => {
                Some(format!("@{}", String::from_utf8_lossy(name)))
            }
            path => Some(String::from_utf8_lossy(until_nul(path)).into_owned())
                .filter(|path| !path.is_empty()),
        },
        2 => {
            let ip: [u8; 4] = bytes.get(4..8)?.try_into().ok()?;
            Some(format!("{}:{}", std::net::Ipv4Addr::from(ip), port()?))
        }
        10 => {
            let ip: [u8; 16] = bytes.get(8..24)?.try_into().ok()?;
            Some(format!("[{}]:{}", std::net::Ipv6Addr::from(ip), port()?))
        }
        _ => None,
    }
}

/// Returns a path without `.` and double slashes; `..` stays, because the component before it may be a symbolic link.
fn clean(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for part in path.split('/').filter(|part| !part.is_empty() && *part != ".") {
        out.push('/');
        out.push_str(part);
    }
    if out.is_empty() { "/".to_owned() } else { out }
}

#[cfg(test)]
mod tests {
    use super::Descriptors;
    use crate::{Call, Copied, Files, Seen, by_number, number_of};

    /// Follows a call, whose copies come in order.
    fn follow(
        descriptors: &mut Descriptors,
        name: &str,
        arguments: &[i64],
        result: i64,
        copies: &[&[u8]],
    ) {
        let number = number_of(name).expect("a call");
        assert!(copies.len() <= by_number(number).map_or(0, |call| Call::copies(call).len()));
        let mut all = [0; 6];
        for (to, from) in all.iter_mut().zip(arguments) {
            *to = *from as u64;
        }
        let copied: Vec<Copied<'_>> = copies
            .iter()
            .enumerate()
            .map(|(copy, bytes)| Copied { copy, bytes, length: bytes.len() as u64 })
            .collect();
        descriptors.follow(&Seen { number, arguments: all, result: Some(result), copied: &copied });
    }

    fn name(descriptors: &Descriptors, descriptor: i32) -> Option<String> {
        descriptors.name(descriptor).map(|name| name.into_owned())
    }

    const CLOEXEC: i64 = 0o2_000_000;

    #[test]
    fn files_are_followed_through_copies_and_exec() {
        let mut files = Descriptors::new();
        files.set_directory("/home/me");
        files.set(0, "/dev/null");
        follow(&mut files, "openat", &[-100, 1, CLOEXEC], 3, &[b"./notes//a.txt"]);
        assert_eq!(name(&files, 3).as_deref(), Some("/home/me/notes/a.txt"));
        follow(&mut files, "openat", &[-100, 1, 0o200_000], 4, &[b"/etc"]);
        follow(&mut files, "openat", &[4, 1, 0], 5, &[b"passwd"]);
        assert_eq!(name(&files, 5).as_deref(), Some("/etc/passwd"));
        follow(&mut files, "dup3", &[3, 7, 0], 7, &[]);
        follow(&mut files, "fcntl", &[5, 1030, 10], 10, &[]);
        follow(&mut files, "pipe2", &[1, CLOEXEC], 0, &[&[8, 0, 0, 0, 9, 0, 0, 0]]);
        assert_eq!(name(&files, 9).as_deref(), Some("pipe"));
        follow(&mut files, "execve", &[1, 1, 1], 0, &[]);
        assert_eq!(name(&files, 7).as_deref(), Some("/home/me/notes/a.txt"), "the copy stays open");
        for closed in [3, 8, 9, 10] {
            assert_eq!(name(&files, closed), None, "{closed}");
        }
        follow(&mut files, "close_range", &[4, 0xffff_ffff, 0], 0, &[]);
        assert_eq!((name(&files, 5), name(&files, 7)), (None, None));
        assert_eq!(name(&files, 0).as_deref(), Some("/dev/null"));
    }

    #[test]
    fn sockets_are_named_after_their_addresses() {
        let mut files = Descriptors::new();
        let address = [2, 0, 0, 80, 127, 0, 0, 1];
        follow(&mut files, "socket", &[2, 1 | CLOEXEC, 0], 3, &[]);
        assert_eq!(name(&files, 3).as_deref(), Some("TCP"));
        follow(&mut files, "connect", &[3, 1, 8], -115, &[&address]);
        assert_eq!(name(&files, 3).as_deref(), Some("TCP:127.0.0.1:80"));
        follow(&mut files, "socket", &[1, 1, 0], 4, &[]);
        follow(&mut files, "bind", &[4, 1, 9], 0, &[b"\x01\0/run/me\0"]);
        assert_eq!(name(&files, 4).as_deref(), Some("UNIX:/run/me"));
        follow(&mut files, "accept4", &[4, 1, 1, CLOEXEC], 5, &[b"\x01\0"]);
        assert_eq!(name(&files, 5).as_deref(), Some("UNIX"));
        follow(&mut files, "connect", &[9, 1, 8], 0, &[&address]);
        assert_eq!(name(&files, 9), None, "nothing is known of it");
    }

    #[test]
    fn calls_that_fail_and_paths_that_are_cut_say_nothing() {
        let mut files = Descriptors::new();
        follow(&mut files, "openat", &[-100, 1, 0], -2, &[b"/etc/none"]);
        follow(&mut files, "openat", &[-100, 1, 0], 3, &[b"relative"]);
        assert_eq!(name(&files, 3), None, "relative to what is not known");
        assert!(files.is_unknown(3) && !files.is_unknown(-1));
        follow(&mut files, "close", &[3], -9, &[]);
        follow(&mut files, "close_range", &[9, 2, 0], 0, &[]);
        follow(&mut files, "close_range", &[9, 2, 4], 0, &[]);
    }

    #[test]
    fn children_share_descriptors_or_copy_them() {
        let seen = |name: &str, flags| {
            let number = number_of(name).expect("a call");
            let bytes = u64::to_le_bytes(flags);
            let copied = [Copied { copy: 0, bytes: &bytes, length: 8 }];
            let arguments = [if name == "clone" { flags } else { 1 }, 0, 0, 0, 0, 0];
            Descriptors::shared_with_child(&Seen {
                number,
                arguments,
                result: Some(9),
                copied: &copied,
            })
        };
        for call in ["clone", "clone3"] {
            assert_eq!((seen(call, 0x400), seen(call, 17)), (Some(true), Some(false)), "{call}");
        }
        assert_eq!(seen("read", 0x400), None);
    }
}
