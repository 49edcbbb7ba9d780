//! Registers and stacks of another process, by ptrace.
#![allow(dead_code, reason = "each test and example uses a part of it")]

use std::fs;
use std::io;

use pyrograph_unwind::{AddressSpace, Arch, Registers};

use crate::common::{Files, Line, lines};

/// A sample of a thread, with the mappings at that time.
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
        .filter_map(|tid| {
            let stopped = Stopped::interrupt(tid)?;
            let captured = capture(pid, &stopped, files);
            stopped.detach();
            captured
        })
        .collect()
}

fn is_running(pid: u32, tid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/task/{tid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('R'))
}

fn capture(pid: u32, stopped: &Stopped, files: &mut Files) -> Option<Capture> {
    let registers = stopped.registers();
    let start = registers.sp()?;
    let pid = pid.to_string();
    let lines = lines(&pid);
    let line = lines.iter().find(|line| (line.start..line.end).contains(&start))?;
    let mut bytes = vec![0; (line.end - start) as usize];
    let len = stopped.read(start, &mut bytes);
    bytes.truncate(len);
    let space = files.space(&pid, &lines);
    Some(Capture { space, lines, registers, start, bytes })
}

/// A thread that ptrace has stopped.
pub struct Stopped {
    pub tid: i32,
}

impl Stopped {
    /// Stop a thread that runs.
    pub fn interrupt(tid: i32) -> Option<Self> {
        request(libc::PTRACE_SEIZE, tid, 0).ok()?;
        request(libc::PTRACE_INTERRUPT, tid, 0).ok()?;
        let stopped = Self { tid };
        stopped.wait_status().filter(|&status| libc::WIFSTOPPED(status)).map(|status| {
            // Our own stop is an event; a signal that came before it is still to be delivered, and
            // is sent again when we detach.
            if status >> 16 == 0 {
                // SAFETY: sends a signal.
                unsafe { libc::kill(tid, libc::WSTOPSIG(status)) };
            }
            stopped
        })
    }

    /// Let the thread run on its own.
    pub fn detach(self) {
        let _ = request(libc::PTRACE_DETACH, self.tid, 0);
    }

    /// Execute one instruction; false if the thread has ended.
    pub fn step(&self) -> bool {
        request(libc::PTRACE_SINGLESTEP, self.tid, 0).is_ok() && self.wait()
    }

    /// Wait until the thread stops; false if it ends.
    pub fn wait(&self) -> bool {
        self.wait_status().is_some_and(|status| libc::WIFSTOPPED(status))
    }

    fn wait_status(&self) -> Option<i32> {
        let mut status = 0;
        // SAFETY: the kernel writes one integer.
        let waited = unsafe { libc::waitpid(self.tid, &mut status, libc::__WALL) };
        (waited == self.tid).then_some(status)
    }

    /// The general registers.
    pub fn registers(&self) -> Registers {
        // SAFETY: plain integers.
        let mut user: libc::user_regs_struct = unsafe { std::mem::zeroed() };
        // SAFETY: the kernel writes one `user_regs_struct`.
        unsafe { libc::ptrace(libc::PTRACE_GETREGS, self.tid, 0, &raw mut user) };
        let mut registers = Registers::new(Arch::X86_64);
        let values = [
            user.rax, user.rdx, user.rcx, user.rbx, user.rsi, user.rdi, user.rbp, user.rsp,
            user.r8, user.r9, user.r10, user.r11, user.r12, user.r13, user.r14, user.r15, user.rip,
        ];
        for (register, value) in (0..).zip(values) {
            registers.set(register, value);
        }
        registers
    }

    /// Read the thread's memory; the number of bytes that could be read.
    pub fn read(&self, address: u64, bytes: &mut [u8]) -> usize {
        let local = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        let remote = libc::iovec { iov_base: address as *mut _, iov_len: bytes.len() };
        // SAFETY: `local` is `bytes`; the kernel checks `remote`.
        let read = unsafe { libc::process_vm_readv(self.tid, &local, 1, &remote, 1, 0) };
        usize::try_from(read).unwrap_or(0)
    }
}

fn request(request: u32, tid: i32, data: i32) -> io::Result<()> {
    // SAFETY: only for requests without memory of ours.
    match unsafe { libc::ptrace(request, tid, 0, data) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}
