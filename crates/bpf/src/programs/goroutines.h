// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Waits of goroutines: from when one gives up its thread (`runtime.gopark`) until a thread runs it again
// (`runtime.execute`). Since Go 1.17, the current goroutine is in R14, and the first argument in RAX
// (https://go.dev/s/regabi).

#ifndef PYROGRAPH_GOROUTINES_H
#define PYROGRAPH_GOROUTINES_H

#include "count.h"

static __always_inline u64 goroutine(struct task_struct *task, u64 address)
{
	return mix(task->tgid, address);
}

SEC("uprobe")
int on_park(struct event_context *ctx)
{
	struct scratch *s = take_here(NULL, KIND_GOROUTINE, 0);

	if (!s)
		return 0;
	// It is no thread's: any of the process may run it again.
	s->blocked.key.tid = s->blocked.key.tgid;
	__builtin_memcpy(s->blocked.key.thread, s->blocked.key.process, 16);
	begin(s, goroutine(bpf_get_current_task_btf(), ctx->r14), BPF_ANY);
	give_back(s);
	return 0;
}

SEC("uprobe")
int on_unpark(struct event_context *ctx)
{
	// Also of one that was preempted, or has yet to begin: then there is nothing to end.
	if (state.on)
		end_after(goroutine(bpf_get_current_task_btf(), ctx->ax), config.min_block);
	return 0;
}

#endif
