// Where CPython 3.13 and later say the offsets themselves: words of `_Py_DebugOffsets`, by the headers for its core.
#define Py_BUILD_CORE 1
#include <Python.h>
#include <internal/pycore_interp.h>
#include <internal/pycore_runtime.h>
#include "probe.h"
#include "python-strings.h"

#define HAS(minor) (PY_VERSION_HEX >= (0x03000000 | (minor) << 16))
#define WORD(field) (offsetof(_Py_DebugOffsets, field) / 8)

void fields(void) {
    FIELD("words", "The length of `_Py_DebugOffsets` in words.", sizeof(_Py_DebugOffsets) / 8);
    FIELD("version", "Word: `PY_VERSION_HEX`.", WORD(version));
    FIELD("free_threaded", "Word: 1 if there is no GIL.", WORD(free_threaded));
    FIELD("interpreters", "Word: the first interpreter in `_PyRuntime`.", WORD(runtime_state.interpreters_head));
    FIELD("interpreter_next", "Word: `PyInterpreterState.next`.", WORD(interpreter_state.next));
    FIELD("interpreter_threads", "Word: `PyInterpreterState.threads.head`.", WORD(interpreter_state.threads_head));
    FIELD("thread_next", "Word: `PyThreadState.next`.", WORD(thread_state.next));
    FIELD("thread_interpreter", "Word: `PyThreadState.interp`.", WORD(thread_state.interp));
    FIELD("thread_frame", "Word: the innermost frame in `PyThreadState`.", WORD(thread_state.current_frame));
    FIELD("thread_id", "Word: `PyThreadState.thread_id`, the `pthread_t`.", WORD(thread_state.thread_id));
    FIELD("thread_native_id", "Word: `PyThreadState.native_thread_id`, the TID.", WORD(thread_state.native_thread_id));
#if HAS(15)
    FIELD("thread_base_frame", "Word: the frame outside of all, in `PyThreadState` itself and not on the C stack.",
          WORD(thread_state.base_frame));
#else
    ABSENT("thread_base_frame", "");
#endif
    FIELD("frame_previous", "Word: the caller's frame.", WORD(interpreter_frame.previous));
    FIELD("frame_code", "Word: the code object, with tags in the low two bits from 3.14.",
          WORD(interpreter_frame.executable));
    FIELD("frame_instruction", "Word: a pointer to the instruction.", WORD(interpreter_frame.instr_ptr));
    FIELD("frame_owner", "Word: `owner`, a byte: 3 or more between calls of the interpreter.",
          WORD(interpreter_frame.owner));
#if HAS(14)
    FIELD("frame_instructions_index", "Word: `tlbc_index`, 32 bits: which copy of the instructions the thread runs, "
          "without GIL.", WORD(interpreter_frame.tlbc_index));
    FIELD("code_instructions_copies", "Word: `co_tlbc`, the copies of the instructions: a length and pointers, without "
          "GIL.", WORD(code_object.co_tlbc));
#else
    ABSENT("frame_instructions_index", "");
    ABSENT("code_instructions_copies", "");
#endif
    FIELD("code_file", "Word: `co_filename`.", WORD(code_object.filename));
    FIELD("code_name", "Word: `co_name`.", WORD(code_object.name));
    FIELD("code_qualified_name", "Word: `co_qualname`.", WORD(code_object.qualname));
    FIELD("code_lines", "Word: `co_linetable`, a `bytes` object.", WORD(code_object.linetable));
    FIELD("code_first_line", "Word: `co_firstlineno`, 32 bits.", WORD(code_object.firstlineno));
    FIELD("code_instructions", "Word: `co_code_adaptive`, the first instruction.", WORD(code_object.co_code_adaptive));
    FIELD("object_type", "Word: `ob_type`.", WORD(pyobject.ob_type));
    FIELD("type_name", "Word: `tp_name`, characters.", WORD(type_object.tp_name));
    FIELD("bytes_size", "Word: `ob_size` of a `bytes` object.", WORD(bytes_object.ob_size));
    FIELD("bytes_data", "Word: `ob_sval` of a `bytes` object.", WORD(bytes_object.ob_sval));
    FIELD("string_state", "Word: `state` of a string, 32 bits.", WORD(unicode_object.state));
    FIELD("string_length", "Word: `length` of a string, in characters.", WORD(unicode_object.length));
    FIELD("string_ascii_data", "Word: the characters of an ASCII string.", WORD(unicode_object.asciiobject_size));

    // These are not among the words.
    FIELD("code_flags", "`co_flags`, 32 bits: an offset, not a word.", offsetof(PyCodeObject, co_flags));
    FIELD("string_other_data", "The characters of a string that is not ASCII: an offset, not a word.",
          sizeof(PyCompactUnicodeObject));
    STRING_STATE();
}
