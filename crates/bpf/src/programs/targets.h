// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Which threads are recorded: by process, name and control group. Whoever includes this has `config` and `state`.

#ifndef PYROGRAPH_TARGETS_H
#define PYROGRAPH_TARGETS_H

#include "numbers.h"

#define MAX_PROCESSES 65536

// The processes that are recorded, where these are not all.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_PROCESSES);
	__type(key, u32);
	__type(value, u32);
} targets SEC(".maps");

struct thread_name {
	char text[16];
};

// The names of threads and processes that are recorded, where these are not all.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);
	__type(key, struct thread_name);
	__type(value, u32);
} names SEC(".maps");

static __always_inline int is_wanted_name(const char *comm)
{
	// Older kernels leave behind a name what was left of the last one: it ends with the first zero.
	struct thread_name name = {};

	bpf_probe_read_kernel_str(name.text, sizeof(name.text), comm);
	return bpf_map_lookup_elem(&names, &name) != NULL;
}

// Returns true if a thread, or its process, has one of the names that are recorded.
static __always_inline int has_name(struct task_struct *task)
{
	return is_wanted_name(task->comm) || is_wanted_name(BPF_CORE_READ(task, group_leader)->comm);
}

// Returns true if a thread is in the control group that is recorded, or in one inside of it: that is then one of the
// group's ancestors, which are kept from the root on.
static __always_inline int is_in_group(struct task_struct *task)
{
	struct cgroup *group = BPF_CORE_READ(task, cgroups, dfl_cgrp);
	int level = BPF_CORE_READ(group, level);
	int by_id = bpf_core_field_exists(group->ancestor_ids);
	u64 ancestors = (u64)group + (by_id ? bpf_core_field_offset(struct cgroup, ancestor_ids) :
					      bpf_core_field_offset(struct cgroup, ancestors));

	for (int i = 0; i < 16 && i <= level; i++) {
		u64 id;

		if (bpf_probe_read_kernel(&id, 8, (void *)(ancestors + 8 * i)))
			return 0;
		if (!by_id)
			id = BPF_CORE_READ((struct cgroup *)id, kn, id);
		if (id == config.group)
			return 1;
	}
	return 0;
}

static __always_inline int is_wanted_thread(struct task_struct *task)
{
	u32 tgid = process_number(task, task->tgid);

	if (config.filter && !bpf_map_lookup_elem(&targets, &tgid))
		return 0;
	if (config.names && !has_name(task))
		return 0;
	return !config.group || is_in_group(task);
}

// Children of recorded processes are recorded, too, from their first instruction on.
SEC("raw_tp/task_newtask")
int BPF_PROG(on_fork, struct task_struct *child, u64 clone_flags)
{
	struct task_struct *parent = bpf_get_current_task_btf();
	u32 pid = process_number(child, BPF_CORE_READ(child, tgid)), one = 1;
	u32 parent_pid = process_number(parent, parent->tgid);

	if (pid != parent_pid && config.inherit && bpf_map_lookup_elem(&targets, &parent_pid))
		bpf_map_update_elem(&targets, &pid, &one, BPF_ANY);
	return 0;
}

#endif
