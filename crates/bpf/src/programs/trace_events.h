// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Events that are traced beside calls: tracepoints, places in programs, page faults. Whoever includes this has `config`,
// `state` and the ring.

#ifndef PYROGRAPH_TRACE_EVENTS_H
#define PYROGRAPH_TRACE_EVENTS_H

#include "trace_stacks.h"
#include "values.h"

// Which bytes tracepoints have. User space gives it as many rows as there are events.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct event_plan);
} event_plans SEC(".maps");

struct event {
	struct call_record record;
	u8 data[MAX_EVENT];
};

// One tracepoint's program does not interrupt another's.
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct event);
} event_here SEC(".maps");

// How many bytes an event has: up to the last field whose place is in another.
static __always_inline u64 event_size(u64 data, struct event_plan *plan)
{
	u64 size = plan->size;

	for (u32 i = 0; i < MAX_PLACES; i++) {
		struct event_place *place = &plan->places[i];
		u32 word = 0;
		u64 end;

		if (i >= plan->count)
			break;
		// Length and place, 16 bits each.
		bpf_probe_read_kernel(&word, sizeof(word), (void *)(data + place->offset));
		end = (word >> 16) + (word & 0xffff) + (place->relative ? place->offset + 4 : 0);
		if (end > size)
			size = end;
	}
	return size < MAX_EVENT ? size : MAX_EVENT;
}

static __always_inline void send_event(void *ctx, struct task_struct *task, struct call_record *record, u64 size)
{
	struct stack *stack;
	long bytes;

	record->stack = 0;
	if (config.stacks && (stack = stack_here(STACK_OF_EVENT))) {
		bytes = bpf_get_stack(ctx, stack->kernel, sizeof(stack->kernel), 0);
		stack->depth = bytes > 0 ? bytes / 8 : 0;
		send_stack(task, stack, record);
	}
	if (bpf_ringbuf_output(&records, record, size, wakeup()))
		increment(&state.lost);
}

// Returns true if a tracepoint's event is wanted by its values. `row` is 1 and the row of `probe_plans`; 0: it has none.
static __always_inline int passes_filter(void *ctx, u32 row)
{
	struct probe_plan *plan;
	struct values *values;

	if (!row)
		return 1;
	values = take_values_for(row - 1, &plan);
	if (!values)
		return 0;
	note_data(ctx, values->registers);
	return passes(plan, values);
}

// Whoever else listens to a tracepoint gets it, too: always 1.
SEC("tracepoint")
int on_event(void *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	u32 number = bpf_get_attach_cookie(ctx), zero = 0;
	struct event_plan *plan = bpf_map_lookup_elem(&event_plans, &number);
	struct event *event = bpf_map_lookup_elem(&event_here, &zero);
	u64 context = (u64)ctx, data, size;

	if (!plan || !event || !state.on || !is_wanted_thread(task) || !passes_filter(ctx, plan->filter))
		return 1;
	// As a number: what is read lies behind what the verifier knows of.
	bpf_probe_read_kernel(&data, sizeof(data), &context);
	size = event_size(data, plan);
	asm volatile("" : "+r"(size));
	if (size > MAX_EVENT || bpf_probe_read_kernel(event->data, size, (void *)data))
		size = 0;
	other_record(task, RECORD_EVENT, number, &event->record);
	event->record.used = size;
	size += sizeof(event->record);
	asm volatile("" : "+r"(size));
	if (size <= sizeof(*event))
		send_event(ctx, task, &event->record, size);
	return 1;
}

// A function is called whose values are read when it returns. The attachment's cookie is the row of the plan for its returns.
SEC("uprobe")
int on_called(struct event_context *ctx)
{
	if (state.on && is_wanted_thread(bpf_get_current_task_btf()))
		keep_call(ctx, bpf_get_attach_cookie(ctx));
	return 0;
}

// A program reaches a probed instruction. The attachment's cookie is the place's index.
SEC("uprobe")
int on_probe(struct event_context *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	u32 number = bpf_get_attach_cookie(ctx);
	struct probe_plan *plan = bpf_map_lookup_elem(&probe_plans, &number);
	struct call_record record = {};
	struct values *values;
	u64 size;

	if (!plan || !state.on || !is_wanted_thread(task))
		return 0;
	if (!plan->count) {
		other_record(task, RECORD_EVENT, plan->event, &record);
		record.result = ctx->ax;
		send_event(ctx, task, &record, sizeof(record));
		return 0;
	}
	values = take_values();
	if (!values) {
		increment(&state.lost);
		return 0;
	}
	if (!note_place(ctx, plan, number, values)) {
		give_values_back(values);
		return 0;
	}
	other_record(task, RECORD_EVENT, plan->event, &values->record);
	values->record.result = ctx->ax;
	read_values(plan, values);
	if (plan->hidden)
		values->record.used = 0;
	size = sizeof(values->record) + values->record.used;
	asm volatile("" : "+r"(size));
	if (is_wanted_event(plan, values) && size <= sizeof(values->record) + sizeof(values->data))
		send_event(ctx, task, &values->record, size);
	give_values_back(values);
	return 0;
}

// The members of `struct mm_struct` that say where the heap is.
struct mm_struct___heap {
	unsigned long start_brk;
	unsigned long brk;
} __attribute__((preserve_access_index));

static __always_inline int is_heap(struct task_struct *task, u64 address)
{
	struct mm_struct___heap *mm = (void *)task->mm;

	return mm && address >= BPF_CORE_READ(mm, start_brk) && address < BPF_CORE_READ(mm, brk);
}

static __always_inline void page_fault(struct event_context *ctx, u32 major)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct call_record record = {};

	if (!state.on || !is_wanted_thread(task))
		return;
	other_record(task, RECORD_FAULT, major, &record);
	record.arguments[0] = ctx->ip;
	record.arguments[1] = ctx->addr;
	record.arguments[2] = is_heap(task, ctx->addr);
	send_event(ctx, task, &record, sizeof(record));
}

// Nothing goes to the events' buffers: both return 0.
SEC("perf_event")
int on_minor_fault(struct event_context *ctx)
{
	page_fault(ctx, 0);
	return 0;
}

SEC("perf_event")
int on_major_fault(struct event_context *ctx)
{
	page_fault(ctx, 1);
	return 0;
}

#endif
