#define _GNU_SOURCE
#define __EXPORTED_HEADERS__
#include <stddef.h>
int printf(const char*,...);
#include <linux/perf_event.h>
int main(){printf("%s %lld\n","PERF_FLAG_FD_CLOEXEC",(long long)(PERF_FLAG_FD_CLOEXEC));printf("%s %lld\n","PERF_FLAG_FD_NO_GROUP",(long long)(PERF_FLAG_FD_NO_GROUP));printf("%s %lld\n","PERF_FLAG_FD_OUTPUT",(long long)(PERF_FLAG_FD_OUTPUT));printf("%s %lld\n","PERF_FLAG_PID_CGROUP",(long long)(PERF_FLAG_PID_CGROUP));}