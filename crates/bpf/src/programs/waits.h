// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Waits, where the kernel reports when a thread goes on (`sched_exit`, Linux 6.16): then it is known how long
// it waited, and its stack is what it was. So the stacks of short waits need not all be taken: of each thread it is
// added up what was waited without one, and that is accounted to the next that is taken.

#ifndef PYROGRAPH_WAITS_H
#define PYROGRAPH_WAITS_H

#include "count.h"
#include "idle.h"
#include "switch_state.h"

// The kind of wait of a thread that does not run.
static __always_inline u32 kind_of_wait(struct task_struct *task, u32 task_state)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);

	if (task_state == TASK_RUNNING)
		return KIND_PREEMPTED;
	if (NUMBER_IN(task, in_iowait))
		return KIND_IO;
	if ((s64)regs->orig_ax == NR_FUTEX)
		return kind_of_futex(regs, NR_FUTEX);
	return task_state & TASK_UNINTERRUPTIBLE ? KIND_UNINTERRUPTIBLE : KIND_SLEEP;
}

static __always_inline int waits_count(struct task_struct *task)
{
	return is_target(task) && has_program(task);
}

// Waits of this length and longer have a stack of their own each.
#define OWN_STACK_NS 1000000
// But for more than so many on a CPU in a window of time: then this length is doubled.
#define OWN_STACKS 1000

// How many stacks of shorter waits a CPU takes in a window of time before it takes fewer.
#define WINDOW_NS 100000000ull
#define WINDOW_STACKS 150
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
	else if (window->taken < most / 3)
		more = -1;
	window->since = now;
	window->taken = 0;
	return more;
}

// How often a CPU takes stacks of waits.
struct pace {
	struct window window;
	struct window own;
	// A stack is taken when a thread has waited for this long, more or less, since its last one.
	u32 quantum;
	// How often `OWN_STACK_NS` is doubled.
	u32 doubled;
	// The thread that goes on has its stack taken.
	u32 due;
	// The thread that went on last, as far as the kernel reported.
	u32 current;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct pace);
} paces SEC(".maps");

// Waits of a thread without a stack: they are accounted to the next that is taken, or to the last one when there
// is no other.
struct skipped {
	u64 value;
	u64 events;
	// The key that was counted last, and when that was (`state.forgotten`).
	struct key last;
	u64 forgotten;
};

// The waits of a thread.
struct absence {
	// Since when it does not run; 0: it does, or is not recorded.
	u64 since;
	// TASK_RUNNING: it was preempted.
	u32 task_state;
	u32 pad;
	// When it went on; 0: it does not run.
	u64 resumed;
	// Its CPU time when it last went on or stopped.
	u64 ran;
	// The part of its CPU time that is of the time before it went on: the kernel counts from when a thread is woken.
	u64 early;
	// The time that its CPU time lacks of the times that it had a CPU: the machine that this one runs on had that CPU do
	// something else, or an interrupt did, where the kernel accounts these apart.
	u64 stolen;
	// A stack is taken when what has none is as much.
	u64 next;
	// The value of the stack that is taken when it goes on.
	struct count due;
	struct skipped skipped;
	// The waker, where these are recorded.
	u64 waker;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct absence);
} absences SEC(".maps");

// A thread that is recorded stays so until it ends: only names and groups change. Looking for what was noted
// of it is cheaper than looking for its process.
static __always_inline struct absence *absence_of(struct task_struct *task)
{
	struct absence *absence = bpf_task_storage_get(&absences, task, NULL, 0);

	if (absence && !config.names && !config.group)
		return absence;
	if (!is_wanted_thread(task) || !has_program(task))
		return NULL;
	if (!absence)
		absence = bpf_task_storage_get(&absences, task, NULL,
					       BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!absence)
		lose(&state.lost_counts);
	return absence;
}

// The kind of wait; the thread is as it was when it stopped to run.
static __always_inline u32 kind_of_absence(struct task_struct *task, struct absence *absence)
{
	return kind_of_wait(task, absence->task_state);
}

static __always_inline void skip(struct skipped *skipped, u64 events, u64 value)
{
	skipped->events += events;
	skipped->value += value;
}

// Notes what is counted of a thread with a stack of its own.
static __always_inline void note_last(struct skipped *skipped, struct key *key)
{
	skipped->last = *key;
	skipped->forgotten = state.forgotten;
}

// Counts what a thread did while it is not known where it was.
static __always_inline void count_without_stack(struct task_struct *task, u32 kind, u64 events, u64 value)
{
	struct scratch *s = take_scratch();

	if (!s)
		return;
	leave_out(s);
	s->blocked.key.user = s->user.hash;
	s->blocked.key.kernel = 0;
	s->blocked.key.kind = kind;
	name_thread(&s->blocked.key, task);
	if (emit_stack(&s->user))
		add(&s->blocked.key, events, value);
	give_back(s);
}

// A thread ends, or the recording does: what has no stack is accounted to the last one that was taken, if that is
// still known to the other side.
static __always_inline void settle(struct skipped *skipped, struct task_struct *task, u32 kind)
{
	if (!skipped->events)
		return;
	if (skipped->last.tgid && skipped->forgotten == state.forgotten)
		add(&skipped->last, skipped->events, skipped->value);
	else
		count_without_stack(task, kind, skipped->events, skipped->value);
	skipped->events = 0;
	skipped->value = 0;
}

static __always_inline void settle_absence(struct absence *absence, struct task_struct *task)
{
	struct key *last = &absence->skipped.last;

	skip(&absence->skipped, absence->due.events, absence->due.value);
	absence->due.events = 0;
	absence->due.value = 0;
	settle(&absence->skipped, task, KIND_SLEEP);
	// It is where it was when it last had a CPU.
	if (absence->stolen >= config.min_block && last->tgid &&
	    absence->skipped.forgotten == state.forgotten) {
		last->waker = 0;
		last->kind = KIND_PREEMPTED;
		add(last, 1, absence->stolen);
		last->tgid = 0;
	}
	absence->stolen = 0;
}

// How much a thread has to wait until its next stack is taken. It is left to chance, so that it keeps no step with
// what the thread does; each nanosecond of its waits has the same chance.
static __always_inline u64 next_stack(struct pace *pace, u64 now)
{
	u64 quantum = pace->quantum;
	int more = end_window(&pace->window, now, WINDOW_STACKS);

	if (more > 0 && quantum < LONGEST_NS)
		quantum = quantum ? 2 * quantum : SHORTEST_NS;
	else if (more < 0)
		quantum = quantum > SHORTEST_NS ? quantum / 2 : 0;
	pace->quantum = quantum;
	pace->window.taken++;
	return quantum / 2 + (quantum * bpf_get_prandom_u32() >> 32);
}

// Returns true if a wait is long enough for a stack of its own; `part` of so many parts of that.
static __always_inline int is_long(struct pace *pace, u64 waited, u32 parts)
{
	return waited * parts >= (u64)OWN_STACK_NS << (pace->doubled & 7);
}

static __always_inline void count_own_stack(struct pace *pace, u64 now)
{
	int more = end_window(&pace->own, now, OWN_STACKS);

	if (more > 0 && pace->doubled < 6)
		pace->doubled++;
	else if (more < 0 && pace->doubled)
		pace->doubled--;
	pace->own.taken++;
}

// The measure of waits until the next stack is taken. Where each counts alike, each is as much.
static __always_inline u64 progress(u64 events, u64 value)
{
	return config.waits_alike ? 1024 * events : value;
}

// Returns true if a stack is taken of a wait that has lasted so long; it may go on.
static __always_inline int is_enough(struct absence *absence, u64 waited)
{
	return progress(absence->skipped.events + 1, absence->skipped.value + waited) >= absence->next;
}

// A thread goes on: what it has waited counts, and whether its stack is taken is decided.
static __always_inline void come(struct pace *pace, struct task_struct *task, u64 now)
{
	struct absence *absence = bpf_task_storage_get(&absences, task, NULL, 0);
	u64 waited, early, ran = task->se.sum_exec_runtime;

	if (!absence)
		return;
	if (!absence->since) {
		// The kernel did not report that it stopped, or it begins now: nothing of it was noted.
		if (!absence->resumed)
			return;
		absence->since = absence->resumed + (ran - absence->ran);
		absence->task_state = TASK_INTERRUPTIBLE;
	}
	// A wait that was noted meanwhile, when the recording began, has yet to begin.
	waited = now > absence->since ? now - absence->since : 0;
	absence->since = 0;
	absence->resumed = now;
	absence->ran = ran;
	early = absence->early < waited ? absence->early : waited;
	absence->early -= early;
	waited -= early;
	if (!waited || waited < config.min_block)
		return;
	if (is_long(pace, waited, 1)) {
		count_own_stack(pace, now);
		absence->due.events = 1;
		absence->due.value = waited;
		pace->due = 1;
		return;
	}
	// Wakers are known of those that were to be taken when they were woken.
	if (is_enough(absence, waited) &&
	    (!config.wakers_too || absence->waker || absence->task_state == TASK_RUNNING)) {
		absence->due.events = absence->skipped.events + 1;
		absence->due.value = absence->skipped.value + waited;
		absence->skipped.events = 0;
		absence->skipped.value = 0;
		absence->next = next_stack(pace, now);
		pace->due = 1;
		return;
	}
	skip(&absence->skipped, 1, waited);
}

// A thread stops to run.
static __always_inline void leave(u64 *ctx, struct task_struct *task, u64 now)
{
	struct absence *absence;
	u64 ran = task->se.sum_exec_runtime, there;

	if (task->flags & PF_KTHREAD)
		return;
	absence = absence_of(task);
	if (!absence)
		return;
	if (absence->due.events) {
		skip(&absence->skipped, absence->due.events, absence->due.value);
		absence->due.events = 0;
		absence->due.value = 0;
	}
	absence->waker = 0;
	there = now - (absence->resumed ? absence->resumed : absence->since);
	ran -= absence->ran;
	if (absence->resumed) {
		if (ran > there && ran - there < OWN_STACK_NS)
			absence->early += ran - there;
		else if (there > ran)
			absence->stolen += there - ran;
		absence->resumed = 0;
	} else if (absence->since && there > ran && there - ran >= config.min_block) {
		// The kernel did not report that it went on.
		skip(&absence->skipped, 1, there - ran);
	}
	absence->since = 0;
	absence->ran += ran;
	if (task->flags & PF_EXITING) {
		settle_absence(absence, task);
		return;
	}
	absence->task_state = state_at_switch(ctx, task);
	if (config.no_idle && is_idle(task, absence->task_state))
		return;
	absence->since = now;
}

// One thread stops to run, another goes on. Machines do this hundreds of thousands of times a second: all that has
// to be done each time is done here, once for both. Where the one that goes on was is seen only when it does
// (`on_resume`). What the switch itself takes, microseconds if it is to another process, is CPU time of who goes on.
SEC("tp_btf/sched_switch")
int BPF_PROG(on_leave, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	struct pace *pace;
	u32 zero = 0;
	u64 now;

	if (!state.on)
		return 0;
	pace = bpf_map_lookup_elem(&paces, &zero);
	if (!pace)
		return 0;
	now = bpf_ktime_get_ns();
	pace->current = next->pid;
	// The idle threads have the number 0.
	if (next->pid)
		come(pace, next, now);
	if (prev->pid)
		leave(ctx, prev, now);
	return 0;
}

// The current thread goes on. Some kernels do not report each switch, but this.
SEC("tp_btf/sched_exit_tp")
int BPF_PROG(on_resume, bool is_switch)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct absence *absence;
	struct count due;
	struct pace *pace;
	struct scratch *s;
	u32 zero = 0;
	int is_copy;

	pace = bpf_map_lookup_elem(&paces, &zero);
	// At the end, those that wait are counted as they are then.
	if (!pace || !state.on)
		return 0;
	if (pace->current != task->pid) {
		pace->current = task->pid;
		come(pace, task, bpf_ktime_get_ns());
	}
	if (!pace->due)
		return 0;
	pace->due = 0;
	absence = bpf_task_storage_get(&absences, task, NULL, 0);
	if (!absence || !absence->due.events)
		return 0;
	due = absence->due;
	absence->due.events = 0;
	absence->due.value = 0;
	s = take_scratch();
	if (!s) {
		skip(&absence->skipped, due.events, due.value);
		return 0;
	}
	s->blocked.key.kind = kind_of_absence(task, absence);
	if (take_stacks(s, ctx, task, 0)) {
		s->blocked.key.waker = absence->waker;
		add(&s->blocked.key, due.events, due.value);
		// A copy of a stack counts once: then it is forgotten.
		is_copy = s->blocked.key.user && s->blocked.key.user != s->user.hash;
		if (!is_copy)
			note_last(&absence->skipped, &s->blocked.key);
		// It is where it was when it last had a CPU.
		if (!is_copy && absence->stolen >= config.min_block) {
			s->blocked.key.waker = 0;
			s->blocked.key.kind = KIND_PREEMPTED;
			add(&s->blocked.key, 1, absence->stolen);
			absence->stolen = 0;
		}
	} else {
		skip(&absence->skipped, due.events, due.value);
	}
	give_back(s);
	return 0;
}

// Counts what a thread that waits since then has waited until the recording ended, at `state.stopped`.
static __always_inline void count_until_stopped(struct task_struct *task, u64 since, u32 kind)
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
	s->blocked.key.kind = kind;
	if (take_stacks(s, NULL, task, 1))
		add(&s->blocked.key, 1, waited);
	give_back(s);
}

// Threads that wait already when the recording begins: they have no event until they go on. And those
// that wait still when it ends, at `state.stopped`: what they waited until then counts.
SEC("iter/task")
int on_absent(struct bpf_iter__task *ctx)
{
	// A copy, or the verifier does not see that it is checked.
	struct task_struct *task = ctx->task;
	struct absence *absence;

	if (!task || !is_wanted_thread(task) || !has_program(task) || task->flags & PF_EXITING)
		return 0;
	if (!state.stopped) {
		u64 now = bpf_ktime_get_ns();

		if (NUMBER_IN(task, on_cpu))
			return 0;
		absence = bpf_task_storage_get(&absences, task, NULL,
					       BPF_LOCAL_STORAGE_GET_F_CREATE);
		// It has gone and come meanwhile, and is noted better.
		if (!absence || absence->since || absence->resumed)
			return 0;
		absence->task_state = NUMBER_IN(task, __state);
		if (config.no_idle && is_idle(task, absence->task_state))
			return 0;
		absence->since = now;
		if (NUMBER_IN(task, on_cpu))
			// It went on meanwhile.
			absence->since = 0;
		return 0;
	}
	absence = bpf_task_storage_get(&absences, task, NULL, 0);
	if (!absence)
		return 0;
	settle_absence(absence, task);
	count_until_stopped(task, absence->since, kind_of_absence(task, absence));
	return 0;
}

#endif
