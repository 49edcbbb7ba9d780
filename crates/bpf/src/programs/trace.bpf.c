// SPDX-License-Identifier: MIT OR Apache-2.0
//
// System calls, one by one or counted. A call is put together in the storage of its thread: its arguments, and what
// these point to, when it begins; its result, and what it has written, when it returns. Then it goes to the ring as a
// whole, so that nothing has to be put together again in user space.

#include "trace.h"

const volatile struct config config = {};
struct state state = {};

#include "targets.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

// What to copy of each call, and behind these of each call of 32-bit programs.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2 * MAX_CALLS);
	__type(key, u32);
	__type(value, struct call_plan);
} plans SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 26);
} records SEC(".maps");

// The call that a thread is in.
struct call {
	struct call_record record;
	// A copy begins below `MAX_COPIED`.
	u8 copied[MAX_COPIED + 32 + MAX_COPY];
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct call);
} calls SEC(".maps");

// The same where calls are counted.
struct begun {
	u64 time;
	u32 number;
	u32 compat;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct begun);
} begun SEC(".maps");

// Two tables of counts: while one is written to, the other is read and emptied.
struct rows {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct row_key);
	__type(value, struct row);
};

struct rows rows_0 SEC(".maps");
struct rows rows_1 SEC(".maps");

struct errors {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct error_key);
	__type(value, u64);
};

struct errors errors_0 SEC(".maps");
struct errors errors_1 SEC(".maps");

// A row before anything was counted: never written to.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct row);
} empty SEC(".maps");

// User space is woken when enough waits for it.
static __always_inline u64 wakeup(void)
{
	return bpf_ringbuf_query(&records, BPF_RB_AVAIL_DATA) > config.wake ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP;
}

static __always_inline int is_compat(struct pt_regs *regs)
{
	// Read as a whole word, for that is how the verifier wants it.
	return (*(volatile unsigned long *)&regs->cs & 0xff) != CODE_64;
}

// Returns true if calls of a number are traced. Those of 32-bit programs are if all are.
static __always_inline int is_wanted(u64 number, int compat)
{
	if (compat)
		return config.compat;
	return number < MAX_CALLS && config.calls[index_below(8, number >> 6)] >> (number & 63) & 1;
}

// Returns true for the process that is about to become the command, before it has.
static __always_inline int becomes_command(struct task_struct *task)
{
	return state.command && state.on && process_number(task, task->tgid) == state.command;
}

static __always_inline void read_arguments(u64 *to, struct pt_regs *regs, int compat)
{
	to[0] = compat ? regs->bx : regs->di;
	to[1] = compat ? regs->cx : regs->si;
	to[2] = regs->dx;
	to[3] = compat ? regs->si : regs->r10;
	to[4] = compat ? regs->di : regs->r8;
	to[5] = compat ? regs->bp : regs->r9;
	// The kernel takes the lower half of each.
	for (int i = 0; compat && i < 6; i++)
		to[i] = (u32)to[i];
}

#include "trace_arguments.h"

static __always_inline void send(struct call *call)
{
	u64 size = sizeof(call->record) + call->record.used;

	// The value that is compared is the one that is passed.
	asm volatile("" : "+r"(size));
	if (size > sizeof(*call))
		return;
	if (bpf_ringbuf_output(&records, call, size, wakeup()))
		increment(&state.lost);
}

static __always_inline struct call_record *other_record(struct task_struct *task, u32 kind, u32 number,
							struct call_record *record)
{
	record->time = bpf_ktime_get_ns();
	record->tgid = process_number(task, task->tgid);
	record->pid = thread_number(task, task->pid);
	record->kind = kind;
	record->number = number;
	bpf_get_current_comm(record->comm, sizeof(record->comm));
	return record;
}

#include "trace_events.h"

static __always_inline struct call *call_of(struct task_struct *task, u64 flags)
{
	struct call *call = bpf_task_storage_get(&calls, task, NULL, flags);

	if (!call && flags)
		increment(&state.lost_threads);
	return call;
}

static __always_inline void describe(struct call *call, struct task_struct *task, u32 kind, u32 number)
{
	call->record.time = bpf_ktime_get_ns();
	call->record.duration = 0;
	call->record.tgid = process_number(task, task->tgid);
	call->record.pid = thread_number(task, task->pid);
	call->record.kind = kind;
	call->record.number = number;
	call->record.result = 0;
	call->record.missed = 0;
	call->record.used = 0;
	call->record.stack = 0;
	call->record.only_followed = 0;
	bpf_get_current_comm(call->record.comm, sizeof(call->record.comm));
}

// Stacks are taken when calls return, of those that are shown. These calls replace theirs.
static __always_inline int has_stack_at_entry(u64 number, int compat)
{
	return !compat && (number == NR_EXECVE || number == NR_EXECVEAT || number == NR_RT_SIGRETURN);
}

SEC("tp_btf/sys_enter")
int BPF_PROG(on_call, struct pt_regs *regs, long number)
{
	struct task_struct *task = bpf_get_current_task_btf();
	int compat = is_compat(regs), becomes;
	struct call *call;

	if (!is_wanted(number, compat) || !state.on)
		return 0;
	becomes = number == NR_EXECVE && becomes_command(task);
	if (!becomes && !is_wanted_thread(task))
		return 0;
	call = call_of(task, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!call)
		return 0;
	describe(call, task, RECORD_CALL, number);
	call->record.compat = compat;
	read_arguments(call->record.arguments, regs, compat);
	copy_arguments(call, 0, 0);
	// Until it becomes the command, it is a child of Pyrograph.
	if (has_stack_at_entry(number, compat) && is_wanted_thread(task))
		send_stack_of_call(task, &call->record);
	if (!compat && (number == NR_EXIT || number == NR_EXIT_GROUP)) {
		call->record.kind = RECORD_LAST_CALL;
		if (!config.failed && !config.slower && !config.filtered) {
			send_stack_of_call(task, &call->record);
			send(call);
		}
		call->record.kind = RECORD_NONE;
	}
	return 0;
}

// 1 and the row of `probe_plans` of each call that is wanted by a filter.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_CALLS);
	__type(key, u32);
	__type(value, u32);
} call_filters SEC(".maps");

// Returns true if a call that has returned is wanted by its arguments and result. Its registers are these, in this order.
static __always_inline int passes_call_filter(struct call *call, long result)
{
	u32 number = call->record.number, *row;
	struct probe_plan *plan;
	struct values *values;

	if (!config.filtered)
		return 1;
	row = bpf_map_lookup_elem(&call_filters, &number);
	if (call->record.compat || !row || !*row)
		return 0;
	values = take_values_for(*row - 1, &plan);
	if (!values)
		return 0;
	for (int i = 0; i < 6; i++)
		values->registers[i] = call->record.arguments[i];
	values->registers[6] = result;
	values->registers[7] = call->record.duration;
	return passes(plan, values);
}

// Returns true if a call that has returned is shown.
static __always_inline int is_shown(struct call *call, long result)
{
	u32 number = call->record.number;
	int failed = result < 0 && result >= -4095;

	if (!call->record.compat && !(config.shown[index_below(8, number >> 6)] >> (number & 63) & 1))
		return 0;
	return (!config.failed || failed) && (!config.slower || call->record.duration >= config.slower) &&
	       passes_call_filter(call, result);
}

// Returns true if a call that has returned is handed out only for user space to follow descriptors.
static __always_inline int is_followed(struct call *call, long result)
{
	u32 number = call->record.number;

	return (result >= 0 || result < -4095) && !call->record.compat &&
	       config.followed[index_below(8, number >> 6)] >> (number & 63) & 1;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(on_return, struct pt_regs *regs, long result)
{
	struct task_struct *task = bpf_get_current_task_btf();
	int compat = is_compat(regs), shown;
	// `rt_sigreturn` has replaced it.
	u64 number = regs->orig_ax;
	struct call *call;

	if (!state.on)
		return 0;
	call = call_of(task, 0);
	if (!call || call->record.kind != RECORD_CALL) {
		// A call that had begun before tracing did: what it was asked is still there.
		if (!is_wanted(number, compat) || !is_wanted_thread(task))
			return 0;
		call = call_of(task, BPF_LOCAL_STORAGE_GET_F_CREATE);
		if (!call)
			return 0;
		describe(call, task, RECORD_RETURN, number);
		call->record.compat = compat;
		read_arguments(call->record.arguments, regs, compat);
		copy_arguments(call, 0, result);
	} else {
		call->record.duration = bpf_ktime_get_ns() - call->record.time;
		// The number may be another's, of a thread that executed a program.
		call->record.pid = thread_number(task, task->pid);
	}
	call->record.result = result;
	// Where a program was executed, the memory is another.
	if (call->record.number == NR_EXECVE && !result)
		call->record.missed = 0;
	// Attempts to execute the command in folders where it is not.
	if (result < 0 && call->record.number == NR_EXECVE && becomes_command(task) &&
	    !is_wanted_thread(task)) {
		call->record.kind = RECORD_NONE;
		return 0;
	}
	shown = is_shown(call, result);
	if (shown || is_followed(call, result)) {
		call->record.only_followed = !shown;
		copy_arguments(call, 1, result);
		if (shown && !has_stack_at_entry(call->record.number, compat))
			send_stack_of_call(task, &call->record);
		send(call);
	}
	call->record.kind = RECORD_NONE;
	return 0;
}

// Sends the calls that have not returned.
SEC("iter/task")
int on_unfinished(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct call *call;

	if (!task)
		return 0;
	call = bpf_task_storage_get(&calls, task, NULL, 0);
	if (!call || call->record.kind != RECORD_CALL)
		return 0;
	call->record.kind = RECORD_UNFINISHED;
	call->record.duration = bpf_ktime_get_ns() - call->record.time;
	if (!config.failed && !config.filtered && call->record.duration >= config.slower)
		send(call);
	call->record.kind = RECORD_NONE;
	return 0;
}

static __always_inline void send_other(struct call_record *record)
{
	if (bpf_ringbuf_output(&records, record, sizeof(*record), BPF_RB_NO_WAKEUP))
		increment(&state.lost);
}

SEC("tp_btf/signal_deliver")
int BPF_PROG(on_signal, int signal, struct kernel_siginfo *info, struct k_sigaction *action)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct call_record record = {};

	// No information (SEND_SIG_NOINFO, SEND_SIG_PRIV) is the kernel's way to end all threads of a process.
	if (!state.on || (u64)info <= 1 || !is_wanted_thread(task))
		return 0;
	other_record(task, RECORD_SIGNAL, signal, &record);
	record.result = BPF_CORE_READ(info, si_code);
	// The union behind the first three numbers begins at a multiple of 8.
	bpf_probe_read_kernel(record.arguments, 16, (void *)info + 16);
	send_stack_of_call(task, &record);
	send_other(&record);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_exit, struct task_struct *task)
{
	struct call_record record = {};

	if (!state.on || !is_wanted_thread(task))
		return 0;
	other_record(task, RECORD_EXIT, 0, &record);
	record.result = BPF_CORE_READ(task, exit_code);
	send_other(&record);
	return 0;
}

// Before the child runs.
SEC("tp_btf/sched_process_fork")
int BPF_PROG(on_child, struct task_struct *parent, struct task_struct *child)
{
	struct call_record record = {};

	if (!state.on || child->tgid == parent->tgid || child->files == parent->files || !is_wanted_thread(parent))
		return 0;
	other_record(parent, RECORD_FORK, 0, &record);
	record.result = process_number(child, child->tgid);
	send_other(&record);
	return 0;
}

// A process that executes the command is a target from then on.
SEC("raw_tp/sched_process_exec")
int BPF_PROG(on_exec, struct task_struct *task, int old_pid, struct linux_binprm *binary)
{
	u32 tgid = process_number(task, BPF_CORE_READ(task, tgid)), one = 1;

	if (state.command && tgid == state.command)
		bpf_map_update_elem(&targets, &tgid, &one, BPF_ANY);
	return 0;
}

SEC("tp_btf/sys_enter")
int BPF_PROG(on_counted_call, struct pt_regs *regs, long number)
{
	struct task_struct *task = bpf_get_current_task_btf();
	int compat = is_compat(regs);
	struct begun *begin;

	if (!is_wanted(number, compat) || !state.on)
		return 0;
	if (!is_wanted_thread(task) && !(number == NR_EXECVE && becomes_command(task)))
		return 0;
	begin = bpf_task_storage_get(&begun, task, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!begin) {
		increment(&state.lost_threads);
		return 0;
	}
	begin->number = number + 1;
	begin->compat = compat;
	begin->time = bpf_ktime_get_ns();
	return 0;
}

static __always_inline struct row *row_of(void *rows, struct row_key *key, struct task_struct *task)
{
	struct row *row = bpf_map_lookup_elem(rows, key);
	u32 zero = 0;

	if (row)
		return row;
	row = bpf_map_lookup_elem(&empty, &zero);
	if (!row)
		return NULL;
	bpf_map_update_elem(rows, key, row, BPF_NOEXIST);
	row = bpf_map_lookup_elem(rows, key);
	if (!row) {
		increment(&state.lost_rows);
		return NULL;
	}
	row->tgid = process_number(task, task->tgid);
	row->group = bpf_get_current_cgroup_id();
	row->least = ~0ull;
	bpf_get_current_comm(row->comm, sizeof(row->comm));
	return row;
}

static __always_inline void count_error(void *errors, u32 pid, u32 number, u32 error)
{
	struct error_key key = { .pid = pid, .number = number, .error = error };
	u64 one = 1, *count = bpf_map_lookup_elem(errors, &key);

	if (count)
		*count += 1;
	else if (bpf_map_update_elem(errors, &key, &one, BPF_ANY))
		increment(&state.lost_rows);
}

// Only the thread itself counts in its rows.
SEC("tp_btf/sys_exit")
int BPF_PROG(on_counted_return, struct pt_regs *regs, long result)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct begun *begin;
	struct row_key key = {};
	struct row *row;
	u64 time, bucket;
	u32 side = state.side & 1;

	if (!state.on)
		return 0;
	begin = bpf_task_storage_get(&begun, task, NULL, 0);
	if (!begin || !begin->number)
		return 0;
	key.number = begin->number - 1;
	time = bpf_ktime_get_ns() - begin->time;
	begin->number = 0;
	// Attempts to execute the command in folders where it is not.
	if (result < 0 && state.command && key.number == NR_EXECVE && !is_wanted_thread(task))
		return 0;
	key.pid = thread_number(task, task->pid);
	row = row_of(side ? (void *)&rows_1 : (void *)&rows_0, &key, task);
	if (!row)
		return 0;
	row->compat = begin->compat;
	row->calls++;
	row->total += time;
	if (time < row->least)
		row->least = time;
	if (time > row->longest)
		row->longest = time;
	bucket = bucket_of(time);
	if (IS_BELOW(BUCKETS, bucket))
		row->buckets[bucket]++;
	if (result < 0 && result >= -4095) {
		row->errors++;
		count_error(side ? (void *)&errors_1 : (void *)&errors_0, key.pid, key.number, -result);
	}
	return 0;
}

// Notes the PID namespace of the process that runs this.
SEC("syscall")
int prepare(void *ctx)
{
	note_namespace();
	return 0;
}
