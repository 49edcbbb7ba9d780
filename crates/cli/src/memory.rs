//! What of memory a recording takes.

use std::fs;

/// Lets large pieces of memory go as soon as they are no longer needed. If nothing is said, the allocator
/// learns from each of them to keep more, as much as the unwind table of the largest program takes while it
/// is made.
pub fn keep_none() {
    #[cfg(target_env = "gnu")]
    // SAFETY: both take numbers, and may be set at any time.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 256 << 10);
        libc::mallopt(libc::M_TRIM_THRESHOLD, 512 << 10);
    }
}

/// Gives back what is free of smaller pieces, too: after very many of them went.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes a number, and may be called at any time.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Bytes of memory that this process has now for itself, without files that it has mapped.
pub fn own_memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().find_map(|line| kibibytes(line.strip_prefix("RssAnon:")?)).unwrap_or(0)
}

/// A number of kibibytes: `  1234 kB`.
fn kibibytes(text: &str) -> Option<u64> {
    text.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_memory() {
        let before = own_memory();
        let more = std::hint::black_box(vec![1_u8; 64 << 20]);
        assert!(before > 0 && own_memory() > before + (more.len() as u64) / 2);
        assert_eq!(kibibytes("\t   1234 kB"), Some(1234 << 10));
        assert_eq!(kibibytes("1234"), None);
    }
}
