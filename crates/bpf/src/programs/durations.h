// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Durations, counted in ranges: each power of two in four parts, as `Durations` of the crate `profile` has them.

#ifndef PYROGRAPH_DURATIONS_H
#define PYROGRAPH_DURATIONS_H

#include "kernel.h"

#define LEAST_BITS 4
#define MOST_BITS 40
#define BUCKETS (4 * (MOST_BITS - LEAST_BITS) + 2)

// The part of a power of two that a duration is in.
static __always_inline u32 bucket_of(u64 time)
{
	u32 bits;

	if (time < 1ull << LEAST_BITS)
		return 0;
	if (time >= 1ull << MOST_BITS)
		return BUCKETS - 1;
	bits = highest_bit(time);
	return 1 + 4 * (bits - LEAST_BITS) + (time >> (bits - 2) & 3);
}

#endif
