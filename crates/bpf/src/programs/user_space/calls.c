// SPDX-License-Identifier: MIT OR Apache-2.0
//
// The walkers of interpreted languages as a program: they walk the calls of memory that they are given, so that what they
// find can be compared, and so that they can be run over damaged memory under the compiler's checks. What is compiled are
// the headers of `../languages` as they are; only the kernel's helpers and maps have others in their place.
//
// It reads commands, each a word of 64 bits and what belongs to it, in the machine's own order of bytes:
//
//   0                                      forgets memory
//   1 address, size, bytes                 memory of the process
//   2 struct interpreter, to_frame, fs,    walks the calls: writes how many words there are, and the words
//     count, count stack pointers
//   3 struct interpreter, function         reads what names a function: writes how many pieces, then of each the
//                                          address, the length and the bytes
//
// What ends too early is the end: any bytes will do.

#include <stdio.h>
#include <stdlib.h>

// As the walkers need it: lookups of rows that are there.
#include "../languages/walk.h"

#define MAX_MEMORY 4096

static struct {
	u64 address;
	u64 size;
	u8 *bytes;
} user_memory[MAX_MEMORY];
static u32 memory_count;

static struct interpreter user_interpreter;
static struct calls user_calls;
static struct scratch user_scratch;
static u64 user_mark;
static struct task_struct user_thread = { .tgid = 1, .pid = 1 };
static struct pt_regs user_regs;

void *user_task(void)
{
	return &user_thread;
}

__u64 user_registers(void)
{
	return (__u64)&user_regs;
}

void *user_lookup(void *map, const void *key)
{
	if (map == &interpreters)
		return *(const u32 *)key == 0 ? &user_interpreter : NULL;
	if (map == &calls_of)
		return &user_calls;
	if (map == &emitted)
		return &user_mark;
	return NULL;
}

long user_read(void *to, __u32 size, __u64 address)
{
	// What came last lies over what came before.
	for (u32 i = memory_count; i-- > 0;) {
		u64 offset = address - user_memory[i].address;

		if (offset >= user_memory[i].size || size > user_memory[i].size - offset)
			continue;
		memcpy(to, user_memory[i].bytes + offset, size);
		return 0;
	}
	memset(to, 0, size);
	return -1;
}

// At the end of the input there are zeros.
static void take(void *to, size_t size)
{
	size_t taken = fread(to, 1, size, stdin);

	memset((u8 *)to + taken, 0, size - taken);
}

static u64 take_word(void)
{
	u64 value;

	take(&value, sizeof(value));
	return value;
}

static void give(u64 value)
{
	fwrite(&value, sizeof(value), 1, stdout);
}

static void take_memory(void)
{
	u64 address = take_word(), size = take_word();
	u8 *bytes = malloc(size);

	if (memory_count == MAX_MEMORY)
		free(user_memory[--memory_count].bytes);
	take(bytes, size);
	user_memory[memory_count].address = address;
	user_memory[memory_count].size = size;
	user_memory[memory_count++].bytes = bytes;
}

static void walk(void)
{
	struct scratch *s = &user_scratch;
	struct calls *c = &user_calls;
	struct found_interpreter found = { .row = 0 };
	struct language_walk w = { .c = c, .s = s };
	u64 count, kept;

	take(&user_interpreter, sizeof(user_interpreter));
	found.to_frame = take_word();
	c->fs = take_word();
	count = take_word();
	s->user.len = count < MAX_FRAMES ? count : MAX_FRAMES;
	for (u64 i = 0; i < count && !feof(stdin); i++) {
		u64 sp = take_word();

		if (i < MAX_FRAMES)
			s->sps[i] = sp;
	}
	c->hash = HASH_START;
	c->count = 0;
	walk_found(&w, &found);
	kept = c->count < MAX_CALLS ? c->count : MAX_CALLS;
	c->words[0] = 1;
	c->words[1] = c->count;
	give(c->count ? CALLS_HEAD + 2 * kept : 0);
	if (c->count)
		fwrite(c->words, 8, CALLS_HEAD + 2 * kept, stdout);
	fflush(stdout);
}

static void read_name(void)
{
	struct named_function *named = &user_calls.named;
	struct language_walk w = { .c = &user_calls, .s = &user_scratch, .it = &user_interpreter };

	take(&user_interpreter, sizeof(user_interpreter));
	named->function.function = take_word();
	named->function.chunks = 0;
	bpf_loop(MAX_CHUNKS, next_chunk, &w, 0);
	give(named->function.chunks);
	for (u32 i = 0; i < named->function.chunks; i++) {
		give(named->chunks[i].address);
		give(named->chunks[i].len);
		fwrite(named->chunks[i].bytes, 1, named->chunks[i].len, stdout);
	}
	fflush(stdout);
}

int main(void)
{
	u64 command;

	while (fread(&command, sizeof(command), 1, stdin) == 1) {
		switch (command & 3) {
		case 0:
			while (memory_count)
				free(user_memory[--memory_count].bytes);
			break;
		case 1:
			take_memory();
			break;
		case 2:
			walk();
			break;
		case 3:
			read_name();
			break;
		}
	}
	return 0;
}
