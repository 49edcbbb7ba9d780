// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Calls of Perl subroutines.
//
// The interpreter has stacks of contexts, each in a structure that leads to the one before (PERL_SI_…): a sort block, a
// tied variable, an overloaded operator or a destructor runs on one of its own. A context of a subroutine has the one
// that is called and the statement that calls (`cop`). One run of the loop ends at a context that returns to nothing
// (`retop`), or at the end of a stack.

#ifndef PYROGRAPH_PERL_H
#define PYROGRAPH_PERL_H

#include "calls.h"

enum perl_symbol {
	// Without threads, variables of their own.
	PERL_STACKINFO_VARIABLE,
	PERL_COP_VARIABLE,
	// The interpreter of the first thread.
	PERL_FIRST,
};

enum perl_offset {
	// In the interpreter; NO_OFFSET without threads.
	PERL_STACKINFO,
	PERL_COP,
	// In the structure of a stack.
	PERL_SI_CONTEXTS,
	PERL_SI_PREVIOUS,
	PERL_SI_INDEX,
	PERL_SI_TYPE,
	// In a context.
	PERL_CX_COP,
	PERL_CX_FUNCTION,
	PERL_CX_RETURN,
	PERL_CX_SIZE,
	// Types of contexts.
	PERL_TYPE_MASK,
	PERL_TYPE_SUB,
	PERL_TYPE_FORMAT,
	PERL_TYPE_EVAL,
	// In a statement.
	PERL_COP_LINE,
	// In the body of a subroutine: its name.
	PERL_CV_NAME = 16,
	// In a context of an eval: where it returns to, and where on the C stack it is left to when it fails.
	PERL_EVAL_RETURN = 25,
	PERL_EVAL_CATCH,
};

// A stack's type: the program itself.
#define PERL_MAIN 1
// Of a context's type: a subroutine that is none, of a block in a regular expression.
#define PERL_NO_CALL 0x80

// So much of a context is read: it has no field behind that.
#define PERL_CONTEXT_BYTES 104

// The walker's own words.
enum { PERL_AT_COP, PERL_AT_CONTEXTS, PERL_AT_INDEX, PERL_AT_TYPE, PERL_AT_NEXT, PERL_ENDS, PERL_HAS_MAIN };

static __always_inline u64 perl_line(struct language_walk *w, u64 cop)
{
	u32 line = 0;

	if (!config.lines || read_user(w->other, &line, 4, cop + offset_of(w->it, PERL_COP_LINE)))
		return 0;
	return line & PLACE_OFFSET_MASK;
}

// Goes to a stack of contexts.
static __always_inline int enter_perl_stack(struct language_walk *w, u64 stack)
{
	struct calls *c = w->c;
	struct interpreter *it = w->it;

	if (!stack || read_user(w->other, c->structure, 48, stack))
		return 0;
	c->at[PERL_AT_CONTEXTS] = word_at(c->structure, offset_of(it, PERL_SI_CONTEXTS));
	c->at[PERL_AT_NEXT] = word_at(c->structure, offset_of(it, PERL_SI_PREVIOUS));
	// One more than the index of the innermost; none: 0.
	c->at[PERL_AT_INDEX] = (u32)(half_at(c->structure, offset_of(it, PERL_SI_INDEX)) + 1);
	c->at[PERL_AT_TYPE] = half_at(c->structure, offset_of(it, PERL_SI_TYPE));
	return 1;
}

// The native frame that an eval is left to when it fails (`PL_top_env`). Below a function in C that has called without an
// eval of its own, such a frame comes with a run of the loop (`S_docatch`), of which no context tells.
static __always_inline u64 perl_catch(struct language_walk *w)
{
	u64 catches = word_at(w->c->structure, offset_of(w->it, PERL_EVAL_CATCH));

	return (u64)(find_native(w->s, catches) & 0xfff) << PLACE_NATIVE_SHIFT;
}

static __always_inline void end_perl_run(struct calls *c)
{
	if (c->at[PERL_ENDS])
		push_call(c, FUNCTION_NONE, PLACE_END);
	c->at[PERL_ENDS] = 0;
}

static __always_inline long next_perl_context(u64 number, struct language_walk *w)
{
	struct calls *c = w->c;
	struct interpreter *it = w->it;
	u64 index = c->at[PERL_AT_INDEX], function, name, returns, size = offset_of(it, PERL_CX_SIZE);
	u32 type, bytes;

	if (!index || index > 1 << 24) {
		if (c->at[PERL_AT_TYPE] == PERL_MAIN) {
			end_perl_run(c);
			if (c->at[PERL_HAS_MAIN])
				push_call(c, FUNCTION_MAIN, PLACE_END | perl_line(w, c->at[PERL_AT_COP]));
			return 1;
		}
		push_call(c, FUNCTION_NONE, PLACE_END);
		c->at[PERL_ENDS] = 0;
		return !enter_perl_stack(w, c->at[PERL_AT_NEXT]);
	}
	c->at[PERL_AT_INDEX] = index - 1;
	bytes = size < PERL_CONTEXT_BYTES ? size : PERL_CONTEXT_BYTES;
	if (read_user(w->other, c->structure, bytes, c->at[PERL_AT_CONTEXTS] + size * (index - 1)))
		return 1;
	type = byte_at(c->structure, 0);
	returns = word_at(c->structure, offset_of(it, PERL_CX_RETURN));
	if ((type & offset_of(it, PERL_TYPE_MASK)) == offset_of(it, PERL_TYPE_EVAL)) {
		// Without a place to return to it is no statement: a function in C has called so that nothing it calls
		// ends more than itself.
		returns = word_at(c->structure, offset_of(it, PERL_EVAL_RETURN));
		if (returns) {
			end_perl_run(c);
			push_call(c, FUNCTION_EVAL, perl_catch(w) | perl_line(w, c->at[PERL_AT_COP]));
		}
	} else if (((type & offset_of(it, PERL_TYPE_MASK)) == offset_of(it, PERL_TYPE_SUB) &&
		    !(type & PERL_NO_CALL)) ||
		   (type & offset_of(it, PERL_TYPE_MASK)) == offset_of(it, PERL_TYPE_FORMAT)) {
		function = word_at(c->structure, offset_of(it, PERL_CX_FUNCTION));
		// It is not complete yet.
		if (function < FUNCTION_POINTERS)
			return 0;
		end_perl_run(c);
		if (read_user(w->other, c->other, 24, function))
			c->other[0] = c->other[1] = 0;
		// Closures come and go: another subroutine may have the head and the body of one that is gone.
		name = read_word(w, c->other[0] + offset_of(it, PERL_CV_NAME));
		push_call(c, function,
			  identity(mix(c->other[0] ^ name, c->other[1] >> 32)) |
				  perl_line(w, c->at[PERL_AT_COP]));
	} else {
		return 0;
	}
	if (!returns)
		c->at[PERL_ENDS] = 1;
	c->at[PERL_AT_COP] = word_at(c->structure, offset_of(it, PERL_CX_COP));
	return 0;
}
STEP(next_perl_context)

static __always_inline void walk_perl(struct language_walk *w)
{
	struct calls *c = w->c;
	struct interpreter *it = w->it;
	u64 stack, perl;

	if (offset_of(it, PERL_STACKINFO) == NO_OFFSET) {
		stack = read_word(w, symbol_of(w, PERL_STACKINFO_VARIABLE));
		c->at[PERL_AT_COP] = read_word(w, symbol_of(w, PERL_COP_VARIABLE));
		c->at[PERL_HAS_MAIN] = 1;
	} else {
		perl = place_in_thread(w);
		perl = perl ? read_word(w, perl) : 0;
		if (!perl)
			return;
		stack = read_word(w, perl + offset_of(it, PERL_STACKINFO));
		c->at[PERL_AT_COP] = read_word(w, perl + offset_of(it, PERL_COP));
		c->at[PERL_HAS_MAIN] = read_word(w, symbol_of(w, PERL_FIRST)) == perl;
	}
	c->at[PERL_ENDS] = 0;
	if (enter_perl_stack(w, stack))
		LOOP(4 * MAX_CALLS, next_perl_context, w);
}

#endif
