// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Who wakes threads that wait.

#ifndef PYROGRAPH_WAKEUP_H
#define PYROGRAPH_WAKEUP_H

#include "waits.h"

// Returns true if the kernel is at work for a device or a timer, and not for the thread that was interrupted. Then
// the thread's part of the stack is left out.
__noinline int cut_to_interrupt(struct stack *stack)
{
	if (!stack)
		return 0;
	for (int i = 0; i < MAX_KERNEL_FRAMES; i++) {
		if (i >= stack->len)
			break;
		if (stack->frames[i] >= config.interrupts_start &&
		    stack->frames[i] < config.interrupts_end) {
			stack->len = i + 1;
			return 1;
		}
	}
	return 0;
}

// Emits the thread that runs on this CPU: its stacks are in `s` then, and its name. Returns their hash, or 0.
static __always_inline u64 tell_waker(struct scratch *s, void *ctx, struct task_struct *waker)
{
	long bytes = bpf_get_stack(ctx, s->kernel.frames, MAX_KERNEL_FRAMES * 8, 0);
	struct key *key = &s->blocked.key;
	u64 *words = s->user.frames;
	int interrupt = 0;

	key->user = 0;
	key->kernel = 0;
	if (bytes > 0 && bytes <= MAX_KERNEL_FRAMES * 8) {
		s->kernel.len = (u64)bytes / 8;
		interrupt = cut_to_interrupt(&s->kernel);
		if (config.kernel && !tell_kernel_stack(s, 8 * s->kernel.len))
			return 0;
	}
	if (config.user && !interrupt && has_program(waker) && !tell_user_stack(s, waker, 0))
		return 0;
	name_thread(key, waker);
	words[WAKER_USER] = key->user;
	words[WAKER_KERNEL] = key->kernel;
	words[WAKER_PID] = interrupt ? 0 : key->tgid;
	if (interrupt) {
		__builtin_memcpy(&words[WAKER_THREAD], "[interrupt]\0\0\0\0", 16);
		__builtin_memcpy(&words[WAKER_PROCESS], "[interrupt]\0\0\0\0", 16);
	} else {
		__builtin_memcpy(&words[WAKER_THREAD], key->thread, 16);
		__builtin_memcpy(&words[WAKER_PROCESS], key->process, 16);
	}
	s->user.len = WAKER_WORDS;
	s->user.hash = HASH_START;
	for (int i = 0; i < WAKER_WORDS; i++)
		s->user.hash = mix(s->user.hash, words[i]);
	return emit_stack(&s->user) ? s->user.hash : 0;
}

// Where wakers alone are recorded: waits as long as this count each. A shorter one counts with a probability in
// proportion to its length, and then for this: sums are right on average, whatever is chosen.
static __always_inline int choose(u64 waited, u64 now, struct count *count)
{
	u32 zero = 0;
	struct pace *pace = bpf_map_lookup_elem(&paces, &zero);
	u64 least;

	count->events = 1;
	count->value = waited;
	if (!pace)
		return 1;
	least = pace->quantum;
	if (waited < least) {
		if ((bpf_get_prandom_u32() * least) >> 32 >= waited)
			return 0;
		count->value = least;
		// Whole ones, and one more with the probability of what is left over.
		count->events = least / waited;
		if (bpf_get_prandom_u32() % waited < least % waited)
			count->events++;
	}
	next_stack(pace, now);
	return 1;
}

// A thread is woken, by the current one or by an interrupt. Where the kernel reports when it goes on, the waker is emitted
// if a stack will be taken then: a while before, for it may have to wait for a CPU yet.
SEC("tp_btf/sched_waking")
int BPF_PROG(on_wake, struct task_struct *woken)
{
	struct absence *absence;
	struct pace *pace;
	struct scratch *s;
	u32 zero = 0;
	u64 waited;

	if (!state.on)
		return 0;
	absence = bpf_task_storage_get(&absences, woken, NULL, 0);
	pace = bpf_map_lookup_elem(&paces, &zero);
	if (!absence || !pace || !absence->since || absence->task_state == TASK_RUNNING || absence->waker)
		return 0;
	waited = bpf_ktime_get_ns() - absence->since;
	if (waited < config.min_block || (!is_long(pace, waited, 2) && !is_enough(absence, waited)))
		return 0;
	s = take_scratch();
	if (!s)
		return 0;
	absence->waker = tell_waker(s, ctx, bpf_get_current_task_btf());
	give_back(s);
	return 0;
}

// A thread is woken, where its stack was taken when it stopped to run, or wakers alone are recorded.
SEC("tp_btf/sched_waking")
int BPF_PROG(on_waking, struct task_struct *woken)
{
	u64 now = bpf_ktime_get_ns(), waited, waker;
	u32 tid = woken->pid;
	struct blocked *waiting;
	struct count count;
	struct scratch *s;

	if (!state.on)
		return 0;
	waiting = bpf_map_lookup_elem(&blocked, &tid);
	if (!waiting)
		return 0;
	waited = now - waiting->since;
	if (waited < config.min_block || !waited)
		return 0;
	// Those whose stacks were taken are few enough.
	if (config.wakers_alone && !choose(waited, now, &count)) {
		bpf_map_delete_elem(&blocked, &tid);
		return 0;
	}
	s = take_scratch();
	if (!s)
		return 0;
	waker = tell_waker(s, ctx, bpf_get_current_task_btf());
	if (waker && !config.wakers_alone) {
		waiting->key.waker = waker;
	} else if (waker) {
		s->blocked.key = waiting->key;
		s->blocked.key.user = 0;
		s->blocked.key.kernel = 0;
		s->blocked.key.kind = KIND_WOKEN;
		s->blocked.key.waker = waker;
		add(&s->blocked.key, count.events, count.value);
		bpf_map_delete_elem(&blocked, &tid);
	}
	give_back(s);
	return 0;
}

// Where only wakers are recorded: a thread begins to wait. One that goes on has been woken, or was not asleep.
SEC("tp_btf/sched_switch")
int BPF_PROG(on_sleep, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	u32 tid = next->pid;
	struct scratch *s;

	if (!state.on)
		return 0;
	bpf_map_delete_elem(&blocked, &tid);
	if (state_at_switch(ctx, prev) == TASK_RUNNING || !is_target(prev) || !has_program(prev))
		return 0;
	s = take_scratch();
	if (!s)
		return 0;
	tid = prev->pid;
	s->blocked.since = bpf_ktime_get_ns();
	s->blocked.stands_for = 1;
	s->blocked.key.user = 0;
	s->blocked.key.kernel = 0;
	s->blocked.key.kind = KIND_WOKEN;
	name_thread(&s->blocked.key, prev);
	if (bpf_map_update_elem(&blocked, &tid, &s->blocked, BPF_ANY))
		lose(&state.lost_counts);
	give_back(s);
	return 0;
}

#endif
