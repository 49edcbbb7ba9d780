//! Unwinds the test's own stack, and compares with what the C++ runtime's unwinder finds.
use std::arch::asm;
use std::ffi::c_void;
use std::sync::{Mutex, PoisonError};

use pyrograph_unwind::{
    AddressSpace, Arch, Frame, Registers, StackCopy, StackEnd, Unwinder, Unwound,
};

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
    // It may end with the first frame's undefined return address.
    frames.pop_if(|last| *last == 0);
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

/// A thread's stack from a stack pointer to the end of its mapping, where it is now.
fn stack(start: u64) -> Vec<u8> {
    let lines = crate::common::lines("self");
    let end = lines.iter().find(|line| (line.start..line.end).contains(&start)).unwrap().end;
    // SAFETY: the callers' frames, which wait for us, and what is above them in the same mapping.
    unsafe { std::slice::from_raw_parts(start as *const u8, (end - start) as usize) }.to_vec()
}

fn space() -> AddressSpace {
    crate::common::Files::default().space("self", &crate::common::lines("self"))
}

/// Unwind from registers of this thread, whose frames must still be there.
#[inline(never)]
fn unwind(registers: &Registers) -> (Vec<Frame>, Unwound) {
    let start = registers.sp().unwrap();
    let bytes = stack(start);
    let mut frames = Vec::new();
    let stack = StackCopy { start, bytes: &bytes };
    let unwound =
        Unwinder::new(Arch::X86_64).unwind(&space(), registers, stack, 10_000, &mut frames);
    (frames, unwound)
}

fn addresses(frames: &[Frame]) -> Vec<u64> {
    frames.iter().map(|frame| frame.address).collect()
}

#[test]
fn finds_the_frames_that_the_runtime_finds() {
    let want = established();
    let (frames, unwound) = unwind(&here());
    assert_eq!(unwound.end, StackEnd::Root);
    assert_eq!(unwound.without_table, 0);
    // `want` begins with `established` and this function, at another place.
    let got = addresses(&frames);
    assert!(got.len() > 5);
    assert_eq!(got[1..], want[2..]);
}

#[inline(never)]
fn deep(depth: usize, then: &mut dyn FnMut()) {
    let mut local = [depth; 9];
    std::hint::black_box(&mut local);
    if depth == 0 {
        then()
    } else {
        deep(depth - 1, then)
    }
    std::hint::black_box(&mut local);
}

/// The same stack, with a copy of limited size and a limit on frames.
#[test]
fn what_is_cut_says_so() {
    deep(300, &mut || {
        let registers = here();
        let (whole, unwound) = unwind(&registers);
        assert_eq!(unwound.end, StackEnd::Root);
        assert!(whole.len() > 300);
        let start = registers.sp().unwrap();
        let bytes = stack(start);
        let space = space();
        let mut unwinder = Unwinder::new(Arch::X86_64);
        for size in (0..unwound.depth as usize + 64).step_by(40) {
            let copy = StackCopy { start, bytes: &bytes[..size] };
            let mut frames = Vec::new();
            let cut = unwinder.unwind(&space, &registers, copy, 10_000, &mut frames);
            assert_eq!(frames, whole[..frames.len()], "{size} bytes");
            let all = frames.len() == whole.len();
            let end = if all { StackEnd::Root } else { StackEnd::Truncated };
            assert_eq!(cut.end, end, "{size} bytes");
            assert_eq!(cut.beyond_copy, 0);

            // The rest from where it is now.
            let beyond = |address: u64| {
                let at = (address - start) as usize;
                bytes.get(at..at + 8).map(|word| u64::from_le_bytes(word.try_into().unwrap()))
            };
            let found = frames.len();
            frames.clear();
            let live = unwinder.unwind_live(&space, &registers, copy, &beyond, 10_000, &mut frames);
            assert_eq!(live.end, StackEnd::Root);
            let addresses =
                |frames: &[Frame]| frames.iter().map(|it| it.address).collect::<Vec<_>>();
            assert_eq!(addresses(&frames), addresses(&whole));
            // Frames read of a recursion may be of another moment.
            let guessed = frames.iter().filter(|frame| frame.guessed).count();
            let read = if live.recursion_goes_beyond { whole.len() - found } else { 0 };
            assert_eq!(guessed, read, "{size} bytes");
            assert_eq!(live.beyond_copy as usize, whole.len() - found, "{size} bytes");
            // The recursion is where an address comes again.
            let is_in = |frames: &[Frame], next: &Frame| {
                frames.iter().rev().take(32).any(|it| it.address == next.address)
            };
            let goes_on = whole.get(found).is_some_and(|next| is_in(&whole[..found], next));
            assert_eq!(live.recursion_goes_beyond, goes_on, "{size} bytes");
            if goes_on {
                unwinder.set_guessing(false);
                frames.clear();
                let refused =
                    unwinder.unwind_live(&space, &registers, copy, &beyond, 10_000, &mut frames);
                assert_eq!(
                    (refused.end, frames.len()),
                    (StackEnd::Truncated, found),
                    "{size} bytes"
                );
                unwinder.set_guessing(true);
            }
        }
        let mut frames = Vec::new();
        let copy = StackCopy { start, bytes: &bytes };
        let cut = unwinder.unwind(&space, &registers, copy, 7, &mut frames);
        assert_eq!((cut.end, &frames[..]), (StackEnd::TooManyFrames, &whole[..7]));
    });
}

/// The stack above the copy has changed since.
#[test]
fn what_is_no_return_address_is_not_believed() {
    let registers = here();
    let mut frames = Vec::new();
    let copy = StackCopy { start: registers.sp().unwrap(), bytes: &[] };
    // Code, but not behind a call: a function's first instruction.
    let function = established as *const () as u64;
    let mut unwinder = Unwinder::new(Arch::X86_64);
    let space = space();
    let changed = |_: u64| Some(function);
    let cut = unwinder.unwind_live(&space, &registers, copy, &changed, 100, &mut frames);
    assert_eq!((cut.end, frames.len()), (StackEnd::Truncated, 1));
}

#[test]
fn a_thread_has_a_first_frame() {
    let thread = std::thread::spawn(|| {
        let want = established();
        let (frames, unwound) = unwind(&here());
        assert_eq!(unwound.end, StackEnd::Root);
        assert_eq!(addresses(&frames)[1..3], want[2..4]);
    });
    thread.join().unwrap();
}

/// Registers and stack as a signal handler saw them.
struct Handled {
    frames: Vec<Frame>,
    unwound: Unwound,
    want: Vec<u64>,
    interrupted: u64,
}

static HANDLED: Mutex<Option<Handled>> = Mutex::new(None);

extern "C" fn handler(_: i32, _: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes a context to handlers that are set with SA_SIGINFO.
    let context = unsafe { &*context.cast::<libc::ucontext_t>() };
    let interrupted = context.uc_mcontext.gregs[libc::REG_RIP as usize] as u64;
    let want = established();
    let (frames, unwound) = unwind(&here());
    *HANDLED.lock().unwrap() = Some(Handled { frames, unwound, want, interrupted });
}

/// Interrupts itself between two instructions that no call is near to.
#[inline(never)]
fn interrupt(flags: i32) -> Handled {
    // A handler is the whole process's.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: a handler with the signature that the flags ask for. It allocates, which is safe here
    // as the signal comes from the instruction below and not from within an allocation.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | flags;
        libc::sigaction(libc::SIGTRAP, &action, std::ptr::null_mut());
        asm!("int3");
    }
    HANDLED.lock().unwrap().take().unwrap()
}

#[test]
fn signal_frames_lead_to_what_was_interrupted() {
    let handled = interrupt(0);
    assert_eq!(handled.unwound.end, StackEnd::Root);
    let got = addresses(&handled.frames);
    assert_eq!(got[1..], handled.want[2..]);
    let at = got.iter().position(|&address| address == handled.interrupted).unwrap();
    assert!(!handled.frames[at].is_return_address, "the interrupted instruction itself");
    let trampoline = handled.frames[at - 1];
    assert!(!trampoline.is_return_address, "its first byte: the code before is another function");
    assert!(handled.frames[at + 1].is_return_address);
}

/// A copy of the handler's own stack does not have the frames of the thread's.
#[test]
fn a_signal_stack_ends_with_the_frame_that_was_interrupted() {
    let thread = std::thread::spawn(|| {
        let mut memory = vec![0_u8; 1 << 20];
        let stack =
            libc::stack_t { ss_sp: memory.as_mut_ptr().cast(), ss_flags: 0, ss_size: memory.len() };
        // SAFETY: the memory stays until the thread has ended.
        unsafe { libc::sigaltstack(&stack, std::ptr::null_mut()) };
        let handled = interrupt(libc::SA_ONSTACK);
        // SAFETY: takes back the above.
        unsafe {
            let none = libc::stack_t { ss_flags: libc::SS_DISABLE, ..stack };
            libc::sigaltstack(&none, std::ptr::null_mut());
        }
        let last = handled.frames.last().unwrap();
        if handled.unwound.end == StackEnd::Root {
            // The two stacks happened to be next to each other, in one mapping.
            assert_eq!(addresses(&handled.frames)[1..], handled.want[2..]);
        } else {
            assert!(matches!(handled.unwound.end, StackEnd::OffStack | StackEnd::Truncated));
            assert_eq!(last.address, handled.interrupted);
            assert!(!last.is_return_address);
        }
    });
    thread.join().unwrap();
}
