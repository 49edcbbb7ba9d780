// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Values of events that are added up, by a key, by ranges of values, or both.

#ifndef PYROGRAPH_SUMS_H
#define PYROGRAPH_SUMS_H

#include "key_texts.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, struct sum_key);
	__type(value, struct sum);
} sums SEC(".maps");

// The range that a value is in. Of powers of two: 0 is the range of 0, n those of 2^(n-1) to 2^n - 1, 64 + n the same of
// negative ones. Of equal ranges the first is what is below all, the last what is above.
static __always_inline u32 range_of(struct sum_plan *plan, u64 value)
{
	u32 negative = 0;
	u64 from;

	if (plan->ranges == RANGES_EQUAL) {
		if ((s64)value < plan->least)
			return 0;
		from = value - plan->least;
		from /= plan->size ?: 1;
		return from < plan->count ? from + 1 : plan->count + 1;
	}
	if ((s64)value < 0) {
		value = -value;
		negative = 64;
	}
	return value ? highest_bit(value) + 1 + negative : 0;
}

static __always_inline void add_to_sum(struct sum_key *key, s64 value)
{
	struct sum first = { .events = 1, .value = value }, *sum = bpf_map_lookup_elem(&sums, key);

	if (!sum) {
		if (!bpf_map_update_elem(&sums, key, &first, BPF_NOEXIST))
			return;
		// Another CPU was first, or there is no room.
		sum = bpf_map_lookup_elem(&sums, key);
	}
	if (!sum) {
		__sync_fetch_and_add(&state.lost, 1);
		return;
	}
	__sync_fetch_and_add(&sum->events, 1);
	__sync_fetch_and_add(&sum->value, value);
}

// By what the sums of an event are kept apart, but for the range of its value.
static __always_inline void key_of_sum(struct sum_key *key, struct probe_plan *plan, struct values *values, u32 root)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct sum_plan *sum = &plan->sum;

	key->event = plan->event;
	if (sum->by == BY_KEY) {
		key->by = key_of(task, root);
		owner_of(key->by, task);
	} else if (!was_read(values, sum->key)) {
		key->event |= UNREAD_KEY;
	} else {
		key->by = key_of_value(plan, values, sum->key);
	}
}

// Adds the values of an event to its sums.
__noinline int sum_up(struct probe_plan *plan, struct values *values, u32 root)
{
	struct sum_key key = {};
	struct sum_plan *sum;
	u64 value = 1;

	if (!plan || !values)
		return 0;
	sum = &plan->sum;
	key_of_sum(&key, plan, values, root);
	if (sum->value != NO_VALUE) {
		if (!was_read(values, sum->value)) {
			__sync_fetch_and_add(&state.unread, 1);
			return 0;
		}
		value = values->all[index_below(MAX_READS, sum->value)];
	}
	key.range = sum->ranges ? range_of(sum, value) : 0;
	add_to_sum(&key, value);
	return 0;
}

static __always_inline void count_values(struct values *values, struct probe_plan *plan, u32 root)
{
	read_values(plan, values);
	if (is_wanted_event(plan, values))
		sum_up(plan, values, root);
	give_values_back(values);
}

// Begins to read the values of an event; NULL if it is none that counts.
static __always_inline struct values *begin_values(u32 row, struct probe_plan **plan, u32 *root)
{
	if (!state.on)
		return NULL;
	*root = root_of(bpf_get_current_task_btf());
	return *root ? take_values_for(row, plan) : NULL;
}

// A function is called whose values are read when it returns. The attachment's cookie is the row of the plan.
SEC("uprobe")
int on_called(struct event_context *ctx)
{
	if (state.on && root_of(bpf_get_current_task_btf()))
		keep_call(ctx, bpf_get_attach_cookie(ctx));
	return 0;
}

// A program reaches a probed instruction whose values are read.
SEC("uprobe")
int on_place_values(struct event_context *ctx)
{
	u32 row = bpf_get_attach_cookie(ctx), root;
	struct probe_plan *plan;
	struct values *values;

	values = begin_values(row, &plan, &root);
	if (!values)
		return 0;
	if (note_place(ctx, plan, row, values))
		count_values(values, plan, root);
	else
		give_values_back(values);
	return 0;
}

// What has begun and not ended: a call, of a thread, by the address of its frame, so that calls within calls are others; or an
// event of whatever thread, by a key.
struct call_key {
	u64 thread;
	u64 frame;
	u32 event;
	u32 pad;
};

struct begun_call {
	u64 time;
	struct sum_key key;
};

// A call that never returns, as it was left by an exception, stays until it is pushed out.
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, struct call_key);
	__type(value, struct begun_call);
} begun_calls SEC(".maps");

// By what the end of an event is found. Returns false if it could not be read.
static __always_inline int find_call(struct call_key *call, struct probe_plan *plan, struct values *values)
{
	u32 frame = plan->sum.frame;

	if (!was_read(values, frame))
		return 0;
	call->event = plan->event;
	if (plan->sum.keyed) {
		call->frame = key_of_value(plan, values, frame);
		return 1;
	}
	call->thread = bpf_get_current_pid_tgid();
	call->frame = values->all[index_below(MAX_READS, frame)];
	return 1;
}

// Notes an event that is wanted, with its values.
__noinline int begin_call(struct probe_plan *plan, struct values *values, u32 root)
{
	struct begun_call begun = {};
	struct call_key call = {};

	if (!plan || !values || !find_call(&call, plan, values))
		return 0;
	key_of_sum(&begun.key, plan, values, root);
	begun.time = bpf_ktime_get_ns();
	if (bpf_map_update_elem(&begun_calls, &call, &begun, BPF_ANY))
		__sync_fetch_and_add(&state.lost, 1);
	return 0;
}

// Adds up the time of what has ended, if its begin is known.
static __always_inline void end_call(struct probe_plan *plan, struct call_key *call)
{
	struct begun_call *begun = bpf_map_lookup_elem(&begun_calls, call);
	struct sum_key key;
	u64 took;

	if (!begun)
		return;
	took = bpf_ktime_get_ns() - begun->time;
	key = begun->key;
	bpf_map_delete_elem(&begun_calls, call);
	key.range = plan->sum.ranges ? range_of(&plan->sum, took) : 0;
	add_to_sum(&key, took);
}

static __always_inline void begin_event(struct probe_plan *plan, struct values *values, u32 root)
{
	read_values(plan, values);
	if (is_wanted_event(plan, values))
		begin_call(plan, values, root);
	give_values_back(values);
}

// Ends what has begun by the same key.
__noinline int end_keyed(struct probe_plan *plan, struct values *values)
{
	struct call_key call = {};

	if (!plan || !values)
		return 0;
	read_values(plan, values);
	if (find_call(&call, plan, values))
		end_call(plan, &call);
	return 0;
}

// A function is called whose time is measured.
SEC("uprobe")
int on_call_begins(struct event_context *ctx)
{
	struct probe_plan *plan;
	struct values *values;
	u32 root;

	values = begin_values(bpf_get_attach_cookie(ctx), &plan, &root);
	if (!values)
		return 0;
	note_registers(ctx, values->registers);
	begin_event(plan, values, root);
	return 0;
}

// It returns: the stack pointer is the address of the frame that is left.
SEC("uretprobe")
int on_call_ends(struct event_context *ctx)
{
	struct call_key call = { .thread = bpf_get_current_pid_tgid(), .frame = ctx->sp };
	u32 row = bpf_get_attach_cookie(ctx);
	struct probe_plan *plan;

	plan = bpf_map_lookup_elem(&probe_plans, &row);
	if (!state.on || !plan)
		return 0;
	call.event = plan->event;
	end_call(plan, &call);
	return 0;
}

// What a place has begun ends at another one, by a key. Whoever comes there: a request may be another thread's then.
SEC("uprobe")
int on_place_ends(struct event_context *ctx)
{
	struct probe_plan *plan;
	struct values *values;

	if (!state.on)
		return 0;
	values = take_values_for(bpf_get_attach_cookie(ctx), &plan);
	if (!values)
		return 0;
	note_registers(ctx, values->registers);
	end_keyed(plan, values);
	give_values_back(values);
	return 0;
}

SEC("tracepoint")
int on_tracepoint_ends(void *ctx)
{
	struct probe_plan *plan;
	struct values *values;

	if (!state.on)
		return 1;
	values = take_values_for(bpf_get_attach_cookie(ctx), &plan);
	if (!values)
		return 1;
	note_data(ctx, values->registers);
	end_keyed(plan, values);
	give_values_back(values);
	return 1;
}

SEC("tracepoint")
int on_tracepoint_begins(void *ctx)
{
	struct probe_plan *plan;
	struct values *values;
	u32 root;

	values = begin_values(bpf_get_attach_cookie(ctx), &plan, &root);
	if (!values)
		return 1;
	note_data(ctx, values->registers);
	begin_event(plan, values, root);
	return 1;
}

// Whoever else listens to a tracepoint gets it, too: always 1.
SEC("tracepoint")
int on_tracepoint_values(void *ctx)
{
	struct probe_plan *plan;
	struct values *values;
	u32 root;

	values = begin_values(bpf_get_attach_cookie(ctx), &plan, &root);
	if (!values)
		return 1;
	note_data(ctx, values->registers);
	count_values(values, plan, root);
	return 1;
}

#endif
