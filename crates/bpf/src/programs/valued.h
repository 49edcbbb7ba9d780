// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Stacks of events that are chosen by their values, kept apart by one, and as wide as one.

#ifndef PYROGRAPH_VALUED_H
#define PYROGRAPH_VALUED_H

#include "key_texts.h"
#include "sample.h"

// How an event is counted.
struct valued {
	u64 by;
	u64 value;
	u32 kind_of_by;
};

// Decides how an event is counted whose values were read. Returns false if it is not.
static __always_inline int valued_by(struct probe_plan *plan, struct values *values, struct valued *valued)
{
	struct sum_plan *sum = &plan->sum;
	u64 value = 1;

	valued->by = 0;
	valued->kind_of_by = BY_NOTHING;
	if (!is_wanted_event(plan, values))
		return 0;
	if (sum->value != NO_VALUE) {
		if (!was_read(values, sum->value)) {
			__sync_fetch_and_add(&state.unread, 1);
			return 0;
		}
		value = values->all[index_below(MAX_READS, sum->value)];
		if ((s64)value < 0) {
			__sync_fetch_and_add(&state.negative, 1);
			return 0;
		}
	}
	valued->value = value;
	if (sum->by != BY_VALUE)
		return 1;
	if (!was_read(values, sum->key)) {
		valued->kind_of_by = BY_UNREAD;
		return 1;
	}
	valued->by = key_of_value(plan, values, sum->key);
	valued->kind_of_by = is_number(&plan->values[index_below(MAX_READS, sum->key)]) ? BY_NUMBER : BY_TEXT;
	return 1;
}

// Reads the values of an event of a thread that is recorded, and counts it. Its registers or its data were noted.
static __always_inline void sample_valued(void *ctx, struct task_struct *task, struct probe_plan *plan,
					  struct values *values)
{
	struct valued valued;
	int counts;

	read_values(plan, values);
	counts = valued_by(plan, values, &valued);
	give_values_back(values);
	if (counts)
		sample_by(ctx, task, KIND_PROBE, valued.kind_of_by, valued.by, valued.value);
}

// The attachment's cookie is the row of the plan.
SEC("tracepoint")
int on_tracepoint_values(void *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct probe_plan *plan;
	struct values *values;

	if (!is_target(task))
		return 1;
	values = take_values_for(bpf_get_attach_cookie(ctx), &plan);
	if (!values)
		return 1;
	note_data(ctx, values->registers);
	sample_valued(ctx, task, plan, values);
	return 1;
}

// A function is called whose values are read when it returns.
SEC("uprobe")
int on_called(struct event_context *ctx)
{
	if (is_target(bpf_get_current_task_btf()))
		keep_call(ctx, bpf_get_attach_cookie(ctx));
	return 0;
}

// Of a function of the kernel, too.
SEC("uprobe")
int on_place_values(struct event_context *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	u32 row = bpf_get_attach_cookie(ctx);
	struct probe_plan *plan;
	struct values *values;

	if (!is_target(task))
		return 0;
	values = take_values_for(row, &plan);
	if (!values)
		return 0;
	if (note_place(ctx, plan, row, values))
		sample_valued(ctx->cs & 3 ? NULL : ctx, task, plan, values);
	else
		give_values_back(values);
	return 0;
}

#endif
