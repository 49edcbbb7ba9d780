// SPDX-License-Identifier: MIT OR Apache-2.0
//
// From an address to the rule for its frame. Tables lie in one of two kinds of memory, for each of which
// the programs are compiled once: its header has the same few functions.
//
// A module's index has two words for each 64 KiB of its code: the place of the first row, and how many
// there are. A row is one word: the lower 16 bits of its first address above the number of its rule.

#ifndef PYROGRAPH_TABLES_H
#define PYROGRAPH_TABLES_H

#ifdef PYROGRAPH_ARENA
#include "tables_arena.h"
#else
#include "tables_arrays.h"
#endif

// The rule of the last row of a page that begins at or below an offset in it; the first begins with the
// page. A global function: the verifier checks it once, and not for each way to get there.
__noinline int find_row(u32 low, u32 high, u32 offset)
{
	u32 TABLE_MEMORY *words = words_at(low);

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
static __always_inline struct rule TABLE_MEMORY *find_rule(struct scratch *s, u64 address, u64 *end)
{
	u32 number = s->mapping.module;
	struct module TABLE_MEMORY *module;
	u64 distance = address + s->mapping.to_table;
	u32 TABLE_MEMORY *words;
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
