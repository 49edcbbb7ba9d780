// SPDX-License-Identifier: MIT OR Apache-2.0
//
// What the programs that follow the scheduler share with user space: the structures of `scheduler/layout.rs`.

#ifndef PYROGRAPH_SCHED_H
#define PYROGRAPH_SCHED_H

#include "durations.h"
#include "kernel.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

// Parts of `struct task_struct` and `struct inode` that only these programs read.
struct thread_info___sched {
	u32 status;
	// Linux 5.16 and newer
	u32 cpu;
};

struct task_struct___sched {
	struct thread_info___sched thread_info;
	// older
	u32 cpu;
};

struct inode___sched {
	unsigned int i_flags;
};

#pragma clang attribute pop

// `thread_info.status` of a thread that is in a system call with the numbers of 32-bit programs.
#define TS_COMPAT 2

// `inode.i_flags` of files that only descriptors have, which have the type of regular ones since Linux 6.17.
#define S_ANON_INODE (1 << 19)

#define TASK_DEAD 0x80

// System calls of x86-64 whose waits depend on their arguments.
#define NR_READ 0
#define NR_WRITE 1
#define NR_POLL 7
#define NR_READV 19
#define NR_WRITEV 20
#define NR_SELECT 23
#define NR_PSELECT6 270
#define NR_PPOLL 271
#define NR_PREADV 295
#define NR_PWRITEV 296

// By what counts are kept apart.
enum key_kind {
	KEY_TASK,
	KEY_CPU,
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
	// When so many bytes wait in the ring, user space is woken.
	u32 wake;
	// Events are handed out; else they are counted.
	u32 events;
	// The stack of a task that stops to run is sent.
	u32 stacks;
};

struct state {
	u32 on;
	// The number of the last task that was described.
	u32 tasks;
	// The PID namespace of Pyrograph, and its depth; at depth 0 all numbers are the machine's.
	u32 pid_level;
	// Changes at each interval.
	u32 interval;
	u64 pid_namespace;
	// User space was woken, and has not read the ring since.
	u32 is_woken;
	// Some tasks have their rows in a table (`task_storage.h`).
	u32 spares;
	// Records for which there was no room in the ring, and threads for which there was no memory.
	u64 lost;
	u64 lost_threads;
};

enum sched_kind {
	SCHED_NONE,
	// A `struct task_record`; `other` is the number of who started it, if that was seen.
	SCHED_TASK,
	// `task` stopped to run in a state, `detail`, and `other` runs now.
	SCHED_SWITCH,
	// `other` has woken `task`, which is to run on the CPU `detail`.
	SCHED_WAKEUP,
	// The same of a task that was just started.
	SCHED_NEW,
	// `task` moves from the CPU `detail` to the CPU `more`.
	SCHED_MIGRATE,
	// `other` has started `task`.
	SCHED_FORK,
	// A `struct task_record`: `task` has another name, or other numbers.
	SCHED_RENAME,
	SCHED_EXIT,
	// The CPU is in the idle state `detail`; ~0: in none.
	SCHED_IDLE,
	// The CPU has the frequency `detail`.
	SCHED_FREQUENCY,
	// A `struct row` of a task that has ended.
	SCHED_ROW,
};

struct record {
	// CLOCK_MONOTONIC, in nanoseconds
	u64 time;
	u16 kind;
	u16 cpu;
	u32 task;
	u32 other;
	u32 detail;
	u32 more;
	// Of a switch: the system call, and flags.
	u16 call;
	u16 flags;
};

// What is known of why a task waits: bits of `flags`, above the kind of the file that it reads or writes (`S_IFMT`).
#define WAITS_FOR_IO 1
#define WAITS_FOR_TIME 2
// The stack of the task that stopped to run was sent, or could not be.
#define HAS_STACK 4
#define NO_CALL 0xffff

struct task_record {
	struct record record;
	u32 tgid;
	u32 tid;
	char comm[16];
};
// It is in no map, and so in no BTF: `scheduler/layout.rs` checks this number.
_Static_assert(sizeof(struct task_record) == 56, "as user space has it");

// The extremes of an interval.
struct extremes {
	u32 interval;
	u32 pad;
	u64 least;
	u64 longest;
	u64 longest_since;
};

struct counts {
	u64 run_time;
	u64 switches;
	// The sum of all delays.
	u64 delay;
	// Those of this interval, and of the one before.
	struct extremes extremes[2];
	u32 buckets[BUCKETS];
};

// How long tasks had a CPU each time, and how long they had none then: from switch to switch, and their sums.
struct spans {
	u64 on_time;
	u64 off_time;
	u32 on[BUCKETS];
	u32 off[BUCKETS];
};

#define UNKNOWN (~0ull)

// A task.
struct row {
	struct record record;
	u32 tgid;
	u32 tid;
	char comm[16];
	// It is counted, or its events are handed out; 0 if that is for filters alone to say.
	u32 member;
	// User space knows its number, or its counts.
	u32 is_known;
	// Since when it runs, as far as it was counted; 0: it does not.
	u64 running;
	// The CPU time that the kernel had counted for it when that was last looked at; `UNKNOWN`: it was not.
	u64 ran;
	// What was counted of the time since then by the clock, while it runs still.
	u64 early;
	// Since when it could run; 0: it waits, or runs.
	u64 runnable;
	// When it stopped to run.
	u64 left;
	// When it was given the CPU that it has, or left the one that it had; 0: that was not seen.
	u64 given;
	u64 gone;
	// When it was woken, by whom, and on which CPU, until it is on a queue.
	u64 woken;
	u32 waker;
	u32 waker_cpu;
	struct counts counts;
};

#endif
