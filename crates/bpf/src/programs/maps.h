// SPDX-License-Identifier: MIT OR Apache-2.0

#ifndef PYROGRAPH_MAPS_H
#define PYROGRAPH_MAPS_H

#include "kernel.h"
#include "shared.h"

const volatile struct config config = {};
struct state state = {};

// The files that are mapped, as far as they were seen.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_FILES);
	__type(key, struct file_key);
	__type(value, struct mapped_file);
} files SEC(".maps");

// Files that Pyrograph should open.
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 18);
} questions SEC(".maps");

// Stacks, each emitted once (or again, when another took its place in `emitted`).
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 23);
} stacks SEC(".maps");

#define TOLD_SLOTS (1 << 17)

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, TOLD_SLOTS);
	__type(key, u32);
	__type(value, u64);
} emitted SEC(".maps");

// Stacks that ended early: `struct copy`, and behind it bytes of the stack.
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 23);
} copies SEC(".maps");

// How much a CPU has copied since when, and when it woke user space for what a copy lacks.
struct copying {
	u64 since;
	u64 bytes;
	u64 woken;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct copying);
} copying_budget SEC(".maps");

// Two tables of counts: while one is written to, the other is read and emptied.
struct counts {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 32768);
	__type(key, struct key);
	__type(value, struct count);
};

struct counts counts_0 SEC(".maps");
struct counts counts_1 SEC(".maps");

// Threads that do not run, by number.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, u32);
	__type(value, struct blocked);
} blocked SEC(".maps");

// Events that have begun and are counted when they end, by the thread's number, or by what stands for it in the
// kernel.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, u64);
	__type(value, struct blocked);
} pending SEC(".maps");

// A call for memory that has not returned.
struct asked {
	struct key key;
	// The stack pointer when it was called: calls inside of it have a lower one.
	u64 sp;
	u64 bytes;
	u32 function;
	u32 pad;
	// Where `posix_memalign` is to put the address.
	u64 to;
	// The argument of `realloc`, and what was known of that block.
	u64 old;
	u64 old_site;
	u64 old_bytes;
};

// By the thread's number.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, u32);
	__type(value, struct asked);
} asked SEC(".maps");

struct place {
	u64 tgid;
	u64 address;
};

struct given {
	u64 site;
	u64 bytes;
};

// Memory that is held. Its rows are made as they are needed.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1 << 20);
	__type(key, struct place);
	__type(value, struct given);
} held SEC(".maps");

// Where it was asked for, by a hash.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 32768);
	__type(key, u64);
	__type(value, struct site);
} sites SEC(".maps");

// Mappings that are remembered.
#define NEAR 8

// Whose mappings they are, and as of when.
struct near_of {
	u64 mm;
	u64 exec_id;
	u32 tgid;
	u32 changes;
	u32 files;
	u32 pad;
};

// Rules that are remembered, each by where it was found: the number of the module above 32 bits of the
// distance from where its table begins, above 16 bits of the rule's number.
#define SEEN_BITS 10
#define HASH_FACTOR 0xff51afd7ed558ccdull

#define FOUND_INTERPRETERS 2

// An interpreter with code in a stack.
struct found_interpreter {
	u32 row;
	u32 pad;
	// To be added to an address in the process for a file offset.
	u64 to_frame;
};

// The innermost frame of LuaJIT in a stack.
struct luajit_frame {
	// Its number, and 1; 0: there is none.
	u32 number;
	// It is compiled code.
	u32 is_trace;
	// Where the interpreter's call is on the C stack.
	u64 c_frame;
	// Registers: rdx of the leaf, rbp, rbx, and where it is.
	u64 base;
	u64 rbp;
	u64 instruction;
	u64 ip;
};
// DWARF numbers of registers (System V ABI, AMD64 supplement, figure 3.36).
enum { RAX, RDX, RCX, RBX, RSI, RDI, RBP, RSP, R8, R9, R10, R11, R12, R13, R14, R15 };

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_INTERPRETERS);
	__type(key, u32);
	__type(value, struct interpreter);
} interpreters SEC(".maps");

#define JAVA_MAX_HEAPS 4

// Memory in which a Java virtual machine keeps its code.
struct java_heap {
	u64 low;
	u64 high;
	u64 segments;
	u64 shift;
};

// What is left of an interpreted frame, from 64 bytes below its frame pointer on.
enum java_slot {
	JAVA_SLOT_BYTECODE,
	JAVA_SLOT_METHOD = 5,
	JAVA_SLOT_SENDER = 7,
	JAVA_SLOT_FP,
	JAVA_SLOT_RETURN,
	JAVA_SLOTS,
};

// The virtual machine of a process.
struct java_process {
	// 0: it is not known.
	u32 state;
	u32 row;
	// As in `struct found_interpreter`.
	u64 to_frame;
	struct java_heap heaps[JAVA_MAX_HEAPS];
	// A piece of code that was found.
	u64 blob;
	u64 kind;
	// What was read of the frame that is left, or of its code: here, for the kernel allows 512 bytes of stack for all
	// functions together.
	u64 slots[JAVA_SLOTS];
};

// Where a stack is put together.
// What a walk takes over from the last stack (`again.h`).
struct again {
	// The place in that of the last frame; 0: the walk goes by rules.
	u32 place;
	// How often a frame is looked for there still.
	u32 tries;
	// Frames are noted for the next stack.
	u32 notes;
	u32 pad;
	// The stack as it was before the first frame that was taken over.
	u64 len;
	u64 hash;
	// The frame pointer of the last frame.
	u64 fp;
	// Where the words of the stack begin that are in `node`.
	u64 around;
};

struct scratch {
	u32 busy;
	u32 known;
	u64 registers[16];
	u64 ip;
	// 1 if `ip` is where a call returns to, so that the call is just before.
	u64 called;
	// The last frame was left by its frame pointer.
	u64 chained;
	u64 end;
	// The value of `called` where the walk began.
	u64 leaf_called;
	// Code made at run time is in the stack.
	u64 has_made;
	// A frame was left by its instructions, without a table.
	u64 guessed;
	// Calls whose return is probed, from the last one that was found on.
	u64 returns;
	u64 words[8];
	// The process's memory, and the mapping of an address in it.
	u64 mm;
	u64 vma;
	// Where the mapping begins in its file, and a mapping beside it.
	u64 offset;
	u64 around;
	// A node of the tree of mappings.
	u64 node[32];
	struct mapping mapping;
	// Mappings that were found before.
	struct near_of near_of;
	struct mapping near[NEAR];
	u32 turn;
	// The module of the last frame.
	u32 last_module;
	// Changes when other mappings are remembered.
	u32 mappings;
	u32 pad;
	struct again again;
	// Which of the `scratches` this is.
	u32 number;
	// How many interpreters have code in the stack.
	u32 found;
	// The hash of their calls; 0: there are none.
	u64 calls;
	// These interpreters: rows of `interpreters`, and where they are mapped.
	struct found_interpreter interpreters[FOUND_INTERPRETERS];
	struct luajit_frame luajit;
	// The stack pointer of each frame, and its frame pointer, if it keeps one.
	u64 sps[MAX_FRAMES];
	u64 fps[MAX_FRAMES];
	// The piece of Java's code that each frame is in, and its kind; 0: none.
	u64 blobs[MAX_FRAMES];
	struct java_process java;
	u64 seen[1 << SEEN_BITS];
	struct question question;
	struct blocked blocked;
	struct asked asked;
	struct site site;
	struct stack user;
	struct stack kernel;
};

// One for each program that may run on a CPU at the same time: an interrupt comes into the middle of
// another program, and a uprobe's may be preempted.
#define SCRATCHES 4

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, SCRATCHES);
	__type(key, u32);
	__type(value, struct scratch);
} scratches SEC(".maps");

#endif
