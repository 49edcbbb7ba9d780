// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Waits, where the kernel tells when a thread goes on (`sched_exit`, Linux 6.16): then it is known how long
// it waited, and its stack is what it was. So the stacks of short waits need not all be taken.

#ifndef PYROGRAPH_WAITS_H
#define PYROGRAPH_WAITS_H

#include "count.h"

// What a thread that does not run waits for. `in_call`: the number of the system call that it is in.
static __always_inline u32 sort_of_wait(struct task_struct *task, u32 task_state, s64 in_call)
{
	if (task_state == TASK_RUNNING)
		return SORT_PREEMPTED;
	if (BPF_CORE_READ_BITFIELD(task, in_iowait))
		return SORT_IO;
	if (in_call == NR_FUTEX)
		return SORT_LOCK;
	return task_state & TASK_UNINTERRUPTIBLE ? SORT_UNINTERRUPTIBLE : SORT_SLEEP;
}

static __always_inline int waits_count(struct task_struct *task)
{
	return is_target(task) && has_program(task);
}

// The state in which a thread stops to run, as the tracepoint `sched_switch` tells it. Before Linux 5.18 it
// does not: who was woken by another CPU meanwhile has none of those that are told apart here.
static __always_inline u32 state_at_switch(u64 *ctx, struct task_struct *prev)
{
	// It was preempted.
	if (ctx[0])
		return TASK_RUNNING;
	if (bpf_core_type_matches(btf_trace_sched_switch))
		return ctx[3];
	return prev->__state;
}

// Since when a thread does not run; 0: it does. Threads that are not looked at have none.
struct absence {
	u64 since;
	// TASK_RUNNING: it was preempted.
	u32 task_state;
	u32 pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct absence);
} absences SEC(".maps");

// A thread that is looked at stays so until it ends: only names and groups change. Looking for what was noted
// of it is cheaper than looking for its process.
static __always_inline struct absence *absence_of(struct task_struct *task)
{
	struct absence *absence = bpf_task_storage_get(&absences, task, NULL, 0);

	if (!has_program(task))
		return NULL;
	if (absence && !config.names && !config.group)
		return absence;
	if (!is_wanted_thread(task))
		return NULL;
	if (!absence)
		absence = bpf_task_storage_get(&absences, task, NULL,
					       BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!absence)
		lose(&state.lost_counts);
	return absence;
}

// What it waits for; it is as it was when it stopped to run.
static __always_inline u32 sort_of_absence(struct task_struct *task, struct absence *absence)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);

	return sort_of_wait(task, absence->task_state, regs->orig_ax);
}

// How many stacks of waits a CPU takes in a window of time before it begins to choose: some
// quarter of a hundredth of its time.
#define WINDOW_NS 100000000ull
#define WINDOW_STACKS 32
#define SHORTEST_NS 16000
#define LONGEST_NS (1 << 26)

// A window of time: when it began, and how many stacks a CPU has taken in it.
struct window {
	u64 since;
	u32 taken;
	u32 pad;
};

// Ends the window if it is over, or if it has as many stacks as there should be at most. Whether more (1) or
// fewer (-1) of them are to be left out from now on.
static __always_inline int end_window(struct window *window, u64 now, u32 most)
{
	int more = 0;

	if (window->taken >= most)
		more = 1;
	else if (now - window->since < WINDOW_NS)
		return 0;
	else if (window->taken < most / 4)
		more = -1;
	window->since = now;
	window->taken = 0;
	return more;
}

// How a CPU chooses among waits.
struct pace {
	struct window window;
	// When it went from one thread to another.
	u64 switched;
	// Waits as long as this all count. A shorter one counts with a probability in proportion to its
	// length, and then for this: sums are right on average, whatever is chosen.
	u32 least;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct pace);
} paces SEC(".maps");

// A thread stops to run, and another goes on. Machines do this a hundred thousand times a second: what can wait
// until the other goes on is done then, if its wait is chosen to be counted. But its wait ends here: what the
// switch itself takes, microseconds if it is to another process, is CPU time of who goes on.
SEC("tp_btf/sched_switch")
int BPF_PROG(on_leave, bool preempt, struct task_struct *prev)
{
	u32 zero = 0;
	struct pace *pace;
	struct absence *absence;
	u64 now;

	if (!state.on)
		return 0;
	pace = bpf_map_lookup_elem(&paces, &zero);
	now = bpf_ktime_get_ns();
	if (pace)
		pace->switched = now;
	absence = absence_of(prev);
	if (!absence)
		return 0;
	absence->since = now;
	absence->task_state = state_at_switch(ctx, prev);
	return 0;
}

static __always_inline void keep_pace(struct pace *pace, u64 now)
{
	int more = end_window(&pace->window, now, WINDOW_STACKS);

	if (more > 0 && pace->least < LONGEST_NS)
		pace->least = pace->least ? 2 * pace->least : SHORTEST_NS;
	else if (more < 0)
		pace->least = pace->least > SHORTEST_NS ? pace->least / 2 : 0;
}

// Whether a wait is to be counted, and for how many of how many nanoseconds.
static __always_inline int choose(u64 waited, u64 now, struct count *count)
{
	u32 zero = 0;
	struct pace *pace = bpf_map_lookup_elem(&paces, &zero);
	u64 least;

	count->events = 1;
	count->value = waited;
	if (!pace)
		return 1;
	keep_pace(pace, now);
	least = pace->least;
	if (waited < least) {
		if ((bpf_get_prandom_u32() * least) >> 32 >= waited)
			return 0;
		count->value = least;
		// Whole ones, and one more with the probability of what is left over.
		count->events = least / waited;
		if (bpf_get_prandom_u32() % waited < least % waited)
			count->events++;
	}
	pace->window.taken++;
	return 1;
}

// The current thread goes on.
SEC("tp_btf/sched_exit_tp")
int BPF_PROG(on_resume, bool is_switch)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct absence *absence;
	struct count count;
	struct pace *pace;
	struct scratch *s;
	u32 zero = 0;
	u64 waited;

	// At the end, those that wait are counted as they are then.
	if (!is_switch || !state.on)
		return 0;
	absence = bpf_task_storage_get(&absences, task, NULL, 0);
	pace = bpf_map_lookup_elem(&paces, &zero);
	if (!absence || !absence->since || !pace)
		return 0;
	// What was noted of it meanwhile, when the recording began, has yet to begin.
	waited = pace->switched > absence->since ? pace->switched - absence->since : 0;
	absence->since = 0;
	if (waited < config.min_block || !waited || !choose(waited, pace->switched, &count))
		return 0;
	s = take_scratch();
	if (!s)
		return 0;
	s->blocked.key.sort = sort_of_absence(task, absence);
	if (take_stacks(s, ctx, task, 0))
		add(&s->blocked.key, count.events, count.value);
	give_back(s);
	return 0;
}

// Counts what a thread that waits since then has waited until the recording ended, at `state.stopped`.
static __always_inline void count_until_stopped(struct task_struct *task, u64 since, u32 sort)
{
	struct scratch *s;
	u64 waited;

	if (!since || since >= state.stopped)
		return;
	waited = state.stopped - since;
	if (waited < config.min_block)
		return;
	s = take_scratch();
	if (!s)
		return;
	s->blocked.key.sort = sort;
	if (take_stacks(s, NULL, task, 1))
		add(&s->blocked.key, 1, waited);
	give_back(s);
}

// Threads that wait already when the recording begins: nothing tells of them until they go on. And those
// that wait still when it ends, at `state.stopped`: what they waited until then counts.
SEC("iter/task")
int on_absent(struct bpf_iter__task *ctx)
{
	// A copy, or the verifier does not see that it is checked.
	struct task_struct *task = ctx->task;
	struct absence *absence;

	if (!task || !is_wanted_thread(task) || !has_program(task) || task->on_cpu)
		return 0;
	if (!state.stopped) {
		u64 now = bpf_ktime_get_ns();

		absence = bpf_task_storage_get(&absences, task, NULL,
					       BPF_LOCAL_STORAGE_GET_F_CREATE);
		// It has gone and come meanwhile, and is noted better.
		if (!absence || absence->since)
			return 0;
		absence->task_state = task->__state;
		absence->since = now;
		if (task->on_cpu)
			// It went on meanwhile.
			absence->since = 0;
		return 0;
	}
	absence = bpf_task_storage_get(&absences, task, NULL, 0);
	if (absence)
		count_until_stopped(task, absence->since, sort_of_absence(task, absence));
	return 0;
}

#endif
