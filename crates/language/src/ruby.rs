//! Ruby (MRI).
//!
//! Code of its JIT compilers (`--yjit`, `--rjit`) has no unwind tables, so it is not unwound.

use iced_x86::{Decoder, DecoderOptions, Mnemonic, Register};
use pyrograph_event::interpreter::{ChunkPlan, Interpreter, Language, ThreadPlace};

use crate::file::File;
use crate::memory::{Memory, Reader, readable};
use crate::native::{Native, most_jumps};
use crate::runtime::{Name, Runtime, Unknown, version};
use crate::thread::{place_by_code, thread_place};

mod class;
mod layout;

use layout::{Layout, layout};

/// Indexes into `Interpreter::offsets`: `enum ruby_offset` of the in-kernel programs, followed by the version, which is
/// used for names.
mod at {
    pub const STACK: usize = 0;
    pub const STACK_SIZE: usize = 1;
    pub const CURRENT: usize = 2;
    pub const THREAD: usize = 3;
    pub const THREAD_ID: usize = 4;
    pub const INSTRUCTION: usize = 5;
    pub const ISEQ: usize = 6;
    pub const ENVIRONMENT: usize = 7;
    pub const FRAME_SIZE: usize = 8;
    pub const KIND_MASK: usize = 9;
    pub const C_FUNCTION: usize = 10;
    pub const C_BLOCK: usize = 11;
    pub const DUMMY: usize = 12;
    pub const FINISH: usize = 13;
    pub const BODY: usize = 14;
    pub const INSTRUCTIONS: usize = 15;
    pub const LABEL: usize = 16;
    pub const FIRST_LINE: usize = 17;
    pub const CALLED_ID: usize = 18;
    pub const OWNER: usize = 19;
    pub const LOCAL: usize = 20;
    pub const LAST_OPERATOR: usize = 21;
    pub const TYPE_STRING: usize = 22;
    pub const TYPE_ARRAY: usize = 23;
    pub const ARRAY_IS_EMBEDDED: usize = 24;
    pub const ARRAY_EMBEDDED: usize = 25;
    pub const ARRAY_POINTER: usize = 26;
    pub const MAJOR: usize = 27;
    pub const MINOR: usize = 28;
}

/// Flag in the low bits of a function's address: the address is that of the name of a C function.
const NAME: u64 = 1;
const BITS: u64 = 7;

/// Up to 2.7: the variable that leads to the execution context. It is global; the thread's ID is at this offset
/// (`thread_id`).
const GLOBAL_CONTEXT: &str = "ruby_current_execution_context_ptr";
const THREAD_ID_2_7: u32 = 72;

/// Finds the interpreter in a file; `None` if the file does not contain Ruby's loop.
pub(crate) fn find(file: &File<'_>) -> Option<Result<Runtime, Unknown>> {
    let at = file.symbol("ruby_version")?;
    file.symbol("rb_thread_current")?;
    let Some((major, minor, version)) = file.first_bytes(at, 16).and_then(version) else {
        let interpreter = "Ruby".to_owned();
        return Some(Err(Unknown { interpreter, reason: "its version cannot be found" }));
    };
    let name = format!("Ruby {version}");
    let fail = |reason| Some(Err(Unknown { interpreter: name.clone(), reason }));
    let Some(layout) = layout(major, minor) else { return Some(Err(Unknown::layout(name))) };
    let Some(to_address) = file.to_address() else { return fail("its code is in several places") };
    let place = match (major, minor) {
        (2, _) => file.symbol(GLOBAL_CONTEXT).map(ThreadPlace::Global),
        // Later versions export neither this variable nor the loop.
        _ => thread_place(file, "ruby_current_ec")
            .or_else(|| place_by_code(file, "rb_thread_current")),
    };
    let Some(place) = place else { return fail("its variables of threads cannot be found") };
    let Some(code) = most_jumps(file) else { return fail("its loop cannot be found") };
    let (symbols, last_operator) = table_of_symbols(file).unwrap_or((0, 0));
    let mut offsets = offsets(&layout);
    offsets[at::THREAD_ID] = if major == 2 { THREAD_ID_2_7 } else { Interpreter::NO_OFFSET };
    offsets[at::LAST_OPERATOR] = last_operator;
    (offsets[at::MAJOR], offsets[at::MINOR]) = (major, minor);
    let interpreter = Interpreter {
        language: Language::Ruby,
        to_address,
        symbols: [symbols, 0, 0, 0],
        place,
        offsets,
        plan: plan(&layout),
        tag: 0,
    };
    let native = Native::of_loop(file, &code, is_glue);
    Some(Ok(Runtime::new(version, "table", interpreter, native)))
}

/// Returns true for functions that call methods and blocks, and that start a program.
fn is_glue(name: &str) -> bool {
    const PREFIXES: [&str; 11] = [
        "rb_yield",
        "rb_vm_",
        "vm_",
        "rb_funcall",
        "rb_call",
        "rb_block_call",
        "rb_iterate",
        "rb_ensure",
        "rb_rescue",
        "rb_protect",
        "rb_catch",
    ];
    PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || [
            "main",
            "ruby_run_node",
            "ruby_exec_node",
            "ruby_executable_node",
            "rb_ec_exec_node",
            "rb_check_funcall",
            "rb_lambda_call",
            "rb_obj_call_init",
            "rb_obj_call_init_kw",
            "rb_class_new_instance_pass_kw",
            "rb_method_call",
            "rb_proc_call",
        ]
        .contains(&name)
}

/// Returns the address of the symbol table, and the ID of the last operator symbol, from the code of `rb_id2str` and of
/// the function that it calls.
fn table_of_symbols(file: &File<'_>) -> Option<(u64, u32)> {
    /// Maximum number of bytes of code to decode.
    const MOST: usize = 128;
    let start = file.symbol("rb_id2str")?;
    let mut code = SymbolCode::default();
    let mut table = code.table(start, file.first_bytes(start, MOST)?, true);
    if table.is_none() {
        let next = code.next.filter(|at| *at != 0)?;
        table = code.table(next, file.first_bytes(next, MOST)?, false);
    }
    Some((table?, u32::try_from(code.last_operator?).ok()?))
}

/// Addresses in code that looks up a symbol. It compares an ID with the last operator's, and with the last symbol's;
/// the symbol table is 16 bytes after the latter (`rb_symbols_t` of symbol.h, in 4.0 of symbol.c).
#[derive(Debug, Default)]
struct SymbolCode {
    last_operator: Option<u64>,
    /// Addresses of variables that may hold the last symbol's ID: those that are compared, and in 4.0, which loads it
    /// first, those of 32 bits.
    last_symbols: Vec<u64>,
    /// Address of the first function that is called.
    next: Option<u64>,
}

impl SymbolCode {
    /// Returns the address of the table. `to_end`: code behind the end of the function belongs to another one.
    fn table(&mut self, start: u64, code: &[u8], to_end: bool) -> Option<u64> {
        for instruction in &mut Decoder::with_ip(64, code, start, DecoderOptions::NONE) {
            let of_file = instruction.memory_base() == Register::RIP;
            let at = instruction.ip_rel_memory_address();
            match instruction.mnemonic() {
                Mnemonic::Cmp if of_file => self.last_symbols.push(at),
                Mnemonic::Mov if of_file && instruction.op0_register().size() == 4 => {
                    self.last_symbols.push(at);
                }
                Mnemonic::Cmp => {
                    let number = instruction.try_immediate(1).ok();
                    let number = number.filter(|number| (128..256).contains(number));
                    self.last_operator = self.last_operator.or(number);
                }
                Mnemonic::Mov if of_file && self.last_symbols.contains(&at.wrapping_sub(16)) => {
                    return Some(at);
                }
                Mnemonic::Call => self.next = self.next.or(Some(instruction.near_branch_target())),
                Mnemonic::Jmp => {
                    self.next = self.next.or(Some(instruction.near_branch_target()));
                    if to_end {
                        return None;
                    }
                }
                Mnemonic::Ret if to_end => return None,
                _ => {}
            }
        }
        None
    }
}

fn offsets(layout: &Layout) -> [u32; Interpreter::OFFSETS] {
    Interpreter::offsets([
        (at::STACK, layout.context_stack),
        (at::STACK_SIZE, layout.context_stack_size),
        (at::CURRENT, layout.context_frame),
        (at::THREAD, layout.context_thread),
        (at::INSTRUCTION, layout.frame_instruction),
        (at::ISEQ, layout.frame_iseq),
        (at::ENVIRONMENT, layout.frame_environment),
        (at::FRAME_SIZE, layout.frame_size),
        (at::KIND_MASK, layout.frame_kind_mask),
        (at::C_FUNCTION, layout.frame_c_function),
        (at::C_BLOCK, layout.frame_c_block),
        (at::DUMMY, layout.frame_dummy),
        (at::FINISH, layout.frame_finish),
        (at::BODY, layout.iseq_body),
        (at::INSTRUCTIONS, layout.body_instructions),
        (at::LABEL, layout.body_label),
        (at::FIRST_LINE, layout.body_first_line),
        (at::CALLED_ID, layout.method_called_id),
        (at::OWNER, layout.method_owner),
        (at::LOCAL, layout.environment_local),
        (at::TYPE_STRING, layout.type_string),
        (at::TYPE_ARRAY, layout.type_array),
        (at::ARRAY_IS_EMBEDDED, layout.array_embedded_flag),
        (at::ARRAY_EMBEDDED, layout.array_embedded),
        (at::ARRAY_POINTER, layout.array_pointer),
    ])
}

/// Pieces of memory that name an instruction sequence: its label and path, and the class.
fn plan(layout: &Layout) -> Vec<ChunkPlan> {
    let chunk = ChunkPlan::new;
    let text = |from| chunk(from, layout.string_pointer, 160);
    let mut plan = vec![
        chunk(0, 0, 160),
        chunk(0, layout.iseq_body, 160),
        chunk(1, layout.body_label, 160),
        text(2),
        // The path is a string, or an array of strings.
        chunk(1, layout.body_path, 160),
        text(4),
        chunk(4, layout.array_embedded, 160),
        text(6),
        // Name of a C function.
        text(0),
    ];
    plan.extend(class::plan(layout, plan.len() as u16));
    plan
}

/// Reads Ruby's objects from memory.
#[derive(Clone, Copy)]
struct Heap<'a> {
    reader: Reader<'a>,
    layout: &'a Layout,
}

/// Type of the VM's internal objects (`T_IMEMO`), the position in their flags of the subtype (`FL_USHIFT`) and its mask
/// (`IMEMO_MASK`), and the subtype of an instruction sequence (`imemo_iseq`).
const TYPE_OF_VM: u64 = 0x1a;
const WHICH_SHIFT: u32 = 12;
const WHICH_MASK: u64 = 15;
const SEQUENCE: u64 = 7;

impl Heap<'_> {
    /// Reads a pointer to an object.
    fn object(self, address: u64) -> Option<u64> {
        self.reader.pointer(address).filter(|object| object & 7 == 0)
    }

    fn flags(self, object: u64) -> Option<u64> {
        self.reader.u64(object.wrapping_add(self.layout.object_flags.into()))
    }

    /// Returns the address of the body of an instruction sequence.
    fn body(self, iseq: u64) -> Option<u64> {
        let flags = self.flags(iseq)?;
        let is_iseq = flags & u64::from(self.layout.object_type_mask) == TYPE_OF_VM
            && flags >> WHICH_SHIFT & WHICH_MASK == SEQUENCE;
        let body = || self.object(iseq.wrapping_add(self.layout.iseq_body.into()));
        if is_iseq { body() } else { None }
    }

    fn label(self, body: u64) -> Option<String> {
        self.string(self.object(body.wrapping_add(self.layout.body_label.into()))?)
    }

    fn string(self, object: u64) -> Option<String> {
        let layout = self.layout;
        let field = |offset: u32| object.wrapping_add(offset.into());
        let flags = self.flags(object)?;
        if flags & u64::from(layout.object_type_mask) != layout.type_string.into() {
            return None;
        }
        let is_heap = flags & u64::from(layout.string_heap) != 0;
        let len = match layout.string_embedded_shift {
            Some(shift) if !is_heap => flags >> shift & 31,
            _ => self.reader.u64(field(layout.string_length))?,
        };
        let data = match is_heap {
            true => self.reader.pointer(field(layout.string_pointer))?,
            false => field(layout.string_embedded),
        };
        if len > 1 << 20 {
            return None;
        }
        readable(&String::from_utf8_lossy(&self.reader.text(data, len)?))
    }

    /// Reads the path of a body: a string, or the first element of an array of strings.
    fn path(self, body: u64) -> Option<String> {
        let layout = self.layout;
        let path = self.object(body.wrapping_add(layout.body_path.into()))?;
        let flags = self.flags(path)?;
        if flags & u64::from(layout.object_type_mask) != layout.type_array.into() {
            return self.string(path);
        }
        let elements = match flags & u64::from(layout.array_embedded_flag) {
            0 => self.reader.pointer(path.wrapping_add(layout.array_pointer.into()))?,
            _ => path.wrapping_add(layout.array_embedded.into()),
        };
        self.string(self.object(elements)?)
    }
}

/// Returns the name of an instruction sequence or of a C function; `owner` is its class.
pub(crate) fn name(
    it: &Interpreter,
    memory: &dyn Memory,
    function: u64,
    owner: u64,
) -> Option<Name> {
    let layout = &layout(it.offsets[at::MAJOR], it.offsets[at::MINOR])?;
    let heap = Heap { reader: Reader(memory), layout };
    let with_class = |label: String| match heap.class(owner) {
        Some(class) => readable(&class.label(&label)),
        None => Some(label),
    };
    if function & NAME != 0 {
        let function = with_class(heap.string(function & !BITS)?)?;
        return Some(Name { function, file: None, start_line: 0 });
    }
    let body = heap.body(function & !BITS)?;
    let function = with_class(heap.label(body)?)?;
    let first = body.wrapping_add(layout.body_first_line.into());
    let line = match has_number_objects(it) {
        // A tagged integer (fixnum).
        true => heap.reader.u64(first).filter(|line| line & 1 == 1).map(|line| (line >> 1) as u32),
        false => heap.reader.u32(first),
    };
    let start_line = line.filter(|line| *line < 1 << 30).unwrap_or(0);
    Some(Name { function, file: heap.path(body), start_line })
}

/// Returns true if the first line is an object, as in versions up to 3.1.
fn has_number_objects(it: &Interpreter) -> bool {
    (it.offsets[at::MAJOR], it.offsets[at::MINOR]) < (3, 2)
}

/// Line table of an instruction sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lines {
    /// A `succ_index_table`: a succinct index that gives the number of entries of `lines` up to an instruction.
    positions: Vec<u64>,
    lines: Vec<u32>,
}

/// Layout of a `succ_index_table`: seven bits for each of the first instructions, nine in a word; then blocks of 512
/// instructions, ten words each.
const DIRECT: u32 = 54;
const DIRECT_WORDS: usize = 6;
const BLOCK: u32 = 512;
const BLOCK_WORDS: usize = 10;

/// Reads the lines of an instruction sequence.
pub(crate) fn lines(it: &Interpreter, memory: &dyn Memory, function: u64) -> Option<Lines> {
    /// Upper limit, above the number of instructions of any method.
    const MOST: u32 = 1 << 16;
    let layout = &layout(it.offsets[at::MAJOR], it.offsets[at::MINOR])?;
    let heap = Heap { reader: Reader(memory), layout };
    let body = heap.body(function & !BITS)?;
    let field = |offset: u32| body.wrapping_add(offset.into());
    let count = heap.reader.u32(field(layout.body_lines_count))?;
    let size = heap.reader.u32(field(layout.body_size))?;
    if count == 0 || count > MOST || size > MOST {
        return None;
    }
    let mut bytes = vec![0; count as usize * layout.line_size as usize];
    if !memory.read(heap.object(field(layout.body_lines))?, &mut bytes) {
        return None;
    }
    let line = |entry: &[u8]| {
        let number = entry.get(layout.line_number as usize..)?.first_chunk()?;
        Some(u32::from_le_bytes(*number)).filter(|line| *line < 1 << 30)
    };
    let lines = bytes.chunks(layout.line_size as usize);
    let lines = lines.map(|entry| line(entry).unwrap_or(0)).collect();
    // With a single entry there is no index.
    if count == 1 {
        return Some(Lines { positions: Vec::new(), lines });
    }
    let blocks = size.saturating_sub(DIRECT).div_ceil(BLOCK) as usize;
    let mut bytes = vec![0; 8 * (DIRECT_WORDS + BLOCK_WORDS * blocks)];
    if !memory.read(heap.object(field(layout.body_lines_positions))?, &mut bytes) {
        return None;
    }
    let (words, _) = bytes.as_chunks::<8>();
    let positions = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
    Some(Lines { positions, lines })
}

impl Lines {
    /// Returns the line of an instruction, given the position behind it, in words; 0 if it is not known.
    pub fn line(&self, behind: u32) -> u32 {
        let index = match self.positions.is_empty() {
            true => Some(1),
            false => behind.checked_sub(1).and_then(|position| self.begun(position)),
        };
        let index = index.and_then(|index| usize::try_from(index.checked_sub(1)?).ok());
        index.and_then(|index| self.lines.get(index)).copied().unwrap_or(0)
    }

    /// Returns the number of entries up to an instruction. A block has the number before it, then the numbers before
    /// its bitmap words except the first (nine bits each), then a bit for each instruction at which an entry begins.
    fn begun(&self, position: u32) -> Option<u64> {
        let Some(rest) = position.checked_sub(DIRECT) else {
            let word = self.positions.get((position / 9) as usize)?;
            return Some(word >> (position % 9 * 7) & 0x7f);
        };
        let start = DIRECT_WORDS + BLOCK_WORDS * (rest / BLOCK) as usize;
        let block = self.positions.get(start..start.checked_add(BLOCK_WORDS)?)?;
        let (word, bit) = (rest % BLOCK / 64, rest % 64);
        let before = match word {
            0 => 0,
            word => block[1] >> ((word - 1) * 9) & 0x1ff,
        };
        let here = (block[2 + word as usize] << (63 - bit)).count_ones();
        Some((block[0] & 0xffff_ffff) + before + u64::from(here))
    }
}

#[cfg(test)]
mod tests;
