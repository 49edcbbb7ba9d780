// SPDX-License-Identifier: MIT OR Apache-2.0
//
// What the programs that trace system calls share with user space: the structures of `tracer/layout.rs`.

#ifndef PYROGRAPH_TRACE_H
#define PYROGRAPH_TRACE_H

#include "durations.h"
#include "trace_record.h"
#include "values_plan.h"

// Numbers of system calls are below this.
#define MAX_CALLS 512
// As much is copied of one argument at most, and as much of all together before the last one.
#define MAX_COPY 1024
#define MAX_COPIED 3072
// Parts of what consists of several: as many at most, and of each string so much.
#define MAX_PIECES 32
#define MAX_STRING 256
// How many arguments of a call are copied at most.
#define MAX_COPIES 4

enum extent {
	// Up to its zero byte.
	EXTENT_TEXT,
	// `size` bytes.
	EXTENT_FIXED,
	// As many of `size` bytes as can be read.
	EXTENT_UP_TO,
	// The value of the argument `other`, times `size`.
	EXTENT_ARGUMENT,
	// The call's result, times `size`.
	EXTENT_RESULT,
	// What the 32-bit number says to which the argument `other` points.
	EXTENT_POINTED,
	// Pieces: an array of pointers to strings, of which the last is NULL.
	EXTENT_STRINGS,
	// Pieces: an array of `struct iovec`; the argument `other` says how many.
	EXTENT_VECTOR,
	// Pieces: a `struct msghdr`, the address and the control data in it, and what is in its array of `struct iovec`.
	EXTENT_MESSAGE,
};

// What to copy of a program's memory.
struct call_copy {
	u8 argument;
	u8 at_exit;
	u8 extent;
	u8 other;
	// It is text, of which no more than `config.most` bytes are shown.
	u8 text;
	// The call fills the buffers of a vector or message.
	u8 filled;
	u16 pad;
	u32 size;
};

struct call_plan {
	struct call_copy copies[MAX_COPIES];
	u32 count;
};

struct config {
	// The system calls that are traced, a bit each.
	u64 calls[8];
	// Of these, those that are handed out whenever they succeed: by them user space follows descriptors.
	u64 followed[8];
	// And those that are shown.
	u64 shown[8];
	// Only calls that took as long, in nanoseconds.
	u64 slower;
	// As `struct config` of shared.h has them.
	u64 group;
	u32 filter;
	u32 inherit;
	u32 names;
	// Only calls that failed.
	u32 failed;
	// Only calls that `call_filters` wants.
	u32 filtered;
	// The longest part of a text that is copied.
	u32 most;
	// When so many bytes wait in the ring, user space is woken.
	u32 wake;
	// Calls of 32-bit programs are traced, too.
	u32 compat;
	// A stack is sent before each record.
	u32 stacks;
	u32 pad;
};

struct state {
	// Into which of the two tables is counted now.
	u32 side;
	// Nothing is traced before.
	u32 on;
	// Calls for which there was no room: in the ring, in a table, or for their thread.
	u64 lost;
	u64 lost_rows;
	u64 lost_threads;
	// The process that becomes a target when it executes a program; 0: none.
	u32 command;
	// The PID namespace of Pyrograph, and its depth; at depth 0 all numbers are the machine's.
	u32 pid_level;
	u64 pid_namespace;
	// Events and calls that were left out because a value of their filter could not be read.
	u64 unread;
};

// So many fields of a tracepoint's data have places that are in others.
#define MAX_PLACES 12

struct event_place {
	u16 offset;
	// The place counts from behind the field, and not from the beginning of the data.
	u16 relative;
};

struct event_plan {
	// Bytes that all events of the kind have.
	u32 size;
	u32 count;
	// 1 and the row of `probe_plans` that says which are wanted; 0: all are.
	u32 filter;
	struct event_place places[MAX_PLACES];
};

struct copied {
	// Its index in the plan.
	u8 copy;
	u8 pad;
	u16 bytes;
	// How many there are.
	u32 length;
};

// Before each piece: where it is, how many bytes there are, and how many follow.
struct piece {
	u64 address;
	u64 length;
	u32 bytes;
} __attribute__((packed));

struct row_key {
	u32 pid;
	u32 number;
};

struct row {
	u64 group;
	u64 calls;
	u64 errors;
	u64 total;
	u64 least;
	u64 longest;
	u32 tgid;
	u32 compat;
	char comm[16];
	u32 buckets[BUCKETS];
};

struct error_key {
	u32 pid;
	u32 number;
	u32 error;
};

#endif
