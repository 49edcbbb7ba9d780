//! Names of code that a process made at run time: by its jitdump file, then by its perf map.

use std::fs::File;
use std::io::{BufReader, Read};

use pyrograph_symbol::{JitDump, PerfMap, Warning};

use crate::modules::DumpFile;

/// A process could write a perf map without end: what is read of it has one.
const MAP_LIMIT: u64 = 1 << 30;

/// The name of an address in run-time code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JitName {
    /// Of the function, as the process wrote it.
    pub function: String,
    /// The source file of the address, if it was told.
    pub file: Option<String>,
    /// Its line; 0 if it was not told.
    pub line: u32,
}

/// The names of one process's run-time code.
#[derive(Debug, Default)]
pub struct JitNames {
    /// Addresses with their names; without those that have none.
    pub names: Vec<(u64, JitName)>,
    /// That names may be missing because the jitdump file is damaged, if some are missing.
    pub warning: Option<Warning>,
}

/// Names addresses. Of two functions that were at the same address one after the other, the last
/// one is named.
pub fn name_jit(map: Option<&File>, dump: Option<&DumpFile>, addresses: &[u64]) -> JitNames {
    let mut named = JitNames::default();
    let mut missing = Vec::new();
    let mut damage = None;
    match dump.map(|dump| (dump, JitDump::open(&dump.file))) {
        Some((dump, Ok(mut functions))) => {
            damage = functions.damage().map(|damage| (dump, damage.to_string()));
            for &address in addresses {
                match functions.lookup(address, None) {
                    Some(found) => {
                        let (function, file, line) = (found.name, found.file, found.line);
                        named.names.push((address, JitName { function, file, line }));
                    }
                    None => missing.push(address),
                }
            }
        }
        Some((dump, Err(error))) => {
            damage = Some((dump, error.to_string()));
            missing = addresses.to_vec();
        }
        None => missing = addresses.to_vec(),
    }
    if let Some(map) = map.filter(|_| !missing.is_empty())
        && let Ok(map) = PerfMap::parse(BufReader::new(map.take(MAP_LIMIT)))
    {
        missing.retain(|&address| {
            let Some((function, _)) = map.lookup(address) else { return true };
            let name = JitName { function: function.to_string(), file: None, line: 0 };
            named.names.push((address, name));
            false
        });
    }
    named.warning = damage
        .filter(|_| !missing.is_empty())
        .map(|(dump, reason)| Warning::JitDump { path: dump.path.clone().into(), reason });
    named
}
