// SPDX-License-Identifier: MIT OR Apache-2.0

#include "count.h"

// The programs call helpers that the kernel keeps for those it may link with.
char LICENSE[] SEC("license") = "Dual MIT/GPL";

// A perf event has happened: clocks and hardware counters, page faults and the like.
SEC("perf_event")
int on_event(struct event_context *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	// In whose mode the CPU was.
	int in_kernel = !(ctx->cs & 3);
	struct scratch *s;

	if (!is_target(task->tgid))
		return 0;
	s = take_scratch();
	if (!s)
		return 0;
	s->key.sort = 0;
	if (take_stacks(s, ctx, task, in_kernel))
		add(&s->key, 1, ctx->sample_period);
	give_back(s);
	// Nothing goes to the event's buffer.
	return 0;
}

// A new process begins with its parent's mappings; Pyrograph comes to know of it only later.
SEC("tp_btf/task_newtask")
int BPF_PROG(on_fork, struct task_struct *child, u64 clone_flags)
{
	struct task_struct *parent = bpf_get_current_task_btf();
	u32 pid = child->tgid, parent_pid = parent->tgid;
	struct process *process;

	if (pid == parent_pid)
		return 0;
	process = bpf_map_lookup_elem(&processes, &parent_pid);
	if (process) {
		struct process copy = *process;

		bpf_map_update_elem(&processes, &pid, &copy, BPF_ANY);
	}
	if (config.filter && config.inherit && bpf_map_lookup_elem(&targets, &parent_pid)) {
		u32 one = 1;

		bpf_map_update_elem(&targets, &pid, &one, BPF_ANY);
	}
	return 0;
}

// Nothing of the old program is mapped any more.
SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_exec, struct task_struct *task, int old_pid, struct linux_binprm *binary)
{
	u32 pid = task->tgid;

	bpf_map_delete_elem(&processes, &pid);
	return 0;
}
