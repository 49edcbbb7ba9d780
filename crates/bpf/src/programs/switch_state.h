// SPDX-License-Identifier: MIT OR Apache-2.0

#ifndef PYROGRAPH_SWITCH_STATE_H
#define PYROGRAPH_SWITCH_STATE_H

#include "kernel.h"

// The state in which a thread stops to run, as the tracepoint `sched_switch` has it. Before Linux 5.18 it
// has none: a thread that another CPU has woken meanwhile is in none of the states that differ here.
static __always_inline u32 state_at_switch(u64 *ctx, struct task_struct *prev)
{
	// It was preempted.
	if (ctx[0])
		return TASK_RUNNING;
	if (bpf_core_type_matches(btf_trace_sched_switch))
		return ctx[3];
	return NUMBER_IN(prev, __state);
}

#endif
