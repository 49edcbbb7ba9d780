//! Names of a virtual machine's code, collected from all maps that it has written. Each map contains the code that
//! exists when it is written; code that was freed before has names only in earlier maps.

use std::collections::HashSet;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;

use pyrograph_symbol::PerfMap;
use rustix::fs::{MemfdFlags, memfd_create};

/// Maximum size of the collected lines in bytes. Beyond it, the earlier maps are dropped.
const MOST: u64 = 64 << 20;

/// Collected names.
#[derive(Debug, Default)]
pub struct Collected {
    /// All lines, later ones last.
    all: Option<File>,
    /// Hashes of the lines of the last map.
    last: HashSet<u64>,
    hasher: RandomState,
}

/// Names from all maps.
#[derive(Debug)]
pub struct Names {
    /// A perf map with all names, which nothing else reads or writes.
    pub file: File,
    /// The same map, parsed.
    pub map: PerfMap,
    /// Number of lines in the newest map.
    pub count: usize,
}

impl Collected {
    /// Adds a map that was just written.
    pub fn add(&mut self, map: &[u8]) -> io::Result<Names> {
        let mut before = Vec::new();
        if let Some(all) = &self.all
            && let length = all.metadata()?.len()
            && length + map.len() as u64 <= MOST
        {
            before.resize(usize::try_from(length).unwrap_or(0), 0);
            all.read_exact_at(&mut before, 0)?;
        } else {
            self.last.clear();
        }
        let lines = || map.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let hashes = lines().map(|line| self.hasher.hash_one(line)).collect();
        for line in lines().filter(|line| !self.last.contains(&self.hasher.hash_one(line))) {
            before.extend_from_slice(line);
            before.push(b'\n');
        }
        let names = PerfMap::parse(&before[..])?;
        let all = in_memory(&before)?;
        (self.last, self.all) = (hashes, Some(all));
        Ok(Names { file: in_memory(&before)?, map: names, count: lines().count() })
    }
}

fn in_memory(bytes: &[u8]) -> io::Result<File> {
    let mut file = File::from(memfd_create("pyrograph-perf-map", MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek};

    use super::*;

    #[test]
    fn code_keeps_its_name_when_it_is_gone_and_has_the_newest_where_it_is_not() {
        let mut collected = Collected::default();
        let mut check = |map: &str, count: usize, expect: &[(u64, Option<&str>)]| {
            let mut names = collected.add(map.as_bytes()).expect("a map");
            assert_eq!(names.count, count);
            let mut text = String::new();
            names.file.rewind().expect("a file");
            names.file.read_to_string(&mut text).expect("text");
            let read = PerfMap::parse(text.as_bytes()).expect("a map");
            for (address, name) in expect {
                for map in [&names.map, &read] {
                    assert_eq!(map.lookup(*address).map(|found| &**found.0), *name, "{text}");
                }
            }
        };
        check("100 80 a\n200 80 b\n", 2, &[(0x100, Some("a")), (0x27f, Some("b")), (0x300, None)]);
        check(
            "200 80 b\n300 10 c\n",
            2,
            &[(0x100, Some("a")), (0x200, Some("b")), (0x300, Some("c"))],
        );
        check("140 10 d\n", 1, &[(0x13f, Some("a")), (0x140, Some("d")), (0x200, Some("b"))]);
        // It is there again, where another was between.
        check("100 80 a\n", 1, &[(0x140, Some("a")), (0x300, Some("c"))]);
        check("", 0, &[(0x140, Some("a"))]);
    }
}
