// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Calls of PHP functions.
//
// A thread's globals lead to a list of frames, the innermost first. Functions that are written in C have frames, too;
// frames without a function only hold a place. What C has called is marked (`ZEND_CALL_TOP`): with it a run of the loop
// ends, unless it is in C itself. A fiber has a C stack of its own, at whose root is a frame of a function without a
// name; the frames behind are those of whom has resumed it, and belong to the outermost run of that stack.

#ifndef PYROGRAPH_PHP_H
#define PYROGRAPH_PHP_H

#include "calls.h"

enum php_symbol {
	// With threads: a variable that has how far the globals are from what a thread's variable points to. 0 without.
	PHP_GLOBALS_OFFSET,
};

enum php_offset {
	// In the globals.
	PHP_CURRENT,
	// In a frame.
	PHP_INSTRUCTION,
	PHP_FUNCTION,
	PHP_CALL_INFO,
	PHP_PREVIOUS,
	// In a function.
	PHP_TYPE,
	PHP_NAME,
	PHP_CLASS,
	PHP_INSTRUCTIONS,
	// In an instruction.
	PHP_LINE,
	// Of the call info.
	PHP_TOP,
	// Of types.
	PHP_INTERNAL,
	PHP_USER,
	PHP_EVAL,
	// In a function, again.
	PHP_FILE,
};

// Bytes of a function that all versions and types have.
#define PHP_FUNCTION_SIZE 112

// The walker's own words: a frame that is still to be looked at, a call that is still to be added, and whether what comes is
// of another C stack.
enum { PHP_AT_FRAME, PHP_AT_CALL, PHP_AT_PLACE, PHP_BEHIND_FIBER };

static __always_inline u64 php_line(struct language_walk *w, u64 instruction)
{
	u32 line = 0;

	if (!config.lines || read_user(w->other, &line, 4, instruction + offset_of(w->it, PHP_LINE)))
		return 0;
	return line & PLACE_OFFSET_MASK;
}

// Adds the call that was found before.
static __always_inline void push_php_call(struct calls *c)
{
	if (c->at[PHP_AT_CALL])
		push_call(c, c->at[PHP_AT_CALL], c->at[PHP_AT_PLACE]);
	c->at[PHP_AT_CALL] = 0;
}

// In a function: its flags, of which one is for closures (`zend_op_array.fn_flags`, `ZEND_ACC_CLOSURE`, 7.4 to 8.5).
#define PHP_FLAGS 4
#define PHP_CLOSURE (1 << 22)
// In a string: its length and its bytes (`zend_string`).
#define PHP_STRING_LEN 16
#define PHP_STRING_BYTES 24

// The end of a closure's name, as a number. From 8.4 on names of closures have the function and line that they are in. They go
// with the closure's code, and the next name, instructions and closure come to the same places.
static __always_inline u64 php_closure(struct language_walk *w, u64 name)
{
	u64 len = read_word(w, name + PHP_STRING_LEN), end;

	if (len < 16 || len > 1 << 16)
		return len;
	end = name + PHP_STRING_BYTES + len;
	return mix(read_word(w, end - 16), read_word(w, end - 8));
}

static __always_inline long next_php_frame(u64 index, struct language_walk *w)
{
	struct calls *c = w->c;
	struct interpreter *it = w->it;
	u64 frame = c->at[PHP_AT_FRAME], function, name, place;
	u32 type;

	if (!frame || read_user(w->other, c->structure, 64, frame))
		return 1;
	c->at[PHP_AT_FRAME] = word_at(c->structure, offset_of(it, PHP_PREVIOUS));
	function = word_at(c->structure, offset_of(it, PHP_FUNCTION));
	if (function < FUNCTION_POINTERS)
		return 0;
	if (read_user(w->other, c->other, PHP_FUNCTION_SIZE, function))
		return 1;
	type = byte_at(c->other, offset_of(it, PHP_TYPE));
	name = word_at(c->other, offset_of(it, PHP_NAME));
	if (type == offset_of(it, PHP_INTERNAL)) {
		if (!name) {
			c->at[PHP_BEHIND_FIBER] = 1;
			c->at[PHP_AT_PLACE] &= ~PLACE_END;
			return 0;
		}
		place = identity(mix(name, word_at(c->other, offset_of(it, PHP_CLASS))));
	} else if (type == offset_of(it, PHP_USER) || type == offset_of(it, PHP_EVAL)) {
		u64 closure = half_at(c->other, PHP_FLAGS) & PHP_CLOSURE && name ? php_closure(w, name) : 0;

		// Code of files and strings goes when it was run, and more like it comes to the same place.
		if (!name)
			name = read_word(w, function + offset_of(it, PHP_FILE)) + type;
		place = identity(mix(name ^ closure ^ word_at(c->other, offset_of(it, PHP_CLASS)),
				     word_at(c->other, offset_of(it, PHP_INSTRUCTIONS))));
		place |= php_line(w, word_at(c->structure, offset_of(it, PHP_INSTRUCTION)));
		if (half_at(c->structure, offset_of(it, PHP_CALL_INFO)) & offset_of(it, PHP_TOP) &&
		    !c->at[PHP_BEHIND_FIBER])
			place |= PLACE_END;
	} else {
		return 1;
	}
	push_php_call(c);
	c->at[PHP_AT_CALL] = function;
	c->at[PHP_AT_PLACE] = place;
	return 0;
}
STEP(next_php_frame)

static __always_inline void walk_php(struct language_walk *w)
{
	struct calls *c = w->c;
	struct interpreter *it = w->it;
	u64 globals = place_in_thread(w);

	// With threads, a thread's variable has the address of a block that they are in.
	if (globals && it->symbols[PHP_GLOBALS_OFFSET]) {
		globals = read_word(w, globals);
		if (globals)
			globals += read_word(w, symbol_of(w, PHP_GLOBALS_OFFSET));
	}
	if (!globals)
		return;
	c->at[PHP_AT_FRAME] = read_word(w, globals + offset_of(it, PHP_CURRENT));
	c->at[PHP_AT_CALL] = 0;
	c->at[PHP_AT_PLACE] = 0;
	c->at[PHP_BEHIND_FIBER] = 0;
	LOOP(4 * MAX_CALLS, next_php_frame, w);
	push_php_call(c);
}

#endif
