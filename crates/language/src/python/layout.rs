//! Offsets in CPython's structures on x86-64.
//!
//! Up to 3.12 they are from each version's headers (`pycore_runtime.h`, `pycore_interp.h`, `pystate.h`,
//! `frameobject.h`, `pycore_frame.h`, `code.h`, `unicodeobject.h`); later versions have `_Py_DebugOffsets` in the file.

use pyrograph_event::interpreter::Interpreter;

use super::at;
use crate::file::File;

const NO: u32 = Interpreter::NO_OFFSET;

/// Offset of the frame in generators and coroutines since 3.12. It is not among the offsets in the file.
const GENERATOR_FRAME: u32 = 72;

/// Offsets of one version, in the order of the constants of `at`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    offsets: [u32; Interpreter::OFFSETS],
    /// Offset of the file name in code objects.
    pub filename: u32,
    /// Offset of the qualified name, or of the name, in code objects.
    pub name: u32,
    /// Bit position of the character width in the state of a string.
    kind_shift: u32,
}

/// Offsets that differ between the versions of the table.
struct Row {
    /// Runtime: first interpreter. Interpreter: first thread.
    runtime: [u32; 2],
    /// Thread: its ID; its frame; the structure that contains the frame pointer.
    thread: [u32; 3],
    /// Frame: code, previous frame, instruction, owner, and the flag of the first frame in a call of the loop.
    frame: [u32; 5],
    /// Code: first line, file name, name, bytecode, line table.
    code: [u32; 5],
    /// Owners from this number on do not belong to a function.
    no_function: u32,
    /// Strings: offset of the characters of ASCII strings, and of others.
    text: [u32; 2],
    /// Frame: first local variable, and where the stack ends. Generator: its frame.
    tasks: [u32; 3],
}

impl Layout {
    /// Returns the layout of version 3.x, before 3.13.
    pub fn of_version(minor: u32) -> Option<Self> {
        let row = match minor {
            8..=10 => Row {
                runtime: [32, 8],
                thread: [176, 24, NO],
                frame: [32, 24, if minor == 10 { 96 } else { 104 }, NO, NO],
                code: [40, 104, 112, NO, 120],
                no_function: NO,
                text: [48, 72],
                tasks: [NO; 3],
            },
            11 => Row {
                runtime: [40, 16],
                thread: [152, 8, 56],
                frame: [32, 48, 56, 69, 68],
                code: [72, 112, 128, 184, 136],
                no_function: NO,
                text: [48, 72],
                tasks: [72, 64, 80],
            },
            12 => Row {
                runtime: [40, 72],
                thread: [136, 0, 56],
                frame: [0, 8, 56, 70, NO],
                code: [68, 112, 128, 192, 136],
                no_function: 3,
                text: [40, 56],
                tasks: [72, 64, GENERATOR_FRAME],
            },
            _ => return None,
        };
        Some(Self::of_row(&row))
    }

    fn of_row(row: &Row) -> Self {
        let offsets = Interpreter::offsets([
            (at::INTERPRETERS, row.runtime[0]),
            (at::NEXT_INTERPRETER, 0),
            (at::THREADS, row.runtime[1]),
            (at::NEXT_THREAD, 8),
            (at::THREAD_ID, row.thread[0]),
            (at::FRAME, row.thread[1]),
            (at::CFRAME, row.thread[2]),
            (at::CODE, row.frame[0]),
            (at::PREVIOUS, row.frame[1]),
            (at::INSTRUCTION, row.frame[2]),
            (at::OWNER, row.frame[3]),
            (at::IS_ENTRY, row.frame[4]),
            (at::TYPE, 8),
            (at::FIRST_LINE, row.code[0]),
            (at::FILENAME, row.code[1]),
            (at::NAME, row.code[2]),
            (at::BYTECODE, row.code[3]),
            (at::NO_FUNCTION, row.no_function),
            (at::LINES, row.code[4]),
            (at::STR_LENGTH, 16),
            (at::STR_STATE, 32),
            (at::STR_ASCII, row.text[0]),
            (at::STR_OTHER, row.text[1]),
            (at::FIRST_LOCAL, row.tasks[0]),
            (at::STACK_TOP, row.tasks[1]),
            (at::GENERATOR_FRAME, row.tasks[2]),
        ]);
        Self { offsets, filename: row.code[1], name: row.code[2], kind_shift: 2 }
    }

    /// Reads the layout from the `_Py_DebugOffsets` at an address in the file. The order of the words depends on the
    /// version; a pre-release may differ from the release.
    pub fn of_file(file: &File<'_>, runtime: u64) -> Option<Self> {
        let word = |index: u64| file.u64(runtime.wrapping_add(8 * index));
        if file.bytes(runtime, 8)? != b"xdebugpy" {
            return None;
        }
        let version = word(1)?;
        // `PY_VERSION_HEX`: minor version, and 0xf for releases.
        let words: [u64; 18] = match (version >> 16 & 0xff, version >> 4 & 15) {
            (13, 15) => [5, 8, 9, 21, 24, 23, 30, 29, 31, 33, 45, 39, 35, 37, 43, 38, 69, 68],
            (14, 15) => [5, 8, 9, 24, 27, 26, 33, 32, 34, 36, 51, 44, 40, 42, 48, 43, 79, 78],
            _ => return None,
        };
        let ascii_size = word(if version >> 16 & 0xff == 13 { 70 } else { 80 })?;
        let fields = [
            at::INTERPRETERS,
            at::NEXT_INTERPRETER,
            at::THREADS,
            at::NEXT_THREAD,
            at::THREAD_ID,
            at::FRAME,
            at::CODE,
            at::PREVIOUS,
            at::INSTRUCTION,
            at::OWNER,
            at::TYPE,
            at::FIRST_LINE,
            at::FILENAME,
            at::NAME,
            at::BYTECODE,
            at::LINES,
            at::STR_LENGTH,
            at::STR_STATE,
        ];
        let mut offsets = [NO; Interpreter::OFFSETS];
        for (field, index) in fields.into_iter().zip(words) {
            // Bytes of a frame and of a code object that the walker reads at once.
            let most = match field {
                at::CODE | at::PREVIOUS | at::INSTRUCTION | at::OWNER => 120,
                at::TYPE | at::FIRST_LINE | at::FILENAME | at::NAME => 152,
                _ => 1 << 24,
            };
            // Each object has at least its reference count before its type.
            let least = if field == at::TYPE { 8 } else { 0 };
            let offset = u32::try_from(word(index)?).ok();
            offsets[field] = offset.filter(|offset| (least..most).contains(offset))?;
        }
        // Of asyncio's tasks, only the layout of builds with the global lock is known.
        if offsets[at::TYPE] == 8 {
            let (local, top) = match version >> 16 & 0xff {
                13 => (word(32)?, 64),
                _ => (word(35)?, word(37)?),
            };
            let least = u64::from(offsets[at::OWNER]);
            let is_known = |offset: u64| (8..256).contains(&offset);
            if is_known(top) && is_known(local) && local > least {
                offsets[at::FIRST_LOCAL] = local as u32;
                offsets[at::STACK_TOP] = top as u32;
                offsets[at::GENERATOR_FRAME] = GENERATOR_FRAME;
            }
        }
        // `PyCompactUnicodeObject` has two words more than `PyASCIIObject`.
        let ascii_size = u32::try_from(ascii_size).ok().filter(|size| *size < 256)?;
        offsets[at::STR_ASCII] = ascii_size;
        offsets[at::STR_OTHER] = ascii_size + 16;
        offsets[at::NO_FUNCTION] = 3;
        let (filename, name) = (offsets[at::FILENAME], offsets[at::NAME]);
        let mut kind_shift = 2;
        // In free-threaded builds from 3.14 on, `interned` is a byte of its own, and each thread runs a copy of the
        // bytecode, so an offset in it leads to no line.
        if word(2)? == 1 && version >> 16 & 0xff >= 14 {
            kind_shift = 8;
            offsets[at::LINES] = NO;
        }
        Some(Self { filename, name, offsets, kind_shift })
    }

    /// Offset of the line table in code objects, if lines can be found.
    pub fn lines(&self) -> Option<u32> {
        Some(self.offsets[at::LINES]).filter(|offset| *offset != NO)
    }

    /// Returns the offsets for the in-kernel programs.
    pub fn offsets(&self, minor: u32) -> [u32; Interpreter::OFFSETS] {
        let mut offsets = self.offsets;
        offsets[at::MINOR] = minor;
        offsets[at::STR_KIND] = self.kind_shift;
        let end_of = |fields: &[usize]| {
            let known = fields.iter().map(|field| offsets[*field]).filter(|offset| *offset != NO);
            known.max().map_or(0, |last| last.next_multiple_of(8) + 8)
        };
        let frame = [at::CODE, at::PREVIOUS, at::INSTRUCTION, at::OWNER, at::IS_ENTRY];
        let code = [at::TYPE, at::FIRST_LINE, at::FILENAME, at::NAME];
        let (frame, code) = (end_of(&frame), end_of(&code));
        offsets[at::FRAME_BYTES] = frame;
        offsets[at::CODE_BYTES] = code;
        // `PyVarObject` and the hash; in free-threaded builds, objects have 16 bytes more at the start.
        let more = offsets[at::TYPE] - 8;
        offsets[at::BYTES_SIZE] = 16 + more;
        offsets[at::BYTES_DATA] = 32 + more;
        offsets
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measured::Measured;

    #[test]
    fn offsets_are_those_of_the_headers() {
        let table = include_str!("../../../../benches/languages/offsets/tables/python.txt");
        let fields = [
            (at::INTERPRETERS, "interpreters"),
            (at::NEXT_INTERPRETER, "interpreter_next"),
            (at::THREADS, "interpreter_threads"),
            (at::NEXT_THREAD, "thread_next"),
            (at::THREAD_ID, "thread_id"),
            (at::CFRAME, "thread_cframe"),
            (at::CODE, "frame_code"),
            (at::PREVIOUS, "frame_previous"),
            (at::INSTRUCTION, "frame_instruction"),
            (at::OWNER, "frame_owner"),
            (at::IS_ENTRY, "frame_is_entry"),
            (at::TYPE, "object_type"),
            (at::FIRST_LINE, "code_first_line"),
            (at::FILENAME, "code_file"),
            (at::BYTECODE, "code_instructions"),
            (at::LINES, "code_lines"),
            (at::STR_LENGTH, "string_length"),
            (at::STR_STATE, "string_state"),
            (at::STR_ASCII, "string_ascii_data"),
            (at::STR_OTHER, "string_other_data"),
        ];
        let columns = Measured::columns(table);
        assert!(columns.iter().map(Measured::minor).eq([8, 9, 9, 10, 11, 11, 12]));
        for column in &columns {
            let offsets = Layout::of_version(column.minor()).unwrap().offsets(column.minor());
            for (field, name) in fields {
                let measured = column.value(name).unwrap_or(NO);
                assert_eq!(offsets[field], measured, "{name} of {}", column.version);
            }
            let frame = column.value("thread_frame").or(column.value("cframe_frame"));
            assert_eq!(Some(offsets[at::FRAME]), frame, "frame of {}", column.version);
            let name = column.value("code_qualified_name").or(column.value("code_name"));
            assert_eq!(Some(offsets[at::NAME]), name, "name of {}", column.version);
        }
    }
}
