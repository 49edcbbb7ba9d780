// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Records of what traced threads do: a structure of `tracer/layout.rs`.

#ifndef PYROGRAPH_CALL_RECORD_H
#define PYROGRAPH_CALL_RECORD_H

#include "kernel.h"

enum record_kind {
	RECORD_NONE,
	// A call that has returned; that does not return; that had not when tracing ended.
	RECORD_CALL,
	RECORD_LAST_CALL,
	RECORD_UNFINISHED,
	// A call whose begin was not seen: its time and duration are not known.
	RECORD_RETURN,
	// A signal is delivered: `number` is the signal's, `result` its code, and the first two arguments are what follows
	// in `siginfo_t`: the sender's process and user, and a status, or an address.
	RECORD_SIGNAL,
	// A thread ends: `result` is its exit code as wait(2) has it.
	RECORD_EXIT,
	// A process is started, with a copy of its parent's descriptors: `result` is its number.
	RECORD_FORK,
	// An event: `number` is its index; of a tracepoint its data follow, of a function's return `result` is what it
	// returns.
	RECORD_EVENT,
	// A page fault: `number` is 1 if a page had to be read; the first arguments are the instruction's address, the one
	// that it accessed, and 1 if that is of the heap, which the records of mappings call anonymous.
	RECORD_FAULT,
	// The stack of the next record of the thread: a `struct stack`.
	RECORD_STACK,
};

struct call_record {
	// CLOCK_MONOTONIC, in nanoseconds
	u64 time;
	u64 duration;
	u32 tgid;
	u32 pid;
	u16 kind;
	// The call is one of a 32-bit program, whose numbers are others.
	u16 compat;
	u32 number;
	s64 result;
	u64 arguments[6];
	char comm[16];
	// Arguments that could not be copied when the call began, a bit each: their pages were not in memory. The kernel
	// has brought them there when it returns.
	u32 missed;
	// Bytes of copies behind this: `struct copied` and the bytes, rounded up to 8.
	u32 used;
	// The thread's stack was sent, or could not be.
	u32 stack;
	// The call is sent for user space to follow descriptors, and is not shown.
	u32 only_followed;
};

#endif
