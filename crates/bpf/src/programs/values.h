// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Values of events: numbers and texts in registers, in memory, and in the data of tracepoints; filters by them. Whoever
// includes this has `state`, with `lost` and `unread` events.

#ifndef PYROGRAPH_VALUES_H
#define PYROGRAPH_VALUES_H

#include "call_record.h"
#include "numbers.h"
#include "values_plan.h"

// Which values are read at each place or event. User space gives it as many rows as there are.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct probe_plan);
} probe_plans SEC(".maps");

// The patterns of filters for texts.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct pattern);
} patterns SEC(".maps");

struct values {
	u32 busy;
	// Bytes of `data` that are in use.
	u32 used;
	// What was read last.
	u64 value;
	// The values that could not be read, a bit each.
	u64 missing;
	// By DWARF number, and REGISTER_DATA; in the upper half those of the call.
	u64 registers[64];
	// The values: numbers; of texts where they begin in `data`, and in the upper half the bytes that were read.
	u64 all[MAX_READS];
	struct call_record record;
	u8 data[MAX_EVENT];
};

// A thread may be preempted while its values are read, by another one at a place of its own.
#define VALUES_AT_ONCE 8

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, VALUES_AT_ONCE);
	__type(key, u32);
	__type(value, struct values);
} values_here SEC(".maps");

static __always_inline struct values *take_values(void)
{
	for (u32 i = 0; i < VALUES_AT_ONCE; i++) {
		u32 number = i;
		struct values *values = bpf_map_lookup_elem(&values_here, &number);

		if (!values)
			return NULL;
		if (!__sync_lock_test_and_set(&values->busy, 1))
			return values;
	}
	return NULL;
}

// Looks up a plan, and takes memory for its values; NULL if there is neither. An event without memory is lost.
static __always_inline struct values *take_values_for(u32 row, struct probe_plan **plan)
{
	struct values *values;

	*plan = bpf_map_lookup_elem(&probe_plans, &row);
	if (!*plan)
		return NULL;
	values = take_values();
	if (!values)
		__sync_fetch_and_add(&state.lost, 1);
	return values;
}

static __always_inline void give_values_back(struct values *values)
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
	registers[REGISTER_IP] = ctx->ip;
}

// A call that has not returned, by the address of its frame, so that calls within calls are others.
struct call_place {
	u64 thread;
	u64 frame;
	u32 row;
	u32 pad;
};

struct call_registers {
	u64 all[REGISTERS];
};

// A call that never returns, as it was left by an exception, stays until it is pushed out.
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct call_place);
	__type(value, struct call_registers);
} called SEC(".maps");

// Keeps what a function is called with until it returns. `row` is that of the plan for its returns.
static __always_inline void keep_call(struct event_context *ctx, u32 row)
{
	// The return address is on top of the stack.
	struct call_place place = { .thread = bpf_get_current_pid_tgid(), .frame = ctx->sp + 8, .row = row };
	struct call_registers registers;

	note_registers(ctx, registers.all);
	if (bpf_map_update_elem(&called, &place, &registers, BPF_ANY))
		__sync_fetch_and_add(&state.lost, 1);
}

// Notes the registers at a place, and those of the call if its values are of it. Returns false for a call that began before
// all others did that count.
static __always_inline int note_place(struct event_context *ctx, struct probe_plan *plan, u32 row,
				      struct values *values)
{
	struct call_place place = { .thread = bpf_get_current_pid_tgid(), .frame = ctx->sp, .row = row };
	struct call_registers *registers;

	note_registers(ctx, values->registers);
	if (!plan->of_call)
		return 1;
	registers = bpf_map_lookup_elem(&called, &place);
	if (!registers)
		return 0;
	__builtin_memcpy(&values->registers[REGISTERS_OF_CALL], registers, sizeof(*registers));
	bpf_map_delete_elem(&called, &place);
	return 1;
}

// Notes where the data of a tracepoint are. As a number: what is read lies behind what the verifier knows of.
static __always_inline void note_data(void *ctx, u64 *registers)
{
	u64 context = (u64)ctx;

	bpf_probe_read_kernel(&registers[REGISTER_DATA], sizeof(u64), &context);
}

// The kernel is in the upper half of all addresses, and keeps pointers to programs' memory, too.
static __always_inline int is_of_kernel(u64 address, int of_kernel)
{
	return of_kernel && (s64)address < 0;
}

static __always_inline long read_memory(void *to, u32 size, u64 address, int of_kernel)
{
	return is_of_kernel(address, of_kernel) ? bpf_probe_read_kernel(to, size, (void *)address) :
			   bpf_probe_read_user(to, size, (void *)address);
}

// Computes a number. Returns false if memory on the way to it cannot be read.
__noinline int read_number(struct read_number *plan, struct values *values)
{
	u64 value;

	if (!plan || !values)
		return 0;
	value = plan->number;
	if (plan->base == BASE_REGISTER)
		value = values->registers[index_below(64, plan->number)];
	else if (plan->base == BASE_STATIC)
		value += values->registers[REGISTER_IP];
	else if (plan->base == BASE_THREAD)
		value += BPF_CORE_READ(bpf_get_current_task_btf(), thread.fsbase);
	for (u32 i = 0; i < MAX_READ_STEPS; i++) {
		u64 loaded = 0, load, size;

		if (i >= plan->count)
			break;
		value += plan->steps[i].add;
		load = plan->steps[i].load;
		size = load & 0xff;
		if (!size)
			continue;
		if (size > sizeof(loaded) || read_memory(&loaded, size, value, load & LOAD_OF_KERNEL))
			return 0;
		value = loaded;
	}
	values->value = value;
	return 1;
}

// The value of some bits of the last number.
static __always_inline u64 bits_of(struct value_plan *plan, u64 value)
{
	u32 unused = (64 - plan->bits) & 63, first = plan->first & 63;

	value = value >> first << unused;
	return plan->is_signed ? (u64)((s64)value >> unused) : value >> unused;
}

// Reads a text behind its length, of which there are the bytes that were read, and all. Returns where it begins, and the
// bytes in the upper half; 0 if it cannot be read.
__noinline u64 read_text(struct value_plan *plan, struct values *values)
{
	u64 at, address, length = 0;
	u32 *lengths;
	long bytes;

	if (!plan || !values)
		return 0;
	at = values->used;
	asm volatile("" : "+r"(at));
	if (at > MAX_EVENT - MAX_READ_TEXT - 16)
		return 0;
	if (plan->kind == VALUE_COMM) {
		bpf_get_current_comm(&values->data[at + 8], 16);
		for (bytes = 0; bytes < 15 && values->data[at + 8 + bytes]; bytes++)
			;
		length = bytes;
	} else {
		if (!read_number(&plan->value, values))
			return 0;
		address = values->value;
		if (plan->kind == VALUE_TEXT_IN_DATA)
			address = values->registers[REGISTER_DATA] + (address & 0xffff);
		if (plan->kind == VALUE_TEXT_OF) {
			if (!read_number(&plan->length, values))
				return 0;
			length = values->value;
			bytes = length < MAX_READ_TEXT ? length : MAX_READ_TEXT;
			asm volatile("" : "+r"(bytes));
			if (bytes < 0 || bytes > MAX_READ_TEXT ||
			    read_memory(&values->data[at + 8], bytes, address, plan->of_kernel))
				return 0;
		} else {
			bytes = is_of_kernel(address, plan->of_kernel) ?
					bpf_probe_read_kernel_str(&values->data[at + 8], MAX_READ_TEXT, (void *)address) :
					bpf_probe_read_user_str(&values->data[at + 8], MAX_READ_TEXT, (void *)address);
			if (bytes <= 0)
				return 0;
			// Without its zero byte. What was cut off has none.
			bytes--;
			length = bytes;
		}
	}
	lengths = (u32 *)&values->data[at];
	lengths[0] = bytes;
	lengths[1] = length < ~0u ? length : ~0u;
	values->used = (at + 8 + bytes + 7) & ~7ULL;
	return (at + 8) | (u64)bytes << 32;
}

// Reads one value. Returns false if it cannot be read.
__noinline int read_value(struct value_plan *plan, struct values *values, u32 index)
{
	struct task_struct *task = bpf_get_current_task_btf();
	u64 at, value;

	if (!plan || !values)
		return 0;
	switch (plan->kind) {
	case VALUE_NUMBER:
		if (!read_number(&plan->value, values))
			return 0;
		value = bits_of(plan, values->value);
		break;
	case VALUE_PROCESS:
		value = process_number(task, task->tgid);
		break;
	case VALUE_THREAD:
		value = thread_number(task, task->pid);
		break;
	case VALUE_CPU:
		value = bpf_get_smp_processor_id();
		break;
	default:
		value = read_text(plan, values);
		values->all[index_below(MAX_READS, index)] = value;
		return value != 0;
	}
	values->all[index_below(MAX_READS, index)] = value;
	at = values->used;
	asm volatile("" : "+r"(at));
	if (at > MAX_EVENT - 8)
		return 0;
	*(u64 *)&values->data[at] = value;
	values->used = at + 8;
	return 1;
}

// Returns true if a text matches a pattern: its states are followed byte by byte.
__noinline int matches(struct check *check, struct values *values)
{
	u64 text, at, states = 1;
	struct pattern *pattern;
	u32 row;

	if (!check || !values)
		return 0;
	row = check->pattern;
	pattern = bpf_map_lookup_elem(&patterns, &row);
	if (!pattern)
		return 0;
	text = values->all[index_below(MAX_READS, check->value)];
	at = (u32)text;
	for (u32 i = 0; i < MAX_READ_TEXT; i++) {
		u64 place = at + i;

		if (i >= text >> 32 || !states)
			break;
		states = (states << 1 & pattern->by_byte[values->data[index_below(MAX_EVENT, place)]]) |
			 (states & check->stays);
	}
	return (states & check->number) != 0;
}

static __always_inline int compare(struct check *check, struct values *values)
{
	u64 value = values->all[index_below(MAX_READS, check->value)], with = check->number;

	switch (check->operator) {
	case CHECK_LESS:
		return check->is_signed ? (s64)value < (s64)with : value < with;
	case CHECK_GREATER:
		return check->is_signed ? (s64)value > (s64)with : value > with;
	case CHECK_BITS:
		return (value & with) != 0;
	}
	return value == with;
}

static __always_inline int was_read(struct values *values, u32 value)
{
	return !(values->missing >> (value & 63) & 1);
}

// Returns 1 if an event is wanted by its values, 0 if not, -1 if one of them could not be read. Results are a stack of bits.
__noinline int check_event(struct probe_plan *plan, struct values *values)
{
	u64 stack = 0;

	if (!plan || !values)
		return 0;
	if (!plan->checks)
		return 1;
	for (u32 i = 0; i < MAX_CHECKS; i++) {
		struct check *check = &plan->filter[i];
		u64 last = stack & 1;

		if (i >= plan->checks)
			break;
		switch (check->kind) {
		case CHECK_AND:
			stack >>= 1;
			stack &= last | ~1ULL;
			continue;
		case CHECK_OR:
			stack >>= 1;
			stack |= last;
			continue;
		case CHECK_NOT:
			stack ^= 1;
			continue;
		}
		stack <<= 1;
		if (!was_read(values, check->value))
			return -1;
		stack |= check->kind == CHECK_TEXT ? matches(check, values) : compare(check, values);
	}
	return stack & 1;
}

// Returns true if an event is wanted. One that cannot be judged is left out, and counted.
static __always_inline int is_wanted_event(struct probe_plan *plan, struct values *values)
{
	int wanted = check_event(plan, values);

	if (wanted < 0)
		__sync_fetch_and_add(&state.unread, 1);
	return wanted > 0;
}

// Reads all values behind a word with a bit for each that cannot be read. The registers have been noted.
static __always_inline void read_values(struct probe_plan *plan, struct values *values)
{
	values->missing = 0;
	values->used = sizeof(u64);
	for (u32 i = 0; i < MAX_READS; i++) {
		if (i >= plan->count)
			break;
		if (!read_value(&plan->values[i], values, i))
			values->missing |= 1ULL << i;
	}
	*(u64 *)values->data = values->missing;
	values->record.used = values->used;
}

// Returns true if an event is wanted by its values, which are needed for nothing else.
static __always_inline int passes(struct probe_plan *plan, struct values *values)
{
	int is_wanted;

	read_values(plan, values);
	is_wanted = is_wanted_event(plan, values);
	give_values_back(values);
	return is_wanted;
}

#endif
