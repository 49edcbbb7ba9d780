// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Counts of events: tracepoints are counted where they happen, system calls by their number in one program each for
// their begin and their end. Counters of perf_event_open are read when a thread stops to run, and what they have counted
// since it began to run is added to its key.

#include "counter.h"

const volatile struct config config = {};
struct state state = {};

#include "targets.h"
#include "task_storage.h"
#include "values.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

// The threads that are counted, where these are not all: 1 and the index of the thread that they were named as or
// descend from; 0 for one that has ended.
TASK_STORAGE(member, u32, 256)

// For each system call, 1 and the index of the event that is its begin; then the same of its end.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2 * MAX_CALLS);
	__type(key, u32);
	__type(value, u32);
} calls SEC(".maps");

// Counts by event, where they are kept apart by CPU at most.
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} counts SEC(".maps");

// Counts by key and event.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, struct row_key);
	__type(value, u64);
} rows SEC(".maps");

// Names and values by key.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, u64);
	__type(value, struct owner);
} owners SEC(".maps");

// An owner before anything was counted: never written to.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct owner);
} empty SEC(".maps");

// Counters of perf_event_open: those of the first event for each CPU, of the second, and so on.
struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u32);
} counters SEC(".maps");

// What they were at the last reading.
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, MAX_VALUES);
	__type(key, u32);
	__type(value, struct bpf_perf_event_value);
} readings SEC(".maps");

// Set while counters are read: an interrupt may ask for that, too.
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u32);
} reading SEC(".maps");

// 1 and the index of the root of a thread that is counted, else 0.
static __always_inline u32 root_of(struct task_struct *task)
{
	u32 root = 1;

	if (config.members) {
		u32 *member = known_member(task);

		root = member ? *member : 0;
	}
	return root && is_wanted_thread(task) ? root : 0;
}

static __always_inline u64 key_of(struct task_struct *task, u32 root)
{
	switch (config.key) {
	case KEY_CPU:
		return bpf_get_smp_processor_id();
	case KEY_THREAD:
		return thread_number(task, task->pid);
	case KEY_PROCESS:
		return process_number(task, task->tgid);
	case KEY_GROUP:
		return BPF_CORE_READ(task, cgroups, dfl_cgrp, kn, id);
	case KEY_ROOT:
		return root - 1;
	}
	return 0;
}

static __always_inline struct owner *owner_of(u64 key, struct task_struct *task)
{
	struct owner *owner = bpf_map_lookup_elem(&owners, &key);
	u32 zero = 0;

	if (!owner) {
		owner = bpf_map_lookup_elem(&empty, &zero);
		if (!owner)
			return NULL;
		bpf_map_update_elem(&owners, &key, owner, BPF_NOEXIST);
		owner = bpf_map_lookup_elem(&owners, &key);
		if (!owner)
			return NULL;
		if (config.key == KEY_PROCESS)
			bpf_probe_read_kernel_str(owner->comm, 16, BPF_CORE_READ(task, group_leader)->comm);
		else
			bpf_probe_read_kernel_str(owner->comm, 16, task->comm);
	}
	return owner;
}

static __always_inline void count_row(struct task_struct *task, u32 root, u32 event)
{
	struct row_key key = { .key = key_of(task, root), .event = event };
	u64 one = 1, *count = bpf_map_lookup_elem(&rows, &key);

	if (!count) {
		if (!bpf_map_update_elem(&rows, &key, &one, BPF_NOEXIST)) {
			owner_of(key.key, task);
			return;
		}
		// Another CPU was first.
		count = bpf_map_lookup_elem(&rows, &key);
	}
	__sync_fetch_and_add(count ?: &state.lost, 1);
}

// `preempted`: another thread may run the program on this CPU meanwhile.
static __always_inline int count_event(u32 event, int preempted)
{
	struct task_struct *task = bpf_get_current_task_btf();
	u32 root;
	u64 *count;

	if (!state.on)
		return 0;
	root = root_of(task);
	if (!root)
		return 0;
	if (config.key > KEY_CPU) {
		count_row(task, root, event);
		return 0;
	}
	count = bpf_map_lookup_elem(&counts, &event);
	if (count && preempted)
		__sync_fetch_and_add(count, 1);
	else if (count)
		*count += 1;
	return 0;
}

// Loaded once for each tracepoint, with its index in place of this number: so an interrupt in which another tracepoint is
// hit does not find the program at work.
#define EVENT_INDEX 0x50590001

SEC("raw_tp")
int on_tracepoint(void *ctx)
{
	u32 event;

	asm volatile("%[event] = %[index]" : [event] "=r"(event) : [index] "i"(EVENT_INDEX));
	return count_event(event, 0);
}

// A program reaches a probed instruction. The attachment's cookie is the event's index.
SEC("uprobe")
int on_place(void *ctx)
{
	return count_event(bpf_get_attach_cookie(ctx), 1);
}

#include "sums.h"

// Returns true for a call by the numbers of 32-bit programs, as the kernel's own tracepoints of calls see it.
static __always_inline int is_compat(struct task_struct *task)
{
	return ((struct task_struct___status *)task)->thread_info.status & TS_COMPAT;
}

static __always_inline int count_call(u64 number, u32 first)
{
	u32 index = number + first, *event;

	if (number >= MAX_CALLS)
		return 0;
	event = bpf_map_lookup_elem(&calls, &index);
	if (!event || !*event || is_compat(bpf_get_current_task_btf()))
		return 0;
	return count_event(*event - 1, 0);
}

SEC("tp_btf/sys_enter")
int BPF_PROG(on_call, struct pt_regs *regs, long number)
{
	return count_call(number, 0);
}

// The number is as the kernel's tracepoints see it: `rt_sigreturn` has replaced it.
SEC("tp_btf/sys_exit")
int BPF_PROG(on_return, struct pt_regs *regs, long result)
{
	return count_call(regs->orig_ax, MAX_CALLS);
}

// Adds what the counters of this CPU have counted since the last reading to whom a thread belongs.
__noinline int read_counters(u64 root)
{
	struct task_struct *task = bpf_get_current_task_btf();
	u32 cpu = bpf_get_smp_processor_id(), zero = 0, *busy;
	struct owner *owner = NULL;

	if (!config.values)
		return 0;
	busy = bpf_map_lookup_elem(&reading, &zero);
	if (!busy || *busy)
		return 0;
	*busy = 1;
	if (root && state.on)
		owner = owner_of(key_of(task, root), task);
	for (u32 i = 0; i < MAX_VALUES && i < config.values; i++) {
		struct bpf_perf_event_value now = {}, *last;
		u32 index = i;

		if (bpf_perf_event_read_value(&counters, i * config.cpus + cpu, &now, sizeof(now)))
			continue;
		last = bpf_map_lookup_elem(&readings, &index);
		if (!last)
			continue;
		// No time is an idle CPU's.
		if (owner && (task->pid || !(config.clocks >> i & 1))) {
			struct value *value = &owner->values[i];

			__sync_fetch_and_add(&value->count, now.counter - last->counter);
			__sync_fetch_and_add(&value->enabled, now.enabled - last->enabled);
			__sync_fetch_and_add(&value->running, now.running - last->running);
		} else if (root && state.on && !owner) {
			__sync_fetch_and_add(&state.lost, 1);
		}
		*last = now;
	}
	*busy = 0;
	return 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *previous)
{
	return read_counters(root_of(bpf_get_current_task_btf()));
}

// Run on each CPU for what has been counted of the thread that runs there.
SEC("raw_tp")
int on_reading(void *ctx)
{
	return read_counters(root_of(bpf_get_current_task_btf()));
}

#define CLONE_THREAD 0x00010000

// What a member starts is one from its first instruction on.
SEC("tp_btf/task_newtask")
int BPF_PROG(on_new_task, struct task_struct *child, u64 clone_flags)
{
	u32 *member = known_member(bpf_get_current_task_btf()), *new;

	if (!member || !*member || !(config.inherit || clone_flags & CLONE_THREAD))
		return 0;
	new = made_member(child);
	if (new)
		*new = *member;
	else
		__sync_fetch_and_add(&state.lost, 1);
	return 0;
}

// A thread gets the name of the program that it executes right behind the place where counters that wait for this are
// enabled. What it has done until then was done by another name, and maybe for another program.
SEC("tp_btf/task_rename")
int BPF_PROG(on_rename, struct task_struct *task, const char *comm)
{
	struct task_struct *current = bpf_get_current_task_btf();
	struct owner *owner;
	u32 *member, root;
	u64 key;

	if (task->pid != current->pid)
		return 0;
	root = root_of(current);
	read_counters(root);
	if (state.on && state.command && process_number(current, current->tgid) == state.command) {
		member = made_member(current);
		if (member)
			*member = 1;
		else
			__sync_fetch_and_add(&state.lost, 1);
		state.command = 0;
	}
	if (!root || (config.key != KEY_THREAD && (config.key != KEY_PROCESS || task->pid != task->tgid)))
		return 0;
	key = key_of(current, root);
	owner = bpf_map_lookup_elem(&owners, &key);
	if (owner)
		bpf_probe_read_kernel_str(owner->comm, 16, comm);
	return 0;
}

// Here perf events of a thread end, too.
SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_end, struct task_struct *task)
{
	struct task_struct *current = bpf_get_current_task_btf();
	u32 *member;

	read_counters(root_of(current));
	member = known_member(current);
	if (member)
		*member = 0;
	forget_member(current);
	return 0;
}

// Makes the threads members that user space has named, but for those that are already.
SEC("iter/task")
int on_named(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	u32 *named, *member, number;

	if (!task)
		return 0;
	number = thread_number(task, task->pid);
	named = bpf_map_lookup_elem(&targets, &number);
	if (!named)
		return 0;
	member = made_member(task);
	if (!member)
		__sync_fetch_and_add(&state.lost, 1);
	else if (!*member)
		*member = *named;
	return 0;
}

// Notes the PID namespace of the process that runs this.
SEC("syscall")
int prepare(void *ctx)
{
	note_namespace();
	return 0;
}
