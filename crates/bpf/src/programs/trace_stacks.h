// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Stacks of traced threads: registers and the stack itself, which user space unwinds. Whoever includes this has `config`,
// `state` and the ring.

#ifndef PYROGRAPH_TRACE_STACKS_H
#define PYROGRAPH_TRACE_STACKS_H

#include "trace_record.h"

// Each CPU has one for calls, which threads make, and one for events, which may come in the midst of those.
enum stack_of { STACK_OF_CALL, STACK_OF_EVENT, STACKS_A_CPU };

// User space gives it as many rows as there are CPUs.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct stack);
} stacks SEC(".maps");

// Further away from the stack pointer, it is another stack that ends there.
#define LARGEST_STACK (64 << 20)
// The first frame's caller is not there: what is above that is read, too.
#define ABOVE_ROOT 64

// Where a thread's first frames end: below what the kernel gave to the program on its stack, or, as C libraries make the
// stacks of threads, below what `fs` points to.
static __always_inline u64 frames_end(struct task_struct *task, u64 sp)
{
	u64 end = BPF_CORE_READ(task, thread.fsbase);

	if (end > sp && end - sp <= LARGEST_STACK)
		return end + ABOVE_ROOT;
	end = BPF_CORE_READ(task, mm, start_stack);
	return end > sp && end - sp <= LARGEST_STACK ? end + ABOVE_ROOT : 0;
}

// Reads so many bytes more, if there are as many and all can be read. What it needs to know is in memory, of which the
// verifier does not follow the values: otherwise it would check each sequence of parts.
static __always_inline void read_part(struct stack *stack, u32 size)
{
	u64 done = *(volatile u32 *)&stack->len, limit = *(volatile u32 *)&stack->limit;

	asm volatile("" : "+r"(done));
	if (done > MAX_STACK - size || done + size > limit)
		return;
	if (!bpf_probe_read_user(stack->bytes + done, size, (void *)(stack->registers[7] + done)))
		*(volatile u32 *)&stack->len = done + size;
}

// Parts of all powers of two, the largest first: together they end where the stack does, or memory that can be read.
static __always_inline void read_parts(struct stack *stack)
{
	read_part(stack, 128 << 10);
	read_part(stack, 128 << 10);
	read_part(stack, 64 << 10);
	read_part(stack, 32 << 10);
	read_part(stack, 16 << 10);
	read_part(stack, 8 << 10);
	read_part(stack, 4096);
	read_part(stack, 2048);
	read_part(stack, 1024);
	read_part(stack, 512);
	read_part(stack, 256);
	read_part(stack, 128);
	read_part(stack, 64);
	read_part(stack, 32);
	read_part(stack, 16);
	read_part(stack, 8);
}

static __always_inline void read_user_stack(struct task_struct *task, struct stack *stack)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
	u64 *registers = stack->registers, from = regs->sp, left;

	stack->record.compat = is_compat(regs);
	registers[0] = regs->ax;
	registers[1] = regs->dx;
	registers[2] = regs->cx;
	registers[3] = regs->bx;
	registers[4] = regs->si;
	registers[5] = regs->di;
	registers[6] = regs->bp;
	registers[7] = regs->sp;
	registers[8] = regs->r8;
	registers[9] = regs->r9;
	registers[10] = regs->r10;
	registers[11] = regs->r11;
	registers[12] = regs->r12;
	registers[13] = regs->r13;
	registers[14] = regs->r14;
	registers[15] = regs->r15;
	registers[16] = regs->ip;
	stack->end = frames_end(task, from);
	left = stack->end ? stack->end - from : UNKNOWN_STACK;
	stack->limit = left < MAX_STACK ? left : MAX_STACK;
	read_parts(stack);
	if (stack->len == MAX_STACK && left > MAX_STACK + ROOT_STACK &&
	    !bpf_probe_read_user(stack->root_bytes, ROOT_STACK, (void *)(stack->end - ROOT_STACK)))
		stack->root = stack->end - ROOT_STACK;
}

static __always_inline struct stack *stack_here(enum stack_of of)
{
	u32 index = bpf_get_smp_processor_id() * STACKS_A_CPU + of;
	struct stack *stack = bpf_map_lookup_elem(&stacks, &index);

	if (!stack)
		return NULL;
	stack->end = 0;
	stack->root = 0;
	stack->len = 0;
	stack->depth = 0;
	stack->registers[7] = 0;
	stack->registers[16] = 0;
	return stack;
}

// Sends a stack, which is that of this thread and of the record that comes next.
static __always_inline void send_stack(struct task_struct *task, struct stack *stack, struct call_record *of)
{
	u64 size;

	stack->record = *of;
	stack->record.kind = RECORD_STACK;
	stack->record.duration = of->time;
	stack->record.time = bpf_ktime_get_ns();
	if (!(task->flags & PF_KTHREAD) && task->mm)
		read_user_stack(task, stack);
	size = __builtin_offsetof(struct stack, bytes) + *(volatile u32 *)&stack->len + (stack->root ? ROOT_STACK : 0);
	// The value that is compared is the one that is passed.
	asm volatile("" : "+r"(size));
	if (size > sizeof(*stack))
		return;
	stack->record.used = size - sizeof(stack->record);
	of->stack = 1;
	// The record itself will say that it is lost, or that its stack is.
	bpf_ringbuf_output(&records, stack, size, BPF_RB_NO_WAKEUP);
}

// The same for a call or signal, whose part in the kernel says nothing.
static __always_inline void send_stack_of_call(struct task_struct *task, struct call_record *of)
{
	struct stack *stack;

	if (!config.stacks || of->stack)
		return;
	stack = stack_here(STACK_OF_CALL);
	if (stack)
		send_stack(task, stack, of);
}

#endif
