// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Who waits for the tasks of asyncio, in CPython from 3.11 on.
//
// The event loop runs a task's coroutine from `Handle._run`: the coroutines that wait for the task are not on the stack. The
// task's callback leads to them. It wakes up another task; or it is a closure or has an argument with a future whose callback
// does (`gather`, `wait`, `shield`; `wait_for` until 3.11); or it belongs to a `TaskGroup`, which has the task that waits for
// it. The coroutine of a task leads to those that it awaits, by what is on top of each one's stack.
//
// Nothing is taken for a task by its place alone: the first one has the coroutine that runs, and others are what the callback
// `task_wakeup` belongs to, or are of the first one's type.
//
// Sources: Modules/_asynciomodule.c, Lib/asyncio/events.py (slots are in alphabetical order), Include/internal/pycore_frame.h,
// Include/cpython/genobject.h.

#ifndef PYROGRAPH_PYTHON_TASKS_H
#define PYROGRAPH_PYTHON_TASKS_H

#include "calls.h"

enum python_task_offset {
	// In any object.
	OBJECT_TYPE = 8,
	// In `Handle`: what it calls. That wraps a task at the one or the other.
	HANDLE_CALLBACK = 24,
	WRAPPER_TASK = 16,
	// In functions of C, in bound methods, and in `functools.partial`: the description of the first; the object, or the
	// arguments.
	METHOD_DEFINITION = 16,
	METHOD_OBJECT = 24,
	// In functions of Python.
	FUNCTION_CLOSURE = 72,
	CELL_CONTENT = 16,
	SIZED_SIZE = 16,
	TUPLE_ITEMS = 24,
	// From 3.14 on a tuple has its hash before its items.
	TUPLE_ITEMS_3_14 = 32,
	LIST_ITEMS = 24,
	TYPE_NAME = 24,
	// In futures and tasks.
	FUTURE_CALLBACK = 24,
	FUTURE_CALLBACKS = 40,
	// As much of a task as has its coroutine.
	TASK_BYTES = 192,
};

// The beginnings of names.
#define NAME_TASK_WAKEUP 0x6b61775f6b736174ull // "task_wak"
#define NAME_FUNCTION 0x6e6f6974636e7566ull // "function"
#define NAME_PARTIAL 0x6c6f6f74636e7566ull // "functool"
#define NAME_TASK_GROUP 0x756f72476b736154ull // "TaskGrou"

// The walker's words for tasks, behind its others.
enum {
	// The frame of the last coroutine.
	PYTHON_COROUTINE = 5,
	PYTHON_TASK,
	PYTHON_TASK_TYPE,
	// The offset of the coroutine in a task.
	PYTHON_TASK_COROUTINE,
	PYTHON_WAITER,
	PYTHON_AWAITED,
	PYTHON_CHAIN_LENGTH,
	// Where the task may be found that is woken up, how many places there are, and what they have: of the first such callback, and
	// of the last.
	PYTHON_MEMBERS,
	PYTHON_MEMBER_COUNT,
	PYTHON_MEMBER_KIND,
	PYTHON_LAST_MEMBERS,
	// Coroutines of a task, the outermost first.
	PYTHON_CHAIN = 32,
};

// Futures in cells; futures; tasks among attributes.
enum { MEMBERS_CELLS, MEMBERS_FUTURES, MEMBERS_ATTRIBUTES };

#define MOST_AWAITED 16
#define MOST_WAITERS 16
#define MOST_CALLBACKS 4
#define MOST_MEMBERS 12
#define WALKERS_WORD(at) index_below(WALKERS_WORDS, at)

// From 3.14 on the lowest bits of references may be marks.
static __always_inline u64 read_reference(struct language_walk *w, u64 address)
{
	return read_word(w, address) & ~3ull;
}

static __always_inline u64 name_of_type(struct language_walk *w, u64 object)
{
	u64 type = object ? read_word(w, object + OBJECT_TYPE) : 0;
	u64 name = type ? read_word(w, type + TYPE_NAME) : 0;

	return name ? read_word(w, name) : 0;
}

static __always_inline u64 items_of_tuple(struct interpreter *it, u64 tuple)
{
	return tuple + (offset_of(it, PYTHON_MINOR) < 14 ? TUPLE_ITEMS : TUPLE_ITEMS_3_14);
}

// The task that a callback wakes up.
static __always_inline u64 woken_by(struct language_walk *w, u64 callback)
{
	u64 definition = callback ? read_word(w, callback + METHOD_DEFINITION) : 0;
	u64 name = definition ? read_word(w, definition) : 0;

	if (!name || read_word(w, name) != NAME_TASK_WAKEUP)
		return 0;
	return read_word(w, callback + METHOD_OBJECT);
}

// A callback of a future, the first one by itself and others in a list. 0: there are no more.
static __always_inline u64 callback_of(struct language_walk *w, u64 future, u64 index)
{
	u64 list, items, pair;

	if (!index)
		return read_word(w, future + FUTURE_CALLBACK);
	list = read_word(w, future + FUTURE_CALLBACKS);
	if (!list || read_word(w, list + SIZED_SIZE) < index)
		return 0;
	items = read_word(w, list + LIST_ITEMS);
	pair = items ? read_word(w, items + 8 * (index - 1)) : 0;
	return pair ? read_word(w, items_of_tuple(w->it, pair)) : 0;
}

// Takes a task if a coroutine is its own.
static __always_inline int take_task(struct language_walk *w, u64 task, u64 coroutine)
{
	struct calls *c = w->c;

	if (!task || read_user(w->other, c->other, TASK_BYTES, task))
		return 0;
	for (int i = 2; i < TASK_BYTES / 8; i++) {
		if (c->other[i] == coroutine) {
			c->at[PYTHON_TASK] = task;
			c->at[PYTHON_TASK_TYPE] = c->other[1];
			c->at[PYTHON_TASK_COROUTINE] = 8 * i;
			return 1;
		}
	}
	return 0;
}

// Finds the task of the coroutine with one frame, if the function with the other, which has called it, is `Handle._run`.
static __always_inline int find_task(struct language_walk *w, u64 caller, u64 frame)
{
	struct interpreter *it = w->it;
	u64 coroutine = frame - offset_of(it, PYTHON_GENERATOR_FRAME);
	u64 self = read_reference(w, caller + offset_of(it, PYTHON_FIRST_LOCAL));
	u64 callback = self ? read_word(w, self + HANDLE_CALLBACK) : 0;

	return callback && (take_task(w, read_word(w, callback + WRAPPER_TASK), coroutine) ||
			    take_task(w, read_word(w, callback + METHOD_OBJECT), coroutine));
}

// The attributes of an object: where they are depends on the version.
static __always_inline u64 attributes_of(struct language_walk *w, u64 object)
{
	u32 minor = offset_of(w->it, PYTHON_MINOR);

	if (minor > 12)
		return object + 24;
	return minor == 12 ? read_word(w, object - 24) + 1 : read_word(w, object - 32);
}

static __always_inline void set_members(struct calls *c, u64 members, u64 count, u64 kind)
{
	u64 at = c->at[PYTHON_MEMBERS] ? PYTHON_LAST_MEMBERS : PYTHON_MEMBERS;

	c->at[WALKERS_WORD(at)] = members;
	c->at[WALKERS_WORD(at + 1)] = count;
	c->at[WALKERS_WORD(at + 2)] = kind;
}

// One callback of a task: who is woken up, or where it is to be looked for.
static __always_inline long next_callback(u64 index, struct language_walk *w)
{
	struct calls *c = w->c;
	u64 callback = callback_of(w, c->at[PYTHON_TASK], index), object, name;

	if (!callback)
		return 1;
	c->at[PYTHON_WAITER] = woken_by(w, callback);
	if (c->at[PYTHON_WAITER])
		return 1;
	name = name_of_type(w, callback);
	object = read_word(w, callback + (name == NAME_FUNCTION ? FUNCTION_CLOSURE : METHOD_OBJECT));
	if (!object)
		return 0;
	if (name == NAME_FUNCTION || name == NAME_PARTIAL)
		set_members(c, items_of_tuple(w->it, object), read_word(w, object + SIZED_SIZE),
			    name == NAME_FUNCTION ? MEMBERS_CELLS : MEMBERS_FUTURES);
	else if (name_of_type(w, object) == NAME_TASK_GROUP)
		set_members(c, attributes_of(w, object), MOST_MEMBERS, MEMBERS_ATTRIBUTES);
	return 0;
}
STEP(next_callback)

static __always_inline long next_member(u64 index, struct language_walk *w)
{
	struct calls *c = w->c;
	u64 at = index < MOST_MEMBERS ? PYTHON_MEMBERS : PYTHON_LAST_MEMBERS, member, kind, type;

	index = index < MOST_MEMBERS ? index : index - MOST_MEMBERS;
	member = c->at[WALKERS_WORD(at)];
	kind = c->at[WALKERS_WORD(at + 2)];
	if (!member || index >= c->at[WALKERS_WORD(at + 1)])
		return 0;
	member = read_word(w, member + 8 * index);
	if (member && kind == MEMBERS_CELLS)
		member = read_word(w, member + CELL_CONTENT);
	if (!member)
		return 0;
	type = read_word(w, member + OBJECT_TYPE);
	if (kind != MEMBERS_ATTRIBUTES) {
		// Who waits for a task in a closure waits for another one.
		if (type == c->at[PYTHON_TASK_TYPE])
			return 0;
		// A shield's future has a callback of its own.
		c->at[PYTHON_WAITER] = woken_by(w, callback_of(w, member, 0));
		if (!c->at[PYTHON_WAITER])
			c->at[PYTHON_WAITER] = woken_by(w, callback_of(w, member, 1));
	} else if (type == c->at[PYTHON_TASK_TYPE]) {
		c->at[PYTHON_WAITER] = member;
	}
	return c->at[PYTHON_WAITER] != 0;
}
STEP(next_member)

// One coroutine of a task that waits, and what it awaits, if that is a coroutine.
static __always_inline long next_awaited(u64 index, struct language_walk *w)
{
	struct calls *c = w->c;
	struct interpreter *it = w->it;
	u64 coroutine = c->at[PYTHON_AWAITED], frame, top, awaited = 0;

	if (!coroutine)
		return 1;
	c->at[WALKERS_WORD(PYTHON_CHAIN + index_below(MOST_AWAITED, index))] = coroutine;
	c->at[PYTHON_CHAIN_LENGTH] = index + 1;
	frame = coroutine + offset_of(it, PYTHON_GENERATOR_FRAME);
	top = read_word(w, frame + offset_of(it, PYTHON_STACK_TOP));
	// Until 3.13 it is a number, and then an address.
	if (offset_of(it, PYTHON_MINOR) < 14)
		top = frame + offset_of(it, PYTHON_FIRST_LOCAL) + 8 * (u64)(u32)top;
	if (top > frame)
		awaited = read_reference(w, top - 8);
	if (!awaited || read_word(w, awaited + OBJECT_TYPE) != read_word(w, coroutine + OBJECT_TYPE))
		awaited = 0;
	c->at[PYTHON_AWAITED] = awaited;
	return 0;
}
STEP(next_awaited)

// The coroutines of a task as callers of the last call, the innermost first.
static __always_inline long next_waiting_call(u64 index, struct language_walk *w)
{
	struct calls *c = w->c;
	struct interpreter *it = w->it;
	u64 length = c->at[PYTHON_CHAIN_LENGTH], frame;

	if (index >= length)
		return 1;
	frame = c->at[WALKERS_WORD(PYTHON_CHAIN + index_below(MOST_AWAITED, length - 1 - index))] +
		offset_of(it, PYTHON_GENERATOR_FRAME);
	if (read_user(w->other, c->structure, size_of(it, PYTHON_FRAME_BYTES), frame))
		return 1;
	return push_python_function(w, 0);
}
STEP(next_waiting_call)

// Adds the coroutines of the task that waits for the last one.
static __always_inline long next_waiter(u64 index, struct language_walk *w)
{
	struct calls *c = w->c;

	c->at[PYTHON_WAITER] = 0;
	c->at[PYTHON_MEMBERS] = 0;
	c->at[PYTHON_LAST_MEMBERS] = 0;
	LOOP(MOST_CALLBACKS, next_callback, w);
	if (!c->at[PYTHON_WAITER] && c->at[PYTHON_MEMBERS])
		LOOP(2 * MOST_MEMBERS, next_member, w);
	if (!c->at[PYTHON_WAITER])
		return 1;
	c->at[PYTHON_TASK] = c->at[PYTHON_WAITER];
	c->at[PYTHON_AWAITED] = read_word(w, c->at[PYTHON_TASK] + c->at[PYTHON_TASK_COROUTINE]);
	c->at[PYTHON_CHAIN_LENGTH] = 0;
	LOOP(MOST_AWAITED, next_awaited, w);
	LOOP(MOST_AWAITED, next_waiting_call, w);
	return 0;
}
STEP(next_waiter)

#endif
