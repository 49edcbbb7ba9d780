//! Parser of Java frames, as all Java tools print them, and of threads in dumps.
//!
//! ```text
//!     at java.lang.Thread.run(java.base@17.0.15/Thread.java:840)
//!     at app//com.example.Main.main(Main.java:12)
//!     at java.lang.Thread.sleep(Native Method)
//!     at Spin$$Lambda$1/0x00007f19bc000a08.run(Unknown Source)
//! ```

use pyrograph_profile::{Frame, FrameKind};

use super::text::{Collector, Lines};
use crate::reader::{Options, ThreadDetail};
use crate::warnings::WarningKind;

/// Adds the frame of a line that begins with `at ` after its indentation; returns `false` if it is not such a line.
pub(crate) fn push_frame(collector: &mut Collector, line: &str) -> bool {
    line.trim().strip_prefix("at ").is_some_and(|call| push_call(collector, call))
}

/// Adds the frame of a call, `a.B.c(B.java:12)`; returns `false` if it is none.
pub(crate) fn push_call(collector: &mut Collector, call: &str) -> bool {
    let (method, place) = match call.strip_suffix(')').and_then(|call| call.split_once('(')) {
        Some((method, place)) => (method, place),
        None => (call, ""),
    };
    // Keep the last part of `loader/module@version/Class.method`. A hidden class also has a slash, but is followed by
    // a number.
    let method = match method.rsplit_once('/') {
        Some((_, method)) if !method.starts_with("0x") => method,
        _ => method,
    };
    if method.is_empty() || !method.contains('.') || method.contains(' ') {
        return false;
    }
    let (module, file) = match place.rsplit_once('/') {
        Some((module, file)) => (module.split('@').next().unwrap_or(module), file),
        None => ("", place),
    };
    let (file, line) = match file.split_once(':') {
        // IBM's older virtual machines add `(Compiled Code)`.
        Some((file, line)) => {
            let digits = line.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
            (file, digits.parse().unwrap_or(0))
        }
        None => ("", 0),
    };
    let frame = Frame {
        module: collector.intern(module),
        file: collector.intern(file),
        line,
        ..Frame::named(collector.intern(&stable_name(method)), FrameKind::Jit)
    };
    collector.push_frame(frame);
    true
}

/// Removes the numbers that the virtual machine gives to generated classes: they differ between runs, so identical
/// stacks would be distinct.
///
/// `Spin$$Lambda$1/0x00007f19bc000a08.run` becomes `Spin$$Lambda.run`,
/// `GeneratedMethodAccessor12.invoke` `GeneratedMethodAccessor.invoke`.
fn stable_name(method: &str) -> String {
    if let Some((class, rest)) = method.split_once("$$Lambda")
        && let Some((_, name)) = rest.rsplit_once('.')
    {
        return format!("{class}$$Lambda.{name}");
    }
    for made_up in
        ["GeneratedMethodAccessor", "GeneratedConstructorAccessor", "jdk.proxy", "$Proxy"]
    {
        if let Some(at) = method.find(made_up) {
            let (head, tail) = method.split_at(at + made_up.len());
            return format!("{head}{}", tail.trim_start_matches(|c: char| c.is_ascii_digit()));
        }
    }
    // A hidden class.
    match method.split_once("/0x") {
        Some((class, rest)) => match rest.split_once('.') {
            Some((_, name)) => format!("{class}.{name}"),
            None => class.to_owned(),
        },
        None => method.to_owned(),
    }
}

/// True if a thread in the method waits in the kernel although it is reported as runnable: the virtual machine does
/// not know what native methods do.
pub(crate) fn waits(method: &str) -> bool {
    const WAITING: &[&str] = &[
        "sun.nio.ch.EPoll.wait",
        "sun.nio.ch.EPollArrayWrapper.epollWait",
        "sun.nio.ch.EPollSelectorImpl.epollWait",
        "sun.nio.ch.KQueue.poll",
        "sun.nio.ch.Net.accept",
        "sun.nio.ch.Net.poll",
        "sun.nio.ch.ServerSocketChannelImpl.accept0",
        "sun.nio.ch.SocketDispatcher.read0",
        "sun.nio.ch.UnixAsynchronousSocketChannelImpl.poll",
        "java.lang.ProcessHandleImpl.waitForProcessExit0",
        "java.lang.UNIXProcess.waitForProcessExit",
        "java.lang.Object.wait",
        "java.lang.Object.wait0",
        "java.lang.Thread.sleep",
        "java.lang.Thread.sleep0",
        "java.lang.Thread.sleepNanos0",
        "java.lang.Thread.yield",
        "java.lang.ref.Reference.waitForReferencePendingList",
        "java.net.PlainDatagramSocketImpl.receive0",
        "java.net.PlainSocketImpl.accept",
        "java.net.PlainSocketImpl.socketAccept",
        "java.net.SocketInputStream.socketRead0",
        "jdk.internal.misc.Unsafe.park",
        "sun.misc.Unsafe.park",
    ];
    WAITING.contains(&method)
}

/// A thread of a dump.
pub(crate) struct DumpedThread {
    pub name: String,
    pub tid: Option<i32>,
    pub runnable: bool,
    /// Line number at which it begins.
    pub line: u64,
}

/// Parses `0x814` or `2068`.
pub(crate) fn native_id(id: &str) -> Option<i32> {
    match id.strip_prefix("0x") {
        Some(digits) => i32::from_str_radix(digits, 16).ok(),
        None => id.parse().ok(),
    }
}

/// Ends the stack of a thread. A waiting thread is left out, as is one without frames.
pub(crate) fn end_thread(
    collector: &mut Collector,
    lines: &mut Lines,
    thread: Option<DumpedThread>,
    options: &Options,
) {
    let Some(thread) = thread.filter(|_| collector.depth() > 0) else { return collector.discard() };
    if !thread.runnable || waits(collector.function(0)) {
        lines.warn_at(WarningKind::IdleThread, thread.line);
        return collector.discard();
    }
    let (name, tid) = match options.threads {
        ThreadDetail::Thread => (thread.name.as_str(), thread.tid),
        _ => (without_number(&thread.name), None),
    };
    let thread = collector.thread(name, None, tid);
    collector.end_leaf_first(thread, 1);
}

/// Removes the number from a pool thread's name: `-12` in `pool-1-thread-12`.
fn without_number(name: &str) -> &str {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    match stem.strip_suffix(['-', '#']) {
        Some(stem) if stem.len() + 1 < name.len() && !stem.is_empty() => stem,
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use pyrograph_profile::{FrameId, ValueType};

    use super::*;

    fn check(line: &str, expect: Option<(&str, &str, &str, u32)>) {
        let mut collector = Collector::new(ValueType::samples());
        let pushed = push_frame(&mut collector, line);
        let frame = pushed.then(|| collector.profile.frames.get(FrameId(0)));
        let text = |id| collector.profile.strings.get(id);
        let found = frame.map(|f| (text(f.function), text(f.module), text(f.file), f.line));
        assert_eq!(found, expect, "{line}");
    }

    #[test]
    fn frames() {
        check(
            "\tat java.lang.Thread.run(java.base@17.0.15/Thread.java:840)",
            Some(("java.lang.Thread.run", "java.base", "Thread.java", 840)),
        );
        check("\tat app//a.B.c(B.java:12)", Some(("a.B.c", "", "B.java", 12)));
        check("\tat java.base/a.B.<init>(Native Method)", Some(("a.B.<init>", "", "", 0)));
        check(
            "    at Spin$$Lambda$1/0x00007f19bc000a08.run(Unknown Source)",
            Some(("Spin$$Lambda.run", "", "", 0)),
        );
        check(
            "at a.GeneratedMethodAccessor12.invoke(X)",
            Some(("a.GeneratedMethodAccessor.invoke", "", "", 0)),
        );
        check("at a.Hidden/0x1234.f(A.java:1)", Some(("a.Hidden.f", "", "A.java", 1)));
        check("at m.main(m.java:32(Compiled Code))", Some(("m.main", "", "m.java", 32)));
        check("at noon we met", None);
        check("\t- locked <0x1> (a b.C)", None);
    }

    #[test]
    fn threads_of_a_pool_have_one_name() {
        assert_eq!(without_number("pool-1-thread-12"), "pool-1-thread");
        assert_eq!(without_number("GC Thread#0"), "GC Thread");
        assert_eq!(without_number("main"), "main");
        assert_eq!(without_number("http2"), "http2");
        assert_eq!(without_number("odd-"), "odd-");
        assert_eq!(without_number("-1"), "-1");
    }
}
