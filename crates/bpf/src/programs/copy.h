// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Stacks that cannot be unwound here to their end are copied to user space, registers and a piece of the stack:
// it has the tables of files whose rows are not made yet, more frames than are kept here, and it can wait for
// pages that are not in memory.

#ifndef PYROGRAPH_COPY_H
#define PYROGRAPH_COPY_H

#include "unwind.h"

// Returns true if user space may unwind further a stack that ended here. One left out by chance is not wanted,
// nor can 32-bit programs be unwound anywhere.
static __always_inline int may_copy(struct scratch *s)
{
	return config.copy_budget && s->end != END_ROOT && s->end != END_COMPAT &&
	       s->question.tgid != INVISIBLE;
}

// Returns true if the CPU has copied little enough lately to copy so many bytes more.
static __always_inline int is_in_budget(u64 bytes)
{
	u32 zero = 0;
	struct copying *copying = bpf_map_lookup_elem(&copying_budget, &zero);
	u64 now = bpf_ktime_get_ns();

	if (!copying)
		return 0;
	if (now - copying->since >= COPY_WINDOW_NS) {
		copying->since = now;
		copying->bytes = 0;
	}
	copying->bytes += bytes;
	return copying->bytes <= config.copy_budget;
}

// Copies what is between the stack pointer and the end of the stack's mapping, `size` bytes at most. A page that
// is not in memory ends it.
static __always_inline void read_stack(struct task_struct *other, struct copy *copy, u8 *to, u32 size)
{
	u64 from = copy->registers[RSP];

	copy->len = 0;
#pragma clang loop unroll(disable)
	for (u32 done = 0; done < size; done += 4096) {
		u64 left = copy->stack_end - from;
		u32 part = left < 4096 ? left : 4096;

		// The compiler knows the range, and the verifier has to see it.
		asm volatile("" : "+r"(part), "+r"(done));
		if (done > size - 4096)
			return;
		if (from >= copy->stack_end || part > 4096 ||
		    read_user(other, to + done, part, from))
			return;
		copy->len += part;
		from += part;
	}
}

// Where a thread's first frames end, if that is above `from`: below what the kernel gave to the program on its
// stack, or, as C libraries make the stacks of threads, below what `fs` points to.
static __always_inline u64 root_end(struct task_struct *task, u64 from, u64 stack_end)
{
	u64 end = BPF_CORE_READ(task, thread.fsbase);

	if (end > from && end <= stack_end)
		return end;
	end = BPF_CORE_READ(task, mm, start_stack);
	return end > from && end <= stack_end ? end : 0;
}

// Copies the outermost part of a stack of which not all was copied.
static __always_inline void read_root(struct task_struct *task, struct task_struct *other, struct copy *copy,
				      u8 *to)
{
	u64 copied = copy->registers[RSP] + copy->len;
	u64 end = root_end(task, copied + ROOT_COPY, copy->stack_end);

	if (copy->len == LARGE_COPY && end && !read_user(other, to, ROOT_COPY, end - ROOT_COPY))
		copy->root = end - ROOT_COPY;
}

static __always_inline void fill_copy(struct scratch *s, struct copy *copy, struct task_struct *task,
				      u64 stack_end)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
	u64 *registers = copy->registers;

	copy->time = bpf_ktime_get_ns();
	// Unlike any other: of this moment and thread.
	copy->hash = mix(mix(s->user.hash, copy->time), task->pid);
	copy->partial = s->user.hash;
	copy->tgid = s->question.tgid;
	copy->tid = thread_number(task, task->pid);
	copy->end = s->end;
	copy->called = s->leaf_called;
	read_registers(registers, regs);
	registers[16] = regs->ip;
	copy->stack_end = stack_end;
	copy->root = 0;
}

// Hands out a copy of sizes that the verifier knows. Returns the hash that stands for the stack; 0 if there was
// no room.
#define COPY_OF(size, root_size)                                                                   \
	do {                                                                                       \
		u64 whole = sizeof(struct copy) + (size) + (root_size);                            \
		struct copy *copy = bpf_ringbuf_reserve(&copies, whole, 0);                        \
                                                                                                   \
		if (!copy)                                                                         \
			return 0;                                                                  \
		fill_copy(s, copy, task, stack_end);                                               \
		read_stack(other, copy, (u8 *)(copy + 1), size);                                   \
		if ((root_size) > 0)                                                               \
			read_root(task, other, copy, (u8 *)(copy + 1) + (size));                   \
		hash = copy->hash;                                                                 \
		bpf_ringbuf_submit(copy, copy_flags(copy->len < bytes));                           \
	} while (0)

// Returns true if the CPU has not woken user space lately for what a copy lacks.
static __always_inline int may_wake(void)
{
	u32 zero = 0;
	struct copying *copying = bpf_map_lookup_elem(&copying_budget, &zero);
	u64 now = bpf_ktime_get_ns();

	if (!copying || now - copying->woken < WAKING_NS)
		return 0;
	copying->woken = now;
	return 1;
}

// User space is woken when a quarter of the ring is full, and at once when a copy lacks some of its stack, which has to be
// read before it changes; otherwise it looks now and then.
static __always_inline u64 copy_flags(int lacks)
{
	u64 full = bpf_ringbuf_query(&copies, BPF_RB_AVAIL_DATA);

	if (lacks && may_wake())
		return BPF_RB_FORCE_WAKEUP;
	return full * 4 >= bpf_ringbuf_query(&copies, BPF_RB_RING_SIZE) ? BPF_RB_FORCE_WAKEUP :
									    BPF_RB_NO_WAKEUP;
}

static __always_inline u64 hand_out(struct scratch *s, struct task_struct *task,
				    struct task_struct *other, u64 stack_end, u64 bytes)
{
	u64 hash;

	if (bytes <= SMALL_COPY)
		COPY_OF(SMALL_COPY, 0);
	else if (bytes <= MEDIUM_COPY)
		COPY_OF(MEDIUM_COPY, 0);
	else
		COPY_OF(LARGE_COPY, ROOT_COPY);
	return hash;
}

// Copies a stack that ended early in `s->user`; its hash is then what the stack is counted by. Returns 0 if it
// stays what it is.
static __always_inline int copy_of(struct scratch *s, struct task_struct *task, int is_other)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
	u64 sp = regs->sp, stack_end, bytes, hash;
	struct vm_area_struct *vma;

	if (!find_vma(s, sp))
		return 0;
	vma = (struct vm_area_struct *)s->vma;
	stack_end = BPF_CORE_READ(vma, vm_end);
	if (stack_end <= sp)
		return 0;
	bytes = stack_end - sp;
	hash = is_in_budget(bytes < LARGE_COPY ? bytes : LARGE_COPY) ?
		       hand_out(s, task, is_other ? task : NULL, stack_end, bytes) :
		       0;
	if (!hash) {
		increment(&state.copies_refused);
		return 0;
	}
	increment(&state.copied);
	s->blocked.key.user = hash;
	return 1;
}

// A global function: the verifier checks it once, and not for each program.
__noinline int copy_here(struct scratch *s)
{
	return s ? copy_of(s, bpf_get_current_task_btf(), 0) : 0;
}

static __always_inline int copy_stack(struct scratch *s, struct task_struct *task, int is_other)
{
	return is_other ? copy_of(s, task, 1) : copy_here(s);
}

#endif
