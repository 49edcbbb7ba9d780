//! Known calls in Rust.
#![expect(named_asm_labels, reason = "the tests find addresses by them")]
use std::arch::asm;
use std::hint::black_box;

mod shapes {
    pub trait Area {
        fn area(&self) -> u64;
    }
    pub struct Square(pub u64);
    impl Area for Square {
        #[inline(never)]
        fn area(&self) -> u64 {
            super::mark_square();
            self.0 * self.0
        }
    }
}

#[inline(always)]
fn mark_square() {
    unsafe { asm!("mark_square: nop") } // line 22
}

#[inline(never)]
fn apply<T>(value: T, f: impl Fn(T) -> u64) -> u64 {
    f(value)
}

fn main() {
    let square = shapes::Square(black_box(3));
    let area = shapes::Area::area(&square);
    let sum = apply(area, |x| {
        unsafe { asm!("mark_closure: nop") } // line 34
        x + black_box(1)
    });
    println!("{sum}");
}
