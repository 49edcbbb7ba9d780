//! Perl 5.

use pyrograph_event::interpreter::{ChunkPlan, Interpreter, Language, ThreadPlace};

use crate::file::File;
use crate::memory::{Memory, Reader, readable};
use crate::native::Native;
use crate::runtime::{Name, Runtime, Unknown};
use crate::thread::{GLIBC_VALUES, thread_place};

mod layout;

use layout::Layout;

/// Indexes into `Interpreter::offsets`: `enum perl_offset` of the in-kernel programs, followed by those used only for
/// names.
pub(crate) mod at {
    pub const STACKINFO: usize = 0;
    pub const COP: usize = 1;
    pub const SI_CONTEXTS: usize = 2;
    pub const SI_PREVIOUS: usize = 3;
    pub const SI_INDEX: usize = 4;
    pub const SI_TYPE: usize = 5;
    pub const CX_COP: usize = 6;
    pub const CX_FUNCTION: usize = 7;
    pub const CX_RETURN: usize = 8;
    pub const CX_SIZE: usize = 9;
    pub const TYPE_MASK: usize = 10;
    pub const TYPE_SUB: usize = 11;
    pub const TYPE_FORMAT: usize = 12;
    pub const TYPE_EVAL: usize = 13;
    pub const COP_LINE: usize = 14;
    pub const CV_FLAGS: usize = 15;
    pub const CV_GV: usize = 16;
    pub const CV_STASH: usize = 17;
    pub const CV_FILE: usize = 18;
    pub const GV_NAME: usize = 19;
    pub const GV_STASH: usize = 20;
    pub const GP_EGV: usize = 21;
    /// Offset in a stash's body of the data with its names; `NO_OFFSET`: that data follows its array.
    pub const HV_AUX: usize = 22;
    pub const HV_MAX: usize = 23;
    /// Offset of the number of names of a stash; `NO_OFFSET`: it has one name.
    pub const HV_NAMES: usize = 24;
    pub const EVAL_RETURN: usize = 25;
    pub const EVAL_CATCH: usize = 26;
}

/// Fields of any value (`SV`): its body, its flags, and a union.
const SV_ANY: u64 = 0;
const SV_FLAGS: u64 = 12;
const SV_U: u64 = 16;
/// Type of a value, in its flags (`svtype` of sv.h; a subroutine is 13 since 5.10).
const TYPE: u32 = 0xff;
const SUBROUTINE: u32 = 13;
/// Flag of a subroutine that has a name of its own (`CvNAMED`) instead of a glob with a name.
const NAMED: u32 = 0x8000;
/// Flag of a stash that has names (`SVf_OOK`).
const HAS_NAMES: u32 = 0x0200_0000;

/// Finds the interpreter in a file; `None` if the file does not contain Perl's loop.
pub(crate) fn find(file: &File<'_>) -> Option<Result<Runtime, Unknown>> {
    // A module may import the function without defining it.
    file.symbol("Perl_runops_standard")?;
    let byte = |name: &str| Some(file.bytes(file.symbol(name)?, 1)?[0]);
    let (Some(minor), Some(patch)) = (byte("PL_version"), byte("PL_subversion")) else {
        let interpreter = "Perl".to_owned();
        return Some(Err(Unknown { interpreter, reason: "its version cannot be found" }));
    };
    let version = format!("5.{minor}.{patch}");
    let name = format!("Perl {version}");
    let fail = |reason| Some(Err(Unknown { interpreter: name.clone(), reason }));
    let is_threaded = file.symbol("PL_thr_key").is_some();
    let Some(layout) = Layout::of_version(minor.into()) else {
        return Some(Err(Unknown::layout(name)));
    };
    let Some(to_address) = file.to_address() else { return fail("its code is in several places") };
    let place =
        match (is_threaded, file.thread_symbol("PL_current_context"), file.symbol("PL_thr_key")) {
            (false, ..) => Some(ThreadPlace::Global(0)),
            (true, Some(_), _) => thread_place(file, "PL_current_context"),
            (true, None, Some(key_at)) => Some(ThreadPlace::Key { key_at, values: GLIBC_VALUES }),
            _ => None,
        };
    let Some(place) = place else { return fail("its variables of threads cannot be found") };
    let symbols = match is_threaded {
        true => [None, None, file.symbol("PL_curinterp")],
        false => [file.symbol("PL_curstackinfo"), file.symbol("PL_curcop"), None],
    };
    let needed = if is_threaded { 2..3 } else { 0..2 };
    if symbols[needed].iter().any(Option::is_none) {
        return fail("a symbol is missing");
    }
    let [stack, cop, first] = symbols.map(|symbol| symbol.unwrap_or(0));
    let interpreter = Interpreter {
        language: Language::Perl,
        to_address,
        symbols: [stack, cop, first, 0],
        place,
        offsets: layout.offsets(is_threaded),
        plan: plan(&layout),
        tag: 0,
    };
    let native = Native::new(
        file,
        |name| name == "Perl_runops_standard" || name == "Perl_runops_debug",
        |name| GLUE.contains(&name),
    );
    Some(Ok(Runtime::new(version, "table", interpreter, native)))
}

/// Functions that call subroutines, and that start a program.
const GLUE: [&str; 12] = [
    "main",
    "perl_run",
    "perl_parse",
    "perl_destruct",
    "Perl_call_sv",
    "Perl_call_method",
    "Perl_call_pv",
    "Perl_call_argv",
    "Perl_eval_sv",
    "Perl_eval_pv",
    "Perl_pp_entersub",
    "Perl_call_list",
];

/// Pieces of memory that name a subroutine.
fn plan(layout: &Layout) -> Vec<ChunkPlan> {
    let chunk = ChunkPlan::new;
    let of = |field: usize| layout.field(field);
    // Pieces that lead from a stash (its index among the pieces) to its name: the body; the data behind its array,
    // unless that is in the body; the name, or a list of names; the first of these.
    let stash = |stash: u16| match of(at::HV_AUX) {
        Interpreter::NO_OFFSET => {
            let behind = Some((stash + 1, of(at::HV_MAX) as u16));
            let aux = ChunkPlan { behind, ..chunk(stash, SV_U as u32, 40) };
            vec![chunk(stash, 0, 80), aux, chunk(stash + 2, 0, 160), chunk(stash + 3, 0, 160)]
        }
        offset => {
            vec![chunk(stash, 0, 80), chunk(stash + 1, offset, 160), chunk(stash + 2, 0, 160)]
        }
    };
    let mut plan = vec![
        chunk(0, 0, 24),
        // 1: body. 2: glob or name. 3: the glob's body. 4: its contents. 5, 6: the glob under which it was created.
        chunk(0, 0, 112),
        chunk(1, of(at::CV_GV), 160),
        chunk(2, 0, 64),
        chunk(2, 16, 80),
        chunk(4, of(at::GP_EGV), 24),
        chunk(5, 0, 64),
        // Its name, and the source file.
        chunk(6, of(at::GV_NAME), 160),
        chunk(1, of(at::CV_FILE), 160),
        chunk(6, of(at::GV_STASH), 24),
    ];
    plan.extend(stash(9));
    // The stash of a subroutine that has no glob.
    let own = plan.len() as u16;
    plan.push(chunk(1, of(at::CV_STASH), 24));
    plan.extend(stash(own));
    plan
}

/// Returns the name of a subroutine.
pub(crate) fn name(it: &Interpreter, memory: &dyn Memory, function: u64) -> Option<Name> {
    let reader = Reader(memory);
    let of = |field: usize| u64::from(it.offsets[field]);
    if reader.u32(function.wrapping_add(SV_FLAGS))? & TYPE != SUBROUTINE {
        return None;
    }
    let body = reader.pointer(function.wrapping_add(SV_ANY))?;
    let holder = reader.pointer(body.wrapping_add(of(at::CV_GV)));
    let (stash, key) = match (reader.u32(body.wrapping_add(of(at::CV_FLAGS)))? & NAMED, holder) {
        (NAMED, Some(key)) => (reader.pointer(body.wrapping_add(of(at::CV_STASH))), key),
        (_, Some(glob)) => {
            let contents = reader.pointer(glob.wrapping_add(SV_U));
            let origin =
                contents.and_then(|contents| reader.pointer(contents.wrapping_add(of(at::GP_EGV))));
            let glob = reader.pointer(origin.unwrap_or(glob).wrapping_add(SV_ANY))?;
            (
                reader.pointer(glob.wrapping_add(of(at::GV_STASH))),
                reader.pointer(glob.wrapping_add(of(at::GV_NAME)))?,
            )
        }
        (_, None) => return None,
    };
    let own = key_text(reader, key)?;
    let package = stash.and_then(|stash| stash_name(it, reader, stash));
    let function = match package {
        Some(package) => format!("{package}::{own}"),
        None => own,
    };
    let file =
        reader.pointer(body.wrapping_add(of(at::CV_FILE))).and_then(|file| reader.c_string(file));
    let file = file.and_then(|file| readable(&String::from_utf8_lossy(&file)));
    Some(Name { function: readable(&function)?, file, start_line: 0 })
}

/// Reads a key of a hash (`HEK`): hash, length, text.
fn key_text(reader: Reader<'_>, key: u64) -> Option<String> {
    let len = reader.u32(key.wrapping_add(4))?;
    if len > 4096 {
        return None;
    }
    let text = reader.text(key.wrapping_add(8), len.into())?;
    readable(&String::from_utf8_lossy(&text))
}

fn stash_name(it: &Interpreter, reader: Reader<'_>, stash: u64) -> Option<String> {
    if reader.u32(stash.wrapping_add(SV_FLAGS))? & HAS_NAMES == 0 {
        return None;
    }
    let body = reader.pointer(stash.wrapping_add(SV_ANY))?;
    let aux = match it.offsets[at::HV_AUX] {
        // The data follows the last element of the array, whose index is `xhv_max`.
        Interpreter::NO_OFFSET => {
            let last = reader.u64(body.wrapping_add(it.offsets[at::HV_MAX].into()))?;
            reader
                .pointer(stash.wrapping_add(SV_U))?
                .wrapping_add(last.checked_add(1)?.checked_mul(8)?)
        }
        offset => body.wrapping_add(offset.into()),
    };
    let names = reader.pointer(aux)?;
    let count = match it.offsets[at::HV_NAMES] {
        Interpreter::NO_OFFSET => 0,
        offset => reader.u32(aux.wrapping_add(offset.into()))?.cast_signed(),
    };
    // Several names are in a list. If the number is negative, the first entry of the list is empty.
    let key = match count {
        0 => names,
        1.. => reader.pointer(names)?,
        _ => reader.pointer(names.wrapping_add(8))?,
    };
    key_text(reader, key)
}
