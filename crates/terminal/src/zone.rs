//! The user's time zone.

/// Seconds that local time is ahead of UTC now.
pub fn local_offset() -> i32 {
    // SAFETY: `time` takes a null pointer; both pointers are valid, and `tm` is when zero.
    let zone = unsafe {
        let now = libc::time(std::ptr::null_mut());
        let mut local: libc::tm = std::mem::zeroed();
        libc::localtime_r(&raw const now, &raw mut local);
        local.tm_gmtoff
    };
    i32::try_from(zone).unwrap_or(0)
}
