//! Recordings, and what `perf` records. What needs a privilege or a program that is missing says that it is skipped.

#[path = "../common/mod.rs"]
mod common;

mod annotate;
mod annotate_kernel;
mod beside_perf;
mod command_line;
mod go_pgo;
#[cfg(all(feature = "bpf", target_arch = "x86_64"))]
mod in_kernel;
#[cfg(all(feature = "bpf", target_arch = "x86_64"))]
mod in_kernel_allocations;
#[cfg(all(feature = "bpf", target_arch = "x86_64"))]
mod in_kernel_questions;
mod java;
mod java_calls;
mod jit_code;
mod kept;
mod kept_data;
mod kernel_probes;
mod known_split;
#[cfg(all(feature = "bpf", target_arch = "x86_64"))]
mod languages;
#[cfg(all(feature = "bpf", target_arch = "x86_64"))]
mod languages_luajit;
#[cfg(all(feature = "bpf", target_arch = "x86_64"))]
mod languages_node;
mod languages_order;
#[cfg(all(feature = "bpf", target_arch = "x86_64"))]
mod languages_php_ruby;
#[cfg(all(feature = "bpf", target_arch = "x86_64"))]
mod languages_threads;
#[cfg(all(feature = "bpf", target_arch = "x86_64"))]
mod languages_waits;
mod lines;
mod mapped_files;
mod names;
mod no_tables;
#[cfg(all(feature = "bpf", target_arch = "x86_64"))]
mod numbers;
mod other_stacks;
mod perf_data;
mod perf_events;
mod perf_inlined;
mod perf_report;
mod probes;
mod process_lines;
mod rates;
mod record;
mod sched;
mod sched_known;
mod script;
mod script_groups;
mod stack_memory;
mod stacks;
mod stat;
mod stat_in_kernel;
mod targets;
mod times;
mod top;
mod trace;
mod trace_events;
mod trace_stacks;
mod trace_strace;
mod values;
mod values_at_returns;
mod values_of_calls;
#[cfg(all(feature = "bpf", target_arch = "x86_64"))]
mod waits;
