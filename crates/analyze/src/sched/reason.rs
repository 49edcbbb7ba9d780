//! Wait reasons, derived from the stack with which a task left its CPU.

use std::sync::Arc;

use pyrograph_profile::{FrameKind, StackLine, WaitReason};

/// Kernel functions in which tasks wait, by reason. Includes the different names of Linux 4.9 to 6.19.
#[rustfmt::skip]
const WAITS: [(WaitReason, &[&str]); 6] = [
    (WaitReason::Disk, &[
        "io_schedule", "io_schedule_timeout", "blk_io_schedule", "bit_wait_io", "wait_on_page_bit", "folio_wait_bit_common",
        "wait_on_page_writeback", "folio_wait_writeback", "submit_bio_wait", "dio_await_completion", "__iomap_dio_rw",
        "jbd2_log_wait_commit", "wait_transaction_locked", "xlog_wait_on_iclog", "blkdev_issue_flush", "blk_mq_get_tag", "rq_qos_wait",
        "balance_dirty_pages", "balance_dirty_pages_ratelimited", "swap_readpage",
    ]),
    (WaitReason::Lock, &[
        "futex_wait", "futex_wait_queue", "futex_wait_queue_me", "futex_do_wait", "__futex_wait", "futex_lock_pi",
        "mutex_lock", "__mutex_lock", "__mutex_lock_slowpath", "mutex_lock_interruptible", "rwsem_down_read_slowpath",
        "rwsem_down_write_slowpath", "down_read", "down_write", "__down_common", "rt_mutex_slowlock", "percpu_rwsem_wait",
        "do_semtimedop", "__do_semtimedop",
    ]),
    (WaitReason::Sleep, &["do_nanosleep", "hrtimer_nanosleep", "msleep", "msleep_interruptible", "usleep_range", "usleep_range_state"]),
    (WaitReason::Network, &[
        "sk_wait_data", "tcp_recvmsg", "tcp_recvmsg_locked", "tcp_sendmsg", "tcp_sendmsg_locked", "sk_stream_wait_memory",
        "inet_csk_accept", "inet_csk_wait_for_connect", "inet_stream_connect", "__skb_wait_for_more_packets", "udp_recvmsg",
        "unix_stream_read_generic", "unix_stream_data_wait", "unix_accept", "unix_wait_for_peer", "sock_alloc_send_pskb",
        "netlink_recvmsg", "packet_recvmsg",
    ]),
    (WaitReason::Pipe, &[
        "pipe_read", "pipe_write", "pipe_wait", "pipe_wait_readable", "pipe_wait_writable", "anon_pipe_read", "anon_pipe_write",
        "n_tty_read", "n_tty_write", "ep_poll", "do_epoll_wait", "do_sys_poll", "do_poll", "do_select", "core_sys_select",
        "eventfd_read", "signalfd_read", "signalfd_read_iter", "timerfd_read", "timerfd_read_iter", "inotify_read",
    ]),
    (WaitReason::Child, &["do_wait", "kernel_wait4", "kernel_waitid", "wait_for_vfork_done"]),
];

/// Reason for a wait; [`WaitReason::Unknown`] if no function of the stack is in the table. The innermost match is
/// used: a program that reads a file to send it to a socket waits for the disk.
pub(super) fn of_stack(stack: &[Arc<StackLine>]) -> WaitReason {
    let kernel = stack.iter().filter(|line| line.kind == FrameKind::Kernel);
    let named = |line: &Arc<StackLine>| {
        // Compilers append suffixes: `do_wait.part.0`.
        let name = line.function.split('.').next()?;
        WAITS.iter().find(|(_, functions)| functions.contains(&name)).map(|(reason, _)| *reason)
    };
    kernel.filter_map(named).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(functions: &[&str], kind: FrameKind) -> WaitReason {
        let line = |name: &&str| {
            Arc::new(StackLine { function: (*name).to_owned(), kind, ..StackLine::default() })
        };
        of_stack(&functions.iter().map(line).collect::<Vec<_>>())
    }

    #[test]
    fn the_innermost_wait_counts() {
        let kernel = |functions: &[&str]| reason(functions, FrameKind::Kernel);
        assert_eq!(
            kernel(&["__schedule", "schedule", "io_schedule", "tcp_sendmsg"]),
            WaitReason::Disk
        );
        assert_eq!(kernel(&["schedule", "futex_wait_queue_me", "do_futex"]), WaitReason::Lock);
        assert_eq!(kernel(&["do_nanosleep.isra.0", "hrtimer_nanosleep"]), WaitReason::Sleep);
        assert_eq!(kernel(&["schedule_timeout", "sk_wait_data"]), WaitReason::Network);
        assert_eq!(kernel(&["schedule", "ep_poll", "do_epoll_wait"]), WaitReason::Pipe);
        assert_eq!(kernel(&["do_wait"]), WaitReason::Child);
        assert_eq!(kernel(&["schedule", "kthread"]), WaitReason::Unknown);
        // A function of a program may have the name of one of the kernel.
        assert_eq!(reason(&["pipe_read"], FrameKind::User), WaitReason::Unknown);
    }
}
