// SPDX-License-Identifier: MIT OR Apache-2.0
//
// In place of libbpf's header, for programs that are compiled for user space: see ../unwind.c.

#ifndef PYROGRAPH_USER_SPACE_HELPERS_H
#define PYROGRAPH_USER_SPACE_HELPERS_H

#include <linux/bpf.h>
#include <string.h>

#define SEC(name)
#undef __always_inline
#define __always_inline inline __attribute__((always_inline))
#define __noinline __attribute__((noinline, unused))
#ifndef NULL
#define NULL ((void *)0)
#endif

// Declarations of maps: as libbpf has them.
#define __uint(name, value) int (*name)[value]
#define __type(name, value) __typeof__(value) *name
#define __array(name, value) __typeof__(value) *name[]

// The helpers that unwinding makes use of.
void *user_lookup(void *map, const void *key);
long user_read(void *to, __u32 size, __u64 address);
__u64 user_registers(void);
void *user_task(void);

static inline void *bpf_map_lookup_elem(void *map, const void *key)
{
	return user_lookup(map, key);
}

// Nothing is added to maps.
static inline long bpf_map_update_elem(void *map, const void *key, const void *value, __u64 flags)
{
	return -1;
}

static inline long bpf_map_delete_elem(void *map, const void *key)
{
	return -1;
}

static inline long bpf_ringbuf_output(void *ring, void *data, __u64 size, __u64 flags)
{
	return -1;
}

static inline void *bpf_ringbuf_reserve(void *ring, __u64 size, __u64 flags)
{
	return NULL;
}

static inline void bpf_ringbuf_submit(void *data, __u64 flags)
{
}

static inline void bpf_ringbuf_discard(void *data, __u64 flags)
{
}

static inline __u64 bpf_ringbuf_query(void *ring, __u64 flags)
{
	return 0;
}

static inline __u64 bpf_ktime_get_ns(void)
{
	return 0;
}

// Of the process that is unwound.
static inline long bpf_probe_read_user(void *to, __u32 size, const void *address)
{
	return user_read(to, size, (__u64)address);
}

static inline long bpf_copy_from_user_task(void *to, __u32 size, const void *address, void *task, __u64 flags)
{
	return user_read(to, size, (__u64)address);
}

// Of the kernel: that is memory of ours.
static inline long bpf_probe_read_kernel(void *to, __u32 size, const void *address)
{
	memcpy(to, address, size);
	return 0;
}

static inline long bpf_task_pt_regs(void *task)
{
	return (long)user_registers();
}

static inline void *bpf_get_current_task_btf(void)
{
	return user_task();
}

#define bpf_loop(turns, function, context, flags)                                                  \
	({                                                                                         \
		__u64 turn = 0;                                                                    \
		while (turn < (turns) && !function(turn, context))                                 \
			turn++;                                                                    \
		(long)turn;                                                                        \
	})

// Instead of that on older kernels: never called here.
#define bpf_for_each_map_elem(map, function, context, flags) ((void)(function))

#endif
