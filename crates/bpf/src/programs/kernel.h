// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Structures of the kernel, with only the members that the programs read. Where
// they are in the kernel that runs is found when the programs are loaded (CO-RE), so neither kernel
// headers nor a `vmlinux.h` are needed.

#ifndef PYROGRAPH_KERNEL_H
#define PYROGRAPH_KERNEL_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

typedef __u8 u8;
typedef __u16 u16;
typedef __s16 s16;
typedef __u32 u32;
typedef __s32 s32;
typedef __u64 u64;
typedef __s64 s64;
typedef _Bool bool;

// A number modulo a power of two: the index of an element. The compiler neither leaves the mask out, where it knows the number
// to be small enough already, nor scales the number before it is masked: the verifier of Linux 6.12 forgets the bounds of a
// number when a sum that was made with it is compared, and refuses it then ("math between mem pointer and register with
// unbounded min value").
static __always_inline u64 index_below(u64 count, u64 number)
{
	asm volatile("" : "+r"(number));
	number &= count - 1;
	asm volatile("" : "+r"(number));
	return number;
}

// The number of the highest bit that is set, of a number above 0.
static __always_inline u32 highest_bit(u64 number)
{
	u32 bit = 0;

	if (number >> 32)
		bit += 32, number >>= 32;
	if (number >> 16)
		bit += 16, number >>= 16;
	if (number >> 8)
		bit += 8, number >>= 8;
	if (number >> 4)
		bit += 4, number >>= 4;
	if (number >> 2)
		bit += 2, number >>= 2;
	if (number >> 1)
		bit += 1;
	return bit;
}

// Returns true if an index is below a number. What is compared is what is used, and not what the compiler has made of it
// before.
#define IS_BELOW(count, index)                                                                     \
	({                                                                                         \
		asm volatile("" : "+r"(index));                                                    \
		(index) < (count);                                                                 \
	})

// A number in a structure of the kernel, of whatever size it is there. It may be a bit field (`task_struct.on_cpu` is one since
// Linux 7.2), of which a plain read is refused. 0 where the structure lacks it.
#define NUMBER_IN(structure, member)                                                               \
	(bpf_core_field_exists((structure)->member) ? BPF_CORE_READ_BITFIELD(structure, member) : 0)

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

// `struct pt_regs` of arch/x86/include/asm/ptrace.h, by its names inside of the kernel.
struct pt_regs {
	unsigned long r15, r14, r13, r12, bp, bx;
	unsigned long r11, r10, r9, r8, ax, cx, dx, si, di;
	unsigned long orig_ax, ip, cs, flags, sp, ss;
};

struct maple_tree {
	void *ma_root;
};

struct maple_metadata {
	unsigned char end;
};

struct maple_range_64 {
	unsigned long pivot[15];
	void *slot[16];
	struct maple_metadata meta;
};

struct maple_arange_64 {
	unsigned long pivot[9];
	void *slot[10];
	struct maple_metadata meta;
};

struct seqcount {
	unsigned int sequence;
};

struct rb_node {
	struct rb_node *rb_right;
	struct rb_node *rb_left;
};

struct rb_root {
	struct rb_node *rb_node;
};

struct mm_struct {
	unsigned long arg_start;
	unsigned long arg_end;
	// Linux 6.1 and newer
	struct maple_tree mm_mt;
	// older
	struct rb_root mm_rb;
	// Linux 6.13 and newer: odd while mappings are being changed.
	struct seqcount mm_lock_seq;
	struct {
		void *vdso;
	} context;
	unsigned long end_code;
	unsigned long start_stack;
};

struct super_block {
	u32 s_dev;
};

struct timespec64 {
	s64 tv_sec;
	long tv_nsec;
};

struct inode {
	unsigned short i_mode;
	struct super_block *i_sb;
	unsigned long i_ino;
	s64 i_size;
	// Linux 6.11 and newer
	s64 i_ctime_sec;
	u32 i_ctime_nsec;
	// Linux 6.6 to 6.10
	struct timespec64 __i_ctime;
	// older
	struct timespec64 i_ctime;
};

struct file {
	struct inode *f_inode;
};

struct vm_area_struct {
	unsigned long vm_start;
	unsigned long vm_end;
	unsigned long vm_flags;
	unsigned long vm_pgoff;
	struct file *vm_file;
	// Linux 6.0 and older
	struct rb_node vm_rb;
};

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

struct kernfs_node {
	u64 id;
};

struct cgroup {
	int level;
	struct kernfs_node *kn;
	// Linux 6.1 and newer
	struct cgroup *ancestors[1];
	// older
	u64 ancestor_ids[1];
};

struct css_set {
	struct cgroup *dfl_cgrp;
};

struct sched_entity {
	u64 sum_exec_runtime;
};

// A call of a function whose return is probed, and the one that it was made in.
struct return_instance {
	unsigned long stack;
	unsigned long orig_ret_vaddr;
	struct return_instance *next;
};

struct uprobe_task {
	struct return_instance *return_instances;
};

struct pid_namespace;

// A number of a task: one for each PID namespace that it can be seen in.
struct upid {
	int nr;
	struct pid_namespace *ns;
};

struct pid {
	// The depth of the innermost of these namespaces; that of the machine is 0.
	unsigned int level;
	struct upid numbers[1];
};

struct thread_struct {
	unsigned long fsbase;
};

struct task_struct {
	struct thread_struct thread;
	struct sched_entity se;
	struct css_set *cgroups;
	int pid;
	int tgid;
	unsigned int flags;
	unsigned int __state;
	int on_cpu;
	unsigned int in_iowait : 1;
	struct mm_struct *mm;
	// How often it has executed a program.
	u64 self_exec_id;
	struct files_struct *files;
	struct uprobe_task *utask;
	struct task_struct *group_leader;
	u64 start_time;
	int exit_code;
	struct pid *thread_pid;
	char comm[16];
};

// Linux 5.18 and newer; the event of older ones has no state of the thread that stops to run.
typedef void (*btf_trace_sched_switch)(void *, bool, struct task_struct *, struct task_struct *,
				       unsigned int);

struct kernel_siginfo {
	int si_code;
};

struct k_sigaction;

struct linux_binprm {
	struct file *file;
};

struct request {
	unsigned int __data_len;
};

struct sock_common {
	unsigned short skc_family;
};

struct sock {
	struct sock_common __sk_common;
	u16 sk_protocol;
};

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

#pragma clang attribute pop

// The context of a `perf_event` program (include/uapi/linux/bpf_perf_event.h), where nothing ever moves.
struct event_context {
	u64 r15, r14, r13, r12, bp, bx;
	u64 r11, r10, r9, r8, ax, cx, dx, si, di;
	u64 orig_ax, ip, cs, flags, sp, ss;
	u64 sample_period;
	u64 addr;
};

// Kinds of nodes of the kernel's trees of mappings.
enum maple_type { maple_dense, maple_leaf_64, maple_range_64, maple_arange_64 };

#define VM_EXEC 4

#define PF_EXITING 4
#define PF_KTHREAD 0x00200000

#define TASK_RUNNING 0
#define TASK_INTERRUPTIBLE 1
#define TASK_UNINTERRUPTIBLE 2

#define S_IFMT 0170000
#define S_IFREG 0100000

// The code segment of 64-bit programs.
#define CODE_64 0x33

// System calls of x86-64.
#define NR_RT_SIGRETURN 15
#define NR_SENDFILE 40
#define NR_EXECVE 59
#define NR_EXIT 60
#define NR_FUTEX 202
#define NR_EXIT_GROUP 231
#define NR_SPLICE 275
#define NR_EXECVEAT 322
#define NR_COPY_FILE_RANGE 326

static __always_inline void increment(u64 *counter)
{
	__sync_fetch_and_add(counter, 1);
}

#endif
