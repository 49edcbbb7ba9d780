// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Unwind tables in an arena (Linux 6.9): memory that is read by plain loads. Wherever in its 4 GiB a load
// goes, the kernel survives it: of a page that is not there it makes zeros, which costs a fault.
// Pyrograph writes each page before a program learns of it.

#ifndef PYROGRAPH_TABLES_ARENA_H
#define PYROGRAPH_TABLES_ARENA_H

#include "maps.h"

#define TABLE_MEMORY __attribute__((address_space(1)))

// `BPF_MAP_TYPE_ARENA`, which older headers lack.
#define ARENA_TYPE 33

// Pyrograph makes it, of the size that is wanted.
struct {
	__uint(type, ARENA_TYPE);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
} arena SEC(".maps");

// Each program that reads an arena has to name it.
static __always_inline void use_tables(void)
{
	asm volatile("" : : "r"(&arena));
}

// An address in the arena has 32 bits: the lower ones of that in Pyrograph's own memory.
static __always_inline void TABLE_MEMORY *arena_at(u64 offset)
{
	return (void TABLE_MEMORY *)(config.arena + offset);
}

static __always_inline struct module TABLE_MEMORY *module_at(u32 number)
{
	if (number >= MAX_MODULES)
		return NULL;
	return (struct module TABLE_MEMORY *)arena_at(ARENA_MODULES) + number;
}

static __always_inline struct rule TABLE_MEMORY *rule_at(u32 number)
{
	return (struct rule TABLE_MEMORY *)arena_at(ARENA_RULES) + (number & (MAX_RULES - 1));
}

static __always_inline u32 TABLE_MEMORY *words_at(u32 place)
{
	return arena_at(ARENA_WORDS);
}

static __always_inline u32 word(u32 TABLE_MEMORY *words, u32 place)
{
	return words[place];
}

#endif
