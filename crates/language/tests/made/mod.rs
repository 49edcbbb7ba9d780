//! Interpreters that are put together: for each language a file that [`pyrograph_language::find`] takes for an interpreter,
//! and the memory of a process that runs it, with a few calls. And what damages such memory, by any bytes.

use std::cell::Cell;
use std::ops::Range;

use pyrograph_elf::Image;
use pyrograph_event::interpreter::Language;
use pyrograph_language::{Found, Memory, Runtime, find};

mod elf;
mod java;
mod luajit;
mod node;
mod perl;
mod php;
mod python;
mod ruby;

use elf::{CODE, CODE_LEN, Elf};

/// Where the memory begins; the file's data is linked for this address, and mapped there.
pub const START: u64 = 0x1_0000;

/// What `fs` points to.
pub const FS: u64 = START + 8;

/// An interpreter's file, and a process.
#[derive(Clone, Debug)]
pub struct Made {
    /// The file.
    pub file: Vec<u8>,
    /// Memory of the process, from [`START`] on.
    pub memory: Vec<u8>,
    /// Its native frames, the innermost first.
    pub frames: Vec<Frame>,
    /// Functions with what they belong to, the innermost first, and their names; the lines are those of the calls.
    pub functions: Vec<Function>,
    /// Offsets of places, and lines.
    pub lines: Vec<(u32, u32)>,
}

/// A function.
#[derive(Clone, Copy, Debug)]
pub struct Function {
    /// Its address.
    pub address: u64,
    /// Its class, in Ruby.
    pub owner: u64,
    /// Its name.
    pub name: &'static str,
}

/// A native frame.
#[derive(Clone, Copy, Debug, Default)]
pub struct Frame {
    /// Its stack pointer.
    pub sp: u64,
    /// Its frame pointer.
    pub fp: u64,
    /// Where it is in the file, or an address in memory without one.
    pub at: u64,
    /// It is in code that was made at run time.
    pub is_made: bool,
    /// The piece of Java's code that it is in, and its kind.
    pub blob: u64,
}

impl Made {
    /// Of a language.
    pub fn new(language: Language) -> Self {
        match language {
            Language::Python => python::made(),
            Language::Perl => perl::made(),
            Language::Php => php::made(),
            Language::Ruby => ruby::made(),
            Language::JavaScript => node::made(),
            Language::Lua => luajit::made(),
            Language::Java => java::made(),
        }
    }

    /// Of all languages, and of versions that have another way to what is theirs; with names.
    pub fn all() -> Vec<(&'static str, Self)> {
        let mut all: Vec<_> = Language::ALL
            .into_iter()
            .map(|language| (language.name(), Self::new(language)))
            .collect();
        all.push(("python-3.13", python::made_3_13()));
        all.push(("ruby-3.3", ruby::made_3_3()));
        all
    }

    /// The interpreter in the file.
    pub fn runtime(&self) -> Box<Runtime> {
        let image = Image::from_bytes(self.file.clone()).expect("an ELF file");
        match find(&image, &code) {
            Some(Found::Known(runtime)) => runtime,
            other => panic!("no interpreter is found: {other:?}"),
        }
    }
}

/// All code of these files is one function.
pub fn code(address: u64) -> Option<Range<u64>> {
    let all = CODE..CODE + CODE_LEN;
    all.contains(&address).then_some(all)
}

/// Memory that is put together.
#[derive(Clone, Debug, Default)]
struct Space(Vec<u8>);

impl Space {
    /// Reserves bytes, and returns their address.
    fn add(&mut self, len: usize) -> u64 {
        let at = self.0.len().next_multiple_of(16);
        self.0.resize(at + len, 0);
        START + at as u64
    }

    /// So many bytes with these words, by offset.
    fn words(&mut self, len: usize, words: &[(u64, u64)]) -> u64 {
        let at = self.add(len);
        for (offset, word) in words {
            self.put(at + offset, *word);
        }
        at
    }

    fn word(&self, address: u64) -> u64 {
        let at = (address - START) as usize;
        self.0[at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
    }

    fn put(&mut self, address: u64, word: u64) {
        self.put_bytes(address, &word.to_le_bytes());
    }

    fn put_half(&mut self, address: u64, half: u32) {
        self.put_bytes(address, &half.to_le_bytes());
    }

    fn put_bytes(&mut self, address: u64, bytes: &[u8]) {
        let at = (address - START) as usize;
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
    }
}

/// Memory of a damaged process: as many bytes as there are from [`START`] on, or these again and again.
#[derive(Debug)]
pub struct Damaged {
    bytes: Vec<u8>,
    /// Every address can be read.
    is_endless: bool,
    /// Reads, and their bytes.
    reads: Cell<(u64, u64)>,
}

impl Damaged {
    /// Damages memory by any bytes; none leave it as it is.
    pub fn new(memory: &[u8], by: &[u8]) -> Self {
        let mut bytes = memory.to_vec();
        let (how, patches) = by.split_first().unwrap_or((&0, &[]));
        // Kind, place (16 bits), value.
        let (patches, _) = patches.as_chunks::<11>();
        for [kind, low, high, value @ ..] in patches {
            damage(
                &mut bytes,
                *kind,
                u16::from_le_bytes([*low, *high]),
                u64::from_le_bytes(*value),
            );
        }
        let is_endless = how & 7 == 7 && !bytes.is_empty();
        Self { bytes, is_endless, reads: Cell::default() }
    }

    /// The memory, from [`START`] on.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// How often it was read, and how many bytes, since this was asked last.
    pub fn take_reads(&self) -> (u64, u64) {
        self.reads.take()
    }
}

fn damage(bytes: &mut Vec<u8>, kind: u8, place: u16, value: u64) {
    if bytes.is_empty() {
        return;
    }
    let len = bytes.len();
    let at = 4 * usize::from(place) % len;
    let word = match kind & 7 {
        // Something that is there, or near it.
        0 => START + 8 * (value % (len as u64 / 8 + 2)) + (value >> 60),
        1 => value & 0xff,
        2 => value & 0xffff_ffff,
        3 => u64::MAX - (value & 0x1ff),
        4 => value & !7,
        5 => value,
        6 => {
            bytes[at] = value as u8;
            return;
        }
        _ => {
            if value & 0xf == 0xf {
                bytes.truncate(at);
            } else {
                let from = (value >> 8) as usize % len;
                let count = (len - at.max(from)).min(64);
                bytes.copy_within(from..from + count, at);
            }
            return;
        }
    };
    // Fields of all sizes.
    let size = if kind & 8 == 0 { 8 } else { 1 << (kind >> 4 & 3) };
    for (to, byte) in bytes[at..].iter_mut().zip(&word.to_le_bytes()[..size]) {
        *to = *byte;
    }
}

impl Memory for Damaged {
    fn read(&self, address: u64, into: &mut [u8]) -> bool {
        let (reads, bytes) = self.reads.get();
        self.reads.set((reads + 1, bytes + into.len() as u64));
        let at = address.wrapping_sub(START);
        if self.is_endless {
            let mut at = (at % self.bytes.len() as u64) as usize;
            let mut into = into;
            while !into.is_empty() {
                let len = into.len().min(self.bytes.len() - at);
                into[..len].copy_from_slice(&self.bytes[at..at + len]);
                into = &mut into[len..];
                at = 0;
            }
            return true;
        }
        let found =
            usize::try_from(at).ok().and_then(|at| self.bytes.get(at..at.checked_add(into.len())?));
        found.is_some_and(|found| {
            into.copy_from_slice(found);
            true
        })
    }
}
