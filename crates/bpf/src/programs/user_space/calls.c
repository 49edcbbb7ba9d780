// SPDX-License-Identifier: MIT OR Apache-2.0
//
// The walkers of interpreted languages as a program: they walk the calls of memory that they are given, so that what they
// find can be compared, and so that they can be run over damaged memory under the compiler's checks. What is compiled are
// the headers of `../languages` as they are; only the kernel's helpers and maps have others in their place.
//
// Its commands (commands.h):
//
//   0                                      forgets memory
//   1 address, size, bytes                 memory of the process
//   2 struct interpreter, to_frame, fs,    walks the calls: writes how many words there are, and the words; of each native
//     count, count times four words        frame the stack pointer, what the frame is, the frame pointer, and the piece of
//                                          Java's code. LuaJIT's innermost frame is the first
//   3 struct interpreter, function, owner  reads what names a function: writes how many pieces, then of each the
//                                          address, the length and the bytes
//
// What ends too early is the end: any bytes will do.

#include "../maps.h"

// With lines.
static const struct config user_config = { .lines = 1, .languages = ~0u };
#define config user_config

#include "../languages/walk.h"

#include "commands.h"

// Reads of memory for the calls of a stack, at most.
#define MAX_READS 100000

static struct interpreter user_interpreter;
static struct calls user_calls;
static struct scratch user_scratch;
static u64 user_mark;
static struct task_struct user_thread = { .tgid = 1, .pid = 1 };

void *user_task(void)
{
	return &user_thread;
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

// The kernel ends no program that reads more: it just takes long.
static void check_reads(void)
{
	if (user_reads > MAX_READS)
		abort();
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
	for (u64 i = 0; i < count && !is_at_end(); i++) {
		u64 words[4];

		take(words, sizeof(words));
		if (i >= MAX_FRAMES)
			continue;
		s->sps[i] = words[0];
		s->user.frames[i] = words[1];
		s->fps[i] = words[2];
		s->blobs[i] = words[3];
	}
	s->java.state = JAVA_KNOWN;
	memset(&s->luajit, 0, sizeof(s->luajit));
	s->luajit.number = 1;
	s->luajit.c_frame = s->sps[0];
	c->hash = HASH_START;
	c->count = 0;
	user_reads = 0;
	walk_found(&w, &found);
	check_reads();
	kept = c->count < MAX_CALLS ? c->count : MAX_CALLS;
	c->words[0] = 1;
	c->words[1] = c->count;
	give(c->count ? CALLS_HEAD + 2 * kept : 0);
	if (c->count)
		fwrite(c->words, 8, CALLS_HEAD + 2 * kept, output);
	fflush(output);
}

static void read_name(void)
{
	struct named_function *named = &user_calls.named;
	struct language_walk w = { .c = &user_calls, .s = &user_scratch, .it = &user_interpreter };

	take(&user_interpreter, sizeof(user_interpreter));
	named->function.function = take_word();
	named->function.chunks = 0;
	named->function.owner = take_word();
	user_reads = 0;
	LOOP(MAX_CHUNKS, next_chunk, &w);
	check_reads();
	give(named->function.chunks);
	for (u32 i = 0; i < named->function.chunks; i++) {
		give(named->chunks[i].address);
		give(named->chunks[i].len);
		fwrite(named->chunks[i].bytes, 1, named->chunks[i].len, output);
	}
	fflush(output);
}

static void run(void)
{
	u64 command;

	while (fread(&command, sizeof(command), 1, input) == 1) {
		switch (command & 3) {
		case 0:
			forget_memory();
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
}

#ifdef PYROGRAPH_FUZZ
// Runs commands from nothing; what they write goes nowhere.
int pyrograph_run(const u8 *bytes, size_t size)
{
	input = fmemopen((void *)bytes, size, "r");
	output = output ? output : fopen("/dev/null", "w");
	if (!input || !output)
		return 1;
	memset(&user_interpreter, 0, sizeof(user_interpreter));
	memset(&user_calls, 0, sizeof(user_calls));
	memset(&user_scratch, 0, sizeof(user_scratch));
	run();
	fclose(input);
	forget_memory();
	return 0;
}
#else
int main(void)
{
	input = stdin;
	output = stdout;
	run();
	return 0;
}
#endif
