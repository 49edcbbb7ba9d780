// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Calls of JavaScript functions, in V8 as Node has it: without compressed pointers.
//
// A JavaScript function's frame is a native one, with a frame pointer: interpreted functions run in a builtin of the
// file, compiled ones in code that is made at run time. Below the frame pointer are the context and the function. Frames
// of other kinds have a small number in place of the context.

#ifndef PYROGRAPH_NODE_H
#define PYROGRAPH_NODE_H

#include "calls.h"

// The builtins' code in the file.
enum node_symbol { NODE_BUILTINS_START, NODE_BUILTINS_END };

enum node_offset {
	// In a function: what all its closures share.
	NODE_SHARED,
	// In that: its code, its name, its script; three numbers that stay as they are.
	NODE_CODE,
	NODE_NAME,
	NODE_SCRIPT,
	NODE_LENGTH,
	NODE_PARAMETERS,
	NODE_TOKEN,
	// The type in a map, and the type of what closures share.
	NODE_TYPE,
	NODE_SHARED_TYPE,
	// How much is read of what closures share.
	NODE_SHARED_BYTES,
};

// The walker's own word: the map that was found to be of what closures share.
enum { NODE_MAP };

// Pointers to objects end with 01, and numbers with 0.
#define NODE_TAG_MASK 3
#define NODE_TAG 1

static __always_inline int is_node_object(u64 value)
{
	return (value & NODE_TAG_MASK) == NODE_TAG;
}

// Returns true if a frame's code may be that of a JavaScript function.
static __always_inline int may_be_node_function(struct language_walk *w, u64 frame)
{
	u64 module = frame >> FRAME_SHIFT, at = frame & ((1ull << FRAME_SHIFT) - 1);

	if (module == MODULE_ANONYMOUS)
		return 1;
	at += w->it->to_address;
	return module == w->it->module && at >= w->it->symbols[NODE_BUILTINS_START] &&
	       at < w->it->symbols[NODE_BUILTINS_END];
}

// Reads what a function's closures share into `structure`, and checks that it is that.
static __always_inline int read_node_function(struct language_walk *w, u64 shared)
{
	struct calls *c = w->c;
	struct interpreter *it = w->it;
	u64 map;
	u16 type;

	if (read_user(w->other, c->structure, size_of(it, NODE_SHARED_BYTES), shared))
		return 0;
	map = c->structure[0];
	if (map == c->at[NODE_MAP])
		return 1;
	if (!is_node_object(map) ||
	    read_user(w->other, &type, sizeof(type), map - NODE_TAG + offset_of(it, NODE_TYPE)) ||
	    type != offset_of(it, NODE_SHARED_TYPE))
		return 0;
	c->at[NODE_MAP] = map;
	return 1;
}

static __always_inline u64 node_identity(struct language_walk *w)
{
	struct calls *c = w->c;
	struct interpreter *it = w->it;
	u64 hash = mix(HASH_START, word_at(c->structure, offset_of(it, NODE_NAME)));
	u64 numbers = 0;

	hash = mix(hash, word_at(c->structure, offset_of(it, NODE_SCRIPT)));
	numbers |= byte_at(c->structure, offset_of(it, NODE_LENGTH));
	numbers |= (u64)byte_at(c->structure, offset_of(it, NODE_PARAMETERS)) << 8;
	numbers |= (u64)byte_at(c->structure, offset_of(it, NODE_TOKEN)) << 16;
	return identity(mix(hash, numbers));
}

static __always_inline long next_node_frame(u64 index, struct language_walk *w)
{
	struct scratch *s = w->s;
	struct calls *c = w->c;
	struct interpreter *it = w->it;
	u64 fp, shared, slots[2], next = index + 1;

	if (!IS_BELOW(MAX_FRAMES, index) || index >= s->user.len)
		return 1;
	if (!may_be_node_function(w, s->user.frames[index]))
		return 0;
	fp = s->fps[index];
	// Nothing is below the stack pointer yet where a function begins. Code without a frame of its own has that of its
	// caller; if that comes as a frame, too, it is the function's.
	if (fp & 7 || fp < 16 || fp - 16 < s->sps[index] ||
	    (next < s->user.len && IS_BELOW(MAX_FRAMES, next) && s->fps[next] == fp))
		return 0;
	// The function, and the context.
	if (read_user(w->other, slots, sizeof(slots), fp - 16) || !is_node_object(slots[0]) ||
	    !is_node_object(slots[1]))
		return 0;
	shared = read_word(w, slots[0] - NODE_TAG + offset_of(it, NODE_SHARED));
	if (!is_node_object(shared) || !read_node_function(w, shared - NODE_TAG))
		return 0;
	// Builtins have a number in place of code: they are native frames.
	if (!is_node_object(word_at(c->structure, offset_of(it, NODE_CODE))))
		return 0;
	push_call(c, shared - NODE_TAG, PLACE_END | (index + 1) << PLACE_NATIVE_SHIFT | node_identity(w));
	return 0;
}
STEP(next_node_frame)

static __always_inline void walk_node(struct language_walk *w)
{
	w->c->at[NODE_MAP] = 0;
	LOOP(MAX_FRAMES, next_node_frame, w);
}

#endif
