// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Stacks of a part of what happens very often: calls of the kernel, allocations. Each event is counted in the storage
// of its thread, and what was counted is accounted to the next stack that is taken.

#ifndef PYROGRAPH_SAMPLE_H
#define PYROGRAPH_SAMPLE_H

#include "waits.h"

// As many stacks a CPU takes of all that happens; the first ones, and then as many more in each window of time.
// After that it takes one for so many events, or so much of what they stand for.
#define MOST_CREDIT 4000
#define WINDOW_CREDIT 200
#define MOST_QUANTUM (1ull << 30)

struct rate {
	u64 since;
	u64 quantum;
	u32 credit;
	// Stacks in this window.
	u32 taken;
	// It was used before.
	u32 begun;
	u32 pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct rate);
} rates SEC(".maps");

// Events of a thread since its last stack.
struct tally {
	// A stack is taken when it comes to this.
	u64 next;
	struct skipped skipped;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct tally);
} tallies SEC(".maps");

static __always_inline void keep_rate(struct rate *rate)
{
	u64 now = bpf_ktime_get_ns();

	if (!rate->begun) {
		rate->begun = 1;
		rate->credit = MOST_CREDIT;
		rate->since = now;
	}
	if (now - rate->since >= WINDOW_NS) {
		if (rate->taken < WINDOW_CREDIT / 2)
			rate->quantum /= 2;
		rate->credit += WINDOW_CREDIT;
		if (rate->credit > MOST_CREDIT)
			rate->credit = MOST_CREDIT;
		rate->since = now;
		rate->taken = 0;
	}
	if (!rate->credit) {
		rate->quantum = rate->quantum ? 2 * rate->quantum : config.least_quantum;
		if (rate->quantum > MOST_QUANTUM)
			rate->quantum = MOST_QUANTUM;
		rate->credit = WINDOW_CREDIT / 4;
	}
	rate->credit--;
	rate->taken++;
}

// Returns true if the stack is to be taken of an event of such a value, and for how many events of what value it then
// stands. All of these are of this thread. `least_quantum` is 0 if all stacks are to be taken.
static __always_inline int is_sampled(struct task_struct *task, u64 value, struct count *count)
{
	struct tally *tally;
	struct rate *rate;
	u32 zero = 0;

	count->events = 1;
	count->value = value;
	if (!config.least_quantum)
		return 1;
	tally = bpf_task_storage_get(&tallies, task, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!tally)
		return 1;
	skip(&tally->skipped, 1, value);
	if ((config.by_value ? tally->skipped.value : tally->skipped.events) < tally->next)
		return 0;
	rate = bpf_map_lookup_elem(&rates, &zero);
	if (!rate)
		return 0;
	keep_rate(rate);
	// Left to chance, so that it keeps no step with what the program does.
	tally->next = rate->quantum / 2 + (rate->quantum * bpf_get_prandom_u32() >> 32);
	count->events = tally->skipped.events;
	count->value = tally->skipped.value;
	tally->skipped.events = 0;
	tally->skipped.value = 0;
	return 1;
}

// Counts an event whose stack was taken, and those for which it stands.
static __always_inline void add_sampled(struct task_struct *task, struct scratch *s, struct count *count)
{
	struct key *key = &s->blocked.key;
	struct tally *tally;

	add(key, count->events, count->value);
	// A copy of a stack is known for this moment only.
	if (!config.least_quantum || (key->user && key->user != s->user.hash))
		return;
	tally = bpf_task_storage_get(&tallies, task, NULL, 0);
	if (tally)
		note_last(&tally->skipped, key);
}

// The stack could not be taken.
static __always_inline void put_back(struct task_struct *task, struct count *count)
{
	struct tally *tally;

	if (!config.least_quantum)
		return;
	tally = bpf_task_storage_get(&tallies, task, NULL, 0);
	if (tally)
		skip(&tally->skipped, count->events, count->value);
}

// Counts an event of the current thread, which is recorded; its stack is taken, or another stands for it. `by`: see
// `key.waker`.
static __always_inline void sample_by(void *ctx, struct task_struct *task, u32 kind, u32 detail, u64 by, u64 value)
{
	struct scratch *s;
	struct count count;

	if (!is_sampled(task, value, &count))
		return;
	s = take_scratch();
	if (!s) {
		put_back(task, &count);
		return;
	}
	s->blocked.key.kind = kind;
	if (take_stacks(s, ctx, task, 0)) {
		s->blocked.key.detail = detail;
		s->blocked.key.waker = by;
		add_sampled(task, s, &count);
	} else {
		put_back(task, &count);
	}
	give_back(s);
}

static __always_inline void sample_here(void *ctx, struct task_struct *task, u32 kind, u32 detail, u64 value)
{
	sample_by(ctx, task, kind, detail, 0, value);
}

// A thread ends.
SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_exit, struct task_struct *task)
{
	struct tally *tally;

	if (!state.on)
		return 0;
	tally = bpf_task_storage_get(&tallies, task, NULL, 0);
	if (tally)
		settle(&tally->skipped, task, tally->skipped.last.kind);
	return 0;
}

// The recording ends.
SEC("iter/task")
int on_rest(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct tally *tally;

	if (!task || !state.stopped)
		return 0;
	tally = bpf_task_storage_get(&tallies, task, NULL, 0);
	if (tally)
		settle(&tally->skipped, task, tally->skipped.last.kind);
	return 0;
}

#endif
