// SPDX-License-Identifier: MIT OR Apache-2.0
//
// The structures that the programs and Pyrograph exchange. `layout.rs` has the same structures in Rust, and
// a test there compares their sizes with what stands in the object's BTF.

#ifndef PYROGRAPH_SHARED_H
#define PYROGRAPH_SHARED_H

// The most frames of a user stack, and of a kernel stack (`kernel.perf_event_max_stack`).
#define MAX_FRAMES 512
#define MAX_KERNEL_FRAMES 127

// Rows of unwind tables are kept in blocks of so many words, 1 MiB each.
#define BLOCK_BITS 18
#define BLOCK_WORDS (1 << BLOCK_BITS)
#define MAX_BLOCKS 1024

#define MAX_RULES 65536
#define MAX_MODULES 65536
#define MAX_FILES 32768

// A frame is a module's number and below it 47 bits: a file offset or an address.
#define FRAME_SHIFT 47
// Of what is mapped nowhere.
#define MODULE_UNKNOWN 1
// Files that Pyrograph has not seen yet have numbers from here on, which the programs give.
#define MODULE_ASKED MAX_MODULES
// Code in no file: made at run time. Below it, an address.
#define MODULE_ANONYMOUS 0x1fffe
// The "module" of the frame that ends a stack whose outer part is missing; below it, why.
#define MODULE_END 0x1ffff
// The "module" of the last word of a stack that has calls of interpreters; below it, the lower bits of the hash by
// which these are emitted.
#define MODULE_CALLS 0x1fffd

// One executable mapping of a process.
struct mapping {
	u64 start;
	u64 end;
	// To be added to an address for what a frame has of it.
	u64 to_frame;
	// To be added to an address for its distance from where the module's table begins.
	u64 to_table;
	u32 module;
	// The interpreter whose code this is: its row in `interpreters`, and 1; 0: of none.
	u32 interpreter;
};

// The identity of a mapped file, which differs from that of all others, also from what it was before it was changed.
// The vDSO has zeros.
struct file_key {
	u64 inode;
	u64 size;
	// When it was changed, by its inode.
	s64 changed;
	u32 changed_ns;
	// The device as the kernel writes it: the major number above 20 bits.
	u32 device;
};

// Code in a file.
struct segment {
	u64 start;
	u64 end;
	// To be added to a file offset for its distance from where the table begins.
	u64 to_table;
};

#define SEGMENTS 2

struct mapped_file {
	u32 module;
	// How many there are.
	u16 count;
	// As in `struct mapping`.
	u16 interpreter;
	struct segment segments[SEGMENTS];
};

// A file that Pyrograph has not seen yet, and where it is mapped; 0 and 0 for a program that is just
// starting.
struct question {
	struct file_key key;
	u64 start;
	u64 end;
	u32 tgid;
	// The number that stands for it.
	u32 module;
};

// An address whose mapping is to be found, and what was found.
struct lookup {
	u64 address;
	u64 start;
	u64 end;
	struct file_key key;
};

// A module's unwind table.
struct module {
	// Where its index is, and for how many pages of code.
	u32 index;
	u32 pages;
	u32 state;
	// Hit count, in stacks; approximate, since CPUs do not wait for each other to count.
	u32 hits;
};

enum module_state {
	TABLE_PENDING,
	TABLE_READY,
	// Code made at run time, or a file without tables.
	TABLE_NONE,
	// Left out: the budget of memory was used up.
	TABLE_OMITTED,
};

// How to get from a frame to its caller.
struct rule {
	u8 kind;
	// The register that the canonical frame address (CFA) is counted from, by its DWARF number.
	u8 base;
	s16 add;
	s32 offset;
	// Where rbp, rbx, r12, r13, r14, r15 are, in words below the CFA; 0: unchanged.
	u8 saved[6];
	// Words below `rbp + 8` instead: functions that realign their stack.
	u8 below_fp;
	// `RULE_GUESS`, and above it a bit for each register of `saved` that is not known in the caller.
	u8 flags;
};

// The rule comes from instructions, for want of a table: it may be wrong.
#define RULE_GUESS 1

enum rule_kind {
	// Not covered by a table: follow the frame pointer.
	RULE_NONE,
	// CFA = base + offset
	RULE_OFFSET,
	// CFA = *(base + offset) + add
	RULE_DEREF,
	// CFA = rsp + 8, and 8 more from byte `base` of a 16-byte entry on
	RULE_PLT,
	// The first frame of a thread.
	RULE_ROOT,
	// A frame that the kernel made to run a signal handler.
	RULE_SIGNAL,
	// The rule in the table is not supported here.
	RULE_BAD,
	// CFA = rsp + offset; the return address is in register `base`.
	RULE_LINK,
	// Of Go: CFA = *(*(*(base + 0x30) + offset) + 0x38) + add
	RULE_GOROUTINE,
	// Of Go: goroutine = *(rsp + offset), depth = *(rsp + base); CFA = *(goroutine + 8) - depth + add, or depth + add
	RULE_KEPT_GOROUTINE,
};

// Why a stack ends where it does.
enum end {
	END_ROOT,
	// It has more frames than are kept.
	END_TOO_MANY,
	// The stack could not be read: paged out, or not there.
	END_UNREADABLE,
	// The process is not known yet, or the address is mapped nowhere as far as is known.
	END_NO_MAPPING,
	// The table is not ready yet.
	END_PENDING,
	// The table was left out.
	END_OMITTED,
	// No table, and no frame pointer that leads on.
	END_NO_RULE,
	// A rule that could not be applied.
	END_BAD_RULE,
	// A 32-bit program.
	END_COMPAT,
	// It was left to chance whether it is taken, and it was not.
	END_NOT_TAKEN,
	// A file without a table, of a process that cannot be seen from Pyrograph's PID namespace.
	END_INVISIBLE,
	ENDS,
	// Added to the others: a frame of the stack was left by its instructions, without a table.
	END_GUESSED = 16,
};

// The key by which stacks are counted.
struct key {
	// Hashes of its stacks; 0: none.
	u64 user;
	u64 kernel;
	u32 tgid;
	u32 tid;
	// Names of the thread and of its process.
	char thread[16];
	char process[16];
	// The kind of event, `enum kind`, and the detail of that kind: a system call's number, a lock's flags …
	u32 kind;
	u32 detail;
	// The hash of a `waker`; 0: none. Of KIND_PROBE, a value that stacks are kept apart by, or its hash.
	u64 waker;
	// The CPU's number and 1, where CPUs are counted apart.
	u32 cpu;
	// When it was: when it was counted, in steps of `FINE_TIME_SHIFT` (`config.fine_rows`); or when a stack in code made at
	// run time was taken, if names depend on the time, in steps of `KEY_TIME_SHIFT`; else 0.
	u32 time;
};

// A key's time is CLOCK_MONOTONIC, in 2^20 ns: a millisecond. It begins anew every 52 days.
#define KEY_TIME_SHIFT 20
// In 2^14 ns, 16 microseconds, where each sample has its time. It begins anew every 19 hours, and counts are taken within
// seconds.
#define FINE_TIME_SHIFT 14

// The waker of a thread, emitted as if it were a stack: so many words, in this order.
enum waker {
	// Hashes of its stacks.
	WAKER_USER,
	WAKER_KERNEL,
	WAKER_PID,
	// Two words each: names of the thread and of its process.
	WAKER_THREAD,
	WAKER_PROCESS = WAKER_THREAD + 2,
	WAKER_WORDS = WAKER_PROCESS + 2,
};

// Kinds of events. Those of waits are by what a thread waits for.
enum kind {
	KIND_EVENT,
	KIND_SLEEP,
	// A futex that is a lock.
	KIND_LOCK,
	KIND_IO,
	KIND_UNINTERRUPTIBLE,
	// It could run, and did not: another did.
	KIND_PREEMPTED,
	// A tracepoint or a place in a program: the kernel's part begins with what took it. `detail` is a value of `enum by`.
	KIND_PROBE,
	// A system call: `detail` is its number, and bit 29 that it is one of 32-bit programs.
	KIND_CALL,
	// A lock of the kernel: `detail` has the flags of `contention_begin`.
	KIND_KERNEL_LOCK,
	// Bytes that a socket sent or received: `detail` is its family, and below that 16 bits of protocol.
	KIND_SENT,
	KIND_RECEIVED,
	// The thread was woken; the stacks are the waker's.
	KIND_WOKEN,
	// A futex that is no lock: a condition variable, a semaphore, the end of a thread.
	KIND_CONDITION,
	// A goroutine has no thread.
	KIND_GOROUTINE,
};

// Functions that give memory.
enum allocation {
	ALLOCATION_MALLOC,
	ALLOCATION_CALLOC,
	ALLOCATION_REALLOC,
	ALLOCATION_POSIX_MEMALIGN,
	// `aligned_alloc`, `memalign`
	ALLOCATION_ALIGNED,
	// The size comes first, and another function may be asked for more: `valloc`, `operator new`, `mi_malloc_aligned`
	ALLOCATION_BY_ANOTHER,
	// `mi_reallocarray`: memory, number and size
	ALLOCATION_REALLOC_ARRAY,
};

struct count {
	u64 events;
	// The sum of what they stand for: nanoseconds, bytes, …
	u64 value;
};

// A wait stands for others as long as it does not come to more than this with them. Longer ones count as they are,
// whether their stacks were taken or not: sums are exact for these, and right on average for the others.
#define MOST_WAITED_NS 16000000

// A thread that does not run.
struct blocked {
	u64 since;
	// As many short waits are counted for this one, if it is short.
	u64 stands_for;
	struct key key;
};

// Where memory that is held was asked for.
struct site {
	struct key key;
	// As often as it was given and not yet given back, and how many bytes of it.
	u64 events;
	u64 value;
};

// A stack, as it is emitted once.
struct stack {
	u64 hash;
	u64 len;
	// The last one is for `MODULE_CALLS`.
	u64 frames[MAX_FRAMES + 1];
};

// Interpreters that are known at one time.
#define MAX_INTERPRETERS 512

#define INTERPRETER_OFFSETS 32
#define INTERPRETER_SYMBOLS 4
#define MAX_CHUNKS 32
#define CHUNK_BYTES 160
// In place of another piece: what the function belongs to; and bytes of the function itself, so far behind its start.
#define CHUNK_OWNER 0xffff
#define CHUNK_FUNCTION 0xfffe

enum language {
	LANGUAGE_NONE,
	LANGUAGE_PYTHON,
	LANGUAGE_PERL,
	LANGUAGE_PHP,
	LANGUAGE_RUBY,
	LANGUAGE_NODE,
	LANGUAGE_LUAJIT,
	LANGUAGE_JAVA,
};

// How a program finds the variable of a thread that leads to the thread's calls.
enum place_of {
	// A global variable at an address in the file.
	PLACE_GLOBAL,
	// So far from what `fs` points to: variables of threads of the program itself.
	PLACE_THREAD,
	// The same, and the distance is in the file's memory at an address.
	PLACE_THREAD_AT,
	// A variable of threads of a library: at an address in the file's memory is the library's number, by which its
	// block is found in the thread's table of blocks; the distance in that is `detail`.
	PLACE_LIBRARY,
	// A value that belongs to a key of `pthread_key_create`, which is at an address in the file's memory; `detail` is how
	// far from what `fs` points to the values of the first 32 keys begin.
	PLACE_KEY,
};

struct place_in_thread {
	u32 kind;
	// Of `PLACE_LIBRARY`: bytes of a row in the table of blocks (glibc: 16, musl: 8).
	u32 row;
	u64 value;
	u64 detail;
};

// A piece of memory that is read to name a function: so many bytes of where the word at `offset` of another piece
// points to. Piece 0 is the function itself.
struct chunk_plan {
	u16 from;
	u16 offset;
	u16 len;
	// If not 0, what is read lies behind an array of words, whose last element's number is in the piece with the number
	// in the upper 8 bits, at the offset in the lower ones.
	u16 behind;
	// Of the other piece: so far in it is how many pairs of words come before that word; 0: none.
	u16 pairs;
};

// An interpreter: where the calls of its language are in the memory of a process.
struct interpreter {
	u32 language;
	// The number of its file.
	u32 module;
	// How many pieces of memory name a function.
	u32 chunks;
	// Bits of a pointer that are no part of the address.
	u32 tag;
	// To be added to a file offset of code for its address in the file.
	u64 to_address;
	// Addresses in the file, by `enum …_symbol` of the language.
	u64 symbols[INTERPRETER_SYMBOLS];
	struct place_in_thread place;
	// Offsets in structures, by `enum …_offset` of the language.
	u32 offsets[INTERPRETER_OFFSETS];
	struct chunk_plan plan[MAX_CHUNKS];
};

// Calls of interpreters, two words each: FUNCTION, a pointer, and PLACE. Leaf first.
#define MAX_CALLS 1024
// Of these, the innermost ones; if there are more than MAX_CALLS, the others are the outermost.
#define INNER_CALLS 512

// Values of FUNCTION that are no pointers.
//
// No function: PLACE ends a part that has none, or the one before.
#define FUNCTION_NONE 0
// The calls of one interpreter begin; PLACE: the number of its file, above 32 bits of its row in `interpreters`.
#define FUNCTION_INTERPRETER 1
// The program or script itself; PLACE has the line.
#define FUNCTION_MAIN 2
// An evaluated string or block.
#define FUNCTION_EVAL 3
// Callers whose frames are not on the stack: those of a virtual thread that has gone on, in the heap.
#define FUNCTION_FROZEN 4
// Not a pointer, if below.
#define FUNCTION_POINTERS 16
// Bits of a pointer that are the walker's.
#define FUNCTION_BITS 7ull

// PLACE: the lower 24 bits are a line, or how far into the function's instructions the call is; then come 24 bits that
// another function at the same place in memory would not have (IDENTITY), 12 bits of the native frame whose part of
// the stack the interpreter's call has, and 1 (0: not known), and the highest bit: what one run of the interpreter's
// loop has called ends here.
#define PLACE_OFFSET_MASK 0xffffffull
#define PLACE_IDENTITY_SHIFT 24
#define PLACE_NATIVE_SHIFT 48
#define PLACE_END (1ull << 63)

// Pieces of memory by which a function is named, as they are emitted.
struct chunk {
	u64 address;
	u64 len;
	u8 bytes[CHUNK_BYTES];
};

struct function {
	u64 function;
	u32 tgid;
	u32 identity;
	// Number of the interpreter's file.
	u32 module;
	u32 chunks;
	// What it belongs to, where it does not say that itself; 0: nothing.
	u64 owner;
};

struct named_function {
	struct function function;
	struct chunk chunks[MAX_CHUNKS];
};

// A user stack that ended early here, for user space to unwind: it has all tables, and can read pages that are
// not in memory.
struct copy {
	// The hash by which it is counted: no other stack has it.
	u64 hash;
	// That of what was unwound here.
	u64 partial;
	// CLOCK_MONOTONIC, in nanoseconds.
	u64 time;
	u32 tgid;
	u32 tid;
	// Why it ended here: `enum end`.
	u32 end;
	// 1 if the instruction pointer is behind the system call that the thread is in.
	u32 called;
	// By DWARF number, and the instruction pointer.
	u64 registers[17];
	// Where the stack's mapping ends.
	u64 stack_end;
	// How many bytes of the stack follow, from the stack pointer on.
	u64 len;
	// Copies of LARGE_COPY that lack some of the stack have ROOT_COPY bytes behind that, from this address on: the
	// thread's first frames. 0: none.
	u64 root;
};

// Copies have one of these sizes, the smallest that holds the stack.
#define SMALL_COPY (8 << 10)
#define MEDIUM_COPY (24 << 10)
#define LARGE_COPY (64 << 10)
#define ROOT_COPY (4 << 10)

#define COPY_WINDOW_NS 100000000ull

// A CPU wakes user space no sooner again for what a copy lacks.
#define WAKING_NS 500000ull

// Configuration, set before the programs are loaded.
struct config {
	// Only the processes in `targets`.
	u32 filter;
	// Children of processes in `targets` become targets, too.
	u32 inherit;
	// Emit the user part, the kernel part.
	u32 user;
	u32 kernel;
	// The shortest wait that counts, in nanoseconds.
	u64 min_block;
	// Wakers are emitted in place of the stack that waited, and not beside it.
	u32 wakers_alone;
	// The measure of calls and requests: `enum measure`.
	u32 measure;
	// Of calls, only those that read or write regular files; that wait for a lock.
	u32 files;
	u32 futexes;
	// The system calls that are recorded, a bit each.
	u64 calls[8];
	// Where interrupts enter the kernel: no part of a thread's stack is above that.
	u64 interrupts_start;
	u64 interrupts_end;
	// Only threads in this control group; 0: in any.
	u64 group;
	// Only threads that have one of `names`, or whose processes have.
	u32 names;
	// Count CPUs apart.
	u32 by_cpu;
	// How many bytes of stacks that end early a CPU copies to user space in `COPY_WINDOW_NS`; 0: none.
	u64 copy_budget;
	// Do not leave frames by their instructions (--no-guess).
	u32 no_guess;
	// Counts have times, in the shortest steps until a table has so many rows; 0: no times.
	u32 fine_rows;
	// Waits are counted, and not their time.
	u32 waits_alike;
	// Wakers are emitted beside the stack that waited, where that is taken when the thread goes on.
	u32 wakers_too;
	// Where so much happens that not all stacks are taken, one is for so many events at least, or for so much of what
	// they stand for (`by_value`); 0: all are taken.
	u64 least_quantum;
	u32 by_value;
	// Leave out waits for something to do.
	u32 no_idle;
	// Emit where in a function calls are.
	u32 lines;
	// Emit calls of interpreters of these: bits by `enum language`.
	u32 languages;
	// Emit command lines.
	u32 commands;
	u32 pad;
};

enum measure {
	MEASURE_COUNT,
	MEASURE_TIME,
	MEASURE_BYTES,
};

// State that the programs change.
struct state {
	// Into which of the two tables is counted now.
	u32 side;
	// Nothing is counted before.
	u32 on;
	// Events that could not be counted: the table was full; the stack could not be emitted; another program was at
	// work on the same CPU.
	u64 lost_counts;
	u64 lost_stacks;
	u64 lost_busy;
	// User stacks by how they ended.
	u64 ends[16];
	// How many files Pyrograph was asked for.
	u64 asked;
	// When counting was ended; 0: it was not.
	u64 stopped;
	// The process that becomes a target when it executes a program; 0: none.
	u32 command;
	// Generation: incremented when something about files was added.
	u32 files;
	// Generation: incremented when Pyrograph has forgotten its stacks; they are emitted again.
	u64 forgotten;
	// The PID namespace of Pyrograph, and its depth; at depth 0 all numbers are the machine's.
	u64 pid_namespace;
	u32 pid_level;
	// Keys have times (`struct key`).
	u32 times;
	// Stacks copied to user space, and those that were not for lack of room or budget.
	u64 copied;
	u64 copies_refused;
	// Nanoseconds between two ticks of a clock, which may become more; 0: it is no clock that triggers.
	u64 period;
	// When a clock's samples end; 0: not by themselves.
	u64 until;
	// An interpreter was found whose compiled code is looked for.
	u32 luajit;
	// How many rows the table has that is written to, if counts have times.
	u32 rows;
	// Events whose values could not be read for want of memory, or of a row for a text.
	u64 lost;
	// Events that are left out: a value could not be read; the value that is added up is negative.
	u64 unread;
	u64 negative;
};

// Whether stacks of probes are kept apart by a value.
enum by {
	BY_NOTHING,
	BY_NUMBER,
	BY_TEXT,
	// It could not be read.
	BY_UNREAD,
};

// The clock of a CPU.
struct tick {
	// How many stacks were taken, and how long that took.
	u64 taken;
	u64 spent;
	// What stacks stand for beyond a period each, in nanoseconds: the time of ticks that never came, since the CPU was busy
	// with the one before or the hypervisor with other machines.
	s64 skipped;
};

#endif
