//! Log of the loader and the verifier about rejected programs. libbpf passes it to a function that is global to the
//! process.

use std::sync::{Mutex, PoisonError};

use libbpf_rs::{PrintLevel, set_print};

/// Size limit of the log, in bytes. A verifier logs each instruction that it visits; the error comes at the end.
const MOST: usize = 16 << 10;

static LOG: Mutex<String> = Mutex::new(String::new());

/// Starts to keep the log instead of printing it.
pub fn start() {
    set_print(Some((PrintLevel::Info, keep)));
    lock().clear();
}

/// Returns the text since the last call.
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
