// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Memory by which functions are named. A process may be gone when user space comes to look: so the programs
// emit what is needed when a function is first emitted.

#ifndef PYROGRAPH_NAMES_OF_FUNCTIONS_H
#define PYROGRAPH_NAMES_OF_FUNCTIONS_H

#include "calls.h"

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 22);
} functions SEC(".maps");

struct function_key {
	u64 function;
	u32 tgid;
	u32 identity;
};

// Functions that were emitted, and when stacks were last forgotten before.
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct function_key);
	__type(value, u64);
} functions_emitted SEC(".maps");

// The word at an offset of a piece; 0 if it is not there.
static __always_inline u64 word_of(struct chunk *from, u64 offset)
{
	// The verifier has to see the range of the very value that is added.
	asm volatile("" : "+r"(offset));
	if (offset > CHUNK_BYTES - 8 || offset + 8 > from->len)
		return 0;
	return *(u64 *)(from->bytes + offset);
}

static __always_inline void read_chunk(struct language_walk *w, struct chunk *chunk, u64 address, u32 len)
{
	u32 rest = 4096 - (address & 4095);

	chunk->address = address;
	chunk->len = 0;
	if (address < 4096 || len > CHUNK_BYTES)
		return;
	if (!read_user(w->other, chunk->bytes, len, address)) {
		chunk->len = len;
		return;
	}
	// The next page may not be there.
	if (rest >= len)
		return;
	// That it is less than `len`, and so small enough, the verifier of Linux 6.1 does not see.
	asm volatile("" : "+r"(rest));
	if (rest <= CHUNK_BYTES && !read_user(w->other, chunk->bytes, rest, address))
		chunk->len = rest;
}

// Reads one of the pieces of memory that name a function.
static __always_inline long next_chunk(u64 index, struct language_walk *w)
{
	struct named_function *named = &w->c->named;
	struct chunk_plan *plan;
	struct chunk *from;
	u64 address, at;

	if (!IS_BELOW(MAX_CHUNKS, index) || index >= w->it->chunks)
		return 1;
	plan = &w->it->plan[index];
	address = named->function.function & ~FUNCTION_BITS;
	if (index) {
		from = &named->chunks[index_below(MAX_CHUNKS, plan->from)];
		at = plan->offset;
		if (plan->pairs)
			at += 16 * (word_of(from, plan->pairs) >> 32);
		address = plan->from < index ? word_of(from, at) & ~(u64)w->it->tag : 0;
		if (plan->from == CHUNK_OWNER)
			address = named->function.owner;
		else if (plan->from == CHUNK_FUNCTION)
			address = (named->function.function & ~FUNCTION_BITS) + plan->offset;
	}
	if (address && plan->behind) {
		from = &named->chunks[index_below(MAX_CHUNKS, plan->behind >> 8)];
		address += 8 * (word_of(from, plan->behind & 0xff) + 1);
	}
	read_chunk(w, &named->chunks[index], address, plan->len);
	named->function.chunks = index + 1;
	return 0;
}
STEP(next_chunk)

// Emits what names a function, unless that was done.
static __always_inline long next_name(u64 index, struct language_walk *w)
{
	struct calls *c = w->c;
	struct function *function = &c->named.function;
	struct function_key key = {};
	u64 at = CALLS_HEAD + 2 * index_below(MAX_CALLS, index), pointer, place, size;
	u64 generation = state.forgotten;
	struct language_walk inner = { .c = c, .s = w->s, .other = w->other };
	u64 *known;

	if (index >= c->count)
		return 1;
	pointer = c->words[at];
	place = c->words[at + 1];
	if (pointer == FUNCTION_INTERPRETER) {
		c->row = place;
		return 0;
	}
	if (pointer < FUNCTION_POINTERS)
		return 0;
	key.function = pointer;
	key.tgid = w->s->question.tgid;
	key.identity = place >> PLACE_IDENTITY_SHIFT & 0xffffff;
	known = bpf_map_lookup_elem(&functions_emitted, &key);
	if (known && *known == generation)
		return 0;
	inner.it = bpf_map_lookup_elem(&interpreters, &c->row);
	if (!inner.it)
		return 1;
	function->module = inner.it->module;
	function->function = pointer;
	function->tgid = key.tgid;
	function->identity = key.identity;
	function->chunks = 0;
	function->owner = inner.it->language == LANGUAGE_RUBY ? c->owners[index_below(MAX_CALLS, index)] : 0;
	LOOP(MAX_CHUNKS, next_chunk, &inner);
	if (function->chunks > MAX_CHUNKS)
		return 0;
	size = sizeof(*function) + function->chunks * sizeof(struct chunk);
	asm volatile("" : "+r"(size));
	if (size > sizeof(c->named))
		return 0;
	// Without room for it, it is tried again with the next calls that it is in.
	if (!bpf_ringbuf_output(&functions, &c->named, size, BPF_RB_NO_WAKEUP))
		bpf_map_update_elem(&functions_emitted, &key, &generation, BPF_ANY);
	return 0;
}
STEP(next_name)

#endif
