//! The first line of a sample.
//!
//! `perf script` prints the fields that were asked for (`-F`), in this order, and nothing says
//! which they are:
//!
//! ```text
//! comm  pid/tid  [cpu] misc   time:       period event:  rest
//! perf   977/977 [000]     7628263.042515:       cycles:
//! w (x) 13011             1739.635972:   10101010 cpu-clock:
//! :-1    -1 [001]         1739.635972:   10101010 cpu-clock:
//!    w 13008              1735.531521:   10101010 cpu-clock:  ffffffff821f2fa7 exc_page_fault+0xd7 ([kernel.kallsyms])
//! perf 12928 [000]        1728.998828: sched:sched_switch: prev_comm=perf prev_pid=12928 next_prio=0
//! 12539                   1718.540540: cpu-clock:
//! w                                          cpu-clock:
//! w
//! ```
//!
//! The name of the thread (`comm`) may hold blanks, digits, colons and brackets. It ends where what
//! follows can be read as the other fields.

use crate::bytes;

/// The first line of a sample, in its parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header<'a> {
    /// The thread's name; empty if not printed.
    pub comm: &'a [u8],
    /// The name and the numbers after it, as they stand there: one text for each thread.
    pub who: &'a [u8],
    /// Process.
    pub pid: Option<i32>,
    /// Thread.
    pub tid: Option<i32>,
    /// CPU.
    pub cpu: Option<u32>,
    /// The time, as it stands there.
    time_text: &'a [u8],
    /// Events that this sample stands for.
    pub period: Option<u64>,
    /// The event, without the colon at its end; empty if not printed.
    pub event: &'a [u8],
    /// What else stands on the line: a tracepoint's arguments, a data address, or, where no
    /// callchain was recorded, the one frame.
    pub rest: &'a [u8],
}

impl Header<'_> {
    /// Nanoseconds.
    pub fn time(&self) -> Option<u64> {
        let point = memchr::memchr(b'.', self.time_text)?;
        let (seconds, fraction) = (&self.time_text[..point], &self.time_text[point + 1..]);
        let scale = 10u64.pow(9 - u32::try_from(fraction.len()).ok()?);
        Some(
            number(seconds)?
                .saturating_mul(1_000_000_000)
                .saturating_add(number(fraction)? * scale),
        )
    }

    /// Whether the line tells of a process event (`perf script --show-task-events` and its like)
    /// instead of a sample.
    ///
    /// ```text
    /// kthreadd     0 [000]     0.000000: PERF_RECORD_FORK(3:3):(2:2)
    /// ```
    pub fn is_other_record(&self) -> bool {
        self.event.starts_with(b"PERF_RECORD_") || self.rest.starts_with(b"PERF_RECORD_")
    }
}

/// Reads a line that is certainly the first of a sample: it has a thread number, a CPU or a time,
/// and an event or a time.
pub fn parse(line: &[u8]) -> Option<Header<'_>> {
    let start = skip_blanks(line, 0);
    let mut at = start;
    loop {
        let end = token_end(line, at);
        if at == end {
            break;
        }
        if at > start {
            if let Some((pid, tid)) = thread_numbers(&line[at..end])
                && let Some(header) = fields(line, end, true)
            {
                let comm = trim_end(&line[start..at]);
                return Some(Header { comm, who: &line[start..end], pid, tid, ..header });
            }
            if let Some(header) = fields(line, at, false).filter(has_cpu_or_time) {
                return Some(without_thread(&line[start..at], header));
            }
        }
        at = skip_blanks(line, end);
    }
    let header = fields(line, start, false)?;
    has_cpu_or_time(&header).then_some(header)
}

/// Whether the fields are those of a sample: a name may hold what looks like a CPU.
fn has_cpu_or_time(header: &Header<'_>) -> bool {
    let ends_there = || !header.event.is_empty() || header.rest.is_empty();
    !header.time_text.is_empty() || (header.cpu.is_some() && ends_there())
}

/// Reads a line that may be the first of a sample if nothing else speaks against it: a name alone,
/// or with no more than a thread number or an event.
pub fn parse_weak(line: &[u8]) -> Option<Header<'_>> {
    let start = skip_blanks(line, 0);
    let mut at = start;
    while at < line.len() {
        let end = token_end(line, at);
        if let Some(header) = fields(line, at, false).filter(|header| !header.event.is_empty()) {
            return Some(without_thread(&line[start..at], header));
        }
        at = skip_blanks(line, end);
    }
    let line = trim_end(&line[start..]);
    let last = line.iter().rposition(|&byte| byte == b' ').map_or(0, |at| at + 1);
    if let Some((pid, tid)) = thread_numbers(&line[last..]) {
        return Some(Header {
            comm: trim_end(&line[..last]),
            who: line,
            pid,
            tid,
            ..Header::default()
        });
    }
    (!line.is_empty()).then_some(Header { comm: line, who: line, ..Header::default() })
}

/// Completes a header before whose other fields no thread number was seen. What stands there alone
/// and looks like one is one.
fn without_thread<'a>(before: &'a [u8], header: Header<'a>) -> Header<'a> {
    let who = trim_end(before);
    match thread_numbers(who) {
        Some((pid, tid)) => Header { who, pid, tid, ..header },
        None => Header { comm: who, who, ..header },
    }
}

/// Reads `[cpu] misc time: period event: rest` from `at` on; any of them may be missing, but one
/// must be there.
fn fields(line: &[u8], at: usize, after_thread: bool) -> Option<Header<'_>> {
    let mut header = Header::default();
    let mut at = skip_blanks(line, at);
    let mut end = token_end(line, at);
    if let Some(cpu) = cpu(&line[at..end]) {
        header.cpu = Some(cpu);
        at = skip_blanks(line, end);
        end = token_end(line, at);
    }
    if (header.cpu.is_some() || after_thread) && is_misc(&line[at..end]) {
        let next = skip_blanks(line, end);
        let next_end = token_end(line, next);
        if time(&line[next..next_end]).is_some() {
            (at, end) = (next, next_end);
        }
    }
    if let Some(time) = time(&line[at..end]) {
        header.time_text = time;
        at = skip_blanks(line, end);
        end = token_end(line, at);
    }
    let mut event_at = (at, end);
    let period = number(&line[at..end]);
    if period.is_some() {
        let next = skip_blanks(line, end);
        event_at = (next, token_end(line, next));
    }
    if let [event @ .., b':'] = &line[event_at.0..event_at.1]
        && !event.is_empty()
    {
        header.period = period;
        header.event = event;
        at = skip_blanks(line, event_at.1);
    } else if header.cpu.is_none() && header.time_text.is_empty() {
        return None;
    }
    header.rest = trim_end(&line[at..]);
    Some(header)
}

/// `12`, `12/13`, `-1`, `-1/-1`: process and thread. A single number is the thread.
fn thread_numbers(token: &[u8]) -> Option<(Option<i32>, Option<i32>)> {
    // Most tokens are no number, and their first byte tells.
    if !matches!(token.first(), Some(b'0'..=b'9' | b'-')) {
        return None;
    }
    match token.iter().position(|&byte| byte == b'/') {
        Some(slash) => Some((Some(signed(&token[..slash])?), Some(signed(&token[slash + 1..])?))),
        None => Some((None, Some(signed(token)?))),
    }
}

fn signed(digits: &[u8]) -> Option<i32> {
    match digits {
        [b'-', digits @ ..] => i32::try_from(number(digits)?).ok().map(|number| -number),
        digits => i32::try_from(number(digits)?).ok(),
    }
}

/// A whole number that fits in 64 bits.
fn number(digits: &[u8]) -> Option<u64> {
    /// Any number of so many digits fits.
    const SAFE: usize = 19;
    if digits.is_empty() || !digits[0].is_ascii_digit() {
        return None;
    }
    let (safe, rest) = digits.split_at(digits.len().min(SAFE));
    let mut number = 0u64;
    for &digit in safe {
        let digit = digit.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number = number.wrapping_mul(10).wrapping_add(u64::from(digit));
    }
    rest.iter().try_fold(number, |number, &digit| {
        let digit = digit.is_ascii_digit().then(|| digit - b'0')?;
        number.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

/// `[003]`.
fn cpu(token: &[u8]) -> Option<u32> {
    let [b'[', digits @ .., b']'] = token else { return None };
    u32::try_from(number(digits)?).ok()
}

/// `7628263.042515:`, or with nine decimals, without the colon.
fn time(token: &[u8]) -> Option<&[u8]> {
    let [token @ .., b':'] = token else { return None };
    // Both parts have a digit.
    let ([b'0'..=b'9', ..], [.., b'0'..=b'9']) = (token, token) else { return None };
    let mut points = 0;
    let mut decimals = 0;
    for &byte in token {
        match byte {
            b'.' => points += 1,
            b'0'..=b'9' => decimals += points,
            _ => return None,
        }
    }
    (points == 1 && decimals <= 9).then_some(token)
}

/// The `misc` field: capital letters for the CPU's mode, and others for record flags.
fn is_misc(token: &[u8]) -> bool {
    (1..=6).contains(&token.len()) && token.iter().all(u8::is_ascii_alphabetic)
}

fn skip_blanks(line: &[u8], mut at: usize) -> usize {
    while line.get(at) == Some(&b' ') {
        at += 1;
    }
    at
}

fn token_end(line: &[u8], at: usize) -> usize {
    bytes::find(line, at, b' ')
}

fn trim_end(text: &[u8]) -> &[u8] {
    text.trim_ascii_end()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Prints `comm|pid|tid|cpu|time|period|event|rest`, `-` for what is not there.
    fn show(header: Option<Header<'_>>) -> String {
        let Some(header) = header else { return "none".to_owned() };
        let text = |text: &[u8]| match String::from_utf8_lossy(text).into_owned() {
            text if text.is_empty() => "-".to_owned(),
            text => text,
        };
        fn number(number: Option<impl ToString>) -> String {
            number.map_or("-".to_owned(), |number| number.to_string())
        }
        [
            text(header.comm),
            number(header.pid),
            number(header.tid),
            number(header.cpu),
            number(header.time()),
            number(header.period),
            text(header.event),
            text(header.rest),
        ]
        .join("|")
    }

    fn check(line: &str, expect: &str) {
        assert_eq!(show(parse(line.as_bytes())), expect, "{line}");
    }

    #[test]
    fn with_all_fields_and_with_some() {
        check(
            "perf   977/978   [003] 7628263.042515:   250 cycles: ",
            "perf|977|978|3|7628263042515000|250|cycles|-",
        );
        check(
            "perf 977 [003] 7628263.042515: cycles:u: ",
            "perf|-|977|3|7628263042515000|-|cycles:u|-",
        );
        check("perf 977 cycles:", "perf|-|977|-|-|-|cycles|-");
        check("perf 977    5025125 cpu-clock: ", "perf|-|977|-|-|5025125|cpu-clock|-");
        check("perf 977 [001] cycles: ", "perf|-|977|1|-|-|cycles|-");
        check("perf 977 12.000000001: ", "perf|-|977|-|12000000001|-|-|-");
        check("perf 977 [001] ", "perf|-|977|1|-|-|-|-");
        check("perf [001] ", "perf|-|-|1|-|-|-|-");
        check("w [1] 12 [000] 12.5: cycles: ", "w [1]|-|12|0|12500000000|-|cycles|-");
        check("perf [001] 12.5: cycles: ", "perf|-|-|1|12500000000|-|cycles|-");
        check("perf  12.5:  7 cycles: ", "perf|-|-|-|12500000000|7|cycles|-");
        check("977/978 12.5: cycles: ", "-|977|978|-|12500000000|-|cycles|-");
        check("977 [000] 12.5: cycles: ", "-|-|977|0|12500000000|-|cycles|-");
        check(" 12.5: cycles: ", "-|-|-|-|12500000000|-|cycles|-");
        check("perf 977 [001] KH 12.5: 1 cycles: ", "perf|-|977|1|12500000000|1|cycles|-");
        check("perf 977 U 12.5: 1 cycles: ", "perf|-|977|-|12500000000|1|cycles|-");
    }

    #[test]
    fn names_with_blanks_digits_brackets_or_one_character() {
        check("w 12539  1718.5: 5 cpu-clock: ", "w|-|12539|-|1718500000000|5|cpu-clock|-");
        check(":-1    -1 [000] 1.5: 5 cycles: ", ":-1|-|-1|0|1500000000|5|cycles|-");
        check(":-1 -1/-1 [000] 1.5: 5 cycles: ", ":-1|-1|-1|0|1500000000|5|cycles|-");
        check("my app 2 1234 [000] 1.5: 5 cycles: ", "my app 2|-|1234|0|1500000000|5|cycles|-");
        check("w (x) 13011 1.5: 5 cycles: ", "w (x)|-|13011|-|1500000000|5|cycles|-");
        check("sshd: root 12 [000] 1.5: 5 cycles: ", "sshd: root|-|12|0|1500000000|5|cycles|-");
        check("7 12 [000] 1.5: 5 cycles: ", "7|-|12|0|1500000000|5|cycles|-");
        check(
            "kworker/0:1-ev 12 [000] 1.5: 5 cycles: ",
            "kworker/0:1-ev|-|12|0|1500000000|5|cycles|-",
        );
        check("[a] 12 [000] 1.5: 5 cycles: ", "[a]|-|12|0|1500000000|5|cycles|-");
        check(
            "dd 29776 666709.771979:   10101010 cpu-clock: ",
            "dd|-|29776|-|666709771979000|10101010|cpu-clock|-",
        );
    }

    #[test]
    fn what_follows_the_event_is_kept() {
        check(
            "            perf 12938 [000]  1.5: sched:sched_switch: prev_comm=a ==> next_prio=0",
            "perf|-|12938|0|1500000000|-|sched:sched_switch|prev_comm=a ==> next_prio=0",
        );
        check(
            "   w 13008  1.5:   10 cpu-clock:  ffffffff821f2fa7 f+0xd7 ([kernel.kallsyms])",
            "w|-|13008|-|1500000000|10|cpu-clock|ffffffff821f2fa7 f+0xd7 ([kernel.kallsyms])",
        );
        assert!(
            parse(b"k 0 [000]  0.000000: PERF_RECORD_FORK(3:3):(2:2)")
                .expect("a header")
                .is_other_record()
        );
        assert!(
            parse(b"k 0 [000]  0.000000: PERF_RECORD_COMM: a:1/1")
                .expect("a header")
                .is_other_record()
        );
    }

    #[test]
    fn other_lines_are_no_header() {
        for line in [
            "",
            "   ",
            "hello world",
            "main;work 12",
            "my func 1 2",
            "w.c:9",
            "ffffffff8103d0ca native_write_msr_safe ([kernel.kallsyms])",
            "c6d7895aac9 LazyCompile:~body_0 evalmachine.<anonymous>:1 (/tmp/perf-31912.map)",
            "# time of first sample : 123.5",
            "99999999999999999999 1",
            // Found by fuzzing.
            "app 1234567890123456789 1234567890123456789/ cycles:x",
            "app 12345678901234567890!: cycles",
        ] {
            check(line, "none");
        }
    }

    #[test]
    fn weak_lines() {
        let check = |line: &str, expect: &str| {
            assert_eq!(show(parse_weak(line.as_bytes())), expect, "{line}")
        };
        check("w ", "w|-|-|-|-|-|-|-");
        check("my app cpu-clock: ", "my app|-|-|-|-|-|cpu-clock|-");
        check("my app 3 cpu-clock: ", "my app|-|-|-|-|3|cpu-clock|-");
        check("w 12/13 ", "w|12|13|-|-|-|-|-");
        check("cpu-clock: ", "-|-|-|-|-|-|cpu-clock|-");
        check("12 cpu-clock: ", "-|-|-|-|-|12|cpu-clock|-");
        check("  ", "none");
    }
}
