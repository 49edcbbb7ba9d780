//! Kernel memory of a recording.

use std::collections::HashMap;
use std::fs;

/// Returns the size of this process's BPF maps in kernel memory, in bytes.
pub fn memory_of_maps() -> u64 {
    let infos = fs::read_dir("/proc/self/fdinfo").into_iter().flatten().flatten();
    let texts = infos.filter_map(|info| fs::read_to_string(info.path()).ok());
    // Only maps have `map_id`; BPF programs have `memlock`, too. Several descriptors may refer to one map.
    let maps: HashMap<u64, u64> = texts
        .filter_map(|text| {
            let number =
                |name| text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
            Some((number("map_id:")?, number("memlock:")?))
        })
        .collect();
    maps.values().sum()
}
