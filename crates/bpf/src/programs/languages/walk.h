// SPDX-License-Identifier: MIT OR Apache-2.0
//
// From a native stack that leads through an interpreter to the calls of its language.

#ifndef PYROGRAPH_WALK_LANGUAGES_H
#define PYROGRAPH_WALK_LANGUAGES_H

#include "java.h"
#include "names.h"
#include "luajit.h"
#include "node.h"
#include "perl.h"
#include "php.h"
#include "python.h"
#include "ruby.h"

// What is false when programs are loaded is not verified: one language's walker that a kernel refuses can be left out.
#define WALK(LANGUAGE, walk) \
	case LANGUAGE: \
		if (config.languages & 1u << (LANGUAGE)) \
			walk(w); \
		break

static __always_inline void walk_language(struct language_walk *w)
{
	switch (w->it->language) {
	WALK(LANGUAGE_PYTHON, walk_python);
	WALK(LANGUAGE_PERL, walk_perl);
	WALK(LANGUAGE_JAVA, walk_java);
	WALK(LANGUAGE_NODE, walk_node);
	WALK(LANGUAGE_PHP, walk_php);
	WALK(LANGUAGE_RUBY, walk_ruby);
	WALK(LANGUAGE_LUAJIT, walk_luajit);
	}
}

// Walks the calls of one of the interpreters that were found.
static __always_inline void walk_found(struct language_walk *w, struct found_interpreter *found)
{
	u32 row = found->row;
	u64 before = w->c->count;

	w->it = bpf_map_lookup_elem(&interpreters, &row);
	if (!w->it || !w->it->language)
		return;
	// In the file, code is at `address + to_frame + to_address`.
	w->c->bias = -(found->to_frame + w->it->to_address);
	push_call(w->c, FUNCTION_INTERPRETER, (u64)w->it->module << 32 | row);
	walk_language(w);
	// None: as if it had not been looked for.
	if (w->c->count == before + 1)
		w->c->count = before;
}

// Walkers need loops (Linux 5.17).
static __always_inline int has_loops(void)
{
	return bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_loop);
}

// A global function: the verifier checks it, and with it each language's walker, once, and not for each of the interpreters
// that a stack can have, for each way through the one before. It checks it also where nothing calls it, so it asks for
// loops itself.
__noinline int walk_found_here(struct scratch *s, u32 number, u32 which)
{
	struct language_walk w = { .s = s };

	if (!s || !has_loops())
		return 0;
	w.c = bpf_map_lookup_elem(&calls_of, &number);
	if (w.c)
		walk_found(&w, which ? &s->interpreters[1] : &s->interpreters[0]);
	return 0;
}

// Puts together calls and emits them. Returns the hash by which they are emitted; 0: there are none.
static __always_inline u64 find_calls(struct scratch *s, u32 number, struct task_struct *task, int is_other)
{
	struct calls *c = bpf_map_lookup_elem(&calls_of, &number);
	struct language_walk w = { .c = c, .s = s, .other = is_other ? task : NULL };
	u64 kept;

	if (!c)
		return 0;
	c->hash = mix(HASH_START, s->question.tgid);
	c->count = 0;
	c->fs = BPF_CORE_READ(task, thread.fsbase);
	c->thread = task->pid;
	if (is_other)
		walk_found(&w, &s->interpreters[0]);
	else
		walk_found_here(s, number, 0);
	if (s->found > 1 && is_other)
		walk_found(&w, &s->interpreters[1]);
	else if (s->found > 1)
		walk_found_here(s, number, 1);
	if (!c->count)
		return 0;
	c->hash &= (1ull << FRAME_SHIFT) - 1;
	c->words[0] = s->question.tgid;
	c->words[1] = c->count;
	kept = c->count < MAX_CALLS ? c->count : MAX_CALLS;
	c->len = CALLS_HEAD + 2 * kept;
	if (is_new(c->hash))
		LOOP(MAX_CALLS, next_name, &w);
	return emit_words(c, c->hash, c->len, CALLS_HEAD + 2 * MAX_CALLS) ? c->hash : 0;
}

// A global function: the verifier checks it once, and not for each way to it.
__noinline int find_calls_here(struct scratch *s, u32 number)
{
	if (!s || !has_loops())
		return 0;
	s->calls = find_calls(s, number, bpf_get_current_task_btf(), 0);
	return 0;
}

// A function of its own, for its part of the stack.
static __noinline int find_calls_of_other(struct scratch *s, u32 number, struct task_struct *task)
{
	// There is one, or code for the current thread is in it, too.
	if (!task)
		__builtin_unreachable();
	s->calls = find_calls(s, number, task, 1);
	return 0;
}

// Adds to a native stack what leads to its calls in interpreted languages.
static __always_inline void add_calls(struct scratch *s, struct task_struct *task, int is_other)
{
	u32 number = s->number;

	if (!config.languages || !s->found || !has_loops())
		return;
	if (is_other)
		find_calls_of_other(s, number, task);
	else
		find_calls_here(s, number);
	if (s->calls && s->user.len <= MAX_FRAMES) {
		u64 word = (u64)MODULE_CALLS << FRAME_SHIFT | s->calls;

		s->user.frames[s->user.len] = word;
		s->user.len++;
		s->user.hash = mix(s->user.hash, word);
	}
}

#endif
