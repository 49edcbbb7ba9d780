//! Features of the kernel, found by probing.

use std::sync::OnceLock;

use libbpf_rs::btf::types::{Enum, Struct, Typedef};
use libbpf_rs::btf::{Btf, BtfType};
use libbpf_rs::libbpf_sys::{self, bpf_func_id, bpf_map_type, bpf_prog_type};
use pyrograph_event::engine::Feature;

/// Probe for a feature.
#[derive(Clone, Copy, Debug)]
enum Test {
    /// Programs of a type can call a helper function.
    Function(bpf_prog_type, bpf_func_id),
    /// A map type exists.
    Map(bpf_map_type),
    /// The kernel's BTF lists this helper function. It is used for functions that are only available to programs that
    /// cannot be loaded as a probe.
    Listed(&'static str),
    /// The kernel's BTF has a structure of this name.
    Structure(&'static str),
    /// The kernel's BTF has a type of this name; there is one for each tracepoint.
    Tracepoint(&'static str),
}

const SOCKETS: &str = "btf_trace_sock_send_length";
const REQUESTS: &str = "btf_trace_block_io_start";
const GOING_ON: &str = "btf_trace_sched_exit_tp";

/// Structure of the allocator with which rows of maps can be allocated while a program runs. Kernels before it write a
/// warning into their log.
pub const ROWS_AS_NEEDED: &str = "bpf_mem_alloc";

/// Returns the probe for a feature.
fn test(feature: Feature) -> Test {
    match feature {
        Feature::Types => Test::Structure("task_struct"),
        Feature::RingBuffers => Test::Map(libbpf_sys::BPF_MAP_TYPE_RINGBUF),
        Feature::ThreadStorage => Test::Map(libbpf_sys::BPF_MAP_TYPE_TASK_STORAGE),
        Feature::AttachCookies => {
            Test::Function(libbpf_sys::BPF_PROG_TYPE_KPROBE, libbpf_sys::BPF_FUNC_get_attach_cookie)
        }
        Feature::UserRegisters => {
            Test::Function(libbpf_sys::BPF_PROG_TYPE_PERF_EVENT, libbpf_sys::BPF_FUNC_task_pt_regs)
        }
        Feature::Loops => {
            Test::Function(libbpf_sys::BPF_PROG_TYPE_PERF_EVENT, libbpf_sys::BPF_FUNC_loop)
        }
        Feature::OtherThreads => Test::Listed("BPF_FUNC_copy_from_user_task"),
        Feature::KernelLocks => Test::Tracepoint("btf_trace_contention_begin"),
        Feature::MapleTrees => Test::Structure("maple_tree"),
        Feature::MapMemory => Test::Structure(ROWS_AS_NEEDED),
        Feature::Sockets => Test::Tracepoint(SOCKETS),
        Feature::BlockRequests => Test::Tracepoint(REQUESTS),
        Feature::Resume => Test::Tracepoint(GOING_ON),
    }
}

/// Features that this kernel has, and features that it certainly lacks. This takes milliseconds.
pub fn features() -> (Vec<Feature>, Vec<Feature>) {
    let types = Types::of_this_kernel();
    Feature::ALL.into_iter().partition(|feature| test(*feature).succeeds(&types))
}

/// Features that the kernel lacks and that are required for loading.
pub fn missing() -> Vec<String> {
    let (_, mut missing) = features();
    missing.retain(|feature| feature.is_required());
    missing.iter().map(|feature| format!("{} ({})", feature.name(), feature.since())).collect()
}

impl Test {
    /// Returns true if the feature exists, or if that cannot be determined.
    fn succeeds(self, types: &Types) -> bool {
        match self {
            Self::Function(kind, function) => {
                // SAFETY: it takes numbers and no options.
                unsafe {
                    libbpf_sys::libbpf_probe_bpf_helper(kind, function, std::ptr::null()) != 0
                }
            }
            Self::Map(kind) => {
                // SAFETY: it takes a number and no options.
                unsafe { libbpf_sys::libbpf_probe_bpf_map_type(kind, std::ptr::null()) != 0 }
            }
            Self::Listed(name) => types.has_function(name),
            Self::Structure(name) => types.find::<Struct<'_>>(name).is_some(),
            Self::Tracepoint(name) => types.find::<Typedef<'_>>(name).is_some(),
        }
    }
}

/// The kernel's BTF; `None` if it has none.
struct Types(Option<Btf<'static>>);

impl Types {
    fn of_this_kernel() -> Self {
        Self(Btf::from_vmlinux().ok())
    }

    fn find<'a, K: TryFrom<BtfType<'a>>>(&'a self, name: &str) -> Option<K> {
        self.0.as_ref()?.type_by_name(name)
    }

    /// Returns true if programs of some type can call a helper function (`enum bpf_func_id` of
    /// include/uapi/linux/bpf.h).
    fn has_function(&self, name: &str) -> bool {
        let functions: Option<Enum<'_>> = self.find("bpf_func_id");
        functions.is_some_and(|all| all.iter().any(|one| one.name.is_some_and(|it| it == name)))
    }
}

/// Features according to the kernel's BTF, which is read once for all of them.
struct Described {
    resume: bool,
    block_requests: bool,
    other_threads: bool,
    map_memory: bool,
    kernel_locks: bool,
    sockets: bool,
}

impl Described {
    fn get() -> &'static Self {
        static DESCRIBED: OnceLock<Described> = OnceLock::new();
        DESCRIBED.get_or_init(|| {
            let types = Types::of_this_kernel();
            let has = |feature| test(feature).succeeds(&types);
            Self {
                resume: has(Feature::Resume),
                block_requests: has(Feature::BlockRequests),
                other_threads: has(Feature::OtherThreads),
                map_memory: has(Feature::MapMemory),
                kernel_locks: has(Feature::KernelLocks),
                sockets: has(Feature::Sockets),
            }
        })
    }
}

/// Returns true if the kernel has a tracepoint for threads that resume: `sched_exit` (Linux 6.16).
pub fn has_resume() -> bool {
    Described::get().resume
}

/// Returns true if the kernel has tracepoints for requests to block devices at the time they are made (Linux 6.5).
pub fn has_block_requests() -> bool {
    Described::get().block_requests
}

/// Returns true if a program may read the memory of a thread that is not running (Linux 5.18).
pub fn has_other_threads() -> bool {
    Described::get().other_threads
}

/// Returns true if the rows of a map may be allocated while a program runs (Linux 6.1).
pub fn has_map_memory() -> bool {
    Described::get().map_memory
}

/// Returns true if the kernel has tracepoints for waits for its own locks (Linux 5.19).
pub fn has_kernel_locks() -> bool {
    Described::get().kernel_locks
}

/// Features that the kernel lacks and that would help to count waits for locks (`locks`), or to take stacks of threads
/// that already wait (`waiting`).
pub fn lacks(locks: bool, waiting: bool) -> Vec<Feature> {
    let locks = (locks && !has_kernel_locks()).then_some(Feature::KernelLocks);
    let waiting = (waiting && !has_other_threads()).then_some(Feature::OtherThreads);
    locks.into_iter().chain(waiting).collect()
}

/// Returns true if the kernel has tracepoints for data that sockets send and receive (Linux 6.3).
pub fn has_sockets() -> bool {
    Described::get().sockets
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
        assert!(is_there(Test::Listed("BPF_FUNC_map_lookup_elem")));
        assert!(!is_there(Test::Listed("BPF_FUNC_no_such_thing")));
        assert!(is_there(Test::Map(libbpf_sys::BPF_MAP_TYPE_ARRAY)));
        assert!(is_there(Test::Tracepoint("btf_trace_sched_switch")));
        assert!(!is_there(Test::Tracepoint("btf_trace_no_such_thing")));
        assert!(!is_there(Test::Structure("btf_trace_sched_switch")), "it is no structure");
        let nothing = Types(None);
        assert!(!Test::Tracepoint("btf_trace_sched_switch").succeeds(&nothing));
    }
}
