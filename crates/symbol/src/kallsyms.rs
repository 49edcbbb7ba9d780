//! Symbols of the running kernel: `/proc/kallsyms`.
//!
//! ```text
//! ffffffff81000000 T _stext
//! ffffffff812b3c10 t do_filp_open
//! ffffffffc04f1000 t ext4_readdir [ext4]
//! ffffffffc0613a94 t bpf_prog_6deef7357e7b4530 [bpf]
//! ```
//!
//! The letters are the symbol types of nm(1). All addresses are zero for readers without permission to see them
//! (`kernel.kptr_restrict`, see `Documentation/admin-guide/sysctl/kernel.rst`).

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use crate::kallsyms_table::Builder;
pub use crate::kallsyms_table::{Kallsyms, KernelSymbol};

/// Maximum length of a line in bytes. The kernel limits names to 512 bytes (`KSYM_NAME_LEN`).
const MAX_LINE: u64 = 4096;

impl Kallsyms {
    /// Reads a file in the format of `/proc/kallsyms`. It need not be that file: `perf` keeps copies of it.
    ///
    /// # Errors
    ///
    /// If the file cannot be opened or read.
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::read(BufReader::with_capacity(1 << 16, File::open(path)?))
    }

    /// Reads the same format from any reader. Lines in another format are skipped.
    ///
    /// # Errors
    ///
    /// Errors of `reader`.
    pub fn read(mut reader: impl BufRead) -> io::Result<Self> {
        let mut table = Builder::default();
        let mut line = Vec::new();
        let mut zeros = 0;
        loop {
            line.clear();
            if io::Read::take(&mut reader, MAX_LINE).read_until(b'\n', &mut line)? == 0 {
                break;
            }
            let Some((start, kind, name, module)) = parse(&line) else { continue };
            if start == 0 {
                zeros += 1;
            } else if matches!(kind, b't' | b'T' | b'w' | b'W') {
                table.add(start, kind.is_ascii_uppercase(), name, module);
            }
        }
        // A kernel with per-CPU symbols has some at address 0 in any case.
        let restricted = zeros > 0 && table.is_empty();
        Ok(table.finish(restricted))
    }
}

fn parse(line: &[u8]) -> Option<(u64, u8, &str, Option<&str>)> {
    let line = std::str::from_utf8(line).ok()?;
    let mut words = line.split_ascii_whitespace();
    let start = u64::from_str_radix(words.next()?, 16).ok()?;
    let &[kind] = words.next()?.as_bytes() else { return None };
    let name = words.next()?;
    Some((start, kind, name, words.next()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = "\
0000000000000000 A fixed_percpu_data
ffffffff81000000 T _stext
ffffffff81000000 t startup_64_alias
ffffffff81000100 t do_filp_open
ffffffff81000180 D a_variable
ffffffff81000200 W weak_one
not a symbol
ffffffffc0000000 t ext4_readdir\t[ext4]
ffffffffc0000400 t ext4_sync\t[ext4]
ffffffffc0613a94 t bpf_prog_6deef7357e7b4530_xdp\t[bpf]
";

    #[track_caller]
    fn check(address: u64, expect: Option<(&str, Option<&str>)>) {
        let kallsyms = Kallsyms::read(SAMPLE.as_bytes()).unwrap();
        assert!(!kallsyms.is_restricted());
        let found = kallsyms.lookup(address);
        assert_eq!(found.map(|s| (s.name, s.module)), expect, "{address:#x}");
    }

    #[test]
    fn addresses() {
        check(0, None);
        check(0xffff_ffff_80ff_ffff, None);
        check(0xffff_ffff_8100_0000, Some(("_stext", None)));
        check(0xffff_ffff_8100_0190, Some(("do_filp_open", None)));
        check(0xffff_ffff_8100_0200, Some(("weak_one", None)));
        check(0xffff_ffff_8100_1fff, Some(("weak_one", None)));
        check(0xffff_ffff_8100_2000, None);
        check(0xffff_ffff_c000_03ff, Some(("ext4_readdir", Some("[ext4]"))));
        check(0xffff_ffff_c000_1fff, Some(("ext4_sync", Some("[ext4]"))));
        check(0xffff_ffff_c000_2000, None);
        check(0xffff_ffff_c061_3a94, Some(("bpf_prog_6deef7357e7b4530_xdp", Some("[bpf]"))));
        check(u64::MAX, None);
    }

    #[test]
    fn hidden_addresses_are_noticed() {
        let hidden = SAMPLE.replace("ffffffff", "00000000").replace("81000", "00000");
        let hidden: String = hidden
            .lines()
            .map(|line| format!("{:016x}{}\n", 0, line.get(16..).unwrap_or("")))
            .collect();
        let kallsyms = Kallsyms::read(hidden.as_bytes()).unwrap();
        assert!(kallsyms.is_restricted() && kallsyms.is_empty());
        assert!(!Kallsyms::read(&b""[..]).unwrap().is_restricted());
    }

    #[test]
    fn a_line_without_end_is_no_symbol() {
        let mut text = b"ffffffff81000000 T good\n".to_vec();
        text.resize(1 << 20, b'a');
        let kallsyms = Kallsyms::read(&text[..]).unwrap();
        assert_eq!(kallsyms.len(), 1);
    }
}
