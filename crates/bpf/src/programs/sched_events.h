// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Events of the scheduler, one by one. Tasks have numbers in them, which a record explains that comes before.

#ifndef PYROGRAPH_SCHED_EVENTS_H
#define PYROGRAPH_SCHED_EVENTS_H

static __always_inline int send_task(struct row *row, u32 kind, u32 parent)
{
	struct task_record *task = bpf_ringbuf_reserve(&events, sizeof(*task), 0);

	if (!task) {
		increment(&state.lost);
		return 0;
	}
	__builtin_memset(task, 0, sizeof(*task));
	task->record.time = bpf_ktime_get_ns();
	task->record.kind = kind;
	task->record.cpu = bpf_get_smp_processor_id();
	task->record.task = row->record.task;
	task->record.other = parent;
	task->tgid = row->tgid;
	task->tid = row->tid;
	__builtin_memcpy(task->comm, row->comm, sizeof(task->comm));
	bpf_ringbuf_submit(task, wakeup());
	return 1;
}

// The row of a task that user space knows.
static __always_inline struct row *told_row(struct task_struct *task, u32 parent)
{
	struct row *row = row_of(task);

	if (row && !row->is_known && send_task(row, SCHED_TASK, parent))
		row->is_known = 1;
	return row;
}

static __always_inline u32 number_of(struct task_struct *task)
{
	struct row *row;

	if (!task->pid)
		return 0;
	row = told_row(task, 0);
	return row ? row->record.task : ~0u;
}

static __always_inline void send(struct record *of)
{
	struct record *record = bpf_ringbuf_reserve(&events, sizeof(*record), 0);

	if (!record) {
		increment(&state.lost);
		return;
	}
	*record = *of;
	bpf_ringbuf_submit(record, wakeup());
}

// The type of the file behind a descriptor; 0 if it has none.
static __always_inline u32 type_of_file(struct task_struct *task, u32 number)
{
	struct fdtable *table = BPF_CORE_READ(task, files, fdt);
	struct file **files, *file;
	struct inode *inode;

	if (!table || number >= BPF_CORE_READ(table, max_fds))
		return 0;
	files = BPF_CORE_READ(table, fd);
	if (bpf_probe_read_kernel(&file, sizeof(file), files + number) || !file)
		return 0;
	inode = BPF_CORE_READ(file, f_inode);
	if (BPF_CORE_READ((struct inode___sched *)inode, i_flags) & S_ANON_INODE)
		return 0;
	return BPF_CORE_READ(inode, i_mode) & S_IFMT;
}

// Notes what the current task waits for, which stops to run.
static __always_inline void describe_wait(struct record *record, struct task_struct *task)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
	u64 number = regs->orig_ax;

	record->call = NO_CALL;
	if (NUMBER_IN(task, in_iowait))
		record->flags |= WAITS_FOR_IO;
	if (task->flags & PF_KTHREAD || number >= NO_CALL || is_compat_call(task))
		return;
	record->call = number;
	switch (number) {
	case NR_READ:
	case NR_WRITE:
	case NR_READV:
	case NR_WRITEV:
	case NR_PREADV:
	case NR_PWRITEV:
		record->flags |= type_of_file(task, regs->di);
		break;
	// With no descriptors, only time passes.
	case NR_POLL:
	case NR_PPOLL:
		if (!regs->si)
			record->flags |= WAITS_FOR_TIME;
		break;
	case NR_SELECT:
	case NR_PSELECT6:
		if (!regs->di)
			record->flags |= WAITS_FOR_TIME;
		break;
	}
}

// Sends the stack of the current task, which stops to run.
static __always_inline void send_stack_of_switch(void *ctx, struct task_struct *task, struct record *of)
{
	struct call_record record = { .time = of->time, .tgid = of->task };
	struct stack *stack = stack_here(STACK_OF_EVENT);
	long bytes;

	if (!stack)
		return;
	bytes = bpf_get_stack(ctx, stack->kernel, sizeof(stack->kernel), 0);
	stack->depth = bytes > 0 ? bytes / 8 : 0;
	send_stack(task, stack, &record);
	of->flags |= HAS_STACK;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *previous, struct task_struct *next)
{
	struct record record = { .kind = SCHED_SWITCH, .call = NO_CALL };
	struct row *row;
	int kept;

	if (!state.on)
		return 0;
	record.time = bpf_ktime_get_ns();
	record.cpu = bpf_get_smp_processor_id();
	kept = previous->pid && is_kept(previous, known_row(previous));
	if (!kept && !(next->pid && is_kept(next, known_row(next))))
		return 0;
	if (previous->pid) {
		row = told_row(previous, 0);
		record.task = ~0u;
		if (row) {
			row->left = record.time;
			record.task = row->record.task;
		}
		record.detail = state_at_switch(ctx, previous);
		if (record.detail)
			describe_wait(&record, previous);
		if (config.stacks && kept)
			send_stack_of_switch(ctx, previous, &record);
	}
	record.other = number_of(next);
	send(&record);
	if (record.detail & TASK_DEAD)
		forget_row(previous);
	return 0;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(on_waking, struct task_struct *task)
{
	struct row *row;

	if (!state.on || !is_kept(task, known_row(task)))
		return 0;
	row = told_row(task, 0);
	if (!row)
		return 0;
	row->woken = bpf_ktime_get_ns();
	row->waker_cpu = bpf_get_smp_processor_id();
	row->waker = number_of(bpf_get_current_task_btf());
	return 0;
}

static __always_inline u32 cpu_of(struct task_struct *task)
{
	struct task_struct___sched *of = (struct task_struct___sched *)task;

	return bpf_core_field_exists(of->thread_info.cpu) ? BPF_CORE_READ(of, thread_info.cpu) : BPF_CORE_READ(of, cpu);
}

// It is on a queue, of which CPU was not known before. A task may be woken while it stops to run: then it could run from
// when it had.
SEC("tp_btf/sched_wakeup")
int BPF_PROG(on_wakeup, struct task_struct *task)
{
	struct record record = { .kind = SCHED_WAKEUP };
	struct row *row;

	if (!state.on)
		return 0;
	row = known_row(task);
	if (!row || !row->woken)
		return 0;
	record.time = row->woken > row->left ? row->woken : row->left + 1;
	record.cpu = row->waker_cpu;
	record.task = row->record.task;
	record.other = row->waker;
	record.detail = cpu_of(task);
	row->woken = 0;
	send(&record);
	return 0;
}

SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(on_new, struct task_struct *task)
{
	struct record record = { .kind = SCHED_NEW };

	if (!state.on || !is_kept(task, known_row(task)))
		return 0;
	record.time = bpf_ktime_get_ns();
	record.cpu = bpf_get_smp_processor_id();
	record.task = number_of(task);
	record.other = number_of(bpf_get_current_task_btf());
	record.detail = cpu_of(task);
	send(&record);
	return 0;
}

SEC("tp_btf/sched_migrate_task")
int BPF_PROG(on_migrate, struct task_struct *task, int to)
{
	struct record record = { .kind = SCHED_MIGRATE };

	if (!state.on || !is_kept(task, known_row(task)))
		return 0;
	record.time = bpf_ktime_get_ns();
	record.cpu = bpf_get_smp_processor_id();
	record.task = number_of(task);
	record.detail = cpu_of(task);
	record.more = to;
	send(&record);
	return 0;
}

static __always_inline void send_start(struct task_struct *parent, struct task_struct *child)
{
	struct record record = { .kind = SCHED_FORK };
	struct row *row;

	if (!is_kept(parent, known_row(parent)) && !is_kept(child, known_row(child)))
		return;
	record.time = bpf_ktime_get_ns();
	record.cpu = bpf_get_smp_processor_id();
	record.other = number_of(parent);
	row = told_row(child, record.other);
	record.task = row ? row->record.task : ~0u;
	send(&record);
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_exit, struct task_struct *task)
{
	struct record record = { .kind = SCHED_EXIT };

	if (!state.on || !is_kept(task, known_row(task)))
		return 0;
	record.time = bpf_ktime_get_ns();
	record.cpu = bpf_get_smp_processor_id();
	record.task = number_of(task);
	send(&record);
	return 0;
}

// The kernel describes these to programs only if they are in use; their arguments are numbers.
SEC("raw_tp/cpu_idle")
int on_idle(u64 *arguments)
{
	struct record record = { .kind = SCHED_IDLE, .detail = arguments[0], .cpu = arguments[1] };

	if (!state.on)
		return 0;
	record.time = bpf_ktime_get_ns();
	send(&record);
	return 0;
}

SEC("raw_tp/cpu_frequency")
int on_frequency(u64 *arguments)
{
	struct record record = { .kind = SCHED_FREQUENCY, .detail = arguments[0], .cpu = arguments[1] };

	if (!state.on)
		return 0;
	record.time = bpf_ktime_get_ns();
	send(&record);
	return 0;
}

#endif
