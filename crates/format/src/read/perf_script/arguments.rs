//! Parses the fields of a tracepoint: the text after the event's name.
//!
//! Each tracepoint has its own print format; most are one of these:
//!
//! ```text
//! prev_comm=perf prev_pid=12 prev_prio=120 prev_state=S ==> next_comm=kworker/0:1 next_pid=8 next_prio=120
//! fd: 0x00000001, buf: 0x7ffd2c1e, count: 0x00000010
//! dev 8,0 ino 12 mode 0100644
//! NR 12 (0, 7ffe3618dd1c, 0, 37f, 0, 0)                raw_syscalls:sys_enter
//! NR 12 = 93954268700672                               raw_syscalls:sys_exit
//! (55d0c3f1b139) arg1=5 name="abc"
//! (55d0c3f1b139 <- 55d0c3f1b189) arg1=5                function, where it returned to
//! ```
//!
//! Tracepoints of block I/O, and those of the scheduler as perf's plugins print them, print values without names:
//!
//! ```text
//! 8,0 WS 4096 () 1234 + 8 none,0,0 [dd]                block_rq_issue, block_rq_insert
//! 8,0 WS () 1234 + 8 none,0,0 [0]                      block_rq_complete, block_rq_requeue
//! 8,0 WS 1234 + 8 [dd]                                 block_bio_queue and its like
//! 8,0 WS 1234 / 1242 [dd]                              block_split
//! 8,0 WS 1234 + 8 <- (8,1) 1200                        block_bio_remap
//! perf:12 [120] S ==> kworker/0:1:8 [120]              sched_switch
//! perf:12 [120] success=1 CPU:001                      sched_wakeup
//! ```

use std::borrow::Cow;

use pyrograph_profile::{FieldValue, TraceField};

/// Parses the fields in the text after an event's name.
pub fn arguments<'a>(event: &str, text: &'a str) -> Vec<TraceField<'a>> {
    let mut fields = Vec::new();
    let name = event.rsplit(':').next().unwrap_or_default();
    let read = match name {
        _ if name.starts_with("block_") => block(name, text, &mut fields),
        "sched_switch" => switch(text, &mut fields),
        _ if name.starts_with("sched_wak") => wakeup(text, &mut fields),
        "sys_enter" | "sys_exit" => system_call(text, &mut fields),
        _ if name.starts_with("sys_exit_") && !text.contains(' ') => {
            push(&mut fields, "ret", text);
            Some(())
        }
        _ => None,
    };
    if read.is_none() && fields.is_empty() {
        named(probe(text, &mut fields), &mut fields);
    }
    fields
}

fn push<'a>(fields: &mut Vec<TraceField<'a>>, name: &'a str, value: &'a str) {
    fields.push(TraceField { name, value: FieldValue::Text(Cow::Borrowed(value)) });
}

/// Parses the addresses in brackets at the start of a probe's line, and returns the rest.
fn probe<'a>(text: &'a str, fields: &mut Vec<TraceField<'a>>) -> &'a str {
    let Some((inner, rest)) = text.strip_prefix('(').and_then(|text| text.split_once(')')) else {
        return text;
    };
    let address = |digits: &str| u64::from_str_radix(digits.trim(), 16).ok();
    let mut add = |name, digits| {
        fields
            .extend(address(digits).map(|at| TraceField { name, value: FieldValue::Address(at) }));
    };
    match inner.split_once("<-") {
        Some((function, to)) => {
            add("__probe_func", function);
            add("__probe_ret_ip", to);
        }
        None => add("__probe_ip", inner),
    }
    rest.trim_start()
}

/// Parses a sequence of `name=value`, `name: value,`, or `name value`. A value extends to the next name, because
/// names of threads and files may contain blanks.
fn named<'a>(text: &'a str, fields: &mut Vec<TraceField<'a>>) {
    let names = match names_before(text, '=') {
        names if names.is_empty() => names_before(text, ':'),
        names => names,
    };
    if names.is_empty() {
        return pairs(text, fields);
    }
    let ends = names.iter().skip(1).map(|&(start, _)| start).chain([text.len()]);
    for (&(start, mark), end) in names.iter().zip(ends) {
        let value = text[mark + 1..end].trim();
        let value = value.strip_suffix("==>").unwrap_or(value);
        // The bracket in `vec=1 [action=TIMER]` belongs to neither value.
        let value = value.trim_end_matches([' ', ',', '[']);
        let value = match text[..start].ends_with('[') {
            true => value.strip_suffix(']').unwrap_or(value),
            false => value,
        };
        let unquoted = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
        push(fields, &text[start..mark], unquoted.unwrap_or(value));
    }
}

/// Returns the start and end of each name that is followed by `mark`.
fn names_before(text: &str, mark: char) -> Vec<(usize, usize)> {
    let mut names = Vec::new();
    for (at, _) in text.match_indices(mark) {
        let before = &text[..at];
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
        let start = before.trim_end_matches(is_part).len();
        let name = &before[start..];
        let begins = before[..start]
            .chars()
            .next_back()
            .is_none_or(|c| matches!(c, ' ' | '(' | '[' | '{' | ','));
        let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        // `dev: 8,0` is a name and a value, but `CPU:001` and paths with colons are values.
        let spaced = mark == '=' || text[at + 1..].starts_with(' ');
        if is_name && begins && spaced && names.last().is_none_or(|&(_, end)| end < start) {
            names.push((start, at));
        }
    }
    names
}

/// Parses `dev 8,0 ino 12`: alternating words and numbers.
fn pairs<'a>(text: &'a str, fields: &mut Vec<TraceField<'a>>) {
    let mut name = None;
    for token in text.split_ascii_whitespace() {
        let token = token.trim_end_matches(',');
        let is_number = token.starts_with(|c: char| c.is_ascii_digit() || c == '-');
        match name.take() {
            Some(name) if is_number => push(fields, name, token),
            _ if !is_number => name = Some(token),
            _ => {}
        }
    }
}

/// Parses `NR 12 (0, 7ffe3618dd1c)` or `NR 12 = -2`.
fn system_call<'a>(text: &'a str, fields: &mut Vec<TraceField<'a>>) -> Option<()> {
    let (id, rest) = text.strip_prefix("NR ")?.split_once(' ')?;
    push(fields, "id", id);
    if let Some(value) = rest.strip_prefix("= ") {
        push(fields, "ret", value);
        return Some(());
    }
    let arguments = rest.strip_prefix('(')?.strip_suffix(')')?.split(", ");
    let number = |digits| u64::from_str_radix(digits, 16).ok().map(FieldValue::Unsigned);
    let arguments = arguments.map(number).collect::<Option<Vec<_>>>()?;
    fields.push(TraceField { name: "args", value: FieldValue::List(arguments) });
    Some(())
}

/// Parses a line of block I/O; see the module docs for the forms.
fn block<'a>(event: &str, text: &'a str, fields: &mut Vec<TraceField<'a>>) -> Option<()> {
    let (device, rest) = text.split_once(' ')?;
    let (major, minor) = device.split_once(',')?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !(is_number(major) && is_number(minor)) {
        return None;
    }
    push(fields, "dev", device);
    if rest.contains('=') {
        named(rest, fields);
        return Some(());
    }
    let (rwbs, mut rest) = rest.split_once(' ')?;
    push(fields, "rwbs", rwbs);
    if let Some((before, after)) = rest.split_once('(')
        && !before.contains('+')
        && let Some((command, after)) = after.split_once(") ")
    {
        if is_number(before.trim()) {
            push(fields, "bytes", before.trim());
        }
        push(fields, "cmd", command);
        rest = after;
    }
    let (sector, rest) = rest.split_once(' ')?;
    push(fields, "sector", sector);
    let mut parts = rest.splitn(3, ' ');
    match parts.next()? {
        "+" => push(fields, "nr_sector", parts.next()?),
        "/" => push(fields, "new_sector", parts.next()?),
        _ => return None,
    }
    let rest = parts.next()?;
    if let Some((device, sector)) = rest.strip_prefix("<- (").and_then(|it| it.split_once(") ")) {
        push(fields, "old_dev", device);
        push(fields, "old_sector", sector.split(' ').next().unwrap_or_default());
    } else if let Some(last) = rest.strip_suffix(']').and_then(|it| Some(&it[it.find('[')? + 1..]))
    {
        let ends = event.starts_with("block_rq_complete") || event == "block_rq_requeue";
        let ended = ends || event == "block_bio_complete" || event == "block_rq_error";
        push(fields, if ended { "error" } else { "comm" }, last);
    }
    Some(())
}

/// Parses `perf:12 [120] S ==> kworker/0:1:8 [120]`.
fn switch<'a>(text: &'a str, fields: &mut Vec<TraceField<'a>>) -> Option<()> {
    let (before, after) = text.split_once(" ==> ")?;
    let (comm, pid, priority, state) = task(before)?;
    let of_previous =
        [("prev_comm", comm), ("prev_pid", pid), ("prev_prio", priority), ("prev_state", state)];
    let (comm, pid, priority, _) = task(after)?;
    let of_next = [("next_comm", comm), ("next_pid", pid), ("next_prio", priority)];
    of_previous.into_iter().chain(of_next).for_each(|(name, value)| push(fields, name, value));
    Some(())
}

/// Parses `perf:12 [120] success=1 CPU:001`.
fn wakeup<'a>(text: &'a str, fields: &mut Vec<TraceField<'a>>) -> Option<()> {
    let (comm, pid, priority, rest) = task(text)?;
    for (name, value) in [("comm", comm), ("pid", pid), ("prio", priority)] {
        push(fields, name, value);
    }
    for token in rest.split(' ') {
        if let Some(value) = token.strip_prefix("success=") {
            push(fields, "success", value);
        } else if let Some(cpu) = token.strip_prefix("CPU:") {
            let digits = cpu.trim_start_matches('0');
            push(fields, "target_cpu", if digits.is_empty() { "0" } else { digits });
        }
    }
    Some(())
}

/// Splits `name:12 [120] rest` into name, thread ID, priority and rest.
fn task(text: &str) -> Option<(&str, &str, &str, &str)> {
    let (who, rest) = text.split_once(" [")?;
    let (comm, pid) = who.rsplit_once(':')?;
    let (priority, rest) = rest.split_once(']')?;
    Some((comm, pid, priority, rest.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(event: &str, text: &str, expect: &str) {
        let fields = arguments(event, text);
        let shown: Vec<String> =
            fields.iter().map(|field| format!("{}={}", field.name, field.value)).collect();
        assert_eq!(shown.join("|"), expect, "{event}: {text}");
    }

    #[test]
    fn names_and_values() {
        check(
            "sched:sched_switch",
            "prev_comm=a b prev_pid=12 prev_state=R+ ==> next_comm=kworker/u8:1-fl next_pid=8",
            "prev_comm=a b|prev_pid=12|prev_state=R+|next_comm=kworker/u8:1-fl|next_pid=8",
        );
        check(
            "syscalls:sys_enter_write",
            "fd: 0x00000001, buf: 0x7ffd2c1e, count: 0x00000010",
            "fd=0x00000001|buf=0x7ffd2c1e|count=0x00000010",
        );
        check("syscalls:sys_exit_write", "0x10", "ret=0x10");
        check("raw_syscalls:sys_enter", "NR 1 (0, 7ffe, a)", "id=1|args=0,32766,10");
        check("raw_syscalls:sys_exit", "NR 59 = -2", "id=59|ret=-2");
        check("ext4:ext4_sync", "dev 8,0 ino 12 mode 0100644", "dev=8,0|ino=12|mode=0100644");
        check(
            "probe_a:f",
            "(55d0c3f1b139) arg1=5 name=\"a b\"",
            "__probe_ip=0x55d0c3f1b139|arg1=5|name=a b",
        );
        check("probe_a:f__return", "(10 <- f0)", "__probe_func=0x10|__probe_ret_ip=0xf0");
        check("irq:softirq_entry", "vec=1 [action=TIMER]", "vec=1|action=TIMER");
        check("a:b", "", "");
        check("a:b", "===", "");
        // Found by fuzzing.
        check("a:b", "\u{fffd}a=1 \u{fffd}=2", "");
    }

    #[test]
    fn block_io() {
        check(
            "block:block_rq_issue",
            "254,0 WS 655360 () 358060032 + 1280 0x2,0,4 [dd]",
            "dev=254,0|rwbs=WS|bytes=655360|cmd=|sector=358060032|nr_sector=1280|comm=dd",
        );
        check(
            "block:block_rq_issue",
            "8,0 R 0 (12 00 00) 0 + 0 [a [b]]",
            "dev=8,0|rwbs=R|bytes=0|cmd=12 00 00|sector=0|nr_sector=0|comm=a [b]",
        );
        check(
            "block:block_rq_complete",
            "202,1 W () 12862264 + 8 [-5]",
            "dev=202,1|rwbs=W|cmd=|sector=12862264|nr_sector=8|error=-5",
        );
        check(
            "block:block_bio_queue",
            "8,0 R 5 + 8 [cp]",
            "dev=8,0|rwbs=R|sector=5|nr_sector=8|comm=cp",
        );
        check(
            "block:block_split",
            "8,0 R 5 / 9 [cp]",
            "dev=8,0|rwbs=R|sector=5|new_sector=9|comm=cp",
        );
        check(
            "block:block_bio_remap",
            "8,0 W 5 + 8 <- (8,1) 3",
            "dev=8,0|rwbs=W|sector=5|nr_sector=8|old_dev=8,1|old_sector=3",
        );
        check("block:block_touch_buffer", "8,0 sector=5 size=4096", "dev=8,0|sector=5|size=4096");
        check("block:block_plug", "[dd]", "");
    }

    #[test]
    fn the_scheduler_as_plugins_print_it() {
        check(
            "sched:sched_switch",
            "perf:12 [120] S ==> kworker/0:1:8 [100]",
            "prev_comm=perf|prev_pid=12|prev_prio=120|prev_state=S|next_comm=kworker/0:1|next_pid=8|next_prio=100",
        );
        check(
            "sched:sched_wakeup",
            "my app:12 [120] success=1 CPU:000",
            "comm=my app|pid=12|prio=120|success=1|target_cpu=0",
        );
        check(
            "sched:sched_wakeup",
            "comm=a pid=7 prio=120 target_cpu=001",
            "comm=a|pid=7|prio=120|target_cpu=001",
        );
    }
}
