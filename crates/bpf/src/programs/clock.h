// SPDX-License-Identifier: MIT OR Apache-2.0
//
// The time that each tick of a clock stands for. The kernel skips ticks for which it comes too late, without a word, and gives the
// period that was asked for; so the time is measured here, from tick to tick, also of those of an idle CPU.

#ifndef PYROGRAPH_CLOCK_H
#define PYROGRAPH_CLOCK_H

#include "count.h"

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct tick);
} ticks SEC(".maps");

// Accounts the time until now to a tick: how many units it stands for. A tick that comes late leaves less for the
// next one, which may stand for none.
static __always_inline u64 units_until(struct tick *tick, u64 now)
{
	u64 unit = state.unit, units;

	if (!tick->at || !unit) {
		tick->at = now;
		return 1;
	}
	if (now + unit / 2 < tick->at + unit)
		return 0;
	units = (now + unit / 2 - tick->at) / unit;
	tick->at += units * unit;
	return units;
}

static __always_inline int count_tick(struct event_context *ctx, int in_kernel)
{
	struct task_struct *task = bpf_get_current_task_btf();
	u64 now = bpf_ktime_get_ns(), units, due;
	u32 zero = 0;
	struct tick *tick = bpf_map_lookup_elem(&ticks, &zero);

	if (!tick)
		return 0;
	units = units_until(tick, now);
	if (!task->pid || !(in_kernel ? config.kernel : config.user))
		return 0;
	if (!is_target(task) || (state.until && now >= state.until))
		return 0;
	if (state.period) {
		due = (units * state.unit + state.period / 2) / state.period;
		tick->skipped += (s64)due - 1;
	}
	count_here(in_kernel ? ctx : NULL, KIND_EVENT, 0, units * state.unit);
	tick->taken++;
	tick->spent += bpf_ktime_get_ns() - now;
	return 0;
}

#endif
