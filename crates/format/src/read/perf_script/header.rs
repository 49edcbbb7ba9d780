//! Parser of the header line of a sample.
//!
//! `perf script` prints the fields that were selected with `-F`, in this order. The text does not say which fields
//! were selected:
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
//! The name of the thread (`comm`) may contain blanks, digits, colons and brackets. It ends at a place after which
//! the line parses as the other fields, preferably with the widths that perf prints: a thread ID is `%5d` or `%7d`, a
//! time `%5lu.%06lu`, a period `%10lu`.

use crate::bytes;
use crate::perf_frame::is_likely;

/// The fields of a sample's header line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header<'a> {
    /// The thread's name; empty if not printed.
    pub comm: &'a [u8],
    /// The thread's name and the numbers after it, unparsed: the same text for each sample of a thread.
    pub who: &'a [u8],
    /// Process ID.
    pub pid: Option<i32>,
    /// Thread ID.
    pub tid: Option<i32>,
    /// CPU number.
    pub cpu: Option<u32>,
    /// The time, unparsed.
    time_text: &'a [u8],
    /// Period: number of events that the sample represents.
    pub period: Option<u64>,
    /// Name of the event, without the colon at its end; empty if not printed.
    pub event: &'a [u8],
    /// The rest of the line: a tracepoint's arguments, a data address, or the only frame if no callchain was
    /// recorded.
    pub rest: &'a [u8],
    /// How certain it is that the numbers are thread and process IDs.
    thread: ThreadField,
    /// True if blanks before the time or the period show that the columns have the widths that perf prints.
    padded: bool,
}

/// Certainty that a number is the thread ID, and not the end of the thread's name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ThreadField {
    /// There is no number.
    #[default]
    Missing,
    /// The number is not as wide as perf prints it, although other columns of the line are.
    Doubtful,
    /// There is a number, on a line without padded columns.
    Plain,
    /// The number is as perf prints it: padded to five or seven characters, or with a slash.
    Padded,
}

impl Header<'_> {
    /// True if all of the line has been parsed.
    fn is_complete(&self) -> bool {
        !self.event.is_empty() || self.reads_whole()
    }

    /// True if the fields are followed by nothing or by a frame.
    fn reads_whole(&self) -> bool {
        self.rest.is_empty() || is_likely(self.rest)
    }

    /// True if there is no field between the thread and the event.
    fn event_comes_first(&self) -> bool {
        self.cpu.is_none() && self.time_text.is_empty() && self.period.is_none()
    }

    /// Returns the time in nanoseconds; `None` if it was not printed or is too large.
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

    /// True if the line is a side-band record (`perf script --show-task-events` and similar options) instead of a
    /// sample.
    ///
    /// ```text
    /// kthreadd     0 [000]     0.000000: PERF_RECORD_FORK(3:3):(2:2)
    /// ```
    pub fn is_other_record(&self) -> bool {
        self.event.starts_with(b"PERF_RECORD_") || self.rest.starts_with(b"PERF_RECORD_")
    }
}

/// The fields that the header lines of a text have. perf prints the same fields in each, but a single line can be
/// ambiguous. Text that looks like a field which the layout does not have belongs to the thread's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    threads: bool,
    cpus: bool,
    times: bool,
    events: bool,
}

impl Default for Layout {
    fn default() -> Self {
        Self { threads: true, cpus: true, times: true, events: true }
    }
}

impl Layout {
    /// Detects the layout from `text`, the beginning of the input.
    pub fn of(text: &[u8]) -> Self {
        let fields = Self::default().count(text);
        let layout = Self {
            cpus: fields.cpus.is_printed(fields.heads),
            times: fields.times.is_printed(fields.heads),
            events: fields.events.is_printed(fields.heads),
            ..Self::default()
        };
        // Names often end with a number: one header without a number shows that numbers are parts of names.
        let fields = layout.count(text);
        Self { threads: fields.threads.sure || fields.threads.seen == fields.heads, ..layout }
    }

    /// Counts the header lines with each field, parsed with this layout.
    fn count(self, text: &[u8]) -> Fields {
        let mut lines = text.split(|&byte| byte == b'\n').peekable();
        let mut begins_block = true;
        let mut fields = Fields::default();
        while let Some(line) = lines.next() {
            let line = trim_end(line);
            let begins_block = std::mem::replace(&mut begins_block, line.is_empty());
            if matches!(line.first(), None | Some(b'\t' | b'#')) {
                continue;
            }
            let mut frames_follow = || lines.peek().is_some_and(|next| next.starts_with(b"\t"));
            let header = match parse(line, self) {
                None if begins_block && frames_follow() => parse_weak(line, self),
                header => header,
            };
            if let Some(header) = header.filter(|header| !header.is_other_record()) {
                fields.add(&header);
            }
        }
        fields
    }
}

/// Number of header lines with each field.
#[derive(Default)]
struct Fields {
    heads: usize,
    threads: Field,
    cpus: Field,
    times: Field,
    events: Field,
}

impl Fields {
    fn add(&mut self, header: &Header<'_>) {
        let sure = header.thread == ThreadField::Padded;
        self.heads += 1;
        self.threads.add(header.tid.is_some(), sure);
        self.cpus.add(header.cpu.is_some(), sure);
        self.times.add(!header.time_text.is_empty(), sure);
        self.events.add(!header.event.is_empty(), sure);
    }
}

#[derive(Default)]
struct Field {
    seen: usize,
    /// True if the field is present in a header that is certain.
    sure: bool,
}

impl Field {
    fn add(&mut self, is_there: bool, sure: bool) {
        self.seen += usize::from(is_there);
        self.sure |= is_there && sure;
    }

    /// True if the field is printed: names that look like a field are rarer than other names.
    fn is_printed(&self, heads: usize) -> bool {
        self.sure || 2 * self.seen >= heads
    }
}

/// Longest thread name that the kernel keeps, in bytes. If a line can be parsed in several ways, a longer name is
/// accepted only in the first one.
const LONGEST_NAME: usize = 15;

/// Parses a line that is certainly a sample's header: it has a thread ID, a CPU or a time, and an event or a time.
///
/// A name may contain text that looks like other fields. Of all places where the name may end, the one is chosen
/// after which most fields are as perf prints them.
pub fn parse(line: &[u8], layout: Layout) -> Option<Header<'_>> {
    let start = skip_blanks(line, 0);
    let mut best: Option<(u32, Header<'_>)> = None;
    let mut at = start;
    while at < line.len() && (best.is_none() || trim_end(&line[start..at]).len() <= LONGEST_NAME) {
        let end = token_end(line, at);
        // A single number is a thread ID only after a name.
        let may_be_thread = at > start || line[at..end].contains(&b'/');
        let with_thread = (may_be_thread && layout.threads)
            .then(|| after_thread(line, start, (at, end), layout))
            .flatten();
        let readings = [with_thread, after_name(line, start, at, layout)];
        for header in readings.into_iter().flatten() {
            let score = score(&header);
            if score == BEST_SCORE {
                return Some(header);
            }
            if best.as_ref().is_none_or(|(other, _)| score > *other) {
                best = Some((score, header));
            }
        }
        at = skip_blanks(line, end);
    }
    best.map(|(_, header)| header)
}

/// True if a line is certainly a sample's header, as defined by [`parse`].
pub fn is_certain(line: &[u8]) -> bool {
    parse(line, Layout::default()).is_some()
}

/// Parses the thread's numbers from `at` to `end`, with a name before and other fields after them.
fn after_thread(
    line: &[u8],
    start: usize,
    (at, end): (usize, usize),
    layout: Layout,
) -> Option<Header<'_>> {
    let (pid, tid) = thread_numbers(&line[at..end])?;
    let header = fields(line, end, true, layout)?;
    let could_be_period = is_period(line, start, at, end) && header.event_comes_first();
    let thread = if is_thread_wide(line, start, at, end) {
        ThreadField::Padded
    } else if pid.is_none() && (header.padded || could_be_period) {
        // The number may be the end of the name, or a period.
        ThreadField::Doubtful
    } else {
        ThreadField::Plain
    };
    let comm = trim_end(&line[start..at]);
    Some(Header { comm, who: &line[start..end], pid, tid, thread, ..header })
}

/// Parses fields from `at` on, preceded by a name without a thread ID.
fn after_name(line: &[u8], start: usize, at: usize, layout: Layout) -> Option<Header<'_>> {
    let header = fields(line, at, false, layout)?;
    let is_certain = !header.time_text.is_empty()
        || (header.cpu.is_some() && header.is_complete())
        || (header.padded && at > start && header.period.is_some());
    is_certain.then(|| without_thread(&line[start..at], header, layout))
}

/// The score of a header in which all fields are as perf prints them.
const BEST_SCORE: u32 = 38;

/// Returns a score for how much of a line is as perf prints it.
fn score(header: &Header<'_>) -> u32 {
    let thread = match header.thread {
        ThreadField::Doubtful => 0,
        ThreadField::Missing => 1,
        ThreadField::Plain => 2,
        ThreadField::Padded => 3,
    };
    let decimals = header.time_text.iter().rposition(|&byte| byte == b'.');
    let time = match decimals.map(|point| header.time_text.len() - point - 1) {
        None => 0,
        Some(6 | 9) => 15,
        Some(_) => 10,
    };
    let complete = if header.is_complete() { 20 } else { 0 };
    complete + time + thread
}

/// Parses a line that may be a sample's header if the context agrees: a name alone, or with at most a thread ID or an
/// event.
pub fn parse_weak(line: &[u8], layout: Layout) -> Option<Header<'_>> {
    let start = skip_blanks(line, 0);
    let mut at = start;
    // The first column has no separating blank before it.
    let is_wide = |at, end| {
        is_period(line, start, at, end)
            || (at == start && (end == PERIOD_WIDTH || end - at >= PERIOD_WIDTH))
    };
    let end = token_end(line, start);
    if layout.threads
        && matches!(end, 5 | 7)
        && let Some((pid, tid)) = thread_numbers(&line[start..end])
        && let Some(header) = fields(line, end, true, layout)
    {
        // The thread's name is not printed.
        return Some(Header {
            who: &line[start..end],
            pid,
            tid,
            thread: ThreadField::Padded,
            ..header
        });
    }
    // A name may end in a colon, too, so a reading that covers the whole line is preferred.
    let mut best: Option<(usize, Header<'_>)> = None;
    while at < line.len()
        && (best.is_none() || trim_end(&line[start..at]).len() <= LONGEST_NAME)
        && best.is_none_or(|(_, header)| !header.reads_whole())
    {
        let end = token_end(line, at);
        let header = fields(line, at, false, layout).filter(|header| {
            let is_name = !layout.threads && header.period.is_some() && !is_wide(at, end);
            !header.event.is_empty() && !is_name
        });
        if let Some(header) = header
            && (best.is_none() || header.reads_whole())
        {
            best = Some((at, header));
        }
        at = skip_blanks(line, end);
    }
    if let Some((at, header)) = best {
        return Some(without_thread(&line[start..at], header, layout));
    }
    let mut line = trim_end(&line[start..]);
    let mut period = None;
    let mut last = last_token(line);
    let before = trim_end(&line[..last]);
    let thread = last_token(before);
    let after_both = before[thread..].contains(&b'/')
        && !is_thread_wide(line, 0, last, line.len())
        && (thread == 0 || is_thread_wide(before, 0, thread, before.len()))
        && thread_numbers(&before[thread..]).is_some();
    if last > 0 && (after_both || is_period(line, 0, last, line.len())) {
        period = number(&line[last..]);
        line = before;
        last = last_token(line);
    }
    let header = Header { period, ..Header::default() };
    if layout.threads
        && let Some((pid, tid)) = thread_numbers(&line[last..])
    {
        let thread = match is_thread_wide(line, 0, last, line.len()) {
            true => ThreadField::Padded,
            false => ThreadField::Plain,
        };
        let comm = trim_end(&line[..last]);
        return Some(Header { comm, who: line, pid, tid, thread, ..header });
    }
    (!line.is_empty()).then_some(Header { comm: line, who: line, ..header })
}

fn last_token(line: &[u8]) -> usize {
    line.iter().rposition(|&byte| byte == b' ').map_or(0, |at| at + 1)
}

/// Completes a header for which no thread ID was found before the other fields. If all the text before them looks
/// like a thread ID, it is one.
fn without_thread<'a>(before: &'a [u8], header: Header<'a>, layout: Layout) -> Header<'a> {
    let who = trim_end(before);
    match thread_numbers(who).filter(|_| layout.threads) {
        Some((pid, tid)) => Header { who, pid, tid, thread: ThreadField::Plain, ..header },
        None => Header { comm: who, who, ..header },
    }
}

/// True if the first number from `at` to `end` is as wide as perf prints a thread ID.
fn is_thread_wide(line: &[u8], start: usize, at: usize, end: usize) -> bool {
    let length = bytes::find(&line[at..end], 0, b'/');
    let width = length + blanks_before(line, start, at).saturating_sub(1);
    width == length.max(5) || width == length.max(7)
}

/// Minimum width of a period as perf prints it, without the blank before it.
const PERIOD_WIDTH: usize = 10;

/// True if the digits from `at` to `end` have the width of a period as perf prints it.
fn is_period(line: &[u8], start: usize, at: usize, end: usize) -> bool {
    let is_wide = match blanks_before(line, start, at) {
        0 => false,
        1 => end - at >= PERIOD_WIDTH,
        blanks => end - at + blanks - 1 == PERIOD_WIDTH,
    };
    is_wide && number(&line[at..end]).is_some()
}

fn blanks_before(line: &[u8], start: usize, at: usize) -> usize {
    line[start..at].iter().rev().take_while(|&&byte| byte == b' ').count()
}

/// Parses `[cpu] misc time: period event: rest` from `at` on. Each field may be missing, but not all of them.
fn fields(line: &[u8], from: usize, after_thread: bool, layout: Layout) -> Option<Header<'_>> {
    let mut header = Header::default();
    let mut at = skip_blanks(line, from);
    let mut end = token_end(line, at);
    if let Some(cpu) = cpu(&line[at..end]).filter(|_| layout.cpus) {
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
    if let Some(time) = time(&line[at..end]).filter(|_| layout.times) {
        header.time_text = time;
        header.padded = blanks_before(line, 0, at) > 1;
        at = skip_blanks(line, end);
        end = token_end(line, at);
    }
    let period_at = at;
    let mut event_at = (at, end);
    let period = number(&line[at..end]);
    let is_wide_period = period.is_some() && is_period(line, 0, at, end);
    if period.is_some() {
        let next = skip_blanks(line, end);
        event_at = (next, event_end(line, next));
    } else {
        event_at.1 = event_end(line, at);
    }
    if let [event @ .., b':'] = &line[event_at.0..event_at.1]
        && !matches!(event, [] | [b'[' | b'(', ..])
        && layout.events
    {
        // This is the time of a line whose name contains text that looks like other fields.
        if event.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'.')) {
            return None;
        }
        header.period = period;
        header.event = event;
        at = skip_blanks(line, event_at.1);
    } else if header.cpu.is_none() && header.time_text.is_empty() {
        return None;
    } else if is_wide_period || (period.is_some() && trim_end(&line[end..]).is_empty()) {
        // There is a period but no event.
        header.period = period;
        at = skip_blanks(line, end);
    }
    header.padded |= is_wide_period && blanks_before(line, 0, period_at) > 1;
    header.rest = trim_end(&line[at..]);
    Some(header)
}

/// Returns the end of the event's name that begins at `at`. Only one name contains a blank: `raw 0x1a8:`.
fn event_end(line: &[u8], at: usize) -> usize {
    let end = token_end(line, at);
    let is_raw = &line[at..end] == b"raw" && line[end..].starts_with(b" 0x");
    if is_raw { token_end(line, end + 1) } else { end }
}

/// Parses `12`, `12/13`, `-1` or `-1/-1` as process ID and thread ID. A single number is the thread ID.
fn thread_numbers(token: &[u8]) -> Option<(Option<i32>, Option<i32>)> {
    // Fast path: most tokens are not numbers, which their first byte shows.
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

/// Parses an unsigned decimal number; `None` if it does not fit in 64 bits.
fn number(digits: &[u8]) -> Option<u64> {
    /// Any number with this many digits fits.
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

/// Parses `[003]`.
fn cpu(token: &[u8]) -> Option<u32> {
    let [b'[', digits @ .., b']'] = token else { return None };
    u32::try_from(number(digits)?).ok()
}

/// Returns the digits of a time such as `7628263.042515:`, which may have up to nine decimals, without the colon.
fn time(token: &[u8]) -> Option<&[u8]> {
    let [token @ .., b':'] = token else { return None };
    // There must be a digit on both sides of the point.
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

/// True for the `misc` field: letters for the CPU mode, data mappings, `exec` and context switches.
fn is_misc(token: &[u8]) -> bool {
    (1..=6).contains(&token.len()) && token.iter().all(|byte| b"KUHGgMESp".contains(byte))
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
mod tests;
