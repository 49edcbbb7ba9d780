//! The kernel's types (BTF), reduced to those that the programs name.
//!
//! For CO-RE, the loader searches all types of the kernel for each structure that a program names, by comparing names.
//! A Linux 6.18 has 126,585 types, which takes 20 ms, with 5 more to read them. So the loader is given only those types
//! that can match, with the types that they are made of: 806. Types that are only pointed to are reduced to their name.
//!
//! The format is that of `include/uapi/linux/btf.h` and `Documentation/bpf/btf.rst` of Linux.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::hash::BuildHasher;
use std::io::{self, Read, Write};
use std::os::fd::FromRawFd;
use std::path::Path;

use foldhash::quality::FixedState;
use hashbrown::{HashMap, HashSet};
use memmap2::MmapOptions;
use object::{Object, ObjectSection};
use pyrograph_cache::{Folder, Stamp};

use crate::features;

/// Path of the kernel's BTF.
const KERNEL_TYPES: &str = "/sys/kernel/btf/vmlinux";
/// Limit to its size, in bytes. Debian's is 5 MB.
const LARGEST: u64 = 256 << 20;

const MAGIC: u32 = 0xeb9f;
const VERSION: u32 = 1;
const HEADER: u32 = 24;

// Kinds of types.
const INT: u8 = 1;
const PTR: u8 = 2;
const ARRAY: u8 = 3;
const STRUCT: u8 = 4;
const UNION: u8 = 5;
const ENUM: u8 = 6;
const FWD: u8 = 7;
const TYPEDEF: u8 = 8;
const VOLATILE: u8 = 9;
const CONST: u8 = 10;
const RESTRICT: u8 = 11;
const FUNC: u8 = 12;
const FUNC_PROTO: u8 = 13;
const VAR: u8 = 14;
const DATASEC: u8 = 15;
const FLOAT: u8 = 16;
const DECL_TAG: u8 = 17;
const TYPE_TAG: u8 = 18;
const ENUM64: u8 = 19;

/// The kernel's types that the programs name.
pub struct KernelTypes {
    /// BTF of these types, in a file in memory.
    pub file: File,
    /// True if the kernel can allocate rows of maps while a program runs (Linux 6.1).
    pub rows_as_needed: bool,
}

/// Returns the kernel's types that the programs in an object file can refer to. `None` if the kernel's BTF cannot be
/// read: the loader then searches it itself. `cache`: a folder such as `~/.cache`, below which the types are kept as
/// `name` until the next boot.
pub fn reduced(object: &[u8], name: &str, cache: Option<&Path>) -> Option<KernelTypes> {
    let stamp = stamp(object);
    let folder = cache.and_then(|cache| Folder::open(cache, "kernel"));
    let Some((stamp, folder)) = stamp.zip(folder) else { return in_memory(&make(object)?) };
    if let Some(types) = folder.read(name, stamp) {
        return in_memory(&types);
    }
    let types = make(object)?;
    // If it cannot be written, it is made again the next time.
    let _ = folder.write(name, stamp, &types);
    in_memory(&types)
}

/// Identifies the kernel of this boot, and the programs. `None` if the kernel hides its boot ID.
fn stamp(object: &[u8]) -> Option<Stamp> {
    let boot = fs::read("/proc/sys/kernel/random/boot_id").ok()?;
    let size = fs::metadata(KERNEL_TYPES).ok()?.len();
    let of = FixedState::default().hash_one((boot, size, object));
    Some(Stamp { kind: *b"types\0\0", version: 1, of })
}

fn make(object: &[u8]) -> Option<Vec<u8>> {
    let object = object::File::parse(object).ok()?;
    let programs = Types::parse(object.section_by_name(".BTF")?.data().ok()?)?;
    let kernel = read(Path::new(KERNEL_TYPES)).ok()?;
    let mut names = names(&programs);
    names.insert(features::ROWS_AS_NEEDED.as_bytes());
    reduce(&Types::parse((*kernel).as_ref())?, &names)
}

/// Reads the kernel's BTF. It is mapped if the kernel supports that (Linux 6.16), and copied otherwise.
fn read(path: &Path) -> io::Result<Box<dyn AsRef<[u8]>>> {
    let file = File::open(path)?;
    // SAFETY: the kernel does not change it.
    if let Ok(map) = unsafe { MmapOptions::new().map_copy_read_only(&file) } {
        return Ok(Box::new(map));
    }
    let mut bytes = Vec::new();
    file.take(LARGEST).read_to_end(&mut bytes)?;
    Ok(Box::new(bytes))
}

fn in_memory(bytes: &[u8]) -> Option<KernelTypes> {
    let types = Types::parse(bytes)?;
    let mark = features::ROWS_AS_NEEDED.as_bytes();
    let is_mark = |one: &Type<'_>| one.kind == STRUCT && types.string(one.word(0)) == Some(mark);
    let rows_as_needed = types.iter().any(|(_, one)| is_mark(&one));
    Some(KernelTypes { file: file_in_memory(&[bytes])?, rows_as_needed })
}

fn file_in_memory(parts: &[&[u8]]) -> Option<File> {
    // SAFETY: it takes a string that ends with NUL, and flags.
    let fd = unsafe { libc::memfd_create(c"types".as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        return None;
    }
    // SAFETY: the descriptor was just created, and nothing else owns it.
    let mut file = unsafe { File::from_raw_fd(fd) };
    parts.iter().try_for_each(|part| file.write_all(part)).ok()?;
    Some(file)
}

/// Returns the types of the kernel and of one of its modules, as one file in memory. `None` if one of them is not described.
///
/// Numbers of a module's types and places of its names go on where the kernel's end (`btf__parse_split` of libbpf), so that both
/// parts can stand one behind the other.
pub(crate) fn with_module(module: &str) -> Option<File> {
    let folder = Path::new(KERNEL_TYPES).parent()?;
    let (kernel, module) = (read(Path::new(KERNEL_TYPES)).ok()?, read(&folder.join(module)).ok()?);
    let (types, names) = sections((*kernel).as_ref())?;
    let (more_types, more_names) = sections((*module).as_ref())?;
    let length = |a: &[u8], b: &[u8]| u32::try_from(a.len().checked_add(b.len())?).ok();
    let (of_types, of_names) = (length(types, more_types)?, length(names, more_names)?);
    let header = [MAGIC | VERSION << 16, HEADER, 0, of_types, of_types, of_names];
    let header = header.map(u32::to_ne_bytes).concat();
    file_in_memory(&[&header, types, more_types, names, more_names])
}

/// The types and the names of BTF.
fn sections(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    if word(bytes, 0)? & 0xffff != MAGIC {
        return None;
    }
    let header = word(bytes, 4)? as usize;
    let part = |at| {
        let start = header.checked_add(word(bytes, at)? as usize)?;
        bytes.get(start..start.checked_add(word(bytes, at + 4)? as usize)?)
    };
    Some((part(8)?, part(16)?))
}

/// How much must be known of a type for another type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Need {
    /// Only the name, if it is a structure or union.
    Name,
    /// All of its parts.
    Whole,
}

/// One type.
#[derive(Clone, Copy, Debug)]
struct Type<'a> {
    kind: u8,
    /// The type's record: its name and the names of its members, as offsets into the strings, and numbers of other
    /// types.
    bytes: &'a [u8],
}

impl<'a> Type<'a> {
    /// Parses the first of several types.
    fn parse(bytes: &'a [u8]) -> Option<Self> {
        let info = word(bytes, 4)?;
        let (kind, count) = ((info >> 24 & 31) as u8, (info & 0xffff) as usize);
        let more = match kind {
            INT | VAR | DECL_TAG => 4,
            ARRAY => 12,
            STRUCT | UNION | DATASEC | ENUM64 => 12 * count,
            ENUM | FUNC_PROTO => 8 * count,
            PTR | FWD | TYPEDEF | VOLATILE | CONST | RESTRICT | FUNC | FLOAT | TYPE_TAG => 0,
            _ => return None,
        };
        Some(Self { kind, bytes: bytes.get(..12 + more)? })
    }

    fn word(&self, at: usize) -> u32 {
        word(self.bytes, at).unwrap_or(0)
    }

    /// Returns true if programs refer to types of this kind by name.
    fn is_named(&self) -> bool {
        matches!(self.kind, STRUCT | UNION | ENUM | ENUM64 | TYPEDEF) && self.word(0) != 0
    }

    /// Offsets of names in the record.
    fn names(&self) -> impl Iterator<Item = usize> + use<> {
        let (end, each) = match self.kind {
            STRUCT | UNION | ENUM64 => (self.bytes.len(), 12),
            ENUM | FUNC_PROTO => (self.bytes.len(), 8),
            _ => (12, 12),
        };
        [0].into_iter().chain((12..end).step_by(each))
    }

    /// Offsets of the numbers of other types in the record.
    fn others(&self) -> impl Iterator<Item = usize> + use<> {
        let (start, end, each) = match self.kind {
            PTR | TYPEDEF | VOLATILE | CONST | RESTRICT | TYPE_TAG => (8, 12, 4),
            // The types of its elements and of its index.
            ARRAY => (12, 20, 4),
            STRUCT | UNION => (16, self.bytes.len(), 12),
            // The types that it returns and takes.
            FUNC_PROTO => (8, self.bytes.len(), 8),
            _ => (0, 0, 1),
        };
        (start..end).step_by(each)
    }

    /// How much must be known of the types that this one refers to, if `need` must be known of it; `None` if nothing.
    fn needs(&self, need: Need) -> Option<Need> {
        match self.kind {
            PTR => Some(Need::Name),
            TYPEDEF | VOLATILE | CONST | RESTRICT | TYPE_TAG => Some(need),
            STRUCT | UNION if need == Need::Name && self.word(0) != 0 => None,
            _ => Some(Need::Whole),
        }
    }
}

/// BTF data: types and their strings.
struct Types<'a> {
    types: &'a [u8],
    /// Start of each type in `types`.
    starts: Vec<u32>,
    strings: &'a [u8],
}

impl<'a> Types<'a> {
    fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (types, strings) = sections(bytes)?;
        let mut starts = Vec::with_capacity(types.len() / 24);
        let mut at = 0;
        while at < types.len() {
            starts.push(u32::try_from(at).ok()?);
            at += Type::parse(&types[at..])?.bytes.len();
        }
        Some(Self { types, starts, strings })
    }

    /// The type with a number. Numbers begin with 1: 0 is `void`.
    fn get(&self, number: u32) -> Option<Type<'a>> {
        let start = *self.starts.get(number.checked_sub(1)? as usize)?;
        Type::parse(self.types.get(start as usize..)?)
    }

    fn iter(&self) -> impl Iterator<Item = (u32, Type<'a>)> {
        (1..).map_while(|number| Some((number, self.get(number)?)))
    }

    fn string(&self, offset: u32) -> Option<&'a [u8]> {
        self.strings.get(offset as usize..)?.split(|byte| *byte == 0).next()
    }

    /// Types that programs can refer to by one of these names, and the types that they are made of, by number.
    fn reach(&self, names: &HashSet<&[u8]>) -> Option<BTreeMap<u32, Need>> {
        let is_meant = |one: &Type<'_>| {
            one.is_named() && self.string(one.word(0)).is_some_and(|it| names.contains(plain(it)))
        };
        let meant = self.iter().filter(|(_, one)| is_meant(one));
        let mut open: Vec<_> = meant.map(|(number, _)| (number, Need::Whole)).collect();
        let mut reached = BTreeMap::new();
        while let Some((number, need)) = open.pop() {
            if number == 0 || reached.get(&number).is_some_and(|known| *known >= need) {
                continue;
            }
            reached.insert(number, need);
            let one = self.get(number)?;
            if let Some(need) = one.needs(need) {
                open.extend(one.others().map(|at| (one.word(at), need)));
            }
        }
        Some(reached)
    }
}

/// Makes BTF of the kernel's types with these names, and of the types that they are made of.
fn reduce(kernel: &Types<'_>, names: &HashSet<&[u8]>) -> Option<Vec<u8>> {
    let reached = kernel.reach(names)?;
    let mut numbers: HashMap<u32, u32> = reached.keys().copied().zip(1..).collect();
    numbers.insert(0, 0);
    let (mut types, mut strings) = (Vec::new(), vec![0]);
    let mut places: HashMap<u32, u32> = HashMap::from_iter([(0, 0)]);
    for (number, need) in reached {
        let one = kernel.get(number)?;
        let mut bytes = one.bytes.to_vec();
        let mut set =
            |at: usize, value: u32| bytes[at..at + 4].copy_from_slice(&value.to_ne_bytes());
        let whole = one.needs(need).is_some();
        if !whole {
            set(4, u32::from(FWD) << 24 | u32::from(one.kind == UNION) << 31);
            set(8, 0);
        }
        for at in one.names().take(if whole { usize::MAX } else { 1 }) {
            let name = one.word(at);
            let place = match places.get(&name) {
                Some(place) => *place,
                None => {
                    let place = u32::try_from(strings.len()).ok()?;
                    strings.extend_from_slice(kernel.string(name)?);
                    strings.push(0);
                    places.insert(name, place);
                    place
                }
            };
            set(at, place);
        }
        for at in one.others().filter(|_| whole) {
            set(at, *numbers.get(&one.word(at))?);
        }
        types.extend_from_slice(if whole { &bytes } else { &bytes[..12] });
    }
    let len = |part: &Vec<u8>| u32::try_from(part.len()).ok();
    let (types_len, strings_len) = (len(&types)?, len(&strings)?);
    let header = [VERSION << 16 | MAGIC, HEADER, 0, types_len, types_len, strings_len];
    let header = header.into_iter().flat_map(u32::to_ne_bytes);
    Some(header.chain(types).chain(strings).collect())
}

/// Names of the types in the BTF of programs.
fn names<'a>(programs: &Types<'a>) -> HashSet<&'a [u8]> {
    let named = programs.iter().filter(|(_, one)| one.is_named());
    named.filter_map(|(_, one)| programs.string(one.word(0))).map(plain).collect()
}

/// Removes the suffix that tells versions of a type in programs apart: `task_struct___old` becomes `task_struct`.
fn plain(name: &[u8]) -> &[u8] {
    let is_mark = |w: &[u8]| w[0] != b'_' && w[1..4] == *b"___" && w[4] != b'_';
    name.windows(5).rposition(is_mark).map_or(name, |at| &name[..=at])
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let word = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_ne_bytes(word.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;
    use std::path::PathBuf;

    use libbpf_rs::{AsRawLibbpf, MapType, ObjectBuilder, OpenObject, OpenProgram, libbpf_sys};

    use super::*;

    fn object() -> Vec<u8> {
        bytemuck::cast_slice(&crate::load::PROGRAMS.unpack().expect("the programs")).to_vec()
    }

    fn described(object: &[u8]) -> Vec<u8> {
        let object = object::File::parse(object).expect("an object file");
        object.section_by_name(".BTF").expect("types").data().expect("whole").to_vec()
    }

    /// The instructions of all programs when the loader has looked for what they name, without numbers of
    /// maps, which are given anew each time.
    fn instructions(object: &[u8], types: Option<&File>) -> Vec<Vec<[i64; 5]>> {
        let mut builder = ObjectBuilder::default();
        if let Some(types) = types {
            let path = PathBuf::from(format!("/proc/self/fd/{}", types.as_raw_fd()));
            builder.btf_custom_path(path).expect("a path");
        }
        let mut open: OpenObject = builder.open_memory(object).expect("an object file");
        for mut map in open.maps_mut() {
            let entries = match map.map_type() {
                MapType::TaskStorage => 0,
                MapType::RingBuf => 4096,
                _ => 1,
            };
            map.set_max_entries(entries).expect("a number");
        }
        // SAFETY: it was opened, and is not loaded yet.
        let result = unsafe { libbpf_sys::bpf_object__prepare(open.as_libbpf_object().as_ptr()) };
        assert_eq!(result, 0, "maps can be made");
        let read = |program: OpenProgram<'_>| {
            let name = program.name().to_string_lossy().into_owned();
            let plain = program.insns().iter().map(|one| {
                let is_map = one.code == 0x18 && one.src_reg() != 0;
                let value = if is_map { 0 } else { one.imm };
                [
                    one.code.into(),
                    one.dst_reg().into(),
                    one.src_reg().into(),
                    one.off.into(),
                    value.into(),
                ]
            });
            let all: Vec<_> = plain.collect();
            assert!(!all.is_empty(), "{name}");
            all
        };
        open.progs().map(read).collect()
    }

    #[test]
    fn programs_are_the_same_as_with_all_types() {
        // SAFETY: it takes nothing.
        if unsafe { libc::geteuid() } != 0 || !Path::new(KERNEL_TYPES).exists() {
            eprintln!("skipped: only root may make maps, and not every kernel describes its types");
            return;
        }
        libbpf_rs::set_print(None);
        let object = object();
        let types = reduced(&object, "types", None).expect("the kernel describes its types");
        assert_eq!(types.rows_as_needed, features::has_map_memory());
        let types = types.file;
        let len = |len: io::Result<fs::Metadata>| len.expect("a file").len();
        assert!(len(types.metadata()) < len(fs::metadata(KERNEL_TYPES)) / 10);
        let (all, few) = (instructions(&object, None), instructions(&object, Some(&types)));
        assert_eq!(all.len(), few.len());
        for (all, few) in all.iter().zip(&few) {
            assert!(all == few);
        }
        // Without any types nothing is found, and that makes a difference.
        let none = reduce(&Types::parse(&described(&object)).expect("types"), &HashSet::new());
        let none = in_memory(&none.expect("no types")).expect("a file");
        assert!(!none.rows_as_needed);
        assert!(instructions(&object, Some(&none.file)) != all);
    }

    #[test]
    fn what_was_kept_is_the_same() {
        let Ok(kernel) = fs::read(KERNEL_TYPES) else {
            eprintln!("skipped: not every kernel describes its types");
            return;
        };
        let base = tempfile::tempdir().expect("a folder");
        let path = base.path().join("pyrograph/kernel").join("types");
        let object = object();
        let types = |object: &[u8]| {
            let file = reduced(object, "types", Some(base.path()))
                .expect("the kernel describes its types");
            fs::read(format!("/proc/self/fd/{}", file.file.as_raw_fd())).expect("a file")
        };
        let made = make(&object).expect("the kernel describes its types");
        assert!(made.len() < kernel.len());
        assert!(types(&object) == made);
        let kept = fs::read(&path).expect("it was written");
        let changed = || fs::metadata(&path).and_then(|data| data.modified()).expect("it is there");
        let before = changed();
        assert!(types(&object) == made && changed() == before, "what fits is not written again");
        // Damaged, of other programs or another kernel.
        let flip = |at: usize| {
            let mut turned = kept.clone();
            turned[at] ^= 1;
            turned
        };
        let others = [vec![], kept[..kept.len() - 1].to_vec()];
        for bytes in others.into_iter().chain([0, 8, 16, kept.len() / 2].map(flip)) {
            fs::write(&path, bytes).expect("it is ours");
            assert!(types(&object) == made);
            assert!(fs::read(&path).expect("it was written") == kept);
        }
        let other = [&object[..], b"more"].concat();
        assert!(types(&other) == made);
        assert!(fs::read(&path).expect("it was written") != kept);
    }

    #[test]
    fn what_is_pointed_to_is_a_name() {
        let own = described(&object());
        let own = Types::parse(&own).expect("types");
        let bytes = reduce(&own, &HashSet::from([&b"file"[..]])).expect("types");
        let few = Types::parse(&bytes).expect("types");
        let kinds =
            few.iter().map(|(_, one)| (one.kind, few.string(one.word(0)).expect("a string")));
        let mut kinds: Vec<_> = kinds.collect();
        kinds.sort_unstable();
        // `struct file` has a `struct inode *`.
        assert_eq!(kinds, [(PTR, &b""[..]), (STRUCT, b"file"), (FWD, b"inode")]);
    }

    #[test]
    fn names_are_compared_without_their_versions() {
        for (name, expect) in [
            ("task_struct", "task_struct"),
            ("task_struct___old", "task_struct"),
            ("a___b___c", "a___b"),
            ("___a", "___a"),
            ("a____b", "a____b"),
            ("a___", "a___"),
            ("", ""),
        ] {
            assert_eq!(plain(name.as_bytes()), expect.as_bytes(), "{name}");
        }
    }

    #[test]
    fn damage_is_no_harm() {
        let whole = described(&object());
        let reduce = |bytes: &[u8]| {
            let types = Types::parse(bytes)?;
            reduce(&types, &names(&types))
        };
        assert!(reduce(&whole).is_some());
        let step = if std::env::var_os("PYROGRAPH_NIGHTLY").is_some() { 37 } else { 185 };
        for at in (0..64).chain((64..whole.len()).step_by(step)) {
            for bit in [1, 0x80] {
                let mut damaged = whole.clone();
                damaged[at] ^= bit;
                reduce(&damaged);
            }
            assert_eq!(reduce(&whole[..at]), None);
        }
    }
}
