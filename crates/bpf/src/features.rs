//! What the kernel has and lacks, found by trying.

use std::ffi::CStr;
use std::sync::OnceLock;

use libbpf_rs::libbpf_sys::{self, bpf_func_id, bpf_map_type, bpf_prog_type};

/// Something of the kernel that the engine makes use of.
#[derive(Clone, Copy, Debug)]
pub struct Feature {
    /// What it is called.
    pub name: &'static str,
    /// Which kernels have it.
    pub since: &'static str,
    /// What is different without it.
    pub without: &'static str,
    test: Test,
}

/// How to find out.
#[derive(Clone, Copy, Debug)]
enum Test {
    /// Programs of a kind can call a function.
    Function(bpf_prog_type, bpf_func_id),
    /// There is a kind of map.
    Map(bpf_map_type),
    /// The kernel has a type of this name, by its own description (BTF).
    Type(&'static CStr, u32),
}

const NO_ENGINE: &str = "there is no in-kernel engine";

/// All of them, by age. `probe_read` and the like are older than all of these.
const FEATURES: [Feature; 13] = [
    Feature {
        name: "descriptions of its types",
        since: "CONFIG_DEBUG_INFO_BTF",
        without: NO_ENGINE,
        test: structure(c"task_struct"),
    },
    Feature {
        name: "ring buffers",
        since: "Linux 5.8",
        without: NO_ENGINE,
        test: Test::Map(libbpf_sys::BPF_MAP_TYPE_RINGBUF),
    },
    Feature {
        name: "storage of threads",
        since: "Linux 5.11",
        without: NO_ENGINE,
        test: Test::Map(libbpf_sys::BPF_MAP_TYPE_TASK_STORAGE),
    },
    Feature {
        name: "attach cookies",
        since: "Linux 5.15",
        without: "--alloc does not work",
        test: Test::Function(
            libbpf_sys::BPF_PROG_TYPE_KPROBE,
            libbpf_sys::BPF_FUNC_get_attach_cookie,
        ),
    },
    Feature {
        name: "task_pt_regs",
        since: "Linux 5.15",
        without: NO_ENGINE,
        test: Test::Function(
            libbpf_sys::BPF_PROG_TYPE_PERF_EVENT,
            libbpf_sys::BPF_FUNC_task_pt_regs,
        ),
    },
    Feature {
        name: "loops",
        since: "Linux 5.17",
        without: NO_ENGINE,
        test: Test::Function(libbpf_sys::BPF_PROG_TYPE_PERF_EVENT, libbpf_sys::BPF_FUNC_loop),
    },
    Feature {
        name: "copy_from_user_task",
        since: "Linux 5.18",
        without: "no stacks of threads that wait already: --off-cpu, --wall and --locks do not work",
        test: Test::Function(
            libbpf_sys::BPF_PROG_TYPE_TRACING,
            libbpf_sys::BPF_FUNC_copy_from_user_task,
        ),
    },
    Feature {
        name: "contention_begin",
        since: "Linux 5.19",
        without: "--locks does not work",
        test: tracepoint(c"btf_trace_contention_begin"),
    },
    Feature {
        name: "maple trees of mappings",
        since: "Linux 6.1",
        without: NO_ENGINE,
        test: structure(c"maple_tree"),
    },
    Feature {
        name: "sock_send_length",
        since: "Linux 6.3",
        without: "--net does not work",
        test: tracepoint(SOCKETS),
    },
    Feature {
        name: "block_io_start",
        since: "Linux 6.5",
        without: "--block-io looks at requests when the driver gets them, and not when they are made",
        test: tracepoint(REQUESTS),
    },
    Feature {
        name: "arenas",
        since: "Linux 6.9",
        without: "unwind tables are in arrays, and a stack takes a little longer",
        test: Test::Map(libbpf_sys::BPF_MAP_TYPE_ARENA),
    },
    Feature {
        name: "sched_exit",
        since: "Linux 6.16",
        without: "--off-cpu and --wall do not know the stacks of some longer waits where there are very many",
        test: tracepoint(GOING_ON),
    },
];

const SOCKETS: &CStr = c"btf_trace_sock_send_length";
const REQUESTS: &CStr = c"btf_trace_block_io_start";
const GOING_ON: &CStr = c"btf_trace_sched_exit_tp";

const fn structure(name: &'static CStr) -> Test {
    Test::Type(name, libbpf_sys::BTF_KIND_STRUCT)
}

/// The kernel has a type for each tracepoint.
const fn tracepoint(name: &'static CStr) -> Test {
    Test::Type(name, libbpf_sys::BTF_KIND_TYPEDEF)
}

/// The features that this kernel has, and those that it lacks for certain. This takes milliseconds.
pub fn features() -> (Vec<Feature>, Vec<Feature>) {
    let types = Types::of_this_kernel();
    FEATURES.into_iter().partition(|feature| feature.test.succeeds(&types))
}

/// What the kernel lacks and programs cannot be loaded without.
pub fn missing() -> Vec<String> {
    let (_, mut missing) = features();
    missing.retain(|feature| {
        feature.without == NO_ENGINE || matches!(feature.test, Test::Function(..))
    });
    missing.iter().map(|feature| format!("{} ({})", feature.name, feature.since)).collect()
}

impl Test {
    /// Whether it is there, or that cannot be found out.
    fn succeeds(self, types: &Types) -> bool {
        // SAFETY: both take numbers and no options.
        unsafe {
            match self {
                Self::Function(kind, function) => {
                    libbpf_sys::libbpf_probe_bpf_helper(kind, function, std::ptr::null()) != 0
                }
                Self::Map(kind) => {
                    libbpf_sys::libbpf_probe_bpf_map_type(kind, std::ptr::null()) != 0
                }
                Self::Type(name, kind) => types.has(name, kind),
            }
        }
    }
}

/// The kernel's description of its types.
struct Types(*mut libbpf_sys::btf);

impl Types {
    fn of_this_kernel() -> Self {
        // SAFETY: it takes nothing; what it gives is null, or ours.
        Self(unsafe { libbpf_sys::btf__load_vmlinux_btf() })
    }

    fn has(&self, name: &CStr, kind: u32) -> bool {
        // SAFETY: it is whole as long as `self` lives, and the name ends with a zero.
        !self.0.is_null()
            && unsafe { libbpf_sys::btf__find_by_name_kind(self.0, name.as_ptr(), kind) > 0 }
    }
}

impl Drop for Types {
    fn drop(&mut self) {
        // SAFETY: it is ours, or null, which is allowed.
        unsafe { libbpf_sys::btf__free(self.0) }
    }
}

/// Whether the kernel tells when a thread goes on: by the tracepoint `sched_exit` (Linux 6.16).
pub fn tells_when_threads_go_on() -> bool {
    has_tracepoint(GOING_ON)
}

/// Whether the kernel tells of requests to block devices when they are made (Linux 6.5).
pub fn tells_of_requests() -> bool {
    static TELLS: OnceLock<bool> = OnceLock::new();
    *TELLS.get_or_init(|| has_tracepoint(REQUESTS))
}

/// Whether the kernel tells what sockets send and receive (Linux 6.3).
pub fn tells_of_sockets() -> bool {
    has_tracepoint(SOCKETS)
}

fn has_tracepoint(name: &'static CStr) -> bool {
    tracepoint(name).succeeds(&Types::of_this_kernel())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_kernel_has_is_missing() {
        // SAFETY: it takes nothing.
        if unsafe { libc::geteuid() } != 0 {
            eprintln!("skipped: only root may try");
            return;
        }
        libbpf_rs::set_print(None);
        let types = Types::of_this_kernel();
        let function = |number| Test::Function(libbpf_sys::BPF_PROG_TYPE_PERF_EVENT, number);
        let is_there = |test: Test| test.succeeds(&types);
        assert!(is_there(function(libbpf_sys::BPF_FUNC_map_lookup_elem)));
        assert!(!is_there(function(100_000)));
        assert!(is_there(Test::Map(libbpf_sys::BPF_MAP_TYPE_ARRAY)));
        assert!(is_there(tracepoint(c"btf_trace_sched_switch")));
        assert!(!is_there(tracepoint(c"btf_trace_no_such_thing")));
        assert!(!is_there(structure(c"btf_trace_sched_switch")), "it is no structure");
        let nothing = Types(std::ptr::null_mut());
        assert!(!tracepoint(c"btf_trace_sched_switch").succeeds(&nothing));
    }
}
