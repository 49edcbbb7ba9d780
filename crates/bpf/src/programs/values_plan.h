// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Which values of an event are read, which events are wanted by them, and how they are counted: the structures of
// `values/layout.rs`.

#ifndef PYROGRAPH_VALUES_PLAN_H
#define PYROGRAPH_VALUES_PLAN_H

#include "kernel.h"

// The data of an event: at most so many bytes.
#define MAX_EVENT 4096
// Values of an event: as many, each in as many steps, and so many bytes of a text.
#define MAX_READS 8
#define MAX_READ_STEPS 6
#define MAX_READ_TEXT 512
// Steps of a filter.
#define MAX_CHECKS 16

// The register that holds the address of a tracepoint's data; the others are the processor's, as DWARF numbers them.
#define REGISTER_DATA 31
#define REGISTER_IP 16
// Number of the processor's registers, and the first of those as they were when the function was called that returns.
#define REGISTERS 17
#define REGISTERS_OF_CALL 32

enum read_base {
	// The number of a register.
	BASE_REGISTER,
	// The distance from the instruction.
	BASE_STATIC,
	BASE_CONSTANT,
	// The distance from the thread pointer.
	BASE_THREAD,
};

enum value_kind {
	VALUE_NUMBER,
	// A text up to its zero byte, at an address.
	VALUE_TEXT,
	// A text at an address, with its length.
	VALUE_TEXT_OF,
	// A text in a tracepoint's data: at the address is a word with its place, from `length` on, in the lower half.
	VALUE_TEXT_IN_DATA,
	// The name, and the numbers, of the thread; the CPU.
	VALUE_COMM,
	VALUE_PROCESS,
	VALUE_THREAD,
	VALUE_CPU,
};

// In `read_step.load`: memory of the kernel.
#define LOAD_OF_KERNEL 0x100

// A number is added, then memory there of `load` bytes is read; 0: nothing is read.
struct read_step {
	s64 add;
	u64 load;
};

struct read_number {
	u64 number;
	u32 base;
	u32 count;
	struct read_step steps[MAX_READ_STEPS];
};

struct value_plan {
	struct read_number value;
	struct read_number length;
	u32 kind;
	// Of a number: its first bit, how many it has, and whether the last one is its sign.
	u8 first;
	u8 bits;
	u8 is_signed;
	// The text is in the kernel's memory.
	u8 of_kernel;
};

enum check_kind {
	// Compare a value; the result is put on a stack.
	CHECK_NUMBER,
	CHECK_TEXT,
	// These replace results on the stack by one.
	CHECK_AND,
	CHECK_OR,
	CHECK_NOT,
};

enum check_operator {
	CHECK_EQUAL,
	CHECK_LESS,
	CHECK_GREATER,
	// All bits of the number are set; at least one is.
	CHECK_BITS,
};

struct check {
	u32 kind;
	u32 value;
	u32 operator;
	u32 is_signed;
	// What is compared with. Of a text: the bit of the state in which it matches.
	u64 number;
	// Of a text: the states that stay whatever comes, and its row in `patterns`.
	u64 stays;
	u64 pattern;
};

// States of an automaton for a text, a bit each: those that each byte leads to.
struct pattern {
	u64 by_byte[256];
};

// How values are counted.
enum count_by {
	// As counts of events are kept apart.
	BY_KEY,
	// By the value.
	BY_VALUE,
};

enum count_ranges {
	RANGES_NONE,
	// Of powers of two.
	RANGES_POWERS,
	// Of equal size.
	RANGES_EQUAL,
};

#define NO_VALUE 0xffffffff

struct sum_plan {
	u32 by;
	// The value that counts are kept apart by.
	u32 key;
	// The value that is added up; NO_VALUE: events are counted.
	u32 value;
	u32 ranges;
	// The value by which the end of an event is found whose time until then is added up: the address of a call's frame, or a
	// key that both have; else NO_VALUE.
	u32 frame;
	// It is a key, and the end may be another thread's.
	u32 keyed;
	// Of ranges of equal size: where the first begins, their size and their number.
	s64 least;
	u64 size;
	u64 count;
};

struct probe_plan {
	u32 event;
	u32 count;
	u32 checks;
	// No value is sent.
	u32 hidden;
	// Values are read from the registers of the call.
	u32 of_call;
	u32 pad;
	struct value_plan values[MAX_READS];
	struct check filter[MAX_CHECKS];
	struct sum_plan sum;
};

// The beginning of a text that events are kept apart by, and how many bytes were read of it.
#define MAX_KEY_TEXT 64

struct key_text {
	u32 length;
	u32 all;
	u8 bytes[MAX_KEY_TEXT];
};

#endif
