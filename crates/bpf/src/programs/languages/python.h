// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Calls of Python functions, in CPython.
//
// A thread's state has a list of frames, the innermost first. From 3.11 on they are no objects, and one run of the
// interpreter's loop has many: 3.11 marks the first of each run (`is_entry`), later versions begin each with a frame of
// no function that lies on the C stack.

#ifndef PYROGRAPH_PYTHON_H
#define PYROGRAPH_PYTHON_H

#include "calls.h"

enum python_symbol { PYTHON_RUNTIME, PYTHON_CODE_TYPE };

enum python_offset {
	// In the runtime: the first interpreter. In that: the next one, the first thread.
	PYTHON_INTERPRETERS,
	PYTHON_NEXT_INTERPRETER,
	PYTHON_THREADS,
	PYTHON_NEXT_THREAD,
	PYTHON_THREAD_ID,
	// The frame in a thread's state, or in what that points to at PYTHON_CFRAME (3.11, 3.12).
	PYTHON_FRAME,
	PYTHON_CFRAME,
	// In a frame.
	PYTHON_CODE,
	PYTHON_PREVIOUS,
	PYTHON_INSTRUCTION,
	PYTHON_OWNER,
	PYTHON_IS_ENTRY,
	// In a code object.
	PYTHON_TYPE,
	PYTHON_FIRST_LINE,
	PYTHON_FILENAME,
	PYTHON_NAME,
	PYTHON_BYTECODE,
	// An owner from here on: the frame is of no function. NO_OFFSET: all are of functions.
	PYTHON_NO_FUNCTION,
	// The minor version.
	PYTHON_MINOR = 23,
	// How much is read of a frame and of a code object: what is behind may not be there.
	PYTHON_FRAME_BYTES,
	PYTHON_CODE_BYTES,
	// In a frame: the first local variable, and how far its stack goes.
	PYTHON_FIRST_LOCAL = 29,
	PYTHON_STACK_TOP,
	// In a generator or coroutine: its frame. NO_OFFSET: asyncio's tasks are not looked for.
	PYTHON_GENERATOR_FRAME,
};

// The owner of a frame that is part of a generator or coroutine.
#define OWNED_BY_GENERATOR 1

// The walker's own words.
enum { PYTHON_STATE, PYTHON_OUTER_STATE, PYTHON_AT_FRAME, PYTHON_AT_INTERPRETER, PYTHON_AT_THREAD };

// The states of threads, by the kernel's numbers of these.
struct python_thread {
	u64 state;
	// The first of the list when it was looked for.
	u64 first;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, u32);
	__type(value, struct python_thread);
} python_threads SEC(".maps");

// One thread of the list of an interpreter: its identifier is what `fs` points to (`pthread_self`). A thread has a state in
// each interpreter whose code it runs: the newest comes first, which runs inside of another's.
static __always_inline long next_python_thread(u64 index, struct language_walk *w)
{
	struct calls *c = w->c;
	struct interpreter *it = w->it;
	u64 state = c->at[PYTHON_AT_THREAD];

	if (!state) {
		u64 interpreter = c->at[PYTHON_AT_INTERPRETER];

		if (!interpreter)
			return 1;
		c->at[PYTHON_AT_THREAD] = read_word(w, interpreter + offset_of(it, PYTHON_THREADS));
		c->at[PYTHON_AT_INTERPRETER] =
			read_word(w, interpreter + offset_of(it, PYTHON_NEXT_INTERPRETER));
		return 0;
	}
	if (read_word(w, state + offset_of(it, PYTHON_THREAD_ID)) == c->fs) {
		if (c->at[PYTHON_STATE]) {
			c->at[PYTHON_OUTER_STATE] = state;
			return 1;
		}
		c->at[PYTHON_STATE] = state;
		if (!c->at[PYTHON_AT_INTERPRETER])
			return 1;
	}
	c->at[PYTHON_AT_THREAD] = read_word(w, state + offset_of(it, PYTHON_NEXT_THREAD));
	return 0;
}
STEP(next_python_thread)

static __always_inline u64 find_python_thread(struct language_walk *w)
{
	struct calls *c = w->c;
	struct interpreter *it = w->it;
	u32 thread = c->thread;
	struct python_thread *known = bpf_map_lookup_elem(&python_threads, &thread), found = {};
	u64 interpreter = read_word(w, symbol_of(w, PYTHON_RUNTIME) + offset_of(it, PYTHON_INTERPRETERS));
	u64 first, is_single;

	c->at[PYTHON_OUTER_STATE] = 0;
	if (!interpreter)
		return 0;
	// A thread that goes to another interpreter has another state there, for as long as it does.
	is_single = !read_word(w, interpreter + offset_of(it, PYTHON_NEXT_INTERPRETER));
	if (is_single && known && known->state &&
	    read_word(w, known->state + offset_of(it, PYTHON_THREAD_ID)) == c->fs)
		return known->state;
	first = read_word(w, interpreter + offset_of(it, PYTHON_THREADS));
	// New ones come to the front of the list.
	if (is_single && known && !known->state && known->first == first)
		return 0;
	c->at[PYTHON_STATE] = 0;
	c->at[PYTHON_AT_THREAD] = 0;
	c->at[PYTHON_AT_INTERPRETER] = interpreter;
	LOOP(2048, next_python_thread, w);
	found.state = c->at[PYTHON_STATE];
	found.first = first;
	bpf_map_update_elem(&python_threads, &thread, &found, BPF_ANY);
	return found.state;
}

// Adds the function whose frame was read. Returns 1 if it is none.
static __always_inline long push_python_function(struct language_walk *w, u64 mark)
{
	struct calls *c = w->c;
	struct interpreter *it = w->it;
	// From 3.14 on the lowest bits may be marks.
	u64 code = word_at(c->structure, offset_of(it, PYTHON_CODE)) & ~3ull, place;

	if (!code || read_user(w->other, c->other, size_of(it, PYTHON_CODE_BYTES), code) ||
	    word_at(c->other, offset_of(it, PYTHON_TYPE)) != symbol_of(w, PYTHON_CODE_TYPE))
		return 1;
	place = identity(mix(word_at(c->other, offset_of(it, PYTHON_FILENAME)) ^
				     word_at(c->other, offset_of(it, PYTHON_NAME)),
			     half_at(c->other, offset_of(it, PYTHON_FIRST_LINE))));
	if (config.lines) {
		u64 offset = word_at(c->structure, offset_of(it, PYTHON_INSTRUCTION));

		// Until 3.10 it is an index, and then an address.
		if (offset_of(it, PYTHON_BYTECODE) == NO_OFFSET)
			offset = (u32)offset;
		else
			offset -= code + offset_of(it, PYTHON_BYTECODE);
		place |= offset & PLACE_OFFSET_MASK;
	}
	push_call(c, code, place | mark);
	return 0;
}

#include "python_tasks.h"

static __always_inline long next_python_frame(u64 index, struct language_walk *w)
{
	struct calls *c = w->c;
	struct interpreter *it = w->it;
	u64 frame = c->at[PYTHON_AT_FRAME], coroutine = c->at[PYTHON_COROUTINE], place;
	int is_generator, is_entry;

	if (!frame || read_user(w->other, c->structure, size_of(it, PYTHON_FRAME_BYTES), frame))
		return 1;
	c->at[PYTHON_AT_FRAME] = word_at(c->structure, offset_of(it, PYTHON_PREVIOUS));
	c->at[PYTHON_COROUTINE] = 0;
	if (offset_of(it, PYTHON_NO_FUNCTION) != NO_OFFSET &&
	    byte_at(c->structure, offset_of(it, PYTHON_OWNER)) >= offset_of(it, PYTHON_NO_FUNCTION)) {
		place = find_native(w->s, frame);
		if (coroutine && find_task(w, c->at[PYTHON_AT_FRAME], coroutine))
			LOOP(MOST_WAITERS, next_waiter, w);
		push_call(c, FUNCTION_NONE, PLACE_END | (place & 0xfff) << PLACE_NATIVE_SHIFT);
		return 0;
	}
	is_generator = offset_of(it, PYTHON_GENERATOR_FRAME) != NO_OFFSET &&
		       byte_at(c->structure, offset_of(it, PYTHON_OWNER)) == OWNED_BY_GENERATOR;
	if (is_generator)
		c->at[PYTHON_COROUTINE] = frame;
	// Until 3.10, each frame has a run of the loop for itself.
	is_entry = offset_of(it, PYTHON_NO_FUNCTION) == NO_OFFSET &&
		   (offset_of(it, PYTHON_IS_ENTRY) == NO_OFFSET ||
		    byte_at(c->structure, offset_of(it, PYTHON_IS_ENTRY)));
	if (!is_generator || !is_entry || !find_task(w, c->at[PYTHON_AT_FRAME], frame))
		return push_python_function(w, is_entry ? PLACE_END : 0);
	if (push_python_function(w, 0))
		return 1;
	LOOP(MOST_WAITERS, next_waiter, w);
	push_call(c, FUNCTION_NONE, PLACE_END);
	return 0;
}
STEP(next_python_frame)

// The calls in the state of a thread.
static __always_inline void walk_python_state(struct language_walk *w, u64 state)
{
	struct calls *c = w->c;
	struct interpreter *it = w->it;

	if (offset_of(it, PYTHON_CFRAME) != NO_OFFSET) {
		state = read_word(w, state + offset_of(it, PYTHON_CFRAME));
		if (!state)
			return;
	}
	c->at[PYTHON_AT_FRAME] = read_word(w, state + offset_of(it, PYTHON_FRAME));
	c->at[PYTHON_COROUTINE] = 0;
	LOOP(2 * MAX_CALLS, next_python_frame, w);
}

static __always_inline void walk_python(struct language_walk *w)
{
	u64 state = find_python_thread(w);

	if (!state)
		return;
	walk_python_state(w, state);
	state = w->c->at[PYTHON_OUTER_STATE];
	if (state)
		walk_python_state(w, state);
}

#endif
