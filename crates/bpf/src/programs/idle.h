// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Kinds of waits: for locks, or for something to do.

#ifndef PYROGRAPH_IDLE_H
#define PYROGRAPH_IDLE_H

#include "count.h"

// Returns true if a call waits for a lock, and does not wake those that do (include/uapi/linux/futex.h).
static __always_inline int waits_for_futex(struct pt_regs *regs, u64 number)
{
	enum { WAIT = 0, LOCK_PI = 6, WAIT_BITSET = 9, WAIT_REQUEUE_PI = 11, LOCK_PI2 = 13 };
	u32 operation = regs->si & 127;

	return number != NR_FUTEX || operation == WAIT || operation == LOCK_PI ||
	       operation == WAIT_BITSET || operation == WAIT_REQUEUE_PI || operation == LOCK_PI2;
}

// The kind of a futex: a lock, or anything else, such as a condition. The expected value of a lock marks that somebody
// waits: 2 in the C library's mutexes, in Rust's and Go's, 3 in the C library's locks for readers and
// writers; a thread's number with the highest bit in those that know their owner, and in musl's. musl has 2 in its
// conditions, too, but there it lies on the stack of the thread that waits. include/uapi/linux/futex.h.
static __always_inline int is_for_lock(struct pt_regs *regs, u64 number)
{
	enum { LOCK_PI = 6, WAIT_REQUEUE_PI = 11, LOCK_PI2 = 13, FUTEX_WAIT_CALL = 455 };
	u32 operation = regs->si & 127, expected = regs->dx;

	if (number == FUTEX_WAIT_CALL)
		expected = regs->si;
	else if (number != NR_FUTEX || operation == WAIT_REQUEUE_PI)
		return 0;
	else if (operation == LOCK_PI || operation == LOCK_PI2)
		return 1;
	if (expected == 2)
		return regs->di - regs->sp >= 512;
	return expected == 3 || (expected >> 31 && expected != ~0u);
}

static __always_inline u32 kind_of_futex(struct pt_regs *regs, u64 number)
{
	return is_for_lock(regs, number) ? KIND_LOCK : KIND_CONDITION;
}

// Returns true if a system call waits for something to do: for a request, an event, a child.
static __always_inline int awaits_work(u64 number)
{
	switch (number) {
	case 7: // poll
	case 23: // select
	case 34: // pause
	case 43: // accept
	case 61: // wait4
	case 128: // rt_sigtimedwait
	case 130: // rt_sigsuspend
	case 232: // epoll_wait
	case 247: // waitid
	case 270: // pselect6
	case 271: // ppoll
	case 281: // epoll_pwait
	case 288: // accept4
	case 441: // epoll_pwait2
	case 449: // futex_waitv
		return 1;
	}
	return 0;
}

// Returns true if a thread that stops to run waits for something to do.
static __always_inline int is_idle(struct task_struct *task, u32 task_state)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
	u64 number = regs->orig_ax;

	if (task_state == TASK_RUNNING)
		return 0;
	if (number == NR_FUTEX)
		return !is_for_lock(regs, number);
	return awaits_work(number);
}

#endif
