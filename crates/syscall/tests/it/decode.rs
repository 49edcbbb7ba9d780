//! Calls as they are written, from registers and copied memory.

use std::borrow::Cow;

use proptest::prelude::*;
use pyrograph_syscall::When::{Entry, Exit};
use pyrograph_syscall::{
    Call, Copied, Descriptors, Files, Piece, Seen, When, Written, arguments, by_number, number_of,
    push_piece, result, write_arguments, write_result,
};

/// Descriptor 3 is a file.
struct One;

impl Files for One {
    fn name(&self, descriptor: i32) -> Option<Cow<'_, str>> {
        (descriptor == 3).then_some(Cow::Borrowed("/tmp/a"))
    }
}

/// Memory behind an argument, before or after the call.
type Behind<'a> = (u8, When, &'a [u8]);

fn check(
    name: &str,
    registers: &[i64],
    returned: Option<i64>,
    memory: &[Behind<'_>],
    expect: &str,
) {
    let number = number_of(name).expect("a call");
    let copies = by_number(number).map(Call::copies).expect("a call");
    let mut copied = Vec::new();
    for &(argument, when, bytes) in memory {
        let copy = copies.iter().position(|copy| copy.argument == argument && copy.when == when);
        let copy =
            copy.unwrap_or_else(|| panic!("{name}: nothing is copied of argument {argument}"));
        copied.push(Copied { copy, bytes, length: bytes.len() as u64 });
    }
    let mut all = [0; 6];
    for (to, from) in all.iter_mut().zip(registers) {
        *to = *from as u64;
    }
    let seen = Seen { number, arguments: all, result: returned, copied: &copied };
    let words: Vec<String> =
        arguments(&seen, &One, &Written::default()).into_iter().map(|(_, word)| word).collect();
    let line = format!("{}) = {}", words.join(", "), result(&seen, &One));
    assert_eq!(line, expect, "{name}");
    let mut same = String::new();
    write_arguments(&seen, &One, &Written::default(), &mut same);
    same.push_str(") = ");
    write_result(&seen, &One, &mut same);
    assert_eq!(same, line, "{name}: both ways to write it");
}

const AT: i64 = 0x7000_1000;

#[test]
fn numbers_flags_and_names() {
    let done = Some(0);
    check(
        "openat",
        &[-100, AT, 0o2_000_000],
        Some(3),
        &[(1, Entry, b"/tmp/a")],
        r#"AT_FDCWD, "/tmp/a", O_RDONLY|O_CLOEXEC) = 3</tmp/a>"#,
    );
    check(
        "openat",
        &[-100, AT, 0o1101, 0o644],
        Some(-13),
        &[],
        "AT_FDCWD, 0x70001000, O_WRONLY|O_CREAT|O_TRUNC, 0644) = -1 EACCES (Permission denied)",
    );
    check(
        "openat",
        &[-100, AT, 0o20_200_002, 0],
        Some(3),
        &[],
        "AT_FDCWD, 0x70001000, O_RDWR|O_TMPFILE, 000) = 3</tmp/a>",
    );
    check(
        "mmap",
        &[0, 8192, 3, 0x22, -1, 0],
        Some(AT),
        &[],
        "NULL, 8192, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0) = 0x70001000",
    );
    check(
        "mmap",
        &[0, 10, 0, 1 << 31 | 1, 3, 0x1000],
        Some(-12),
        &[],
        "NULL, 10, PROT_NONE, MAP_SHARED|0x80000000, 3</tmp/a>, 0x1000) = -1 ENOMEM (Cannot allocate memory)",
    );
    check("lseek", &[3, -5, 1], Some(7), &[], "3</tmp/a>, -5, SEEK_CUR) = 7");
    check("umask", &[0o22], Some(0o27), &[], "022) = 027");
    check("kill", &[-1, 64], done, &[], "-1, SIGRT_32) = 0");
    check("exit_group", &[3], None, &[], "3) = ?");
    check("fcntl", &[3, 1], Some(1), &[], "3</tmp/a>, F_GETFD) = 0x1 (flags FD_CLOEXEC)");
    check(
        "fcntl",
        &[3, 3],
        Some(0o104_002),
        &[],
        "3</tmp/a>, F_GETFL) = 0x8802 (flags O_RDWR|O_NONBLOCK|O_LARGEFILE)",
    );
    check("fcntl", &[9, 1030, 3], Some(3), &[], "9, F_DUPFD_CLOEXEC, 3) = 3</tmp/a>");
    check("futex", &[AT, 129, 1], Some(1), &[], "0x70001000, FUTEX_WAKE_PRIVATE, 1) = 1");
    check(
        "futex",
        &[AT, 393, 0, 0, 0, -1],
        Some(-512),
        &[],
        "0x70001000, FUTEX_WAIT_BITSET_PRIVATE|FUTEX_CLOCK_REALTIME, 0, NULL, FUTEX_BITSET_MATCH_ANY) = ? ERESTARTSYS (To be restarted if SA_RESTART is set)",
    );
    check(
        "close_range",
        &[3, 0xffff_ffff, 4],
        done,
        &[],
        "3, 4294967295, CLOSE_RANGE_CLOEXEC) = 0",
    );
    check("ioctl", &[3, 0x5421, 0], done, &[], "3</tmp/a>, FIONBIO, NULL) = 0");
    check(
        "ioctl",
        &[3, 0xc008_1234, 5],
        Some(-25),
        &[],
        "3</tmp/a>, _IOC(_IOC_READ|_IOC_WRITE, 0x12, 0x34, 0x8), 0x5) = -1 ENOTTY (Inappropriate ioctl for device)",
    );
    check("faccessat", &[-100, AT, 0], done, &[(1, Entry, b"/x")], r#"AT_FDCWD, "/x", F_OK) = 0"#);
}

#[test]
fn arguments_that_depend_on_the_command() {
    let done = Some(0);
    check(
        "keyctl",
        &[0, -3, 0, 9, 9],
        Some(5),
        &[],
        "KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING, 0) = 5",
    );
    check("keyctl", &[11, 77, AT, 16, 9], Some(5), &[], "KEYCTL_READ, 77, 0x70001000, 0x10) = 5");
    check("keyctl", &[18, 9, 9, 9, 9], done, &[], "KEYCTL_SESSION_TO_PARENT) = 0");
    check(
        "prctl",
        &[15, AT, 9, 9, 9],
        done,
        &[(1, Entry, b"worker\0\0")],
        r#"PR_SET_NAME, "worker") = 0"#,
    );
    check("prctl", &[38, 1, 0, 0, 0], done, &[], "PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) = 0");
    check("prctl", &[1, 15, 0, 0, 0], done, &[], "PR_SET_PDEATHSIG, SIGTERM) = 0");
    check(
        "mremap",
        &[AT, 1, 2, 1, AT],
        Some(AT),
        &[],
        "0x70001000, 1, 2, MREMAP_MAYMOVE) = 0x70001000",
    );
    check(
        "fcntl",
        &[3, 6, AT],
        done,
        &[(2, Entry, &[1, 0, 0, 0, 0, 0, 0, 0].repeat(4))],
        "3</tmp/a>, F_SETLK, {l_type=F_WRLCK, l_whence=SEEK_SET, l_start=1, l_len=1}) = 0",
    );
    check(
        "ioctl",
        &[3, 0x5413, AT],
        done,
        &[(2, Exit, &[24, 0, 80, 0, 0, 0, 0, 0])],
        "3</tmp/a>, TIOCGWINSZ, {ws_row=24, ws_col=80, ws_xpixel=0, ws_ypixel=0}) = 0",
    );
    check(
        "ioctl",
        &[3, 0x541b, AT],
        done,
        &[(2, Exit, &[5, 0, 0, 0])],
        "3</tmp/a>, FIONREAD, [5]) = 0",
    );
    check(
        "socket",
        &[16, 3, 15],
        Some(3),
        &[],
        "AF_NETLINK, SOCK_RAW, NETLINK_KOBJECT_UEVENT) = 3</tmp/a>",
    );
    check(
        "bpf",
        &[1, AT, 24],
        done,
        &[(1, Entry, &words(&[3, 0x10, 0x20]))],
        "BPF_MAP_LOOKUP_ELEM, {map_fd=3</tmp/a>, key=0x10, value=0x20, ...}, 24) = 0",
    );
}

fn words(all: &[u64]) -> Vec<u8> {
    all.iter().flat_map(|word| word.to_le_bytes()).collect()
}

#[test]
fn structures() {
    let done = Some(0);
    let times = words(&[1, 500]);
    check(
        "nanosleep",
        &[AT, AT],
        done,
        &[(0, Entry, &times)],
        "{tv_sec=1, tv_nsec=500}, 0x70001000) = 0",
    );
    check(
        "prlimit64",
        &[0, 3, 0, AT],
        done,
        &[(3, Exit, &words(&[8 << 20, u64::MAX]))],
        "0, RLIMIT_STACK, NULL, {rlim_cur=8192*1024, rlim_max=RLIM64_INFINITY}) = 0",
    );
    check(
        "rt_sigprocmask",
        &[0, AT, AT, 8],
        done,
        &[(1, Entry, &words(&[0x1_0002])), (2, Exit, &words(&[u64::MAX]))],
        "SIG_BLOCK, [INT CHLD], ~[], 8) = 0",
    );
    let action = words(&[0xdead, 0x1400_0000, 0xbeef, 0]);
    check(
        "rt_sigaction",
        &[17, AT, 0, 8],
        done,
        &[(1, Entry, &action)],
        "SIGCHLD, {sa_handler=0xdead, sa_mask=[], sa_flags=SA_RESTORER|SA_RESTART, sa_restorer=0xbeef}, NULL, 8) = 0",
    );
    check(
        "wait4",
        &[-1, AT, 1, 0],
        Some(9),
        &[(1, Exit, &[0, 7, 0, 0])],
        "-1, [{WIFEXITED(s) && WEXITSTATUS(s) == 7}], WNOHANG, NULL) = 9",
    );
    check(
        "wait4",
        &[-1, AT, 0, 0],
        Some(9),
        &[(1, Exit, &[0x8b, 0, 0, 0])],
        "-1, [{WIFSIGNALED(s) && WTERMSIG(s) == SIGSEGV && WCOREDUMP(s)}], 0, NULL) = 9",
    );
    check(
        "wait4",
        &[-1, AT, 1, 0],
        done,
        &[(1, Exit, &[0, 0, 0, 0])],
        "-1, 0x70001000, WNOHANG, NULL) = 0",
    );
    check(
        "ppoll",
        &[AT, 1, 0, 0, 8],
        Some(1),
        &[(0, Entry, &words(&[0x0001_0000_0003])), (0, Exit, &words(&[0x0010_0001_0000_0003]))],
        "[{fd=3</tmp/a>, events=POLLIN}], 1, NULL, NULL, 8) = 1 ([{fd=3</tmp/a>, revents=POLLHUP}])",
    );
    check(
        "ppoll",
        &[AT, 1, 0, 0, 8],
        done,
        &[(0, Entry, &words(&[0x0001_0000_0003]))],
        "[{fd=3</tmp/a>, events=POLLIN}], 1, NULL, NULL, 8) = 0 (Timeout)",
    );
    check(
        "pselect6",
        &[8, AT, 0, 0, 0, 0],
        done,
        &[(1, Entry, &[0x88, 0xff])],
        "8, [3</tmp/a> 7], NULL, NULL, NULL, NULL) = 0 (Timeout)",
    );
    check(
        "sched_getaffinity",
        &[0, 8, AT],
        Some(8),
        &[(2, Exit, &words(&[5]))],
        "0, 8, [0 2]) = 8",
    );
    let how = words(&[0o2_000_000, 0, 8]);
    check(
        "openat2",
        &[-100, AT, AT, 24],
        Some(3),
        &[(1, Entry, b"a"), (2, Entry, &how)],
        r#"AT_FDCWD, "a", {flags=O_RDONLY|O_CLOEXEC, mode=000, resolve=RESOLVE_BENEATH}, 24) = 3</tmp/a>"#,
    );
    check(
        "pipe2",
        &[AT, 0o2_000_000],
        done,
        &[(0, Exit, &[3, 0, 0, 0, 4, 0, 0, 0])],
        "[3</tmp/a>, 4], O_CLOEXEC) = 0",
    );
}

#[test]
#[cfg(target_arch = "x86_64")]
fn structures_of_x86_64() {
    let mut stat = [0_u8; 144];
    stat[24..28].copy_from_slice(&0o100_644_u32.to_le_bytes());
    stat[48..56].copy_from_slice(&1234_u64.to_le_bytes());
    check(
        "fstat",
        &[3, AT],
        Some(0),
        &[(1, Exit, &stat)],
        "3</tmp/a>, {st_mode=S_IFREG|0644, st_size=1234, ...}) = 0",
    );
    stat[24..28].copy_from_slice(&0o020_620_u32.to_le_bytes());
    stat[40..48].copy_from_slice(&0x8802_u64.to_le_bytes());
    check(
        "fstat",
        &[3, AT],
        Some(0),
        &[(1, Exit, &stat)],
        "3</tmp/a>, {st_mode=S_IFCHR|0620, st_rdev=makedev(0x88, 0x2), ...}) = 0",
    );
    check(
        "fstat",
        &[3, AT],
        Some(-9),
        &[(1, Exit, &stat)],
        "3</tmp/a>, 0x70001000) = -1 EBADF (Bad file descriptor)",
    );
    let event = [1, 0, 0, 0x80, 3, 0, 0, 0, 0, 0, 0, 0];
    check(
        "epoll_ctl",
        &[5, 1, 3, AT],
        Some(0),
        &[(3, Entry, &event)],
        "5, EPOLL_CTL_ADD, 3</tmp/a>, {events=EPOLLIN|EPOLLET, data={u32=3, u64=3}}) = 0",
    );
    check(
        "epoll_wait",
        &[5, AT, 8, -1],
        Some(1),
        &[(1, Exit, &event)],
        "5, [{events=EPOLLIN|EPOLLET, data={u32=3, u64=3}}], 8, -1) = 1",
    );
    check("arch_prctl", &[0x1002, AT], Some(0), &[], "ARCH_SET_FS, 0x70001000) = 0");
}

#[test]
fn addresses_of_sockets() {
    let name = |bytes: &[u8], expect: &str| {
        check(
            "connect",
            &[3, AT, bytes.len() as i64],
            Some(0),
            &[(1, Entry, bytes)],
            &format!("3</tmp/a>, {expect}, {}) = 0", bytes.len()),
        );
    };
    name(
        &[2, 0, 0, 80, 127, 0, 0, 1],
        r#"{sa_family=AF_INET, sin_port=htons(80), sin_addr=inet_addr("127.0.0.1")}"#,
    );
    name(b"\x01\0/run/x\0", r#"{sa_family=AF_UNIX, sun_path="/run/x"}"#);
    name(b"\x01\0\0abs", r#"{sa_family=AF_UNIX, sun_path=@"abs"}"#);
    name(b"\x01\0", "{sa_family=AF_UNIX}");
    name(
        &[16, 0, 0, 0, 9, 0, 0, 0, 1, 0, 0, 0],
        "{sa_family=AF_NETLINK, nl_pid=9, nl_groups=00000001}",
    );
    let mut v6 = [0_u8; 28];
    v6[0] = 10;
    v6[3] = 53;
    v6[23] = 1;
    name(
        &v6,
        r#"{sa_family=AF_INET6, sin6_port=htons(53), sin6_flowinfo=htonl(0), inet_pton(AF_INET6, "::1", &sin6_addr), sin6_scope_id=0}"#,
    );
    name(&[2], "{}");
    check(
        "socket",
        &[2, 0o2_004_001, 6],
        Some(3),
        &[],
        "AF_INET, SOCK_STREAM|SOCK_CLOEXEC|SOCK_NONBLOCK, IPPROTO_TCP) = 3</tmp/a>",
    );
    check(
        "setsockopt",
        &[3, 1, 2, AT, 4],
        Some(0),
        &[(3, Entry, &[1, 0, 0, 0])],
        "3</tmp/a>, SOL_SOCKET, SO_REUSEADDR, [1], 4) = 0",
    );
    check(
        "getsockopt",
        &[3, 1, 4, AT, AT],
        Some(0),
        &[(3, Exit, &[111, 0, 0, 0]), (4, Entry, &[4, 0, 0, 0]), (4, Exit, &[4, 0, 0, 0])],
        "3</tmp/a>, SOL_SOCKET, SO_ERROR, [ECONNREFUSED], [4]) = 0",
    );
}

fn pieces(all: &[(u64, u64, &[u8])]) -> Vec<u8> {
    let mut out = Vec::new();
    for &(address, length, bytes) in all {
        push_piece(&mut out, &Piece { address, length, bytes });
    }
    out
}

#[test]
fn several_pieces_of_memory() {
    let two = pieces(&[(AT as u64, 5, b"hello"), (AT as u64, 100, b"cut")]);
    check(
        "writev",
        &[3, AT, 2],
        Some(105),
        &[(1, Entry, &two)],
        r#"3</tmp/a>, [{iov_base="hello", iov_len=5}, {iov_base="cut"..., iov_len=100}], 2) = 105"#,
    );
    check(
        "readv",
        &[3, AT, 2],
        Some(7),
        &[(1, Exit, &two)],
        r#"3</tmp/a>, [{iov_base="hello", iov_len=5}, {iov_base="cu", iov_len=100}], 2) = 7"#,
    );
    let argv = pieces(&[(1, 2, b"ls"), (2, 3, b"-la")]);
    check(
        "execve",
        &[AT, AT, AT],
        Some(0),
        &[(0, Entry, b"/bin/ls"), (1, Entry, &argv), (2, Entry, &words(&[1, 2]))],
        r#""/bin/ls", ["ls", "-la"], 0x70001000 /* 2 vars */) = 0"#,
    );
    let header = words(&[0, 0, AT as u64, 1, AT as u64, 24, 0]);
    let rights = [words(&[20, 1 | 1 << 32]), vec![3, 0, 0, 0, 0, 0, 0, 0]].concat();
    let message = pieces(&[
        (AT as u64, 56, &header),
        (0, 0, b""),
        (AT as u64, 24, &rights),
        (AT as u64, 1, b"x"),
    ]);
    check(
        "sendmsg",
        &[3, AT, 0x4000],
        Some(1),
        &[(1, Entry, &message)],
        r#"3</tmp/a>, {msg_name=NULL, msg_namelen=0, msg_iov=[{iov_base="x", iov_len=1}], msg_iovlen=1, msg_control=[{cmsg_len=20, cmsg_level=SOL_SOCKET, cmsg_type=SCM_RIGHTS, cmsg_data=[3</tmp/a>]}], msg_controllen=24, msg_flags=0}, MSG_NOSIGNAL) = 1"#,
    );
    check(
        "sendmsg",
        &[3, AT, 0],
        Some(1),
        &[(1, Entry, b"damaged")],
        "3</tmp/a>, 0x70001000, 0) = 1",
    );
}

#[test]
fn what_was_cut_is_marked() {
    let number = number_of("read").expect("a call");
    let line = |bytes: &[u8], length, text| {
        let copied = [Copied { copy: 0, bytes, length }];
        let seen = Seen {
            number,
            arguments: [3, AT as u64, 100, 0, 0, 0],
            result: Some(length as i64),
            copied: &copied,
        };
        arguments(&seen, &(), &Written { text, items: 32 })[1].1.clone()
    };
    assert_eq!(line(b"abc", 3, 32), r#""abc""#);
    assert_eq!(line(b"abc", 9, 32), r#""abc"..."#);
    assert_eq!(line(b"abcdef", 6, 3), r#""abc"..."#);
}

#[test]
fn an_unknown_call_prints_raw_words() {
    let seen =
        Seen { number: 9999, arguments: [1, 0, 0xff, 0, 0, 0], result: Some(-38), copied: &[] };
    let all: Vec<_> = arguments(&seen, &(), &Written::default());
    assert_eq!(
        all.iter().map(|(_, word)| word.as_str()).collect::<Vec<_>>(),
        ["0x1", "0", "0xff", "0", "0", "0"]
    );
    assert_eq!(result(&seen, &()), "-1 ENOSYS (Function not implemented)");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Whatever a program has in its registers and memory is written, in not much more text than there is memory.
    #[test]
    fn any_memory_is_written(
        number in 0_u32..512,
        registers in any::<[u64; 6]>(),
        small in any::<[u8; 6]>(),
        returned in proptest::option::of(prop_oneof![Just(0), 1_i64..100, any::<i64>()]),
        copies in proptest::collection::vec((0_usize..4, proptest::collection::vec(any::<u8>(), 0..200), 0_u64..300), 0..4),
    ) {
        // Commands are small numbers, mostly.
        let mut registers = registers;
        for (register, small) in registers.iter_mut().zip(small) {
            if small < 128 {
                *register = u64::from(small);
            }
        }
        let copied: Vec<Copied<'_>> =
            copies.iter().map(|(copy, bytes, length)| Copied { copy: *copy, bytes, length: *length }).collect();
        let seen = Seen { number, arguments: registers, result: returned, copied: &copied };
        let mut files = Descriptors::new();
        files.set_directory("/");
        let words = arguments(&seen, &files, &Written::default());
        files.follow(&seen);
        let all = words.iter().map(|(_, word)| word.len()).sum::<usize>() + result(&seen, &files).len();
        prop_assert!(all < 16384 + 100 * copies.iter().map(|(_, bytes, _)| bytes.len()).sum::<usize>());
    }
}
