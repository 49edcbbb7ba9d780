//! Java: HotSpot, the virtual machine of OpenJDK.
//!
//! HotSpot's library exports tables of the fields of its classes for debuggers (`gHotSpotVM…`). From these, the
//! programs in the kernel learn how to unwind frames of JIT-compiled code, and methods are named.

use std::sync::Arc;

use pyrograph_event::interpreter::{Interpreter, Language, ThreadPlace};

use crate::file::File;
use crate::memory::{Memory, Reader, readable};
use crate::native::Native;
use crate::runtime::{Name, Runtime, Unknown};

mod compiled;
mod metadata;
mod method;
mod tables;

pub(crate) use compiled::Compiled;
pub(crate) use method::LineTable;
use method::Methods;
use tables::Tables;

/// Name of a symbol that libraries with these tables export.
pub(crate) const MARK: &str = "gHotSpotVMStructs";

/// JDK versions whose fields are known to have the meanings that are assumed here.
const VERSIONS: std::ops::RangeInclusive<u32> = 11..=25;

/// Indexes into `Interpreter::offsets`: `enum java_offset` of the in-kernel programs.
mod at {
    pub const LEN: usize = 0;
    pub const ELEMENTS: usize = 1;
    pub const LOW: usize = 2;
    pub const HIGH: usize = 3;
    pub const SEGMENTS: usize = 4;
    pub const SHIFT: usize = 5;
    pub const HEADER: usize = 6;
    pub const NAME: usize = 7;
    pub const FRAME_SIZE: usize = 8;
    pub const FRAME_COMPLETE: usize = 9;
    pub const COMPLETE_BYTES: usize = 10;
    pub const CODE: usize = 11;
    pub const CODE_IS_NEAR: usize = 12;
    pub const METHOD: usize = 13;
    pub const COMPILE_ID: usize = 14;
    pub const CONST_METHOD: usize = 15;
    pub const CONST_METHOD_SIZE: usize = 16;
    pub const CODE_SIZE: usize = 17;
    pub const CONSTANTS: usize = 18;
    pub const ACCESS: usize = 19;
}

/// Kinds of code, stored in the low bits of a pointer (`enum java_kind` of the in-kernel programs).
const KIND: u64 = 7;
const INTERPRETED: u64 = 0;
const COMPILED: u64 = 1;

/// Offsets for naming methods that the in-kernel programs do not need.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    method: method::Layout,
    compiled: Option<compiled::Layout>,
}

/// Finds the virtual machine in a library; `None` if there is none.
pub(crate) fn find(file: &File<'_>) -> Option<Result<Runtime, Unknown>> {
    file.symbol(MARK)?;
    let unknown = |interpreter: String, reason| Some(Err(Unknown { interpreter, reason }));
    let Some(tables) = Tables::read(file) else {
        return unknown("HotSpot".to_owned(), "its tables for debuggers cannot be read");
    };
    let number = |name: &str| Some(file.constant(tables.variable("Abstract_VM_Version", name)?));
    let numbers = ["_vm_major_version", "_vm_minor_version", "_vm_security_version"].map(number);
    let [Some(major), Some(minor), Some(security)] = numbers else {
        return unknown("HotSpot".to_owned(), "its version is not known");
    };
    let (version, name) =
        (format!("{major}.{minor}.{security}"), format!("Java {major}.{minor}.{security}"));
    if !VERSIONS.contains(&major) {
        return Some(Err(Unknown::layout(name)));
    }
    let Some(to_address) = file.to_address() else {
        return unknown(name, "its code is in several places");
    };
    let layout =
        offsets(&tables).zip(method::Layout::read(&tables, major)).zip(symbols(file, &tables));
    let Some(((offsets, method), symbols)) = layout else {
        return unknown(name, "a field is missing in `gHotSpotVMStructs`");
    };
    let interpreter = Interpreter {
        language: Language::Java,
        to_address,
        symbols,
        place: ThreadPlace::Global(0),
        plan: Vec::new(),
        offsets,
        tag: 0,
    };
    let native = Native::new(file, |_| false, is_glue).with_made_code();
    let mut runtime = Runtime::new(version, "gHotSpotVMStructs", interpreter, native);
    let compiled = compiled::Layout::read(&tables, major);
    runtime.java = Some(Arc::new(Layout { method, compiled }));
    Some(Ok(runtime))
}

/// Returns true for functions through which C++ calls Java, and for those that lead from Java to such a call.
fn is_glue(name: &str) -> bool {
    const PREFIXES: [&str; 6] = [
        "_ZN9JavaCalls",
        "_ZN2os",
        "_ZN10JavaThread",
        "_ZN6Thread",
        "_ZL17thread_native",
        "JVM_DoPriv",
    ];
    PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Addresses in the order of `enum java_symbol` of the in-kernel programs.
fn symbols(file: &File<'_>, tables: &Tables) -> Option<[u64; Interpreter::SYMBOLS]> {
    let heaps = tables.variable("CodeCache", "_heaps")?;
    let data = file
        .image
        .segments()
        .iter()
        .find(|segment| tables.start().wrapping_sub(segment.address) < segment.file_size)?;
    Some([heaps, data.address.wrapping_sub(data.file_offset), 0, 0])
}

/// Returns the offsets that the in-kernel programs use.
fn offsets(tables: &Tables) -> Option<[u32; Interpreter::OFFSETS]> {
    let field = |of: &str, name: &str| tables.offset(of, name);
    let (memory, segments) = (field("CodeHeap", "_memory")?, field("CodeHeap", "_segmap")?);
    let low = field("VirtualSpace", "_low")?;
    let len =
        field("GrowableArrayBase", "_len").or_else(|| field("GenericGrowableArray", "_len"))?;
    let code = field("CodeBlob", "_code_begin");
    let access =
        field("Method", "_access_flags").or_else(|| field("Method", "_access_flags._flags"))?;
    let method = field("CompiledMethod", "_method").or_else(|| field("nmethod", "_method"))?;
    let complete_bytes = match tables.type_of("CodeBlob", "_frame_complete_offset")? {
        "int16_t" | "int16" | "short" => 2,
        "int" => 4,
        _ => return None,
    };
    let offsets = Interpreter::offsets([
        (at::LEN, len),
        (at::ELEMENTS, field("GrowableArray<int>", "_data")?),
        (at::LOW, memory + low),
        (at::HIGH, memory + field("VirtualSpace", "_high")?),
        (at::SEGMENTS, segments + low),
        (at::SHIFT, field("CodeHeap", "_log2_segment_size")?),
        (at::HEADER, tables.size("HeapBlock")?),
        (at::NAME, field("CodeBlob", "_name")?),
        (at::FRAME_SIZE, field("CodeBlob", "_frame_size")?),
        (at::FRAME_COMPLETE, field("CodeBlob", "_frame_complete_offset")?),
        (at::COMPLETE_BYTES, complete_bytes),
        (at::CODE, code.or_else(|| field("CodeBlob", "_code_offset"))?),
        (at::CODE_IS_NEAR, u32::from(code.is_none())),
        (at::METHOD, method),
        (at::COMPILE_ID, field("nmethod", "_compile_id")?),
        (at::CONST_METHOD, field("Method", "_constMethod")?),
        (at::CONST_METHOD_SIZE, tables.size("ConstMethod")?),
        (at::CODE_SIZE, field("ConstMethod", "_code_size")?),
        (at::CONSTANTS, field("ConstMethod", "_constants")?),
        (at::ACCESS, access),
    ]);
    Some(offsets)
}

/// Reads Java code of a process.
struct Code<'a> {
    it: &'a Interpreter,
    layout: &'a Layout,
    reader: Reader<'a>,
}

impl<'a> Code<'a> {
    fn of(runtime: &'a Runtime, memory: &'a dyn Memory) -> Option<Self> {
        let layout = runtime.java.as_deref()?;
        Some(Self { it: &runtime.interpreter, layout, reader: Reader(memory) })
    }

    fn offset(&self, field: usize) -> u64 {
        self.it.offsets[field].into()
    }

    fn methods(&self) -> Methods<'a> {
        Methods { layout: &self.layout.method, reader: self.reader }
    }

    fn word(&self, address: u64, field: usize) -> Option<u64> {
        self.reader.u64(address.checked_add(self.offset(field))?)
    }

    /// Computes the identity of the method or code of a call, the same way as the in-kernel programs.
    fn identity(&self, function: u64) -> Option<u32> {
        let at = function & !KIND;
        let hash = match function & KIND {
            INTERPRETED => {
                let constant = self.word(at, at::CONST_METHOD)?;
                mix(mix(HASH_START, constant), self.word(constant, at::CONSTANTS)?)
            }
            COMPILED => {
                let number = self.reader.u32(at.checked_add(self.offset(at::COMPILE_ID))?)?;
                mix(mix(HASH_START, self.word(at, at::METHOD)?), number.into())
            }
            _ => mix(HASH_START, self.word(at, at::NAME)?),
        };
        Some((hash & 0xff_ffff) as u32)
    }

    fn name(&self, function: u64) -> Option<Name> {
        let at = function & !KIND;
        match function & KIND {
            INTERPRETED => self.methods().name(at),
            COMPILED => self.methods().name(self.word(at, at::METHOD)?),
            // Same text as in HotSpot's own perf map.
            _ => {
                let name = self.reader.c_string(self.word(at, at::NAME)?)?;
                let function = readable(&String::from_utf8_lossy(&name))?;
                Some(Name { function, file: None, start_line: 0 })
            }
        }
    }
}

const HASH_START: u64 = 0x9e37_79b9_7f4a_7c15;

/// Same function as in the in-kernel programs.
fn mix(hash: u64, value: u64) -> u64 {
    let hash = (hash ^ value).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^ hash >> 32
}

/// Returns true if the code at `function` is still what the in-kernel programs saw there.
pub(crate) fn is_same(
    runtime: &Runtime,
    memory: &dyn Memory,
    function: u64,
    identity: u32,
) -> bool {
    Code::of(runtime, memory).and_then(|code| code.identity(function)) == Some(identity)
}

/// Returns the name of a method, or of another piece of code.
pub(crate) fn name(runtime: &Runtime, memory: &dyn Memory, function: u64) -> Option<Name> {
    Code::of(runtime, memory)?.name(function)
}

/// Returns true if this is compiled code, not an interpreted method.
pub(crate) fn is_compiled(function: u64) -> bool {
    function & KIND == COMPILED
}

/// Line information of a method.
#[derive(Clone, Debug)]
pub(crate) enum Lines {
    /// Lines by bytecode index.
    Interpreted(LineTable),
    /// Lines by offset in compiled code.
    Compiled(Compiled),
    /// No line information.
    None,
}

/// Reads the lines of a method, and the methods that the compiler has inlined into it.
pub(crate) fn lines(runtime: &Runtime, memory: &dyn Memory, function: u64) -> Option<Lines> {
    let code = Code::of(runtime, memory)?;
    let at = function & !KIND;
    Some(match function & KIND {
        INTERPRETED => Lines::Interpreted(code.methods().lines(at)),
        COMPILED => match &code.layout.compiled {
            Some(layout) => Lines::Compiled(Compiled::read(&code, layout, at)?),
            None => Lines::None,
        },
        _ => Lines::None,
    })
}

#[cfg(test)]
mod tests;
