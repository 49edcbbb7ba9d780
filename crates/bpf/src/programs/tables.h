// SPDX-License-Identifier: MIT OR Apache-2.0
//
// From an address to the rule for its frame, by tables in arrays, which each kernel has that the programs run on. An arena
// (Linux 6.9) takes no less time, for rules are cached and searches are rare.
//
// A module's index has two words for each 64 KiB of its code: the place of the first row, and how many
// there are. A row is one word: the lower 16 bits of its first address above the number of its rule.

#ifndef PYROGRAPH_TABLES_H
#define PYROGRAPH_TABLES_H

#include "maps.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, MAX_MODULES);
	__type(key, u32);
	__type(value, struct module);
} modules SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, MAX_RULES);
	__type(key, u32);
	__type(value, struct rule);
} rules SEC(".maps");

struct block {
	u32 words[BLOCK_WORDS];
};

// Blocks are made when they are needed.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, MAX_BLOCKS);
	__type(key, u32);
	__array(
		values, struct {
			__uint(type, BPF_MAP_TYPE_ARRAY);
			__uint(map_flags, BPF_F_MMAPABLE);
			__uint(max_entries, 1);
			__type(key, u32);
			__uint(value_size, sizeof(struct block));
		});
} blocks SEC(".maps");

static __always_inline struct module *module_at(u32 number)
{
	return bpf_map_lookup_elem(&modules, &number);
}

static __always_inline struct rule *rule_at(u32 number)
{
	return bpf_map_lookup_elem(&rules, &number);
}

// An allocation lies in one block.
static __always_inline u32 *words_at(u32 place)
{
	u32 number = place >> BLOCK_BITS, first = 0;
	struct block *block = bpf_map_lookup_elem(&blocks, &number);

	block = block ? bpf_map_lookup_elem(block, &first) : NULL;
	return block ? block->words : NULL;
}

static __always_inline u32 word(u32 *words, u32 place)
{
	return words[index_below(BLOCK_WORDS, place)];
}

// The rule of the last row of a page that begins at or below an offset in it; the first begins with the
// page. A global function: the verifier checks it once, and not for each way to get there.
__noinline int find_row(u32 low, u32 high, u32 offset)
{
	u32 *words = words_at(low);

	if (!words)
		return RULE_NONE;
	for (int i = 0; i < 17 && high - low > 1; i++) {
		u32 middle = (low + high) / 2;

		if (word(words, middle) >> 16 <= offset)
			low = middle;
		else
			high = middle;
	}
	return word(words, low) & 0xffff;
}

// Finds the rule for an address; none if the table is not there, for the reason in `*end`.
static __always_inline struct rule *find_rule(struct scratch *s, u64 address, u64 *end)
{
	u32 number = s->mapping.module;
	struct module *module;
	u64 distance = address + s->mapping.to_table;
	u32 *words;
	u32 place, low, high;
	u64 where, *seen;

	*end = END_PENDING;
	if (number == MODULE_ANONYMOUS)
		return rule_at(RULE_NONE);
	module = module_at(number);
	if (!module)
		return NULL;
	if (s->last_module != number) {
		s->last_module = number;
		module->hits++;
	}
	if (module->state == TABLE_OMITTED)
		*end = END_OMITTED;
	if (module->state == TABLE_NONE)
		return rule_at(RULE_NONE);
	if (module->state != TABLE_READY)
		return NULL;
	if (distance >> 16 >= module->pages)
		return rule_at(RULE_NONE);

	// Most addresses were looked up before, in this stack or another, and the rule of an address never changes.
	where = (u64)number << 32 | (u32)distance;
	seen = &s->seen[where * HASH_FACTOR >> (64 - SEEN_BITS)];
	if (*seen >> 16 == where)
		return rule_at(*seen & 0xffff);

	place = module->index + 2 * (u32)(distance >> 16);
	words = words_at(place);
	if (!words)
		return NULL;
	low = word(words, place);
	high = low + word(words, place + 1);
	if (low == high)
		return rule_at(RULE_NONE);
	number = find_row(low, high, distance & 0xffff) & 0xffff;
	*seen = where << 16 | number;
	return rule_at(number);
}

#endif
