//! The user's time zone.

/// Returns the current difference of local time and UTC, in seconds.
pub fn local_offset() -> i32 {
    // SAFETY: `time` accepts a null pointer; both pointers are valid, and an all-zero `tm` is valid.
    let zone = unsafe {
        let now = libc::time(std::ptr::null_mut());
        let mut local: libc::tm = std::mem::zeroed();
        libc::localtime_r(&raw const now, &raw mut local);
        local.tm_gmtoff
    };
    i32::try_from(zone).unwrap_or(0)
}
