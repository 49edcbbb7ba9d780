//! Conversion of symbol names to the profile's frames.

use std::borrow::Cow;
use std::ops::Range;

use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use pyrograph_profile::{
    Address, AddressId, Frame, FrameId, FrameKind, Marker, Profile, StringId, Strings,
};
use pyrograph_symbol::inlined_names;
use pyrograph_unwind::UnwindInfo;

use crate::language_frames::FunctionLabel;
use crate::module_ids::ModuleId;
use crate::modules::{Held, Module, ModuleKind};
use crate::names::{Name, Naming};
use crate::stacks::RawFrame;

/// A table of raw frames and their names.
#[derive(Clone, Copy)]
pub struct Names<'a> {
    /// The frames.
    pub frames: &'a [RawFrame],
    /// For each frame, the index of its name in `all`, or [`NAMELESS`](crate::names::NAMELESS).
    pub names: &'a [u32],
    /// The names. Each belongs to frames in one module.
    pub all: &'a [Name],
}

/// The profile's frames for the raw frames of one table: one each, or several if calls were inlined. They are made at
/// the first use.
pub struct FrameRows<'a> {
    names: Names<'a>,
    labels: &'a Strings,
    held: &'a Held,
    options: &'a Naming,
    modules: HashMap<ModuleId, ModuleRow>,
    /// Rows by frame and by name; [`Rows::NONE`] if they were not made yet.
    by_frame: Vec<Rows>,
    by_name: Vec<Rows>,
    /// Lists of more than one row: the number of rows, followed by these.
    several: Vec<FrameId>,
    /// Build ID of the kernel in hexadecimal digits; empty if it is unknown.
    kernel_build_id: Option<String>,
}

/// The profile's frames for a raw frame. Mostly it is a single one, and this is its ID. Otherwise it is the start of a
/// list in [`FrameRows::several`], with the highest bit set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rows(FrameId);

impl Rows {
    const SEVERAL: u32 = 1 << 31;
    const NONE: Self = Self(FrameId(u32::MAX));
}

/// Properties that a module's frames have in common.
#[derive(Clone, Debug)]
struct ModuleRow {
    bare: Frame,
    /// Row of the bare frame, once it was needed.
    bare_row: Rows,
    /// Addresses of the program's entry function; empty if the module is not a program or they are unknown.
    entry: Range<u64>,
}

impl<'a> FrameRows<'a> {
    /// Creates an empty table. `labels`: texts of labels.
    pub fn new(names: Names<'a>, labels: &'a Strings, held: &'a Held, options: &'a Naming) -> Self {
        Self {
            labels,
            held,
            options,
            modules: HashMap::new(),
            by_frame: vec![Rows::NONE; names.frames.len()],
            by_name: vec![Rows::NONE; names.all.len()],
            several: Vec::new(),
            kernel_build_id: None,
            names,
        }
    }

    /// The profile's frames for a raw frame, root first.
    #[inline]
    pub fn of(&mut self, frame: FrameId, profile: &mut Profile) -> &[FrameId] {
        if self.by_frame[frame.index()] == Rows::NONE {
            self.by_frame[frame.index()] = self.make(frame, profile);
        }
        self.slice(&self.by_frame[frame.index()])
    }

    /// Address of a frame, if it is code whose instructions can be found again.
    pub fn address(&mut self, frame: FrameId, profile: &mut Profile) -> Option<AddressId> {
        let raw = self.names.frames[frame.index()];
        let module = self.held.get(&raw.module).filter(|_| raw.is_code())?;
        let (path, build_id) = match &module.kind {
            ModuleKind::Elf { symbols, .. } => {
                let build_id = symbols.as_ref().and_then(|of| of.build_id());
                (&module.path, build_id.map(ToString::to_string).unwrap_or_default())
            }
            ModuleKind::Kernel => (&module.path, self.kernel_build_id().to_owned()),
            ModuleKind::Jit { dump: Some(dump), .. } => (&dump.path, String::new()),
            _ => return None,
        };
        let (module, build_id) = (profile.strings.intern(path), profile.strings.intern(&build_id));
        let outermost = self.of(frame, profile).first().copied();
        let function = outermost.map_or(StringId::EMPTY, |row| profile.frames.get(row).function);
        let address = Address { module, build_id, function, offset: raw.address };
        Some(profile.addresses.intern(address))
    }

    /// Build ID of the kernel as text; empty if it is unknown.
    fn kernel_build_id(&mut self) -> &str {
        self.kernel_build_id.get_or_insert_with(|| {
            self.options.kernel_build_id.as_ref().map(ToString::to_string).unwrap_or_default()
        })
    }

    #[cold]
    fn make(&mut self, frame: FrameId, profile: &mut Profile) -> Rows {
        let raw = self.names.frames[frame.index()];
        let name = self.names.names[frame.index()] as usize;
        let rows = match self.by_name.get(name).copied() {
            Some(Rows::NONE) => {
                let bare = self.module(raw.module, profile).bare;
                let rows = self.named(&self.names.all[name], bare, profile);
                self.by_name[name] = rows;
                rows
            }
            Some(rows) => rows,
            None => self.nameless(raw, profile),
        };
        if raw.is_guessed() { self.guessed(rows, profile) } else { rows }
    }

    /// Copies of the rows, marked as guessed.
    fn guessed(&mut self, rows: Rows, profile: &mut Profile) -> Rows {
        let rows = self.slice(&rows).iter().map(|&row| {
            let frame = Frame { guessed: true, ..profile.frames.get(row) };
            profile.frames.intern(frame)
        });
        let rows: Vec<FrameId> = rows.collect();
        self.rows(&rows)
    }

    /// The frames in a row entry.
    #[inline]
    fn slice<'r>(&'r self, rows: &'r Rows) -> &'r [FrameId] {
        let Rows(row) = rows;
        if row.0 < Rows::SEVERAL {
            return std::slice::from_ref(row);
        }
        let start = (row.0 ^ Rows::SEVERAL) as usize;
        let count = self.several[start].index();
        &self.several[start + 1..][..count]
    }

    /// # Panics
    ///
    /// If there are 2^31 rows.
    fn rows(&mut self, rows: &[FrameId]) -> Rows {
        match *rows {
            [row] if row.0 < Rows::SEVERAL => Rows(row),
            _ => {
                let start = FrameId::from_index(self.several.len());
                assert!(start.0 < Rows::SEVERAL - 1, "more than 2^31 inlined calls");
                self.several.push(FrameId::from_index(rows.len()));
                self.several.extend(rows);
                Rows(FrameId(start.0 | Rows::SEVERAL))
            }
        }
    }

    fn module(&mut self, id: ModuleId, profile: &mut Profile) -> &mut ModuleRow {
        match self.modules.entry(id) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let forgotten;
                let module = match self.held.get(&id) {
                    Some(module) => &**module,
                    None => {
                        forgotten = Module::forgotten(id);
                        &forgotten
                    }
                };
                let path = profile.strings.intern(&module.path);
                let kind = match module.kind {
                    ModuleKind::Kernel
                    | ModuleKind::KernelCode { .. }
                    | ModuleKind::OtherKernel => FrameKind::Kernel,
                    ModuleKind::Jit { .. } => FrameKind::Jit,
                    ModuleKind::Elf { .. } | ModuleKind::Unknown => FrameKind::User,
                };
                let bare = Frame { module: path, kind, ..Frame::default() };
                let entry =
                    unwind_of(module).and_then(UnwindInfo::entry_function).unwrap_or_default();
                new.insert(ModuleRow { bare, bare_row: Rows::NONE, entry })
            }
        }
    }

    fn function(&self, name: &str, profile: &mut Profile) -> StringId {
        let name = self.options.rename.map_or(Cow::Borrowed(name), |rename| rename(name));
        profile.strings.intern(&name)
    }

    /// Name of a frame's function, with its parameters if they are known.
    fn function_of(&self, frame: &pyrograph_symbol::Frame, profile: &mut Profile) -> StringId {
        let Some(full) = &frame.full else { return self.function(&frame.function, profile) };
        match self.options.rename.map(|rename| rename(&frame.function)) {
            // Text that renaming removes from a name is removed from the full name, too.
            Some(plain) => {
                let full = full.replace(&*frame.function, &plain);
                profile.function_named(&plain, &full)
            }
            None => profile.function_named(&frame.function, full),
        }
    }

    fn named(&mut self, name: &Name, bare: Frame, profile: &mut Profile) -> Rows {
        let file = |file: Option<&str>, profile: &mut Profile| {
            file.map_or(StringId::EMPTY, |file| profile.strings.intern(file))
        };
        match name {
            Name::Elf(frames) => {
                let outermost = frames.len() - 1;
                // The symbolizer returns the innermost frame first.
                let rows = frames.iter().enumerate().rev().map(|(index, frame)| {
                    let file = file(frame.file.as_deref(), profile);
                    let function = self.function_of(frame, profile);
                    let kind = if index == outermost { bare.kind } else { FrameKind::Inlined };
                    let (line, start_line) = (frame.line, frame.start_line);
                    profile.frames.intern(Frame { function, file, line, start_line, kind, ..bare })
                });
                let rows: Vec<_> = rows.collect();
                self.rows(&rows)
            }
            Name::Kernel(function, module) => {
                let function = self.function(function, profile);
                let module = module.as_deref();
                let module = module.map_or(bare.module, |name| profile.strings.intern(name));
                self.rows(&[profile.frames.intern(Frame { function, module, ..bare })])
            }
            Name::Jit(name) => {
                let file = file(name.file.as_deref(), profile);
                let rows = inlined_names(&name.function).enumerate().map(|(depth, function)| {
                    let kind = if depth == 0 { bare.kind } else { FrameKind::Inlined };
                    let function = self.function(function, profile);
                    profile.frames.intern(Frame { function, file, line: name.line, kind, ..bare })
                });
                let rows: Vec<_> = rows.collect();
                self.rows(&rows)
            }
        }
    }

    fn of_language(
        &mut self,
        label: FunctionLabel<'_>,
        kind: FrameKind,
        profile: &mut Profile,
    ) -> Rows {
        let FunctionLabel { function, file, start_line, line } = label;
        let file = profile.strings.intern(file);
        let function = self.function(function, profile);
        // The script takes the place of the module that holds the code.
        let module = file;
        let frame = Frame { function, module, file, line, start_line, kind, ..Frame::default() };
        self.rows(&[profile.frames.intern(frame)])
    }

    fn nameless(&mut self, raw: RawFrame, profile: &mut Profile) -> Rows {
        if let Some(marker) = raw.as_marker() {
            let function = self.function(marker.label(), profile);
            return self
                .rows(&[profile.frames.intern(Frame::named(function, FrameKind::Marker(marker)))]);
        }
        if let Some((text, kind)) = raw.as_label() {
            let text = self.labels.get(text);
            if !matches!(kind, FrameKind::User | FrameKind::Kernel) {
                return self.of_language(FunctionLabel::parse(text), kind, profile);
            }
            let kind = Marker::of_label(text).map_or(kind, FrameKind::Marker);
            let text = self.function(text, profile);
            return self.rows(&[profile.frames.intern(Frame::named(text, kind))]);
        }
        let addresses = self.options.unknown_addresses;
        let unwind = self.held.get(&raw.module).and_then(|module| unwind_of(module));
        let module = self.module(raw.module, profile);
        let address = unwind.and_then(|unwind| unwind.svma(raw.address));
        let is_entry = address.is_some_and(|address| module.entry.contains(&address));
        let (bare, bare_row) = (module.bare, module.bare_row);
        let frame = match is_entry {
            // By convention: the linker uses this name for the program's entry.
            true => Frame { function: self.function("_start", profile), ..bare },
            false if addresses => {
                let start = unwind.and_then(|unwind| function_start(unwind, raw.address));
                Frame { address: start.unwrap_or(raw.address), ..bare }
            }
            false if bare_row != Rows::NONE => return bare_row,
            false => bare,
        };
        let rows = self.rows(&[profile.frames.intern(frame)]);
        if frame == bare {
            self.module(raw.module, profile).bare_row = rows;
        }
        rows
    }
}

fn unwind_of(module: &Module) -> Option<&UnwindInfo> {
    match &module.kind {
        ModuleKind::Elf { unwind, .. } => unwind.as_deref(),
        _ => None,
    }
}

/// File offset of the start of the function that contains `offset`, from the file's unwind table, which stripped files
/// have, too. So all samples in a function get one frame, and not one for each call that it makes.
fn function_start(unwind: &UnwindInfo, offset: u64) -> Option<u64> {
    let address = unwind.svma(offset)?;
    offset.checked_sub(address - unwind.function(address)?.start)
}
