//! Names of the events that the kernel itself defines.

use pyrograph_event::{hardware, software, type_id};

use super::Code;

/// Preferred name, other names, type, config, and description.
type Named = (&'static str, &'static [&'static str], u32, u64, &'static str);

const HARDWARE: u32 = type_id::HARDWARE;
const SOFTWARE: u32 = type_id::SOFTWARE;

const EVENTS: &[Named] = &[
    ("cycles", &["cpu-cycles"], HARDWARE, hardware::CPU_CYCLES, "CPU cycles"),
    (
        "instructions",
        &[],
        HARDWARE,
        hardware::INSTRUCTIONS,
        "instructions that were executed to their end",
    ),
    (
        "cache-references",
        &[],
        HARDWARE,
        hardware::CACHE_REFERENCES,
        "accesses to the last-level cache, usually",
    ),
    (
        "cache-misses",
        &[],
        HARDWARE,
        hardware::CACHE_MISSES,
        "accesses that the last-level cache did not hold, usually",
    ),
    (
        "branches",
        &["branch-instructions"],
        HARDWARE,
        hardware::BRANCH_INSTRUCTIONS,
        "branch instructions",
    ),
    ("branch-misses", &[], HARDWARE, hardware::BRANCH_MISSES, "branches that were predicted wrong"),
    ("bus-cycles", &[], HARDWARE, hardware::BUS_CYCLES, "bus cycles"),
    (
        "stalled-cycles-frontend",
        &["idle-cycles-frontend"],
        HARDWARE,
        hardware::STALLED_CYCLES_FRONTEND,
        "cycles in which no instruction was fetched or decoded",
    ),
    (
        "stalled-cycles-backend",
        &["idle-cycles-backend"],
        HARDWARE,
        hardware::STALLED_CYCLES_BACKEND,
        "cycles in which execution waited",
    ),
    (
        "ref-cycles",
        &[],
        HARDWARE,
        hardware::REF_CPU_CYCLES,
        "cycles at a constant rate, whatever the CPU's clock rate is",
    ),
    ("cpu-clock", &[], SOFTWARE, software::CPU_CLOCK, "time of each CPU, in ns"),
    (
        "task-clock",
        &[],
        SOFTWARE,
        software::TASK_CLOCK,
        "time that the threads were on a CPU, in ns",
    ),
    (
        "page-faults",
        &["faults"],
        SOFTWARE,
        software::PAGE_FAULTS,
        "accesses to pages that were not mapped",
    ),
    ("minor-faults", &[], SOFTWARE, software::PAGE_FAULTS_MIN, "page faults without I/O"),
    ("major-faults", &[], SOFTWARE, software::PAGE_FAULTS_MAJ, "page faults that read from a disk"),
    (
        "context-switches",
        &["cs"],
        SOFTWARE,
        software::CONTEXT_SWITCHES,
        "changes from one thread to another",
    ),
    (
        "cpu-migrations",
        &["migrations"],
        SOFTWARE,
        software::CPU_MIGRATIONS,
        "moves of threads to another CPU",
    ),
    (
        "cgroup-switches",
        &[],
        SOFTWARE,
        software::CGROUP_SWITCHES,
        "changes to a thread of another control group",
    ),
    (
        "alignment-faults",
        &[],
        SOFTWARE,
        software::ALIGNMENT_FAULTS,
        "accesses to unaligned memory that the kernel corrected",
    ),
    (
        "emulation-faults",
        &[],
        SOFTWARE,
        software::EMULATION_FAULTS,
        "instructions that the kernel emulated",
    ),
    // Counts nothing. It only writes records of processes and mappings.
    ("dummy", &[], SOFTWARE, software::DUMMY, "nothing: for records of processes and mappings"),
];

/// Name and ID of each cache (`enum perf_hw_cache_id`), and its description.
const CACHES: [(&str, u64, &str); 7] = [
    ("L1-dcache", 0, "the level 1 data cache"),
    ("L1-icache", 1, "the level 1 instruction cache"),
    ("LLC", 2, "the last-level cache"),
    ("dTLB", 3, "the data TLB"),
    ("iTLB", 4, "the instruction TLB"),
    ("branch", 5, "the branch predictor"),
    ("node", 6, "memory of the own NUMA node"),
];

/// Operations on a cache: name; config, with the operation in byte 1 and the result in byte 2 (`enum
/// perf_hw_cache_op_id`, `perf_hw_cache_op_result_id`); description, to be followed by that of a cache.
const CACHE_OPERATIONS: [(&str, u64, &str); 6] = [
    ("loads", 0, "loads of"),
    ("load-misses", 1 << 16, "loads that missed"),
    ("stores", 1 << 8, "stores of"),
    ("store-misses", 1 << 8 | 1 << 16, "stores that missed"),
    ("prefetches", 2 << 8, "prefetches of"),
    ("prefetch-misses", 2 << 8 | 1 << 16, "prefetches that missed"),
];

/// Finds the event with this name. Returns its preferred name and its code.
pub(super) fn find(name: &str) -> Option<(String, Code)> {
    let code = |type_, config| Code { type_, config, ..Code::default() };
    let named =
        EVENTS.iter().find(|(preferred, others, ..)| *preferred == name || others.contains(&name));
    if let Some((preferred, _, type_, config, _)) = named {
        return Some(((*preferred).to_owned(), code(*type_, *config)));
    }
    let is_it = |(known, ..): &(String, u64, String)| known.eq_ignore_ascii_case(name);
    if let Some((name, config, _)) = cache_events().find(is_it) {
        return Some((name, code(type_id::HW_CACHE, config)));
    }
    let digits = name
        .strip_prefix('r')
        .filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
    Some((name.to_owned(), code(type_id::RAW, u64::from_str_radix(digits, 16).ok()?)))
}

/// Returns name, config and description of each cache event.
fn cache_events() -> impl Iterator<Item = (String, u64, String)> {
    CACHES.iter().flat_map(|(cache, number, of)| {
        CACHE_OPERATIONS.iter().map(move |(operation, config, what)| {
            (format!("{cache}-{operation}"), number | config, format!("{what} {of}"))
        })
    })
}

/// Returns the preferred names of all events.
pub(super) fn all() -> Vec<String> {
    described().map(|(name, ..)| name).collect()
}

/// Returns preferred name, other names and description of each event.
pub(super) fn described() -> impl Iterator<Item = (String, Vec<String>, String)> {
    let events = EVENTS.iter().map(|(name, others, _, _, about)| {
        let others = others.iter().map(|other| (*other).to_owned()).collect();
        ((*name).to_owned(), others, (*about).to_owned())
    });
    events.chain(cache_events().map(|(name, _, about)| (name, Vec::new(), about)))
}

/// Returns up to five of the names in `known` that are spelled most like `name`, nearest first.
pub fn nearest(name: &str, known: impl IntoIterator<Item = String>) -> Vec<String> {
    const MOST: usize = 5;
    // Up to a third of the letters may differ: with more, suggestions become odd.
    let allowed = (name.len() / 3).clamp(1, 4);
    let wanted = name.to_ascii_lowercase();
    let mut near: Vec<(usize, String)> = known
        .into_iter()
        .filter_map(|known| {
            let distance = strsim::osa_distance(&wanted, &known.to_ascii_lowercase());
            (distance <= allowed).then_some((distance, known))
        })
        .collect();
    near.sort();
    near.dedup();
    let best = near.first().map_or(0, |(distance, _)| *distance);
    near.into_iter()
        .take_while(|(distance, _)| *distance <= best + 1)
        .map(|(_, name)| name)
        .take(MOST)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listed_name_is_found() {
        for name in all() {
            assert_eq!(find(&name).map(|(found, _)| found), Some(name));
        }
    }
}
