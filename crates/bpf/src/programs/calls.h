// SPDX-License-Identifier: MIT OR Apache-2.0
//
// System calls: who makes them, how long they take, and how many bytes they read and write.

#ifndef PYROGRAPH_CALLS_H
#define PYROGRAPH_CALLS_H

#include "sample.h"

// Numbers from here on, of 32-bit programs as well, are wanted where this bit is set: no call has the number.
#define OTHER_CALLS 511
// In a number: it is one of those that 32-bit programs have. What is larger, as -1 is, is one less.
#define COMPAT_CALL (1u << 29)

// How a system call is counted: its number, and whether that is one of 32-bit programs.
static __always_inline u32 call_detail(struct pt_regs *regs, u64 number)
{
	// Read as a whole word, for that is how the verifier wants it.
	int is_native = (*(volatile unsigned long *)&regs->cs & 0xff) == CODE_64;

	if (number >= COMPAT_CALL)
		number = COMPAT_CALL - 1;
	return is_native ? number : number | COMPAT_CALL;
}

// Returns true if a system call is one of those that are recorded.
static __always_inline int is_wanted(u32 detail)
{
	if (detail >= OTHER_CALLS)
		return config.calls[7] >> 63 && !config.futexes && !config.files;
	return config.calls[index_below(8, detail >> 6)] >> (detail & 63) & 1;
}

static __always_inline int is_regular_file(struct task_struct *task, u32 number)
{
	struct fdtable *table = BPF_CORE_READ(task, files, fdt);
	struct file **files, *file;

	if (!table || number >= BPF_CORE_READ(table, max_fds))
		return 0;
	files = BPF_CORE_READ(table, fd);
	if (bpf_probe_read_kernel(&file, sizeof(file), files + number) || !file)
		return 0;
	return (BPF_CORE_READ(file, f_inode, i_mode) & S_IFMT) == S_IFREG;
}

// Returns true if a call reads or writes a regular file; some have one on either side.
static __always_inline int is_of_file(struct task_struct *task, struct pt_regs *regs, u64 number)
{
	if (is_regular_file(task, regs->di))
		return 1;
	if (number == NR_SENDFILE)
		return is_regular_file(task, regs->si);
	if (number == NR_SPLICE || number == NR_COPY_FILE_RANGE)
		return is_regular_file(task, regs->dx);
	return 0;
}

static __always_inline int call_counts(struct task_struct *task, struct pt_regs *regs, u64 number)
{
	return is_target(task) && is_wanted(call_detail(regs, number)) &&
	       (!config.futexes || (waits_for_futex(regs, number) &&
				    (!config.no_idle || is_for_lock(regs, number)))) &&
	       (!config.files || is_of_file(task, regs, number));
}

static __always_inline int take_call(struct scratch *s, struct task_struct *task, struct pt_regs *regs,
				     u64 number)
{
	s->blocked.key.kind = config.futexes ? kind_of_futex(regs, number) : KIND_CALL;
	// The kernel's part is the same for all.
	if (!take_stacks(s, NULL, task, 0))
		return 0;
	s->blocked.key.detail = call_detail(regs, number);
	return 1;
}

SEC("tp_btf/sys_enter")
int BPF_PROG(on_call, struct pt_regs *regs, long number)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct scratch *s;
	u32 detail;

	if (!call_counts(task, regs, number))
		return 0;
	// These do not return.
	detail = call_detail(regs, number);
	if (config.measure == MEASURE_TIME && (detail == NR_EXIT || detail == NR_EXIT_GROUP))
		return 0;
	if (config.measure != MEASURE_TIME) {
		sample_here(NULL, task, KIND_CALL, detail, 1);
		return 0;
	}
	s = take_scratch();
	if (!s)
		return 0;
	if (take_call(s, task, regs, number))
		begin(s, task->pid, BPF_ANY);
	give_back(s);
	return 0;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(on_return, struct pt_regs *regs, long result)
{
	struct task_struct *task = bpf_get_current_task_btf();

	if (!state.on)
		return 0;
	if (config.measure == MEASURE_TIME)
		end(task->pid);
	else if (result > 0 && call_counts(task, regs, regs->orig_ax))
		// The kernel's part is the same for all.
		sample_here(NULL, task, KIND_CALL, call_detail(regs, regs->orig_ax), result);
	return 0;
}

#endif
