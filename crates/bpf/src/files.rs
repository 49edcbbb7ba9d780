//! Files that processes map, as the programs identify them.
//!
//! The programs look up mappings themselves, in the kernel's own data structures. For a mapped file, they determine its
//! device, inode, size and last change, and use these as a key for the module number and table that are registered
//! here.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use hashbrown::HashMap;
use libbpf_rs::{MapCore, MapFlags, MapHandle, ProgramInput, ProgramMut};
use pyrograph_event::interpreter::Interpreter;
use pyrograph_event::proc_text;
use pyrograph_unwind::UnwindInfo;

use crate::error::Error;
use crate::layout::{
    self, FileKey, MAX_MODULES, MODULE_ANONYMOUS, MODULE_UNKNOWN, MappedFile, SEGMENTS, Segment,
};

impl FileKey {
    /// Key of the vDSO, which is in no file.
    pub const VDSO: Self = Self { inode: 0, size: 0, changed: 0, changed_ns: 0, device: 0 };

    /// Makes a key from the fields of `fstat`: major and minor number of the device, inode, size in bytes, and seconds
    /// and nanoseconds of the last change of the inode (`st_ctime`).
    pub fn new(device: (u32, u32), inode: u64, size: u64, changed: (i64, i64)) -> Self {
        Self {
            inode,
            size,
            changed: changed.0,
            changed_ns: changed.1 as u32,
            // `MKDEV` of include/linux/kdev_t.h
            device: device.0 << 20 | device.1 & 0xf_ffff,
        }
    }
}

impl MappedFile {
    /// Entry for a module: its number, the segments of its code, and the row of the interpreter in it plus 1.
    pub(crate) fn new(module: u32, info: Option<&UnwindInfo>, interpreter: u16) -> Self {
        let mut file = Self { module, interpreter, ..Self::default() };
        let start = info.and_then(UnwindInfo::table_start).unwrap_or(0);
        let segments = info.into_iter().flat_map(UnwindInfo::segments);
        for (to, (range, svma)) in file.segments.iter_mut().zip(segments.take(SEGMENTS)) {
            let to_table = svma.wrapping_sub(range.start).wrapping_sub(start);
            *to = Segment { start: range.start, end: range.end, to_table };
            file.count += 1;
        }
        file
    }
}

/// An unknown file that the programs have hit, and its mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Key of the file.
    pub key: FileKey,
    /// ID of a process that has mapped it.
    pub pid: i32,
    /// Addresses of that mapping; empty if the process is just starting to execute the file.
    pub range: Range<u64>,
    /// Number that the programs use for it until it is known.
    number: u32,
}

impl Question {
    /// Decodes a `struct question`.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let question: layout::Question = bytemuck::try_pod_read_unaligned(bytes).ok()?;
        let layout::Question { key, start, end, tgid, module } = question;
        Some(Self { key, pid: tgid, range: start..end, number: module })
    }
}

/// Kind of memory that a mapping belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A file, by the number of its module.
    Module(u32),
    /// Anonymous memory, or a file that only serves to share memory.
    Anonymous,
}

/// Data about a file that the programs need.
#[derive(Clone, Copy, Debug, Default)]
pub struct FileFacts<'a> {
    /// Unwind information of the file.
    pub unwind: Option<&'a Arc<UnwindInfo>>,
    /// Interpreter in the file.
    pub interpreter: Option<&'a Interpreter>,
}

/// Modules by the numbers that the programs assigned to them while they were unknown.
pub type Aliases = Rc<RefCell<HashMap<u32, u32>>>;

/// Passes files to the programs.
#[derive(Debug)]
pub struct Files {
    map: MapHandle,
    aliases: Aliases,
    known: HashMap<FileKey, u32>,
    /// Numbers that the programs assigned to files that are still unknown.
    open: HashMap<FileKey, Vec<u32>>,
    /// Number of files for which there was no room.
    pub omitted: u64,
}

impl Files {
    pub fn new(map: MapHandle, aliases: Aliases) -> Self {
        Self { map, aliases, known: HashMap::new(), open: HashMap::new(), omitted: 0 }
    }

    /// Registers a file, so that the programs find it.
    pub fn add(
        &mut self,
        key: FileKey,
        what: What,
        (info, interpreter): (Option<&UnwindInfo>, u16),
    ) {
        let module = match what {
            What::Module(module) if (module as usize) < MAX_MODULES => module,
            What::Module(_) => MODULE_UNKNOWN,
            What::Anonymous => MODULE_ANONYMOUS,
        };
        let file = MappedFile::new(module, info, interpreter);
        let written =
            self.map.update(bytemuck::bytes_of(&key), bytemuck::bytes_of(&file), MapFlags::ANY);
        self.omitted += u64::from(written.is_err());
        self.known.insert(key, module);
        // Questions about this file are answered now.
        for number in self.open.remove(&key).unwrap_or_default() {
            self.aliases.borrow_mut().insert(number, module);
        }
    }

    /// Accepts the answer to a question. `None` if there is none: the programs then ask again when the file is hit in
    /// another process.
    pub fn answer(
        &mut self,
        question: &Question,
        answer: Option<(What, (Option<&UnwindInfo>, u16))>,
    ) {
        if let Some(&module) = self.known.get(&question.key) {
            self.aliases.borrow_mut().insert(question.number, module);
            return;
        }
        self.open.entry(question.key).or_default().push(question.number);
        match answer {
            Some((what, info)) => self.add(question.key, what, info),
            None => {
                // It is not an error if the row is gone.
                let _ = self.map.delete(bytemuck::bytes_of(&question.key));
            }
        }
    }

    /// Checks that the programs can read the kernel's data structures of mappings: they look up this very function.
    pub fn check(look_up: &ProgramMut<'_>) -> Result<(), Error> {
        let address = Self::check as *const () as u64;
        let found = ask(look_up, address)?;
        let maps = proc_text("/proc/self/maps").map_err(Error::map("mappings"))?;
        let range = format!("{:08x}-{:08x} ", found.start, found.end);
        let holds = (found.start..found.end).contains(&address);
        match holds && maps.lines().any(|line| line.starts_with(&range)) {
            true => Ok(()),
            false => Err(Error::Mappings),
        }
    }
}

/// Key of a mapped file as the programs compute it. It differs from the one by `fstat` for overlay file systems, as in
/// containers, and for file systems whose parts have devices of their own.
pub fn key_of_mapped(look_up: &ProgramMut<'_>, bytes: &[u8]) -> Option<FileKey> {
    let key = ask(look_up, bytes.as_ptr() as u64).ok()?.key;
    (key.inode != 0).then_some(key)
}

/// Looks up the mapping at an address of this process.
fn ask(look_up: &ProgramMut<'_>, address: u64) -> Result<layout::Lookup, Error> {
    let mut context = layout::Lookup { address, ..layout::Lookup::default() };
    let input = ProgramInput {
        context_in: Some(bytemuck::bytes_of_mut(&mut context)),
        ..ProgramInput::default()
    };
    look_up.test_run(input).map_err(Error::map("mappings"))?;
    Ok(context)
}
