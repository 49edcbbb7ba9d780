// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Calls of an interpreter's language, as they are put together: what all walkers have in common.

#ifndef PYROGRAPH_CALLS_OF_LANGUAGES_H
#define PYROGRAPH_CALLS_OF_LANGUAGES_H

#include "../emit.h"
#include "../unwind.h"

// Words before the calls: the process, and how many calls there are.
#define CALLS_HEAD 2

// Bytes of a structure that are read at once.
#define STRUCTURE 256

// Words of a walker's own.
#define WALKERS_WORDS 64

// Where calls are put together.
struct calls {
	// As in `struct stack`.
	u64 hash;
	u64 len;
	u64 words[CALLS_HEAD + 2 * MAX_CALLS];
	u64 count;
	// To be added to an address in the interpreter's file for that in the process.
	u64 bias;
	// What `fs` points to.
	u64 fs;
	// The kernel's number of the thread.
	u64 thread;
	// The interpreter whose functions are named.
	u32 row;
	u32 pad;
	// Of calls of Ruby: the classes of the methods.
	u64 owners[MAX_CALLS];
	// The walkers' own.
	u64 at[WALKERS_WORDS];
	// A structure that was read, and another.
	u64 structure[STRUCTURE / 8];
	u64 other[STRUCTURE / 8];
	struct named_function named;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, SCRATCHES);
	__type(key, u32);
	__type(value, struct calls);
} calls_of SEC(".maps");

struct language_walk {
	struct calls *c;
	struct scratch *s;
	struct interpreter *it;
	// The thread, where it is not the current one.
	struct task_struct *other;
};

// Steps of loops are compiled twice: for the current thread, and for another, whose memory may have to be waited for. A
// program that must not wait cannot even have a step that could. Each step has the walk in variables of its own, so that the
// compiler knows which it is; the verifier wants the loop's context on the stack.
#define STEP(name)                                                                              \
	static long name##_here(u64 index, struct language_walk *outer)                         \
	{                                                                                       \
		struct language_walk w = { .c = outer->c, .s = outer->s, .it = outer->it };     \
                                                                                                \
		return name(index, &w);                                                         \
	}                                                                                       \
	static long name##_of_other(u64 index, struct language_walk *outer)                     \
	{                                                                                       \
		struct language_walk w = *outer;                                                \
                                                                                                \
		/* There is one, or a loop in a step is compiled for the current thread, too. */ \
		if (!w.other)                                                                   \
			__builtin_unreachable();                                                \
		return name(index, &w);                                                         \
	}

#define LOOP(count, name, w)                                                                    \
	do {                                                                                    \
		struct language_walk context = *(w);                                            \
                                                                                                \
		if ((w)->other)                                                                 \
			bpf_loop(count, name##_of_other, &context, 0);                          \
		else                                                                            \
			bpf_loop(count, name##_here, &context, 0);                              \
	} while (0)

// In place of an offset: there is no such thing.
#define NO_OFFSET 0xffffffff

static __always_inline u64 offset_of(struct interpreter *it, u32 which)
{
	return it->offsets[index_below(INTERPRETER_OFFSETS, which)];
}

// How many bytes of a structure are read.
static __always_inline u32 size_of(struct interpreter *it, u32 which)
{
	u32 size = offset_of(it, which);

	asm volatile("" : "+r"(size));
	return size < STRUCTURE ? size : STRUCTURE;
}

// The address of a symbol in the process.
static __always_inline u64 symbol_of(struct language_walk *w, u32 which)
{
	return w->c->bias + w->it->symbols[index_below(INTERPRETER_SYMBOLS, which)];
}

static __always_inline u64 word_at(u64 *structure, u64 offset)
{
	return structure[index_below(STRUCTURE / 8, offset / 8)];
}

static __always_inline u32 half_at(u64 *structure, u64 offset)
{
	return ((u32 *)structure)[index_below(STRUCTURE / 4, offset / 4)];
}

static __always_inline u8 byte_at(u64 *structure, u64 offset)
{
	return ((u8 *)structure)[index_below(STRUCTURE, offset)];
}

// Reads a word of the process; 0 if it cannot be read.
static __always_inline u64 read_word(struct language_walk *w, u64 address)
{
	u64 value = 0;

	if (read_user(w->other, &value, 8, address))
		return 0;
	return value;
}

// Where a call is kept: the outermost ones are, in a ring.
static __always_inline u64 place_of_call(u64 number)
{
	if (number >= INNER_CALLS)
		number = INNER_CALLS + (number & (INNER_CALLS - 1));
	return index_below(MAX_CALLS, number);
}

// Adds a call, a caller of the last one.
static __always_inline void push_call(struct calls *c, u64 function, u64 place)
{
	u64 at = CALLS_HEAD + 2 * place_of_call(c->count);

	c->words[at] = function;
	c->words[at + 1] = place;
	c->hash = mix(mix(c->hash, function), place);
	c->count++;
}

// 24 bits of what makes a function another one if it is at the same address.
static __always_inline u64 identity(u64 hash)
{
	return (hash & 0xffffff) << PLACE_IDENTITY_SHIFT;
}

// The native frame whose part of the stack an address is in, as PLACE has it.
__noinline u32 find_native(struct scratch *s, u64 address)
{
	u32 low = 0, high;

	if (!s)
		return 0;
	high = s->user.len;
	if (!high || high > MAX_FRAMES || s->sps[0] > address)
		return 0;
	for (int i = 0; i < 10 && high - low > 1; i++) {
		u32 middle = (low + high) / 2;

		if (s->sps[index_below(MAX_FRAMES, middle)] <= address)
			low = middle;
		else
			high = middle;
	}
	return low + 1;
}

// The address of the thread's variable that leads to its calls; 0 if it has none.
static __always_inline u64 place_in_thread(struct language_walk *w)
{
	struct place_in_thread *place = &w->it->place;
	u64 at = w->c->bias + place->value, key;

	switch (place->kind) {
	case PLACE_GLOBAL:
		return at;
	case PLACE_THREAD:
		return w->c->fs + place->value;
	case PLACE_THREAD_AT:
		return w->c->fs + read_word(w, at);
	case PLACE_LIBRARY: {
		u64 number = read_word(w, at), blocks = read_word(w, w->c->fs + 8), block;

		if (!number || number > 1024 || !blocks)
			return 0;
		block = read_word(w, blocks + number * place->row);
		// Not allocated yet: glibc has -1.
		return block && block + 1 ? block + place->detail : 0;
	}
	case PLACE_KEY:
		key = read_word(w, at) & 0xffffffff;
		// Values behind the first 32 keys are in blocks of their own.
		return key < 32 ? w->c->fs + place->detail + 16 * key + 8 : 0;
	}
	return 0;
}

#endif
