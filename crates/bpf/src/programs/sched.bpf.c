// SPDX-License-Identifier: MIT OR Apache-2.0
//
// What the scheduler does: each event, or for how long tasks run and wait for a CPU, counted. What there is to know of a
// task is in its storage, so that another one with its number is another one here, too.

#include "sched.h"

const volatile struct config config = {};
struct state state = {};

#include "switch_state.h"
#include "targets.h"
#include "task_storage.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 24);
} events SEC(".maps");

// Stacks, each of an event that comes later.
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 24);
} records SEC(".maps");

TASK_STORAGE(row, struct row, 64)

// Counts of CPUs; where those of tasks are wanted, counts of the tasks that Pyrograph cannot see from its PID namespace.
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct counts);
} cpus SEC(".maps");

// Of CPUs; of tasks these would take more memory than all else that is kept of them.
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct spans);
} spans SEC(".maps");

// User space is woken once when enough waits for it.
static __always_inline u64 wakeup(void)
{
	if (state.is_woken || bpf_ringbuf_query(&events, BPF_RB_AVAIL_DATA) <= config.wake)
		return BPF_RB_NO_WAKEUP;
	state.is_woken = 1;
	return BPF_RB_FORCE_WAKEUP;
}

// Returns true if a task is counted, or its events are handed out.
static __always_inline int is_kept(struct task_struct *task, struct row *row)
{
	if (config.members && !(row && row->member))
		return 0;
	return (!config.names && !config.group) || is_wanted_thread(task);
}

static __always_inline void read_numbers(struct row *row, struct task_struct *task)
{
	row->tgid = process_number(task, task->tgid);
	row->tid = thread_number(task, task->pid);
}

// The row of a task, which is made if there is none.
static __always_inline struct row *row_of(struct task_struct *task)
{
	struct row *row = known_row(task);
	u32 number;

	if (row && row->record.task)
		return row;
	row = made_row(task);
	if (!row) {
		increment(&state.lost_threads);
		return NULL;
	}
	// Another CPU may do the same at this time: both write the same, and one number stays.
	read_numbers(row, task);
	bpf_probe_read_kernel_str(row->comm, sizeof(row->comm), task->comm);
	row->ran = task->se.sum_exec_runtime;
	number = __sync_fetch_and_add(&state.tasks, 1) + 1;
	__sync_val_compare_and_swap(&row->record.task, 0, number);
	return row;
}

// Returns true for a thread that is in a system call with the numbers of 32-bit programs.
static __always_inline int is_compat_call(struct task_struct *task)
{
	return ((struct task_struct___sched *)task)->thread_info.status & TS_COMPAT;
}

// Returns true for a thread of a 32-bit program.
static __always_inline int is_compat(struct pt_regs *regs)
{
	// Read as a whole word, for that is how the verifier wants it.
	return (*(volatile unsigned long *)&regs->cs & 0xff) != CODE_64;
}

#include "trace_stacks.h"
#include "sched_counts.h"
#include "sched_events.h"

// What a member starts is one from its first instruction on.
static __always_inline void inherit(struct task_struct *parent, struct task_struct *child)
{
	struct row *from, *to;

	if (!config.members)
		return;
	from = known_row(parent);
	if (!from || !from->member || !(config.inherit || parent->tgid == child->tgid))
		return;
	to = row_of(child);
	if (to)
		to->member = 1;
}

// Here there is memory. Where a task is woken or runs, interrupts are off, and of what the kernel keeps ready for that there
// may be a single piece on a CPU, which is replaced once they are on. So also what starts before anything is followed, but
// after the tasks were listed, has its row made here.
static __always_inline void prepare_row(struct task_struct *parent, struct task_struct *child)
{
	inherit(parent, child);
	if (is_kept(child, known_row(child)))
		row_of(child);
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(on_counted_start, struct task_struct *parent, struct task_struct *child)
{
	prepare_row(parent, child);
	return 0;
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(on_start, struct task_struct *parent, struct task_struct *child)
{
	prepare_row(parent, child);
	if (state.on)
		send_start(parent, child);
	return 0;
}

SEC("tp_btf/task_rename")
int BPF_PROG(on_rename, struct task_struct *task, const char *comm)
{
	struct row *row = known_row(task);

	if (!row)
		return 0;
	bpf_probe_read_kernel_str(row->comm, sizeof(row->comm), comm);
	if (config.events && state.on && row->is_known)
		send_task(row, SCHED_RENAME, 0);
	return 0;
}

// A thread that executes a program becomes the first one of its process, if it was another.
SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_exec, struct task_struct *task, int old_pid)
{
	struct row *row = known_row(task);

	if (!row || old_pid == task->pid)
		return 0;
	read_numbers(row, task);
	if (config.events && state.on && row->is_known)
		send_task(row, SCHED_RENAME, 0);
	return 0;
}

// Makes the threads members that user space has named.
SEC("iter/task")
int on_named(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct row *row;
	u32 number;

	if (!task)
		return 0;
	number = thread_number(task, task->pid);
	if (!bpf_map_lookup_elem(&targets, &number))
		return 0;
	row = row_of(task);
	if (row)
		row->member = 1;
	return 0;
}

// Makes the rows of tasks that are there already. What is lost by then was nobody's.
SEC("iter/task")
int on_existing(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;

	if (!task)
		return 0;
	if (is_kept(task, known_row(task)))
		row_of(task);
	return 0;
}

// Hands out the counts of a task that has not ended.
SEC("iter/task")
int on_row(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct row *row;

	if (!task)
		return 0;
	row = known_row(task);
	if (row && row->record.task && !row->is_known)
		bpf_seq_write(ctx->meta->seq, row, sizeof(*row));
	return 0;
}

// Notes the PID namespace of the process that runs this.
SEC("syscall")
int prepare(void *ctx)
{
	note_namespace();
	return 0;
}
