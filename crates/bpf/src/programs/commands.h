// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Command lines of programs, taken when they begin: a process may be gone when user space comes to read its own.

#ifndef PYROGRAPH_COMMANDS_H
#define PYROGRAPH_COMMANDS_H

#include "numbers.h"

// What is kept of one, and a byte more, which says that there was more.
#define MAX_COMMAND 4097

struct command_line {
	u64 time;
	u32 tgid;
	u32 len;
	u8 words[MAX_COMMAND + 7];
};

// BTF has it.
struct command_line *command_line_type;

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} commands SEC(".maps");

// The current process has just begun to run a program. Where there is no room, user space reads what it can.
static __always_inline void emit_command_line(struct task_struct *task, u32 tgid)
{
	u64 start = BPF_CORE_READ(task, mm, arg_start), len = BPF_CORE_READ(task, mm, arg_end) - start;
	struct command_line *line;

	if (!len || len > MAX_COMMAND)
		len = len ? MAX_COMMAND : 0;
	line = bpf_ringbuf_reserve(&commands, sizeof(*line), 0);
	if (!line)
		return;
	// Older verifiers lose the bounds of what is kept on the stack.
	asm volatile("" : "+r"(len));
	if (!len || len > MAX_COMMAND || bpf_probe_read_user(line->words, len, (void *)start)) {
		bpf_ringbuf_discard(line, BPF_RB_NO_WAKEUP);
		return;
	}
	line->time = bpf_ktime_get_ns();
	line->tgid = tgid;
	line->len = len;
	bpf_ringbuf_submit(line, BPF_RB_NO_WAKEUP);
}

#endif
