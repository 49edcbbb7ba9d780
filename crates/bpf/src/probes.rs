//! Tracepoints that were made at run time, by `perf probe` or through tracefs. Their programs get registers, as
//! programs of functions do, and not a record.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};

use libbpf_rs::{Link, ProgramMut};

/// Possible mount points of tracefs.
const TRACING: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// Kind of code that a probe is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Probed {
    /// Code of programs and libraries.
    User,
    /// The kernel's code.
    Kernel,
}

/// Kind of code that a tracepoint made at run time is in; `None` for the kernel's static tracepoints.
pub(crate) fn probed(category: &str, name: &str) -> Option<Probed> {
    let wanted = format!("{category}/{name}");
    // `p:probe_libc/malloc /usr/lib/libc.so.6:0x98930`, `r16:probe/read__return vfs_read`
    let lists = |file: &str| {
        let all =
            TRACING.iter().filter_map(|base| fs::read_to_string(format!("{base}/{file}")).ok());
        let is_it = |line: &str| {
            line.split_once(':')
                .is_some_and(|(_, rest)| rest.split(' ').next() == Some(wanted.as_str()))
        };
        all.into_iter().any(|text| text.lines().any(is_it))
    };
    match () {
        () if lists("uprobe_events") => Some(Probed::User),
        () if lists("kprobe_events") => Some(Probed::Kernel),
        () => None,
    }
}

/// Attaches a program to all hits of a probe.
pub(crate) fn attach(
    program: &ProgramMut<'_>,
    category: &str,
    name: &str,
) -> Result<Link, libbpf_rs::Error> {
    let event = open(category, name).map_err(libbpf_rs::Error::from)?;
    let link = program.attach_perf_event(event.as_raw_fd())?;
    // The link closes the event when it is dropped.
    let _ = event.into_raw_fd();
    Ok(link)
}

/// Opens the event of a tracepoint. Its CPU and process do not matter: programs get all of its hits.
fn open(category: &str, name: &str) -> io::Result<OwnedFd> {
    /// `struct perf_event_attr` of include/uapi/linux/perf_event.h up to version 5 of it.
    #[repr(C)]
    struct Attr {
        kind: u32,
        size: u32,
        config: u64,
        period: u64,
        rest: [u64; 11],
    }
    const PERF_TYPE_TRACEPOINT: u32 = 2;
    const PERF_FLAG_FD_CLOEXEC: libc::c_ulong = 8;
    let id = |base: &&str| fs::read_to_string(format!("{base}/events/{category}/{name}/id")).ok();
    let id = TRACING.iter().find_map(id).ok_or(io::ErrorKind::NotFound)?;
    let config = id.trim().parse().map_err(io::Error::other)?;
    let size = size_of::<Attr>() as u32;
    let attr = Attr { kind: PERF_TYPE_TRACEPOINT, size, config, period: 1, rest: [0; 11] };
    // SAFETY: the structure has the size that it states and outlives the call, which returns a descriptor.
    unsafe {
        let fd = libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attr,
            -1_i32,
            0_i32,
            -1_i32,
            PERF_FLAG_FD_CLOEXEC,
        );
        match i32::try_from(fd) {
            Ok(fd @ 0..) => Ok(OwnedFd::from_raw_fd(fd)),
            _ => Err(io::Error::last_os_error()),
        }
    }
}
