//! The layout of LuaJIT's states, functions and prototypes with 64-bit references (GC64).
//!
//! Made by `benches/languages/offsets/offsets generate`, which has the headers
//! that these are from; x86-64.

/// Offsets in bytes and types of some versions of LuaJIT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// `global_State.cur_L`, the coroutine that runs, outside of compiled code too.
    pub(crate) global_current: u32,
    /// `global_State.jit_base`, the base of the frame that entered compiled code; null outside of it.
    pub(crate) global_jit_base: u32,
    /// `global_State.vmstate`, 32 bits: negated, what runs; 0 and above, the trace.
    pub(crate) global_vm_state: u32,
    /// How much lower `global_State` is than the dispatch table, which is in r14.
    pub(crate) dispatch_to_global: u32,
    /// `lua_State.glref`.
    pub(crate) state_global: u32,
    /// `lua_State.base`, of the innermost frame; stale while Lua runs.
    pub(crate) state_base: u32,
    /// `lua_State.stack`, its lowest address.
    pub(crate) state_stack: u32,
    /// `lua_State.stacksize`, 32 bits, in slots of 8 bytes.
    pub(crate) state_stack_size: u32,
    /// `lua_State.cframe`, the innermost call of the interpreter on the C stack.
    pub(crate) state_c_frame: u32,
    /// `ffid`, a byte: 0 in Lua, 1 in C, above that built in.
    pub(crate) function_kind: u32,
    /// `pc`: the first instruction, which is behind the prototype.
    pub(crate) function_code: u32,
    /// The size of a `GCproto`: it is that much lower than the first instruction.
    pub(crate) prototype_size: u32,
    /// `sizebc`, 32 bits, in instructions of 4 bytes.
    pub(crate) prototype_instructions: u32,
    /// `chunkname`, a string: `@FILE` or `=NAME`.
    pub(crate) prototype_chunk: u32,
    /// `firstline`, 32 bits.
    pub(crate) prototype_first_line: u32,
    /// `numline`, 32 bits: below 256, 65,536 or above, a line takes 1, 2 or 4 bytes.
    pub(crate) prototype_line_count: u32,
    /// `lineinfo`, the lines of the instructions behind the first, less the first line.
    pub(crate) prototype_lines: u32,
    /// `gct`, a byte.
    pub(crate) object_type: u32,
    /// The `gct` of a prototype.
    pub(crate) type_prototype: u32,
    /// The `gct` of a coroutine.
    pub(crate) type_coroutine: u32,
    /// `GCstr.len`, 32 bits.
    pub(crate) string_length: u32,
    /// The characters of a string.
    pub(crate) string_data: u32,
}

const V2016_11_04_OPENRESTY: Layout = Layout {
    global_current: 344,
    global_jit_base: 352,
    global_vm_state: 128,
    dispatch_to_global: 3928,
    state_global: 16,
    state_base: 32,
    state_stack: 56,
    state_stack_size: 88,
    state_c_frame: 80,
    function_kind: 10,
    function_code: 32,
    prototype_size: 104,
    prototype_instructions: 12,
    prototype_chunk: 64,
    prototype_first_line: 72,
    prototype_line_count: 76,
    prototype_lines: 80,
    object_type: 9,
    type_prototype: 7,
    type_coroutine: 6,
    string_length: 16,
    string_data: 24,
};

const V2017_01_17: Layout = Layout { dispatch_to_global: 3920, ..V2016_11_04_OPENRESTY };

const V2020_05_22: Layout = Layout { dispatch_to_global: 3912, ..V2017_01_17 };

const V2020_06_15: Layout = Layout { dispatch_to_global: 3936, ..V2020_05_22 };

const V2020_06_23: Layout = Layout {
    global_current: 360,
    global_jit_base: 368,
    global_vm_state: 176,
    dispatch_to_global: 3952,
    string_length: 20,
    ..V2020_06_15
};

const V2020_09_30: Layout = Layout {
    global_current: 368,
    global_jit_base: 376,
    global_vm_state: 184,
    dispatch_to_global: 3960,
    ..V2020_06_23
};

const V2020_10_01_OPENRESTY: Layout = Layout { dispatch_to_global: 4000, ..V2020_06_23 };

const V2020_10_08_OPENRESTY: Layout = Layout { dispatch_to_global: 3992, ..V2020_06_23 };

const V2020_10_12_OPENRESTY: Layout = Layout { dispatch_to_global: 4000, ..V2020_09_30 };

const V2021_03_23: Layout = Layout { dispatch_to_global: 3968, ..V2020_09_30 };

const V2021_12_10_OPENRESTY: Layout = Layout { dispatch_to_global: 4008, ..V2021_03_23 };

const V2024_04_19: Layout = Layout { dispatch_to_global: 3976, ..V2021_03_23 };

const V2025_01_17_OPENRESTY: Layout = Layout { dispatch_to_global: 4016, ..V2024_04_19 };

const V2025_11_06: Layout = Layout { dispatch_to_global: 3992, ..V2024_04_19 };

const V2025_11_10: Layout =
    Layout { global_current: 376, global_jit_base: 384, ..V2020_10_12_OPENRESTY };

const V2026_08_24_OPENRESTY: Layout = Layout { dispatch_to_global: 4040, ..V2025_11_10 };

/// All that are known: a version does not say which it has.
pub(crate) const LAYOUTS: [Layout; 16] = [
    V2016_11_04_OPENRESTY,
    V2017_01_17,
    V2020_05_22,
    V2020_06_15,
    V2020_06_23,
    V2020_09_30,
    V2020_10_01_OPENRESTY,
    V2020_10_08_OPENRESTY,
    V2020_10_12_OPENRESTY,
    V2021_03_23,
    V2021_12_10_OPENRESTY,
    V2024_04_19,
    V2025_01_17_OPENRESTY,
    V2025_11_06,
    V2025_11_10,
    V2026_08_24_OPENRESTY,
];
