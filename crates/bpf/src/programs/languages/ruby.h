// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Calls of Ruby methods and blocks, in MRI.
//
// A thread's variable leads to the context that it runs (of a thread or a fiber), which has a stack of frames: the
// innermost one is the lowest, the outermost ends where the stack ends. The word that a frame's environment points to has
// its kind and flags. One run of the loop ends at a frame that C has called (`VM_FRAME_FLAG_FINISH`). Functions that are
// written in C have frames, too; they are emitted as the string that is their name, which takes the table of symbols.
// The method that a frame runs, which knows its class, is in the frame's environment, or in one around that.

#ifndef PYROGRAPH_RUBY_H
#define PYROGRAPH_RUBY_H

#include "calls.h"

enum ruby_symbol {
	// The table of symbols: an array of arrays of strings. 0: it was not found.
	RUBY_SYMBOLS,
};

enum ruby_offset {
	// In a context.
	RUBY_STACK,
	RUBY_STACK_SIZE,
	RUBY_CURRENT,
	RUBY_THREAD,
	// In a thread: what `fs` points to. NO_OFFSET: the context is that of the thread for certain.
	RUBY_THREAD_ID,
	// In a frame, and its size.
	RUBY_INSTRUCTION,
	RUBY_ISEQ,
	RUBY_ENVIRONMENT,
	RUBY_FRAME_SIZE,
	// Of a frame's flags.
	RUBY_KIND_MASK,
	RUBY_C_FUNCTION,
	RUBY_C_BLOCK,
	RUBY_DUMMY,
	RUBY_FINISH,
	// In a sequence of instructions, and in what that points to.
	RUBY_BODY,
	RUBY_INSTRUCTIONS,
	RUBY_LABEL,
	RUBY_FIRST_LINE,
	// In a method.
	RUBY_CALLED_ID,
	RUBY_OWNER,
	// Of an environment's flags: it is a method's own. None is around it.
	RUBY_LOCAL,
	// The last number of a symbol that is an operator.
	RUBY_LAST_OPERATOR,
	// Of an object's flags, and where the elements of an array are.
	RUBY_TYPE_STRING,
	RUBY_TYPE_ARRAY,
	RUBY_ARRAY_IS_EMBEDDED,
	RUBY_ARRAY_EMBEDDED,
	RUBY_ARRAY_POINTER,
};

#define RUBY_TYPE_MASK 31
// A symbol's number is above so many bits, and an array of the table has so many of them, each with two elements.
#define RUBY_SYMBOL_SHIFT 4
#define RUBY_SYMBOLS_SHIFT 9
// Bytes of a sequence's description that hold what is read.
#define RUBY_BODY_SIZE 96

// Of the lower bits of FUNCTION: it is the name of a function in C.
#define RUBY_NAME 1

// Objects of the machine itself have this type, and above their flags' first 12 bits which they are.
#define RUBY_TYPE_VM 0x1a
#define RUBY_VM_SHIFT 12
#define RUBY_VM_MASK 15
#define RUBY_VM_METHOD 6
// Local variables of the machine itself (`$~`), which stand before a method.
#define RUBY_VM_VARIABLES 2

// More environments are not around a block.
#define RUBY_MOST_LEVELS 8

// The walker's own words.
enum {
	RUBY_AT_FRAME,
	RUBY_AT_END,
	// The number of calls with the last one that ended a run, and with the last one that is not in C.
	RUBY_ENDED,
	RUBY_LAST,
};

// An element of an array; 0: there is none.
static __always_inline u64 ruby_element(struct language_walk *w, u64 array, u64 index)
{
	struct interpreter *it = w->it;
	u64 *object = w->c->other, elements;

	if (array < FUNCTION_POINTERS || array & 7 || read_user(w->other, object, 40, array) ||
	    (object[0] & RUBY_TYPE_MASK) != offset_of(it, RUBY_TYPE_ARRAY))
		return 0;
	if (object[0] & offset_of(it, RUBY_ARRAY_IS_EMBEDDED))
		elements = array + offset_of(it, RUBY_ARRAY_EMBEDDED);
	else
		elements = word_at(object, offset_of(it, RUBY_ARRAY_POINTER));
	return elements ? read_word(w, elements + 8 * index) : 0;
}

// The call of a function of a class.
static __always_inline void push_ruby_call(struct calls *c, u64 function, u64 hash, u64 owner, u64 place)
{
	u64 at = place_of_call(c->count);

	c->owners[at] = owner;
	push_call(c, function, identity(mix(hash, owner)) | place);
}

// The class of a method; 0: it is none.
static __always_inline u64 ruby_owner(struct language_walk *w, u64 method)
{
	u64 flags;

	for (int i = 0; i < 2; i++) {
		if (method < FUNCTION_POINTERS || method & 7)
			return 0;
		flags = read_word(w, method);
		if ((flags & RUBY_TYPE_MASK) != RUBY_TYPE_VM)
			return 0;
		flags = flags >> RUBY_VM_SHIFT & RUBY_VM_MASK;
		if (flags == RUBY_VM_METHOD)
			return read_word(w, method + offset_of(w->it, RUBY_OWNER));
		if (flags != RUBY_VM_VARIABLES)
			return 0;
		method = read_word(w, method + 8);
	}
	return 0;
}

// The class of the method that an environment belongs to; its last three words are in `other`.
static __always_inline u64 find_ruby_owner(struct language_walk *w)
{
	u64 *words = w->c->other;

	for (int i = 0; i < RUBY_MOST_LEVELS; i++) {
		u64 owner = ruby_owner(w, words[0]);

		if (owner || words[2] & offset_of(w->it, RUBY_LOCAL))
			return owner;
		if (read_user(w->other, words, 24, (words[1] & ~3ull) - 16))
			return 0;
	}
	return 0;
}

// The call of a function in C.
static __always_inline void push_ruby_c_function(struct language_walk *w, u64 method)
{
	struct calls *c = w->c;
	struct interpreter *it = w->it;
	u64 id, name, owner;

	if (!it->symbols[RUBY_SYMBOLS] || method < FUNCTION_POINTERS)
		return;
	owner = ruby_owner(w, method);
	id = read_word(w, method + offset_of(it, RUBY_CALLED_ID));
	if (id > offset_of(it, RUBY_LAST_OPERATOR))
		id = (u32)(id >> RUBY_SYMBOL_SHIFT);
	name = read_word(w, symbol_of(w, RUBY_SYMBOLS));
	name = ruby_element(w, name, id >> RUBY_SYMBOLS_SHIFT);
	name = ruby_element(w, name, 2 * (id & ((1 << RUBY_SYMBOLS_SHIFT) - 1)));
	if (name < FUNCTION_POINTERS || name & 7 || read_user(w->other, c->other, 40, name) ||
	    (c->other[0] & RUBY_TYPE_MASK) != offset_of(it, RUBY_TYPE_STRING))
		return;
	push_ruby_call(c, name | RUBY_NAME, mix(c->other[2] ^ c->other[4], c->other[3]), owner, 0);
}

static __always_inline long next_ruby_frame(u64 index, struct language_walk *w)
{
	struct calls *c = w->c;
	struct interpreter *it = w->it;
	u64 frame = c->at[RUBY_AT_FRAME], instruction, iseq, flags, kind, body, owner, hash, place = 0;

	if (frame >= c->at[RUBY_AT_END] || read_user(w->other, c->structure, 48, frame))
		return 1;
	c->at[RUBY_AT_FRAME] = frame + offset_of(it, RUBY_FRAME_SIZE);
	// The method, the environment around, the flags.
	if (read_user(w->other, c->other, 24, word_at(c->structure, offset_of(it, RUBY_ENVIRONMENT)) - 16))
		return 1;
	flags = c->other[2];
	kind = flags & offset_of(it, RUBY_KIND_MASK);
	if (kind == offset_of(it, RUBY_C_FUNCTION)) {
		push_ruby_c_function(w, c->other[0]);
		return 0;
	}
	instruction = word_at(c->structure, offset_of(it, RUBY_INSTRUCTION));
	iseq = word_at(c->structure, offset_of(it, RUBY_ISEQ));
	// The outermost frame may have instructions that are not run.
	if (!instruction || iseq < FUNCTION_POINTERS || iseq & 7 || kind == offset_of(it, RUBY_C_BLOCK) ||
	    kind == offset_of(it, RUBY_DUMMY))
		return 0;
	owner = find_ruby_owner(w);
	body = read_word(w, iseq + offset_of(it, RUBY_BODY));
	if (!body || read_user(w->other, c->other, RUBY_BODY_SIZE, body))
		return 1;
	hash = mix(body ^ word_at(c->other, offset_of(it, RUBY_LABEL)),
		   half_at(c->other, offset_of(it, RUBY_FIRST_LINE)));
	if (config.lines) {
		// In words; it is behind the instruction that calls.
		instruction -= word_at(c->other, offset_of(it, RUBY_INSTRUCTIONS));
		place |= instruction >> 3 & PLACE_OFFSET_MASK;
	}
	if (flags & offset_of(it, RUBY_FINISH))
		place |= PLACE_END;
	push_ruby_call(c, iseq, hash, owner, place);
	c->at[RUBY_LAST] = c->count;
	if (place & PLACE_END)
		c->at[RUBY_ENDED] = c->count;
	return 0;
}
STEP(next_ruby_frame)

// Calls of functions in C that no run of the loop has made, but the root of a fiber, belong to the outermost run.
static __always_inline void end_ruby_calls(struct calls *c)
{
	u64 at = c->at[RUBY_ENDED];

	if (!at || at != c->at[RUBY_LAST] || at == c->count)
		return;
	c->words[CALLS_HEAD + 2 * place_of_call(at - 1) + 1] &= ~PLACE_END;
}

static __always_inline void walk_ruby(struct language_walk *w)
{
	struct calls *c = w->c;
	struct interpreter *it = w->it;
	u64 context = place_in_thread(w), thread;

	context = context ? read_word(w, context) : 0;
	if (!context || read_user(w->other, c->structure, 64, context))
		return;
	if (offset_of(it, RUBY_THREAD_ID) != NO_OFFSET) {
		thread = word_at(c->structure, offset_of(it, RUBY_THREAD));
		if (!thread || read_word(w, thread + offset_of(it, RUBY_THREAD_ID)) != c->fs)
			return;
	}
	c->at[RUBY_AT_FRAME] = word_at(c->structure, offset_of(it, RUBY_CURRENT));
	c->at[RUBY_AT_END] = word_at(c->structure, offset_of(it, RUBY_STACK)) +
			     8 * word_at(c->structure, offset_of(it, RUBY_STACK_SIZE));
	c->at[RUBY_ENDED] = 0;
	c->at[RUBY_LAST] = 0;
	LOOP(4 * MAX_CALLS, next_ruby_frame, w);
	end_ruby_calls(c);
}

#endif
