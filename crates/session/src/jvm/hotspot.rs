//! Facts about a HotSpot virtual machine, read from its memory by the tables that it exports for debuggers. They
//! contain the names of its classes' fields with their addresses or offsets, and the sizes of these classes
//! (`src/hotspot/share/runtime/vmStructs.hpp` in the JDK's source).
//!
//! ```text
//! gHotSpotVMStructs → [type name, field name, type, is static, offset, address], …, [0, …]
//! gHotSpotVMTypes   → [type name, superclass name, …, size], …, [0, …]
//! ```

use std::cell::RefCell;
use std::collections::HashMap;

use pyrograph_elf::Image;
use pyrograph_elf::object::{Object, ObjectSymbol};

/// Maximum number of entries, beyond what any version has (900 fields, 600 types, 1,500 flags).
const MOST: u64 = 10_000;

/// Maximum length of the names of fields, types and flags.
const LONGEST_NAME: u64 = 256;

const PAGE: u64 = 4096;

/// Memory of a process.
pub trait Memory {
    /// Reads all of `bytes` or nothing. Returns true on success.
    fn read(&self, address: u64, bytes: &mut [u8]) -> bool;
}

/// Facts about a virtual machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Major version of the JDK; 0 before JDK 11, where the virtual machine is numbered differently.
    pub version: i32,
    /// Full version: `17.0.15+6-Debian-1deb12u1`.
    pub release: String,
    /// `-XX:+DisableAttachMechanism`: it does not listen, and prints the stacks of all threads on SIGQUIT.
    pub is_attach_disabled: bool,
    /// `-Xrs`: it has no handler for SIGQUIT.
    pub has_reduced_signals: bool,
    /// `-XX:+DumpPerfMapAtExit`: it writes its perf map when it ends.
    pub dumps_at_exit: bool,
}

/// Returns the exported variables of HotSpot's library: names and addresses in the file. `None` if it is another
/// library.
pub fn exported(image: &Image) -> Option<HashMap<String, u64>> {
    let symbols = image.elf().dynamic_symbols().filter(|symbol| symbol.is_definition());
    let named =
        symbols.filter_map(|symbol| Some((symbol.name().ok()?.to_owned(), symbol.address())));
    let found: HashMap<_, _> = named.filter(|(name, _)| name.starts_with("gHotSpotVM")).collect();
    found.contains_key("gHotSpotVMStructs").then_some(found)
}

impl Facts {
    /// Reads the facts. `variables` are the exported variables, and `bias` is the difference between their addresses in
    /// memory and in the file. Returns `None` if the memory cannot be read, or a table has an unexpected form.
    pub fn read(memory: &dyn Memory, variables: &HashMap<String, u64>, bias: u64) -> Option<Self> {
        let machine = Machine { memory: Pages::new(memory), variables, bias };
        let fields = machine.fields()?;
        let at = |of: &str, name: &str| {
            fields.get(&(of.to_owned(), name.to_owned())).map(|field| field.at)
        };
        let version = "Abstract_VM_Version";
        let release = at(version, "_s_vm_release")
            .and_then(|at| machine.memory.text(machine.memory.word(at)?))
            .unwrap_or_default();
        // JDK 10 or older.
        if at("JVMFlag", "flags").is_none() && at("Flag", "flags").is_some() {
            return Some(Self {
                version: 0,
                release,
                is_attach_disabled: false,
                has_reduced_signals: false,
                dumps_at_exit: false,
            });
        }
        let flags = machine.flags(|name| at("JVMFlag", name))?;
        let flag = |name: &str| flags.get(name).copied();
        Some(Self {
            version: machine.memory.word(at(version, "_vm_major_version")?)? as u32 as i32,
            release,
            is_attach_disabled: flag("DisableAttachMechanism")?,
            has_reduced_signals: flag("ReduceSignalUsage")?,
            dumps_at_exit: flag("DumpPerfMapAtExit").unwrap_or(false),
        })
    }
}

/// A field of a class.
struct Field {
    /// Its address if it is static, otherwise its offset.
    at: u64,
}

struct Machine<'a> {
    memory: Pages<'a>,
    variables: &'a HashMap<String, u64>,
    bias: u64,
}

impl Machine<'_> {
    /// Reads the value of an exported variable.
    fn variable(&self, name: &str) -> Option<u64> {
        self.memory.word(self.variables.get(name)?.checked_add(self.bias)?)
    }

    /// Reads the fields of all classes, by class and name.
    fn fields(&self) -> Option<HashMap<(String, String), Field>> {
        let table = self.variable("gHotSpotVMStructs")?;
        let of = |name: &str| self.variable(&format!("gHotSpotVMStructEntry{name}"));
        let stride = of("ArrayStride").filter(|stride| *stride > 0)?;
        let (class, name) = (of("TypeNameOffset")?, of("FieldNameOffset")?);
        let (is_static, offset, address) =
            (of("IsStaticOffset")?, of("OffsetOffset")?, of("AddressOffset")?);
        let mut fields = HashMap::new();
        for entry in (0..MOST).map(|index| table.wrapping_add(index * stride)) {
            let word = |at: u64| self.memory.word(entry.wrapping_add(at));
            let class = word(class)?;
            if class == 0 {
                break;
            }
            let place = if word(is_static)? as u32 == 0 { offset } else { address };
            let key = (self.memory.text(class)?, self.memory.text(word(name)?)?);
            fields.insert(key, Field { at: word(place)? });
        }
        Some(fields)
    }

    /// Reads the size of a class.
    fn size_of(&self, class: &str) -> Option<u64> {
        let table = self.variable("gHotSpotVMTypes")?;
        let of = |name: &str| self.variable(&format!("gHotSpotVMTypeEntry{name}"));
        let stride = of("ArrayStride").filter(|stride| *stride > 0)?;
        let (name, size) = (of("TypeNameOffset")?, of("SizeOffset")?);
        for entry in (0..MOST).map(|index| table.wrapping_add(index * stride)) {
            let found = self.memory.word(entry.wrapping_add(name)).filter(|found| *found != 0)?;
            if self.memory.text(found)? == class {
                return self.memory.word(entry.wrapping_add(size));
            }
        }
        None
    }

    /// Reads the boolean flags. For other flags, the value is true if the lowest byte is not 0.
    fn flags(&self, at: impl Fn(&str) -> Option<u64>) -> Option<HashMap<String, bool>> {
        let table = self.memory.word(at("flags")?)?;
        let number = self.memory.word(at("numFlags")?)?.min(MOST);
        let size = self.size_of("JVMFlag").filter(|size| *size > 0)?;
        let (name, value) = (at("_name")?, at("_addr")?);
        let mut flags = HashMap::new();
        for entry in (0..number).map(|index| table.wrapping_add(index * size)) {
            let word = |at: u64| self.memory.word(entry.wrapping_add(at));
            // The last entry has null pointers.
            if let (Some(name @ 1..), Some(value @ 1..)) = (word(name), word(value)) {
                flags.insert(self.memory.text(name)?, self.memory.byte(value)? != 0);
            }
        }
        Some(flags)
    }
}

/// Reads memory by pages, each of them once.
struct Pages<'a> {
    memory: &'a dyn Memory,
    pages: RefCell<HashMap<u64, Option<Box<[u8]>>>>,
}

impl<'a> Pages<'a> {
    fn new(memory: &'a dyn Memory) -> Self {
        Self { memory, pages: RefCell::default() }
    }

    fn byte(&self, address: u64) -> Option<u8> {
        let start = address & !(PAGE - 1);
        let mut pages = self.pages.borrow_mut();
        let page = pages.entry(start).or_insert_with(|| {
            let mut page = vec![0; PAGE as usize].into_boxed_slice();
            self.memory.read(start, &mut page).then_some(page)
        });
        page.as_ref().map(|page| page[(address - start) as usize])
    }

    fn word(&self, address: u64) -> Option<u64> {
        let mut word = [0; 8];
        for (byte, index) in word.iter_mut().zip(0..) {
            *byte = self.byte(address.checked_add(index)?)?;
        }
        Some(u64::from_le_bytes(word))
    }

    /// Reads a zero-terminated text.
    fn text(&self, address: u64) -> Option<String> {
        let mut text = Vec::new();
        for index in 0..LONGEST_NAME {
            match self.byte(address.checked_add(index)?)? {
                0 => return String::from_utf8(text).ok(),
                byte => text.push(byte),
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BIAS: u64 = 0x7f00_0000_0000;

    /// Memory that begins at [`BIAS`].
    #[derive(Default)]
    struct Made {
        bytes: Vec<u8>,
        variables: HashMap<String, u64>,
    }

    impl Memory for Made {
        fn read(&self, address: u64, bytes: &mut [u8]) -> bool {
            let Some(at) = address.checked_sub(BIAS) else { return false };
            let mut padded = self.bytes.clone();
            padded.resize(padded.len().next_multiple_of(PAGE as usize), 0);
            let part = padded.get(at as usize..at as usize + bytes.len());
            part.map(|part| bytes.copy_from_slice(part)).is_some()
        }
    }

    impl Made {
        fn add(&mut self, bytes: &[u8]) -> u64 {
            self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
            let at = BIAS + self.bytes.len() as u64;
            self.bytes.extend_from_slice(bytes);
            at
        }

        fn words(&mut self, words: &[u64]) -> u64 {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            self.add(&bytes)
        }

        fn text(&mut self, text: &str) -> u64 {
            match text {
                "" => 0,
                text => self.add(format!("{text}\0").as_bytes()),
            }
        }

        fn export(&mut self, name: &str, value: u64) {
            let at = self.words(&[value]);
            self.variables.insert(name.to_owned(), at - BIAS);
        }

        /// A machine of this version whose flags are these.
        fn machine(class: &str, version: u64, flags: &[(&str, u8)]) -> Self {
            let mut made = Self::default();
            let mut table = Vec::new();
            for (name, value) in flags {
                let value = made.add(&[*value]);
                table.extend([value, made.text(name), 7]);
            }
            // The last one has neither name nor value.
            table.extend([0, 0, 0]);
            let (count, table) = (table.len() as u64 / 3, made.words(&table));
            let (count, table) = (made.words(&[count]), made.words(&[table]));
            // What follows the version in memory is no part of it.
            let version = made.words(&[version | 99 << 32]);
            let release = made.text("17.0.15+6");
            let release = made.words(&[release]);
            let fields = [
                (class, "_name", 0, 8, 0),
                (class, "_addr", 0, 0, 0),
                (class, "flags", 1, 0, table),
                (class, "numFlags", 1, 0, count),
                ("Abstract_VM_Version", "_s_vm_release", 1, 0, release),
                ("Abstract_VM_Version", "_vm_major_version", 1, 0, version),
                ("", "", 0, 0, 0),
            ];
            let entries: Vec<u64> = fields
                .into_iter()
                .flat_map(|(class, name, is_static, offset, address)| {
                    [made.text(class), made.text(name), 0, is_static, offset, address]
                })
                .collect();
            let entries = made.words(&entries);
            made.export("gHotSpotVMStructs", entries);
            for (name, value) in [
                ("TypeNameOffset", 0),
                ("FieldNameOffset", 8),
                ("IsStaticOffset", 24),
                ("OffsetOffset", 32),
                ("AddressOffset", 40),
                ("ArrayStride", 48),
            ] {
                made.export(&format!("gHotSpotVMStructEntry{name}"), value);
            }
            let types = [made.text("Klass"), 8, made.text(class), 24, 0, 0];
            let types = made.words(&types);
            made.export("gHotSpotVMTypes", types);
            for (name, value) in [("TypeNameOffset", 0), ("SizeOffset", 8), ("ArrayStride", 16)] {
                made.export(&format!("gHotSpotVMTypeEntry{name}"), value);
            }
            made
        }

        fn facts(&self) -> Option<Facts> {
            Facts::read(self, &self.variables, BIAS)
        }
    }

    #[test]
    fn flags_and_version() {
        let flags = [("UseG1GC", 1), ("DisableAttachMechanism", 0), ("ReduceSignalUsage", 0)];
        let plain = Facts {
            version: 17,
            release: "17.0.15+6".to_owned(),
            is_attach_disabled: false,
            has_reduced_signals: false,
            dumps_at_exit: false,
        };
        assert_eq!(Made::machine("JVMFlag", 17, &flags).facts(), Some(plain.clone()));
        let flags =
            [("DisableAttachMechanism", 1), ("ReduceSignalUsage", 1), ("DumpPerfMapAtExit", 1)];
        let expect = Facts {
            is_attach_disabled: true,
            has_reduced_signals: true,
            dumps_at_exit: true,
            ..plain.clone()
        };
        assert_eq!(Made::machine("JVMFlag", 17, &flags).facts(), Some(expect));
        // HotSpot 25 of JDK 8.
        let expect = Facts { version: 0, ..plain };
        assert_eq!(Made::machine("Flag", 25, &flags).facts(), Some(expect));
    }

    #[test]
    fn what_cannot_be_read_is_not_guessed() {
        assert_eq!(Made::machine("JVMFlag", 17, &[("UseG1GC", 1)]).facts(), None);
        assert_eq!(Made::machine("Option", 17, &[("DisableAttachMechanism", 0)]).facts(), None);
        let flags = [("DisableAttachMechanism", 0), ("ReduceSignalUsage", 0)];
        let whole = Made::machine("JVMFlag", 17, &flags);
        assert_eq!(Facts::read(&whole, &HashMap::new(), BIAS), None);
        assert_eq!(Facts::read(&whole, &whole.variables, 0), None);
        // Damaged in any one word.
        for at in (0..whole.bytes.len()).step_by(8) {
            let mut bytes = whole.bytes.clone();
            let end = bytes.len().min(at + 8);
            bytes[at..end].fill(0xff);
            let damaged = Made { bytes, variables: whole.variables.clone() };
            let _ = damaged.facts();
        }
    }
}
