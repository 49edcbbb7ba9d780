//! What the kernel has and lacks, found by trying.

use std::sync::OnceLock;

use libbpf_rs::btf::types::{Enum, Struct, Typedef};
use libbpf_rs::btf::{Btf, BtfType};
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
    /// The kernel lists this function in its own description (BTF). Some are only for programs that cannot
    /// be loaded on trial.
    Listed(&'static str),
    /// The kernel's description has such a structure.
    Structure(&'static str),
    /// The kernel's description has such a type; it has one for each tracepoint.
    Tracepoint(&'static str),
}

const NO_ENGINE: &str = "there is no in-kernel engine";

/// All of them, by age. `probe_read` and the like are older than all of these.
const FEATURES: [Feature; 14] = [
    Feature {
        name: "descriptions of its types",
        since: "CONFIG_DEBUG_INFO_BTF",
        without: NO_ENGINE,
        test: Test::Structure("task_struct"),
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
        without: "programs loop over the rows of a table instead",
        test: Test::Function(libbpf_sys::BPF_PROG_TYPE_PERF_EVENT, libbpf_sys::BPF_FUNC_loop),
    },
    OTHER_THREADS,
    KERNEL_LOCKS,
    Feature {
        name: "maple trees of mappings",
        since: "Linux 6.1",
        without: "stacks may end too early while their process changes its mappings",
        test: Test::Structure("maple_tree"),
    },
    ROWS,
    Feature {
        name: "sock_send_length",
        since: "Linux 6.3",
        without: "--net does not work",
        test: Test::Tracepoint(SOCKETS),
    },
    Feature {
        name: "block_io_start",
        since: "Linux 6.5",
        without: "--block-io looks at requests when the driver gets them, and not when they are made",
        test: Test::Tracepoint(REQUESTS),
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
        test: Test::Tracepoint(GOING_ON),
    },
];

/// Programs may read the memory of a thread that does not run.
const OTHER_THREADS: Feature = Feature {
    name: "copy_from_user_task",
    since: "Linux 5.18",
    without: "of threads that wait already when a recording begins only the kernel's part of their stacks is told",
    test: Test::Listed("BPF_FUNC_copy_from_user_task"),
};

/// The kernel tells of waits for its own locks.
const KERNEL_LOCKS: Feature = Feature {
    name: "contention_begin",
    since: "Linux 5.19",
    without: "--locks counts waits for locks of programs and not for those of the kernel",
    test: Test::Tracepoint("btf_trace_contention_begin"),
};

/// The rows of a map may be made while a program runs. Before, kernels had no memory of its own for this, and
/// write a warning into their log.
const ROWS: Feature = Feature {
    name: "memory for rows of maps",
    since: "Linux 6.1",
    without: "--alloc --live takes its memory in the kernel at once",
    test: Test::Structure(ROWS_AS_NEEDED),
};

/// The structure that stands for it.
pub const ROWS_AS_NEEDED: &str = "bpf_mem_alloc";

const SOCKETS: &str = "btf_trace_sock_send_length";
const REQUESTS: &str = "btf_trace_block_io_start";
const GOING_ON: &str = "btf_trace_sched_exit_tp";

/// The features that this kernel has, and those that it lacks for certain. This takes milliseconds.
pub fn features() -> (Vec<Feature>, Vec<Feature>) {
    let types = Types::of_this_kernel();
    FEATURES.into_iter().partition(|feature| feature.test.succeeds(&types))
}

/// What the kernel lacks and programs cannot be loaded without.
pub fn missing() -> Vec<String> {
    let (_, mut missing) = features();
    missing.retain(|feature| feature.without == NO_ENGINE);
    missing.iter().map(|feature| format!("{} ({})", feature.name, feature.since)).collect()
}

impl Test {
    /// Whether it is there, or that cannot be found out.
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

/// The kernel's description of its types, if it has one.
struct Types(Option<Btf<'static>>);

impl Types {
    fn of_this_kernel() -> Self {
        Self(Btf::from_vmlinux().ok())
    }

    fn find<'a, K: TryFrom<BtfType<'a>>>(&'a self, name: &str) -> Option<K> {
        self.0.as_ref()?.type_by_name(name)
    }

    /// Whether programs of some kind can call a function (`enum bpf_func_id` of include/uapi/linux/bpf.h).
    fn has_function(&self, name: &str) -> bool {
        let functions: Option<Enum<'_>> = self.find("bpf_func_id");
        functions.is_some_and(|all| all.iter().any(|one| one.name.is_some_and(|it| it == name)))
    }
}

/// What the kernel's description of its types says of what recordings ask: it is read once for all of it.
struct Described {
    goes_on: bool,
    requests: bool,
    other_threads: bool,
    rows_as_needed: bool,
    locks: bool,
    sockets: bool,
}

impl Described {
    fn get() -> &'static Self {
        static DESCRIBED: OnceLock<Described> = OnceLock::new();
        DESCRIBED.get_or_init(|| {
            let types = Types::of_this_kernel();
            let has = |test: Test| test.succeeds(&types);
            Self {
                goes_on: has(Test::Tracepoint(GOING_ON)),
                requests: has(Test::Tracepoint(REQUESTS)),
                other_threads: has(OTHER_THREADS.test),
                rows_as_needed: has(ROWS.test),
                locks: has(KERNEL_LOCKS.test),
                sockets: has(Test::Tracepoint(SOCKETS)),
            }
        })
    }
}

/// Whether the kernel tells when a thread goes on: by the tracepoint `sched_exit` (Linux 6.16).
pub fn tells_when_threads_go_on() -> bool {
    Described::get().goes_on
}

/// Whether the kernel tells of requests to block devices when they are made (Linux 6.5).
pub fn tells_of_requests() -> bool {
    Described::get().requests
}

/// Whether a program may read the memory of a thread that does not run (Linux 5.18).
pub fn reads_other_threads() -> bool {
    Described::get().other_threads
}

/// Whether the rows of a map may be made while a program runs (Linux 6.1).
pub fn makes_rows_as_needed() -> bool {
    Described::get().rows_as_needed
}

/// Whether the kernel tells of waits for its own locks (Linux 5.19).
pub fn tells_of_locks() -> bool {
    Described::get().locks
}

/// What the kernel lacks of what would serve to count waits for locks (`locks`), or to take stacks of
/// threads that wait already (`waiting`).
pub fn lacks(locks: bool, waiting: bool) -> Vec<Feature> {
    let locks = (locks && !tells_of_locks()).then_some(KERNEL_LOCKS);
    let waiting = (waiting && !reads_other_threads()).then_some(OTHER_THREADS);
    locks.into_iter().chain(waiting).collect()
}

/// Whether the kernel tells what sockets send and receive (Linux 6.3).
pub fn tells_of_sockets() -> bool {
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
