//! Requests to one virtual machine to name its code: checks if it may be asked, makes it listen, and reads its perf
//! map.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use pyrograph_elf::Image;
use pyrograph_event::proc_text;
use pyrograph_resolve::{Files, LiveFiles, MappedFile};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags, openat, openat2, unlinkat};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::attach::{self, Failure};
use super::collected::{Collected, Names};
use super::error::JvmError;
use super::hotspot::{Facts, Memory, exported};
use super::process::{Library, Status, has_dispatcher, has_open, options_may_be_hidden};

/// Maximum time to wait until a process that has mapped the library can be asked.
const UNTIL_READY: Duration = Duration::from_secs(10);

/// Time between two reads of its flags until then.
const UNTIL_FLAGS: Duration = Duration::from_millis(100);

/// Maximum time to wait until it listens, once it has received the signal.
const UNTIL_LISTENS: Duration = Duration::from_secs(5);

/// Maximum time to wait for an answer: a hundred thousand methods take less than a second.
const UNTIL_ANSWER: Duration = Duration::from_secs(10);

/// Time between two checks.
const TICK: Duration = Duration::from_millis(5);

/// Maximum size of a perf map that is read, in bytes.
const MAP_LIMIT: u64 = 256 << 20;

/// First version of the JDK that can name its code.
const FIRST: i32 = 17;

/// A virtual machine that can be asked.
#[derive(Debug)]
pub struct Machine {
    pid: i32,
    /// Its PID in its own namespace, its user and group.
    status: Status,
    pidfd: OwnedFd,
    /// Its `/tmp`.
    tmp: OwnedFd,
    /// Facts about it. `None` if they cannot be read.
    facts: Option<Facts>,
    collected: Collected,
    /// True once the signal was sent, which is done at most once.
    is_signalled: bool,
    /// True while the file for the signal exists and was created here.
    has_trigger: bool,
    /// The perf map's metadata before the first request, and when it was last read.
    before: Option<Metadata>,
    last: Option<Metadata>,
}

struct Live(i32);

impl Memory for Live {
    fn read(&self, address: u64, bytes: &mut [u8]) -> bool {
        LiveFiles.read_memory(self.0, address, bytes)
    }
}

impl Machine {
    /// Waits until a process that has mapped the library can be asked, or `ending` is set.
    pub fn open(pid: i32, ending: &AtomicBool) -> Result<Self, JvmError> {
        let descriptor = Pid::from_raw(pid).ok_or(JvmError::Gone)?;
        let pidfd = pidfd_open(descriptor, PidfdFlags::empty()).map_err(|_| JvmError::Gone)?;
        let maps = proc_text(format!("/proc/{pid}/maps"))
            .map_err(|_| JvmError::Unreadable("/proc/PID/maps"))?;
        let library = Library::in_maps(&maps).ok_or(JvmError::NotHotSpot)?;
        if library.has_map_agent {
            return Err(JvmError::OtherMap);
        }
        let read_facts = facts_of(pid, &library)?;
        let mut facts = wait_until_ready(pid, &pidfd, &read_facts, ending)?;
        if facts.is_none() && options_may_be_hidden(pid, &maps) {
            return Err(JvmError::Unreadable("process_vm_readv"));
        }
        match &facts {
            Some(Facts { version: 0, .. }) => return Err(JvmError::TooOld(None)),
            Some(facts) if facts.version < FIRST => {
                return Err(JvmError::TooOld(Some(facts.release.clone())));
            }
            Some(facts) if facts.is_attach_disabled => return Err(JvmError::Disabled),
            _ => {}
        }
        let status = Status::of(pid).ok_or(JvmError::Gone)?;
        let tmp = tmp_of(pid).map_err(JvmError::system("opening its /tmp"))?;
        if has_open(pid, &map_name(&status)) {
            return Err(JvmError::OtherMap);
        }
        // The text is shown to users.
        if let Some(facts) = &mut facts {
            facts.release.retain(|letter| letter.is_ascii_graphic());
        }
        let mut machine = Self {
            pid,
            status,
            pidfd,
            tmp,
            facts,
            collected: Collected::default(),
            is_signalled: false,
            has_trigger: false,
            before: None,
            last: None,
        };
        machine.before = machine.look(&map_name(&status));
        Ok(machine)
    }

    /// Version of its JDK, if it could be read.
    pub fn release(&self) -> Option<&str> {
        self.facts.as_ref().map(|facts| facts.release.as_str())
    }

    /// Returns true if the process has ended.
    pub fn has_ended(&self) -> bool {
        has_ended(&self.pidfd)
    }

    /// Asks it for its names. Call this on a separate thread, which acts as the process's user from then on.
    pub fn ask(&mut self) -> Result<Names, JvmError> {
        if self.has_ended() {
            return self.read_last();
        }
        if Status::of(self.pid).is_some_and(|status| status.is_stopped) {
            return Err(JvmError::Stopped);
        }
        act_as(&self.status)?;
        let map = map_name(&self.status);
        let is_its_own = |data: &Metadata| data.is_file() && data.uid() == self.status.user;
        if self.look(&map).is_some_and(|data| !is_its_own(&data)) {
            // It could not write to that file, and would complain on its standard output.
            return Err(JvmError::ForeignMap(self.status.inner_pid));
        }
        let stream = match self.connect() {
            Ok(Some(stream)) => stream,
            Ok(None) => self.make_it_listen()?,
            Err(error) => return Err(error),
        };
        attach::run(stream, attach::PERF_MAP).map_err(|failure| self.failed(failure))?;
        self.read_map()
    }

    /// Returns the names that it wrote when it ended, if it did.
    fn read_last(&mut self) -> Result<Names, JvmError> {
        match self.facts.as_ref().is_some_and(|facts| facts.dumps_at_exit) {
            true => self.read_map(),
            false => Err(JvmError::Gone),
        }
    }

    fn failed(&self, failure: Failure) -> JvmError {
        match failure {
            Failure::UnknownCommand => JvmError::TooOld(self.release().map(str::to_owned)),
            Failure::Io(_) if self.has_ended() => JvmError::Gone,
            Failure::Io(error) if is_timeout(&error) => no_answer(UNTIL_ANSWER),
            Failure::Io(error) => JvmError::system("reading its answer")(error),
            other => JvmError::Refused(other.to_string()),
        }
    }

    /// Connects to it. Returns `None` if it does not listen.
    fn connect(&self) -> Result<Option<UnixStream>, JvmError> {
        let name = format!(".java_pid{}", self.status.inner_pid);
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let node = match openat(&self.tmp, &name, flags, Mode::empty()) {
            Ok(node) => File::from(node),
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(JvmError::system("opening its socket")(error.into())),
        };
        let data = node.metadata().map_err(JvmError::system("opening its socket"))?;
        if !data.file_type().is_socket() || data.uid() != self.status.user {
            // It cannot create its own socket under that name.
            return Err(JvmError::Refused(format!("/tmp/{name} is not its own")));
        }
        let connected = || -> io::Result<UnixStream> {
            let (family, kind) = (AddressFamily::UNIX, SocketType::STREAM);
            let socket = socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
            set_socket_timeout(&socket, Timeout::Send, Some(UNTIL_ANSWER))?;
            set_socket_timeout(&socket, Timeout::Recv, Some(UNTIL_ANSWER))?;
            // Connect by the file descriptor, so that the socket is the right one in any mount namespace.
            connect(&socket, &SocketAddrUnix::new(path_of(&node))?)?;
            Ok(socket.into())
        };
        match connected() {
            Ok(stream) => Ok(Some(stream)),
            // The socket is left from a process that had the same PID before.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(None),
            Err(error) if is_timeout(&error) => Err(no_answer(UNTIL_ANSWER)),
            Err(error) => Err(JvmError::system("connecting to it")(error)),
        }
    }

    /// Makes it listen, and connects to it.
    fn make_it_listen(&mut self) -> Result<UnixStream, JvmError> {
        if !self.is_signalled {
            self.trigger()?;
        }
        let started = Instant::now();
        loop {
            if let Some(stream) = self.connect()? {
                self.remove_trigger();
                return Ok(stream);
            }
            if self.has_ended() {
                self.remove_trigger();
                return Err(JvmError::Gone);
            }
            if started.elapsed() >= UNTIL_LISTENS {
                // The file stays: if the machine handled the signal without it, it would print all stacks.
                return Err(no_answer(UNTIL_LISTENS));
            }
            thread::sleep(TICK);
        }
    }

    /// Sends it the signal on which it begins to listen.
    fn trigger(&mut self) -> Result<(), JvmError> {
        let name = trigger_name(&self.status);
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        match openat(&self.tmp, &name, flags, Mode::RUSR | Mode::WUSR) {
            Ok(_) => self.has_trigger = true,
            // Another tool is doing the same, or has done it.
            Err(Errno::EXIST) => {
                let data = self.look(&name);
                if data.is_none_or(|data| ![0, self.status.user].contains(&data.uid())) {
                    return Err(JvmError::Refused(format!("/tmp/{name} is another user's")));
                }
            }
            Err(error) => return Err(JvmError::system("writing to its /tmp")(error.into())),
        }
        // Checked at the last moment: the signal kills a process that does not handle it.
        let status = Status::of(self.pid).ok_or(JvmError::Gone)?;
        let may = match status {
            Status { catches_quit: false, .. } => Err(JvmError::ReducedSignals),
            _ if !has_dispatcher(self.pid) => Err(JvmError::NotStarted),
            _ => pidfd_send_signal(&self.pidfd, Signal::QUIT)
                .map_err(|error| JvmError::system("sending it SIGQUIT")(error.into())),
        };
        if may.is_err() {
            self.remove_trigger();
        }
        self.is_signalled = may.is_ok();
        may
    }

    fn remove_trigger(&mut self) {
        if std::mem::take(&mut self.has_trigger) {
            // If it cannot be removed, another process has removed it.
            let _ = unlinkat(&self.tmp, trigger_name(&self.status), AtFlags::empty());
        }
    }

    fn read_map(&mut self) -> Result<Names, JvmError> {
        let number = self.status.inner_pid;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = openat(&self.tmp, map_name(&self.status), flags, Mode::empty());
        let file = File::from(file.map_err(|_| JvmError::NoMap(number))?);
        let reading = || JvmError::system("reading its map");
        let data = file.metadata().map_err(reading())?;
        let is_as = |other: &Option<Metadata>| {
            let of = |data: &Metadata| (data.ino(), data.mtime(), data.mtime_nsec());
            other.as_ref().is_some_and(|other| of(other) == of(&data))
        };
        if !data.is_file() || data.uid() != self.status.user || is_as(&self.before) {
            return Err(JvmError::NoMap(number));
        }
        let mut bytes = Vec::new();
        file.take(MAP_LIMIT).read_to_end(&mut bytes).map_err(reading())?;
        self.last = Some(data);
        self.collected.add(&bytes).map_err(reading())
    }

    /// Returns the metadata of a file in its `/tmp`.
    fn look(&self, name: &str) -> Option<Metadata> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&self.tmp, name, flags, Mode::empty()).ok()?;
        File::from(file).metadata().ok()
    }

    /// Removes the files that exist because it was asked.
    pub fn clean_up(mut self) {
        // The file stays while the signal may be pending: without it, the machine would print all stacks.
        if self.has_trigger && (self.has_ended() || matches!(self.connect(), Ok(Some(_)))) {
            self.remove_trigger();
        }
        let name = map_name(&self.status);
        let writes_itself = self.facts.as_ref().is_none_or(|facts| facts.dumps_at_exit);
        if let Some(last) = self.last.take().filter(|_| self.before.is_none() && !writes_itself)
            && self.look(&name).is_some_and(|now| now.ino() == last.ino())
        {
            let _ = unlinkat(&self.tmp, name, AtFlags::empty());
        }
    }
}

/// Function that reads facts about a machine, or returns `None`.
type ReadFacts = dyn Fn() -> Option<Facts>;

/// Returns a function that reads facts about the machine in a process with this library.
fn facts_of(pid: i32, library: &Library) -> Result<Box<ReadFacts>, JvmError> {
    let Library { range, path, identity, .. } = library;
    let mapped = MappedFile { pid, range: range.clone(), path, identity };
    let (file, _) = LiveFiles.open(&mapped).ok_or(JvmError::Unreadable("libjvm.so"))?;
    let image = Image::map(&file).map_err(|_| JvmError::NotHotSpot)?;
    let variables = exported(&image).ok_or(JvmError::NotHotSpot)?;
    let first = image.segments().iter().find(|segment| segment.file_offset == 0);
    let bias = range.start.wrapping_sub(first.map_or(0, |segment| segment.address));
    Ok(Box::new(move || Facts::read(&Live(pid), &variables, bias)))
}

/// Waits until the machine handles SIGQUIT, or listens. Returns the facts about it, if they can be read.
fn wait_until_ready(
    pid: i32,
    pidfd: &OwnedFd,
    read_facts: &ReadFacts,
    ending: &AtomicBool,
) -> Result<Option<Facts>, JvmError> {
    let started = Instant::now();
    let mut looked = started;
    loop {
        let status = Status::of(pid).filter(|_| !has_ended(pidfd)).ok_or(JvmError::Gone)?;
        if status.catches_quit && has_dispatcher(pid) {
            return Ok(read_facts());
        }
        let is_over = started.elapsed() >= UNTIL_READY || ending.load(Ordering::Relaxed);
        if is_over || looked.elapsed() >= UNTIL_FLAGS {
            looked = Instant::now();
            // With -Xrs it listens from the beginning, and needs no signal.
            let facts = read_facts().filter(|facts| facts.has_reduced_signals);
            match facts {
                Some(_) if listens(pid, &status) => return Ok(facts),
                Some(_) if is_over => return Err(JvmError::ReducedSignals),
                None if is_over => return Err(JvmError::NotStarted),
                _ => {}
            }
        }
        thread::sleep(TICK);
    }
}

/// Returns true if the socket for requests to a process exists.
fn listens(pid: i32, status: &Status) -> bool {
    let name = format!(".java_pid{}", status.inner_pid);
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    tmp_of(pid).is_ok_and(|tmp| openat(tmp, name, flags, Mode::empty()).is_ok())
}

/// Opens `/tmp` of a process. Links are resolved within the process's root directory.
fn tmp_of(pid: i32) -> io::Result<OwnedFd> {
    let root = File::open(format!("/proc/{pid}/root"))?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(openat2(root, "tmp", flags, Mode::empty(), ResolveFlags::IN_ROOT)?)
}

fn map_name(status: &Status) -> String {
    format!("perf-{}.map", status.inner_pid)
}

fn trigger_name(status: &Status) -> String {
    format!(".attach_pid{}", status.inner_pid)
}

fn path_of(file: &File) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

fn no_answer(after: Duration) -> JvmError {
    JvmError::NoAnswer(after.as_secs())
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

fn has_ended(pidfd: &OwnedFd) -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut fds = [PollFd::from_borrowed_fd(pidfd.as_fd(), PollFlags::IN)];
    poll(&mut fds, Some(&now)).is_ok_and(|ready| ready > 0)
}

/// Makes the calling thread, and no other, act as the user of a process. A virtual machine answers only its own user,
/// and root only in its own user namespace; and files in its `/tmp` should belong to its user.
fn act_as(status: &Status) -> Result<(), JvmError> {
    let Status { user, group, .. } = *status;
    let other_user = |done: libc::c_long| match done {
        0 => Ok(()),
        _ => Err(JvmError::OtherUser { user, group }),
    };
    let keep = u32::MAX;
    // SAFETY: these calls take numbers. The raw system calls affect the calling thread only, unlike the functions of
    // the C library, which affect all threads.
    unsafe {
        let (other, others) = (user != libc::geteuid(), group != libc::getegid());
        let is_dumpable = libc::prctl(libc::PR_GET_DUMPABLE) == 1;
        if others {
            other_user(libc::syscall(libc::SYS_setresgid, keep, group, keep))?;
        }
        if other {
            other_user(libc::syscall(libc::SYS_setresuid, keep, user, keep))?;
        }
        // The kernel has cleared this flag for the whole process.
        if is_dumpable && (other || others) {
            libc::prctl(libc::PR_SET_DUMPABLE, 1);
        }
    }
    Ok(())
}
