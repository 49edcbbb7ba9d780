//! What the loader and the kernel's verifier say about programs that are not taken: libbpf hands it to
//! a function that all who load share.

use std::sync::{Mutex, PoisonError};

use libbpf_rs::{PrintLevel, set_print};

/// A verifier tells each instruction that it looked at; what is wrong it says at the end.
const MOST: usize = 16 << 10;

static SAID: Mutex<String> = Mutex::new(String::new());

/// From now on it is kept, and not printed.
pub fn listen() {
    set_print(Some((PrintLevel::Info, keep)));
    lock().clear();
}

/// What was said since.
pub fn heard() -> String {
    std::mem::take(&mut *lock())
}

fn keep(_: PrintLevel, text: String) {
    let mut said = lock();
    said.push_str(&text);
    if said.len() > MOST {
        let from = said.ceil_char_boundary(said.len() - MOST);
        said.drain(..from);
    }
}

fn lock() -> std::sync::MutexGuard<'static, String> {
    SAID.lock().unwrap_or_else(PoisonError::into_inner)
}
