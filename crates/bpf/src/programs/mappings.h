// SPDX-License-Identifier: MIT OR Apache-2.0
//
// From an address to the code that is mapped there: looked up in the kernel's own tree of mappings at the
// moment when it is needed. So a process that was just forked, a program that was just executed and a
// library that was just loaded are known at once, and what was unmapped is not.
//
// The kernel replaces nodes of its tree and does not change what readers may be at, so that the tree can
// be read without its lock, from wherever a program runs (`bpf_find_vma` needs the lock: it fails in a
// process that is changing its mappings, and the second time in an interrupt).

#ifndef PYROGRAPH_MAPPINGS_H
#define PYROGRAPH_MAPPINGS_H

#include "maps.h"
#include "numbers.h"

#define WORDS(type, member) (bpf_core_field_offset(struct type, member) / 8)

// Before Linux 6.1, mappings are in a red-black tree, whose nodes are changed where they are: who reads it
// meanwhile may miss a mapping that is there, and what is found is checked again. That of a million
// mappings is no higher than 40.
static __always_inline int find_in_binary_tree(struct scratch *s, u64 address)
{
	struct mm_struct *mm = (struct mm_struct *)s->mm;
	struct rb_node *node = BPF_CORE_READ(mm, mm_rb.rb_node);

	for (int depth = 0; depth < 40 && node; depth++) {
		struct vm_area_struct *vma =
			(void *)node - bpf_core_field_offset(struct vm_area_struct, vm_rb);

		if (address < BPF_CORE_READ(vma, vm_start)) {
			node = BPF_CORE_READ(node, rb_left);
		} else if (address >= BPF_CORE_READ(vma, vm_end)) {
			node = BPF_CORE_READ(node, rb_right);
		} else {
			s->vma = (u64)vma;
			return 1;
		}
	}
	return 0;
}

// The first of the node's `end` pivots that is not below the address: its number is that of the slot.
static __always_inline int find_slot(struct scratch *s, u64 address, u32 first, u32 end)
{
	for (u32 i = 0; i < 15; i++)
		if (i >= end || s->node[index_below(32, first + i)] >= address)
			return i;
	return 15;
}

enum { NOTHING, MAPPING, NODE };

// Goes on from a node of the tree, `s->vma`, to what it has for an address. A node is 32 words: upper limits
// of ranges (pivots), and what is in these: another node or, in a leaf, a mapping. A pointer to a node has
// the node's kind in its lower 8 bits, and bit 2 of these is set. If the last pivot is 0, not all are used,
// and the metadata has the number. A global function: the verifier checks it once, and not for each depth.
__noinline int leave_node(struct scratch *s, u64 address)
{
	u32 first, slots, meta, pivots = 15, kind, end;
	u64 entry;

	// Older kernels verify this, too, where nothing calls it.
	if (!s || !bpf_core_field_exists(struct mm_struct, mm_mt))
		return NOTHING;
	first = WORDS(maple_range_64, pivot);
	slots = WORDS(maple_range_64, slot);
	meta = WORDS(maple_range_64, meta);
	entry = s->vma;
	kind = entry >> 3 & 15;
	if (!(entry & 4) || entry <= 4096)
		return NOTHING;
	if (kind == bpf_core_enum_value(enum maple_type, maple_arange_64)) {
		pivots = 9;
		first = WORDS(maple_arange_64, pivot);
		slots = WORDS(maple_arange_64, slot);
		meta = WORDS(maple_arange_64, meta);
	}
	if (bpf_probe_read_kernel(s->node, sizeof(s->node), (void *)(entry & ~0xffull)))
		return NOTHING;
	end = s->node[index_below(32, first + pivots - 1)] ? pivots : s->node[index_below(32, meta)] & 0xff;
	s->vma = s->node[index_below(32, slots + find_slot(s, address, first, end))];
	if (kind == bpf_core_enum_value(enum maple_type, maple_leaf_64))
		return s->vma ? MAPPING : NOTHING;
	return NODE;
}

// Finds the mapping that holds an address, if one does.
__noinline int find_vma(struct scratch *s, u64 address)
{
	struct mm_struct *mm;

	if (!s)
		return 0;
	mm = (struct mm_struct *)s->mm;
	if (!bpf_core_field_exists(mm->mm_mt))
		return find_in_binary_tree(s, address);
	s->vma = (u64)BPF_CORE_READ(mm, mm_mt.ma_root);
	for (int depth = 0; depth < 8; depth++) {
		int found = leave_node(s, address);

		if (found != NODE)
			return found == MAPPING;
	}
	return 0;
}

// When the file was changed; where that stands has moved twice.
static __always_inline void read_change(struct file_key *key, struct inode *inode)
{
	if (bpf_core_field_exists(inode->i_ctime_sec)) {
		key->changed = BPF_CORE_READ(inode, i_ctime_sec);
		// The uppermost bit: somebody has asked for it.
		key->changed_ns = BPF_CORE_READ(inode, i_ctime_nsec) & 0x7fffffff;
	} else if (bpf_core_field_exists(inode->__i_ctime)) {
		key->changed = BPF_CORE_READ(inode, __i_ctime.tv_sec);
		key->changed_ns = BPF_CORE_READ(inode, __i_ctime.tv_nsec);
	} else {
		key->changed = BPF_CORE_READ(inode, i_ctime.tv_sec);
		key->changed_ns = BPF_CORE_READ(inode, i_ctime.tv_nsec);
	}
}

static __always_inline void read_key(struct file_key *key, struct file *file)
{
	struct inode *inode = BPF_CORE_READ(file, f_inode);

	key->inode = BPF_CORE_READ(inode, i_ino);
	key->size = BPF_CORE_READ(inode, i_size);
	key->device = BPF_CORE_READ(inode, i_sb, s_dev);
	read_change(key, inode);
}

// A file that was not seen before gets a number, under which its frames are emitted, and Pyrograph is woken
// to open it.
static __always_inline void ask(struct question *question)
{
	// On the stack, for older kernels take no key from the memory that a function is given.
	struct file_key key = question->key;
	struct mapped_file file = {};

	question->module = MODULE_ASKED + (u32)__sync_fetch_and_add(&state.asked, 1);
	if (question->module >= MODULE_CALLS) {
		question->module = MODULE_UNKNOWN;
		return;
	}
	file.module = question->module;
	if (bpf_map_update_elem(&files, &key, &file, BPF_NOEXIST)) {
		// Another CPU was first, or there is no room.
		struct mapped_file *first = bpf_map_lookup_elem(&files, &key);

		question->module = first ? first->module : MODULE_UNKNOWN;
		return;
	}
	if (bpf_ringbuf_output(&questions, question, sizeof(*question), BPF_RB_FORCE_WAKEUP))
		bpf_map_delete_elem(&files, &key);
}

// What is at an address: no code, code in memory without a file, or a file's.
#define NO_CODE 0
#define CODE_IN_MEMORY 1
#define CODE_OF_FILE 2

// Notes the mapping `s->vma`, if it holds the address and is of code.
__noinline int read_mapping(struct scratch *s, u64 address)
{
	struct vm_area_struct *vma;
	struct mm_struct *mm;
	struct mapping *m;

	if (!s)
		return NO_CODE;
	vma = (struct vm_area_struct *)s->vma;
	mm = (struct mm_struct *)s->mm;
	m = &s->mapping;
	m->start = BPF_CORE_READ(vma, vm_start);
	m->end = BPF_CORE_READ(vma, vm_end);
	if (address < m->start || address >= m->end ||
	    !(BPF_CORE_READ(vma, vm_flags) & VM_EXEC)) {
		m->end = 0;
		return NO_CODE;
	}
	m->to_frame = 0;
	m->to_table = 0;
	m->module = MODULE_ANONYMOUS;
	m->interpreter = 0;
	s->offset = BPF_CORE_READ(vma, vm_pgoff) << 12;
	if (BPF_CORE_READ(vma, vm_file))
		return CODE_OF_FILE;
	if (m->start != (u64)BPF_CORE_READ(mm, context.vdso))
		return CODE_IN_MEMORY;
	s->offset = 0;
	return CODE_OF_FILE;
}

// Returns 1 if `s->mapping`, memory without a file, lies between two parts of one: then a program has moved its code there, as
// those do that want it in huge pages. `s->vma` is the first of these parts then, and `s->offset` where the mapping is in the
// file. The verifier of Linux 6.1 has no room for one more call on its stack: this is a part of its caller.
static __always_inline int is_moved(struct scratch *s)
{
	struct vm_area_struct *vma;
	struct file *file;

	if (!find_vma(s, s->mapping.start - 1))
		return 0;
	s->around = s->vma;
	vma = (struct vm_area_struct *)s->vma;
	if (BPF_CORE_READ(vma, vm_end) != s->mapping.start || !(BPF_CORE_READ(vma, vm_flags) & VM_EXEC) ||
	    !BPF_CORE_READ(vma, vm_file))
		return 0;
	s->offset = (BPF_CORE_READ(vma, vm_pgoff) << 12) + s->mapping.start - BPF_CORE_READ(vma, vm_start);
	if (!find_vma(s, s->mapping.end))
		return 0;
	vma = (struct vm_area_struct *)s->vma;
	s->vma = s->around;
	if (BPF_CORE_READ(vma, vm_start) != s->mapping.end ||
	    BPF_CORE_READ(vma, vm_pgoff) << 12 != s->offset + s->mapping.end - s->mapping.start)
		return 0;
	file = BPF_CORE_READ(vma, vm_file);
	vma = (struct vm_area_struct *)s->around;
	return file && BPF_CORE_READ(file, f_inode) == BPF_CORE_READ(vma, vm_file, f_inode);
}

// Notes the file of `s->mapping`, which is that of `s->vma`, and in which it begins at `s->offset`.
__noinline int read_file(struct scratch *s)
{
	struct vm_area_struct *vma;
	struct question *question;
	struct mapped_file *known;
	struct file_key key = {};
	struct mapping *m;
	struct file *file;
	u64 offset;

	if (!s)
		return 0;
	vma = (struct vm_area_struct *)s->vma;
	m = &s->mapping;
	question = &s->question;
	offset = s->offset;
	file = BPF_CORE_READ(vma, vm_file);
	// The vDSO has none.
	if (file)
		read_key(&key, file);
	question->key = key;
	known = bpf_map_lookup_elem(&files, &key);
	if (!known) {
		question->start = BPF_CORE_READ(vma, vm_start);
		question->end = BPF_CORE_READ(vma, vm_end);
		ask(question);
		m->module = question->module;
		m->to_frame = offset - m->start;
		return 1;
	}
	m->module = known->module;
	if (m->module == MODULE_ANONYMOUS)
		return 1;
	m->to_frame = offset - m->start;
	m->interpreter = known->interpreter;
	// Where no segment is, there is no table.
	m->to_table = -1ull << 48;
	for (u32 i = 0; i < SEGMENTS; i++) {
		struct segment *segment = &known->segments[i];

		if (i < known->count && segment->start < offset + (m->end - m->start) &&
		    offset < segment->end) {
			m->to_table = m->to_frame + segment->to_table;
			break;
		}
	}
	return 1;
}

// Finds the mapping that holds an address. Consecutive frames are often in the same, or in one of a few.
__noinline int find_mapping(struct scratch *s, u64 address)
{
	int found;

	if (!s)
		return 0;
	if (address >= s->mapping.start && address < s->mapping.end)
		return 1;
	for (u32 i = 0; i < NEAR; i++) {
		if (address >= s->near[i].start && address < s->near[i].end) {
			s->mapping = s->near[i];
			return 1;
		}
	}
	if (!find_vma(s, address))
		return 0;
	found = read_mapping(s, address);
	if (found == NO_CODE)
		return 0;
	if (found == CODE_OF_FILE || is_moved(s))
		read_file(s);
	s->near[index_below(NEAR, s->turn)] = s->mapping;
	s->turn++;
	return 1;
}

static __always_inline void forget_mappings(struct scratch *s)
{
	s->mapping.end = 0;
	s->mappings++;
	s->java.state = 0;
	for (u32 i = 0; i < NEAR; i++)
		s->near[i].end = 0;
}

// From now on, addresses are those of this thread's process. What is remembered of the last one's is of
// use if it was of the same process, and neither its mappings have changed meanwhile nor what is known of
// files.
static __always_inline void enter_process(struct scratch *s, struct task_struct *task)
{
	struct mm_struct *mm = BPF_CORE_READ(task, mm);
	struct near_of *of = &s->near_of;
	u32 changes = 1;

	s->mm = (u64)mm;
	s->question.tgid = process_number(task, task->tgid);
	if (bpf_core_field_exists(mm->mm_lock_seq))
		changes = BPF_CORE_READ(mm, mm_lock_seq.sequence);
	if (!(changes & 1) && of->mm == s->mm && of->exec_id == task->self_exec_id &&
	    of->tgid == task->tgid && of->changes == changes && of->files == state.files)
		return;
	forget_mappings(s);
	of->mm = changes & 1 ? 0 : s->mm;
	of->exec_id = task->self_exec_id;
	of->tgid = task->tgid;
	of->changes = changes;
	of->files = state.files;
}

#endif
