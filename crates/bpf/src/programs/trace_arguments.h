// SPDX-License-Identifier: MIT OR Apache-2.0
//
// What the arguments of calls point to, copied behind the record of the call. Whoever includes this has `config`, `plans` and
// `struct call`.

#ifndef PYROGRAPH_TRACE_ARGUMENTS_H
#define PYROGRAPH_TRACE_ARGUMENTS_H

#include "trace.h"

// Adds a piece of `length` bytes, or a string (`length` is 0), and returns where the next one begins.
__noinline u32 add_piece(struct call *call, u32 at, u64 address, u32 length, u32 limit)
{
	struct piece *piece;
	long bytes = 0;

	if (!call || at > MAX_COPIED)
		return at;
	piece = (struct piece *)(call->copied + at);
	piece->address = address;
	if (limit > MAX_COPY)
		limit = MAX_COPY;
	if (length) {
		if (limit > length)
			limit = length;
		if (address && limit && !bpf_probe_read_user(piece + 1, limit, (void *)address))
			bytes = limit;
		piece->length = length;
	} else {
		if (address)
			bytes = bpf_probe_read_user_str(piece + 1, MAX_STRING, (void *)address);
		// All of the room is used: there is more.
		piece->length = bytes == MAX_STRING ? MAX_STRING + 1 : bytes;
		// Not its zero byte.
		if (bytes > 0)
			bytes--;
		if (bytes >= 0 && bytes < MAX_STRING - 1)
			piece->length = bytes;
	}
	if (bytes < 0 || bytes > MAX_COPY)
		bytes = 0;
	piece->bytes = bytes;
	return at + sizeof(*piece) + bytes;
}

__noinline u32 add_strings(struct call *call, u32 at, u64 pointers)
{
	if (!call)
		return at;
	for (int i = 0; i < MAX_PIECES; i++) {
		u64 string = 0;
		long failed;

		if (call->record.compat)
			failed = bpf_probe_read_user(&string, 4, (void *)(pointers + 4 * i));
		else
			failed = bpf_probe_read_user(&string, 8, (void *)(pointers + 8 * i));
		if (failed || !string)
			break;
		at = add_piece(call, at, string, 0, MAX_STRING);
	}
	return at;
}

// The same of what may have no bytes.
__noinline u32 add_part(struct call *call, u32 at, u64 address, u64 length, u32 limit)
{
	if (!call || at > MAX_COPIED)
		return at;
	if (length)
		return add_piece(call, at, address, length > ~0u ? ~0u : length, limit);
	*(struct piece *)(call->copied + at) = (struct piece){ .address = address };
	return at + sizeof(struct piece);
}

// `struct iovec` of include/uapi/linux/uio.h. `filled`: as many bytes of the buffers have been written to.
__noinline u32 add_vector(struct call *call, u32 at, u64 vector, u64 count, u64 filled)
{
	if (!call)
		return at;
	for (u32 i = 0; i < MAX_PIECES; i++) {
		u64 buffer[2];
		u32 limit = config.most;

		if (i >= count || bpf_probe_read_user(buffer, sizeof(buffer), (void *)(vector + 16 * i)))
			break;
		if (limit > filled)
			limit = filled;
		filled -= buffer[1] < filled ? buffer[1] : filled;
		at = add_part(call, at, buffer[0], buffer[1], limit);
	}
	return at;
}

// `struct user_msghdr` of include/linux/socket.h.
struct message {
	u64 name;
	u32 name_size;
	u32 pad;
	u64 vector;
	u64 count;
	u64 control;
	u64 control_size;
	u64 flags;
};

static __always_inline u32 add_message(struct call *call, u32 at, u64 address, u64 filled)
{
	struct message message;

	if (bpf_probe_read_user(&message, sizeof(message), (void *)address))
		return at;
	at = add_part(call, at, address, sizeof(message), sizeof(message));
	at = add_part(call, at, message.name, message.name_size, MAX_STRING);
	at = add_part(call, at, message.control, message.control_size, MAX_STRING);
	return add_vector(call, at, message.vector, message.count, filled);
}

static __always_inline u64 length_of(struct call *call, const struct call_copy *copy, s64 result)
{
	u64 other = call->record.arguments[copy->other < 6 ? copy->other : 0];
	u32 number = 0;

	switch (copy->extent) {
	case EXTENT_ARGUMENT:
		// An `int`, or a size that is none if it is larger.
		return (copy->size > 1 ? (u32)other : other) * copy->size;
	case EXTENT_RESULT:
		return result > 0 ? result * copy->size : 0;
	case EXTENT_POINTED:
		bpf_probe_read_user(&number, 4, (void *)other);
		return number;
	}
	return copy->size;
}

// Copies at most `limit` bytes, or a string (0); returns how many, negative if none can be read.
static __always_inline long copy_bytes(struct call *call, u64 at, const struct call_copy *copy, u64 address,
				       u64 limit)
{
	void *to = call->copied + at + sizeof(struct copied);

	if (copy->extent == EXTENT_TEXT)
		return bpf_probe_read_user_str(to, MAX_COPY, (void *)address);
	if (limit > MAX_COPY)
		limit = MAX_COPY;
	if (!bpf_probe_read_user(to, limit, (void *)address))
		return limit;
	if (copy->extent != EXTENT_UP_TO)
		return -1;
	// Up to the end of the page.
	limit = 4096 - (address & 4095);
	if (limit > MAX_COPY)
		limit = MAX_COPY;
	return bpf_probe_read_user(to, limit, (void *)address) ? -1 : limit;
}

__noinline int copy_argument(struct call *call, const struct call_copy *copy, u32 index, s64 result)
{
	u64 address, at, end, length, limit, filled;
	struct copied *header;
	long bytes;

	if (!call || !copy || copy->argument >= 6)
		return 0;
	address = call->record.arguments[copy->argument];
	at = call->record.used;
	if (!address || at > MAX_COPIED)
		return 0;
	header = (struct copied *)(call->copied + at);
	filled = copy->filled ? (result > 0 ? result : 0) : ~0ull;
	end = at + sizeof(*header);
	switch (copy->extent) {
	case EXTENT_STRINGS:
		end = add_strings(call, end, address);
		break;
	case EXTENT_VECTOR:
		end = add_vector(call, end, address, call->record.arguments[copy->other < 6 ? copy->other : 0],
				 filled);
		break;
	case EXTENT_MESSAGE:
		end = add_message(call, end, address, filled);
		break;
	default:
		length = length_of(call, copy, result);
		limit = copy->text && length > config.most ? config.most : length;
		bytes = limit || copy->extent == EXTENT_TEXT ? copy_bytes(call, at, copy, address, limit) : 0;
		if (bytes < 0) {
			call->record.missed |= 1 << index;
			return 0;
		}
		if (bytes > MAX_COPY)
			bytes = 0;
		if (copy->extent == EXTENT_TEXT)
			length = bytes == MAX_COPY ? MAX_COPY + 1 : bytes;
		header->copy = index;
		header->bytes = bytes;
		header->length = length > ~0u ? ~0u : length;
		call->record.used = at + sizeof(*header) + ((bytes + 7) & ~7ull);
		return 0;
	}
	header->copy = index;
	header->bytes = end - at - sizeof(*header);
	header->length = header->bytes;
	call->record.used = (end + 7) & ~7ull;
	return 0;
}

static __always_inline void copy_arguments(struct call *call, int at_exit, s64 result)
{
	u32 number = call->record.number, missed = call->record.missed;
	struct call_plan *plan;

	// Behind the others.
	if (call->record.compat)
		number = number < MAX_CALLS ? MAX_CALLS + number : ~0u;
	plan = bpf_map_lookup_elem(&plans, &number);
	if (!plan)
		return;
	for (u32 i = 0; i < MAX_COPIES; i++) {
		if (i >= plan->count)
			break;
		if (plan->copies[i].at_exit == at_exit || (at_exit && missed >> i & 1))
			copy_argument(call, &plan->copies[i], i, result);
	}
}

#endif
