// Offsets of the Ruby VM's stacks, instruction sequences and strings, by the headers of its source.
#include "ruby/ruby.h"
#include "ruby/version.h"
#define VERSION (RUBY_API_VERSION_MAJOR * 100 + RUBY_API_VERSION_MINOR)
#if VERSION < 300
#include "internal.h"
#endif
#include "vm_core.h"
#include "method.h"
#include "iseq.h"
#if VERSION >= 300
#include "internal/class.h"
#endif
#include "probe.h"

#define BODY(field) offsetof(struct rb_iseq_constant_body, field)

void fields(void) {
    FIELD("context_stack", "`rb_execution_context_t.vm_stack`, its lowest address.",
          offsetof(rb_execution_context_t, vm_stack));
    FIELD("context_stack_size", "`vm_stack_size`, in words: above its highest are the frames, the outermost first.",
          offsetof(rb_execution_context_t, vm_stack_size));
    FIELD("context_frame", "`cfp`, the innermost frame.", offsetof(rb_execution_context_t, cfp));
    FIELD("context_thread", "`thread_ptr`, the thread.", offsetof(rb_execution_context_t, thread_ptr));

    FIELD("frame_size", "The size of a `rb_control_frame_t`; the caller's is that much higher.", sizeof(rb_control_frame_t));
    FIELD("frame_instruction", "`pc`, behind the instruction; null in a function in C.", offsetof(rb_control_frame_t, pc));
    FIELD("frame_stack_pointer", "`sp`.", offsetof(rb_control_frame_t, sp));
    FIELD("frame_iseq", "`iseq`; null in a function in C.", offsetof(rb_control_frame_t, iseq));
    FIELD("frame_self", "`self`.", offsetof(rb_control_frame_t, self));
    FIELD("frame_environment", "`ep`: the word at it has the frame's flags, the one before it the outer environment, and "
          "the second before it the method entry, if the environment is a method's own.", offsetof(rb_control_frame_t, ep));
    FIELD("frame_kind_mask", "`VM_FRAME_MAGIC_MASK` of the flags.", VM_FRAME_MAGIC_MASK);
    FIELD("frame_method", "`VM_FRAME_MAGIC_METHOD`.", VM_FRAME_MAGIC_METHOD);
    FIELD("frame_block", "`VM_FRAME_MAGIC_BLOCK`.", VM_FRAME_MAGIC_BLOCK);
    FIELD("frame_c_function", "`VM_FRAME_MAGIC_CFUNC`.", VM_FRAME_MAGIC_CFUNC);
    FIELD("frame_c_block", "`VM_FRAME_MAGIC_IFUNC`.", VM_FRAME_MAGIC_IFUNC);
    FIELD("frame_dummy", "`VM_FRAME_MAGIC_DUMMY`, the outermost frame of a thread.", VM_FRAME_MAGIC_DUMMY);
    FIELD("frame_finish", "`VM_FRAME_FLAG_FINISH` of the flags: C called this frame.", VM_FRAME_FLAG_FINISH);
    FIELD("environment_local", "`VM_ENV_FLAG_LOCAL` of the flags: the environment is a method's own.", VM_ENV_FLAG_LOCAL);

    FIELD("iseq_body", "`rb_iseq_t.body`.", offsetof(rb_iseq_t, body));
    FIELD("body_type", "`type`, 32 bits: what the sequence is of.", BODY(type));
    FIELD("body_size", "`iseq_size`, 32 bits, in words.", BODY(iseq_size));
    FIELD("body_instructions", "`iseq_encoded`, the first instruction.", BODY(iseq_encoded));
    FIELD("body_path", "`location.pathobj`: a string, or an array whose first is the path as given.", BODY(location.pathobj));
    FIELD("body_base_label", "`location.base_label`, a string: the name of the method.", BODY(location.base_label));
    FIELD("body_label", "`location.label`, a string: the same for blocks says so.", BODY(location.label));
    FIELD("body_first_line", "`location.first_lineno`: a `Fixnum` to 3.1, then 32 bits.", BODY(location.first_lineno));
    FIELD("body_lines", "`insns_info.body`, the lines.", BODY(insns_info.body));
    FIELD("body_lines_count", "`insns_info.size`, 32 bits.", BODY(insns_info.size));
    FIELD("body_lines_positions", "`insns_info.succ_index_table`, from an instruction to the index of its line.",
          BODY(insns_info.succ_index_table));
    FIELD("line_size", "The size of a `struct iseq_insn_info_entry`.", sizeof(struct iseq_insn_info_entry));
    FIELD("line_number", "`line_no`, 32 bits.", offsetof(struct iseq_insn_info_entry, line_no));
    FIELD("body_parent", "`parent_iseq`, what it is written in.", BODY(parent_iseq));
    FIELD("body_local", "`local_iseq`, the method or other code with variables of its own that it is written in.",
          BODY(local_iseq));
    FIELD("type_top", "`ISEQ_TYPE_TOP`, a file that was required.", ISEQ_TYPE_TOP);
    FIELD("type_method", "`ISEQ_TYPE_METHOD`.", ISEQ_TYPE_METHOD);
    FIELD("type_block", "`ISEQ_TYPE_BLOCK`.", ISEQ_TYPE_BLOCK);
    FIELD("type_class", "`ISEQ_TYPE_CLASS`, the body of a class.", ISEQ_TYPE_CLASS);
    FIELD("type_eval", "`ISEQ_TYPE_EVAL`.", ISEQ_TYPE_EVAL);
    FIELD("type_main", "`ISEQ_TYPE_MAIN`, the program.", ISEQ_TYPE_MAIN);

    FIELD("method_class", "`defined_class` of a method entry.", offsetof(rb_callable_method_entry_t, defined_class));
    FIELD("method_owner", "`owner` of a method entry.", offsetof(rb_callable_method_entry_t, owner));
    FIELD("method_definition", "`def` of a method entry.", offsetof(rb_callable_method_entry_t, def));
    FIELD("method_called_id", "`called_id` of a method entry.", offsetof(rb_callable_method_entry_t, called_id));
    FIELD("definition_original_id", "`original_id` of a definition.", offsetof(rb_method_definition_t, original_id));
    FIELD("memo_type_shift", "Where in `flags` the four bits are that say which object of the VM it is.", RUBY_FL_USHIFT);
    FIELD("memo_method", "`imemo_ment` of these: a method entry.", imemo_ment);

#if VERSION >= 303
    FIELD("class_path", "`classpath` of a class, a string or `nil`; to 3.1 it is among its variables.",
          offsetof(struct RClass_and_rb_classext_t, classext.classpath));
    FIELD("class_attached", "`as.singleton_class.attached_object`; to 3.1 it is among the variables.",
          offsetof(struct RClass_and_rb_classext_t, classext.as.singleton_class.attached_object));
#else
    ABSENT("class_path", "");
    ABSENT("class_attached", "");
#endif
#if VERSION == 302
    FIELD("class_values", "`iv_ptr` of a class: the values of its variables, in the order in which these were made; in 3.2.",
          sizeof(struct RClass) + offsetof(struct rb_classext_struct, iv_ptr));
#else
    ABSENT("class_values", "");
#endif
#if VERSION < 302
    FIELD("class_extension", "`ptr` of a class.", offsetof(struct RClass, ptr));
    FIELD("class_variables", "`iv_tbl` of what that points to, a `st_table`.", offsetof(struct rb_classext_struct, iv_tbl));
    FIELD("table_entries", "`entries` of a `st_table`: hash, key and value each.", offsetof(struct st_table, entries));
#else
    ABSENT("class_extension", "");
    ABSENT("class_variables", "");
    ABSENT("table_entries", "");
#endif
    FIELD("class_singleton", "`FL_SINGLETON` of the flags: the class of one object.", FL_SINGLETON);
    FIELD("type_class_object", "`T_CLASS`.", T_CLASS);
    FIELD("type_module_object", "`T_MODULE`.", T_MODULE);

    FIELD("object_flags", "`RBasic.flags`.", offsetof(struct RBasic, flags));
    FIELD("object_class", "`RBasic.klass`.", offsetof(struct RBasic, klass));
    FIELD("object_type_mask", "`T_MASK` of the flags.", T_MASK);
    FIELD("type_string", "`T_STRING`.", T_STRING);
    FIELD("type_array", "`T_ARRAY`.", T_ARRAY);
    FIELD("string_heap", "`RSTRING_NOEMBED` of the flags.", RSTRING_NOEMBED);
#if VERSION >= 303
    FIELD("string_length", "The length in the object; to 3.1 an embedded string's is in the flags.",
          offsetof(struct RString, len));
#else
    FIELD("string_length", "The length in the object; to 3.1 an embedded string's is in the flags.",
          offsetof(struct RString, as.heap.len));
#endif
#if VERSION >= 302
    ABSENT("string_embedded_shift", "");
    FIELD("string_embedded", "The characters of an embedded string.", offsetof(struct RString, as.embed.ary));
#else
    FIELD("string_embedded_shift", "Where in the flags the length of an embedded string is, five bits.",
          RSTRING_EMBED_LEN_SHIFT);
    FIELD("string_embedded", "The characters of an embedded string.", offsetof(struct RString, as));
#endif
    FIELD("string_interned", "`RSTRING_FSTR` of the flags: the only string of these characters.", RSTRING_FSTR);
    FIELD("string_pointer", "A pointer to the characters of any other.", offsetof(struct RString, as.heap.ptr));
    FIELD("array_embedded_flag", "`RARRAY_EMBED_FLAG` of the flags.", RARRAY_EMBED_FLAG);
    FIELD("array_embedded", "The elements of an embedded array.", offsetof(struct RArray, as.ary));
    FIELD("array_pointer", "A pointer to the elements of any other.", offsetof(struct RArray, as.heap.ptr));
}
