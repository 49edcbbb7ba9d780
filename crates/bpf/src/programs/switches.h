// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Waits, where the kernel reports only that threads change places (before Linux 6.16, and where wakers are recorded,
// too): stacks are taken when a thread stops to run, for then its memory is at hand. For how long it waits is
// known when it goes on.

#ifndef PYROGRAPH_SWITCHES_H
#define PYROGRAPH_SWITCHES_H

#include "waits.h"

// A thread whose stack was not taken for so long is not left to chance: who waits for long at a time has its
// stack taken each time.
#define RARE_NS 10000000

// How many stacks a CPU takes in a window of time before it leaves more and more of them to chance.
#define SWITCH_STACKS 64

// How a CPU chooses among waits before they are over.
struct chance {
	struct window window;
	// One wait of so many is chosen.
	u32 one_of;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct chance);
} chances SEC(".maps");

// A thread that does not run.
struct pause {
	// Since when, if its stack was not taken; else 0, and `blocked` may know.
	u64 since;
	// When its stack was taken last.
	u64 taken;
	// How long it had run until it stopped; 0 if it runs.
	u64 ran;
	u32 kind;
	// One wait of so many was to be chosen.
	u32 one_of;
	// Of those that were not.
	struct skipped skipped;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct pause);
} pauses SEC(".maps");

// For how many waits the one that begins now stands, if its stack is taken; 0: it is not.
static __always_inline u32 chosen_for(struct pause *pause, u64 now)
{
	u32 zero = 0, one_of;
	struct chance *chance = bpf_map_lookup_elem(&chances, &zero);
	int more;

	if (!chance)
		return 1;
	more = end_window(&chance->window, now, SWITCH_STACKS);
	if (more > 0 && chance->one_of < 1 << 16)
		chance->one_of = chance->one_of ? 2 * chance->one_of : 2;
	else if (more < 0)
		chance->one_of /= 2;
	one_of = chance->one_of;
	if (one_of < 2 || now - pause->taken >= RARE_NS) {
		one_of = 1;
	} else if (bpf_get_prandom_u32() & (one_of - 1)) {
		pause->one_of = one_of;
		return 0;
	}
	chance->window.taken++;
	pause->taken = now;
	return one_of;
}

// A thread goes on whose stack was taken when it stopped. It stands for others, as far as there are any: sums are
// exact whatever was left to chance.
static __always_inline void end_wait(struct pause *pause, u32 tid, u64 now)
{
	struct blocked *ended = bpf_map_lookup_elem(&blocked, &tid);
	u64 waited, others, events = 0, value = 0;

	if (!ended)
		return;
	waited = now - ended->since;
	others = ended->stands_for - 1;
	if (pause && waited * ended->stands_for < MOST_WAITED_NS) {
		events = pause->skipped.events < others ? pause->skipped.events : others;
		value = waited * others;
		if (value > pause->skipped.value)
			value = pause->skipped.value;
		pause->skipped.events -= events;
		pause->skipped.value -= value;
	}
	if (waited >= config.min_block) {
		events++;
		value += waited;
	}
	if (events || value)
		add(&ended->key, events, value);
	if (pause)
		note_last(&pause->skipped, &ended->key);
	bpf_map_delete_elem(&blocked, &tid);
}

// One whose stack was not taken goes on. Others stand for it if it is short.
static __always_inline void end_pause(struct task_struct *task, struct pause *pause, u64 now)
{
	u64 waited = now - pause->since;

	pause->since = 0;
	if (waited < config.min_block)
		return;
	if (waited * pause->one_of < MOST_WAITED_NS)
		skip(&pause->skipped, 1, waited);
	else
		count_without_stack(task, pause->kind, 1, waited);
}

// A thread goes on.
static __always_inline void go_on(struct task_struct *task, struct pause *pause, u64 now)
{
	if (pause)
		pause->ran = 0;
	if (pause && pause->since)
		end_pause(task, pause, now);
	else
		end_wait(pause, task->pid, now);
}

static __always_inline void begin_wait(void *ctx, struct task_struct *task, u32 task_state, u64 now)
{
	u32 kind = kind_of_wait(task, task_state), tid = task->pid, stands_for;
	struct pause *pause =
		bpf_task_storage_get(&pauses, task, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	struct scratch *s;

	if (!pause) {
		lose(&state.lost_counts);
		return;
	}
	// Some kernels do not report each switch. The time that it has run since its last wait began, it did not wait.
	if (pause->ran)
		go_on(task, pause, now - (task->se.sum_exec_runtime - pause->ran));
	pause->ran = task->se.sum_exec_runtime;
	if (task->flags & PF_EXITING) {
		pause->ran = 0;
		settle(&pause->skipped, task, KIND_SLEEP);
		return;
	}
	if (config.no_idle && is_idle(task, task_state)) {
		pause->since = 0;
		return;
	}
	stands_for = chosen_for(pause, now);
	if (!stands_for) {
		pause->since = now;
		pause->kind = kind;
		return;
	}
	pause->since = 0;
	s = take_scratch();
	if (!s)
		return;
	s->blocked.stands_for = stands_for;
	s->blocked.key.kind = kind;
	if (take_stacks(s, ctx, task, 0)) {
		s->blocked.since = now;
		if (bpf_map_update_elem(&blocked, &tid, &s->blocked, BPF_ANY))
			lose(&state.lost_counts);
	}
	give_back(s);
}

// One thread stops to run, another goes on.
SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	u64 now = bpf_ktime_get_ns();

	// At the end, those that wait are counted as they are then.
	if (!state.on)
		return 0;
	go_on(next, bpf_task_storage_get(&pauses, next, NULL, 0), now);
	if (waits_count(prev))
		begin_wait(ctx, prev, state_at_switch(ctx, prev), now);
	return 0;
}

// Forgets a wait that was noted a moment ago, of a thread that has gone on meanwhile. It may wait again by
// now: what was noted of that is not forgotten.
static __always_inline void forget_wait(void *waits, void *key, u64 since)
{
	struct blocked *noted = bpf_map_lookup_elem(waits, key);

	if (noted && noted->since == since)
		bpf_map_delete_elem(waits, key);
}

// Emits the user's part of the stack of a thread that does not run. Of waits for futexes the kernel's part is the same
// for all, and those that begin later have none either: one wait is one stack.
static __always_inline int take_other_user_stack(struct scratch *s, struct task_struct *task)
{
	s->blocked.key.user = 0;
	s->blocked.key.kernel = 0;
	if (config.user && !tell_user_stack(s, task, 1))
		return 0;
	name_thread(&s->blocked.key, task);
	s->blocked.key.detail = NR_FUTEX;
	return 1;
}

// Threads that wait already when the recording begins: they have no event until they go on.
SEC("iter/task")
int on_task(struct bpf_iter__task *ctx)
{
	// A copy, or the verifier does not see that it is checked.
	struct task_struct *task = ctx->task;
	struct pt_regs *regs;
	struct pause *pause;
	struct scratch *s;
	u32 tid;

	if (!task || !is_wanted_thread(task) || !has_program(task))
		return 0;
	if (state.stopped) {
		// Of the others, `blocked` knows.
		pause = bpf_task_storage_get(&pauses, task, NULL, 0);
		if (pause) {
			settle(&pause->skipped, task, KIND_SLEEP);
			count_until_stopped(task, pause->since, pause->kind);
		}
		return 0;
	}
	if (NUMBER_IN(task, on_cpu))
		return 0;
	regs = (struct pt_regs *)bpf_task_pt_regs(task);
	if (config.futexes &&
	    (!is_wanted(call_detail(regs, regs->orig_ax)) || !waits_for_futex(regs, regs->orig_ax)))
		return 0;
	if (config.no_idle && is_idle(task, NUMBER_IN(task, __state)))
		return 0;
	s = take_scratch();
	if (!s)
		return 0;
	tid = task->pid;
	s->blocked.since = bpf_ktime_get_ns();
	s->blocked.stands_for = 1;
	if (config.futexes) {
		u64 what = tid;

		s->blocked.key.kind = kind_of_futex(regs, regs->orig_ax);
		if (take_other_user_stack(s, task) &&
		    bpf_map_update_elem(&pending, &what, &s->blocked, BPF_NOEXIST) == 0 &&
		    NUMBER_IN(task, on_cpu))
			forget_wait(&pending, &what, s->blocked.since);
		give_back(s);
		return 0;
	}
	s->blocked.key.kind = kind_of_wait(task, NUMBER_IN(task, __state));
	if (take_stacks(s, NULL, task, 1) &&
	    bpf_map_update_elem(&blocked, &tid, &s->blocked, BPF_NOEXIST) == 0 && NUMBER_IN(task, on_cpu))
		forget_wait(&blocked, &tid, s->blocked.since);
	give_back(s);
	return 0;
}

#endif
