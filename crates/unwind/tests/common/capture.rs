//! Registers and stacks of another process, by ptrace.

use std::fs;
use std::io;

use pyrograph_unwind::{AddressSpace, Arch, Registers};

use crate::common::{Files, Line, lines};

/// What a sample of a thread holds, with the mappings at that time.
pub struct Capture {
    pub space: AddressSpace,
    /// The mappings with their paths.
    pub lines: Vec<Line>,
    pub registers: Registers,
    pub start: u64,
    pub bytes: Vec<u8>,
}

/// Capture those threads of a process that run at this moment.
pub fn running_threads(pid: u32, files: &mut Files) -> Vec<Capture> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let tids = tasks.flatten().filter_map(|task| task.file_name().to_str()?.parse().ok());
    tids.filter(|&tid| is_running(pid, tid))
        .filter_map(|tid| capture(pid, tid, files).ok().flatten())
        .collect()
}

fn is_running(pid: u32, tid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/task/{tid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('R'))
}

fn check(result: i64) -> io::Result<()> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn capture(pid: u32, tid: i32, files: &mut Files) -> io::Result<Option<Capture>> {
    // SAFETY: ptrace requests without memory of ours.
    check(unsafe { libc::ptrace(libc::PTRACE_SEIZE, tid, 0, 0) })?;
    // SAFETY: as above.
    check(unsafe { libc::ptrace(libc::PTRACE_INTERRUPT, tid, 0, 0) })?;
    let mut status = 0;
    // SAFETY: `status` is ours.
    check(unsafe { libc::waitpid(tid, &mut status, libc::__WALL) }.into())?;
    if !libc::WIFSTOPPED(status) {
        return Ok(None);
    }
    let captured = read_stopped(pid, tid, files);
    // Our own stop is an event with SIGTRAP; a signal that came before it goes on to the thread.
    let event = status >> 16 != 0;
    let signal = if event { 0 } else { libc::WSTOPSIG(status) };
    // SAFETY: a ptrace request without memory of ours.
    check(unsafe { libc::ptrace(libc::PTRACE_DETACH, tid, 0, signal) })?;
    captured
}

fn read_stopped(pid: u32, tid: i32, files: &mut Files) -> io::Result<Option<Capture>> {
    // SAFETY: plain integers.
    let mut user: libc::user_regs_struct = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes one `user_regs_struct`.
    check(unsafe { libc::ptrace(libc::PTRACE_GETREGS, tid, 0, &raw mut user) })?;
    let mut registers = Registers::new(Arch::X86_64);
    let values = [
        user.rax, user.rdx, user.rcx, user.rbx, user.rsi, user.rdi, user.rbp, user.rsp, user.r8,
        user.r9, user.r10, user.r11, user.r12, user.r13, user.r14, user.r15, user.rip,
    ];
    for (register, value) in (0..).zip(values) {
        registers.set(register, value);
    }
    let pid = pid.to_string();
    let lines = lines(&pid);
    let Some(line) = lines.iter().find(|line| (line.start..line.end).contains(&user.rsp)) else {
        return Ok(None);
    };
    let mut bytes = vec![0; (line.end - user.rsp) as usize];
    let local = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let remote = libc::iovec { iov_base: user.rsp as *mut _, iov_len: bytes.len() };
    // SAFETY: `local` is `bytes`; the kernel checks `remote`.
    let read = unsafe { libc::process_vm_readv(tid, &local, 1, &remote, 1, 0) };
    check(read as i64)?;
    bytes.truncate(read as usize);
    let space = files.space(&pid, &lines);
    Ok(Some(Capture { space, lines, registers, start: user.rsp, bytes }))
}
