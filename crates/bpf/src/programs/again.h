// SPDX-License-Identifier: MIT OR Apache-2.0
//
// The outer frames of most stacks are those of the last stack that this CPU took of the thread. Where a frame has the same
// code and stack pointer as one had there, each frame outside of it is the same if all return addresses that led to these
// are still in their places: that is one read a frame, and no look at mappings and tables.
//
// It follows from frame to frame: the same code at the same stack pointer has the same rule, and so its return address in
// the same place. A rule that asks for the frame pointer, too, asks for the same one; it is followed from frame to frame
// for that. Rules that ask for more than these two registers are not followed here.

#ifndef PYROGRAPH_AGAIN_H
#define PYROGRAPH_AGAIN_H

#include "maps.h"

// Longer stacks are unwound anew each time.
#define MOST_AGAIN 256
// Of shorter ones, this would save little.
#define LEAST_AGAIN 12
// How many frames of a stack are looked for in the last one: those near its leaf differ.
#define TRIES 8

// In place of the number of words: the caller cannot be found by the stack and frame pointers alone.
#define NOT_AGAIN 0x7f
// The words of the stack from so many below a return address on, as many as fit `s->node`, are read at once.
#define WORDS_BELOW 7
// Beside that number: the caller is found by the frame pointer.
#define ASKS_FOR_FP 0x80

struct record_of_stack {
	u32 len;
	// The last frame that asks for its frame pointer.
	u32 last_fp;
	u64 frames[MOST_AGAIN];
	// Of each frame: where it goes on, and its stack and frame pointers.
	u64 ips[MOST_AGAIN];
	u64 sps[MOST_AGAIN];
	u64 fps[MOST_AGAIN];
	// How many words below the canonical frame address the caller's frame pointer is; 0: it is unchanged.
	u8 words[MOST_AGAIN];
};

// The last whole stack, and one that is being unwound.
struct last_stacks {
	// Which of the two is the last; the mappings with which it was unwound (`struct scratch`).
	u32 last;
	u32 mappings;
	struct record_of_stack stacks[2];
};

// As there are `scratches`.
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, SCRATCHES);
	__type(key, u32);
	__type(value, struct last_stacks);
} last_stacks SEC(".maps");

static __always_inline struct last_stacks *last_stacks_of(struct scratch *s)
{
	u32 number = s->number;

	return bpf_map_lookup_elem(&last_stacks, &number);
}

// How the caller's frame pointer is found from a frame with a rule.
static __always_inline u8 words_to_fp(struct rule *rule)
{
	u8 asks = rule->base == RBP ? ASKS_FOR_FP : 0;

	if (rule->kind == RULE_NONE)
		return 2 | ASKS_FOR_FP;
	if (rule->kind != RULE_OFFSET || rule->add || rule->below_fp || rule->flags ||
	    (rule->base != RSP && rule->base != RBP))
		return NOT_AGAIN;
	// There is the return address.
	return rule->saved[0] == 1 || rule->saved[0] > WORDS_BELOW + 1 ? NOT_AGAIN : rule->saved[0] | asks;
}

// Notes the last frame of the stack that is being unwound.
static __always_inline void note_frame(struct scratch *s, u8 words)
{
	u64 at = s->user.len - 1;
	struct record_of_stack *stack;
	struct last_stacks *of;

	if (!s->again.notes || !IS_BELOW(MOST_AGAIN, at))
		return;
	of = last_stacks_of(s);
	if (!of)
		return;
	stack = &of->stacks[index_below(2, of->last ^ 1)];
	stack->frames[at] = s->user.frames[at];
	stack->ips[at] = s->ip;
	stack->sps[at] = s->registers[RSP];
	stack->fps[at] = s->registers[RBP];
	stack->words[at] = words;
	if (!at)
		stack->last_fp = 0;
	if (words & ASKS_FOR_FP)
		stack->last_fp = at;
}

// The place in the last stack of the frame that the walk has come to; 0 if it is not there, or its leaf.
__noinline int find_again(struct scratch *s)
{
	struct record_of_stack *stack;
	struct last_stacks *of;
	u32 low = 0, high;
	u64 sp;

	if (!s)
		return 0;
	of = last_stacks_of(s);
	if (!of)
		return 0;
	stack = &of->stacks[index_below(2, of->last)];
	sp = s->registers[RSP];
	high = stack->len;
	for (int i = 0; i < 9 && low < high; i++) {
		u32 middle = (low + high) / 2;

		if (stack->sps[index_below(MOST_AGAIN, middle)] < sp)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low || low >= stack->len || stack->sps[index_below(MOST_AGAIN, low)] != sp ||
	    stack->ips[index_below(MOST_AGAIN, low)] != s->ip)
		return 0;
	return low;
}

static __always_inline void push_again(struct scratch *s, struct record_of_stack *stack, u32 place)
{
	u64 at = s->user.len, frame = stack->frames[index_below(MOST_AGAIN, place)];

	if (!IS_BELOW(MAX_FRAMES, at))
		return;
	s->user.frames[at] = frame;
	s->sps[at] = stack->sps[index_below(MOST_AGAIN, place)];
	s->fps[at] = stack->fps[index_below(MOST_AGAIN, place)];
	s->blobs[at] = 0;
	s->user.len = at + 1;
	s->user.hash = mix(s->user.hash, frame);
}

// Looks for the frame that the walk has come to in the last stack. Returns 1 if it goes on there.
static __always_inline int begin_again(struct scratch *s)
{
	struct last_stacks *of;
	u32 place;

	s->again.tries--;
	// By what led here, the frame pointer may be unknown.
	if (!s->called || !(s->known >> RBP & 1))
		return 0;
	place = find_again(s);
	if (!place)
		return 0;
	of = last_stacks_of(s);
	if (!of)
		return 0;
	s->again.tries = 0;
	s->again.len = s->user.len;
	s->again.hash = s->user.hash;
	s->again.fp = s->registers[RBP];
	s->again.around = 0;
	s->again.place = place;
	push_again(s, &of->stacks[index_below(2, of->last)], place);
	return 1;
}

// Reads the stack around a place, if it is not there yet. Returns the index of its word in `s->node`, or 0.
static __always_inline u64 read_around(struct scratch *s, u64 place)
{
	u64 at = (place - s->again.around) >> 3;

	if (at >= WORDS_BELOW && at < 32)
		return at;
	s->again.around = place - 8 * WORDS_BELOW;
	if (!bpf_probe_read_user(s->node, sizeof(s->node), (const void *)s->again.around))
		return WORDS_BELOW;
	// Near the ends of the stack, there are not as many. The others are zeros now, which is no frame pointer.
	s->again.around = 0;
	return bpf_probe_read_user(&s->node[WORDS_BELOW - 1], 16, (const void *)(place - 8)) ? 0 : WORDS_BELOW;
}

// The next frame of the last stack, if it still is the caller. Returns 0 if it is not.
static __always_inline int take_next(struct scratch *s, struct record_of_stack *stack, u32 place)
{
	u32 next = place + 1;
	u64 how = stack->words[index_below(MOST_AGAIN, place)], words = how & ~ASKS_FOR_FP, at;

	if (words == NOT_AGAIN ||
	    (how & ASKS_FOR_FP && s->again.fp != stack->fps[index_below(MOST_AGAIN, place)]))
		return 0;
	at = read_around(s, stack->sps[index_below(MOST_AGAIN, next)] - 8);
	if (!at || s->node[index_below(32, at)] != stack->ips[index_below(MOST_AGAIN, next)])
		return 0;
	if (words && next <= stack->last_fp)
		s->again.fp = s->node[index_below(32, at + 1 - words)];
	push_again(s, stack, next);
	return 1;
}

// Some frames of the last stack, as long as they still are the callers. Returns 1 at the end.
__noinline int go_on_again(struct scratch *s)
{
	struct record_of_stack *stack;
	struct last_stacks *of;
	u32 place;

	if (!s)
		return 1;
	of = last_stacks_of(s);
	if (!of)
		return 1;
	stack = &of->stacks[index_below(2, of->last)];
	place = s->again.place;
	for (int i = 0; i < 8; i++, place++) {
		if (place + 1 >= stack->len) {
			s->end = END_ROOT;
			s->again.place = place;
			return 1;
		}
		if (!take_next(s, stack, place)) {
			// The registers are those of the frame where this began.
			s->user.len = s->again.len;
			s->user.hash = s->again.hash;
			s->again.place = 0;
			return 0;
		}
	}
	s->again.place = place;
	return 0;
}

// A stack begins.
static __always_inline void start_again(struct scratch *s, int is_possible)
{
	struct last_stacks *of = is_possible ? last_stacks_of(s) : NULL;

	s->again.place = 0;
	s->again.notes = is_possible;
	s->again.tries = of && of->mappings == s->mappings && s->mappings ? TRIES : 0;
}

// A stack has ended. It is the last one if it was unwound as a whole, by nothing but rules.
static __always_inline void keep_for_again(struct scratch *s)
{
	struct last_stacks *of;
	u32 pending;

	if (!s->again.notes || s->again.place || s->end != END_ROOT || s->guessed || s->has_made || s->found ||
	    s->user.len < LEAST_AGAIN || s->user.len > MOST_AGAIN)
		return;
	of = last_stacks_of(s);
	if (!of)
		return;
	pending = of->last ^ 1;
	of->stacks[index_below(2, pending)].len = s->user.len;
	of->last = pending & 1;
	of->mappings = s->mappings;
}

#endif
