//! Unwinds the test's own stack, and compares with what the C++ runtime's unwinder finds.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod common;

use std::arch::asm;
use std::ffi::c_void;

use pyrograph_unwind::{Arch, Frame, Registers, StackCopy, StackEnd, Unwinder, Unwound};

unsafe extern "C" {
    fn _Unwind_Backtrace(
        callback: extern "C" fn(*mut c_void, *mut c_void) -> i32,
        argument: *mut c_void,
    ) -> i32;
    fn _Unwind_GetIP(context: *mut c_void) -> u64;
}

extern "C" fn collect(context: *mut c_void, argument: *mut c_void) -> i32 {
    // SAFETY: `established` passes a vector, and waits for the last call.
    let frames = unsafe { &mut *argument.cast::<Vec<u64>>() };
    // SAFETY: `context` is valid during this call.
    frames.push(unsafe { _Unwind_GetIP(context) });
    0
}

/// The return addresses of the caller's stack, by libgcc.
#[inline(never)]
fn established() -> Vec<u64> {
    let mut frames = Vec::<u64>::new();
    // SAFETY: `collect` gets the vector that it expects.
    unsafe { _Unwind_Backtrace(collect, (&raw mut frames).cast()) };
    frames
}

/// The registers here, as a sample would have them.
#[inline(always)]
fn here() -> Registers {
    let mut values = [0u64; 8];
    // SAFETY: stores registers into the array.
    unsafe {
        asm!(
            "lea {rip}, [rip]",
            "mov [{at}], rbx",
            "mov [{at} + 8], rbp",
            "mov [{at} + 16], rsp",
            "mov [{at} + 24], r12",
            "mov [{at} + 32], r13",
            "mov [{at} + 40], r14",
            "mov [{at} + 48], r15",
            "mov [{at} + 56], {rip}",
            at = in(reg) values.as_mut_ptr(),
            rip = out(reg) _,
        );
    }
    let mut registers = Registers::new(Arch::X86_64);
    for (register, value) in [3, 6, 7, 12, 13, 14, 15, 16].into_iter().zip(values) {
        registers.set(register, value);
    }
    registers
}

/// Unwind from registers of this thread, whose frames must still be there.
#[inline(never)]
fn unwind(registers: &Registers) -> (Vec<Frame>, Unwound) {
    let lines = common::lines("self");
    let space = common::Files::default().space("self", &lines);
    let start = registers.sp().unwrap();
    let end = lines.iter().find(|line| (line.start..line.end).contains(&start)).unwrap().end;
    // SAFETY: from the caller's stack pointer to the end of its mapping; it waits for us.
    let bytes =
        unsafe { std::slice::from_raw_parts(start as *const u8, (end - start) as usize) }.to_vec();
    let mut frames = Vec::new();
    let stack = StackCopy { start, bytes: &bytes };
    let unwound = Unwinder::new(Arch::X86_64).unwind(&space, registers, stack, 10_000, &mut frames);
    (frames, unwound)
}

#[test]
fn finds_the_frames_that_the_runtime_finds() {
    let want = established();
    let (frames, unwound) = unwind(&here());
    assert_eq!(unwound.end, StackEnd::Root);
    assert_eq!(unwound.without_table, 0);
    // `want` begins with `established` and this function, at another place.
    let got: Vec<u64> = frames.iter().map(|frame| frame.address).collect();
    assert!(got.len() > 5);
    assert_eq!(got[1..], want[2..want.len() - usize::from(want.last() == Some(&0))]);
}
