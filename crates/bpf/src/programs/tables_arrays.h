// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Unwind tables in arrays: what every kernel has that the programs run on.

#ifndef PYROGRAPH_TABLES_ARRAYS_H
#define PYROGRAPH_TABLES_ARRAYS_H

#include "maps.h"

#define TABLE_MEMORY

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

static __always_inline void use_tables(void)
{
}

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
	return words[place & (BLOCK_WORDS - 1)];
}

#endif
