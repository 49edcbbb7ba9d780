// SPDX-License-Identifier: MIT OR Apache-2.0
//
// For how long tasks run, and for how long they wait for a CPU, counted. A delay begins when a task is woken, is started
// or has to leave its CPU, and ends when it runs.

#ifndef PYROGRAPH_SCHED_COUNTS_H
#define PYROGRAPH_SCHED_COUNTS_H

// The row of a task that is counted.
static __always_inline struct row *counted_row(struct task_struct *task)
{
	struct row *row = known_row(task);

	if (!is_kept(task, row)) {
		// It may be counted again later, by another name.
		if (row) {
			row->ran = UNKNOWN;
			row->early = 0;
			row->running = 0;
			row->runnable = 0;
			row->woken = 0;
			row->given = 0;
			row->gone = 0;
		}
		return NULL;
	}
	return row_of(task);
}

static __always_inline struct counts *counts_of(struct row *row)
{
	u32 zero = 0;

	if (config.key == KEY_TASK && row->tid != INVISIBLE)
		return &row->counts;
	return bpf_map_lookup_elem(&cpus, &zero);
}

static __always_inline void count_delay(struct counts *counts, u64 since, u64 now)
{
	// The clocks of two CPUs may differ a little.
	u64 time = now > since ? now - since : 0;
	u32 interval = state.interval, bucket = bucket_of(time);
	struct extremes *extremes = &counts->extremes[index_below(2, interval)];

	counts->delay += time;
	if (IS_BELOW(BUCKETS, bucket))
		counts->buckets[bucket]++;
	if (extremes->interval != interval) {
		extremes->interval = interval;
		extremes->longest = 0;
		extremes->least = ~0ull;
		extremes->longest_since = since;
	}
	if (time < extremes->least)
		extremes->least = time;
	if (time > extremes->longest) {
		extremes->longest = time;
		extremes->longest_since = since;
	}
}

// The time for which a task had its CPU, or none, has ended.
static __always_inline void count_span(u64 *since, u64 now, u32 had_cpu)
{
	u32 zero = 0, bucket;
	struct spans *of;
	u64 time;

	if (!*since || config.key == KEY_TASK)
		return;
	of = bpf_map_lookup_elem(&spans, &zero);
	if (!of)
		return;
	time = now > *since ? now - *since : 0;
	*since = 0;
	bucket = bucket_of(time);
	if (!IS_BELOW(BUCKETS, bucket))
		return;
	if (had_cpu) {
		of->on_time += time;
		of->on[bucket]++;
	} else {
		of->off_time += time;
		of->off[bucket]++;
	}
}

// Adds the CPU time that the kernel has counted for a task since the last look at it, whether or not it reported all of the
// switches in between. It begins a little before the task runs, with the switch. A part of it may have been counted by
// the clock.
static __always_inline void count_run(struct row *row, struct counts *counts, struct task_struct *task)
{
	u64 ran = task->se.sum_exec_runtime;

	if (row->ran != UNKNOWN)
		counts->run_time += ran - row->ran - row->early;
	row->ran = ran;
	row->early = 0;
}

// Hands out the counts of a task that has ended.
static __always_inline void send_row(struct row *row)
{
	row->record.kind = SCHED_ROW;
	row->is_known = 1;
	if (bpf_ringbuf_output(&events, row, sizeof(*row), wakeup()))
		increment(&state.lost);
}

// Some kernels do not report each switch: a task that stops to run was given a CPU all the same, also for the first time. It
// waited for that until it began to run, which the CPU time says that the kernel has counted since.
static __always_inline void count_unreported(struct row *row, struct counts *counts, struct task_struct *task,
					     u64 now)
{
	u64 ran = task->se.sum_exec_runtime - row->ran;

	if (row->running || !(row->left || row->runnable))
		return;
	counts->switches++;
	if (row->runnable && row->ran != UNKNOWN && ran <= now - row->runnable)
		count_delay(counts, row->runnable, now - ran);
	row->runnable = 0;
}

static __always_inline void stop_running(struct task_struct *task, u32 task_state, u64 now)
{
	struct row *row = counted_row(task);
	struct counts *counts = row ? counts_of(row) : NULL;

	if (row && counts) {
		if (row->ran == UNKNOWN && row->running)
			counts->run_time += now - row->running;
		count_unreported(row, counts, task, now);
		count_run(row, counts, task);
		count_span(&row->given, now, 1);
		row->running = 0;
		row->left = now;
		row->gone = now;
		row->runnable = task_state == TASK_RUNNING ? now : 0;
	}
	if (!(task_state & TASK_DEAD))
		return;
	// It may have been counted before it had another name.
	row = config.key == KEY_TASK ? known_row(task) : NULL;
	if (row && row->record.task)
		send_row(row);
	forget_row(task);
}

static __always_inline void start_running(struct task_struct *task, u64 now)
{
	struct row *row = counted_row(task);
	struct counts *counts = row ? counts_of(row) : NULL;

	if (!row || !counts)
		return;
	count_run(row, counts, task);
	count_span(&row->gone, now, 0);
	row->running = now;
	row->given = now;
	counts->switches++;
	if (row->runnable)
		count_delay(counts, row->runnable, now);
	row->runnable = 0;
}

// The idle tasks have the number 0.
SEC("tp_btf/sched_switch")
int BPF_PROG(on_counted_switch, bool preempt, struct task_struct *previous, struct task_struct *next)
{
	u64 now = bpf_ktime_get_ns();

	if (!state.on)
		return 0;
	if (previous->pid)
		stop_running(previous, state_at_switch(ctx, previous), now);
	if (next->pid)
		start_running(next, now);
	return 0;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(on_counted_waking, struct task_struct *task)
{
	struct row *row;

	if (!state.on)
		return 0;
	row = counted_row(task);
	if (row)
		row->woken = bpf_ktime_get_ns();
	return 0;
}

// It is on a queue. A task may be woken while it stops to run: then it could run from when it had.
SEC("tp_btf/sched_wakeup")
int BPF_PROG(on_counted_wakeup, struct task_struct *task)
{
	struct row *row;

	if (!state.on)
		return 0;
	row = counted_row(task);
	if (!row || !row->woken)
		return 0;
	if (!row->running)
		row->runnable = row->woken > row->left ? row->woken : row->left;
	row->woken = 0;
	return 0;
}

SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(on_counted_new, struct task_struct *task)
{
	struct row *row;

	if (!state.on)
		return 0;
	row = counted_row(task);
	if (row)
		row->runnable = bpf_ktime_get_ns();
	return 0;
}

// Run on each CPU for the task that runs there: at the beginning it is noted, then it is counted until now. The kernel
// counts its CPU time only now and then.
SEC("raw_tp")
int on_reading(void *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	u64 now = bpf_ktime_get_ns();
	struct counts *counts;
	struct row *row;

	if (!state.on || !task->pid)
		return 0;
	row = counted_row(task);
	if (!row)
		return 0;
	counts = counts_of(row);
	if (!counts)
		return 0;
	if (row->running && now > row->running) {
		counts->run_time += now - row->running;
		row->early += now - row->running;
	} else if (!row->left && !row->runnable) {
		row->ran = UNKNOWN;
	} else {
		count_unreported(row, counts, task, now);
	}
	row->running = now;
	return 0;
}

#endif
