// Offsets of LuaJIT's states, functions and prototypes with 64-bit references, by the headers of its source.
#include "lj_obj.h"
#include "lj_dispatch.h"
#include "lj_jit.h"
#include "lj_frame.h"
#include "probe.h"

#if !LJ_GC64 || !LJ_FR2
#error "not GC64"
#endif

void fields(void) {
    FIELD("global_current", "`global_State.cur_L`, the coroutine that runs, outside of compiled code too.",
          offsetof(global_State, cur_L));
    FIELD("global_jit_base", "`global_State.jit_base`, the base of the frame that entered compiled code; null outside of it.",
          offsetof(global_State, jit_base));
    FIELD("global_vm_state", "`global_State.vmstate`, 32 bits: negated, what runs; 0 and above, the trace.",
          offsetof(global_State, vmstate));
    FIELD("dispatch_to_global", "How much lower `global_State` is than the dispatch table, which is in r14.", GG_G2DISP);

    FIELD("state_global", "`lua_State.glref`.", offsetof(lua_State, glref));
    FIELD("state_base", "`lua_State.base`, of the innermost frame; stale while Lua runs.", offsetof(lua_State, base));
    FIELD("state_stack", "`lua_State.stack`, its lowest address.", offsetof(lua_State, stack));
    FIELD("state_stack_size", "`lua_State.stacksize`, 32 bits, in slots of 8 bytes.", offsetof(lua_State, stacksize));
    FIELD("state_c_frame", "`lua_State.cframe`, the innermost call of the interpreter on the C stack.",
          offsetof(lua_State, cframe));

    FIELD("function_kind", "`ffid`, a byte: 0 in Lua, 1 in C, above that built in.", offsetof(GCfunc, l.ffid));
    FIELD("function_code", "`pc`: the first instruction, which is behind the prototype.", offsetof(GCfunc, l.pc));
    FIELD("prototype_size", "The size of a `GCproto`: it is that much lower than the first instruction.", sizeof(GCproto));
    FIELD("prototype_instructions", "`sizebc`, 32 bits, in instructions of 4 bytes.", offsetof(GCproto, sizebc));
    FIELD("prototype_chunk", "`chunkname`, a string: `@FILE` or `=NAME`.", offsetof(GCproto, chunkname));
    FIELD("prototype_first_line", "`firstline`, 32 bits.", offsetof(GCproto, firstline));
    FIELD("prototype_line_count", "`numline`, 32 bits: below 256, 65,536 or above, a line takes 1, 2 or 4 bytes.",
          offsetof(GCproto, numline));
    FIELD("prototype_lines", "`lineinfo`, the lines of the instructions behind the first, less the first line.",
          offsetof(GCproto, lineinfo));
    FIELD("object_type", "`gct`, a byte.", offsetof(GChead, gct));
    FIELD("type_prototype", "The `gct` of a prototype.", (unsigned char)~LJ_TPROTO);
    FIELD("type_coroutine", "The `gct` of a coroutine.", (unsigned char)~LJ_TTHREAD);
    FIELD("string_length", "`GCstr.len`, 32 bits.", offsetof(GCstr, len));
    FIELD("string_data", "The characters of a string.", sizeof(GCstr));
}
