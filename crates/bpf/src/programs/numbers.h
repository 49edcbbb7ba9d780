// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Numbers of processes and threads, as the PID namespace sees them that Pyrograph runs in: those are what a
// user names, what perf_event's records have, and what /proc shows. Whoever includes this has `state`.

#ifndef PYROGRAPH_NUMBERS_H
#define PYROGRAPH_NUMBERS_H

#include "kernel.h"

// A task that cannot be seen from that namespace.
#define INVISIBLE ((u32)-1)

static __always_inline struct upid *number_at(struct pid *pid, u32 level)
{
	return (void *)pid + bpf_core_field_offset(struct pid, numbers) +
	       level * bpf_core_type_size(struct upid);
}

__noinline u32 number_in_namespace(u64 address)
{
	struct pid *pid = (struct pid *)address;
	u32 level = state.pid_level;
	struct upid *number;

	if (!pid || BPF_CORE_READ(pid, level) < level)
		return INVISIBLE;
	number = number_at(pid, level);
	if ((u64)BPF_CORE_READ(number, ns) != state.pid_namespace)
		return INVISIBLE;
	return BPF_CORE_READ(number, nr);
}

// The number of a thread; `pid` is that of the machine.
static __always_inline u32 thread_number(struct task_struct *task, u32 pid)
{
	if (!state.pid_level)
		return pid;
	return number_in_namespace((u64)BPF_CORE_READ(task, thread_pid));
}

// The number of a thread's process; `tgid` is that of the machine.
static __always_inline u32 process_number(struct task_struct *task, u32 tgid)
{
	if (!state.pid_level)
		return tgid;
	return number_in_namespace((u64)BPF_CORE_READ(task, group_leader, thread_pid));
}

// Notes the innermost PID namespace of the current thread, which is Pyrograph's.
static __always_inline void note_namespace(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct pid *pid = BPF_CORE_READ(task, thread_pid);
	u32 level = BPF_CORE_READ(pid, level);

	state.pid_namespace = (u64)BPF_CORE_READ(number_at(pid, level), ns);
	state.pid_level = level;
}

#endif
