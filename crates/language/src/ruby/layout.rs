//! The layout of the Ruby VM's stacks, instruction sequences and strings, by version.
//!
//! Made by `benches/languages/offsets/offsets generate`, which has the headers
//! that these are from; x86-64.

/// Offsets in bytes, flags and types of one version of Ruby.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// `rb_execution_context_t.vm_stack`, its lowest address.
    pub(crate) context_stack: u32,
    /// `vm_stack_size`, in words: above its highest are the frames, the outermost first.
    pub(crate) context_stack_size: u32,
    /// `cfp`, the innermost frame.
    pub(crate) context_frame: u32,
    /// `thread_ptr`, the thread.
    pub(crate) context_thread: u32,
    /// The size of a `rb_control_frame_t`; the caller's is that much higher.
    pub(crate) frame_size: u32,
    /// `pc`, behind the instruction; null in a function in C.
    pub(crate) frame_instruction: u32,
    /// `sp`.
    pub(crate) frame_stack_pointer: u32,
    /// `iseq`; null in a function in C.
    pub(crate) frame_iseq: u32,
    /// `self`.
    pub(crate) frame_self: u32,
    /// `ep`: the word at it has the frame's flags, the one before it the outer environment, and the second before it the method entry, if the environment is a method's own.
    pub(crate) frame_environment: u32,
    /// `VM_FRAME_MAGIC_MASK` of the flags.
    pub(crate) frame_kind_mask: u32,
    /// `VM_FRAME_MAGIC_METHOD`.
    pub(crate) frame_method: u32,
    /// `VM_FRAME_MAGIC_BLOCK`.
    pub(crate) frame_block: u32,
    /// `VM_FRAME_MAGIC_CFUNC`.
    pub(crate) frame_c_function: u32,
    /// `VM_FRAME_MAGIC_IFUNC`.
    pub(crate) frame_c_block: u32,
    /// `VM_FRAME_MAGIC_DUMMY`, the outermost frame of a thread.
    pub(crate) frame_dummy: u32,
    /// `VM_FRAME_FLAG_FINISH` of the flags: C called this frame.
    pub(crate) frame_finish: u32,
    /// `VM_ENV_FLAG_LOCAL` of the flags: the environment is a method's own.
    pub(crate) environment_local: u32,
    /// `rb_iseq_t.body`.
    pub(crate) iseq_body: u32,
    /// `type`, 32 bits: what the sequence is of.
    pub(crate) body_type: u32,
    /// `iseq_size`, 32 bits, in words.
    pub(crate) body_size: u32,
    /// `iseq_encoded`, the first instruction.
    pub(crate) body_instructions: u32,
    /// `location.pathobj`: a string, or an array whose first is the path as given.
    pub(crate) body_path: u32,
    /// `location.base_label`, a string: the name of the method.
    pub(crate) body_base_label: u32,
    /// `location.label`, a string: the same for blocks says so.
    pub(crate) body_label: u32,
    /// `location.first_lineno`: a `Fixnum` to 3.1, then 32 bits.
    pub(crate) body_first_line: u32,
    /// `insns_info.body`, the lines.
    pub(crate) body_lines: u32,
    /// `insns_info.size`, 32 bits.
    pub(crate) body_lines_count: u32,
    /// `insns_info.succ_index_table`, from an instruction to the index of its line.
    pub(crate) body_lines_positions: u32,
    /// The size of a `struct iseq_insn_info_entry`.
    pub(crate) line_size: u32,
    /// `line_no`, 32 bits.
    pub(crate) line_number: u32,
    /// `parent_iseq`, what it is written in.
    pub(crate) body_parent: u32,
    /// `local_iseq`, the method or other code with variables of its own that it is written in.
    pub(crate) body_local: u32,
    /// `ISEQ_TYPE_TOP`, a file that was required.
    pub(crate) type_top: u32,
    /// `ISEQ_TYPE_METHOD`.
    pub(crate) type_method: u32,
    /// `ISEQ_TYPE_BLOCK`.
    pub(crate) type_block: u32,
    /// `ISEQ_TYPE_CLASS`, the body of a class.
    pub(crate) type_class: u32,
    /// `ISEQ_TYPE_EVAL`.
    pub(crate) type_eval: u32,
    /// `ISEQ_TYPE_MAIN`, the program.
    pub(crate) type_main: u32,
    /// `defined_class` of a method entry.
    pub(crate) method_class: u32,
    /// `owner` of a method entry.
    pub(crate) method_owner: u32,
    /// `def` of a method entry.
    pub(crate) method_definition: u32,
    /// `called_id` of a method entry.
    pub(crate) method_called_id: u32,
    /// `original_id` of a definition.
    pub(crate) definition_original_id: u32,
    /// Where in `flags` the four bits are that say which object of the VM it is.
    pub(crate) memo_type_shift: u32,
    /// `imemo_ment` of these: a method entry.
    pub(crate) memo_method: u32,
    /// `classpath` of a class, a string or `nil`; to 3.1 it is among its variables.
    pub(crate) class_path: Option<u32>,
    /// `as.singleton_class.attached_object`; to 3.1 it is among the variables.
    pub(crate) class_attached: Option<u32>,
    /// `iv_ptr` of a class: the values of its variables, in the order in which these were made; in 3.2.
    pub(crate) class_values: Option<u32>,
    /// `ptr` of a class.
    pub(crate) class_extension: Option<u32>,
    /// `iv_tbl` of what that points to, a `st_table`.
    pub(crate) class_variables: Option<u32>,
    /// `entries` of a `st_table`: hash, key and value each.
    pub(crate) table_entries: Option<u32>,
    /// `FL_SINGLETON` of the flags: the class of one object.
    pub(crate) class_singleton: u32,
    /// `T_CLASS`.
    pub(crate) type_class_object: u32,
    /// `T_MODULE`.
    pub(crate) type_module_object: u32,
    /// `RBasic.flags`.
    pub(crate) object_flags: u32,
    /// `RBasic.klass`.
    pub(crate) object_class: u32,
    /// `T_MASK` of the flags.
    pub(crate) object_type_mask: u32,
    /// `T_STRING`.
    pub(crate) type_string: u32,
    /// `T_ARRAY`.
    pub(crate) type_array: u32,
    /// `RSTRING_NOEMBED` of the flags.
    pub(crate) string_heap: u32,
    /// The length in the object; to 3.1 an embedded string's is in the flags.
    pub(crate) string_length: u32,
    /// Where in the flags the length of an embedded string is, five bits.
    pub(crate) string_embedded_shift: Option<u32>,
    /// The characters of an embedded string.
    pub(crate) string_embedded: u32,
    /// `RSTRING_FSTR` of the flags: the only string of these characters.
    pub(crate) string_interned: u32,
    /// A pointer to the characters of any other.
    pub(crate) string_pointer: u32,
    /// `RARRAY_EMBED_FLAG` of the flags.
    pub(crate) array_embedded_flag: u32,
    /// The elements of an embedded array.
    pub(crate) array_embedded: u32,
    /// A pointer to the elements of any other.
    pub(crate) array_pointer: u32,
}

const V2_7: Layout = Layout {
    context_stack: 0,
    context_stack_size: 8,
    context_frame: 16,
    context_thread: 56,
    frame_size: 56,
    frame_instruction: 0,
    frame_stack_pointer: 8,
    frame_iseq: 16,
    frame_self: 24,
    frame_environment: 32,
    frame_kind_mask: 0x7fff0001,
    frame_method: 0x11110001,
    frame_block: 0x22220001,
    frame_c_function: 0x55550001,
    frame_c_block: 0x66660001,
    frame_dummy: 0x79990001,
    frame_finish: 32,
    environment_local: 2,
    iseq_body: 16,
    body_type: 0,
    body_size: 4,
    body_instructions: 8,
    body_path: 64,
    body_base_label: 72,
    body_label: 80,
    body_first_line: 88,
    body_lines: 120,
    body_lines_count: 136,
    body_lines_positions: 144,
    line_size: 8,
    line_number: 0,
    body_parent: 168,
    body_local: 176,
    type_top: 0,
    type_method: 1,
    type_block: 2,
    type_class: 3,
    type_eval: 6,
    type_main: 7,
    method_class: 8,
    method_owner: 32,
    method_definition: 16,
    method_called_id: 24,
    definition_original_id: 32,
    memo_type_shift: 12,
    memo_method: 6,
    class_path: None,
    class_attached: None,
    class_values: None,
    class_extension: Some(24),
    class_variables: Some(8),
    table_entries: Some(48),
    class_singleton: 4096,
    type_class_object: 2,
    type_module_object: 3,
    object_flags: 0,
    object_class: 8,
    object_type_mask: 31,
    type_string: 5,
    type_array: 7,
    string_heap: 0x2000,
    string_length: 16,
    string_embedded_shift: Some(14),
    string_embedded: 16,
    string_interned: 0x20000000,
    string_pointer: 24,
    array_embedded_flag: 0x2000,
    array_embedded: 16,
    array_pointer: 32,
};

const V3_1: Layout = Layout { context_thread: 48, frame_size: 64, line_size: 12, ..V2_7 };

const V3_2: Layout = Layout {
    body_lines: 112,
    body_lines_count: 128,
    body_lines_positions: 136,
    body_parent: 160,
    body_local: 168,
    class_values: Some(32),
    class_extension: None,
    class_variables: None,
    table_entries: None,
    string_embedded_shift: None,
    string_embedded: 24,
    ..V3_1
};

const V3_3: Layout = Layout {
    frame_size: 56,
    class_path: Some(152),
    class_attached: Some(128),
    class_values: None,
    ..V3_2
};

const V3_4: Layout = Layout { class_singleton: 0x2000, ..V3_3 };

const V4_0: Layout =
    Layout { body_parent: 168, body_local: 176, class_attached: Some(136), ..V3_4 };

/// The layout of Ruby `major`.`minor`; `None` if it is not known.
pub(crate) fn layout(major: u32, minor: u32) -> Option<Layout> {
    let layout = match (major, minor) {
        (2, 7) | (3, 0) => V2_7,
        (3, 1) => V3_1,
        (3, 2) => V3_2,
        (3, 3) => V3_3,
        (3, 4) => V3_4,
        (4, 0) => V4_0,
        _ => return None,
    };
    Some(layout)
}
