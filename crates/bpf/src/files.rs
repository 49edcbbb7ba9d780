//! The files that processes map, as the programs meet them.
//!
//! The programs look up mappings themselves, in the kernel's own lists. Of a mapped file they find out
//! its device, inode, size and last change, by which they find its number and its table here.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use hashbrown::HashMap;
use libbpf_rs::{MapCore, MapFlags, MapHandle, ProgramInput, ProgramMut};
use pyrograph_event::interpreter::Interpreter;
use pyrograph_unwind::UnwindInfo;

use crate::error::Error;
use crate::layout::{
    self, FileKey, MAX_MODULES, MODULE_ANONYMOUS, MODULE_UNKNOWN, MappedFile, SEGMENTS, Segment,
};

impl FileKey {
    /// The vDSO, which is in no file.
    pub const VDSO: Self = Self { inode: 0, size: 0, changed: 0, changed_ns: 0, device: 0 };

    /// From the fields of `fstat`: major and minor number of the device, inode, size in bytes, and seconds
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
    /// A module, where the code of its file is, and the row of the interpreter in it, and 1.
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

/// A file that the programs have hit and do not know, and where it is mapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The file.
    pub key: FileKey,
    /// A process that has it mapped.
    pub pid: i32,
    /// The addresses of that mapping; none where the process is just starting as this program.
    pub range: Range<u64>,
    /// The number that stands for it until it is known.
    number: u32,
}

impl Question {
    /// From a `struct question`.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let question: layout::Question = bytemuck::try_pod_read_unaligned(bytes).ok()?;
        let layout::Question { key, start, end, tgid, module } = question;
        Some(Self { key, pid: tgid, range: start..end, number: module })
    }
}

/// Owner of a place where code is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A file, by its module's number.
    Module(u32),
    /// Memory that has a file only to be shared.
    Anonymous,
}

/// Facts of a file that the programs need.
#[derive(Clone, Copy, Debug, Default)]
pub struct FileFacts<'a> {
    /// Its unwind information.
    pub unwind: Option<&'a Arc<UnwindInfo>>,
    /// The interpreter in it.
    pub interpreter: Option<&'a Interpreter>,
}

/// The numbers that the programs gave, and the modules that they turned out to be.
pub type Aliases = Rc<RefCell<HashMap<u32, u32>>>;

/// Passes files to the programs.
#[derive(Debug)]
pub struct Files {
    map: MapHandle,
    aliases: Aliases,
    known: HashMap<FileKey, u32>,
    /// Of files that are not known yet: the numbers that the programs gave them.
    open: HashMap<FileKey, Vec<u32>>,
    /// Files for which there was no room.
    pub omitted: u64,
}

impl Files {
    pub fn new(map: MapHandle, aliases: Aliases) -> Self {
        Self { map, aliases, known: HashMap::new(), open: HashMap::new(), omitted: 0 }
    }

    /// The programs find the file from now on.
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
        // The question was about this file.
        for number in self.open.remove(&key).unwrap_or_default() {
            self.aliases.borrow_mut().insert(number, module);
        }
    }

    /// Takes the answer to a question; `None` if there is none: then it is asked for once more when it
    /// is hit in another process.
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
                // It is no error if it is gone.
                let _ = self.map.delete(bytemuck::bytes_of(&question.key));
            }
        }
    }

    /// Returns true if the programs can read the kernel's lists of mappings: they look up this very function.
    pub fn check(look_up: &ProgramMut<'_>) -> Result<(), Error> {
        let address = Self::check as *const () as u64;
        let found = ask(look_up, address)?;
        let maps = std::fs::read_to_string("/proc/self/maps").map_err(Error::map("mappings"))?;
        let range = format!("{:08x}-{:08x} ", found.start, found.end);
        let holds = (found.start..found.end).contains(&address);
        match holds && maps.lines().any(|line| line.starts_with(&range)) {
            true => Ok(()),
            false => Err(Error::Mappings),
        }
    }
}

/// Identity of a mapped file, as the programs have it: where one file system lies over another, as in
/// containers, or has parts with devices of their own, that differs from what `fstat` returns.
pub fn key_of_mapped(look_up: &ProgramMut<'_>, bytes: &[u8]) -> Option<FileKey> {
    let key = ask(look_up, bytes.as_ptr() as u64).ok()?.key;
    (key.inode != 0).then_some(key)
}

/// The mapping at an address of this process.
fn ask(look_up: &ProgramMut<'_>, address: u64) -> Result<layout::Lookup, Error> {
    let mut context = layout::Lookup { address, ..layout::Lookup::default() };
    let input = ProgramInput {
        context_in: Some(bytemuck::bytes_of_mut(&mut context)),
        ..ProgramInput::default()
    };
    look_up.test_run(input).map_err(Error::map("mappings"))?;
    Ok(context)
}
