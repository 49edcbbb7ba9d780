// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Bytes that programs send and receive through sockets, whatever system call they use.

#ifndef PYROGRAPH_NET_H
#define PYROGRAPH_NET_H

#include "count.h"

// Only peeks: the next call gets the same bytes (include/linux/socket.h).
#define MSG_PEEK 2

static __always_inline u32 detail_of(struct sock *sock)
{
	return (u32)sock->__sk_common.skc_family << 16 | sock->sk_protocol;
}

SEC("tp_btf/sock_send_length")
int BPF_PROG(on_sent, struct sock *sock, int bytes, int flags)
{
	if (bytes > 0)
		count_here(ctx, KIND_SENT, detail_of(sock), bytes);
	return 0;
}

SEC("tp_btf/sock_recv_length")
int BPF_PROG(on_received, struct sock *sock, int bytes, int flags)
{
	if (bytes > 0 && !(flags & MSG_PEEK))
		count_here(ctx, KIND_RECEIVED, detail_of(sock), bytes);
	return 0;
}

#endif
