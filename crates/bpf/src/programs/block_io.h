// SPDX-License-Identifier: MIT OR Apache-2.0
//
// What makes disks work: requests, from when they are made until they are done.

#ifndef PYROGRAPH_BLOCK_IO_H
#define PYROGRAPH_BLOCK_IO_H

#include "count.h"

// A request is made, most often by who needs it; only its driver comes to it later, in any thread.
SEC("tp_btf/block_io_start")
int BPF_PROG(on_request, struct request *request)
{
	if (config.measure == MEASURE_TIME)
		begin_here(ctx, SORT_PROBE, 0, (u64)request, BPF_ANY);
	else
		count_here(ctx, SORT_PROBE, 0,
			   config.measure == MEASURE_BYTES ? request->__data_len : 1);
	return 0;
}

SEC("tp_btf/block_io_done")
int BPF_PROG(on_request_done, struct request *request)
{
	if (state.on)
		end((u64)request);
	return 0;
}

#endif
