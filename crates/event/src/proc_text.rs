use std::path::Path;
use std::{fs, io};

/// Reads a file of `/proc`. Bytes that are not UTF-8 become U+FFFD: the kernel cuts the name of a task after 15 bytes, which may be
/// within a character, and paths are bytes.
///
/// # Errors
///
/// If the file cannot be read.
pub fn proc_text(path: impl AsRef<Path>) -> io::Result<String> {
    Ok(String::from_utf8_lossy(&fs::read(path)?).into_owned())
}

/// Returns true if this process is in the initial user namespace, the only one in which capabilities permit perf events and
/// programs in the kernel.
pub fn is_in_first_user_namespace() -> bool {
    match proc_text("/proc/self/uid_map") {
        Ok(map) => is_first_map(&map),
        // A kernel without user namespaces has no such file.
        Err(error) => error.kind() == io::ErrorKind::NotFound && Path::new("/proc/self").exists(),
    }
}

/// In the initial user namespace, all users are mapped to themselves.
fn is_first_map(uid_map: &str) -> bool {
    uid_map.split_whitespace().eq(["0", "0", "4294967295"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_user_namespace_maps_all_users_to_themselves() {
        assert!(is_first_map("         0          0 4294967295\n"));
        assert!(!is_first_map("         0       1000          1\n"));
        assert!(!is_first_map(""));
    }
}
