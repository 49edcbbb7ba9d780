//! Unwind information of one ELF file.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use gimli::{BaseAddresses, DebugFrame, EhFrame, EndianSlice, LittleEndian, UnwindSection, Vendor};
use pyrograph_elf::{Image, Section as Contents, Segment};

use crate::code::{self, Tableless};
use crate::elf::{Layout, Mapped};
use crate::gaps::GuessCache;
use crate::index::{FdeIndex, HeaderTable};
use crate::instructions::Guess;
use crate::ranges::without;
use crate::registers::Arch;
use crate::rule::{self, Compiled, RowSource, Rule, Section};

/// Type of the input that gimli reads from.
pub(crate) type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// Scratch memory in which gimli builds one table row.
pub(crate) type Context = gimli::UnwindContext<usize, Scratch>;

/// Storage of the scratch memory. Its size is fixed, so that no table can make it grow.
pub(crate) struct Scratch;

impl gimli::UnwindContextStorage<usize> for Scratch {
    // x86-64 tables name at most 17 general and 16 vector registers, aarch64 tables 33 and 32.
    type Rules = [(gimli::Register, gimli::RegisterRule<usize>); 72];
    // Compilers nest `DW_CFA_remember_state` one or two deep.
    type Stack = Box<[gimli::UnwindTableRow<usize, Self>; 16]>;
}

/// Error from reading the unwind information of a file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The bytes are not an ELF file, or its headers are damaged.
    #[error("no ELF file: {0}")]
    NotElf(#[from] pyrograph_elf::Error),
    /// The file is an ELF file, but not a little-endian 64-bit one for a supported processor.
    #[error("no ELF file for x86-64 or aarch64")]
    UnsupportedArch,
}

/// Bytes that contain the code.
enum Bytes {
    File(Arc<Image>),
    /// Code that is not in a file, possibly followed by its `.eh_frame`.
    Code(Arc<[u8]>),
}

/// Unwind information of one ELF file. Create it once and share it between all processes that map the file.
///
/// Nothing is read ahead: tables are searched in place, and data that a search needs (an index if the linker wrote
/// none, decompressed bytes) is built at the first search.
pub struct UnwindInfo {
    id: u32,
    layout: Layout,
    bytes: Bytes,
    /// Separate debug file. Only its `.debug_frame` and the addresses of its symbols are used.
    debug: Option<(Arc<Image>, Layout)>,
    /// Addresses of functions that were passed along with the code.
    functions: Vec<u64>,
    header: Option<HeaderTable>,
    eh_index: OnceLock<FdeIndex>,
    debug_frames: [Option<DebugFrameSection>; 2],
    go: Option<pyrograph_go::Layout>,
    pub(crate) guesses: GuessCache,
    instruction_ranges: OnceLock<Vec<Range<u64>>>,
}

impl fmt::Debug for UnwindInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnwindInfo").field("id", &self.id).finish_non_exhaustive()
    }
}

/// A `.debug_frame` section. Its contents and index are loaded at the first search.
struct DebugFrameSection {
    image: Arc<Image>,
    contents: OnceLock<Contents>,
    index: OnceLock<FdeIndex>,
}

impl DebugFrameSection {
    /// Returns the section of a file, if it has one.
    fn find(image: &Arc<Image>, layout: &Layout) -> Option<Self> {
        layout.debug_frame.as_ref()?;
        let (contents, index) = Default::default();
        Some(Self { image: Arc::clone(image), contents, index })
    }

    fn bytes(&self) -> &[u8] {
        let load = || Contents::load(&self.image, ".debug_frame").unwrap_or(Contents::EMPTY);
        self.contents.get_or_init(load).bytes(&self.image)
    }
}

/// Address after the code of the FDE at `offset`.
fn end_of_entry<'a, U: UnwindSection<Slice<'a>>>(
    section: &U,
    bases: &BaseAddresses,
    offset: Option<usize>,
) -> Option<u64> {
    let fde = section.fde_from_offset(bases, offset?.into(), U::cie_from_offset).ok()?;
    Some(fde.end_address())
}

/// Rule for an address that a section has no entry for.
const MISSING: Compiled = Compiled::Rule(Rule::Missing(Tableless::Plain));

impl UnwindInfo {
    /// Reads an ELF file and, if there is one, its separate debug file. Only `.debug_frame` and the symbol tables
    /// of the debug file are used; it is ignored if it cannot be read.
    ///
    /// A file without unwind tables is accepted: its frames are found without them, for example by the frame pointer.
    ///
    /// # Errors
    ///
    /// If the file is not a little-endian ELF file for x86-64 or aarch64.
    pub fn from_elf(image: Arc<Image>, debug: Option<Arc<Image>>) -> Result<Self, Error> {
        let layout = Layout::of(&image)?;
        let debug = debug.and_then(|image| Layout::of(&image).ok().map(|layout| (image, layout)));
        let debug_frames = [
            DebugFrameSection::find(&image, &layout),
            debug.as_ref().and_then(|(image, layout)| DebugFrameSection::find(image, layout)),
        ];
        let header = layout.eh_frame_hdr.as_ref().and_then(|section| {
            HeaderTable::parse(image.bytes(), section, layout.eh_frame.as_ref()?.svma)
        });
        let go = pyrograph_go::Layout::find(image.elf());
        Ok(Self { debug, header, debug_frames, go, ..Self::new(layout, Bytes::File(image)) })
    }

    /// Like [`Self::from_elf`], from the bytes of a file in memory.
    ///
    /// # Errors
    ///
    /// If the bytes are not such a file.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, Error> {
        Self::from_elf(Arc::new(Image::from_bytes(bytes)?), None)
    }

    fn new(layout: Layout, bytes: Bytes) -> Self {
        static NEXT_ID: AtomicU32 = AtomicU32::new(1);
        Self {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            layout,
            bytes,
            functions: Vec::new(),
            guesses: GuessCache::default(),
            instruction_ranges: OnceLock::new(),
            debug: None,
            header: None,
            eh_index: OnceLock::new(),
            debug_frames: [None, None],
            go: None,
        }
    }

    /// Creates unwind information for JIT-compiled code from its instructions. `code` is at `address`, and
    /// `functions` are the functions in it (a perf map has them). If there are none, functions are found as in a
    /// file without symbols.
    ///
    /// Map it with [`AddressSpace::map`](crate::AddressSpace::map); the offset in the "file" is the distance from
    /// `address`. Frames that are found this way are guesses. On processors other than x86-64 there are none.
    pub fn from_code(
        arch: Arch,
        address: u64,
        code: impl Into<Arc<[u8]>>,
        functions: &[Range<u64>],
    ) -> Self {
        let code = code.into();
        let layout = Layout::of_code(arch, address, code.len());
        let functions = functions.iter().map(|function| function.start).collect();
        Self { functions, ..Self::new(layout, Bytes::Code(code)) }
    }

    /// Creates unwind information for JIT-compiled code from its `.eh_frame`, as compilers emit it in jitdump files
    /// (record `JIT_CODE_UNWINDING_INFO`). `code` is at `address`, and `eh_frame` was made for `eh_frame_address`:
    /// in jitdump files, the end of the code rounded up to a multiple of 8. The `.eh_frame_hdr`, which follows it
    /// there, must be left out.
    ///
    /// Map it as described for [`Self::from_code`].
    pub fn from_eh_frame(
        arch: Arch,
        address: u64,
        code: &[u8],
        eh_frame: &[u8],
        eh_frame_address: u64,
    ) -> Self {
        let mut layout = Layout::of_code(arch, address, code.len());
        let range = code.len()..code.len() + eh_frame.len();
        layout.eh_frame = Some(Mapped { range, svma: eh_frame_address });
        let bytes = Bytes::Code([code, eh_frame].concat().into());
        Self { functions: vec![address], ..Self::new(layout, bytes) }
    }

    /// Bytes of the file; of JIT-compiled code, its bytes.
    pub fn bytes(&self) -> &[u8] {
        match &self.bytes {
            Bytes::File(image) => image.bytes(),
            Bytes::Code(code) => code,
        }
    }

    /// Processor that the code is for.
    pub fn arch(&self) -> Arch {
        self.layout.arch
    }

    /// Virtual address of the byte at a file offset; `None` if it is not in a segment of code.
    pub fn svma(&self, file_offset: u64) -> Option<u64> {
        self.svma_of_offset(file_offset, 1)
    }

    /// Virtual address of the first byte of a mapping of `len` bytes at a file offset. The mapping may begin before
    /// its segment of code.
    pub(crate) fn svma_of_offset(&self, file_offset: u64, len: u64) -> Option<u64> {
        let end = file_offset.saturating_add(len);
        let segment = self.layout.code.iter().find(|segment| {
            segment.file_offset < end
                && file_offset < segment.file_offset.saturating_add(segment.file_size)
        })?;
        Some(segment.address.wrapping_add(file_offset.wrapping_sub(segment.file_offset)))
    }

    /// Go's function table, if the file is a Go program.
    pub(crate) fn go(&self) -> Option<&pyrograph_go::Layout> {
        self.go.as_ref()
    }

    /// Virtual addresses of the function that holds an address, from Go's table or the FDEs in `.eh_frame`, so that
    /// no symbol is needed. A function that the compiler split counts as several.
    pub fn function(&self, svma: u64) -> Option<Range<u64>> {
        if let Some(function) = self.go_function(svma) {
            return Some(function);
        }
        let (eh_frame, bases) = (self.eh_frame()?, self.bases());
        let offset = match &self.header {
            Some(header) => header.lookup(self.bytes(), svma),
            None => self.eh_index.get_or_init(|| FdeIndex::new(&eh_frame, &bases)).lookup(svma),
        }?;
        let fde = eh_frame.fde_from_offset(&bases, offset.into(), EhFrame::cie_from_offset).ok()?;
        fde.contains(svma).then(|| fde.initial_address()..fde.end_address())
    }

    /// Virtual address of the program's entry point; `None` for most libraries.
    pub fn entry(&self) -> Option<u64> {
        (self.layout.entry != 0).then_some(self.layout.entry)
    }

    /// Build ID from the file's notes.
    pub(crate) fn build_id(&self) -> Option<&[u8]> {
        match &self.bytes {
            Bytes::File(image) => image.build_id(),
            Bytes::Code(_) => None,
        }
    }

    /// Hashes the locations and addresses of the sections that the table is built from.
    pub(crate) fn hash_shape(&self, to: &mut impl Hasher) {
        self.layout.hash(to);
        self.build_id().hash(to);
        self.bytes().len().hash(to);
        self.debug.as_ref().map(|(_, layout)| (&layout.debug_frame, &layout.symbols)).hash(to);
        self.functions.hash(to);
    }

    /// Bytes that the table is built from.
    pub(crate) fn table_bytes(&self) -> Vec<&[u8]> {
        let eh_frame = self.eh_frame_bytes().unwrap_or_default();
        let tables = [eh_frame, self.debug_frame_bytes(0), self.debug_frame_bytes(1)];
        // If nearly all code has unwind tables, these determine nearly everything about the rest, too.
        const FEW: u64 = 50;
        let ranges = self.instruction_ranges();
        let len: u64 = ranges.iter().map(|range| range.end - range.start).sum();
        let has_tables = tables.iter().map(|table| table.len() as u64).sum::<u64>() > len / FEW;
        let code = ranges.iter().filter(|_| !has_tables).filter_map(|range| {
            self.code(range.start, usize::try_from(range.end - range.start).ok()?)
        });
        let symbols = self.symbol_tables().filter(|_| !has_tables);
        tables.into_iter().chain(symbols).chain(code).collect()
    }

    /// Symbol tables of the file and of its separate debug file.
    pub(crate) fn symbol_tables<'a>(&'a self) -> impl Iterator<Item = &'a [u8]> {
        let own = (self.bytes(), &self.layout);
        let debug = self.debug.iter().map(|(image, layout)| (image.bytes(), layout));
        let tables = |(file, layout): (&'a [u8], &'a Layout)| {
            layout.symbols.iter().filter_map(move |range| file.get(range.clone()))
        };
        [own].into_iter().chain(debug).flat_map(tables)
    }

    /// Addresses of functions that were passed along with the code.
    pub(crate) fn given_starts(&self) -> &[u64] {
        &self.functions
    }

    /// Addresses around `svma` that no table has an entry for.
    pub(crate) fn gap(&self, svma: u64) -> Range<u64> {
        let file = self.bytes();
        let mut gap = 0..u64::MAX;
        let mut cut = |end: Option<u64>, next: Option<u64>| {
            gap.start = gap.start.max(end.unwrap_or(0));
            gap.end = gap.end.min(next.unwrap_or(u64::MAX));
        };
        if let Some(eh_frame) = self.eh_frame() {
            let bases = self.bases();
            let (offset, next) = match &self.header {
                Some(header) => (header.lookup(file, svma), header.next_start(file, svma)),
                None => {
                    let index = self.eh_index.get_or_init(|| FdeIndex::new(&eh_frame, &bases));
                    (index.lookup(svma), index.next_start(svma))
                }
            };
            cut(end_of_entry(&eh_frame, &bases, offset), next);
        }
        for (at, section) in self.debug_frames.iter().enumerate() {
            let Some(section) = section else { continue };
            let (debug_frame, bases) = (self.debug_frame(at), BaseAddresses::default());
            let index = section.index.get_or_init(|| FdeIndex::new(&debug_frame, &bases));
            cut(end_of_entry(&debug_frame, &bases, index.lookup(svma)), index.next_start(svma));
        }
        gap
    }

    /// Number that is unique among all unwind information in the process.
    pub(crate) fn id(&self) -> u32 {
        self.id
    }

    /// Returns `len` bytes of code at a virtual address.
    pub(crate) fn code(&self, svma: u64, len: usize) -> Option<&[u8]> {
        let segment = self
            .layout
            .code
            .iter()
            .find(|of| svma.checked_sub(of.address).is_some_and(|at| at < of.file_size))?;
        let start = segment.file_offset.checked_add(svma - segment.address)?;
        let start = usize::try_from(start).ok()?;
        self.bytes().get(start..start.checked_add(len)?)
    }

    /// Returns the code at a virtual address: 16 bytes, or fewer at the end of the segment.
    pub(crate) fn code_from(&self, svma: u64) -> Option<&[u8]> {
        (1..=16).rev().find_map(|len| self.code(svma, len))
    }

    /// Lowest virtual address of code.
    pub(crate) fn code_start(&self) -> Option<u64> {
        self.layout.code.iter().map(|segment| segment.address).min()
    }

    /// Segments of code: file offsets, and the virtual address of the first byte.
    pub fn segments(&self) -> impl Iterator<Item = (Range<u64>, u64)> + '_ {
        self.layout.code.iter().map(|segment| {
            let start = segment.file_offset;
            (start..start.saturating_add(segment.file_size), segment.address)
        })
    }

    /// Virtual addresses of the segments of code, sorted.
    pub(crate) fn code_ranges(&self) -> Vec<Range<u64>> {
        let range = |of: &Segment| of.address..of.address.saturating_add(of.file_size);
        let mut ranges: Vec<_> = self.layout.code.iter().map(range).collect();
        ranges.sort_unstable_by_key(|range| range.start);
        ranges
    }

    /// Virtual addresses of code whose instructions can be analysed, sorted: the executable sections, or the
    /// segments of code if the file has no such sections.
    pub(crate) fn instruction_ranges(&self) -> &[Range<u64>] {
        self.instruction_ranges.get_or_init(|| self.find_instruction_ranges())
    }

    fn find_instruction_ranges(&self) -> Vec<Range<u64>> {
        let segments = self.code_ranges();
        let mut sections = self.layout.code_sections.clone();
        sections.retain(|section| {
            let holds =
                |segment: &Range<u64>| segment.start <= section.start && section.end <= segment.end;
            section.start < section.end && segments.iter().any(holds)
        });
        sections.sort_unstable_by_key(|section| section.start);
        let code = if sections.is_empty() { segments } else { sections };
        match &self.bytes {
            // V8's own compiler generates its builtins. Like code that V8 generates at run time, they have no
            // unwind tables, but frame pointers. An analysis of their instructions does not help: they change the
            // frames of their callers.
            Bytes::File(image) => match pyrograph_elf::v8::code(image) {
                Some(builtins) => without(&code, &builtins),
                None => code,
            },
            Bytes::Code(_) => code,
        }
    }

    /// Size of `.eh_frame` in bytes.
    pub(crate) fn eh_frame_len(&self) -> usize {
        self.layout.eh_frame.as_ref().map_or(0, |section| section.range.len())
    }

    /// Returns true if the file itself (`at` 0) or its separate debug file (1) has a `.debug_frame`.
    pub(crate) fn has_debug_frame(&self, at: usize) -> bool {
        self.debug_frames[at].is_some()
    }

    /// Returns true if an address is in code that pushes at most two words ([`Layout::stubs`]).
    pub(crate) fn in_stubs(&self, svma: u64) -> bool {
        self.layout.stubs.iter().any(|range| range.contains(&svma))
    }

    /// Returns true if an address without a table is in the entry code of the file, `_start`: a few instructions of
    /// assembly, which have no caller and, in some C libraries, no table.
    pub(crate) fn in_entry(&self, svma: u64, context: &mut Context) -> bool {
        const LONGEST: u64 = 64;
        let entry = self.layout.entry;
        let near = entry != 0 && entry <= svma && svma - entry < LONGEST;
        // If the entry code has a table, an address without one is in another function.
        near && self.rule_in_eh_frame(entry, context).is_missing()
    }

    /// Rule for a frame whose code is in a call that returns to a virtual address.
    pub(crate) fn rule_of_call(&self, return_svma: u64, context: &mut Context) -> Compiled {
        // A signal handler returns to the first byte of the trampoline.
        if self.returns_from_signal(return_svma) {
            return self.rule(return_svma, context);
        }
        if self.is_prepared(return_svma, context) {
            return Compiled::Rule(Rule::Prepared);
        }
        self.rule(return_svma.wrapping_sub(1), context)
    }

    /// Returns true if code must be analysed to find the rule for `key`: twice a virtual address, plus 1 if a call
    /// returns there.
    pub(crate) fn is_rule_unread(&self, key: u64, context: &mut Context) -> bool {
        let (at, is_call) = (key >> 1, key & 1 == 1);
        if is_call && self.is_prepared(at, context) {
            return false;
        }
        let is_call = is_call && !self.returns_from_signal(at);
        let svma = at.wrapping_sub(is_call.into());
        !self.has_table(svma, context) && self.is_unread(svma)
    }

    /// Returns true if an unwind table covers the code at a virtual address.
    pub(crate) fn has_table(&self, svma: u64, context: &mut Context) -> bool {
        self.go_rule(svma).is_some()
            || !self.rule_in_eh_frame(svma, context).is_missing()
            || (0..self.debug_frames.len())
                .any(|at| !self.rule_in_debug_frame(at, svma, context).is_missing())
    }

    /// Rule for a frame whose code is at a virtual address.
    pub(crate) fn rule(&self, svma: u64, context: &mut Context) -> Compiled {
        if let Some(rule) = self.go_rule(svma) {
            return Compiled::Rule(rule);
        }
        let eh_frame = self.rule_in_eh_frame(svma, context);
        if !eh_frame.is_missing() {
            return eh_frame;
        }
        for at in 0..self.debug_frames.len() {
            let found = self.rule_in_debug_frame(at, svma, context);
            if !found.is_missing() {
                return found;
            }
        }
        Compiled::Rule(match self.guess(svma) {
            Guess::Root => Rule::Root,
            Guess::SignalReturn => Rule::Missing(Tableless::SignalReturn),
            Guess::Frame(compact) | Guess::Cloned(compact) => Rule::Compact(compact),
            Guess::Nothing => Rule::Missing(code::classify(self, svma, context)),
        })
    }

    fn rule_in_eh_frame(&self, svma: u64, context: &mut Context) -> Compiled {
        let Some(eh_frame) = self.eh_frame() else {
            return MISSING;
        };
        let bases = self.bases();
        let offset = match &self.header {
            Some(header) => header.lookup(self.bytes(), svma),
            None => self.eh_index.get_or_init(|| FdeIndex::new(&eh_frame, &bases)).lookup(svma),
        };
        self.rule_at(Section::EhFrame, &eh_frame, &bases, offset, svma, context)
    }

    pub(crate) fn rule_in_debug_frame(
        &self,
        at: usize,
        svma: u64,
        context: &mut Context,
    ) -> Compiled {
        let Some(section) = &self.debug_frames[at] else {
            return MISSING;
        };
        let debug_frame = self.debug_frame(at);
        let bases = BaseAddresses::default();
        let index = section.index.get_or_init(|| FdeIndex::new(&debug_frame, &bases));
        let offset = index.lookup(svma);
        self.rule_at(Section::DebugFrame(at), &debug_frame, &bases, offset, svma, context)
    }

    /// Rule for `svma` from the FDE at `offset`.
    fn rule_at<'a, U: UnwindSection<Slice<'a>>>(
        &self,
        section: Section,
        unwind_section: &U,
        bases: &BaseAddresses,
        offset: Option<usize>,
        svma: u64,
        context: &mut Context,
    ) -> Compiled {
        let Some(offset) = offset else {
            return MISSING;
        };
        let fde = unwind_section.fde_from_offset(bases, offset.into(), U::cie_from_offset);
        let Ok(fde) = fde else {
            return Compiled::Rule(Rule::Bad);
        };
        if !fde.contains(svma) {
            return MISSING;
        }
        let Ok(row) = fde.unwind_info_for_address(unwind_section, bases, context, svma) else {
            return Compiled::Rule(Rule::Bad);
        };
        let source = RowSource {
            arch: self.layout.arch,
            section,
            unwind_section,
            return_address: fde.cie().return_address_register(),
            signal: fde.is_signal_trampoline(),
        };
        rule::compile(&source, row)
    }

    /// Bytes of an expression in a row of this file.
    pub(crate) fn expression<'a>(
        &'a self,
        section: Section,
        expression: &gimli::UnwindExpression<usize>,
    ) -> Option<gimli::Expression<Slice<'a>>> {
        match section {
            Section::EhFrame => expression.get(&self.eh_frame()?).ok(),
            Section::DebugFrame(at) => expression.get(&self.debug_frame(at)).ok(),
        }
    }

    fn eh_frame_bytes(&self) -> Option<&[u8]> {
        self.bytes().get(self.layout.eh_frame.as_ref()?.range.clone())
    }

    fn debug_frame_bytes(&self, at: usize) -> &[u8] {
        self.debug_frames[at].as_ref().map_or(&[][..], DebugFrameSection::bytes)
    }

    pub(crate) fn eh_frame(&self) -> Option<EhFrame<Slice<'_>>> {
        let mut eh_frame = EhFrame::new(self.eh_frame_bytes()?, LittleEndian);
        eh_frame.set_address_size(8);
        eh_frame.set_vendor(self.vendor());
        Some(eh_frame)
    }

    pub(crate) fn debug_frame(&self, at: usize) -> DebugFrame<Slice<'_>> {
        let mut debug_frame = DebugFrame::new(self.debug_frame_bytes(at), LittleEndian);
        debug_frame.set_address_size(8);
        debug_frame.set_vendor(self.vendor());
        debug_frame
    }

    fn vendor(&self) -> Vendor {
        match self.layout.arch {
            Arch::X86_64 => Vendor::Default,
            Arch::Aarch64 => Vendor::AArch64,
        }
    }

    pub(crate) fn bases(&self) -> BaseAddresses {
        let mut bases = BaseAddresses::default();
        if let Some(section) = &self.layout.eh_frame {
            bases = bases.set_eh_frame(section.svma);
        }
        if let Some(section) = &self.layout.eh_frame_hdr {
            bases = bases.set_eh_frame_hdr(section.svma);
        }
        if let Some(svma) = self.layout.text {
            bases = bases.set_text(svma);
        }
        if let Some(svma) = self.layout.got {
            bases = bases.set_got(svma);
        }
        bases
    }
}
