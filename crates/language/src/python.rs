//! CPython.
//!
//! Up to 3.12, offsets come from a table by version. In 3.13 and later they are in the file (`_Py_DebugOffsets`, at the
//! start of `_PyRuntime`; `Include/internal/pycore_debug_offsets.h`).

use memchr::memmem;
use pyrograph_event::interpreter::{ChunkPlan, Interpreter, Language, ThreadPlace};

use crate::file::File;
use crate::memory::{Memory, Reader, readable};
use crate::native::Native;
use crate::runtime::{Name, Runtime, Unknown};

mod layout;
mod lines;

use layout::Layout;

/// Indexes into `Interpreter::offsets`: `enum python_offset` of the in-kernel programs, followed by those used only for
/// names.
pub(crate) mod at {
    pub const INTERPRETERS: usize = 0;
    pub const NEXT_INTERPRETER: usize = 1;
    pub const THREADS: usize = 2;
    pub const NEXT_THREAD: usize = 3;
    pub const THREAD_ID: usize = 4;
    pub const FRAME: usize = 5;
    pub const CFRAME: usize = 6;
    pub const CODE: usize = 7;
    pub const PREVIOUS: usize = 8;
    pub const INSTRUCTION: usize = 9;
    pub const OWNER: usize = 10;
    pub const IS_ENTRY: usize = 11;
    pub const TYPE: usize = 12;
    pub const FIRST_LINE: usize = 13;
    pub const FILENAME: usize = 14;
    pub const NAME: usize = 15;
    pub const BYTECODE: usize = 16;
    pub const NO_FUNCTION: usize = 17;
    pub const LINES: usize = 18;
    pub const STR_LENGTH: usize = 19;
    pub const STR_STATE: usize = 20;
    pub const STR_ASCII: usize = 21;
    pub const STR_OTHER: usize = 22;
    pub const MINOR: usize = 23;
    pub const FRAME_BYTES: usize = 24;
    pub const CODE_BYTES: usize = 25;
    pub const BYTES_SIZE: usize = 26;
    pub const BYTES_DATA: usize = 27;
    /// Bit position of the character width in the state of a string; the ASCII flag is four bits higher.
    pub const STR_KIND: usize = 28;
    pub const FIRST_LOCAL: usize = 29;
    pub const STACK_TOP: usize = 30;
    pub const GENERATOR_FRAME: usize = 31;
}

/// Finds the interpreter in a file; `None` if the file does not contain CPython's loop.
pub(crate) fn find(file: &File<'_>) -> Option<Result<Runtime, Unknown>> {
    let runtime = file.symbol("_PyRuntime")?;
    let Some((major, minor, text)) = version(file, runtime) else {
        let interpreter = "CPython".to_owned();
        return Some(Err(Unknown { interpreter, reason: "its version cannot be found" }));
    };
    let name = format!("CPython {text}");
    let layout = match (major, minor) {
        (3, 13..) => Layout::of_file(file, runtime),
        (3, minor) => Layout::of_version(minor),
        _ => None,
    };
    let Some(layout) = layout else { return Some(Err(Unknown::layout(name))) };
    let (Some(to_address), Some(code_type)) = (file.to_address(), file.symbol("PyCode_Type"))
    else {
        return Some(Err(Unknown { interpreter: name, reason: "a symbol is missing" }));
    };
    let chunk = |offset| ChunkPlan::new(0, offset, Interpreter::CHUNK_BYTES);
    let interpreter = Interpreter {
        language: Language::Python,
        to_address,
        symbols: [runtime, code_type, 0, 0],
        place: ThreadPlace::Global(0),
        offsets: layout.offsets(minor),
        plan: [Some(0), Some(layout.filename), Some(layout.name), layout.lines()]
            .into_iter()
            .flatten()
            .map(chunk)
            .collect(),
        tag: 0,
    };
    let is_loop = |name: &str| {
        let rest = name.strip_prefix("_PyEval_EvalFrameDefault");
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let native = Native::new(file, is_loop, is_glue);
    let source = if minor >= 13 { "_Py_DebugOffsets" } else { "table" };
    Some(Ok(Runtime::new(text, source, interpreter, native)))
}

/// Returns true for functions through which Python functions call each other, and start. They show nothing but that
/// there was a call.
fn is_glue(name: &str) -> bool {
    const PREFIXES: [&str; 33] = [
        "PyEval_",
        "PyFunction_",
        "PyObject_Call",
        "PyObject_Vectorcall",
        "PyRun_",
        "PyVectorcall_",
        "Py_BytesMain",
        "Py_Main",
        "Py_RunMain",
        "_PyEval_",
        "_PyFrame_",
        "_PyFunction_",
        "_PyObject_Call",
        "_PyObject_FastCall",
        "_PyObject_MakeTpCall",
        "_PyObject_Vectorcall",
        "_PyRun_",
        "_PyVectorcall_",
        "_PyEvalFramePush",
        "call_function",
        "call_unbound",
        "cfunction_",
        "function_code_fastcall",
        "gen_iternext",
        "gen_send_ex",
        "lookup_maybe",
        "method_vectorcall",
        "object_vacall",
        "pymain_",
        "run_eval_code",
        "run_mod",
        "slot_",
        "vectorcall_",
    ];
    PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || ["do_call_core", "method_call", "trace_call_function"].contains(&name)
}

/// Returns major and minor version, and the whole version as text.
fn version(file: &File<'_>, runtime: u64) -> Option<(u32, u32, String)> {
    let number = match (file.symbol("Py_Version"), file.bytes(runtime, 8)) {
        // Since 3.11, `PY_VERSION_HEX`.
        (Some(at), _) => file.u64(at)?,
        (None, Some(b"xdebugpy")) => file.u64(runtime.wrapping_add(8))?,
        (None, _) => {
            let (minor, text) = version_text(file.constants())?;
            return Some((3, minor, text));
        }
    };
    let part = |shift: u32| (number >> shift & 0xff) as u32;
    let level = match number >> 4 & 15 {
        0xa => format!("a{}", number & 15),
        0xb => format!("b{}", number & 15),
        0xc => format!("rc{}", number & 15),
        _ => String::new(),
    };
    let text = format!("{}.{}.{}{level}", part(24), part(16), part(8));
    Some((part(24), part(16), text))
}

/// Returns minor version, and the whole version as text, from the names of folders among the constants
/// (`lib/python3.9`), and `PY_VERSION`. `None` if several versions are found.
fn version_text(constants: &[u8]) -> Option<(u32, String)> {
    const FOLDER: &[u8] = b"python3.";
    let number = |bytes: &[u8]| {
        let digits = bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
        std::str::from_utf8(&bytes[..digits]).ok()?.parse::<u32>().ok()
    };
    let folders = memmem::find_iter(constants, FOLDER);
    let mut minors: Vec<u32> =
        folders.filter_map(|at| number(&constants[at + FOLDER.len()..])).collect();
    minors.sort_unstable();
    minors.dedup();
    let [minor] = minors[..] else { return None };
    let prefix = format!("3.{minor}.");
    let full = memmem::find_iter(constants, prefix.as_bytes()).filter_map(|at| {
        let rest = &constants[at..];
        let text = &rest[..rest.iter().position(|byte| *byte == 0)?];
        let patch = text[prefix.len()..].strip_suffix(b"+").unwrap_or(&text[prefix.len()..]);
        let is_patch = !patch.is_empty() && patch.iter().all(u8::is_ascii_digit);
        is_patch.then(|| String::from_utf8_lossy(text).into_owned())
    });
    let full = full.max_by_key(String::len);
    Some((minor, full.unwrap_or_else(|| format!("3.{minor}"))))
}

/// Returns the name of a code object.
pub(crate) fn name(it: &Interpreter, memory: &dyn Memory, code: u64) -> Option<Name> {
    let reader = Reader(memory);
    let at = |field: usize| code.wrapping_add(it.offsets[field].into());
    let function = string(it, reader, reader.pointer(at(at::NAME))?)?;
    let file = reader.pointer(at(at::FILENAME)).and_then(|file| string(it, reader, file));
    let start_line = reader.u32(at(at::FIRST_LINE)).filter(|line| *line < 1 << 30).unwrap_or(0);
    Some(Name { function, file, start_line })
}

/// Reads a `str` object (PEP 393): `PyASCIIObject` or `PyCompactUnicodeObject`, followed by the characters.
fn string(it: &Interpreter, reader: Reader<'_>, object: u64) -> Option<String> {
    let field = |field: usize| object.wrapping_add(it.offsets[field].into());
    let length = reader.u64(field(at::STR_LENGTH))?.min(4096);
    let state = reader.u32(field(at::STR_STATE))?;
    let shift = it.offsets[at::STR_KIND] & 15;
    let (kind, ascii) = (state >> shift & 7, state >> (shift + 4) & 1 == 1);
    let data = field(if ascii { at::STR_ASCII } else { at::STR_OTHER });
    let width = match kind {
        1 | 2 | 4 => u64::from(kind),
        _ => return None,
    };
    let bytes = reader.text(data, length * width)?;
    let text: String = match kind {
        1 => bytes.iter().map(|byte| char::from(*byte)).collect(),
        2 => {
            let (units, _) = bytes.as_chunks::<2>();
            let units = units.iter().map(|unit| u16::from_le_bytes(*unit));
            char::decode_utf16(units)
                .map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER))
                .collect()
        }
        _ => {
            let (units, _) = bytes.as_chunks::<4>();
            let units = units.iter().map(|unit| char::from_u32(u32::from_le_bytes(*unit)));
            units.map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
        }
    };
    readable(&text)
}

/// Reads the lines of a code object. If only the beginning of a long table can be read, instructions beyond it have no
/// line.
pub(crate) fn lines(it: &Interpreter, memory: &dyn Memory, code: u64) -> Option<Lines> {
    let reader = Reader(memory);
    let at = |field: usize| code.wrapping_add(it.offsets[field].into());
    if it.offsets[at::LINES] == Interpreter::NO_OFFSET {
        return None;
    }
    let first = reader.u32(at(at::FIRST_LINE))?;
    // The table is a `bytes` object.
    let table = reader.pointer(at(at::LINES))?;
    let len = reader.u64(table.wrapping_add(it.offsets[at::BYTES_SIZE].into()))?;
    let data = table.wrapping_add(it.offsets[at::BYTES_DATA].into());
    let table = reader.all(data, len).or_else(|| reader.text(data, len))?;
    Some(Lines { minor: it.offsets[at::MINOR], first, table: table.into() })
}

/// Line table of a code object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lines {
    minor: u32,
    first: u32,
    table: Box<[u8]>,
}

impl Lines {
    /// Returns the line of an instruction; 0 if it is not known.
    pub fn line(&self, offset: u32) -> u32 {
        lines::line(self.minor, &self.table, self.first, offset).unwrap_or(0)
    }
}
