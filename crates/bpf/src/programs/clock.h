// SPDX-License-Identifier: MIT OR Apache-2.0
//
// The time that each tick of a clock stands for: one period, unless the CPU time that the kernel accounts to the thread says
// otherwise. The kernel skips ticks for which it comes too late, without a word, and stops a clock that has ticked too often
// without a tick of its own, so that less comes than was asked for; and the time since the last tick on the same CPU may be
// other threads' or nobody's.

#ifndef PYROGRAPH_CLOCK_H
#define PYROGRAPH_CLOCK_H

#include "count.h"

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct tick);
} ticks SEC(".maps");

// The CPU time of a thread since its first sample.
struct usage {
	// What the kernel had accounted to it then, and 1; 0: there was no sample.
	u64 first;
	// What its samples stand for, the first one left out.
	u64 sampled;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct usage);
} usages SEC(".maps");

// What the kernel accounts to a thread that runs is as old as its own tick (`CONFIG_HZ` is 250 or more on most machines).
#define LATE_NS 4000000

// The time that a sample of a thread stands for: a period, but so that the sum stays as near to what the kernel accounts as is
// known of that. A first sample stands for a period whatever the thread did before: as many threads end before they have one.
static __always_inline u64 sampled_time(struct usage *usage, u64 accounted, u64 period)
{
	u64 used, least, most;

	if (!usage->first) {
		usage->first = accounted + 1;
		return period;
	}
	used = accounted - (usage->first - 1);
	// Where threads take turns, it is left to chance which has a sample: the sum may be two periods off on either side.
	most = used + 2 * period + LATE_NS;
	least = used > 2 * period + LATE_NS ? used - 2 * period - LATE_NS : 0;
	if (usage->sampled + period > most)
		period = most > usage->sampled ? most - usage->sampled : 0;
	else if (usage->sampled + period < least)
		// Ticks are missing.
		period = used - usage->sampled;
	usage->sampled += period;
	return period;
}

// A thread that is not recorded now may have been before, by another name or in another control group, and may be again.
static __always_inline void forget_usage(struct task_struct *task)
{
	struct usage *usage;

	if (!config.names && !config.group)
		return;
	usage = bpf_task_storage_get(&usages, task, NULL, 0);
	if (usage) {
		usage->first = 0;
		usage->sampled = 0;
	}
}

static __always_inline int count_tick(struct event_context *ctx, int in_kernel)
{
	struct task_struct *task = bpf_get_current_task_btf();
	u64 now = bpf_ktime_get_ns(), period = state.period, time;
	u32 zero = 0;
	struct tick *tick = bpf_map_lookup_elem(&ticks, &zero);
	struct usage *usage;

	if (!tick || !task->pid || !state.on || (state.until && now >= state.until))
		return 0;
	if (!is_target(task)) {
		forget_usage(task);
		return 0;
	}
	usage = bpf_task_storage_get(&usages, task, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	// What has no sample for this counts for the next one.
	if (!usage) {
		lose(&state.lost_counts);
		return 0;
	}
	time = sampled_time(usage, task->se.sum_exec_runtime, period);
	if (!(in_kernel ? config.kernel : config.user))
		return 0;
	tick->skipped += (s64)time - (s64)period;
	count_here(in_kernel ? ctx : NULL, KIND_EVENT, 0, time);
	tick->taken++;
	tick->spent += bpf_ktime_get_ns() - now;
	return 0;
}

#endif
