// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Values of events that are added up, by a key, by ranges of values, or both.

#ifndef PYROGRAPH_SUMS_H
#define PYROGRAPH_SUMS_H

#include "values.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, struct sum_key);
	__type(value, struct sum);
} sums SEC(".maps");

// Texts that sums are kept apart by, by their hashes.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, u64);
	__type(value, struct key_text);
} key_texts SEC(".maps");

// FNV-1a (Fowler, Noll and Vo), 64 bits.
#define FNV_START 0xcbf29ce484222325ULL
#define FNV_PRIME 0x100000001b3ULL

// The hash of a text, whose beginning is noted under it.
__noinline u64 key_of_text(struct values *values, u64 text)
{
	struct key_text known = {};
	u64 hash = FNV_START, at = (u32)text, length = text >> 32;

	if (!values)
		return 0;
	for (u32 i = 0; i < MAX_KEY_TEXT; i++) {
		u64 place = at + i;
		u8 byte;

		if (i >= length)
			break;
		byte = values->data[index_below(MAX_EVENT, place)];
		known.bytes[i] = byte;
		hash = (hash ^ byte) * FNV_PRIME;
	}
	known.length = length < MAX_KEY_TEXT ? length : MAX_KEY_TEXT;
	known.all = length;
	if (!bpf_map_lookup_elem(&key_texts, &hash) && bpf_map_update_elem(&key_texts, &hash, &known, BPF_ANY))
		__sync_fetch_and_add(&state.lost, 1);
	return hash;
}

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

// Adds the values of an event to its sums.
__noinline int sum_up(struct probe_plan *plan, struct values *values, u32 root)
{
	struct sum_key key = {};
	struct task_struct *task = bpf_get_current_task_btf();
	struct sum_plan *sum;
	u64 value = 1;

	if (!plan || !values)
		return 0;
	sum = &plan->sum;
	key.event = plan->event;
	if (sum->by == BY_KEY) {
		key.by = key_of(task, root);
		owner_of(key.by, task);
	} else if (values->missing >> (sum->key & 63) & 1) {
		key.event |= UNREAD_KEY;
	} else {
		u32 index = index_below(MAX_READS, sum->key), kind = plan->values[index].kind;
		int is_number = kind == VALUE_NUMBER || kind >= VALUE_PROCESS;

		key.by = is_number ? values->all[index] : key_of_text(values, values->all[index]);
	}
	if (sum->value != NO_VALUE) {
		if (values->missing >> (sum->value & 63) & 1) {
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

// A program reaches a probed instruction whose values are read. The attachment's cookie is the row of the plan.
SEC("uprobe")
int on_place_values(struct event_context *ctx)
{
	struct probe_plan *plan;
	struct values *values;
	u32 root;

	values = begin_values(bpf_get_attach_cookie(ctx), &plan, &root);
	if (!values)
		return 0;
	note_registers(ctx, values->registers);
	count_values(values, plan, root);
	return 0;
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
