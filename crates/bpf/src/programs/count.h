// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Counting of stacks.

#ifndef PYROGRAPH_COUNT_H
#define PYROGRAPH_COUNT_H

#include "copy.h"
#include "emit.h"
#include "languages/walk.h"
#include "targets.h"

static __always_inline int is_target(struct task_struct *task)
{
	return state.on && is_wanted_thread(task);
}

// Memory for one stack, of this program alone until it is given back.
static __always_inline struct scratch *take_scratch(void)
{
	for (u32 i = 0; i < SCRATCHES; i++) {
		u32 number = i;
		struct scratch *s = bpf_map_lookup_elem(&scratches, &number);

		if (!s)
			return NULL;
		if (!__sync_lock_test_and_set(&s->busy, 1)) {
			s->number = i;
			return s;
		}
	}
	lose(&state.lost_busy);
	return NULL;
}

static __always_inline void give_back(struct scratch *s)
{
	__sync_lock_test_and_set(&s->busy, 0);
}

__noinline int hash_frames(struct stack *stack)
{
	u64 hash = HASH_START;

	if (!stack)
		return 0;
	for (int i = 0; i < MAX_KERNEL_FRAMES; i++) {
		if (i >= stack->len)
			break;
		hash = mix(hash, stack->frames[i]);
	}
	stack->hash = hash;
	return 0;
}

// The kernel part of the stack; `bytes` is what a helper returned that wrote it.
static __always_inline int tell_kernel_stack(struct scratch *s, long bytes)
{
	if (bytes <= 0 || bytes > MAX_KERNEL_FRAMES * 8)
		return 1;
	s->kernel.len = (u64)bytes / 8;
	hash_frames(&s->kernel);
	s->blocked.key.kernel = s->kernel.hash;
	return emit_stack(&s->kernel);
}

// Returns true if a thread is one of a program, and not the kernel's.
static __always_inline int has_program(struct task_struct *task)
{
	return !(task->flags & PF_KTHREAD) && BPF_CORE_READ(task, mm);
}

static __always_inline int tell_user_stack(struct scratch *s, struct task_struct *task, int is_other)
{
	s->blocked.key.user = 0;
	// Before Linux 5.18 a program cannot read the memory of another thread.
	if (is_other && !bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_copy_from_user_task)) {
		leave_out(s);
	} else {
		if (!unwind_user(s, task, is_other))
			return 1;
		add_calls(s, task, is_other);
		if (may_copy(s) && emit_stack(&s->user) && copy_stack(s, task, is_other))
			return 1;
		increment(&state.ends[index_below(16, s->end)]);
	}
	s->blocked.key.user = s->user.hash;
	return emit_stack(&s->user);
}

static __always_inline void name_thread(struct key *key, struct task_struct *task)
{
	key->tgid = process_number(task, task->tgid);
	key->tid = thread_number(task, task->pid);
	__builtin_memcpy(key->thread, task->comm, 16);
	BPF_CORE_READ_INTO(&key->process, task, group_leader, comm);
	key->detail = 0;
	key->waker = 0;
	key->time = 0;
	key->cpu = config.by_cpu ? bpf_get_smp_processor_id() + 1 : 0;
}

// Emits the stacks of a thread, the current one or another that does not run, and puts together the key
// by which they are counted. `ctx`: the context of the program, if the kernel is at work for the current one.
static __always_inline int take_stacks(struct scratch *s, void *ctx, struct task_struct *task,
				       int is_other)
{
	struct key *key = &s->blocked.key;

	key->user = 0;
	key->kernel = 0;
	if (config.kernel && (ctx || is_other)) {
		const u32 size = MAX_KERNEL_FRAMES * 8;
		long bytes = is_other ? bpf_get_task_stack(task, s->kernel.frames, size, 0) :
					bpf_get_stack(ctx, s->kernel.frames, size, 0);

		if (!tell_kernel_stack(s, bytes))
			return 0;
	}
	if (config.user && has_program(task) && !tell_user_stack(s, task, is_other))
		return 0;
	name_thread(key, task);
	if (!config.fine_rows && state.times && key->user && s->has_made)
		key->time = bpf_ktime_get_ns() >> KEY_TIME_SHIFT;
	return 1;
}

// The time of what is counted now. The fuller the table, the longer its steps, so that stacks that come again and again
// share rows: 16 microseconds, a millisecond, a quarter of a second.
static __always_inline u32 time_of_row(void)
{
	u32 now = bpf_ktime_get_ns() >> FINE_TIME_SHIFT, rows = state.rows;

	if (rows < config.fine_rows)
		return now;
	return now & ~(rows - config.fine_rows < config.fine_rows / 2 ? 0x3f : 0x3fff);
}

static __always_inline void add(struct key *key, u64 events, u64 value)
{
	void *counts = state.side ? (void *)&counts_1 : (void *)&counts_0;
	struct count one = { .events = events, .value = value };
	struct count *count;

	if (config.fine_rows)
		key->time = time_of_row();
	count = bpf_map_lookup_elem(counts, key);
	if (!count) {
		if (!bpf_map_update_elem(counts, key, &one, BPF_NOEXIST)) {
			if (config.fine_rows)
				__sync_fetch_and_add(&state.rows, 1);
			return;
		}
		// Another CPU was first, or the table is full.
		count = bpf_map_lookup_elem(counts, key);
	}
	if (!count) {
		__sync_fetch_and_add(&state.lost_counts, events);
		return;
	}
	__sync_fetch_and_add(&count->events, events);
	__sync_fetch_and_add(&count->value, value);
}

// Emits the stacks of the current thread, if it is recorded. `ctx`: the program's, if the kernel's part is
// wanted. Scratch memory that is returned must be released.
static __always_inline struct scratch *take_here(void *ctx, u32 kind, u32 detail)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct scratch *s;

	if (!is_target(task))
		return NULL;
	s = take_scratch();
	if (!s)
		return NULL;
	s->blocked.key.kind = kind;
	if (!take_stacks(s, ctx, task, 0)) {
		give_back(s);
		return NULL;
	}
	s->blocked.key.detail = detail;
	return s;
}

// Counts the stack of the current thread.
static __always_inline void count_here(void *ctx, u32 kind, u32 detail, u64 value)
{
	struct scratch *s = take_here(ctx, kind, detail);

	if (!s)
		return;
	add(&s->blocked.key, 1, value);
	give_back(s);
}

// Notes what has begun, with the stacks that are in `s`.
static __always_inline void begin(struct scratch *s, u64 what, u64 flags)
{
	s->blocked.since = bpf_ktime_get_ns();
	s->blocked.stands_for = 1;
	if (bpf_map_update_elem(&pending, &what, &s->blocked, flags) && flags == BPF_ANY)
		lose(&state.lost_counts);
}

// Notes what the current thread begins.
static __always_inline void begin_here(void *ctx, u32 kind, u32 detail, u64 what, u64 flags)
{
	struct scratch *s = take_here(ctx, kind, detail);

	if (!s)
		return;
	begin(s, what, flags);
	give_back(s);
}

// Counts the time of what has begun, if it is so long.
static __always_inline void end_after(u64 what, u64 least)
{
	struct blocked *begun = bpf_map_lookup_elem(&pending, &what);
	u64 took;

	if (!begun)
		return;
	took = bpf_ktime_get_ns() - begun->since;
	if (took >= least)
		add(&begun->key, 1, took);
	bpf_map_delete_elem(&pending, &what);
}

static __always_inline void end(u64 what)
{
	end_after(what, 0);
}

#endif
