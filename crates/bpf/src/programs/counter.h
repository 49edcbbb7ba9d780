// SPDX-License-Identifier: MIT OR Apache-2.0
//
// What the programs that count events share with user space: the structures of `counter/layout.rs`.

#ifndef PYROGRAPH_COUNTER_H
#define PYROGRAPH_COUNTER_H

#include "kernel.h"
#include "values_plan.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct thread_info {
	u32 status;
};

// A part of `struct task_struct`.
struct task_struct___status {
	struct thread_info thread_info;
};

#pragma clang attribute pop

// `thread_info.status` of a thread that is in a system call with the numbers of 32-bit programs.
#define TS_COMPAT 2

// Numbers of system calls are below this.
#define MAX_CALLS 512
// Counters of perf_event_open that are read when a thread stops to run.
#define MAX_VALUES 32

// By what counts are kept apart. Those of CPUs are apart in any case.
enum key_kind {
	KEY_NONE,
	KEY_CPU,
	KEY_THREAD,
	KEY_PROCESS,
	KEY_GROUP,
	// The thread that a member was named as, or descends from.
	KEY_ROOT,
};

struct config {
	// As `struct config` of shared.h has them.
	u64 group;
	u32 filter;
	u32 inherit;
	u32 names;
	// Only threads that are members.
	u32 members;
	u32 key;
	// Counters of perf_event_open, and those of them that count time, a bit each.
	u32 values;
	u32 clocks;
	// How many CPUs there can be.
	u32 cpus;
};

struct state {
	u32 on;
	// The process that becomes a member when it executes a program; 0: none.
	u32 command;
	// The PID namespace of Pyrograph, and its depth; at depth 0 all numbers are the machine's.
	u32 pid_level;
	// Some threads are members by a table (`task_storage.h`).
	u32 spares;
	u64 pid_namespace;
	// Events for which there was no room in a table.
	u64 lost;
	// Events of which a value could not be read.
	u64 unread;
};

// Values that are added up: by what they are kept apart, the event, and the range of values.
struct sum_key {
	u64 by;
	u32 event;
	u32 range;
};

// In `sum_key.event`: the value that sums are kept apart by could not be read.
#define UNREAD_KEY 0x80000000

struct sum {
	u64 events;
	s64 value;
};

struct row_key {
	u64 key;
	u32 event;
	u32 pad;
};

struct value {
	u64 count;
	// Nanoseconds
	u64 enabled;
	u64 running;
};

struct owner {
	char comm[16];
	struct value values[MAX_VALUES];
};

#endif
