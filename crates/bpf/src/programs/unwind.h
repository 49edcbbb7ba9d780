// SPDX-License-Identifier: MIT OR Apache-2.0
//
// From a thread's user registers to the frames of its stack, by tables that Pyrograph made of the
// files' own.

#ifndef PYROGRAPH_UNWIND_H
#define PYROGRAPH_UNWIND_H

#include "languages/java_frames.h"
#include "mappings.h"
#include "tables.h"

#define ALL_REGISTERS 0xffff
#define PRESERVED (1 << RBX | 1 << RBP | 1 << RSP | 1 << R12 | 1 << R13 | 1 << R14 | 1 << R15)

// No hash is 0.
#define HASH_START 0x9e3779b97f4a7c15ull

static __always_inline u64 mix(u64 hash, u64 value)
{
	hash = (hash ^ value) * HASH_FACTOR;
	return hash ^ hash >> 32;
}

#include "again.h"

// bpf_loop's context has to be on the stack.
struct walk {
	struct scratch *s;
	// The thread, where it is not the current one.
	struct task_struct *other;
};

// Reads memory of the current thread, or of another: then the program may have to wait for a page, and
// must be one that can. Which it is, is known when this is compiled.
static __always_inline int read_user(struct task_struct *other, void *to, u32 size, u64 address)
{
	if (other)
		return bpf_copy_from_user_task(to, size, (const void *)address, other, 0);
	return bpf_probe_read_user(to, size, (const void *)address);
}

static __always_inline void push(struct scratch *s, u64 frame)
{
	u64 at = s->user.len;

	if (!IS_BELOW(MAX_FRAMES, at))
		return;
	s->user.frames[at] = frame;
	s->sps[at] = s->registers[RSP];
	s->fps[at] = s->registers[RBP];
	s->blobs[at] = 0;
	s->user.len = at + 1;
	s->user.hash = mix(s->user.hash, frame);
}

static __always_inline int stop(struct scratch *s, u64 end)
{
	s->end = end;
	return 1;
}

// The caller's frame pointer and the return address are where the frame pointer points to.
static __always_inline int by_frame_pointer(struct scratch *s, struct task_struct *other)
{
	u64 sp = s->registers[RSP], fp = s->registers[RBP];

	// The ABI's mark of the first frame is a zero, but where frame pointers are not kept it is only a zero.
	if (fp < sp || fp & 7 || fp - sp > 1 << 23)
		return stop(s, END_NO_RULE);
	if (read_user(other, s->words, 16, fp))
		return stop(s, END_UNREADABLE);
	if (!s->words[1])
		return stop(s, s->words[0] ? END_NO_RULE : END_ROOT);
	s->registers[RBP] = s->words[0];
	s->registers[RSP] = fp + 16;
	s->known = 1 << RBP | 1 << RSP;
	s->ip = s->words[1];
	s->called = 1;
	s->chained = 1;
	return 0;
}

// `struct rt_sigframe` (arch/x86/include/asm/sigframe.h) above its first word: in a `struct
// ucontext` the interrupted thread's registers, from byte 40 on as in `struct sigcontext_64`.
static __always_inline int leave_signal_frame(struct scratch *s, struct task_struct *other)
{
	u64 at = s->registers[RSP] + 40;
	u64 *registers = s->registers;

	if (read_user(other, s->words, 64, at))
		return stop(s, END_UNREADABLE);
	registers[R8] = s->words[0];
	registers[R9] = s->words[1];
	registers[R10] = s->words[2];
	registers[R11] = s->words[3];
	registers[R12] = s->words[4];
	registers[R13] = s->words[5];
	registers[R14] = s->words[6];
	registers[R15] = s->words[7];
	if (read_user(other, s->words, 64, at + 64))
		return stop(s, END_UNREADABLE);
	registers[RDI] = s->words[0];
	registers[RSI] = s->words[1];
	registers[RBP] = s->words[2];
	registers[RBX] = s->words[3];
	registers[RDX] = s->words[4];
	registers[RAX] = s->words[5];
	registers[RCX] = s->words[6];
	registers[RSP] = s->words[7];
	if (read_user(other, s->words, 8, at + 128))
		return stop(s, END_UNREADABLE);
	s->ip = s->words[0];
	s->known = ALL_REGISTERS;
	s->called = 0;
	s->chained = 0;
	return 0;
}

// Restores one register. Compilers do not note when an epilogue has restored it, only that the stack
// pointer is above where it was saved.
static __always_inline void restore(struct scratch *s, struct task_struct *other, int reg,
				     u8 words, u64 base, u64 sp)
{
	u64 at = base - 8 * (u64)words;

	if (!words || at < sp)
		return;
	if (words <= 7)
		s->registers[reg] = s->words[index_below(8, 7 - words)];
	else if (!read_user(other, &s->words[7], 8, at))
		s->registers[reg] = s->words[7];
}

// The C library's `vfork` keeps its return address in a register while its child uses the stack.
static __always_inline int leave_by_register(struct scratch *s, u64 reg, s32 offset)
{
	if (offset < 0 || !(s->known >> reg & 1))
		return stop(s, END_BAD_RULE);
	s->ip = s->registers[reg];
	s->registers[RSP] += offset;
	s->known &= PRESERVED;
	s->called = 1;
	s->chained = 0;
	return s->ip ? 0 : stop(s, END_ROOT);
}

// Returns true if 8 bytes of code end with a call: `call rel32`, or `call *…` of any length (Intel SDM, volume 2: `FF /2`;
// table 2-2 for how many bytes its operand has). A global function: the verifier checks it once, and not for each way to it.
__noinline int ends_with_call(u64 code)
{
	if ((code >> 24 & 0xff) == 0xe8)
		return 1;
	// Of so many bytes: the operation, the ModR/M byte, and the operand.
	for (u32 len = 2; len <= 7; len++) {
		u32 modrm = code >> (8 * (9 - len)) & 0xff, sib = code >> (8 * (10 - len)) & 0xff;
		u32 mode = modrm >> 6, base = modrm & 7, has_sib = mode != 3 && base == 4;
		u32 no_base = base == 5 || (has_sib && (sib & 7) == 5);
		u32 displacement = mode == 1 ? 1 : mode == 2 || (!mode && no_base) ? 4 : 0;

		if ((code >> (8 * (8 - len)) & 0xff) == 0xff && (modrm >> 3 & 7) == 2 &&
		    len == 2 + has_sib + displacement)
			return 1;
	}
	return 0;
}

// A frame was left by its instructions: the result is accepted if it leads behind a call. User space has other
// ways to go on if not.
__noinline int is_behind_call(struct scratch *s)
{
	u64 code;

	return s && !bpf_probe_read_user(&code, 8, (const void *)(s->ip - 8)) && ends_with_call(code);
}

static __always_inline int leads_behind_call(struct scratch *s, struct task_struct *other)
{
	u64 code;

	if (other)
		return !read_user(other, &code, 8, s->ip - 8) && ends_with_call(code);
	return is_behind_call(s);
}

// From a function of Go that runs on the stack of the thread to that of the goroutine for which it does: its canonical frame
// address, or 0. See `Goroutine` of the crate unwind.
static __always_inline u64 goroutine_frame(struct scratch *s, struct task_struct *other, struct rule *rule)
{
	u64 *words = s->words;

	if (rule->kind == RULE_GOROUTINE) {
		if (!(s->known >> R14 & 1) || read_user(other, words, 8, s->registers[R14] + 0x30) ||
		    read_user(other, words, 8, words[0] + (s64)rule->offset) ||
		    read_user(other, words, 8, words[0] + 0x38))
			return 0;
		return words[0] + (s64)rule->add;
	}
	if (read_user(other, words, 8, s->registers[RSP] + rule->base) ||
	    read_user(other, words + 1, 8, s->registers[RSP] + (s64)rule->offset))
		return 0;
	if (!words[1])
		return words[0] + (s64)rule->add;
	if (read_user(other, words + 1, 8, words[1] + 8))
		return 0;
	return words[1] - words[0] + (s64)rule->add;
}

static __always_inline int check_guess(struct scratch *s, struct task_struct *other, u8 flags)
{
	if (!leads_behind_call(s, other))
		return stop(s, END_NO_RULE);
	s->guessed = 1;
	s->known &= ~((flags & 2 ? 1 << RBP : 0) | (flags & 4 ? 1 << RBX : 0) |
		      (flags & 8 ? 1 << R12 : 0) | (flags & 16 ? 1 << R13 : 0) |
		      (flags & 32 ? 1 << R14 : 0) | (flags & 64 ? 1 << R15 : 0));
	return 0;
}

static __always_inline int apply(struct scratch *s, struct task_struct *other,
				 struct rule *rule)
{
	u64 sp = s->registers[RSP], cfa, base, return_address;
	u64 reg = index_below(16, rule->base);
	int saves, whole;

	if (config.no_guess && rule->flags & RULE_GUESS)
		return by_frame_pointer(s, other);
	switch (rule->kind) {
	case RULE_NONE:
		return by_frame_pointer(s, other);
	case RULE_ROOT:
		return stop(s, END_ROOT);
	case RULE_SIGNAL:
		return leave_signal_frame(s, other);
	case RULE_LINK:
		return leave_by_register(s, reg, rule->offset);
	case RULE_PLT:
		cfa = sp + 8 + ((s->ip & 15) >= reg ? 8 : 0);
		break;
	case RULE_OFFSET:
	case RULE_DEREF:
		if (!(s->known >> reg & 1))
			return stop(s, END_BAD_RULE);
		cfa = s->registers[reg] + (s64)rule->offset;
		// On another stack, anywhere.
		if (rule->kind == RULE_OFFSET && rule->add)
			sp = 0;
		if (rule->kind == RULE_DEREF) {
			if (read_user(other, s->words, 8, cfa))
				return stop(s, END_UNREADABLE);
			cfa = s->words[0] + (s64)rule->add;
		}
		break;
	case RULE_GOROUTINE:
	case RULE_KEPT_GOROUTINE:
		cfa = goroutine_frame(s, other, rule);
		sp = 0;
		break;
	default:
		return stop(s, END_BAD_RULE);
	}
	// A frame holds at least its return address: stacks that lead nowhere are cut here.
	if (cfa <= sp || cfa & 7)
		return stop(s, END_BAD_RULE);

	// The six registers that a function preserves are most often right below the return address. One
	// read of all costs what one word costs.
	saves = (*(u64 *)rule->saved & 0xffffffffffffull) != 0;
	base = rule->below_fp ? s->registers[RBP] + 8 : cfa;
	whole = saves && base == cfa && !read_user(other, s->words, 56, cfa - 56);
	if (!whole && read_user(other, &s->words[6], 8, cfa - 8))
		return stop(s, END_UNREADABLE);
	return_address = s->words[6];
	if (saves) {
		if (!whole && read_user(other, s->words, 56, base - 56)) {
			// A page without memory is just below.
			for (int i = 0; i < 7; i++)
				if (read_user(other, &s->words[i], 8, base - 56 + 8 * i))
					s->words[i] = 0;
		}
		if (!rule->below_fp || (base - 8 >= sp && base <= cfa)) {
			restore(s, other, RBP, rule->saved[0], base, sp);
			restore(s, other, RBX, rule->saved[1], base, sp);
			restore(s, other, R12, rule->saved[2], base, sp);
			restore(s, other, R13, rule->saved[3], base, sp);
			restore(s, other, R14, rule->saved[4], base, sp);
			restore(s, other, R15, rule->saved[5], base, sp);
		}
	}
	s->registers[RSP] = cfa;
	s->known &= PRESERVED;
	s->ip = return_address;
	s->called = 1;
	s->chained = 0;
	if (rule->flags & RULE_GUESS)
		return check_guess(s, other, rule->flags);
	return return_address ? 0 : stop(s, END_ROOT);
}

// Where a function whose return is probed has its return address, the kernel has put one of its own. It keeps what
// was there, and where that is: so many calls in one another at most.
#define MAX_RETURNS 64

// Finds what was there in place of a return address, if it was put there by the kernel.
__noinline int find_return(struct scratch *s)
{
	struct return_instance *call;
	u64 place;

	// Kernels without uprobes verify this, too.
	if (!s || !bpf_core_type_exists(struct return_instance))
		return 0;
	call = (struct return_instance *)s->returns;
	place = s->registers[RSP] - 8;
	for (int i = 0; i < MAX_RETURNS && call; i++) {
		if (BPF_CORE_READ(call, stack) == place) {
			s->ip = BPF_CORE_READ(call, orig_ret_vaddr);
			// Those before it were made in it.
			s->returns = (u64)call;
			return 1;
		}
		call = BPF_CORE_READ(call, next);
	}
	return 0;
}

// Finds the mapping of the frame's code.
static __always_inline int find_code(struct scratch *s)
{
	int found = find_mapping(s, s->ip - s->called);

	if (found && s->mapping.module != MODULE_ANONYMOUS)
		return 1;
	if (!s->returns || !s->called || !find_return(s))
		return found;
	return find_mapping(s, s->ip - 1);
}

// Notes that an interpreter has code in the stack.
static __always_inline void note_interpreter(struct scratch *s)
{
	note_row(s, s->mapping.interpreter - 1, s->mapping.to_frame);
}

#include "languages/luajit_frames.h"

// One frame: notes it, and goes to its caller. Returns 1 at the end.
static __always_inline int step(struct scratch *s, struct task_struct *other)
{
	struct rule *rule;
	u64 address, end;
	int found;

	if (s->user.len >= MAX_FRAMES)
		return stop(s, END_TOO_MANY);
	if (!other && s->again.place)
		return go_on_again(s);
	if (!other && s->again.tries && s->user.len && begin_again(s))
		return 0;
	found = find_code(s);
	address = s->ip - s->called;
	if (!found) {
		// Where it was interrupted is a frame all the same; what a walk comes to is none.
		if (!s->user.len)
			push(s, (u64)MODULE_UNKNOWN << FRAME_SHIFT |
				    (address & ((1ull << FRAME_SHIFT) - 1)));
		return stop(s, END_NO_MAPPING);
	}
	if (s->mapping.module == MODULE_ANONYMOUS)
		s->has_made = 1;
	if (s->mapping.interpreter)
		note_interpreter(s);
	rule = find_rule(s, address, &end);
	// Nothing was called where a signal handler returns to, or where a stack was prepared to return.
	if (rule && s->called && (rule->kind == RULE_SIGNAL || rule->kind == RULE_ROOT))
		address += rule->add;
	push(s, (u64)s->mapping.module << FRAME_SHIFT |
		    ((address + s->mapping.to_frame) & ((1ull << FRAME_SHIFT) - 1)));
	if (!other)
		note_frame(s, rule ? words_to_fp(rule) : NOT_AGAIN);
	if (state.luajit && (s->mapping.interpreter || s->mapping.module == MODULE_ANONYMOUS) &&
	    (other ? leave_luajit(s, other) : leave_luajit_here(s)))
		return 0;
	if (s->mapping.module == MODULE_ANONYMOUS) {
		address = s->ip - s->called;
		found = other ? leave_java_of_other(s, other, address) : leave_java_here(s, address);
		if (found != NOT_JAVA)
			return found;
	}
	if (!rule)
		return stop(s, end);
	return apply(s, other, rule);
}

__noinline int step_here(struct scratch *s)
{
	return s ? step(s, NULL) : 1;
}

// What a loop's step returns: the compiler sees that it is 0 or 1, the verifier does not.
static __always_inline long end_of_loop(int done)
{
	asm volatile("" : "+r"(done));
	return done & 1;
}

static long step_current(u64 index, struct walk *walk)
{
	return end_of_loop(step_here(walk->s));
}

static long step_other(u64 index, struct walk *walk)
{
	return end_of_loop(step(walk->s, walk->other));
}

// A frame each, and those that were taken over from the last stack and given back.
#define MOST_STEPS (MAX_FRAMES + 1 + MOST_AGAIN)

// The range of a loop without `bpf_loop`.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MOST_STEPS);
	__type(key, u32);
	__type(value, u8);
} steps SEC(".maps");

static long step_over(void *map, u32 *key, u8 *value, struct walk *walk)
{
	return step_current(*key, walk);
}

// Goes from frame to frame until the last one. Before Linux 5.17 there is no loop but over a map's rows.
static __always_inline void walk_current(struct walk *walk)
{
	if (bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_loop))
		bpf_loop(MOST_STEPS, step_current, walk, 0);
	else
		bpf_for_each_map_elem(&steps, step_over, walk, 0);
}

// Returns true if a thread is still in the `execve` that has made its registers those of a new program: they are
// zeros but for where it begins. In any other system call, `rcx` is the address to return to.
static __always_inline int is_new_program(struct pt_regs *regs)
{
	return !regs->cx && (regs->orig_ax == NR_EXECVE || regs->orig_ax == NR_EXECVEAT);
}

// Returns true if a thread is in an `execve` that has removed the old program, and has not come to where the
// new one begins: its registers are the old one's, its memory is the new one's, and it has no user stack.
// Where the new one's code ends is noted last; then its registers are made zeros, and then set.
static __always_inline int is_between_programs(struct scratch *s, struct pt_regs *regs)
{
	struct mm_struct *mm = (struct mm_struct *)s->mm;

	return !BPF_CORE_READ(mm, end_code) ||
	       (is_new_program(regs) && regs->sp != BPF_CORE_READ(mm, start_stack));
}

// The last call of a thread of a function whose return is probed, if there is one.
static __always_inline u64 last_probed_call(struct task_struct *task)
{
	struct uprobe_task *probes;

	if (!bpf_core_field_exists(task->utask))
		return 0;
	probes = BPF_CORE_READ(task, utask);
	return probes ? (u64)BPF_CORE_READ(probes, return_instances) : 0;
}

// In place of a stack that is not taken.
static __always_inline void leave_out(struct scratch *s)
{
	s->user.len = 0;
	s->user.hash = HASH_START;
	push(s, (u64)MODULE_END << FRAME_SHIFT | END_NOT_TAKEN);
}

// Registers with which a thread has entered the kernel.
static __always_inline void read_registers(u64 *registers, struct pt_regs *regs)
{
	registers[RAX] = regs->ax;
	registers[RDX] = regs->dx;
	registers[RCX] = regs->cx;
	registers[RBX] = regs->bx;
	registers[RSI] = regs->si;
	registers[RDI] = regs->di;
	registers[RBP] = regs->bp;
	registers[RSP] = regs->sp;
	registers[R8] = regs->r8;
	registers[R9] = regs->r9;
	registers[R10] = regs->r10;
	registers[R11] = regs->r11;
	registers[R12] = regs->r12;
	registers[R13] = regs->r13;
	registers[R14] = regs->r14;
	registers[R15] = regs->r15;
}

// Unwinds the user stack of a thread, the current one or another that does not run, into `s->user`.
// Wherever it was interrupted, its registers are where it entered the kernel. Returns 0 if it has no user
// stack.
static __always_inline int unwind_user(struct scratch *s, struct task_struct *task, int is_other)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
	struct walk walk = { .s = s, .other = is_other ? task : NULL };
	u64 *registers = s->registers;

	enter_process(s, task);
	if (is_between_programs(s, regs))
		return 0;
	s->last_module = MODULE_UNKNOWN;
	s->user.len = 0;
	s->user.hash = HASH_START;
	s->end = END_NO_MAPPING;
	s->returns = last_probed_call(task);
	s->ip = regs->ip;
	read_registers(registers, regs);
	s->known = ALL_REGISTERS;
	// In a system call, the instruction that made it is before the address to return to.
	s->called = (s64)regs->orig_ax >= 0 && !is_new_program(regs);
	s->chained = 0;
	s->leaf_called = s->called;
	s->has_made = 0;
	s->guessed = 0;
	s->found = 0;
	s->luajit.number = 0;
	start_again(s, !is_other && !s->returns);
	if (s->java.state == JAVA_NONE)
		s->java.state = JAVA_UNKNOWN;
	// The code segment of 64-bit programs; read as a whole word, for that is how the verifier wants it.
	if ((*(volatile unsigned long *)&regs->cs & 0xff) != 0x33) {
		// Where it was interrupted has a name all the same.
		u64 address = s->ip - s->called;
		int found = find_mapping(s, address);

		push(s, (u64)(found ? s->mapping.module : MODULE_UNKNOWN) << FRAME_SHIFT |
			    ((address + (found ? s->mapping.to_frame : 0)) & ((1ull << FRAME_SHIFT) - 1)));
		s->end = END_COMPAT;
	} else if (is_other) {
		bpf_loop(MAX_FRAMES + 1, step_other, &walk, 0);
	} else {
		walk_current(&walk);
		keep_for_again(s);
	}
	if (s->end == END_PENDING && s->question.tgid == INVISIBLE)
		s->end = END_INVISIBLE;
	if (s->end != END_ROOT || s->guessed) {
		// In place of the last frame, if there are too many.
		if (s->user.len >= MAX_FRAMES)
			s->user.len = MAX_FRAMES - 1;
		push(s, (u64)MODULE_END << FRAME_SHIFT | s->end | (s->guessed ? END_GUESSED : 0));
	}
	return 1;
}

#endif
