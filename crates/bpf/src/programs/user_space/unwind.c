// SPDX-License-Identifier: MIT OR Apache-2.0
//
// The kernel's unwinder as a program: it unwinds stacks that it is given, so that what it finds can be compared,
// and so that it can be run over damaged ones under the compiler's checks. What is compiled is `unwind.h` as it
// is; only the kernel's helpers and maps have others in their place.
//
// Its commands (commands.h):
//
//   0                                      forget mappings and memory
//   1 number, struct module                a module's table
//   2 number, struct rule                  a rule
//   3 place, count, count words (32 bits)  words of tables
//   4 number, struct mapped_file           a file
//   5 start, end, offset, file or 0        a mapping of code; in order, without overlaps
//   6 address, size, bytes                 memory of the process
//   7 17 registers, called                 unwinds: writes how it ended, the number of frames, the frames
//   8 number, struct interpreter           an interpreter
//   9                                      forget memory; mappings are what they were
//
// Registers have the order of DWARF, the last is the instruction pointer. `called`: the thread is in a system
// call. Numbers that are too large are taken for others, and what ends too early is the end: any bytes will do.

#include "../unwind.h"

#include "commands.h"

#define MAX_MAPPINGS 65536
#define MAX_TEST_FILES 4096

static struct module user_modules[MAX_MODULES];
static struct rule user_rules[MAX_RULES];
static struct block *user_blocks[MAX_BLOCKS];
static struct mapped_file user_files[MAX_TEST_FILES];
static struct inode user_inodes[MAX_TEST_FILES];
static struct file user_file_structs[MAX_TEST_FILES];
static struct super_block user_device = { .s_dev = 1 };
static struct vm_area_struct user_mappings[MAX_MAPPINGS];
static u32 mapping_count;
static struct interpreter user_interpreters[MAX_INTERPRETERS];

static struct mm_struct user_mm = { .end_code = 1 };
static struct task_struct user_thread = { .tgid = 1, .pid = 1, .mm = &user_mm };
static struct scratch user_scratch;
static struct last_stacks user_last_stacks;

void *user_task(void)
{
	return &user_thread;
}

void *user_lookup(void *map, const void *key)
{
	u32 number = *(const u32 *)key;

	if (map == &modules)
		return number < MAX_MODULES ? &user_modules[number] : NULL;
	if (map == &rules)
		return number < MAX_RULES ? &user_rules[number] : NULL;
	if (map == &last_stacks)
		return &user_last_stacks;
	if (map == &interpreters)
		return number < MAX_INTERPRETERS ? &user_interpreters[number] : NULL;
	if (map == &blocks)
		return number < MAX_BLOCKS ? user_blocks[number] : NULL;
	if (map == &files) {
		u64 file = ((const struct file_key *)key)->inode;

		return file && file < MAX_TEST_FILES && user_files[file].module ? &user_files[file] : NULL;
	}
	for (u32 i = 0; i < MAX_BLOCKS; i++)
		if (user_blocks[i] == map)
			return number == 0 ? map : NULL;
	return NULL;
}

static void take_words(void)
{
	u64 place = take_word(), count = take_word();

	for (u64 i = 0; i < count && !is_at_end(); i++) {
		u64 at = place + i, number = (at >> BLOCK_BITS) % MAX_BLOCKS;

		if (!user_blocks[number])
			user_blocks[number] = calloc(1, sizeof(struct block));
		take(&user_blocks[number]->words[at & (BLOCK_WORDS - 1)], 4);
	}
}

static void take_mapping(void)
{
	struct vm_area_struct *vma = &user_mappings[mapping_count % MAX_MAPPINGS];
	u64 file;

	mapping_count += mapping_count < MAX_MAPPINGS;
	memset(vma, 0, sizeof(*vma));
	vma->vm_start = take_word();
	vma->vm_end = take_word();
	vma->vm_pgoff = take_word() >> 12;
	vma->vm_flags = VM_EXEC;
	file = take_word() % MAX_TEST_FILES;
	if (file) {
		user_inodes[file].i_ino = file;
		user_inodes[file].i_sb = &user_device;
		user_file_structs[file].f_inode = &user_inodes[file];
		vma->vm_file = &user_file_structs[file];
	}
}

// The tree of the mappings from `first` to before `end`.
static struct rb_node *tree(u32 first, u32 end)
{
	u32 middle = first + (end - first) / 2;
	struct rb_node *node = &user_mappings[middle].vm_rb;

	if (first >= end)
		return NULL;
	node->rb_left = tree(first, middle);
	node->rb_right = tree(middle + 1, end);
	return node;
}

static void forget(void)
{
	forget_memory();
	mapping_count = 0;
	// Another process: what was remembered is of no use.
	user_thread.tgid++;
}

static void unwind(void)
{
	struct scratch *s = &user_scratch;
	u64 values[18];
	int has_stack;

	take(values, sizeof(values));
	user_regs = (struct pt_regs){
		.ax = values[RAX], .dx = values[RDX], .cx = values[RCX], .bx = values[RBX],
		.si = values[RSI], .di = values[RDI], .bp = values[RBP], .sp = values[RSP],
		.r8 = values[R8], .r9 = values[R9], .r10 = values[R10], .r11 = values[R11],
		.r12 = values[R12], .r13 = values[R13], .r14 = values[R14], .r15 = values[R15],
		.ip = values[16], .cs = CODE_64, .orig_ax = values[17] ? 0 : -1ul,
	};
	user_mm.mm_rb.rb_node = tree(0, mapping_count);
	has_stack = unwind_user(s, &user_thread, 0);
	give(has_stack ? s->end : ENDS);
	// How many of its frames are those of the last stack.
	give(has_stack && s->again.place ? s->user.len - s->again.len : 0);
	give(has_stack ? s->user.len : 0);
	if (has_stack)
		fwrite(s->user.frames, 8, s->user.len, output);
	fflush(output);
}

static void run(void)
{
	u64 command;

	while (fread(&command, sizeof(command), 1, input) == 1) {
		switch (command & 15) {
		case 0:
			forget();
			break;
		case 1:
			take(&user_modules[take_word() % MAX_MODULES], sizeof(struct module));
			break;
		case 2:
			take(&user_rules[take_word() % MAX_RULES], sizeof(struct rule));
			break;
		case 3:
			take_words();
			break;
		case 4:
			take(&user_files[take_word() % MAX_TEST_FILES], sizeof(struct mapped_file));
			break;
		case 5:
			take_mapping();
			break;
		case 6:
			take_memory();
			break;
		case 7:
			unwind();
			break;
		case 8:
			take(&user_interpreters[take_word() % MAX_INTERPRETERS],
			     sizeof(struct interpreter));
			break;
		case 9:
			forget_memory();
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
	run();
	fclose(input);
	forget();
	memset(user_modules, 0, sizeof(user_modules));
	memset(user_rules, 0, sizeof(user_rules));
	memset(user_files, 0, sizeof(user_files));
	memset(user_interpreters, 0, sizeof(user_interpreters));
	memset(&user_scratch, 0, sizeof(user_scratch));
	memset(&user_last_stacks, 0, sizeof(user_last_stacks));
	for (u32 i = 0; i < MAX_BLOCKS; i++) {
		free(user_blocks[i]);
		user_blocks[i] = NULL;
	}
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
