// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Stacks are emitted to user space, each once.

#ifndef PYROGRAPH_EMIT_H
#define PYROGRAPH_EMIT_H

#include "maps.h"

static __always_inline void lose(u64 *what)
{
	increment(what);
}

// Emits a hash, a number of words and so many words, `most` at most, if they were not emitted before. Returns true if
// user space has them.
static __always_inline int emit_words(void *words, u64 hash, u64 len, u64 most)
{
	u64 size = 16 + 8 * len;
	u32 slot = hash & (TOLD_SLOTS - 1);
	// Hashes of one slot differ in their upper bits only, what was forgotten in the lower.
	u64 mark = hash ^ state.forgotten;
	u64 *emitted_mark = bpf_map_lookup_elem(&emitted, &slot);

	if (!emitted_mark)
		return 0;
	if (*emitted_mark == mark)
		return 1;
	// The value that is compared is the one that is passed: older verifiers see no connection otherwise.
	asm volatile("" : "+r"(size));
	if (size > 16 + 8 * most)
		return 0;
	if (bpf_ringbuf_output(&stacks, words, size, BPF_RB_NO_WAKEUP)) {
		lose(&state.lost_stacks);
		return 0;
	}
	*emitted_mark = mark;
	return 1;
}

// Returns true if a stack is yet to be emitted.
static __always_inline int is_new(u64 hash)
{
	u32 slot = hash & (TOLD_SLOTS - 1);
	u64 *emitted_mark = bpf_map_lookup_elem(&emitted, &slot);

	return !emitted_mark || *emitted_mark != (hash ^ state.forgotten);
}

static __always_inline int emit_stack(struct stack *stack)
{
	return emit_words(stack, stack->hash, stack->len, MAX_FRAMES + 1);
}

#endif
