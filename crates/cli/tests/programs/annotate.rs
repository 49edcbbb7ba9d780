//! Functions to annotate: iterators and generics, most of which are inlined.

use std::collections::HashMap;

#[inline(never)]
fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().zip(1u64..).map(|(&byte, place)| u64::from(byte) * place).fold(7, |a, b| a.rotate_left(5) ^ b)
}

#[inline(never)]
fn primes(most: usize) -> usize {
    let mut sieve = vec![true; most];
    for n in (2..most).take_while(|n| n * n < most) {
        if sieve[n] {
            (n * n..most).step_by(n).for_each(|at| sieve[at] = false);
        }
    }
    sieve.iter().skip(2).filter(|is| **is).count()
}

#[inline(never)]
fn words(text: &str) -> HashMap<&str, usize> {
    let mut counts = HashMap::new();
    for word in text.split_whitespace() {
        *counts.entry(word).or_default() += 1;
    }
    counts
}

#[inline(never)]
fn mandelbrot(x: f64, y: f64) -> u32 {
    let (mut a, mut b) = (0.0, 0.0);
    for step in 0..200 {
        if a * a + b * b > 4.0 {
            return step;
        }
        (a, b) = (a * a - b * b + x, 2.0 * a * b + y);
    }
    200
}

fn main() {
    let bytes: Vec<u8> = (0..20_000u32).map(|n| (n * 31 % 251) as u8).collect();
    let text: String = (0..2_000u32).map(|n| format!("word{} ", n * n % 97)).collect();
    let mut all = 0u64;
    for round in 0..900u32 {
        all ^= checksum(&bytes);
        all += primes(20_000 + round as usize) as u64;
        all += words(&text).len() as u64;
        for at in 0..300 {
            all += u64::from(mandelbrot(f64::from(at % 30) / 10.0 - 2.0, f64::from(at / 30) / 5.0 - 1.0));
        }
        let mut sorted = bytes[..2_000].to_vec();
        sorted.sort_unstable_by_key(|byte| byte.wrapping_mul(round as u8 | 1));
        all += u64::from(sorted[1_000]);
    }
    println!("{all}");
}
