// SPDX-License-Identifier: MIT OR Apache-2.0
//
// What asks for memory, and what still holds it.

#ifndef PYROGRAPH_ALLOCATIONS_H
#define PYROGRAPH_ALLOCATIONS_H

#include "count.h"

// How many bytes a function is asked for; `function` is an `enum allocation`.
static __always_inline u64 bytes_asked(struct event_context *ctx, u64 function)
{
	switch (function) {
	case ALLOCATION_MALLOC:
		return ctx->di;
	case ALLOCATION_CALLOC:
		return ctx->di * ctx->si;
	case ALLOCATION_POSIX_MEMALIGN:
		return ctx->dx;
	default:
		return ctx->si;
	}
}

// A program asks for memory.
SEC("uprobe")
int on_allocation(struct event_context *ctx)
{
	count_here(NULL, SORT_PROBE, 0, bytes_asked(ctx, bpf_get_attach_cookie(ctx)));
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

// Memory is given back: what was known of it is put into `known`, if that is wanted.
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
	// One function may call another: what the program called counts.
	outer = bpf_map_lookup_elem(&asked, &tid);
	if (outer && ctx->sp < outer->sp)
		return 0;
	s = take_scratch();
	if (!s)
		return 0;
	s->blocked.key.sort = SORT_PROBE;
	if (take_stacks(s, NULL, task, 0)) {
		s->asked.key = s->blocked.key;
		s->asked.sp = ctx->sp;
		s->asked.function = bpf_get_attach_cookie(ctx);
		s->asked.bytes = bytes_asked(ctx, s->asked.function);
		s->asked.to = ctx->di;
		s->asked.old = 0;
		if (s->asked.function == ALLOCATION_REALLOC) {
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

// What it asked for is given.
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
