//! Log of the loader and the kernel's verifier about programs that are rejected: libbpf hands it to
//! a function that all who load share.

use std::sync::{Mutex, PoisonError};

use libbpf_rs::{PrintLevel, set_print};

/// A verifier logs each instruction that it visits; the error comes at the end.
const MOST: usize = 16 << 10;

static LOG: Mutex<String> = Mutex::new(String::new());

/// From now on it is kept, and not printed.
pub fn start() {
    set_print(Some((PrintLevel::Info, keep)));
    lock().clear();
}

/// Text since the last call.
pub fn take() -> String {
    std::mem::take(&mut *lock())
}

fn keep(_: PrintLevel, text: String) {
    let mut log = lock();
    log.push_str(&text);
    if log.len() > MOST {
        let from = log.ceil_char_boundary(log.len() - MOST);
        log.drain(..from);
    }
}

fn lock() -> std::sync::MutexGuard<'static, String> {
    LOG.lock().unwrap_or_else(PoisonError::into_inner)
}
