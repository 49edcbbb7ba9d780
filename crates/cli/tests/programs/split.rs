//! A program whose call tree is known. Every unit of work is the same loop, so that the share of
//! each function is the share of its units:
//!
//! ```text
//! split::main                                   total 100
//!   split::outer                                total  45   self 15
//!     split::inlined_one (inlined)              total  30   self 10
//!       split::inlined_two (inlined)            total  20   self 20
//!   <split::Worker as split::Work>::run         total  25   self 25
//!   split::apply                                total  30   self  0
//!     split::main::{{closure}} (inlined)        total  30   self 30
//! ```
//!
//! (Nearly all of each is in `wrapping_add`, which is inlined into all of them.)
use std::arch::asm;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

// Rounds differ in length, so that they are not in step with the clock that samples them.
static UNIT: AtomicU64 = AtomicU64::new(4000);

macro_rules! spin {
    ($units:expr) => {{
        let mut x: u64 = black_box(1);
        for _ in 0..$units * UNIT.load(Relaxed) {
            x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            // SAFETY: No instruction at all; it only hides the value from the optimizer.
            unsafe { asm!("/* {0} */", inout(reg) x, options(nomem, nostack, preserves_flags)) };
        }
        black_box(x);
    }};
}

trait Work {
    fn run(&self);
}

struct Worker;

impl Work for Worker {
    #[inline(never)]
    fn run(&self) {
        spin!(25)
    }
}

#[inline(always)]
fn inlined_two() {
    spin!(20)
}

#[inline(always)]
fn inlined_one() {
    spin!(10);
    inlined_two();
}

#[inline(never)]
fn outer() {
    spin!(15);
    inlined_one();
}

#[inline(never)]
fn apply<F: Fn()>(function: F) {
    function();
    black_box(());
}

fn main() {
    let rounds = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(1000);
    let worker: Box<dyn Work> = black_box(Box::new(Worker));
    let mut chance = 0u64;
    for _ in 0..rounds {
        chance = chance.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        UNIT.store(2000 + (chance >> 33) % 4001, Relaxed);
        outer();
        worker.run();
        apply(#[inline(always)] || spin!(30));
    }
}
