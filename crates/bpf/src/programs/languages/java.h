// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Calls of Java methods, in HotSpot. Each has a native frame; those that the compiler has put into others are found by
// user space, from where in the compiled method its frame is.
//
// FUNCTION is a method that is interpreted, or a piece of code, of which the lower bits are the kind. PLACE has the
// bytecode, if lines are wanted, or how far into the compiled method's code the frame is.

#ifndef PYROGRAPH_JAVA_H
#define PYROGRAPH_JAVA_H

#include "calls.h"

// In a PLACE of compiled code: lines are wanted.
#define JAVA_LINES (1 << 23)

static __always_inline void push_java_method(struct language_walk *w, u64 fp, u64 end)
{
	struct interpreter *it = w->it;
	u64 slots[JAVA_SLOTS], method, constant, first, place = end;

	if (read_user(w->other, slots, sizeof(slots), fp - 64))
		return;
	method = slots[JAVA_SLOT_METHOD];
	constant = read_word(w, method + it->offsets[JAVA_CONST_METHOD]);
	first = constant + it->offsets[JAVA_CONST_METHOD_SIZE];
	place |= identity(mix(mix(HASH_START, constant),
			      read_word(w, constant + it->offsets[JAVA_CONSTANTS])));
	// No line is 0.
	if (config.lines && slots[JAVA_SLOT_BYTECODE] >= first)
		place |= (slots[JAVA_SLOT_BYTECODE] - first + 1) & 0xffff;
	if (method >= FUNCTION_POINTERS)
		push_call(w->c, method, place);
}

static __always_inline void push_java_compiled(struct language_walk *w, u64 blob, u64 address, u64 end)
{
	struct interpreter *it = w->it;
	u64 hash = mix(HASH_START, read_word(w, blob + it->offsets[JAVA_METHOD]));
	u32 number = 0;

	read_user(w->other, &number, 4, blob + it->offsets[JAVA_COMPILE_ID]);
	// The address is in the call, if it has called.
	push_call(w->c, blob | JAVA_COMPILED,
		  end | identity(mix(hash, number)) |
			  ((address + 1 - java_code(w->other, it, blob)) & (JAVA_LINES - 1)) |
			  (config.lines ? JAVA_LINES : 0));
}

static __always_inline long next_java_frame(u64 index, struct language_walk *w)
{
	struct scratch *s = w->s;
	u64 blob, kind, end = PLACE_END | (index + 1) << PLACE_NATIVE_SHIFT;

	if (!IS_BELOW(MAX_FRAMES, index) || index >= s->user.len)
		return 1;
	blob = s->blobs[index];
	if (!blob || s->user.frames[index] >> FRAME_SHIFT != MODULE_ANONYMOUS)
		return 0;
	kind = blob & FUNCTION_BITS;
	blob &= ~FUNCTION_BITS;
	switch (kind) {
	case JAVA_COMPILED:
		push_java_compiled(w, blob, s->user.frames[index] & ((1ull << FRAME_SHIFT) - 1), end);
		break;
	case JAVA_INTERPRETER:
		push_java_method(w, s->fps[index], end);
		break;
	case JAVA_ENTRY:
		push_call(w->c, FUNCTION_NONE, end);
		break;
	case JAVA_CONTINUATION:
		push_call(w->c, FUNCTION_FROZEN, end);
		break;
	default:
		push_call(w->c, blob | JAVA_STUB, end | identity(mix(HASH_START, read_word(w, blob + w->it->offsets[JAVA_NAME]))));
	}
	return 0;
}
STEP(next_java_frame)

static __always_inline void walk_java(struct language_walk *w)
{
	if (w->s->java.state == JAVA_KNOWN)
		LOOP(MAX_FRAMES, next_java_frame, w);
}

#endif
