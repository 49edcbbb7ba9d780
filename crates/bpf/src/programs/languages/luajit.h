// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Calls of Lua functions in LuaJIT, with references of 64 bits (GC64).
//
// A coroutine has a stack of slots of 8 bytes. A frame begins with two: the function, and what leads to the frame before
// ("link"; `lj_frame.h` of LuaJIT). If it was called by Lua, that is the instruction behind the call, of which the byte 1
// is how far the frames are apart; otherwise the distance in bytes, above 3 bits that are the frame's type. One run of the
// interpreter has the frames down to one that C has called; the native frame of each run has the coroutine at a fixed place.

#ifndef PYROGRAPH_LUAJIT_H
#define PYROGRAPH_LUAJIT_H

#include "calls.h"

// Types of frames: the lower bits of the link.
#define LUAJIT_FRAME_TYPE 7ull
enum {
	LUAJIT_FRAME_LUA,
	LUAJIT_FRAME_C,
	// A metamethod, behind which something else is done.
	LUAJIT_FRAME_CONTINUATION,
	// The frame again, above a variable number of arguments.
	LUAJIT_FRAME_VARIADIC,
	// As the first; it is the instruction's own bit.
	LUAJIT_FRAME_LUA_ODD,
	LUAJIT_FRAME_PROTECTED_C,
};
// A continuation that is a callback of C.
#define LUAJIT_CALLBACK 1
// A slot with a function: the type above 47 bits of the address.
#define LUAJIT_SLOT_SHIFT 47
#define LUAJIT_SLOT_FUNCTION 0x1fff7
#define LUAJIT_SLOT_POINTER ((1ull << LUAJIT_SLOT_SHIFT) - 1)
// Bytes of a coroutine, and of a function, that hold what is read.
#define LUAJIT_COROUTINE_SIZE 96
#define LUAJIT_FUNCTION_SIZE 48

// Traces have functions within one another for which there are no frames. A trace (`GCtrace` of `lj_jit.h`) has what its
// frames would be in snapshots, by how far its code has come: the distance of the code is 16 bits of the 12 of a snapshot.
#define LUAJIT_TRACE_SIZE 96
#define LUAJIT_TRACE_COUNT 10
#define LUAJIT_TRACE_CONSTANTS 32
#define LUAJIT_TRACE_SNAPSHOTS 48
#define LUAJIT_TRACE_MAP 56
#define LUAJIT_TRACE_CODE_SIZE 84
#define LUAJIT_TRACE_CODE 88
#define LUAJIT_SNAPSHOT_SIZE 12
#define LUAJIT_SNAPSHOT_CODE 6
#define LUAJIT_SNAPSHOT_ENTRIES 10
// A snapshot's map has entries for slots, in order, and then the instruction, above 8 bits. An entry is the number of
// the slot, above flags, above a reference: a constant, if it is below the bias.
#define LUAJIT_ENTRY_SLOT_SHIFT 24
#define LUAJIT_ENTRY_FRAME 0x10000
#define LUAJIT_ENTRY_REFERENCE 0xffff
#define LUAJIT_REFERENCE_BIAS 0x8000
// Entries that are read at once.
#define LUAJIT_ENTRIES 8

// The walker's own words.
enum {
	// The coroutine, its lowest slot, and where its slots end.
	LUAJIT_AT_COROUTINE,
	LUAJIT_AT_STACK,
	LUAJIT_AT_END,
	// The link of the frame that is next.
	LUAJIT_AT_FRAME,
	// The instruction behind the one that the next frame is at; 0: it is not known.
	LUAJIT_AT_INSTRUCTION,
	// The native frame that is next, or that the run has.
	LUAJIT_AT_NATIVE,
	// A run's frames are walked.
	LUAJIT_AT_RUN,
	// The map of a snapshot, how many of its entries are still to be looked at, and where constants are.
	LUAJIT_AT_MAP,
	LUAJIT_AT_ENTRIES,
	LUAJIT_AT_CONSTANTS,
	// The snapshots between which one is looked for.
	LUAJIT_AT_LOW,
	LUAJIT_AT_HIGH,
};

// Reads a function; its prototype, which goes to `other`, if it is written in Lua. Returns where its instructions
// begin; 0: it is no function.
static __always_inline u64 read_luajit_function(struct language_walk *w, u64 slot, u32 *is_lua)
{
	struct calls *c = w->c;
	struct interpreter *it = w->it;
	u64 code;

	if (slot >> LUAJIT_SLOT_SHIFT != LUAJIT_SLOT_FUNCTION ||
	    read_user(w->other, c->structure, LUAJIT_FUNCTION_SIZE, slot & LUAJIT_SLOT_POINTER))
		return 0;
	code = word_at(c->structure, offset_of(it, LUAJIT_CODE));
	*is_lua = !byte_at(c->structure, offset_of(it, LUAJIT_KIND));
	if (!*is_lua)
		return code;
	if (read_user(w->other, c->other, size_of(it, LUAJIT_PROTOTYPE_SIZE),
		      code - offset_of(it, LUAJIT_PROTOTYPE_SIZE)) ||
	    byte_at(c->other, offset_of(it, LUAJIT_TYPE)) != offset_of(it, LUAJIT_TYPE_PROTOTYPE))
		return 0;
	return code;
}

// How many instructions an instruction of the function in `other` is behind its first; 0: it is not one of it.
static __always_inline u64 luajit_place(struct language_walk *w, u64 code, u64 instruction)
{
	u64 place = (instruction - code) >> 2;

	return place <= half_at(w->c->other, offset_of(w->it, LUAJIT_INSTRUCTIONS)) ? place : 0;
}

// Returns true if the innermost frame begins at an address, by the instruction that is run.
static __always_inline int is_luajit_base(struct language_walk *w, u64 base)
{
	struct calls *c = w->c;
	u64 instruction = w->s->luajit.instruction, slots[2], code;
	u32 is_lua;

	if (base & 7 || base < c->at[LUAJIT_AT_STACK] + 16 || base >= c->at[LUAJIT_AT_END] ||
	    read_user(w->other, slots, sizeof(slots), base - 16))
		return 0;
	code = read_luajit_function(w, slots[0], &is_lua);
	if (!code)
		return 0;
	// It is just called, or returns; a function in C is called behind its only instruction.
	return instruction == slots[1] ||
	       (is_lua ? luajit_place(w, code, instruction) != 0 : instruction == code + 4);
}

// Finds what frames there would be where a trace is.
static __always_inline void find_luajit_snapshot(struct language_walk *w, u64 global)
{
	struct calls *c = w->c;
	u64 trace, offset, snapshots, map, entries;
	// In memory, of which the verifier does not follow the values: otherwise it would check each sequence of halves.
	volatile u64 *low = &c->at[LUAJIT_AT_LOW], *high = &c->at[LUAJIT_AT_HIGH];
	u32 number = 0;
	u16 code;

	if (offset_of(w->it, LUAJIT_TRACES) == NO_OFFSET ||
	    read_user(w->other, &number, 4, global + offset_of(w->it, LUAJIT_VM_STATE)) || (s32)number <= 0)
		return;
	trace = read_word(w, global + offset_of(w->it, LUAJIT_TRACES));
	trace = trace ? read_word(w, trace + 8 * (u64)number) : 0;
	if (!trace || read_user(w->other, c->structure, LUAJIT_TRACE_SIZE, trace))
		return;
	offset = w->s->luajit.ip - word_at(c->structure, LUAJIT_TRACE_CODE);
	*low = 0;
	*high = half_at(c->structure, LUAJIT_TRACE_COUNT & ~3) >> 16;
	if (!*high || offset >= half_at(c->structure, LUAJIT_TRACE_CODE_SIZE))
		return;
	snapshots = word_at(c->structure, LUAJIT_TRACE_SNAPSHOTS);
	for (int i = 0; i < 16 && *high - *low > 1; i++) {
		u64 middle = (*low + *high) / 2;

		if (read_user(w->other, &code, 2,
			      snapshots + LUAJIT_SNAPSHOT_SIZE * middle + LUAJIT_SNAPSHOT_CODE))
			return;
		if (code <= offset)
			*low = middle;
		else
			*high = middle;
	}
	map = word_at(c->structure, LUAJIT_TRACE_MAP);
	c->at[LUAJIT_AT_CONSTANTS] = word_at(c->structure, LUAJIT_TRACE_CONSTANTS);
	if (read_user(w->other, c->structure, LUAJIT_SNAPSHOT_SIZE, snapshots + LUAJIT_SNAPSHOT_SIZE * *low))
		return;
	map += 4 * (u64)half_at(c->structure, 0);
	entries = byte_at(c->structure, LUAJIT_SNAPSHOT_ENTRIES);
	c->at[LUAJIT_AT_MAP] = map;
	c->at[LUAJIT_AT_ENTRIES] = entries;
	// That one is run next.
	c->at[LUAJIT_AT_INSTRUCTION] = (read_word(w, map + 4 * entries) >> 8) + 4;
}

// Where the innermost frame of a coroutine begins. The interpreter keeps that in rdx, or in rbp while it calls functions
// that know nothing of Lua.
static __always_inline u64 find_luajit_base(struct language_walk *w, u64 kept)
{
	struct luajit_frame *innermost = &w->s->luajit;
	u64 global = read_word(w, w->c->at[LUAJIT_AT_COROUTINE] + offset_of(w->it, LUAJIT_GLOBAL));

	if (w->c->at[LUAJIT_AT_NATIVE] + 1 != innermost->number)
		return kept;
	if (innermost->is_trace) {
		find_luajit_snapshot(w, global);
		return read_word(w, global + offset_of(w->it, LUAJIT_JIT_BASE));
	}
	w->c->at[LUAJIT_AT_INSTRUCTION] = innermost->instruction;
	if (innermost->base && is_luajit_base(w, innermost->base))
		return innermost->base;
	if (is_luajit_base(w, innermost->rbp))
		return innermost->rbp;
	return kept;
}

// The C frame of a native frame; 0: it has none.
static __always_inline u64 find_luajit_run(struct language_walk *w, u64 native)
{
	struct scratch *s = w->s;
	u64 frame, at;

	if (native + 1 == s->luajit.number)
		return s->luajit.c_frame;
	frame = s->user.frames[index_below(MAX_FRAMES, native)];
	at = (frame & ((1ull << FRAME_SHIFT) - 1)) + w->it->to_address;
	if (frame >> FRAME_SHIFT != w->it->module || at < w->it->symbols[LUAJIT_VM_START] ||
	    at >= w->it->symbols[LUAJIT_VM_END])
		return 0;
	return s->sps[index_below(MAX_FRAMES, native)];
}

static __always_inline void end_luajit_run(struct calls *c)
{
	c->at[LUAJIT_AT_NATIVE]++;
	c->at[LUAJIT_AT_RUN] = 0;
}

static __always_inline u64 luajit_end(struct calls *c)
{
	return PLACE_END | ((c->at[LUAJIT_AT_NATIVE] + 1) & 0xfff) << PLACE_NATIVE_SHIFT;
}

// Goes to the next run of the interpreter.
static __always_inline int next_luajit_run(struct language_walk *w)
{
	struct calls *c = w->c;
	struct interpreter *it = w->it;
	u64 native = c->at[LUAJIT_AT_NATIVE], c_frame, stack;
	s32 results;

	if (native >= MAX_FRAMES || native >= w->s->user.len)
		return 1;
	c_frame = find_luajit_run(w, native);
	if (!c_frame || read_user(w->other, c->structure, 24, c_frame)) {
		c->at[LUAJIT_AT_NATIVE]++;
		return 0;
	}
	results = c->structure[LUAJIT_C_RESULTS / 8];
	if (c->structure[LUAJIT_C_COROUTINE / 8] != c->at[LUAJIT_AT_COROUTINE]) {
		c->at[LUAJIT_AT_COROUTINE] = c->structure[LUAJIT_C_COROUTINE / 8];
		if (read_user(w->other, c->structure, LUAJIT_COROUTINE_SIZE, c->at[LUAJIT_AT_COROUTINE]) ||
		    byte_at(c->structure, offset_of(it, LUAJIT_TYPE)) !=
			    offset_of(it, LUAJIT_TYPE_COROUTINE))
			return 1;
		stack = word_at(c->structure, offset_of(it, LUAJIT_STACK));
		c->at[LUAJIT_AT_STACK] = stack;
		c->at[LUAJIT_AT_END] =
			stack + 8 * (u64)half_at(c->structure, offset_of(it, LUAJIT_STACK_SIZE));
		c->at[LUAJIT_AT_INSTRUCTION] = 0;
		c->at[LUAJIT_AT_FRAME] =
			find_luajit_base(w, word_at(c->structure, offset_of(it, LUAJIT_BASE))) - 8;
	}
	stack = c->at[LUAJIT_AT_STACK];
	// A function in C was called beside the coroutine's frames: its results are negative, which is where these end.
	if (c->at[LUAJIT_AT_FRAME] <= stack + 8 ||
	    (results < 0 && c->at[LUAJIT_AT_FRAME] < stack + (u64)-(s64)results)) {
		push_call(c, FUNCTION_NONE, luajit_end(c));
		end_luajit_run(c);
		return 0;
	}
	c->at[LUAJIT_AT_RUN] = 1;
	return 0;
}

// What a frame's link leads to: the frame before, and the instruction behind the one that that is at. Returns true if C
// has made the call.
static __always_inline int follow_luajit_link(struct language_walk *w, u64 frame, u64 link)
{
	struct calls *c = w->c;
	u64 type = link & LUAJIT_FRAME_TYPE, instruction = 0, words[2] = {};
	u32 code = 0;
	int ends = 0;

	switch (type) {
	case LUAJIT_FRAME_LUA:
	case LUAJIT_FRAME_LUA_ODD:
		if (read_user(w->other, &code, 4, link - 4))
			return -1;
		c->at[LUAJIT_AT_FRAME] = frame - 8 * (2 + (u64)(code >> 8 & 0xff));
		c->at[LUAJIT_AT_INSTRUCTION] = link;
		return 0;
	case LUAJIT_FRAME_VARIADIC:
		instruction = c->at[LUAJIT_AT_INSTRUCTION];
		break;
	case LUAJIT_FRAME_CONTINUATION:
		if (read_user(w->other, words, sizeof(words), frame - 24))
			return -1;
		instruction = words[1];
		ends = words[0] == LUAJIT_CALLBACK;
		break;
	case LUAJIT_FRAME_C:
	case LUAJIT_FRAME_PROTECTED_C:
		ends = 1;
	}
	link &= ~LUAJIT_FRAME_TYPE;
	if (!link || link > frame)
		return -1;
	c->at[LUAJIT_AT_FRAME] = frame - link;
	c->at[LUAJIT_AT_INSTRUCTION] = instruction;
	return ends;
}

// Adds a call of a function that was read.
static __always_inline void push_luajit_call(struct language_walk *w, u64 code, u64 instruction, u64 place)
{
	struct calls *c = w->c;
	struct interpreter *it = w->it;

	place |= identity(mix(mix(word_at(c->other, offset_of(it, LUAJIT_CHUNK)),
				  word_at(c->other, offset_of(it, LUAJIT_FIRST_LINE))),
			      half_at(c->other, offset_of(it, LUAJIT_INSTRUCTIONS))));
	if (config.lines)
		place |= luajit_place(w, code, instruction) & PLACE_OFFSET_MASK;
	push_call(c, code - offset_of(it, LUAJIT_PROTOTYPE_SIZE), place);
}

// The value of a constant; 0: it is none.
static __always_inline u64 luajit_constant(struct language_walk *w, u32 entry)
{
	u64 reference = entry & LUAJIT_ENTRY_REFERENCE;

	// The value is behind what describes it.
	return reference < LUAJIT_REFERENCE_BIAS ?
		       read_word(w, w->c->at[LUAJIT_AT_CONSTANTS] + 8 * (reference + 1)) :
		       0;
}

// A frame that a snapshot has: what leads to the frame before, and below it the function.
static __always_inline void push_luajit_inlined(struct language_walk *w, u64 link, u64 function)
{
	struct calls *c = w->c;
	u64 instruction = c->at[LUAJIT_AT_INSTRUCTION], code = 0, type = link & LUAJIT_FRAME_TYPE;
	u32 is_lua = 0;

	if (type == LUAJIT_FRAME_VARIADIC)
		return;
	c->at[LUAJIT_AT_INSTRUCTION] =
		type == LUAJIT_FRAME_LUA || type == LUAJIT_FRAME_LUA_ODD ? link : 0;
	if (function)
		code = read_luajit_function(
			w, (u64)LUAJIT_SLOT_FUNCTION << LUAJIT_SLOT_SHIFT | function, &is_lua);
	if (code && is_lua)
		push_luajit_call(w, code, instruction, 0);
	else if (!code)
		// One of many closures: the trace does not say which.
		push_call(c, FUNCTION_POINTERS, 0);
}

// Looks at some entries of a snapshot, for one that is a frame.
static __always_inline int next_luajit_entries(struct language_walk *w)
{
	struct calls *c = w->c;
	u64 left = c->at[LUAJIT_AT_ENTRIES] & 0xff;
	u64 first = left > LUAJIT_ENTRIES ? left - LUAJIT_ENTRIES : 0;
	u32 entries[LUAJIT_ENTRIES] = {}, below = 0;

	c->at[LUAJIT_AT_ENTRIES] = first;
	if (read_user(w->other, entries, sizeof(entries), c->at[LUAJIT_AT_MAP] + 4 * first))
		return 0;
	for (int i = LUAJIT_ENTRIES - 1; i >= 0; i--) {
		u32 entry = entries[i];

		// Two slots are of the frame that the trace has begun with.
		if (first + i >= left || !(entry & LUAJIT_ENTRY_FRAME) || first + i == 0 ||
		    entry >> LUAJIT_ENTRY_SLOT_SHIFT < 2)
			continue;
		c->at[LUAJIT_AT_ENTRIES] = first + i;
		if (!read_user(w->other, &below, 4, c->at[LUAJIT_AT_MAP] + 4 * (first + i - 1)))
			push_luajit_inlined(w, luajit_constant(w, entry), luajit_constant(w, below));
		return 0;
	}
	return 0;
}

static __always_inline int next_luajit_call(struct language_walk *w)
{
	struct calls *c = w->c;
	u64 frame = c->at[LUAJIT_AT_FRAME], instruction = c->at[LUAJIT_AT_INSTRUCTION], slots[2], code, place;
	u32 is_lua = 0;
	int ends;

	// A coroutine's outermost frame is one of C's: but for damage, this is not come to.
	if (frame & 7 || frame <= c->at[LUAJIT_AT_STACK] + 8 || frame >= c->at[LUAJIT_AT_END] ||
	    read_user(w->other, slots, sizeof(slots), frame - 8))
		return 1;
	ends = follow_luajit_link(w, frame, slots[1]);
	if (ends < 0)
		return 1;
	// In place of a function there may be the coroutine itself.
	code = read_luajit_function(w, slots[0], &is_lua);
	place = ends ? luajit_end(c) : 0;
	if (code && is_lua && (slots[1] & LUAJIT_FRAME_TYPE) != LUAJIT_FRAME_VARIADIC) {
		push_luajit_call(w, code, instruction, place);
	} else if (ends) {
		push_call(c, FUNCTION_NONE, place);
	}
	if (ends)
		end_luajit_run(c);
	return 0;
}

static __always_inline long next_luajit(u64 index, struct language_walk *w)
{
	if (w->c->at[LUAJIT_AT_ENTRIES])
		return next_luajit_entries(w);
	return w->c->at[LUAJIT_AT_RUN] ? next_luajit_call(w) : next_luajit_run(w);
}
STEP(next_luajit)

static __always_inline void walk_luajit(struct language_walk *w)
{
	struct calls *c = w->c;

	c->at[LUAJIT_AT_COROUTINE] = 0;
	c->at[LUAJIT_AT_FRAME] = 0;
	c->at[LUAJIT_AT_NATIVE] = 0;
	c->at[LUAJIT_AT_RUN] = 0;
	c->at[LUAJIT_AT_ENTRIES] = 0;
	LOOP(MAX_FRAMES + 4 * MAX_CALLS, next_luajit, w);
}

#endif
