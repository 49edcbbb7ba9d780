// Offsets of CPython's runtime, frames, code objects and strings to 3.12, by the headers for its core.
#define Py_BUILD_CORE 1
#include <Python.h>
#include <frameobject.h>
#include <internal/pycore_pystate.h>
#if PY_VERSION_HEX >= 0x03090000
#include <internal/pycore_interp.h>
#include <internal/pycore_runtime.h>
#endif
#if PY_VERSION_HEX >= 0x030b0000
#include <internal/pycore_frame.h>
#endif
#include "probe.h"

#define HAS(minor) (PY_VERSION_HEX >= (0x03000000 | (minor) << 16))
#include "python-strings.h"

void fields(void) {
    FIELD("interpreters", "`interpreters.head` in `_PyRuntime`.", offsetof(_PyRuntimeState, interpreters.head));
#if HAS(12)
    FIELD("gil_key", "`autoTSSkey` in `_PyRuntime`: whether it is there, then a pthread key.",
          offsetof(_PyRuntimeState, autoTSSkey));
#else
    FIELD("gil_key", "`autoTSSkey` in `_PyRuntime`: whether it is there, then a pthread key.",
          offsetof(_PyRuntimeState, gilstate.autoTSSkey));
#endif
    FIELD("interpreter_next", "`PyInterpreterState.next`.", offsetof(PyInterpreterState, next));
#if HAS(11)
    FIELD("interpreter_threads", "`PyInterpreterState.threads.head`, `tstate_head` to 3.10.",
          offsetof(PyInterpreterState, threads.head));
#else
    FIELD("interpreter_threads", "`PyInterpreterState.threads.head`, `tstate_head` to 3.10.",
          offsetof(PyInterpreterState, tstate_head));
#endif
    FIELD("thread_next", "`PyThreadState.next`.", offsetof(PyThreadState, next));
    FIELD("thread_interpreter", "`PyThreadState.interp`.", offsetof(PyThreadState, interp));
    FIELD("thread_id", "`PyThreadState.thread_id`, the `pthread_t`.", offsetof(PyThreadState, thread_id));
#if HAS(11)
    FIELD("thread_native_id", "`PyThreadState.native_thread_id`, the TID.", offsetof(PyThreadState, native_thread_id));
#else
    ABSENT("thread_native_id", "");
#endif
#if HAS(11)
    ABSENT("thread_frame", "");
    FIELD("thread_cframe", "`PyThreadState.cframe`, by which the innermost frame is found.", offsetof(PyThreadState, cframe));
    FIELD("cframe_frame", "`_PyCFrame.current_frame`.", offsetof(_PyCFrame, current_frame));
#else
    FIELD("thread_frame", "The innermost frame in `PyThreadState`.", offsetof(PyThreadState, frame));
    ABSENT("thread_cframe", "");
    ABSENT("cframe_frame", "");
#endif

#if HAS(11)
    FIELD("frame_code", "The code object.", offsetof(_PyInterpreterFrame, f_code));
    FIELD("frame_instruction", "The last instruction: `f_lasti`, 32 bits, in bytes to 3.9 and in units of two in 3.10; "
          "a pointer from 3.11.", offsetof(_PyInterpreterFrame, prev_instr));
    FIELD("frame_previous", "The caller's frame.", offsetof(_PyInterpreterFrame, previous));
    FIELD("frame_owner", "`owner`, a byte: `FRAME_OWNED_BY_CSTACK` is 3 in 3.12.", offsetof(_PyInterpreterFrame, owner));
#else
    FIELD("frame_code", "The code object.", offsetof(PyFrameObject, f_code));
    FIELD("frame_instruction", "The last instruction: `f_lasti`, 32 bits, in bytes to 3.9 and in units of two in 3.10; "
          "a pointer from 3.11.", offsetof(PyFrameObject, f_lasti));
    FIELD("frame_previous", "The caller's frame.", offsetof(PyFrameObject, f_back));
    ABSENT("frame_owner", "`owner`, a byte: `FRAME_OWNED_BY_CSTACK` is 3 in 3.12.");
#endif
#if HAS(11) && !HAS(12)
    FIELD("frame_is_entry", "`is_entry`, a byte: C called this frame.", offsetof(_PyInterpreterFrame, is_entry));
#else
    ABSENT("frame_is_entry", "`is_entry`, a byte: C called this frame.");
#endif

    FIELD("code_flags", "`co_flags`, 32 bits.", offsetof(PyCodeObject, co_flags));
    FIELD("code_file", "`co_filename`.", offsetof(PyCodeObject, co_filename));
    FIELD("code_name", "`co_name`.", offsetof(PyCodeObject, co_name));
#if HAS(11)
    FIELD("code_qualified_name", "`co_qualname`.", offsetof(PyCodeObject, co_qualname));
#else
    ABSENT("code_qualified_name", "`co_qualname`.");
#endif
    FIELD("code_first_line", "`co_firstlineno`, 32 bits.", offsetof(PyCodeObject, co_firstlineno));
#if HAS(10)
    FIELD("code_lines", "`co_linetable`, `co_lnotab` to 3.9: a `bytes` object.", offsetof(PyCodeObject, co_linetable));
#else
    FIELD("code_lines", "`co_linetable`, `co_lnotab` to 3.9: a `bytes` object.", offsetof(PyCodeObject, co_lnotab));
#endif
#if HAS(11)
    FIELD("code_instructions", "`co_code_adaptive`, the first instruction.", offsetof(PyCodeObject, co_code_adaptive));
#else
    ABSENT("code_instructions", "`co_code_adaptive`, the first instruction.");
#endif

    FIELD("object_type", "`ob_type`.", offsetof(PyObject, ob_type));
    FIELD("type_name", "`tp_name`, characters.", offsetof(PyTypeObject, tp_name));
    FIELD("bytes_size", "`ob_size` of a `bytes` object.", offsetof(PyVarObject, ob_size));
    FIELD("bytes_data", "`ob_sval` of a `bytes` object.", offsetof(PyBytesObject, ob_sval));
    FIELD("string_length", "`length` of a string, in characters.", offsetof(PyASCIIObject, length));
    FIELD("string_state", "`state` of a string, 32 bits.", offsetof(PyASCIIObject, state));
    STRING_STATE();
    FIELD("string_ascii_data", "The characters of an ASCII string.", sizeof(PyASCIIObject));
    FIELD("string_other_data", "The characters of any other compact string.", sizeof(PyCompactUnicodeObject));
}
