// SPDX-License-Identifier: MIT OR Apache-2.0
//
// From frame to frame through code that HotSpot, Java's virtual machine, makes at run time.
//
// All of it lies in a few heaps of segments. A byte for each segment leads to the first one of the block that it is in
// (0: this is it; 255: none), where a header and a `CodeBlob` are: it has the size of the frame. Compiled code keeps no
// frame pointer, the interpreter does. Offsets are those that `libjvm.so` has for debuggers.

#ifndef PYROGRAPH_JAVA_FRAMES_H
#define PYROGRAPH_JAVA_FRAMES_H

#include "../mappings.h"

static __always_inline int read_user(struct task_struct *other, void *to, u32 size, u64 address);
static __always_inline int leads_behind_call(struct scratch *s, struct task_struct *other);

enum java_symbol {
	// The variable that leads to the heaps of code.
	JAVA_HEAPS,
	// From an offset in the file to the address, where the tables of virtual functions are.
	JAVA_DATA,
};

enum java_offset {
	// In an array: how many there are, and where.
	JAVA_LEN,
	JAVA_ELEMENTS,
	// In a heap: where its memory begins and ends, the bytes of its segments, the binary logarithm of a segment's size.
	JAVA_LOW,
	JAVA_HIGH,
	JAVA_SEGMENTS,
	JAVA_SHIFT,
	// Size of the header of a block.
	JAVA_HEADER,
	// In a `CodeBlob`.
	JAVA_NAME,
	JAVA_FRAME_SIZE,
	JAVA_FRAME_COMPLETE,
	// That has 2 bytes, or 4.
	JAVA_COMPLETE_BYTES,
	// Where its code begins: an address, or, if JAVA_CODE_IS_NEAR, a distance of 4 bytes.
	JAVA_CODE,
	JAVA_CODE_IS_NEAR,
	// In a compiled method.
	JAVA_METHOD,
	JAVA_COMPILE_ID,
	// In a method, and in the part of it that never changes, whose size comes before the bytecodes.
	JAVA_CONST_METHOD,
	JAVA_CONST_METHOD_SIZE,
	JAVA_CODE_SIZE,
	JAVA_CONSTANTS,
	// In a method.
	JAVA_ACCESS,
};

// Access flags of a native method (Java Virtual Machine Specification, table 4.6-A).
#define JAVA_NATIVE 0x100

// Kinds of blobs, in the lower bits of pointers to them.
enum java_kind {
	// A function of a call: a method that is interpreted.
	JAVA_INTERPRETED,
	JAVA_COMPILED,
	JAVA_STUB,
	JAVA_INTERPRETER,
	// A stub by which C++ calls Java.
	JAVA_ENTRY,
	// Stubs to which virtual threads return whose callers are in the heap.
	JAVA_CONTINUATION,
};

// The first 8 letters of names of blobs, and of one kind those from the 16th on (`StubRoutines (continuation…`).
#define JAVA_NAME_COMPILED 0x00646f6874656d6eull
#define JAVA_NAME_NATIVE 0x6e2065766974616eull
#define JAVA_NAME_INTERPRETER 0x6572707265746e49ull
#define JAVA_NAME_ROUTINES 0x74756f5262757453ull
#define JAVA_NAME_CONTINUATION 0x697461756e69746eull

// Not of Java: other rules apply.
#define NOT_JAVA 2

enum { JAVA_UNKNOWN, JAVA_KNOWN, JAVA_NONE };

// Notes that an interpreter has a part in the stack.
static __always_inline void note_row(struct scratch *s, u32 row, u64 to_frame)
{
	u32 found = s->found;

	for (u32 i = 0; i < FOUND_INTERPRETERS; i++) {
		if (i >= found) {
			s->interpreters[i].row = row;
			s->interpreters[i].to_frame = to_frame;
			s->found = i + 1;
			return;
		}
		if (s->interpreters[i].row == row)
			return;
	}
}

static __always_inline u64 java_word(struct task_struct *other, u64 address)
{
	u64 value = 0;

	if (read_user(other, &value, 8, address))
		return 0;
	return value;
}

static __always_inline u32 java_half(struct task_struct *other, u64 address)
{
	u32 value = 0;

	if (read_user(other, &value, 4, address))
		return 0;
	return value;
}

static __always_inline struct interpreter *java_of(u32 row)
{
	struct interpreter *it;

	if (!(config.languages & 1u << LANGUAGE_JAVA))
		return NULL;
	it = bpf_map_lookup_elem(&interpreters, &row);
	return it && it->language == LANGUAGE_JAVA ? it : NULL;
}

static __always_inline u64 java_code(struct task_struct *other, struct interpreter *it, u64 blob)
{
	if (it->offsets[JAVA_CODE_IS_NEAR])
		return blob + java_half(other, blob + it->offsets[JAVA_CODE]);
	return java_word(other, blob + it->offsets[JAVA_CODE]);
}

// Finds the heaps of code.
static __always_inline int read_java_heaps(struct scratch *s, struct task_struct *other, struct interpreter *it, u32 row,
					   u64 bias)
{
	u64 array = java_word(other, bias + it->symbols[JAVA_HEAPS]);
	u32 len = java_half(other, array + it->offsets[JAVA_LEN]);
	u64 elements = java_word(other, array + it->offsets[JAVA_ELEMENTS]);

	if (!array || !elements)
		return 0;
	for (u32 i = 0; i < JAVA_MAX_HEAPS; i++) {
		struct java_heap *heap = &s->java.heaps[i];
		u64 at = i < len ? java_word(other, elements + 8 * i) : 0;

		heap->low = heap->high = 0;
		if (!at)
			continue;
		heap->low = java_word(other, at + it->offsets[JAVA_LOW]);
		heap->high = java_word(other, at + it->offsets[JAVA_HIGH]);
		heap->segments = java_word(other, at + it->offsets[JAVA_SEGMENTS]);
		heap->shift = java_half(other, at + it->offsets[JAVA_SHIFT]) & 31;
	}
	s->java.row = row;
	s->java.to_frame = -bias - it->to_address;
	s->java.state = JAVA_KNOWN;
	return 1;
}

// Finds the virtual machine of the process: by a frame in its library, or by the register that has the thread wherever Java
// runs, of which the first word is a table in the library.
static __always_inline int find_java(struct scratch *s, struct task_struct *other)
{
	struct mapped_file *file;
	struct vm_area_struct *vma;
	struct file_key key = {};
	struct interpreter *it;
	struct file *mapped;
	u64 table;

	s->java.state = JAVA_NONE;
	for (u32 i = 0; i < FOUND_INTERPRETERS; i++) {
		u32 row = s->interpreters[i].row;

		if (i >= s->found)
			break;
		it = java_of(row);
		if (it)
			return read_java_heaps(s, other, it, row, -(s->interpreters[i].to_frame + it->to_address));
	}
	if (!(s->known >> R15 & 1))
		return 0;
	table = java_word(other, s->registers[R15]);
	if (!table || !find_vma(s, table))
		return 0;
	vma = (struct vm_area_struct *)s->vma;
	mapped = BPF_CORE_READ(vma, vm_file);
	if (!mapped)
		return 0;
	read_key(&key, mapped);
	file = bpf_map_lookup_elem(&files, &key);
	if (!file || !file->interpreter)
		return 0;
	it = java_of(file->interpreter - 1);
	if (!it)
		return 0;
	return read_java_heaps(s, other, it, file->interpreter - 1,
			       BPF_CORE_READ(vma, vm_start) - (BPF_CORE_READ(vma, vm_pgoff) << 12) -
				       it->symbols[JAVA_DATA]);
}

__noinline int find_java_here(struct scratch *s)
{
	return s ? find_java(s, NULL) : 0;
}

// The first segment of a block, in a heap.
static __always_inline u64 find_segment(struct task_struct *other, u64 segments, u64 segment)
{
	for (u32 i = 0; i < 48; i++) {
		u8 distance = 255;

		if (read_user(other, &distance, 1, segments + segment) || distance == 255)
			return -1ull;
		if (!distance)
			return segment;
		segment -= distance;
	}
	return -1ull;
}

// Finds the blob that holds an address, `s->java.blob`.
static __always_inline int find_blob(struct scratch *s, struct task_struct *other, u64 address)
{
	struct interpreter *it;

	it = java_of(s->java.row);
	if (!it)
		return 0;
	for (u32 i = 0; i < JAVA_MAX_HEAPS; i++) {
		struct java_heap *heap = &s->java.heaps[i];
		u64 segment, letters, name;
		u32 shift = heap->shift & 31;

		if (address < heap->low || address >= heap->high)
			continue;
		segment = find_segment(other, heap->segments, (address - heap->low) >> shift);
		if (segment == -1ull)
			return 0;
		s->java.blob = heap->low + (segment << shift) + it->offsets[JAVA_HEADER];
		letters = java_word(other, s->java.blob + it->offsets[JAVA_NAME]);
		name = java_word(other, letters);
		s->java.kind = name == JAVA_NAME_COMPILED || name == JAVA_NAME_NATIVE ? JAVA_COMPILED :
			       name == JAVA_NAME_INTERPRETER			      ? JAVA_INTERPRETER :
			       name == JAVA_NAME_ROUTINES			      ? JAVA_ENTRY :
											JAVA_STUB;
		if (s->java.kind == JAVA_ENTRY && java_word(other, letters + 16) == JAVA_NAME_CONTINUATION)
			s->java.kind = JAVA_CONTINUATION;
		return name != 0;
	}
	return 0;
}

__noinline int find_blob_here(struct scratch *s, u64 address)
{
	return s ? find_blob(s, NULL, address) : 0;
}

// A global function: the verifier checks it once, and not for each address.
__noinline int is_in_java(struct scratch *s, u64 address)
{
	if (!s)
		return 0;
	for (u32 i = 0; i < JAVA_MAX_HEAPS; i++)
		if (address >= s->java.heaps[i].low && address < s->java.heaps[i].high)
			return 1;
	return 0;
}

// Returns true if an address is in one of the heaps, behind a call.
static __always_inline int is_java_return(struct scratch *s, struct task_struct *other, u64 address)
{
	u64 ip = s->ip;
	int is_behind;

	if (!is_in_java(s, address))
		return 0;
	s->ip = address;
	is_behind = leads_behind_call(s, other);
	s->ip = ip;
	return is_behind;
}

static __always_inline int enter_java_caller(struct scratch *s, u64 ip, u64 sp, u64 fp)
{
	if (!ip) {
		s->end = END_NO_RULE;
		return 1;
	}
	s->ip = ip;
	s->registers[RSP] = sp;
	s->registers[RBP] = fp;
	s->known &= 1 << RBP | 1 << RSP | 1 << R15;
	s->called = 1;
	s->chained = 0;
	return 0;
}

// Leaves a frame of which all but the return address is gone, or not there yet: so many bytes lie above it, of which the
// last word is the frame pointer.
static __always_inline int leave_java_bare(struct scratch *s, struct task_struct *other, u64 above)
{
	u64 sp = s->registers[RSP], fp = s->registers[RBP];

	if (above)
		fp = java_word(other, sp + above - 8);
	return enter_java_caller(s, java_word(other, sp + above), sp + above + 8, fp);
}

static __always_inline int leave_java_by_size(struct scratch *s, struct task_struct *other, u32 words, int keeps_fp)
{
	u64 sp = s->registers[RSP], *saved = s->java.slots;

	if (words < 2 || words > 1 << 17)
		return NOT_JAVA;
	sp += 8 * (u64)words;
	if (read_user(other, saved, 16, sp - 16)) {
		s->end = END_UNREADABLE;
		return 1;
	}
	return enter_java_caller(s, saved[1], sp, keeps_fp ? s->registers[RBP] : saved[0]);
}

static __always_inline int leave_java_by_fp(struct scratch *s, struct task_struct *other)
{
	u64 sp = s->registers[RSP], fp = s->registers[RBP], *saved = s->java.slots;

	if (fp < sp || fp & 7 || fp - sp > 1 << 23 || read_user(other, saved, 16, fp))
		return NOT_JAVA;
	return enter_java_caller(s, saved[1], fp + 16, saved[0]);
}

// Returns true if slots are those of an interpreted method.
static __always_inline int is_java_method(struct task_struct *other, struct interpreter *it, u64 *slots)
{
	u64 constant = java_word(other, slots[JAVA_SLOT_METHOD] + it->offsets[JAVA_CONST_METHOD]);
	u64 first = constant + it->offsets[JAVA_CONST_METHOD_SIZE];
	u32 size;

	if (!constant || slots[JAVA_SLOT_METHOD] & 7)
		return 0;
	size = java_half(other, constant + it->offsets[JAVA_CODE_SIZE]) & 0xffff;
	// Native methods have no bytecodes; in that slot may be a place in their caller.
	if (!size)
		return (java_half(other, slots[JAVA_SLOT_METHOD] + it->offsets[JAVA_ACCESS]) & JAVA_NATIVE) &&
		       java_word(other, constant + it->offsets[JAVA_CONSTANTS]);
	return slots[JAVA_SLOT_BYTECODE] >= first && slots[JAVA_SLOT_BYTECODE] < first + size;
}

static __always_inline int leave_java_interpreted(struct scratch *s, struct task_struct *other, struct interpreter *it)
{
	u64 sp = s->registers[RSP], fp = s->registers[RBP], *slots = s->java.slots, sender;

	if (fp < sp || fp & 7 || fp - sp > 1 << 23 ||
	    read_user(other, slots, sizeof(s->java.slots), fp - 64) || !is_java_method(other, it, slots))
		return NOT_JAVA;
	sender = slots[JAVA_SLOT_SENDER];
	// What the method has more than its arguments lies between.
	if (sender < fp + 16 || sender - fp > 1 << 20 || sender & 7)
		sender = fp + 16;
	return enter_java_caller(s, slots[JAVA_SLOT_RETURN], sender, slots[JAVA_SLOT_FP]);
}

// How an interrupted frame of a compiled method is left, by its instructions: the bytes between the stack pointer and the
// return address.
#define JAVA_WHOLE -1
#define JAVA_WHOLE_BUT_FP -2

static __always_inline int java_frame_state(struct scratch *s, struct task_struct *other, int is_complete)
{
	u8 *code = (u8 *)s->java.slots, *at = code + 8;

	if (read_user(other, code, 24, s->ip - 8))
		return JAVA_WHOLE;
	if (!is_complete) {
		// sub rsp, …: behind it, the frame pointer is yet to be written.
		if ((code[4] == 0x48 && code[5] == 0x83 && code[6] == 0xec) ||
		    (code[1] == 0x48 && code[2] == 0x81 && code[3] == 0xec))
			return JAVA_WHOLE_BUT_FP;
		// push rbp
		return code[7] == 0x55 ? 8 : 0;
	}
	// pop rbp
	if (at[0] == 0x5d)
		return 8;
	// ret
	if (at[0] == 0xc3 || at[0] == 0xc2)
		return 0;
	// Polls for safepoints between these: test eax, [r10]; test eax, [rip + …]; mov r10, [r15 + …] and the first; cmp rsp,
	// [r15 + …]; and ja.
	if (at[0] == 0x41 && at[1] == 0x85 && at[2] == 0x02 && at[3] == 0xc3)
		return 0;
	if (at[0] == 0x85 && at[1] == 0x05 && at[6] == 0xc3)
		return 0;
	if (at[0] == 0x4d && at[1] == 0x8b && at[2] == 0x97 && at[7] == 0x41 && at[8] == 0x85 && at[10] == 0xc3)
		return 0;
	if (at[0] == 0x49 && at[1] == 0x3b &&
	    ((at[2] == 0x67 && at[4] == 0x0f && at[5] == 0x87) || (at[2] == 0xa7 && at[7] == 0x0f && at[8] == 0x87)))
		return 0;
	if (at[0] == 0x0f && at[1] == 0x87 && at[6] == 0xc3)
		return 0;
	return JAVA_WHOLE;
}

static __always_inline int leave_java_compiled(struct scratch *s, struct task_struct *other, struct interpreter *it, u64 blob,
					       u32 words)
{
	s32 complete;
	int state;

	if (s->called)
		return leave_java_by_size(s, other, words, 0);
	complete = java_half(other, blob + it->offsets[JAVA_FRAME_COMPLETE]);
	if (it->offsets[JAVA_COMPLETE_BYTES] == 2)
		complete = (s16)complete;
	state = java_frame_state(s, other, s->ip >= java_code(other, it, blob) + (s64)complete);
	if (state < 0)
		return leave_java_by_size(s, other, words, state == JAVA_WHOLE_BUT_FP);
	return leave_java_bare(s, other, state);
}

// A frame of a stub, or of the interpreter before it has made one: it has pushed nothing, or the frame pointer, or it
// keeps one.
static __always_inline int leave_java_stub(struct scratch *s, struct task_struct *other, u32 words)
{
	u64 sp = s->registers[RSP];

	if (s->called)
		return words ? leave_java_by_size(s, other, words, 0) : leave_java_by_fp(s, other);
	if (is_java_return(s, other, java_word(other, sp)))
		return leave_java_bare(s, other, 0);
	if (is_java_return(s, other, java_word(other, sp + 8)))
		return leave_java_bare(s, other, 8);
	if (words && is_java_return(s, other, java_word(other, sp + 8 * (u64)(words & 0xfff) - 8)))
		return leave_java_by_size(s, other, words, 0);
	return leave_java_by_fp(s, other);
}

// Words above the stack pointer in which the end of a `ContinuationEntry` and what lies behind it are: arguments on the stack
// and a word of padding may come before. The entry alone has more than so many as the first is.
#define JAVA_ENTRY_FIRST 7
#define JAVA_ENTRY_WORDS 32

// Leaves the frame to which a virtual thread returns whose callers are in the heap: it goes on where the carrier has called
// the continuation. There the stack has a `ContinuationEntry`, the frame pointer, and the return address.
static __always_inline int leave_java_continuation(struct scratch *s, struct task_struct *other)
{
	u64 sp = s->registers[RSP], *words = s->node;

	if (read_user(other, words, 8 * JAVA_ENTRY_WORDS, sp)) {
		s->end = END_UNREADABLE;
		return 1;
	}
	for (u32 i = JAVA_ENTRY_FIRST; i < JAVA_ENTRY_WORDS; i++)
		if (is_in_java(s, words[i]))
			return is_java_return(s, other, words[i]) ?
				       enter_java_caller(s, words[i], sp + 8 * (i + 1), words[i - 1]) :
				       NOT_JAVA;
	return NOT_JAVA;
}

// Leaves a frame in code that was made at run time, the last one that was noted, if it is Java's. Returns 0, 1 at the end,
// or NOT_JAVA.
static __always_inline int leave_java(struct scratch *s, struct task_struct *other, u64 address)
{
	struct interpreter *it;
	u64 at, blob;
	u32 words, kind;
	int left;

	if (s->java.state == JAVA_NONE)
		return NOT_JAVA;
	if (s->java.state != JAVA_KNOWN && !(other ? find_java(s, other) : find_java_here(s)))
		return NOT_JAVA;
	if (!(other ? find_blob(s, other, address) : find_blob_here(s, address)))
		return NOT_JAVA;
	it = java_of(s->java.row);
	at = s->user.len - 1;
	if (!it || !IS_BELOW(MAX_FRAMES, at))
		return NOT_JAVA;
	blob = s->java.blob;
	kind = s->java.kind;
	words = java_half(other, blob + it->offsets[JAVA_FRAME_SIZE]);
	if (kind == JAVA_COMPILED) {
		left = leave_java_compiled(s, other, it, blob, words);
	} else if (kind == JAVA_INTERPRETER) {
		left = leave_java_interpreted(s, other, it);
		if (left == NOT_JAVA) {
			kind = JAVA_STUB;
			left = leave_java_stub(s, other, 0);
		}
	} else if (kind == JAVA_CONTINUATION) {
		left = leave_java_continuation(s, other);
	} else {
		// What calls Java has a frame pointer, and calls; other routines of this kind do not.
		if (kind == JAVA_ENTRY && !s->called)
			kind = JAVA_STUB;
		left = leave_java_stub(s, other, words);
	}
	s->blobs[at] = blob | kind;
	note_row(s, s->java.row, s->java.to_frame);
	return left;
}

// A global function: the verifier checks it once, and not for each way to it.
__noinline int leave_java_here(struct scratch *s, u64 address)
{
	return s ? leave_java(s, NULL, address) : NOT_JAVA;
}

// A function of its own, for its part of the stack.
static __noinline int leave_java_of_other(struct scratch *s, struct task_struct *other, u64 address)
{
	// There is one, or code for the current thread is in it, too.
	if (!other)
		__builtin_unreachable();
	return leave_java(s, other, address);
}

#endif
