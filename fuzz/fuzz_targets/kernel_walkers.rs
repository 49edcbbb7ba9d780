//! The kernel's walkers of interpreted languages, compiled for user space: the interpreter, the native frames and the memory
//! of the process are the fuzzer's. What it is given is in `crates/bpf/src/programs/user_space/calls.c`.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[link(name = "kernel_walkers", kind = "static")]
unsafe extern "C" {
    fn pyrograph_run(bytes: *const u8, size: usize) -> i32;
}

fuzz_target!(|bytes: &[u8]| {
    // SAFETY: it reads so many bytes, and keeps none of them.
    unsafe { pyrograph_run(bytes.as_ptr(), bytes.len()) };
});
