// Offsets of the Zend engine's frames and functions, by php's headers.
#include <zend.h>
#include <zend_compile.h>
#include <zend_globals.h>
#include <zend_string.h>
#include "probe.h"

void fields(void) {
    FIELD("current_frame", "`current_execute_data` in `executor_globals`.",
          offsetof(zend_executor_globals, current_execute_data));
    FIELD("frame_instruction", "`zend_execute_data.opline`.", offsetof(zend_execute_data, opline));
    FIELD("frame_function", "`zend_execute_data.func`; null in frames that are no calls.", offsetof(zend_execute_data, func));
    FIELD("frame_call_info", "`ZEND_CALL_INFO`, 32 bits.", offsetof(zend_execute_data, This.u1.type_info));
    FIELD("frame_previous", "`zend_execute_data.prev_execute_data`, the caller's frame.",
          offsetof(zend_execute_data, prev_execute_data));
    FIELD("call_top", "`ZEND_CALL_TOP` of the call info: C called this frame.", ZEND_CALL_TOP);
    FIELD("call_code", "`ZEND_CALL_CODE` of the call info: code of a file or `eval`, not of a function.", ZEND_CALL_CODE);
    FIELD("call_generator", "`ZEND_CALL_GENERATOR` of the call info.", ZEND_CALL_GENERATOR);

    FIELD("function_type", "`zend_function.type`, a byte.", offsetof(zend_function, type));
    FIELD("function_flags", "`fn_flags`, 32 bits.", offsetof(zend_function, common.fn_flags));
    FIELD("function_name", "`function_name`, a `zend_string`; null for code of a file or `eval`.",
          offsetof(zend_function, common.function_name));
    FIELD("function_class", "`scope`, the class; null outside of classes.", offsetof(zend_function, common.scope));
    FIELD("function_file", "`op_array.filename`, a `zend_string`.", offsetof(zend_function, op_array.filename));
    FIELD("function_first_line", "`op_array.line_start`, 32 bits.", offsetof(zend_function, op_array.line_start));
    FIELD("function_instructions", "`op_array.opcodes`.", offsetof(zend_function, op_array.opcodes));
    FIELD("function_instruction_count", "`op_array.last`, 32 bits.", offsetof(zend_function, op_array.last));
    FIELD("type_internal", "`ZEND_INTERNAL_FUNCTION`, written in C.", ZEND_INTERNAL_FUNCTION);
    FIELD("type_user", "`ZEND_USER_FUNCTION`.", ZEND_USER_FUNCTION);
    FIELD("type_eval", "`ZEND_EVAL_CODE`.", ZEND_EVAL_CODE);
    FIELD("flag_closure", "`ZEND_ACC_CLOSURE` of `fn_flags`.", ZEND_ACC_CLOSURE);

    FIELD("instruction_size", "The size of a `zend_op`.", sizeof(zend_op));
    FIELD("instruction_line", "`zend_op.lineno`, 32 bits.", offsetof(zend_op, lineno));
    FIELD("class_name", "`zend_class_entry.name`, a `zend_string`.", offsetof(zend_class_entry, name));
    FIELD("string_length", "`zend_string.len`.", offsetof(zend_string, len));
    FIELD("string_data", "`zend_string.val`.", offsetof(zend_string, val));
}
