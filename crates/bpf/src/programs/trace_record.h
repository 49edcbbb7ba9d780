// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Records of the stacks of traced threads: a structure of `tracer/layout.rs`.

#ifndef PYROGRAPH_TRACE_RECORD_H
#define PYROGRAPH_TRACE_RECORD_H

#include "call_record.h"

// The most bytes of a stack; of its outermost part, where it has more; and where its end is not known.
#define MAX_STACK (256 << 10)
#define ROOT_STACK (16 << 10)
#define UNKNOWN_STACK (16 << 10)
#define MAX_KERNEL_FRAMES 64

struct stack {
	// `time` is when it was copied, `duration` the time of the record that it belongs to.
	struct call_record record;
	// By DWARF number, and the instruction pointer; all are 0 if there is no user stack.
	u64 registers[17];
	// Where the thread's frames end; 0 if that is not known.
	u64 end;
	// Where the outermost part is from that follows `MAX_STACK` bytes; 0 if there is none.
	u64 root;
	u32 len;
	// How many bytes are to be copied, if they can be read.
	u32 limit;
	u32 depth;
	u32 pad;
	u64 kernel[MAX_KERNEL_FRAMES];
	u8 bytes[MAX_STACK];
	u8 root_bytes[ROOT_STACK];
};

#endif
