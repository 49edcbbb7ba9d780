//! Tables in serialized form, for cache files: building the table of a large file takes hundreds of times as long
//! as reading it.
//!
//! ```text
//! rules   8 bytes   number of rules
//! rows    8 bytes   number of rows
//! start   8 bytes   `Table::start`
//! rules             16 bytes each, as in `TableRule`
//! offsets           4 bytes each, ascending
//! numbers           2 bytes each: the rows' rules
//! ```
//!
//! All numbers are little-endian. The bytes are not trusted: a table that is accepted can be searched, but may be
//! wrong.

use std::collections::hash_map::DefaultHasher;
use std::fmt;
use std::hash::{BuildHasher, Hasher};

use foldhash::quality::FixedState;

use crate::info::UnwindInfo;
use crate::table::{Table, TableRow, TableRule, TableRuleKind};

const HEADER: usize = 24;
const RULE: usize = size_of::<TableRule>();

/// Identifies a file's table among the tables of all files. Its text form is a file name.
///
/// A file and its stripped copy have the same build ID, but may have different tables. So the locations of the
/// sections that the table is built from are part of the key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TableKey {
    /// Build ID; for a file without one, a hash of the data that the table is built from.
    id: Vec<u8>,
    shape: u64,
}

impl fmt::Display for TableKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.id.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        write!(f, "-{:016x}", self.shape)
    }
}

impl UnwindInfo {
    /// Key under which [`Self::table`] can be cached. For a file without a build ID, this reads all data that the
    /// table is built from, which takes a small part of the time of building it.
    pub fn table_key(&self) -> TableKey {
        // Linkers emit 8 to 20 bytes; a file name cannot hold an arbitrary number.
        let build_id = self.build_id().filter(|id| (4..=64).contains(&id.len()));
        let id =
            build_id.map_or_else(|| self.hash_contents().to_le_bytes().to_vec(), <[u8]>::to_vec);
        // The hash is the same in every run of the same program, which is sufficient. It also distinguishes the two
        // kinds of IDs.
        let mut shape = DefaultHasher::new();
        self.hash_shape(&mut shape);
        TableKey { id, shape: shape.finish() }
    }

    fn hash_contents(&self) -> u64 {
        FixedState::default().hash_one(self.table_bytes())
    }
}

impl Table {
    /// Version of tables. Increment it whenever [`UnwindInfo::table`] returns another table for the same file, or
    /// the format of [`Self::to_bytes`] changes.
    pub const VERSION: u8 = 10;

    /// Serializes the table, for [`Self::from_bytes`].
    pub fn to_bytes(&self) -> Vec<u8> {
        let len = HEADER + RULE * self.rules.len() + 6 * self.rows.len();
        let mut bytes = Vec::with_capacity(len);
        bytes.extend((self.rules.len() as u64).to_le_bytes());
        bytes.extend((self.rows.len() as u64).to_le_bytes());
        bytes.extend(self.start.to_le_bytes());
        self.rules.iter().for_each(|rule| bytes.extend(rule.to_bytes()));
        self.rows.iter().for_each(|row| bytes.extend(row.offset.to_le_bytes()));
        self.rows.iter().for_each(|row| bytes.extend(row.rule.to_le_bytes()));
        bytes
    }

    /// Reads a table that [`Self::to_bytes`] has serialized; `None` if the bytes are not a table.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        StoredTable::new(bytes).map(|stored| stored.to_table())
    }
}

/// A table in the form of [`Table::to_bytes`], read in place, so that a file can be mapped.
#[derive(Clone, Debug)]
pub struct StoredTable<B> {
    bytes: B,
    start: u64,
    rules: Vec<TableRule>,
    /// Positions of the rows' offsets and, after these, of the numbers of their rules.
    offsets: usize,
    numbers: usize,
}

impl<B: AsRef<[u8]>> StoredTable<B> {
    /// Checks a serialized table; `None` if the bytes are not a table.
    pub fn new(bytes: B) -> Option<Self> {
        let whole = bytes.as_ref();
        let (header, rest) = whole.split_at_checked(HEADER)?;
        let (rules, header) = header.split_first_chunk()?;
        let (rows, start) = header.split_first_chunk()?;
        let (rules, rows) = (u64::from_le_bytes(*rules), u64::from_le_bytes(*rows));
        let (rules, rows) = (usize::try_from(rules).ok()?, usize::try_from(rows).ok()?);
        let rules_len = rules.checked_mul(RULE)?;
        let len = rows.checked_mul(6)?.checked_add(rules_len)?;
        if rest.len() != len {
            return None;
        }
        let start = u64::from_le_bytes(start.try_into().ok()?);
        let rule_bytes = rest.get(..rules_len)?.as_chunks().0;
        let rules = rule_bytes.iter().map(TableRule::from_bytes).collect::<Option<_>>()?;
        let offsets = HEADER + rules_len;
        let stored = Self { start, rules, offsets, numbers: offsets + 4 * rows, bytes };
        let grows = stored.rows().is_sorted_by(|a, b| a.offset < b.offset);
        let known = stored.rows().all(|row| usize::from(row.rule) < stored.rules.len());
        (grows && known).then_some(stored)
    }

    /// Same as [`Table::start`].
    pub fn start(&self) -> u64 {
        self.start
    }

    /// Same as [`Table::rules`].
    pub fn rules(&self) -> &[TableRule] {
        &self.rules
    }

    /// Same as [`Table::rows`].
    pub fn rows(&self) -> impl ExactSizeIterator<Item = TableRow> + '_ {
        let rows = self.bytes.as_ref().get(self.offsets..).unwrap_or_default();
        let (offsets, numbers) = rows.split_at(self.numbers - self.offsets);
        let offsets = offsets.as_chunks().0.iter().map(|bytes| u32::from_le_bytes(*bytes));
        let numbers = numbers.as_chunks().0.iter().map(|bytes| u16::from_le_bytes(*bytes));
        offsets.zip(numbers).map(|(offset, rule)| TableRow { offset, rule })
    }

    fn to_table(&self) -> Table {
        Table { start: self.start, rows: self.rows().collect(), rules: self.rules.clone() }
    }
}

impl TableRule {
    pub(crate) fn to_bytes(self) -> [u8; RULE] {
        let Self { kind, base, add, offset, saved, below_fp, flags } = self;
        let ([add_0, add_1], [o0, o1, o2, o3]) = (add.to_le_bytes(), offset.to_le_bytes());
        let [s0, s1, s2, s3, s4, s5] = saved;
        [kind as u8, base, add_0, add_1, o0, o1, o2, o3, s0, s1, s2, s3, s4, s5, below_fp, flags]
    }

    fn from_bytes(bytes: &[u8; RULE]) -> Option<Self> {
        let [kind, base, a0, a1, o0, o1, o2, o3, s0, s1, s2, s3, s4, s5, below_fp, flags] = *bytes;
        Some(Self {
            kind: TableRuleKind::ALL.into_iter().find(|known| *known as u8 == kind)?,
            base,
            add: i16::from_le_bytes([a0, a1]),
            offset: i32::from_le_bytes([o0, o1, o2, o3]),
            saved: [s0, s1, s2, s3, s4, s5],
            below_fp,
            flags,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own_info() -> UnwindInfo {
        let own = std::env::current_exe().and_then(std::fs::read).expect("this test");
        UnwindInfo::from_bytes(own).expect("an ELF file")
    }

    fn small() -> Table {
        let rule = |kind, offset| TableRule {
            base: 7,
            add: -8,
            offset,
            saved: [2, 0, 3, 4, 5, 6],
            ..TableRule { kind, ..TableRule::default() }
        };
        let rows = [(0, 1), (7, 0), (70_000, 1)].map(|(offset, rule)| TableRow { offset, rule });
        let rules = vec![rule(TableRuleKind::Deref, -16), rule(TableRuleKind::Bad, 1 << 30)];
        Table { start: 0x40_0000, rows: rows.to_vec(), rules }
    }

    #[test]
    fn what_was_kept_comes_back() {
        for table in [Table::default(), small(), own_info().table()] {
            let bytes = table.to_bytes();
            let back = Table::from_bytes(&bytes).expect("what was made");
            assert_eq!(
                (back.start, &back.rows, &back.rules),
                (table.start, &table.rows, &table.rules)
            );
        }
        assert!(own_info().table().rows.len() > 1000);
    }

    #[test]
    fn tables_are_whole() {
        let whole = small().to_bytes();
        for at in 0..whole.len() {
            assert!(Table::from_bytes(&whole[..at]).is_none(), "cut at {at}");
        }
        assert!(Table::from_bytes(&[&whole[..], b"x"].concat()).is_none());
    }

    #[test]
    fn what_cannot_be_searched_is_not_taken() {
        let whole = small().to_bytes();
        let rows = HEADER + 2 * RULE;
        let with = |at: usize, byte| {
            let mut bytes = whole.clone();
            bytes[at] = byte;
            Table::from_bytes(&bytes)
        };
        assert!(with(rows, 7).is_none(), "offsets that do not grow");
        assert!(with(rows + 12, 2).is_none(), "a rule that is not there");
        let unknown = TableRuleKind::ALL.len() as u8;
        assert!(with(HEADER, unknown).is_none(), "a kind of rule that is not known");
        // Counts that are not those of the bytes, also where their product is beyond all numbers.
        for count in [1, 3, 0x7f, 0xff] {
            assert!(with(0, count).is_none() && with(8, count ^ 4).is_none());
            assert!(with(7, count).is_none() && with(15, count).is_none(), "{count}");
        }
        assert!(with(rows + 4, 8).is_some(), "another table, but one");
    }

    #[test]
    fn a_file_and_its_stripped_twin_have_different_keys() {
        let own = own_info();
        let key = own.table_key();
        assert_eq!(key, own_info().table_key());
        let folder = std::env::temp_dir().join(format!("pyrograph-stored-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let [source, full, stripped, none] =
            ["a.c", "full", "stripped", "none"].map(|name| folder.join(name));
        std::fs::write(&source, "int main(void) { return 0; }").expect("a file");
        let run = |program: &str, arguments: &[&std::ffi::OsStr]| {
            let status = std::process::Command::new(program).args(arguments).status();
            assert!(status.expect("it is installed").success());
        };
        let build_id = std::ffi::OsStr::new("-Wl,--build-id=sha1");
        let frames = ["-g", "-fno-asynchronous-unwind-tables"].map(std::ffi::OsStr::new);
        let out = std::ffi::OsStr::new("-o");
        run("gcc", &[frames[0], frames[1], build_id, out, full.as_ref(), source.as_ref()]);
        run("strip", &["-g".as_ref(), out, stripped.as_ref(), full.as_ref()]);
        run("gcc", &["-Wl,--build-id=none".as_ref(), out, none.as_ref(), source.as_ref()]);
        let key = |path| {
            let bytes = std::fs::read(path).expect("it was made");
            UnwindInfo::from_bytes(bytes).expect("an ELF file").table_key()
        };
        let (full, stripped) = (key(&full), key(&stripped));
        assert_eq!(full.id, stripped.id);
        assert_ne!(full, stripped, "only one of them has a .debug_frame");
        assert_eq!(full.to_string().len(), 40 + 1 + 16);
        // Without a build ID it is what the table is made of that counts.
        let (first, other) = (key(&none), folder.join("other"));
        assert_eq!((first.to_string().len(), &first), (16 + 1 + 16, &key(&none)));
        std::fs::write(&source, "int main(void) { return printf(\"%d\", 1); }").expect("a file");
        let flags = ["-Wl,--build-id=none", "-O2", "-w", "-include", "stdio.h", "-o"];
        let flags = flags.map(std::ffi::OsStr::new);
        run("gcc", &[&flags[..], &[other.as_ref(), source.as_ref()]].concat());
        assert_ne!(first.id, key(&other).id);
        let _ = std::fs::remove_dir_all(&folder);
    }
}
