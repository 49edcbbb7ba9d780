// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Values that are read where a program comes to a place: numbers and texts in its registers and its memory. The structures
// of `tracer/layout.rs`. Whoever includes this has `state`.

#ifndef PYROGRAPH_PROBE_VALUES_H
#define PYROGRAPH_PROBE_VALUES_H

#include "trace.h"

// Which values are read at each place. User space gives it as many rows as there are places.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct probe_plan);
} probe_plans SEC(".maps");

struct probe_values {
	u32 busy;
	// Bytes of `data` that are in use.
	u32 used;
	// What was read last.
	u64 value;
	// By DWARF number, and the instruction pointer.
	u64 registers[32];
	struct call_record record;
	u8 data[MAX_EVENT];
};

// A thread may be preempted while its values are read, by another one at a place of its own.
#define PROBES_AT_ONCE 8

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, PROBES_AT_ONCE);
	__type(key, u32);
	__type(value, struct probe_values);
} probe_values SEC(".maps");

static __always_inline struct probe_values *take_values(void)
{
	for (u32 i = 0; i < PROBES_AT_ONCE; i++) {
		u32 number = i;
		struct probe_values *values = bpf_map_lookup_elem(&probe_values, &number);

		if (!values)
			return NULL;
		if (!__sync_lock_test_and_set(&values->busy, 1))
			return values;
	}
	return NULL;
}

static __always_inline void give_values_back(struct probe_values *values)
{
	__sync_lock_test_and_set(&values->busy, 0);
}

static __always_inline void note_registers(struct event_context *ctx, u64 *registers)
{
	registers[0] = ctx->ax;
	registers[1] = ctx->dx;
	registers[2] = ctx->cx;
	registers[3] = ctx->bx;
	registers[4] = ctx->si;
	registers[5] = ctx->di;
	registers[6] = ctx->bp;
	registers[7] = ctx->sp;
	registers[8] = ctx->r8;
	registers[9] = ctx->r9;
	registers[10] = ctx->r10;
	registers[11] = ctx->r11;
	registers[12] = ctx->r12;
	registers[13] = ctx->r13;
	registers[14] = ctx->r14;
	registers[15] = ctx->r15;
	registers[16] = ctx->ip;
}

// Computes a number. Returns false if memory on the way to it cannot be read.
__noinline int read_number(struct read_number *plan, struct probe_values *values)
{
	u64 value;

	if (!plan || !values)
		return 0;
	value = plan->number;
	if (plan->base == BASE_REGISTER)
		value = values->registers[index_below(32, plan->number)];
	else if (plan->base == BASE_STATIC)
		value += values->registers[16];
	for (u32 i = 0; i < MAX_READ_STEPS; i++) {
		u64 loaded = 0, size;

		if (i >= plan->count)
			break;
		value += plan->steps[i].add;
		size = plan->steps[i].load;
		if (!size)
			continue;
		if (size > sizeof(loaded) || bpf_probe_read_user(&loaded, size, (void *)value))
			return 0;
		value = loaded;
	}
	values->value = value;
	return 1;
}

// Reads a text behind its length, of which there are the bytes that were read, and all.
__noinline int read_text(struct value_plan *plan, struct probe_values *values)
{
	u64 at, address, length = 0;
	u32 *lengths;
	long bytes;

	if (!plan || !values || !read_number(&plan->value, values))
		return 0;
	address = values->value;
	if (plan->kind == VALUE_TEXT_OF) {
		if (!read_number(&plan->length, values))
			return 0;
		length = values->value;
	}
	at = values->used;
	asm volatile("" : "+r"(at));
	if (at > MAX_EVENT - MAX_READ_TEXT - 16)
		return 0;
	if (plan->kind == VALUE_TEXT_OF) {
		bytes = length < MAX_READ_TEXT ? length : MAX_READ_TEXT;
		asm volatile("" : "+r"(bytes));
		if (bytes < 0 || bytes > MAX_READ_TEXT)
			return 0;
		if (bpf_probe_read_user(&values->data[at + 8], bytes, (void *)address))
			return 0;
	} else {
		bytes = bpf_probe_read_user_str(&values->data[at + 8], MAX_READ_TEXT, (void *)address);
		if (bytes <= 0)
			return 0;
		// Without its zero byte. What was cut off has none.
		bytes--;
		length = bytes;
	}
	lengths = (u32 *)&values->data[at];
	lengths[0] = bytes;
	lengths[1] = length < ~0u ? length : ~0u;
	values->used = (at + 8 + bytes + 7) & ~7ULL;
	return 1;
}

// Reads one value. Returns false if it cannot be read.
__noinline int read_value(struct value_plan *plan, struct probe_values *values)
{
	u64 at;

	if (!plan || !values)
		return 0;
	if (plan->kind != VALUE_NUMBER)
		return read_text(plan, values);
	if (!read_number(&plan->value, values))
		return 0;
	at = values->used;
	asm volatile("" : "+r"(at));
	if (at > MAX_EVENT - 8)
		return 0;
	*(u64 *)&values->data[at] = values->value;
	values->used = at + 8;
	return 1;
}

// Reads all values behind a word with a bit for each that cannot be read.
static __always_inline void read_values(struct event_context *ctx, struct probe_plan *plan,
					struct probe_values *values)
{
	u64 missing = 0;

	note_registers(ctx, values->registers);
	values->used = sizeof(missing);
	for (u32 i = 0; i < MAX_READS; i++) {
		if (i >= plan->count)
			break;
		if (!read_value(&plan->values[i], values))
			missing |= 1ULL << i;
	}
	*(u64 *)values->data = missing;
	values->record.used = values->used;
}

#endif
