// SPDX-License-Identifier: MIT OR Apache-2.0
//
// What the programs for user space read and write: commands, each a word of 64 bits and what belongs to it, in the machine's
// own order of bytes. And the memory of the process that they are given.

#ifndef PYROGRAPH_COMMANDS_H
#define PYROGRAPH_COMMANDS_H

#include <stdio.h>
#include <stdlib.h>

#define MAX_MEMORY 4096
#ifdef PYROGRAPH_FUZZ
#define MAX_BYTES (1 << 16)
#else
#define MAX_BYTES (1 << 28)
#endif

// Each part has memory of its own: reading more than there is shows in the address sanitizer.
static struct {
	u64 address;
	u64 size;
	u8 *bytes;
} user_memory[MAX_MEMORY];
static u32 memory_count;

static struct pt_regs user_regs;

__u64 user_registers(void)
{
	return (__u64)&user_regs;
}

// How often it was read.
static u64 user_reads;

long user_read(void *to, __u32 size, __u64 address)
{
	user_reads++;
	// What came last lies over what came before.
	for (u32 i = memory_count; i-- > 0;) {
		u64 offset = address - user_memory[i].address;

		if (offset >= user_memory[i].size || size > user_memory[i].size - offset)
			continue;
		memcpy(to, user_memory[i].bytes + offset, size);
		return 0;
	}
	// As the kernel does.
	memset(to, 0, size);
	return -1;
}

static FILE *input, *output;

// At the end of the input there are zeros.
static void take(void *to, size_t size)
{
	size_t taken = fread(to, 1, size, input);

	memset((u8 *)to + taken, 0, size - taken);
}

static int is_at_end(void)
{
	return feof(input) || ferror(input);
}

static u64 take_word(void)
{
	u64 value;

	take(&value, sizeof(value));
	return value;
}

static void give(u64 value)
{
	fwrite(&value, sizeof(value), 1, output);
}

static void take_memory(void)
{
	u64 address = take_word(), size = take_word() & (MAX_BYTES - 1);
	u8 *bytes = malloc(size);

	if (memory_count == MAX_MEMORY)
		free(user_memory[--memory_count].bytes);
	if (!bytes)
		size = 0;
	take(bytes, size);
	user_memory[memory_count].address = address;
	user_memory[memory_count].size = size;
	user_memory[memory_count++].bytes = bytes;
}

static void forget_memory(void)
{
	while (memory_count)
		free(user_memory[--memory_count].bytes);
}

#endif
