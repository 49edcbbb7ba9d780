//! What the kernel has and lacks, found by trying.

use std::ffi::CStr;
use std::path::Path;
use std::sync::OnceLock;

use libbpf_rs::libbpf_sys::{self, bpf_func_id, bpf_prog_type};

/// Functions of the kernel that the programs call, and since when it has them. `probe_read` and the like
/// are older than all of these.
const NEEDED: [(bpf_prog_type, bpf_func_id, &str); 4] = [
    (
        libbpf_sys::BPF_PROG_TYPE_KPROBE,
        libbpf_sys::BPF_FUNC_get_attach_cookie,
        "attach cookies (Linux 5.15)",
    ),
    (
        libbpf_sys::BPF_PROG_TYPE_PERF_EVENT,
        libbpf_sys::BPF_FUNC_task_pt_regs,
        "task_pt_regs (Linux 5.15)",
    ),
    (libbpf_sys::BPF_PROG_TYPE_PERF_EVENT, libbpf_sys::BPF_FUNC_loop, "loops (Linux 5.17)"),
    (
        libbpf_sys::BPF_PROG_TYPE_TRACING,
        libbpf_sys::BPF_FUNC_copy_from_user_task,
        "copy_from_user_task (Linux 5.18)",
    ),
];

/// What the programs need and the kernel lacks.
pub fn missing() -> Vec<&'static str> {
    let mut missing = Vec::new();
    if !Path::new("/sys/kernel/btf/vmlinux").exists() {
        missing.push("descriptions of its types (CONFIG_DEBUG_INFO_BTF)");
    }
    let helpers = NEEDED.iter().filter(|(kind, helper, _)| lacks(*kind, *helper));
    missing.extend(helpers.map(|(_, _, name)| *name));
    missing
}

/// Whether it is certain that programs of a kind cannot call a function.
fn lacks(kind: bpf_prog_type, helper: bpf_func_id) -> bool {
    // SAFETY: it takes numbers and no options.
    unsafe { libbpf_sys::libbpf_probe_bpf_helper(kind, helper, std::ptr::null()) == 0 }
}

/// Whether the kernel tells when a thread goes on: by the tracepoint `sched_exit` (Linux 6.16).
pub fn tells_when_threads_go_on() -> bool {
    has_tracepoint(c"sched_exit_tp")
}

/// Whether the kernel tells of requests to block devices when they are made (Linux 6.5).
pub fn tells_of_requests() -> bool {
    static TELLS: OnceLock<bool> = OnceLock::new();
    *TELLS.get_or_init(|| has_tracepoint(c"block_io_start"))
}

/// Whether the kernel tells what sockets send and receive (Linux 6.3).
pub fn tells_of_sockets() -> bool {
    has_tracepoint(c"sock_send_length")
}

fn has_tracepoint(name: &CStr) -> bool {
    // SAFETY: the name ends with a zero; the kernel's types are only searched.
    let id = unsafe {
        libbpf_sys::libbpf_find_vmlinux_btf_id(name.as_ptr(), libbpf_sys::BPF_TRACE_RAW_TP)
    };
    id > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_that_no_kernel_has_is_missing() {
        // SAFETY: it takes nothing.
        if unsafe { libc::geteuid() } != 0 {
            eprintln!("skipped: only root may try");
            return;
        }
        libbpf_rs::set_print(None);
        assert!(lacks(libbpf_sys::BPF_PROG_TYPE_PERF_EVENT, 100_000));
        assert!(!lacks(libbpf_sys::BPF_PROG_TYPE_PERF_EVENT, libbpf_sys::BPF_FUNC_map_lookup_elem));
    }
}
