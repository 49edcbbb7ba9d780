//! One program for each tracepoint: copies of a template with the index of the event patched in.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use libbpf_rs::Object;
use libbpf_rs::libbpf_sys::{self, bpf_insn};

use super::layout;
use crate::error::Error;
use crate::object::program;

/// `BPF_ALU64 | BPF_MOV | BPF_K`, include/uapi/linux/bpf.h
const MOVE_NUMBER: u8 = 0xb7;

/// The program that is copied, with its instructions as they were loaded.
pub struct Template {
    instructions: Vec<bpf_insn>,
}

/// A tracepoint that is counted.
pub struct Point {
    pub event: usize,
    /// The attachment is dropped first.
    _link: OwnedFd,
    program: OwnedFd,
    /// Value of [`Self::all_missed`] when counting began.
    before: u64,
}

impl Template {
    pub fn new(object: &Object) -> Result<Self, Error> {
        let program = program(object, "on_tracepoint")?;
        Ok(Self { instructions: program.insns().to_vec() })
    }

    /// Loads a copy of the program for an event, and attaches it to a tracepoint.
    pub fn attach(&self, event: usize, name: &str) -> io::Result<Point> {
        let program = self.load(event)?;
        let name = CString::new(name)?;
        // SAFETY: the name ends with NUL and outlives the call; the descriptor belongs to a program.
        let link =
            unsafe { libbpf_sys::bpf_raw_tracepoint_open(name.as_ptr(), program.as_raw_fd()) };
        Ok(Point { event, _link: owned(link)?, program, before: 0 })
    }

    fn load(&self, event: usize) -> io::Result<OwnedFd> {
        let mut instructions = self.instructions.clone();
        let index = i32::try_from(event).map_err(io::Error::other)?;
        let mut places = 0;
        for instruction in &mut instructions {
            if instruction.code == MOVE_NUMBER && instruction.imm == layout::EVENT_INDEX {
                instruction.imm = index;
                places += 1;
            }
        }
        if places != 1 {
            return Err(io::Error::other("no place for the index of an event"));
        }
        // SAFETY: the strings end with NUL, the number of instructions is correct, and all outlive the call; there are
        // no options.
        owned(unsafe {
            libbpf_sys::bpf_prog_load(
                libbpf_sys::BPF_PROG_TYPE_RAW_TRACEPOINT,
                c"on_tracepoint".as_ptr(),
                c"Dual MIT/GPL".as_ptr(),
                instructions.as_ptr(),
                instructions.len() as _,
                std::ptr::null_mut(),
            )
        })
    }
}

impl Point {
    /// Number of hits that were missed because the program was running on the same CPU.
    pub fn missed(&self) -> u64 {
        self.all_missed() - self.before
    }

    /// Resets the number of missed hits.
    pub fn forget_missed(&mut self) {
        self.before = self.all_missed();
    }

    fn all_missed(&self) -> u64 {
        let mut info = libbpf_sys::bpf_prog_info::default();
        let mut size = u32::try_from(size_of_val(&info)).unwrap_or(0);
        // SAFETY: the kernel writes at most `size` bytes.
        let result = unsafe {
            libbpf_sys::bpf_prog_get_info_by_fd(
                self.program.as_raw_fd(),
                &raw mut info,
                &raw mut size,
            )
        };
        if result == 0 { info.recursion_misses } else { 0 }
    }
}

fn owned(fd: i32) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::from_raw_os_error(-fd));
    }
    // SAFETY: the kernel has just opened the descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
