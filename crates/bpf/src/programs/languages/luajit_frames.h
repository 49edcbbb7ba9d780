// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Native frames of LuaJIT: those of its interpreter, which is written in assembler, and those of compiled code (traces),
// which no table describes.
//
// Each call of the interpreter by C has one frame of 80 bytes on the C stack (`lj_frame.h` of LuaJIT, x64), its "C frame":
// from the lowest address on a number, what is returned, the coroutine, an instruction, the C frame before, 8 bytes, r14, r15,
// rbx, rbp and the return address. A trace is jumped to from there: it keeps r12 in the first word of that frame, r13
// below, and what it needs below that. The coroutine that runs has the address of its innermost C frame. In the
// interpreter and in traces, r14 is where the table of instructions is, at a fixed distance from the global state.

#ifndef PYROGRAPH_LUAJIT_FRAMES_H
#define PYROGRAPH_LUAJIT_FRAMES_H

enum luajit_symbol {
	// The code in assembler.
	LUAJIT_VM_START,
	LUAJIT_VM_END,
};

enum luajit_offset {
	// In the global state, and how much lower that is than the table of instructions.
	LUAJIT_CURRENT,
	LUAJIT_JIT_BASE,
	LUAJIT_VM_STATE,
	LUAJIT_DISPATCH_TO_GLOBAL,
	// In a coroutine.
	LUAJIT_GLOBAL,
	LUAJIT_BASE,
	LUAJIT_STACK,
	LUAJIT_STACK_SIZE,
	LUAJIT_C_FRAME,
	// In a function.
	LUAJIT_KIND,
	LUAJIT_CODE,
	// In a prototype, and its size.
	LUAJIT_PROTOTYPE_SIZE,
	LUAJIT_INSTRUCTIONS,
	LUAJIT_CHUNK,
	LUAJIT_FIRST_LINE,
	LUAJIT_LINE_COUNT,
	// Of all objects, and types.
	LUAJIT_TYPE,
	LUAJIT_TYPE_PROTOTYPE,
	LUAJIT_TYPE_COROUTINE,
	// In the global state: the addresses of traces by number. NO_OFFSET: what is in them is not known.
	LUAJIT_TRACES,
};

// In a C frame.
#define LUAJIT_C_RESULTS 8
#define LUAJIT_C_COROUTINE 16
#define LUAJIT_C_SAVED 40
#define LUAJIT_C_SIZE 80
// The lower bits of its address are flags.
#define LUAJIT_C_FLAGS 3ull
// What traces and what handles their ends have below a C frame, at most.
#define LUAJIT_TRACE_STACK (1 << 16)

static __always_inline u64 luajit_offset(struct interpreter *it, u32 which)
{
	return it->offsets[index_below(INTERPRETER_OFFSETS, which)];
}

static __always_inline u64 luajit_word(struct task_struct *other, u64 address)
{
	u64 value = 0;

	if (address < 4096 || read_user(other, &value, 8, address))
		return 0;
	return value;
}

// The innermost frame is the first one that is come to.
static __always_inline void note_luajit(struct scratch *s, u64 c_frame, u32 is_trace)
{
	struct luajit_frame *frame = &s->luajit;

	if (frame->number)
		return;
	frame->number = s->user.len;
	frame->is_trace = is_trace;
	frame->c_frame = c_frame;
	frame->base = s->user.len == 1 && !s->called ? s->registers[RDX] : 0;
	frame->rbp = s->known & 1 << RBP ? s->registers[RBP] : 0;
	frame->instruction = s->known & 1 << RBX ? s->registers[RBX] : 0;
	frame->ip = s->ip - s->called;
}

// Goes to what a C frame returns to.
static __always_inline int leave_luajit_frame(struct scratch *s, struct task_struct *other, u64 c_frame,
					      u32 is_trace)
{
	if (read_user(other, s->words, 40, c_frame + LUAJIT_C_SAVED) || !s->words[4])
		return 0;
	s->registers[R14] = s->words[0];
	s->registers[R15] = s->words[1];
	s->registers[RBX] = s->words[2];
	s->registers[RBP] = s->words[3];
	s->registers[RSP] = c_frame + LUAJIT_C_SIZE;
	s->ip = s->words[4];
	s->known = PRESERVED & ~(1 << R12 | 1 << R13);
	if (is_trace && !read_user(other, s->words, 16, c_frame - 8)) {
		s->registers[R13] = s->words[0];
		s->registers[R12] = s->words[1];
		s->known = PRESERVED;
	}
	s->called = 1;
	s->chained = 0;
	return 1;
}

// Leaves the last frame if it is one of a trace, or of the interpreter where its table for unwinding is not right: when a
// trace ends. Returns 0 if it is to be left as others are.
static __always_inline int leave_luajit(struct scratch *s, struct task_struct *other)
{
	u64 dispatch, global, coroutine, sp, at, c_frame;
	struct interpreter *it;
	u32 row, is_trace;

	if (!(config.languages & 1u << LANGUAGE_LUAJIT) || !(s->known & 1 << R14) || !s->user.len)
		return 0;
	dispatch = s->registers[R14];
	sp = s->registers[RSP];
	at = s->ip - s->called;
	is_trace = s->mapping.module == MODULE_ANONYMOUS;
	// The table of instructions has addresses of the interpreter's code.
	if (is_trace) {
		at = dispatch & 7 ? 0 : luajit_word(other, dispatch);
		if (!at || !find_mapping(s, at))
			return 0;
	}
	if (!s->mapping.interpreter)
		return 0;
	row = s->mapping.interpreter - 1;
	it = bpf_map_lookup_elem(&interpreters, &row);
	if (!it || it->language != LANGUAGE_LUAJIT)
		return 0;
	at += s->mapping.to_frame + it->to_address;
	if (at < it->symbols[LUAJIT_VM_START] || at >= it->symbols[LUAJIT_VM_END])
		return 0;
	global = dispatch - luajit_offset(it, LUAJIT_DISPATCH_TO_GLOBAL);
	coroutine = luajit_word(other, global + luajit_offset(it, LUAJIT_CURRENT));
	if (!coroutine || luajit_word(other, coroutine + luajit_offset(it, LUAJIT_GLOBAL)) != global)
		return 0;
	if (is_trace) {
		// Other code may be made at run time: by which C calls Lua.
		if (!luajit_word(other, global + luajit_offset(it, LUAJIT_JIT_BASE)))
			return 0;
		note_interpreter(s);
	} else {
		u64 own = luajit_word(other, sp + LUAJIT_C_COROUTINE);

		if (own && luajit_word(other, own + luajit_offset(it, LUAJIT_GLOBAL)) == global) {
			note_luajit(s, sp, 0);
			return 0;
		}
	}
	c_frame = luajit_word(other, coroutine + luajit_offset(it, LUAJIT_C_FRAME)) & ~LUAJIT_C_FLAGS;
	if (c_frame & 7 || c_frame < sp || c_frame - sp > LUAJIT_TRACE_STACK ||
	    luajit_word(other, c_frame + LUAJIT_C_COROUTINE) != coroutine)
		return 0;
	note_luajit(s, c_frame, is_trace);
	return leave_luajit_frame(s, other, c_frame, is_trace);
}

// A global function: the verifier checks it once, and not for each way to it.
__noinline int leave_luajit_here(struct scratch *s)
{
	return s ? leave_luajit(s, NULL) : 0;
}

#endif
