// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Storage of tasks that can be made at any time. The kernel refuses to make one (BPF_LOCAL_STORAGE_GET_F_CREATE) while it
// makes or frees that of another task on the same CPU and was interrupted or preempted there, as happens when other
// recordings begin and end; and where interrupts are off and no memory is ready. Then a task has its value in a table,
// until it ends. Whoever includes this has `state.spares`.

#ifndef PYROGRAPH_TASK_STORAGE_H
#define PYROGRAPH_TASK_STORAGE_H

// Another task in the same place started at another time.
struct spare_key {
	u64 task;
	u64 started;
};

// Defines the maps, and functions for the value of a task: known_… is the one that it has, or NULL; made_… makes it if there
// is none, and is NULL if the table is full, too; forget_… is for a task that ends.
#define TASK_STORAGE(name, value_type, most_spares)                                                             \
	struct {                                                                                                \
		__uint(type, BPF_MAP_TYPE_TASK_STORAGE);                                                        \
		__uint(map_flags, BPF_F_NO_PREALLOC);                                                           \
		__type(key, int);                                                                               \
		__type(value, value_type);                                                                      \
	} name##s SEC(".maps");                                                                                 \
                                                                                                                \
	struct {                                                                                                \
		__uint(type, BPF_MAP_TYPE_HASH);                                                                \
		__uint(max_entries, most_spares);                                                               \
		__type(key, struct spare_key);                                                                  \
		__type(value, value_type);                                                                      \
	} spare_##name##s SEC(".maps");                                                                         \
                                                                                                                \
	/* Too large for the stack of a program. */                                                             \
	struct {                                                                                                \
		__uint(type, BPF_MAP_TYPE_ARRAY);                                                               \
		__uint(max_entries, 1);                                                                         \
		__type(key, u32);                                                                               \
		__type(value, value_type);                                                                      \
	} no_##name SEC(".maps");                                                                               \
                                                                                                                \
	static __always_inline value_type *known_##name(struct task_struct *task)                               \
	{                                                                                                       \
		value_type *value = bpf_task_storage_get(&name##s, task, NULL, 0);                              \
		struct spare_key key;                                                                           \
                                                                                                                \
		if (value || !state.spares)                                                                     \
			return value;                                                                           \
		key.task = (u64)task;                                                                           \
		key.started = task->start_time;                                                                 \
		return bpf_map_lookup_elem(&spare_##name##s, &key);                                             \
	}                                                                                                       \
                                                                                                                \
	static __noinline long make_spare_##name(struct task_struct *task)                                      \
	{                                                                                                       \
		struct spare_key key = { .task = (u64)task, .started = task->start_time };                      \
		u32 zero = 0;                                                                                   \
		void *none = bpf_map_lookup_elem(&no_##name, &zero);                                            \
                                                                                                                \
		if (!none || bpf_map_update_elem(&spare_##name##s, &key, none, BPF_NOEXIST))                    \
			return 0;                                                                               \
		state.spares = 1;                                                                               \
		return 1;                                                                                       \
	}                                                                                                       \
                                                                                                                \
	static __always_inline value_type *made_##name(struct task_struct *task)                                \
	{                                                                                                       \
		value_type *value = known_##name(task);                                                         \
                                                                                                                \
		if (!value)                                                                                     \
			value = bpf_task_storage_get(&name##s, task, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);     \
		if (!value && make_spare_##name(task))                                                          \
			value = known_##name(task);                                                             \
		return value;                                                                                   \
	}                                                                                                       \
                                                                                                                \
	static __always_inline void forget_##name(struct task_struct *task)                                     \
	{                                                                                                       \
		struct spare_key key = { .task = (u64)task, .started = task->start_time };                      \
                                                                                                                \
		if (state.spares)                                                                               \
			bpf_map_delete_elem(&spare_##name##s, &key);                                            \
	}

#endif
