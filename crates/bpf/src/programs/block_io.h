// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Block I/O: requests, from when they are issued until they are done.

#ifndef PYROGRAPH_BLOCK_IO_H
#define PYROGRAPH_BLOCK_IO_H

#include "count.h"

static __always_inline void requested(void *ctx, struct request *request)
{
	if (config.measure == MEASURE_TIME)
		begin_here(ctx, KIND_PROBE, 0, (u64)request, BPF_ANY);
	else
		count_here(ctx, KIND_PROBE, 0,
			   config.measure == MEASURE_BYTES ? request->__data_len : 1);
}

// A request is made, most often by who needs it; only its driver comes to it later, in any thread.
SEC("tp_btf/block_io_start")
int BPF_PROG(on_request, struct request *request)
{
	requested(ctx, request);
	return 0;
}

SEC("tp_btf/block_io_done")
int BPF_PROG(on_request_done, struct request *request)
{
	if (state.on)
		end((u64)request);
	return 0;
}

// Before Linux 6.5 these are the only events of requests: one is given to the driver, most often still by the thread
// that needs it, and it is done.
SEC("tp_btf/block_rq_issue")
int BPF_PROG(on_issue, struct request *request)
{
	requested(ctx, request);
	return 0;
}

SEC("tp_btf/block_rq_complete")
int BPF_PROG(on_complete, struct request *request)
{
	if (state.on)
		end((u64)request);
	return 0;
}

#endif
