// SPDX-License-Identifier: MIT OR Apache-2.0
//
// In place of libbpf's header, for programs that are compiled for user space: structures are as declared.

#ifndef PYROGRAPH_USER_SPACE_CORE_READ_H
#define PYROGRAPH_USER_SPACE_CORE_READ_H

// The kernel's mappings are in a red-black tree here (Linux 6.0 and older): what the newer one has is left out.
#define bpf_core_field_exists(...) (!strstr(#__VA_ARGS__, "mm_mt"))
#define bpf_core_type_exists(type) 1
#define bpf_core_type_size(type) sizeof(type)
#define bpf_core_enum_value(type, value) (value)
#define bpf_core_enum_value_exists(type, value) 1
#define bpf_core_field_offset(type, member) __builtin_offsetof(type, member)

#define CORE_READ_1(from, a) ((from)->a)
#define CORE_READ_2(from, a, b) ((from)->a->b)
#define CORE_READ_3(from, a, b, c) ((from)->a->b->c)
#define CORE_READ_4(from, a, b, c, d) ((from)->a->b->c->d)
#define CORE_READ_OF(a, b, c, d, read, ...) read
#define BPF_CORE_READ(from, ...)                                                                   \
	CORE_READ_OF(__VA_ARGS__, CORE_READ_4, CORE_READ_3, CORE_READ_2, CORE_READ_1, 0)     \
	(from, __VA_ARGS__)

#endif
