//! The layout of the Zend engine's frames and functions, by version.
//!
//! Made by `benches/languages/offsets/offsets generate`, which has the headers
//! that these are from; x86-64.

/// Offsets in bytes and flags of one version of PHP, with or without threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// `current_execute_data` in `executor_globals`.
    pub(crate) current_frame: u32,
    /// `zend_execute_data.opline`.
    pub(crate) frame_instruction: u32,
    /// `zend_execute_data.func`; null in frames that are no calls.
    pub(crate) frame_function: u32,
    /// `ZEND_CALL_INFO`, 32 bits.
    pub(crate) frame_call_info: u32,
    /// `zend_execute_data.prev_execute_data`, the caller's frame.
    pub(crate) frame_previous: u32,
    /// `ZEND_CALL_TOP` of the call info: C called this frame.
    pub(crate) call_top: u32,
    /// `ZEND_CALL_CODE` of the call info: code of a file or `eval`, not of a function.
    pub(crate) call_code: u32,
    /// `ZEND_CALL_GENERATOR` of the call info.
    pub(crate) call_generator: u32,
    /// `zend_function.type`, a byte.
    pub(crate) function_type: u32,
    /// `fn_flags`, 32 bits.
    pub(crate) function_flags: u32,
    /// `function_name`, a `zend_string`; null for code of a file or `eval`.
    pub(crate) function_name: u32,
    /// `scope`, the class; null outside of classes.
    pub(crate) function_class: u32,
    /// `op_array.filename`, a `zend_string`.
    pub(crate) function_file: u32,
    /// `op_array.line_start`, 32 bits.
    pub(crate) function_first_line: u32,
    /// `op_array.opcodes`.
    pub(crate) function_instructions: u32,
    /// `op_array.last`, 32 bits.
    pub(crate) function_instruction_count: u32,
    /// `ZEND_INTERNAL_FUNCTION`, written in C.
    pub(crate) type_internal: u32,
    /// `ZEND_USER_FUNCTION`.
    pub(crate) type_user: u32,
    /// `ZEND_EVAL_CODE`.
    pub(crate) type_eval: u32,
    /// `ZEND_ACC_CLOSURE` of `fn_flags`.
    pub(crate) flag_closure: u32,
    /// The size of a `zend_op`.
    pub(crate) instruction_size: u32,
    /// `zend_op.lineno`, 32 bits.
    pub(crate) instruction_line: u32,
    /// `zend_class_entry.name`, a `zend_string`.
    pub(crate) class_name: u32,
    /// `zend_string.len`.
    pub(crate) string_length: u32,
    /// `zend_string.val`.
    pub(crate) string_data: u32,
}

const V7_4: Layout = Layout {
    current_frame: 488,
    frame_instruction: 0,
    frame_function: 24,
    frame_call_info: 40,
    frame_previous: 48,
    call_top: 0x20000,
    call_code: 0x10000,
    call_generator: 0x1000000,
    function_type: 0,
    function_flags: 4,
    function_name: 8,
    function_class: 16,
    function_file: 136,
    function_first_line: 144,
    function_instructions: 64,
    function_instruction_count: 60,
    type_internal: 1,
    type_user: 2,
    type_eval: 4,
    flag_closure: 0x100000,
    instruction_size: 32,
    instruction_line: 24,
    class_name: 8,
    string_length: 16,
    string_data: 24,
};

const V8_0: Layout = Layout {
    function_file: 144,
    function_first_line: 152,
    function_instructions: 72,
    function_instruction_count: 68,
    flag_closure: 0x400000,
    ..V7_4
};

const V8_2: Layout = Layout {
    function_file: 152,
    function_first_line: 160,
    function_instructions: 88,
    function_instruction_count: 80,
    ..V8_0
};

const V8_3: Layout = Layout { function_instructions: 80, function_instruction_count: 76, ..V8_0 };

const V8_4: Layout = Layout {
    function_file: 168,
    function_first_line: 176,
    function_instructions: 104,
    function_instruction_count: 96,
    ..V8_3
};

const V8_5: Layout = Layout { current_frame: 512, ..V8_4 };

/// The layout of PHP `major`.`minor`; `None` if it is not known.
pub(crate) fn layout(major: u32, minor: u32) -> Option<Layout> {
    let layout = match (major, minor) {
        (7, 4) => V7_4,
        (8, 0) | (8, 1) => V8_0,
        (8, 2) => V8_2,
        (8, 3) => V8_3,
        (8, 4) => V8_4,
        (8, 5) => V8_5,
        _ => return None,
    };
    Some(layout)
}
