//! Names of JIT-compiled code: from the process's jitdump file, or else from its perf map.

use std::fs::File;
use std::io::{BufReader, Read, Seek};

use pyrograph_symbol::{JitDump, PerfMap, Warning};

use crate::jit_tables::DumpFile;

/// Number of bytes that are read of a perf map: a process could write one without end.
const MAP_LIMIT: u64 = 1 << 30;

/// Symbol at an address in JIT-compiled code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JitName {
    /// Name of the function, as the process wrote it.
    pub function: String,
    /// Source file of the address, if it is known.
    pub file: Option<String>,
    /// Line of the address; 0 if it is unknown.
    pub line: u32,
    /// Start of the function.
    pub start: u64,
}

/// Symbols of one process's JIT-compiled code.
#[derive(Debug, Default)]
pub struct JitNames {
    /// Symbols by address and version; addresses without a symbol are left out.
    pub names: Vec<((u64, u32), JitName)>,
    /// Warning that the jitdump file is damaged, if names are missing.
    pub warning: Option<Warning>,
}

/// Symbolizes addresses, each with its version. Among functions that were at an address one after the other, version 0
/// is the last one.
pub fn name_jit(map: Option<&File>, dump: Option<&DumpFile>, addresses: &[(u64, u32)]) -> JitNames {
    let mut named = JitNames::default();
    let mut missing = Vec::new();
    let mut damage = None;
    match dump.map(|dump| (dump, JitDump::open(&dump.file))) {
        Some((dump, Ok(mut functions))) => {
            damage = functions.damage().map(|damage| (dump, damage.to_string()));
            for &(address, version) in addresses {
                let found = match version.checked_sub(1) {
                    Some(number) => functions.function(number, address),
                    None => functions.lookup(address, None),
                };
                match found {
                    Some(found) => {
                        let (function, file, line) = (found.name, found.file, found.line);
                        let name = JitName { function, file, line, start: found.start };
                        named.names.push(((address, version), name));
                    }
                    None => missing.push((address, version)),
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
        // An earlier pass may have read it.
        && { map }.rewind().is_ok()
        && let Ok(map) = PerfMap::parse(BufReader::new(map.take(MAP_LIMIT)))
    {
        missing.retain(|&place| {
            let Some((function, start)) = map.lookup(place.0) else { return true };
            let name = JitName { function: function.to_string(), file: None, line: 0, start };
            named.names.push((place, name));
            false
        });
    }
    named.warning = damage
        .filter(|_| !missing.is_empty())
        .map(|(dump, reason)| Warning::JitDump { path: dump.path.clone().into(), reason });
    named
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// Of the symbol crate: functions of Node.js.
    const NODE: &[u8] = include_bytes!("../../symbol/tests/fixtures/node.jitdump");

    fn file(bytes: &[u8]) -> File {
        let mut file = tempfile::tempfile().expect("a temporary file");
        file.write_all(bytes).expect("it can be written");
        file.rewind().expect("it can be read");
        file
    }

    fn dump(bytes: &[u8]) -> DumpFile {
        DumpFile::new("/srv/jit-1.dump", file(bytes))
    }

    /// `function file:line` of each address that has a name, and the warning.
    fn name(map: &[u8], dump: &DumpFile, addresses: &[u64]) -> (Vec<String>, Option<String>) {
        let map = file(map);
        let addresses: Vec<_> = addresses.iter().map(|&address| (address, 0)).collect();
        let named = name_jit(Some(&map), Some(dump), &addresses);
        let text = |(_, name): &((u64, u32), JitName)| {
            format!("{} {}:{}", name.function, name.file.as_deref().unwrap_or("?"), name.line)
        };
        let warning = named.warning.map(|warning| warning.to_string());
        (named.names.iter().map(text).collect(), warning)
    }

    const SEPARATOR: u64 = 0x7f8e_8800_4402;
    const ELSEWHERE: u64 = 0x1000;

    #[test]
    fn the_dump_comes_before_the_map() {
        let map = b"1000 10 elsewhere\n7f8e88004400 68 separator\n";
        let (names, warning) = name(map, &dump(NODE), &[ELSEWHERE, SEPARATOR]);
        let separator = "JS:^isPosixPathSeparator node:path:71:30 node:path:72";
        assert_eq!(names, [separator, "elsewhere ?:0"]);
        assert_eq!(warning, None);
    }

    #[test]
    fn damage_is_reported_if_a_name_may_be_missing_for_it() {
        let cut = dump(&NODE[..NODE.len() - 1]);
        assert_eq!(name(b"", &cut, &[SEPARATOR]).1, None);
        assert_eq!(name(b"1000 10 elsewhere\n", &cut, &[ELSEWHERE]).1, None);
        let (names, warning) = name(b"", &cut, &[ELSEWHERE]);
        assert!(names.is_empty());
        let warning = warning.expect("a warning");
        assert!(warning.contains("/srv/jit-1.dump") && warning.contains("cut-off"), "{warning}");

        let (names, warning) = name(b"1000 10 elsewhere\n", &dump(b"?"), &[ELSEWHERE, SEPARATOR]);
        assert_eq!(names, ["elsewhere ?:0"]);
        assert!(warning.expect("a warning").contains("not a jitdump file"));
    }
}
