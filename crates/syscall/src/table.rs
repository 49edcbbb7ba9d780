//! Table of the system calls of Linux 6.18: numbers on x86_64 and aarch64 (`_` if there is none), names of arguments
//! from the kernel's tracefs (`events/syscalls/*/format`), and kinds of arguments, from the manual page of each call.

use crate::call::{Argument, Call, Extent, Returns, When};
use crate::decode::{
    files, futex, ioctl, ipc, memory, network, process, socket_options, time, tracing, waiting,
};
use crate::kind::Kind::{
    Address, Both, Device, Fd, Flags, Flags64, Hex, Int, Long, Memory, MemoryWith, Mixed, Mode,
    Name, Path, Signal, Text, Uint, Ulong, With,
};
use crate::kind::{Item, Kind, Shape};
use crate::layouts::*;
use crate::words::NONE;
use crate::words::{
    events::*, files::*, ipc::*, memory::*, network::*, process::*, signals::*, time::*, tracing::*,
};

/// A call and its numbers, negative if an architecture does not have it.
pub(crate) struct Row {
    pub x86_64: i16,
    pub aarch64: i16,
    pub call: Call,
}

macro_rules! number {
    (_) => {
        -1
    };
    ($number:literal) => {
        $number
    };
}

macro_rules! returns {
    () => {
        Returns::Number
    };
    ($returns:ident) => {
        Returns::$returns
    };
}

macro_rules! calls {
    ($($x86_64:tt $aarch64:tt $name:ident ($($argument:ident: $kind:expr),*) $(-> $returns:ident)?;)*) => {
        pub(crate) static ROWS: &[Row] = &[$(Row {
            x86_64: number!($x86_64),
            aarch64: number!($aarch64),
            call: Call {
                name: stringify!($name),
                arguments: &[$(Argument { name: stringify!($argument), kind: $kind }),*],
                returns: returns!($($returns)?),
            },
        }),*];
    };
}

const fn entry(extent: Extent, shape: Shape) -> Kind {
    Memory(When::Entry, extent, shape)
}

const fn exit(extent: Extent, shape: Shape) -> Kind {
    Memory(When::Exit, extent, shape)
}

/// Bytes that the call reads, or writes.
const fn input(extent: Extent) -> Kind {
    entry(extent, Shape::Bytes)
}

const fn output(extent: Extent) -> Kind {
    exit(extent, Shape::Bytes)
}

/// One item that the call reads, or writes.
const fn set(item: &'static Item) -> Kind {
    entry(Extent::Fixed(item.size() as u32), Shape::One(item))
}

const fn get(item: &'static Item) -> Kind {
    exit(Extent::Fixed(item.size() as u32), Shape::One(item))
}

/// Several items.
const fn setn(extent: Extent, item: &'static Item) -> Kind {
    entry(extent, Shape::Array(item))
}

const fn getn(extent: Extent, item: &'static Item) -> Kind {
    exit(extent, Shape::Array(item))
}

/// The number of bytes, or of elements of a size, that an argument has.
const fn arg(argument: u8) -> Extent {
    args(argument, 1)
}

const fn args(argument: u8, times: u32) -> Extent {
    Extent::Argument { argument, times }
}

/// The number of elements that the call returned.
const fn res(times: u32) -> Extent {
    Extent::Result { times }
}

/// An array of `struct iovec` that the call reads, or fills.
const fn vector(argument: u8) -> Kind {
    entry(Extent::Vector { argument, filled: false }, Shape::With(network::vector))
}

const fn filled(argument: u8) -> Kind {
    exit(Extent::Vector { argument, filled: true }, Shape::With(network::filled))
}

const OPEN_FLAGS: Kind = Mixed(3, OPEN_WAYS, OPEN);
const STATX_FLAGS: Kind = Mixed(0x6000, AT_STATX_WAYS, AT_STATX_FLAGS);
const SOCKET_TYPE: Kind = Mixed(0xf, SOCKET_TYPES, SOCKET_FLAGS);
const ADDRESS_IN: Kind = entry(arg(2), Shape::With(network::address));
const ADDRESS_OUT: Kind = exit(Extent::Pointed { argument: 2 }, Shape::With(network::address));
/// A `socklen_t` that the call changes.
const LENGTH: Kind = Both(&ONE_INT);
const SETS: Kind = entry(Extent::UpTo(waiting::SET_BYTES), Shape::With(waiting::descriptors));

calls! {
    0 63 read(fd: Fd, buf: output(res(1)), count: Ulong);
    1 64 write(fd: Fd, buf: input(arg(2)), count: Ulong);
    2 _ open(filename: Path, flags: OPEN_FLAGS, mode: With(files::open_mode)) -> Descriptor;
    3 57 close(fd: Fd);
    4 _ stat(filename: Path, statbuf: get(&STAT));
    5 80 fstat(fd: Fd, statbuf: get(&STAT));
    6 _ lstat(filename: Path, statbuf: get(&STAT));
    7 _ poll(ufds: MemoryWith(waiting::POLL_COPIES, waiting::poll), nfds: Uint, timeout_msecs: Int) -> Ready;
    8 62 lseek(fd: Fd, offset: Long, whence: Name(WHENCE));
    9 222 mmap(addr: Address, len: Ulong, prot: With(memory::protection), flags: With(memory::map_flags), fd: Fd, off: Hex) -> Address;
    10 226 mprotect(start: Address, len: Ulong, prot: With(memory::protection));
    11 215 munmap(addr: Address, len: Ulong);
    12 214 brk(brk: Address) -> Address;
    13 134 rt_sigaction(sig: Signal, act: set(&SIGACTION), oact: get(&SIGACTION), sigsetsize: Ulong);
    14 135 rt_sigprocmask(how: Name(MASK_WAYS), nset: set(&SIGNAL_SET), oset: get(&SIGNAL_SET), sigsetsize: Ulong);
    15 139 rt_sigreturn();
    16 29 ioctl(fd: Fd, cmd: With(ioctl::command), arg: MemoryWith(ioctl::COPIES, ioctl::argument));
    17 67 pread64(fd: Fd, buf: output(res(1)), count: Ulong, pos: Long);
    18 68 pwrite64(fd: Fd, buf: input(arg(2)), count: Ulong, pos: Long);
    19 65 readv(fd: Fd, vec: filled(2), vlen: Ulong);
    20 66 writev(fd: Fd, vec: vector(2), vlen: Ulong);
    21 _ access(filename: Path, mode: With(files::access));
    22 _ pipe(fildes: get(&PIPE));
    23 _ select(n: Int, inp: SETS, outp: SETS, exp: SETS, tvp: set(&TIMEVAL)) -> Ready;
    24 124 sched_yield();
    25 216 mremap(addr: Address, old_len: Ulong, new_len: Ulong, flags: Flags(REMAP), new_addr: With(memory::remap_address)) -> Address;
    26 227 msync(start: Address, len: Ulong, flags: Flags(MSYNC));
    27 232 mincore(start: Address, len: Ulong, vec: Address);
    28 233 madvise(start: Address, len_in: Ulong, behavior: Name(MADVISE));
    29 194 shmget(key: With(ipc::key), size: Ulong, shmflg: With(ipc::get_flags));
    30 196 shmat(shmid: Int, shmaddr: Address, shmflg: Flags(SHM_AT)) -> Address;
    31 195 shmctl(shmid: Int, cmd: Name(SHM_CONTROL), buf: Address);
    32 23 dup(fildes: Fd) -> Descriptor;
    33 _ dup2(oldfd: Fd, newfd: Fd) -> Descriptor;
    34 _ pause();
    35 101 nanosleep(rqtp: set(&TIMESPEC), rmtp: With(time::remaining));
    36 102 getitimer(which: Name(INTERVALS), value: get(&ITIMERVAL));
    37 _ alarm(seconds: Uint);
    38 103 setitimer(which: Name(INTERVALS), value: set(&ITIMERVAL), ovalue: get(&ITIMERVAL));
    39 172 getpid();
    40 71 sendfile(out_fd: Fd, in_fd: Fd, offset: Both(&OFFSET), count: Ulong);
    41 198 socket(family: Name(FAMILIES), type: SOCKET_TYPE, protocol: With(network::protocol)) -> Descriptor;
    42 203 connect(fd: Fd, uservaddr: ADDRESS_IN, addrlen: Int);
    43 202 accept(fd: Fd, upeer_sockaddr: ADDRESS_OUT, upeer_addrlen: LENGTH) -> Descriptor;
    44 206 sendto(fd: Fd, buff: input(arg(2)), len: Ulong, flags: Flags(MESSAGES), addr: entry(arg(5), Shape::With(network::address)), addr_len: Int);
    45 207 recvfrom(fd: Fd, ubuf: output(res(1)), size: Ulong, flags: Flags(MESSAGES), addr: exit(Extent::Pointed { argument: 5 }, Shape::With(network::address)), addr_len: LENGTH);
    46 211 sendmsg(fd: Fd, msg: entry(Extent::Message, Shape::With(network::message)), flags: Flags(MESSAGES));
    47 212 recvmsg(fd: Fd, msg: exit(Extent::Message, Shape::With(network::message)), flags: Flags(MESSAGES));
    48 210 shutdown(fd: Fd, how: Name(SHUTDOWN));
    49 200 bind(fd: Fd, umyaddr: ADDRESS_IN, addrlen: Int);
    50 201 listen(fd: Fd, backlog: Int);
    51 204 getsockname(fd: Fd, usockaddr: ADDRESS_OUT, usockaddr_len: LENGTH);
    52 205 getpeername(fd: Fd, usockaddr: ADDRESS_OUT, usockaddr_len: LENGTH);
    53 199 socketpair(family: Name(FAMILIES), type: SOCKET_TYPE, protocol: With(network::protocol), usockvec: get(&PIPE));
    54 208 setsockopt(fd: Fd, level: Name(LEVELS), optname: With(socket_options::option), optval: MemoryWith(socket_options::IN, socket_options::value), optlen: Int);
    55 209 getsockopt(fd: Fd, level: Name(LEVELS), optname: With(socket_options::option), optval: MemoryWith(socket_options::OUT, socket_options::value), optlen: LENGTH);
    56 _ clone(clone_flags: With(process::clone_flags), newsp: Address, parent_tidptr: MemoryWith(process::PARENT_COPIES, process::clone_parent), child_tidptr: With(process::clone_child), tls: With(process::clone_tls));
    _ 220 clone(clone_flags: With(process::clone_flags), newsp: Address, parent_tidptr: MemoryWith(process::PARENT_COPIES, process::clone_parent), tls: With(process::clone_tls), child_tidptr: With(process::clone_child));
    57 _ fork();
    58 _ vfork();
    59 221 execve(filename: Path, argv: entry(Extent::Strings, Shape::With(process::strings)), envp: entry(Extent::Pointers, Shape::With(process::variables)));
    60 93 exit(error_code: Int) -> Never;
    61 260 wait4(upid: Int, stat_addr: exit(Extent::Fixed(4), Shape::With(process::wait_status)), options: Flags(WAIT), ru: get(&USAGE_TIMES));
    62 129 kill(pid: Int, sig: Signal);
    63 160 uname(name: get(&NAMES));
    64 190 semget(key: With(ipc::key), nsems: Int, semflg: With(ipc::get_flags));
    65 193 semop(semid: Int, tsops: setn(args(2, 6), &SEMAPHORE_OPERATION), nsops: Uint);
    66 191 semctl(semid: Int, semnum: Int, cmd: Name(SEM_CONTROL), arg: With(ipc::semaphore_argument));
    67 197 shmdt(shmaddr: Address);
    68 186 msgget(key: With(ipc::key), msgflg: With(ipc::get_flags));
    69 189 msgsnd(msqid: Int, msgp: Address, msgsz: Ulong, msgflg: Flags(MSG_FLAGS));
    70 188 msgrcv(msqid: Int, msgp: Address, msgsz: Ulong, msgtyp: Long, msgflg: Flags(MSG_FLAGS));
    71 187 msgctl(msqid: Int, cmd: Name(MSG_CONTROL), buf: Address);
    72 25 fcntl(fd: Fd, cmd: Name(FCNTL), arg: MemoryWith(files::FCNTL_COPIES, files::fcntl_argument)) -> Fcntl;
    73 32 flock(fd: Fd, cmd: Flags(FLOCK));
    74 82 fsync(fd: Fd);
    75 83 fdatasync(fd: Fd);
    76 45 truncate(path: Path, length: Long);
    77 46 ftruncate(fd: Fd, length: Long);
    78 _ getdents(fd: Fd, dirent: exit(res(1), Shape::With(files::entries)), count: Uint);
    79 17 getcwd(buf: exit(res(1), Shape::With(files::text)), size: Ulong);
    80 49 chdir(filename: Path);
    81 50 fchdir(fd: Fd);
    82 _ rename(oldname: Path, newname: Path);
    83 _ mkdir(pathname: Path, mode: Mode);
    84 _ rmdir(pathname: Path);
    85 _ creat(pathname: Path, mode: Mode) -> Descriptor;
    86 _ link(oldname: Path, newname: Path);
    87 _ unlink(pathname: Path);
    88 _ symlink(oldname: Path, newname: Path);
    89 _ readlink(path: Path, buf: output(res(1)), bufsiz: Int);
    90 _ chmod(filename: Path, mode: Mode);
    91 52 fchmod(fd: Fd, mode: Mode);
    92 _ chown(filename: Path, user: Int, group: Int);
    93 55 fchown(fd: Fd, user: Int, group: Int);
    94 _ lchown(filename: Path, user: Int, group: Int);
    95 166 umask(mask: Mode) -> Mode;
    96 169 gettimeofday(tv: get(&TIMEVAL), tz: get(&TIMEZONE));
    97 163 getrlimit(resource: Name(LIMITS), rlim: get(&LIMIT));
    98 165 getrusage(who: Name(USAGE), ru: get(&USAGE_TIMES));
    99 179 sysinfo(info: get(&SYSTEM));
    100 153 times(tbuf: get(&TIMES));
    101 117 ptrace(request: Name(PTRACE), pid: Long, addr: Hex, data: Hex);
    102 174 getuid();
    103 116 syslog(type: Int, buf: Address, len: Int);
    104 176 getgid();
    105 146 setuid(uid: Int);
    106 144 setgid(gid: Int);
    107 175 geteuid();
    108 177 getegid();
    109 154 setpgid(pid: Int, pgid: Int);
    110 173 getppid();
    111 _ getpgrp();
    112 157 setsid();
    113 145 setreuid(ruid: Int, euid: Int);
    114 143 setregid(rgid: Int, egid: Int);
    115 158 getgroups(gidsetsize: Int, grouplist: getn(res(4), &UINT));
    116 159 setgroups(gidsetsize: Int, grouplist: setn(args(0, 4), &UINT));
    117 147 setresuid(ruid: Int, euid: Int, suid: Int);
    118 148 getresuid(ruidp: get(&ONE_UINT), euidp: get(&ONE_UINT), suidp: get(&ONE_UINT));
    119 149 setresgid(rgid: Int, egid: Int, sgid: Int);
    120 150 getresgid(rgidp: get(&ONE_UINT), egidp: get(&ONE_UINT), sgidp: get(&ONE_UINT));
    121 155 getpgid(pid: Int);
    122 151 setfsuid(uid: Int);
    123 152 setfsgid(gid: Int);
    124 156 getsid(pid: Int);
    125 90 capget(header: set(&CAPABILITY_HEADER), dataptr: get(&CAPABILITY_DATA));
    126 91 capset(header: set(&CAPABILITY_HEADER), data: set(&CAPABILITY_DATA));
    127 136 rt_sigpending(uset: get(&SIGNAL_SET), sigsetsize: Ulong);
    128 137 rt_sigtimedwait(uthese: set(&SIGNAL_SET), uinfo: get(&SIGNAL_INFO), uts: set(&TIMESPEC), sigsetsize: Ulong);
    129 138 rt_sigqueueinfo(pid: Int, sig: Signal, uinfo: set(&SIGNAL_INFO));
    130 133 rt_sigsuspend(unewset: set(&SIGNAL_SET), sigsetsize: Ulong);
    131 132 sigaltstack(uss: set(&STACK), uoss: get(&STACK));
    132 _ utime(filename: Path, times: set(&UTIMBUF));
    133 _ mknod(filename: Path, mode: Mode, dev: With(files::device));
    134 _ uselib(library: Path);
    135 92 personality(personality: With(process::personality)) -> Hex;
    136 _ ustat(dev: Device, ubuf: Address);
    137 43 statfs(pathname: Path, buf: get(&STATFS));
    138 44 fstatfs(fd: Fd, buf: get(&STATFS));
    139 _ sysfs(option: Int, arg1: Hex, arg2: Hex);
    140 141 getpriority(which: Name(PRIORITY), who: Int);
    141 140 setpriority(which: Name(PRIORITY), who: Int, niceval: Int);
    142 118 sched_setparam(pid: Int, param: set(&ONE_INT));
    143 121 sched_getparam(pid: Int, param: get(&ONE_INT));
    144 119 sched_setscheduler(pid: Int, policy: Mixed(0xff, POLICIES, RESET_ON_FORK), param: set(&ONE_INT));
    145 120 sched_getscheduler(pid: Int);
    146 125 sched_get_priority_max(policy: Name(POLICIES));
    147 126 sched_get_priority_min(policy: Name(POLICIES));
    148 127 sched_rr_get_interval(pid: Int, interval: get(&TIMESPEC));
    149 228 mlock(start: Address, len: Ulong);
    150 229 munlock(start: Address, len: Ulong);
    151 230 mlockall(flags: Flags(LOCK_ALL));
    152 231 munlockall();
    153 58 vhangup();
    154 _ modify_ldt(func: Int, ptr: Address, bytecount: Ulong);
    155 41 pivot_root(new_root: Path, put_old: Path);
    156 _ _sysctl(args: Address);
    157 167 prctl(option: Name(PRCTL), arg2: MemoryWith(process::PRCTL_COPIES, process::prctl), arg3: With(process::prctl_rest), arg4: With(process::prctl_rest), arg5: With(process::prctl_rest));
    158 _ arch_prctl(option: Name(ARCH_PRCTL), arg2: With(process::arch_prctl));
    159 171 adjtimex(txc_p: Both(&TIMEX));
    160 164 setrlimit(resource: Name(LIMITS), rlim: set(&LIMIT));
    161 51 chroot(filename: Path);
    162 81 sync();
    163 89 acct(name: Path);
    164 170 settimeofday(tv: set(&TIMEVAL), tz: set(&TIMEZONE));
    165 40 mount(dev_name: Path, dir_name: Path, type: Text, flags: Flags64(MOUNT), data: Text);
    166 39 umount2(name: Path, flags: Flags(UMOUNT));
    167 224 swapon(specialfile: Path, swap_flags: Flags(SWAP));
    168 225 swapoff(specialfile: Path);
    169 142 reboot(magic1: Name(REBOOT_MAGIC), magic2: Name(REBOOT_MAGIC), cmd: Name(REBOOT), arg: Address);
    170 161 sethostname(name: input(arg(1)), len: Int);
    171 162 setdomainname(name: input(arg(1)), len: Int);
    172 _ iopl(level: Uint);
    173 _ ioperm(from: Hex, num: Hex, turn_on: Int);
    174 _ create_module();
    175 105 init_module(umod: Address, len: Ulong, uargs: Text);
    176 106 delete_module(name_user: Text, flags: Flags(OPEN));
    177 _ get_kernel_syms();
    178 _ query_module();
    179 60 quotactl(cmd: With(files::quota), special: Path, id: Int, addr: Address);
    180 42 nfsservctl();
    181 _ getpmsg();
    182 _ putpmsg();
    183 _ afs_syscall();
    184 _ tuxcall();
    185 _ security();
    186 178 gettid();
    187 213 readahead(fd: Fd, offset: Long, count: Ulong);
    188 5 setxattr(pathname: Path, name: Text, value: input(arg(3)), size: Ulong, flags: Flags(XATTR));
    189 6 lsetxattr(pathname: Path, name: Text, value: input(arg(3)), size: Ulong, flags: Flags(XATTR));
    190 7 fsetxattr(fd: Fd, name: Text, value: input(arg(3)), size: Ulong, flags: Flags(XATTR));
    191 8 getxattr(pathname: Path, name: Text, value: output(res(1)), size: Ulong);
    192 9 lgetxattr(pathname: Path, name: Text, value: output(res(1)), size: Ulong);
    193 10 fgetxattr(fd: Fd, name: Text, value: output(res(1)), size: Ulong);
    194 11 listxattr(pathname: Path, list: output(res(1)), size: Ulong);
    195 12 llistxattr(pathname: Path, list: output(res(1)), size: Ulong);
    196 13 flistxattr(fd: Fd, list: output(res(1)), size: Ulong);
    197 14 removexattr(pathname: Path, name: Text);
    198 15 lremovexattr(pathname: Path, name: Text);
    199 16 fremovexattr(fd: Fd, name: Text);
    200 130 tkill(pid: Int, sig: Signal);
    201 _ time(tloc: get(&LONG));
    202 98 futex(uaddr: Address, op: With(futex::operation), val: With(futex::value), utime: MemoryWith(futex::TIMEOUT, futex::timeout), uaddr2: With(futex::second), val3: With(futex::third));
    203 122 sched_setaffinity(pid: Int, len: Uint, user_mask_ptr: entry(arg(1), Shape::With(process::cpus)));
    204 123 sched_getaffinity(pid: Int, len: Uint, user_mask_ptr: exit(res(1), Shape::With(process::cpus)));
    205 _ set_thread_area(u_info: Address);
    206 0 io_setup(nr_events: Uint, ctxp: get(&HEX));
    207 1 io_destroy(ctx: Address);
    208 4 io_getevents(ctx_id: Address, min_nr: Long, nr: Long, events: getn(res(32), &IO_EVENT), timeout: set(&TIMESPEC));
    209 2 io_submit(ctx_id: Address, nr: Long, iocbpp: Address);
    210 3 io_cancel(ctx_id: Address, iocb: Address, result: Address);
    211 _ get_thread_area(u_info: Address);
    212 18 lookup_dcookie(cookie64: Hex, buf: output(res(1)), len: Ulong);
    213 _ epoll_create(size: Int) -> Descriptor;
    214 _ epoll_ctl_old();
    215 _ epoll_wait_old();
    216 234 remap_file_pages(start: Address, size: Ulong, prot: With(memory::protection), pgoff: Ulong, flags: With(memory::map_flags));
    217 61 getdents64(fd: Fd, dirent: exit(res(1), Shape::With(files::entries)), count: Uint);
    218 96 set_tid_address(tidptr: Address);
    219 128 restart_syscall();
    220 192 semtimedop(semid: Int, tsops: setn(args(2, 6), &SEMAPHORE_OPERATION), nsops: Uint, timeout: set(&TIMESPEC));
    221 223 fadvise64(fd: Fd, offset: Long, len: Ulong, advice: Name(FADVISE));
    222 107 timer_create(which_clock: Name(CLOCKS), timer_event_spec: set(&SIGNAL_EVENT), created_timer_id: get(&ONE_INT));
    223 110 timer_settime(timer_id: Int, flags: Flags(TIMER_FLAGS), new_setting: set(&ITIMERSPEC), old_setting: get(&ITIMERSPEC));
    224 108 timer_gettime(timer_id: Int, setting: get(&ITIMERSPEC));
    225 109 timer_getoverrun(timer_id: Int);
    226 111 timer_delete(timer_id: Int);
    227 112 clock_settime(which_clock: Name(CLOCKS), tp: set(&TIMESPEC));
    228 113 clock_gettime(which_clock: Name(CLOCKS), tp: get(&TIMESPEC));
    229 114 clock_getres(which_clock: Name(CLOCKS), tp: get(&TIMESPEC));
    230 115 clock_nanosleep(which_clock: Name(CLOCKS), flags: Flags(TIMER_FLAGS), rqtp: set(&TIMESPEC), rmtp: With(time::remaining));
    231 94 exit_group(error_code: Int) -> Never;
    232 _ epoll_wait(epfd: Fd, events: getn(res(EPOLL_EVENT_SIZE), &EPOLL_EVENT), maxevents: Int, timeout: Int);
    233 21 epoll_ctl(epfd: Fd, op: Name(EPOLL_CTL), fd: Fd, event: MemoryWith(waiting::EPOLL_COPIES, waiting::epoll_control));
    234 131 tgkill(tgid: Int, pid: Int, sig: Signal);
    235 _ utimes(filename: Path, utimes: set(&TWO_TIMEVALS));
    236 _ vserver();
    237 235 mbind(start: Address, len: Ulong, mode: Name(MEMORY_POLICIES), nmask: Address, maxnode: Ulong, flags: Flags(MEMORY_MOVE));
    238 237 set_mempolicy(mode: Name(MEMORY_POLICIES), nmask: Address, maxnode: Ulong);
    239 236 get_mempolicy(policy: get(&POLICY_OF_MEMORY), nmask: Address, maxnode: Ulong, addr: Address, flags: Flags(MEMORY_QUERY));
    240 180 mq_open(u_name: Text, oflag: OPEN_FLAGS, mode: With(files::open_mode), u_attr: MemoryWith(files::QUEUE_COPIES, files::queue_attributes)) -> Descriptor;
    241 181 mq_unlink(u_name: Text);
    242 182 mq_timedsend(mqdes: Fd, u_msg_ptr: input(arg(2)), msg_len: Ulong, msg_prio: Uint, u_abs_timeout: set(&TIMESPEC));
    243 183 mq_timedreceive(mqdes: Fd, u_msg_ptr: output(res(1)), msg_len: Ulong, u_msg_prio: get(&ONE_UINT), u_abs_timeout: set(&TIMESPEC));
    244 184 mq_notify(mqdes: Fd, u_notification: set(&SIGNAL_EVENT));
    245 185 mq_getsetattr(mqdes: Fd, u_mqstat: set(&QUEUE), u_omqstat: get(&QUEUE));
    246 104 kexec_load(entry: Address, nr_segments: Ulong, segments: Address, flags: Flags(KEXEC));
    247 95 waitid(which: Name(WAIT_ID), upid: Int, infop: get(&SIGNAL_INFO), options: Flags(WAIT_STATES), ru: get(&USAGE_TIMES));
    248 217 add_key(_type: Text, _description: Text, _payload: input(arg(3)), plen: Ulong, ringid: With(process::keyring));
    249 218 request_key(_type: Text, _description: Text, _callout_info: Text, destringid: With(process::keyring));
    250 219 keyctl(option: Name(KEYCTL), arg2: With(process::keyctl), arg3: With(process::keyctl), arg4: With(process::keyctl), arg5: With(process::keyctl));
    251 30 ioprio_set(which: Name(IO_PRIORITY), who: Int, ioprio: With(process::io_priority));
    252 31 ioprio_get(which: Name(IO_PRIORITY), who: Int);
    253 _ inotify_init() -> Descriptor;
    254 27 inotify_add_watch(fd: Fd, pathname: Path, mask: Flags(INOTIFY));
    255 28 inotify_rm_watch(fd: Fd, wd: Int);
    256 238 migrate_pages(pid: Int, maxnode: Ulong, old_nodes: Address, new_nodes: Address);
    257 56 openat(dfd: Fd, filename: Path, flags: OPEN_FLAGS, mode: With(files::open_mode)) -> Descriptor;
    258 34 mkdirat(dfd: Fd, pathname: Path, mode: Mode);
    259 33 mknodat(dfd: Fd, filename: Path, mode: Mode, dev: With(files::device));
    260 54 fchownat(dfd: Fd, filename: Path, user: Int, group: Int, flag: Flags(AT));
    261 _ futimesat(dfd: Fd, filename: Path, utimes: set(&TWO_TIMEVALS));
    262 79 newfstatat(dfd: Fd, filename: Path, statbuf: get(&STAT), flag: Flags(AT));
    263 35 unlinkat(dfd: Fd, pathname: Path, flag: Flags(AT_UNLINK));
    264 38 renameat(olddfd: Fd, oldname: Path, newdfd: Fd, newname: Path);
    265 37 linkat(olddfd: Fd, oldname: Path, newdfd: Fd, newname: Path, flags: Flags(AT));
    266 36 symlinkat(oldname: Path, newdfd: Fd, newname: Path);
    267 78 readlinkat(dfd: Fd, pathname: Path, buf: output(res(1)), bufsiz: Int);
    268 53 fchmodat(dfd: Fd, filename: Path, mode: Mode);
    269 48 faccessat(dfd: Fd, filename: Path, mode: With(files::access));
    270 72 pselect6(n: Int, inp: SETS, outp: SETS, exp: SETS, tsp: set(&TIMESPEC), sig: Address) -> Ready;
    271 73 ppoll(ufds: MemoryWith(waiting::POLL_COPIES, waiting::poll), nfds: Uint, tsp: set(&TIMESPEC), sigmask: set(&SIGNAL_SET), sigsetsize: Ulong) -> Ready;
    272 97 unshare(unshare_flags: Flags(CLONE3));
    273 99 set_robust_list(head: Address, len: Ulong);
    274 100 get_robust_list(pid: Int, head_ptr: get(&POINTER), len_ptr: get(&LONG));
    275 76 splice(fd_in: Fd, off_in: set(&OFFSET), fd_out: Fd, off_out: set(&OFFSET), len: Ulong, flags: Flags(SPLICE));
    276 77 tee(fdin: Fd, fdout: Fd, len: Ulong, flags: Flags(SPLICE));
    277 84 sync_file_range(fd: Fd, offset: Long, nbytes: Long, flags: Flags(SYNC_RANGE));
    278 75 vmsplice(fd: Fd, uiov: vector(2), nr_segs: Ulong, flags: Flags(SPLICE));
    279 239 move_pages(pid: Int, nr_pages: Ulong, pages: Address, nodes: Address, status: Address, flags: Flags(MEMORY_MOVE));
    280 88 utimensat(dfd: Fd, filename: Path, utimes: set(&TWO_TIMESPECS), flags: Flags(AT));
    281 22 epoll_pwait(epfd: Fd, events: getn(res(EPOLL_EVENT_SIZE), &EPOLL_EVENT), maxevents: Int, timeout: Int, sigmask: set(&SIGNAL_SET), sigsetsize: Ulong);
    282 _ signalfd(ufd: Fd, user_mask: set(&SIGNAL_SET), sizemask: Ulong) -> Descriptor;
    283 85 timerfd_create(clockid: Name(CLOCKS), flags: Flags(TIMER_FD)) -> Descriptor;
    284 _ eventfd(count: Uint) -> Descriptor;
    285 47 fallocate(fd: Fd, mode: Flags(FALLOCATE), offset: Long, len: Long);
    286 86 timerfd_settime(ufd: Fd, flags: Flags(TIMER_FD_SET), utmr: set(&ITIMERSPEC), otmr: get(&ITIMERSPEC));
    287 87 timerfd_gettime(ufd: Fd, otmr: get(&ITIMERSPEC));
    288 242 accept4(fd: Fd, upeer_sockaddr: ADDRESS_OUT, upeer_addrlen: LENGTH, flags: Flags(SOCKET_FLAGS)) -> Descriptor;
    289 74 signalfd4(ufd: Fd, user_mask: set(&SIGNAL_SET), sizemask: Ulong, flags: Flags(SIGNAL_FD)) -> Descriptor;
    290 19 eventfd2(count: Uint, flags: Flags(EVENT_FD)) -> Descriptor;
    291 20 epoll_create1(flags: Flags(EPOLL_CREATE)) -> Descriptor;
    292 24 dup3(oldfd: Fd, newfd: Fd, flags: Flags(OPEN)) -> Descriptor;
    293 59 pipe2(fildes: get(&PIPE), flags: Flags(OPEN));
    294 26 inotify_init1(flags: Flags(INOTIFY_INIT)) -> Descriptor;
    295 69 preadv(fd: Fd, vec: filled(2), vlen: Ulong, pos_l: Long, pos_h: With(files::high_half));
    296 70 pwritev(fd: Fd, vec: vector(2), vlen: Ulong, pos_l: Long, pos_h: With(files::high_half));
    297 240 rt_tgsigqueueinfo(tgid: Int, pid: Int, sig: Signal, uinfo: set(&SIGNAL_INFO));
    298 241 perf_event_open(attr_uptr: set(&PERF_ATTRIBUTES), pid: Int, cpu: Int, group_fd: Fd, flags: Flags(PERF_OPEN)) -> Descriptor;
    299 243 recvmmsg(fd: Fd, mmsg: exit(Extent::Messages { argument: 2 }, Shape::With(network::messages)), vlen: Uint, flags: Flags(MESSAGES), timeout: set(&TIMESPEC));
    300 262 fanotify_init(flags: Mixed(0xc, FANOTIFY_CLASSES, FANOTIFY_INIT), event_f_flags: OPEN_FLAGS) -> Descriptor;
    301 263 fanotify_mark(fanotify_fd: Fd, flags: Flags(FANOTIFY_MARK), mask: Flags64(FANOTIFY_MASK), dfd: Fd, pathname: Path);
    302 261 prlimit64(pid: Int, resource: Name(LIMITS), new_rlim: set(&LIMIT), old_rlim: get(&LIMIT));
    303 264 name_to_handle_at(dfd: Fd, name: Path, handle: Both(&FILE_HANDLE), mnt_id: get(&ONE_INT), flag: Flags(AT_HANDLE));
    304 265 open_by_handle_at(mountdirfd: Fd, handle: set(&FILE_HANDLE), flags: OPEN_FLAGS) -> Descriptor;
    305 266 clock_adjtime(which_clock: Name(CLOCKS), utx: Both(&TIMEX));
    306 267 syncfs(fd: Fd);
    307 269 sendmmsg(fd: Fd, mmsg: entry(Extent::Messages { argument: 2 }, Shape::With(network::messages)), vlen: Uint, flags: Flags(MESSAGES));
    308 268 setns(fd: Fd, flags: Flags(CLONE3));
    309 168 getcpu(cpup: get(&ONE_UINT), nodep: get(&ONE_UINT), unused: Address);
    310 270 process_vm_readv(pid: Int, lvec: filled(2), liovcnt: Ulong, rvec: Address, riovcnt: Ulong, flags: Ulong);
    311 271 process_vm_writev(pid: Int, lvec: vector(2), liovcnt: Ulong, rvec: Address, riovcnt: Ulong, flags: Ulong);
    312 272 kcmp(pid1: Int, pid2: Int, type: Name(KCMP), idx1: With(process::compared), idx2: With(process::compared));
    313 273 finit_module(fd: Fd, uargs: Text, flags: Flags(MODULE_INIT));
    314 274 sched_setattr(pid: Int, uattr: set(&SCHEDULING_ATTRIBUTES), flags: Flags(NONE));
    315 275 sched_getattr(pid: Int, uattr: get(&SCHEDULING_ATTRIBUTES), usize: Uint, flags: Flags(NONE));
    316 276 renameat2(olddfd: Fd, oldname: Path, newdfd: Fd, newname: Path, flags: Flags(RENAME));
    317 277 seccomp(op: Name(SECCOMP), flags: Flags(SECCOMP_FILTER), uargs: Address);
    318 278 getrandom(ubuf: exit(res(1), Shape::With(files::random)), len: Ulong, flags: Flags(RANDOM));
    319 279 memfd_create(uname: Text, flags: Flags(MEMFD)) -> Descriptor;
    320 294 kexec_file_load(kernel_fd: Fd, initrd_fd: Fd, cmdline_len: Ulong, cmdline_ptr: input(arg(2)), flags: Flags(KEXEC_FILE));
    321 280 bpf(cmd: Name(BPF), uattr: entry(arg(2), Shape::With(tracing::bpf)), size: Uint);
    322 281 execveat(fd: Fd, filename: Path, argv: entry(Extent::Strings, Shape::With(process::strings)), envp: entry(Extent::Pointers, Shape::With(process::variables)), flags: Flags(AT));
    323 282 userfaultfd(flags: Flags(USER_FAULT)) -> Descriptor;
    324 283 membarrier(cmd: Name(MEMBARRIER), flags: Flags(MEMBARRIER_FLAGS), cpu_id: Int);
    325 284 mlock2(start: Address, len: Ulong, flags: Flags(LOCK_SOME));
    326 285 copy_file_range(fd_in: Fd, off_in: set(&OFFSET), fd_out: Fd, off_out: set(&OFFSET), len: Ulong, flags: Flags(NONE));
    327 286 preadv2(fd: Fd, vec: filled(2), vlen: Ulong, pos_l: Long, pos_h: With(files::high_half), flags: Flags(RWF));
    328 287 pwritev2(fd: Fd, vec: vector(2), vlen: Ulong, pos_l: Long, pos_h: With(files::high_half), flags: Flags(RWF));
    329 288 pkey_mprotect(start: Address, len: Ulong, prot: With(memory::protection), pkey: Int);
    330 289 pkey_alloc(flags: Flags(NONE), init_val: Flags(KEY_ACCESS));
    331 290 pkey_free(pkey: Int);
    332 291 statx(dfd: Fd, filename: Path, flags: STATX_FLAGS, mask: Flags(STATX_MASK), buffer: get(&STATX));
    333 292 io_pgetevents(ctx_id: Address, min_nr: Long, nr: Long, events: getn(res(32), &IO_EVENT), timeout: set(&TIMESPEC), usig: Address);
    334 293 rseq(rseq: Address, rseq_len: Hex, flags: Flags(RSEQ), sig: Hex);
    335 _ uretprobe();
    336 _ uprobe();
    424 424 pidfd_send_signal(pidfd: Fd, sig: Signal, info: set(&SIGNAL_INFO), flags: Flags(NONE));
    425 425 io_uring_setup(entries: Uint, params: Both(&IO_URING_PARAMETERS)) -> Descriptor;
    426 426 io_uring_enter(fd: Fd, to_submit: Uint, min_complete: Uint, flags: Flags(IO_URING_ENTER), argp: Address, argsz: Ulong);
    427 427 io_uring_register(fd: Fd, opcode: Name(IO_URING_REGISTER), arg: Address, nr_args: Uint);
    428 428 open_tree(dfd: Fd, filename: Path, flags: Flags(OPEN_TREE)) -> Descriptor;
    429 429 move_mount(from_dfd: Fd, from_pathname: Path, to_dfd: Fd, to_pathname: Path, flags: Flags(MOVE_MOUNT));
    430 430 fsopen(_fs_name: Text, flags: Flags(FSOPEN)) -> Descriptor;
    431 431 fsconfig(fd: Fd, cmd: Name(FSCONFIG), _key: Text, _value: Text, aux: Int);
    432 432 fsmount(fs_fd: Fd, flags: Flags(FSMOUNT), attr_flags: Flags(MOUNT_ATTRIBUTES)) -> Descriptor;
    433 433 fspick(dfd: Fd, path: Path, flags: Flags(FSPICK)) -> Descriptor;
    434 434 pidfd_open(pid: Int, flags: Flags(PIDFD)) -> Descriptor;
    435 435 clone3(uargs: MemoryWith(process::CLONE3_COPIES, process::clone3), size: Ulong);
    436 436 close_range(fd: Uint, max_fd: Uint, flags: Flags(CLOSE_RANGE));
    437 437 openat2(dfd: Fd, filename: Path, how: set(&OPEN_HOW), usize: Ulong) -> Descriptor;
    438 438 pidfd_getfd(pidfd: Fd, fd: Int, flags: Flags(NONE)) -> Descriptor;
    439 439 faccessat2(dfd: Fd, filename: Path, mode: With(files::access), flags: Flags(AT_ACCESS));
    440 440 process_madvise(pidfd: Fd, vec: vector(2), vlen: Ulong, behavior: Name(MADVISE), flags: Flags(NONE));
    441 441 epoll_pwait2(epfd: Fd, events: getn(res(EPOLL_EVENT_SIZE), &EPOLL_EVENT), maxevents: Int, timeout: set(&TIMESPEC), sigmask: set(&SIGNAL_SET), sigsetsize: Ulong);
    442 442 mount_setattr(dfd: Fd, path: Path, flags: Flags(AT), uattr: set(&MOUNT_ATTRIBUTE), usize: Ulong);
    443 443 quotactl_fd(fd: Fd, cmd: With(files::quota), id: Int, addr: Address);
    444 444 landlock_create_ruleset(attr: entry(arg(1), Shape::With(process::landlock)), size: Ulong, flags: Flags(LANDLOCK_CREATE));
    445 445 landlock_add_rule(ruleset_fd: Fd, rule_type: Name(LANDLOCK_RULES), rule_attr: Address, flags: Flags(NONE));
    446 446 landlock_restrict_self(ruleset_fd: Fd, flags: Flags(LANDLOCK_RESTRICT));
    447 447 memfd_secret(flags: Flags(OPEN)) -> Descriptor;
    448 448 process_mrelease(pidfd: Fd, flags: Flags(NONE));
    449 449 futex_waitv(waiters: setn(args(1, 24), &FUTEX_WAITER), nr_futexes: Uint, flags: Flags(NONE), timeout: set(&TIMESPEC), clockid: Name(CLOCKS));
    450 450 set_mempolicy_home_node(start: Address, len: Ulong, home_node: Ulong, flags: Flags(NONE));
    451 451 cachestat(fd: Fd, cstat_range: set(&CACHE_RANGE), cstat: get(&CACHE_STATISTICS), flags: Flags(NONE));
    452 452 fchmodat2(dfd: Fd, filename: Path, mode: Mode, flags: Flags(AT));
    453 453 map_shadow_stack(addr: Address, size: Ulong, flags: Hex) -> Address;
    454 454 futex_wake(uaddr: Address, mask: Hex, nr: Int, flags: Flags(FUTEX2));
    455 455 futex_wait(uaddr: Address, val: Hex, mask: Hex, flags: Flags(FUTEX2), timeout: set(&TIMESPEC), clockid: Name(CLOCKS));
    456 456 futex_requeue(waiters: setn(Extent::Fixed(48), &FUTEX_WAITER), flags: Flags(NONE), nr_wake: Int, nr_requeue: Int);
    457 457 statmount(req: Address, buf: Address, bufsize: Ulong, flags: Flags(NONE));
    458 458 listmount(req: Address, mnt_ids: Address, nr_mnt_ids: Ulong, flags: Flags(NONE));
    459 459 lsm_get_self_attr(attr: Uint, ctx: Address, size: get(&ONE_UINT), flags: Hex);
    460 460 lsm_set_self_attr(attr: Uint, ctx: Address, size: Uint, flags: Hex);
    461 461 lsm_list_modules(ids: Address, size: get(&ONE_UINT), flags: Hex);
    462 462 mseal(start: Address, len: Ulong, flags: Flags(NONE));
    463 463 setxattrat(dfd: Fd, pathname: Path, at_flags: Flags(AT), name: Text, uargs: set(&XATTR_ARGUMENTS), usize: Ulong);
    464 464 getxattrat(dfd: Fd, pathname: Path, at_flags: Flags(AT), name: Text, uargs: set(&XATTR_ARGUMENTS), usize: Ulong);
    465 465 listxattrat(dfd: Fd, pathname: Path, at_flags: Flags(AT), list: output(res(1)), size: Ulong);
    466 466 removexattrat(dfd: Fd, pathname: Path, at_flags: Flags(AT), name: Text);
    467 467 open_tree_attr(dfd: Fd, filename: Path, flags: Flags(OPEN_TREE), uattr: set(&MOUNT_ATTRIBUTE), usize: Ulong) -> Descriptor;
    468 468 file_getattr(dfd: Fd, filename: Path, ufattr: Address, usize: Ulong, at_flags: Flags(AT));
    469 469 file_setattr(dfd: Fd, filename: Path, ufattr: Address, usize: Ulong, at_flags: Flags(AT));
}
