// SPDX-License-Identifier: MIT OR Apache-2.0

#include "allocations.h"
#include "block_io.h"
#include "calls.h"
#include "clock.h"
#include "commands.h"
#include "count.h"
#include "goroutines.h"
#include "locks.h"
#include "net.h"
#include "sample.h"
#include "switches.h"
#include "valued.h"
#include "wakeup.h"

// The programs call helpers that the kernel keeps for those it may link with.
char LICENSE[] SEC("license") = "Dual MIT/GPL";

// A perf event has happened: clocks and hardware counters, page faults and the like.
SEC("perf_event")
int on_event(struct event_context *ctx)
{
	// In whose mode the CPU was.
	int in_kernel = !(ctx->cs & 3);

	if (state.period)
		return count_tick(ctx, in_kernel);
	count_here(in_kernel ? ctx : NULL, KIND_EVENT, 0, ctx->sample_period);
	// Nothing goes to the event's buffer.
	return 0;
}

// The kernel has come to one of its tracepoints.
SEC("tracepoint")
int on_tracepoint(void *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();

	if (is_target(task))
		sample_here(ctx, task, KIND_PROBE, 0, 1);
	// Whoever else listens to this tracepoint gets it, too.
	return 1;
}

// A program has come to an instruction.
SEC("uprobe")
int on_uprobe(struct event_context *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();

	if (is_target(task))
		sample_here(NULL, task, KIND_PROBE, 0, 1);
	return 0;
}

// The kernel has come to an instruction.
SEC("kprobe")
int on_kernel_probe(struct event_context *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();

	if (is_target(task))
		sample_here(ctx, task, KIND_PROBE, 0, 1);
	return 0;
}

// Reports a program that was not seen before, before it runs.
SEC("raw_tp/sched_process_exec")
int BPF_PROG(on_exec, struct task_struct *task, int old_pid, struct linux_binprm *binary)
{
	struct question question = {};
	u32 one = 1;

	question.tgid = process_number(task, BPF_CORE_READ(task, tgid));
	if (state.command && question.tgid == state.command)
		bpf_map_update_elem(&targets, &question.tgid, &one, BPF_ANY);
	if (config.filter && !bpf_map_lookup_elem(&targets, &question.tgid))
		return 0;
	if (config.commands)
		emit_command_line(task, question.tgid);
	read_key(&question.key, BPF_CORE_READ(binary, file));
	if (!bpf_map_lookup_elem(&files, &question.key))
		ask(&question);
	return 0;
}

// Looks up an address of the process that runs this: a test that the kernel's lists of mappings are as expected,
// before anything relies on it. And the device and inode that the kernel has of a file are not those of `stat`, where
// one file system lies over another.
SEC("syscall")
int look_up(struct lookup *ctx)
{
	struct scratch *s = take_scratch();
	struct vm_area_struct *vma;
	struct file *file;

	note_namespace();
	if (!s)
		return 0;
	enter_process(s, bpf_get_current_task_btf());
	if (find_vma(s, ctx->address)) {
		vma = (struct vm_area_struct *)s->vma;
		ctx->start = BPF_CORE_READ(vma, vm_start);
		ctx->end = BPF_CORE_READ(vma, vm_end);
		file = BPF_CORE_READ(vma, vm_file);
		if (file)
			read_key(&ctx->key, file);
	}
	give_back(s);
	return 0;
}
