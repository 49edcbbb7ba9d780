// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Locks of the kernel, from when a thread has to wait for one until it has it. Those of programs are
// system calls: `calls.h`.

#ifndef PYROGRAPH_LOCKS_H
#define PYROGRAPH_LOCKS_H

#include "count.h"

// A thread waits for a lock; an interrupt on its CPU may wait for another meanwhile.
static __always_inline u64 contention(struct task_struct *task, void *lock)
{
	// Each CPU has an idle thread, and all have the number 0.
	u64 who = task->pid ? task->pid : bpf_get_smp_processor_id() + (1ull << 32);

	return mix(who, (u64)lock);
}

SEC("tp_btf/contention_begin")
int BPF_PROG(on_contention, void *lock, unsigned int flags)
{
	// If the thread first spins and then sleeps, this comes twice.
	begin_here(ctx, KIND_KERNEL_LOCK, flags, contention(bpf_get_current_task_btf(), lock),
		   BPF_NOEXIST);
	return 0;
}

SEC("tp_btf/contention_end")
int BPF_PROG(on_contention_end, void *lock, int result)
{
	if (state.on)
		end(contention(bpf_get_current_task_btf(), lock));
	return 0;
}

#endif
