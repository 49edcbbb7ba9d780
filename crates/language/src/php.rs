//! PHP.
//!
//! Code of its JIT compiler (`opcache.jit`) has neither frames of the loop nor unwind tables, so it is not unwound.

use memchr::memmem;
use pyrograph_event::interpreter::{ChunkPlan, Interpreter, Language, ThreadPlace};

use crate::file::File;
use crate::memory::{Memory, Reader, readable};
use crate::native::Native;
use crate::runtime::{Name, Runtime, Unknown, base_name, version};
use crate::thread::{place_by_code, place_by_distance};

mod layout;

use layout::{Layout, layout};

/// Indexes into `Interpreter::offsets`: `enum php_offset` of the in-kernel programs, followed by those used only for
/// names.
mod at {
    pub const CURRENT: usize = 0;
    pub const INSTRUCTION: usize = 1;
    pub const FUNCTION: usize = 2;
    pub const CALL_INFO: usize = 3;
    pub const PREVIOUS: usize = 4;
    pub const TYPE: usize = 5;
    pub const NAME: usize = 6;
    pub const CLASS: usize = 7;
    pub const INSTRUCTIONS: usize = 8;
    pub const LINE: usize = 9;
    pub const TOP: usize = 10;
    pub const INTERNAL: usize = 11;
    pub const USER: usize = 12;
    pub const EVAL: usize = 13;
    pub const FILE: usize = 14;
    pub const FIRST_LINE: usize = 15;
    pub const CLASS_NAME: usize = 16;
    pub const STRING_LENGTH: usize = 17;
    pub const STRING_DATA: usize = 18;
}

/// Finds the interpreter in a file; `None` if the file does not contain PHP's loop.
pub(crate) fn find(file: &File<'_>) -> Option<Result<Runtime, Unknown>> {
    // Extensions import the symbol without defining it.
    file.symbol("execute_ex")?;
    let (globals, globals_offset) =
        (file.symbol("executor_globals"), file.symbol("executor_globals_offset"));
    if globals.is_none() && globals_offset.is_none() {
        return None;
    }
    let Some((major, minor, version)) = sent_version(file.constants()) else {
        let interpreter = "PHP".to_owned();
        return Some(Err(Unknown { interpreter, reason: "its version cannot be found" }));
    };
    let name = match globals {
        Some(_) => format!("PHP {version}"),
        None => format!("PHP {version} with threads"),
    };
    let fail = |reason| Some(Err(Unknown { interpreter: name.clone(), reason }));
    let Some(layout) = layout(major, minor) else { return Some(Err(Unknown::layout(name))) };
    let Some(to_address) = file.to_address() else { return fail("its code is in several places") };
    let place = match globals {
        Some(globals) => Some(ThreadPlace::Global(globals)),
        // In versions up to 7.4, or if that function does not know the offset, it is found through a pthread key.
        None => place_by_distance(file, "tsrm_get_ls_cache_tcb_offset")
            .or_else(|| place_by_code(file, "tsrm_get_ls_cache")),
    };
    let Some(place) = place else { return fail("its variables of threads cannot be found") };
    let interpreter = Interpreter {
        language: Language::Php,
        to_address,
        symbols: [if globals.is_some() { 0 } else { globals_offset.unwrap_or(0) }, 0, 0, 0],
        place,
        offsets: offsets(&layout),
        plan: plan(&layout),
        tag: 0,
    };
    let is_loop = |name: &str| name == "execute_ex" || name.starts_with("execute_ex.");
    let native = Native::new(file, is_loop, |name| GLUE.contains(&name));
    Some(Ok(Runtime::new(version, "table", interpreter, native)))
}

/// Functions that call functions, and that start a script.
const GLUE: [&str; 17] = [
    "main",
    "php_execute_script",
    "php_execute_simple_script",
    "php_execute_scripts",
    "zend_execute",
    "zend_execute_script",
    "zend_execute_scripts",
    "zend_call_function",
    "zend_call_known_function",
    "zend_call_known_fcc",
    "zend_call_known_instance_method_with_2_params",
    "zend_call_method",
    "zend_call_method_if_exists",
    "_call_user_function_impl",
    "_call_user_function_ex",
    "zend_generator_resume",
    "zend_execute_internal",
];

/// Returns major and minor version, and the whole version as text, from a header that PHP sends
/// (`SAPI_PHP_VERSION_HEADER`).
fn sent_version(constants: &[u8]) -> Option<(u32, u32, String)> {
    const HEADER: &[u8] = b"X-Powered-By: PHP/";
    let at = memmem::find(constants, HEADER)? + HEADER.len();
    version(constants.get(at..)?)
}

fn offsets(layout: &Layout) -> [u32; Interpreter::OFFSETS] {
    Interpreter::offsets([
        (at::CURRENT, layout.current_frame),
        (at::INSTRUCTION, layout.frame_instruction),
        (at::FUNCTION, layout.frame_function),
        (at::CALL_INFO, layout.frame_call_info),
        (at::PREVIOUS, layout.frame_previous),
        (at::TYPE, layout.function_type),
        (at::NAME, layout.function_name),
        (at::CLASS, layout.function_class),
        (at::INSTRUCTIONS, layout.function_instructions),
        (at::LINE, layout.instruction_line),
        (at::TOP, layout.call_top),
        (at::INTERNAL, layout.type_internal),
        (at::USER, layout.type_user),
        (at::EVAL, layout.type_eval),
        (at::FILE, layout.function_file),
        (at::FIRST_LINE, layout.function_first_line),
        (at::CLASS_NAME, layout.class_name),
        (at::STRING_LENGTH, layout.string_length),
        (at::STRING_DATA, layout.string_data),
    ])
}

/// Pieces of memory that name a function.
fn plan(layout: &Layout) -> Vec<ChunkPlan> {
    let chunk = ChunkPlan::new;
    let mut plan = vec![
        chunk(0, 0, Interpreter::CHUNK_BYTES),
        // Its name, its class, the name of the class.
        chunk(0, layout.function_name, 160),
        chunk(0, layout.function_class, 32),
        chunk(2, layout.class_name, 160),
    ];
    let len = u32::from(Interpreter::CHUNK_BYTES);
    if layout.function_first_line + 4 <= len {
        plan.push(chunk(0, layout.function_file, 160));
    } else {
        // From 8.2 on, the file or the first line is beyond the maximum length of a piece.
        let rest = len - 16;
        plan.push(chunk(ChunkPlan::FUNCTION, rest, 48));
        plan.push(chunk(plan.len() as u16 - 1, layout.function_file - rest, 160));
    }
    plan
}

/// Returns the name of a function.
pub(crate) fn name(it: &Interpreter, memory: &dyn Memory, function: u64) -> Option<Name> {
    let reader = Reader(memory);
    let at = |field: usize| function.wrapping_add(it.offsets[field].into());
    let kind = u32::from(reader.bytes::<1>(at(at::TYPE))?[0]);
    let is_user = kind == it.offsets[at::USER] || kind == it.offsets[at::EVAL];
    if !is_user && kind != it.offsets[at::INTERNAL] {
        return None;
    }
    let text = |address| string(it, reader, address);
    let file = if is_user { reader.pointer(at(at::FILE)).and_then(text) } else { None };
    let line = if is_user { reader.u32(at(at::FIRST_LINE)) } else { None };
    let function = match reader.u64(at(at::NAME))? {
        0 if kind == it.offsets[at::EVAL] => "(eval)".to_owned(),
        // Code of a file outside of functions.
        0 => file.as_deref().map_or("(file)", base_name).to_owned(),
        name => {
            let own = text(name)?;
            let class = reader.pointer(at(at::CLASS)).and_then(|class| {
                text(reader.pointer(class.wrapping_add(it.offsets[at::CLASS_NAME].into()))?)
            });
            match class {
                // From 8.4 on, the name of a closure contains its location.
                Some(class) if !own.starts_with("{closure:") => format!("{class}::{own}"),
                _ => own,
            }
        }
    };
    let start_line = line.filter(|line| *line < 1 << 30).unwrap_or(0);
    Some(Name { function: readable(&function)?, file, start_line })
}

/// Reads a `zend_string`: length and text. In the name of an anonymous class, a zero byte and the location follow the
/// name.
fn string(it: &Interpreter, reader: Reader<'_>, address: u64) -> Option<String> {
    let field = |field: usize| address.wrapping_add(it.offsets[field].into());
    let len = reader.u64(field(at::STRING_LENGTH))?;
    if len > 1 << 20 {
        return None;
    }
    let mut text = reader.text(field(at::STRING_DATA), len)?;
    if let Some(end) = text.iter().position(|byte| *byte == 0) {
        text.truncate(end);
    }
    readable(&String::from_utf8_lossy(&text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measured::Measured;
    use crate::memory::Chunks;

    const TABLE: &str = include_str!("../../../benches/languages/offsets/tables/php.txt");

    #[test]
    fn layouts_are_as_measured() {
        for column in Measured::columns(TABLE) {
            let major = column.version.split('.').next().unwrap().parse().unwrap();
            let layout = layout(major, column.minor()).unwrap();
            assert_eq!(
                column.value("current_frame"),
                Some(layout.current_frame),
                "{}",
                column.version
            );
            assert_eq!(column.value("function_file"), Some(layout.function_file));
            assert_eq!(column.value("function_instructions"), Some(layout.function_instructions));
            // A walker reads as many bytes of a function.
            assert!(layout.function_instructions + 8 <= 112);
            // So far a piece reaches that follows the function's first.
            assert!(layout.function_file + 8 <= 192 && layout.function_first_line + 4 <= 192);
        }
        assert_eq!(layout(7, 3), None);
        assert_eq!(layout(8, 6), None);
    }

    #[test]
    fn versions_are_found() {
        let version_of = |text: &str| sent_version(format!("\0abc\0{text}\0def").as_bytes());
        let found = version_of("X-Powered-By: PHP/8.2.36");
        assert_eq!(found, Some((8, 2, "8.2.36".to_owned())));
        let found = version_of("X-Powered-By: PHP/8.6.0-dev");
        assert_eq!(found, Some((8, 6, "8.6.0-dev".to_owned())));
        assert_eq!(version_of("X-Powered-By: PHP/8"), None);
        assert_eq!(version_of("X-Powered-By: PHP/"), None);
        assert_eq!(version_of("PHP/8.2.36"), None);
        assert_eq!(sent_version(b"X-Powered-By: PHP/8.2.36"), None);
    }

    const FUNCTION: u64 = 0x1000;

    fn interpreter(major: u32, minor: u32) -> Interpreter {
        let layout = layout(major, minor).unwrap();
        Interpreter {
            language: Language::Php,
            to_address: 0,
            symbols: [0; 4],
            place: ThreadPlace::Global(0),
            offsets: offsets(&layout),
            plan: plan(&layout),
            tag: 0,
        }
    }

    fn zend_string(text: &str) -> Vec<u8> {
        let mut bytes = vec![0; 16];
        bytes.extend((text.len() as u64).to_le_bytes());
        bytes.extend(text.as_bytes());
        bytes.push(0);
        bytes
    }

    /// A function with a name, of a class, in a file, each unless it is empty.
    fn memory(it: &Interpreter, kind: u8, [name, class, file]: [&str; 3]) -> Vec<(u64, Vec<u8>)> {
        let mut function = vec![0; 200];
        let mut chunks = Vec::new();
        let mut put = |at: usize, value: u64, len: usize| {
            let at = it.offsets[at] as usize;
            function[at..at + len].copy_from_slice(&value.to_le_bytes()[..len]);
        };
        put(at::TYPE, kind.into(), 1);
        put(at::FIRST_LINE, 12, 4);
        for (place, address, text) in
            [(at::NAME, 0x2000, name), (at::FILE, 0x3000, file), (at::CLASS, 0x4000, class)]
        {
            if text.is_empty() {
                continue;
            }
            put(place, address, 8);
            if place == at::CLASS {
                let mut entry = vec![0; 32];
                entry[8..16].copy_from_slice(&(address + 0x800).to_le_bytes());
                chunks.push((address, entry));
                chunks.push((address + 0x800, zend_string(text)));
            } else {
                chunks.push((address, zend_string(text)));
            }
        }
        chunks.push((FUNCTION, function));
        chunks
    }

    fn named(it: &Interpreter, chunks: &[(u64, Vec<u8>)]) -> Option<Name> {
        name(it, &Chunks { chunks, rest: () }, FUNCTION)
    }

    #[test]
    fn functions_are_named() {
        const USER: u8 = 2;
        let cases = [
            (USER, ["f", "", "/a/b.php"], "f"),
            (USER, ["App\\f", "", "/a/b.php"], "App\\f"),
            (USER, ["f", "App\\A", "/a/b.php"], "App\\A::f"),
            (USER, ["{closure}", "A", "/a/b.php"], "A::{closure}"),
            (USER, ["{closure:A::f():3}", "A", "/a/b.php"], "{closure:A::f():3}"),
            (USER, ["f", "class@anonymous\0/a/b.php:3$0", "/a/b.php"], "class@anonymous::f"),
            (USER, ["", "", "/a/b.php"], "b.php"),
            (4, ["", "", "/a/b.php(3) : eval()'d code"], "(eval)"),
        ];
        for version in [(7, 4), (8, 0), (8, 2), (8, 3), (8, 4), (8, 5)] {
            let it = interpreter(version.0, version.1);
            for (kind, texts, expected) in cases {
                let name = named(&it, &memory(&it, kind, texts)).unwrap();
                assert_eq!(name.function, expected);
                assert_eq!((name.file.as_deref(), name.start_line), (Some(texts[2]), 12));
            }
            // Functions in C have neither.
            let name = named(&it, &memory(&it, 1, ["sort", "", "/x"])).unwrap();
            assert_eq!(name, Name { function: "sort".to_owned(), file: None, start_line: 0 });
            assert_eq!(named(&it, &memory(&it, 3, ["sort", "", ""])), None);
        }
    }

    #[test]
    fn the_pieces_that_are_planned_name_a_function() {
        for (major, minor) in [(7, 4), (8, 2), (8, 4), (8, 5)] {
            let it = interpreter(major, minor);
            let whole = memory(&it, 2, ["f", "A", "/a/b.php"]);
            let read = |address: u64, len: usize| {
                let (start, bytes) = whole.iter().rfind(|(start, bytes)| {
                    (*start..start + bytes.len() as u64).contains(&address)
                })?;
                let rest = &bytes[(address - start) as usize..];
                Some(rest[..len.min(rest.len())].to_vec())
            };
            let mut pieces: Vec<(u64, Vec<u8>)> = Vec::new();
            for plan in &it.plan {
                let from = pieces.get(usize::from(plan.from)).map(|(_, bytes)| {
                    let word = bytes.get(plan.offset.into()..usize::from(plan.offset) + 8);
                    word.map_or(0, |word| u64::from_le_bytes(word.try_into().unwrap()))
                });
                let address = match plan.from {
                    ChunkPlan::FUNCTION => FUNCTION + u64::from(plan.offset),
                    _ => from.unwrap_or(FUNCTION),
                };
                pieces.push((address, read(address, plan.len.into()).unwrap_or_default()));
            }
            let [found, whole] = [named(&it, &pieces), named(&it, &whole)].map(Option::unwrap);
            assert_eq!(found, whole, "{major}.{minor}");
            assert_eq!((found.file.as_deref(), found.start_line), (Some("/a/b.php"), 12));
        }
    }

    #[test]
    fn damaged_memory_gives_no_panic() {
        let it = interpreter(8, 2);
        let whole = memory(&it, 2, ["f", "A", "/a/b.php"]);
        for at in 0..whole.len() {
            for word in 0..whole[at].1.len() / 8 {
                for value in [0, 1, FUNCTION, 0x2001, u64::MAX, u64::MAX - 20, 1 << 63] {
                    let mut damaged = whole.clone();
                    damaged[at].1[8 * word..8 * word + 8].copy_from_slice(&value.to_le_bytes());
                    let name = named(&it, &damaged);
                    assert!(name.is_none_or(|name| name.function.len() <= 1100));
                }
            }
            for len in 0..whole[at].1.len() {
                let mut cut = whole.clone();
                cut[at].1.truncate(len);
                named(&it, &cut);
            }
        }
    }
}
