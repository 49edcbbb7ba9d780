// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Allocations, and those that were not freed.

#ifndef PYROGRAPH_ALLOCATIONS_H
#define PYROGRAPH_ALLOCATIONS_H

#include "sample.h"

// An allocator function, as its probe's cookie has it: which one (`enum allocation`), whether it may pass calls on to
// another library, and above that 28 bits each of its offset from the start of its library's code, and of the length of
// that code.
#define FUNCTION(cookie) ((cookie) & 0x7f)
#define PASSES_ON(cookie) ((cookie) & 0x80)
#define BEHIND_START(cookie) ((cookie) >> 8 & ((1 << 28) - 1))
#define TEXT_SIZE(cookie) ((cookie) >> 36)

// How many bytes a function is asked for.
static __always_inline u64 bytes_asked(struct event_context *ctx, u64 function)
{
	u64 first = ctx->di, second = ctx->si, third = ctx->dx;

	// The verifier takes no address in the context that the compiler chose between.
	asm volatile("" : "+r"(first), "+r"(second), "+r"(third));
	switch (function) {
	case ALLOCATION_MALLOC:
	case ALLOCATION_BY_ANOTHER:
		return first;
	case ALLOCATION_CALLOC:
		return first * second;
	case ALLOCATION_POSIX_MEMALIGN:
		return third;
	case ALLOCATION_REALLOC_ARRAY:
		return second * third;
	default:
		return second;
	}
}

// As many bytes more a function may ask another for, so that it can align what it gets.
static __always_inline u64 bytes_to_align(struct event_context *ctx, u64 function)
{
	switch (function) {
	case ALLOCATION_POSIX_MEMALIGN:
		return ctx->si;
	case ALLOCATION_ALIGNED:
		return ctx->di;
	case ALLOCATION_BY_ANOTHER:
		return 2 * 4096;
	default:
		return 0;
	}
}

// As many bytes more it may ask another library for, beside each block.
#define BYTES_OF_NOTES 4096

// The last function that a thread called for memory and that may call another for it.
struct call {
	// Where its return address was, and what it was; 0: there is none.
	u64 sp;
	u64 caller;
	u64 cookie;
	// Where the code of its library begins.
	u64 text;
	u64 bytes;
	u64 to_align;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct call);
} calls SEC(".maps");

// The frames of functions that give memory, which call one another, take less than this of the stack.
#define MOST_BETWEEN 512

// Returns true if a call whose return address was there has not returned: that address may be the kernel's
// trampoline, which stands there where somebody probes the return.
static __always_inline int has_not_returned(struct task_struct *task, struct call *outer)
{
	struct return_instance *probed;
	u64 caller;

	if (bpf_probe_read_user(&caller, 8, (void *)outer->sp))
		return 0;
	if (caller == outer->caller)
		return 1;
	if (!bpf_core_type_exists(struct return_instance))
		return 0;
	probed = (struct return_instance *)last_probed_call(task);
	return probed && BPF_CORE_READ(probed, stack) == outer->sp;
}

// Returns true if a function was called by the one that was noted, and not by the program. There is no probe where
// functions return, for that costs as much again. But the first call comes next after the one it is made in, for as
// many bytes (or some more, to be aligned or noted); and if it is a jump, the return address is the same and in the
// same place, else it is in the library of the one that was noted and the other is still where it was.
static __always_inline int is_inner(struct event_context *ctx, struct task_struct *task, struct call *outer,
				    u64 cookie, u64 bytes)
{
	u64 caller, more = outer->to_align;

	if (ctx->ip - BEHIND_START(cookie) != outer->text) {
		if (!PASSES_ON(outer->cookie))
			return 0;
		more += BYTES_OF_NOTES;
	}
	if (!outer->sp || outer->cookie == cookie || ctx->sp > outer->sp ||
	    outer->sp - ctx->sp > MOST_BETWEEN || bytes < outer->bytes || bytes - outer->bytes > more)
		return 0;
	if (ctx->sp < outer->sp && (bpf_probe_read_user(&caller, 8, (void *)ctx->sp) ||
				    caller - outer->text >= TEXT_SIZE(outer->cookie)))
		return 0;
	return has_not_returned(task, outer);
}

// Returns true if the program called a function, and not another allocator function did; then it is noted, if it may
// call others.
static __always_inline int is_outermost(struct event_context *ctx, struct task_struct *task, u64 cookie,
					u64 bytes)
{
	struct call *call = bpf_task_storage_get(&calls, task, NULL, 0);

	if (call && is_inner(ctx, task, call, cookie, bytes))
		return 0;
	if (call)
		call->sp = 0;
	// This one calls no other.
	if (FUNCTION(cookie) == ALLOCATION_MALLOC && !PASSES_ON(cookie))
		return 1;
	if (!call)
		call = bpf_task_storage_get(&calls, task, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!call || bpf_probe_read_user(&call->caller, 8, (void *)ctx->sp))
		return 1;
	call->sp = ctx->sp;
	call->cookie = cookie;
	call->text = ctx->ip - BEHIND_START(cookie);
	call->bytes = bytes;
	call->to_align = bytes_to_align(ctx, FUNCTION(cookie));
	return 1;
}

// A program asks for memory.
SEC("uprobe")
int on_allocation(struct event_context *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	u64 cookie = bpf_get_attach_cookie(ctx), bytes = bytes_asked(ctx, FUNCTION(cookie));

	if (is_target(task) && is_outermost(ctx, task, cookie, bytes))
		sample_here(NULL, task, KIND_PROBE, 0, bytes);
	return 0;
}

__noinline u64 hash_key(struct key *key)
{
	u64 hash = HASH_START, *words = (u64 *)key;

	if (!key)
		return 0;
	for (int i = 0; i < sizeof(*key) / 8; i++)
		hash = mix(hash, words[i]);
	return hash;
}

// Memory is freed: what was known of it is put into `known`, if that is wanted.
static __always_inline void forget(u32 tgid, u64 address, struct given *known)
{
	struct place place = { .tgid = tgid, .address = address };
	struct given *given = bpf_map_lookup_elem(&held, &place);
	struct given copy;
	struct site *site;

	if (!given)
		return;
	copy = *given;
	// Who deletes it has it: two threads may be here for one address.
	if (bpf_map_delete_elem(&held, &place))
		return;
	site = bpf_map_lookup_elem(&sites, &copy.site);
	if (site) {
		__sync_fetch_and_add(&site->events, -1);
		__sync_fetch_and_add(&site->value, -copy.bytes);
	}
	if (known)
		*known = copy;
}

// Memory is held by a site that is known.
static __always_inline void hold(u32 tgid, u64 address, u64 number, u64 bytes)
{
	struct place place = { .tgid = tgid, .address = address };
	struct given given = { .site = number, .bytes = bytes };
	struct site *site = bpf_map_lookup_elem(&sites, &number);

	// It was given back where that could not be seen.
	forget(tgid, address, NULL);
	if (!site || bpf_map_update_elem(&held, &place, &given, BPF_ANY)) {
		lose(&state.lost_counts);
		return;
	}
	__sync_fetch_and_add(&site->events, 1);
	__sync_fetch_and_add(&site->value, bytes);
}

// True if the kernel does not report which probed functions have not returned.
static __always_inline int returns_are_unknown(struct task_struct *task)
{
	return !bpf_core_field_exists(task->utask);
}

// A program asks for memory: the stack is taken now, for when the function returns it is not on it any
// more.
SEC("uprobe")
int on_ask(struct event_context *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	u32 tgid = task->tgid, tid = task->pid;
	struct given known = {};
	struct asked *outer;
	struct scratch *s;

	if (!is_target(task))
		return 0;
	// One function may call another, or jump to it: what the program called counts. Where a call has not
	// returned, the kernel knows of a return that is probed.
	outer = bpf_map_lookup_elem(&asked, &tid);
	if (outer && ctx->sp <= outer->sp && (returns_are_unknown(task) || last_probed_call(task)))
		return 0;
	s = take_scratch();
	if (!s)
		return 0;
	s->blocked.key.kind = KIND_PROBE;
	if (take_stacks(s, NULL, task, 0)) {
		s->asked.key = s->blocked.key;
		s->asked.sp = ctx->sp;
		s->asked.function = FUNCTION(bpf_get_attach_cookie(ctx));
		s->asked.bytes = bytes_asked(ctx, s->asked.function);
		s->asked.to = ctx->di;
		s->asked.old = 0;
		if (s->asked.function == ALLOCATION_REALLOC || s->asked.function == ALLOCATION_REALLOC_ARRAY) {
			s->asked.old = ctx->di;
			// Before it is given back, for then another thread may be given it.
			forget(tgid, ctx->di, &known);
		}
		s->asked.old_site = known.site;
		s->asked.old_bytes = known.bytes;
		if (bpf_map_update_elem(&asked, &tid, &s->asked, BPF_ANY))
			lose(&state.lost_counts);
	}
	give_back(s);
	return 0;
}

// The allocation has returned.
SEC("uretprobe")
int on_given(struct event_context *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	u32 tgid = task->tgid, tid = task->pid;
	struct asked *call = bpf_map_lookup_elem(&asked, &tid);
	u64 address = ctx->ax, number;
	struct scratch *s;

	// The return address is off the stack.
	if (!call || ctx->sp != call->sp + 8)
		return 0;
	s = take_scratch();
	if (!s)
		return 0;
	s->asked = *call;
	bpf_map_delete_elem(&asked, &tid);
	if (s->asked.function == ALLOCATION_POSIX_MEMALIGN &&
	    (ctx->ax || bpf_probe_read_user(&address, 8, (void *)s->asked.to)))
		address = 0;
	if (address) {
		number = hash_key(&s->asked.key);
		s->site.key = s->asked.key;
		s->site.events = 0;
		s->site.value = 0;
		bpf_map_update_elem(&sites, &number, &s->site, BPF_NOEXIST);
		hold(tgid, address, number, s->asked.bytes);
	} else if (s->asked.old_site && s->asked.bytes) {
		// `realloc` could not, and left it as it was.
		hold(tgid, s->asked.old, s->asked.old_site, s->asked.old_bytes);
	}
	give_back(s);
	return 0;
}

// A program gives memory back.
SEC("uprobe")
int on_free(struct event_context *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();

	if (ctx->di && is_target(task))
		forget(task->tgid, ctx->di, NULL);
	return 0;
}

#endif
