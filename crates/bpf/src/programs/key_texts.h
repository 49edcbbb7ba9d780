// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Values that events are kept apart by: a number is its own key, a text has a hash.

#ifndef PYROGRAPH_KEY_TEXTS_H
#define PYROGRAPH_KEY_TEXTS_H

#include "values.h"

// Texts that events are kept apart by, by their hashes.
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

static __always_inline int is_number(struct value_plan *plan)
{
	return plan->kind == VALUE_NUMBER || plan->kind >= VALUE_PROCESS;
}

// The key of a value that was read.
static __always_inline u64 key_of_value(struct probe_plan *plan, struct values *values, u32 value)
{
	u32 index = index_below(MAX_READS, value);

	return is_number(&plan->values[index]) ? values->all[index] : key_of_text(values, values->all[index]);
}

#endif
