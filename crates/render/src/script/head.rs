//! First line of an event, before its stack.

use pyrograph_profile::{EventKind, SingleEvent};

use super::ScriptTimes;
use super::fields::{FieldSet, ScriptField as F};
use super::text::{MARGIN, blanks, hex, number, one_line, piece, zeros};

/// Output of a kind of event.
pub struct Columns {
    /// Name of the event.
    pub name: String,
    /// Fields to print.
    pub fields: FieldSet,
    /// True if frames are printed below the first line, one per line.
    pub below: bool,
    /// Index of the [`Places`](super::places::Places) for its set of fields.
    pub places: usize,
    /// Name as it is printed, followed by [`MARGIN`] bytes.
    printed: Vec<u8>,
}

impl Columns {
    /// Creates the output of a kind of event. `width` is the width of event names.
    pub fn new(kind: &EventKind, fields: FieldSet, places: usize, width: usize) -> Self {
        let mut printed = Vec::new();
        blanks(&mut printed, width.saturating_sub(kind.name.len()));
        one_line(&mut printed, &kind.name);
        printed.extend_from_slice(b": ");
        printed.resize(printed.len() + MARGIN, 0);
        let below = kind.stack && fields.has(F::Ip);
        Self { name: kind.name.clone(), fields, below, places, printed }
    }
}

/// Formats the part before stacks. Recent text is cached, because it is often needed again.
pub struct Heads {
    nanoseconds: bool,
    times: ScriptTimes,
    /// Time from which that of the next event is counted.
    origin: Option<u64>,
    threads: Vec<Thread>,
    /// Seconds and their text, followed by [`MARGIN`] bytes.
    seconds: (u64, Vec<u8>),
}

/// Cached text of a thread's name and IDs.
#[derive(Clone, Default)]
struct Thread {
    pid: Option<i32>,
    tid: Option<i32>,
    comm: String,
    fields: FieldSet,
    below: bool,
    /// Text followed by [`MARGIN`] bytes; empty if the entry is unused.
    text: Vec<u8>,
}

/// Number of cached threads; the entry is the thread ID modulo this number.
const THREADS: usize = 64;

impl Heads {
    /// Creates an instance. `nanoseconds` selects times with nine decimals instead of six.
    pub fn new(nanoseconds: bool, times: ScriptTimes) -> Self {
        Self {
            nanoseconds,
            times,
            origin: None,
            threads: vec![Thread::default(); THREADS],
            seconds: (0, Vec::new()),
        }
    }

    /// Appends everything before the stack.
    pub fn add(&mut self, text: &mut Vec<u8>, columns: &Columns, event: &SingleEvent<'_>) {
        let has = |field| columns.fields.has(field);
        self.add_origin(text, columns, event);
        if has(F::Period) {
            number(text, event.period, 10);
            text.push(b' ');
        }
        if has(F::Event) {
            piece(text, &columns.printed, 0, columns.printed.len() - MARGIN);
        }
        if has(F::Trace) {
            one_line(text, event.trace);
        }
        if has(F::Addr) {
            hex(text, event.addr.unwrap_or(0), 16);
            text.push(b' ');
        }
        if has(F::DataSrc) {
            text.push(b' ');
            hex(text, event.data_src.unwrap_or(0), 16);
        }
        if has(F::Weight) {
            text.push(b' ');
            number(text, event.weight.unwrap_or(0), 16);
        }
    }

    /// Appends thread, CPU and time.
    #[inline]
    pub fn add_origin(&mut self, text: &mut Vec<u8>, columns: &Columns, event: &SingleEvent<'_>) {
        let has = |field| columns.fields.has(field);
        self.thread(text, columns, event);
        if has(F::Cpu) {
            match event.cpu {
                Some(cpu @ 0..=9) => {
                    text.extend_from_slice(&[b'[', b'0', b'0', b'0' + cpu as u8, b']', b' ']);
                }
                cpu => {
                    text.push(b'[');
                    zeros(text, cpu.map_or(-1, i64::from), 3);
                    text.extend_from_slice(b"] ");
                }
            }
        }
        if has(F::Time) {
            let time = event.time.unwrap_or(0);
            let origin = match self.times {
                ScriptTimes::Clock => 0,
                ScriptTimes::SinceFirst => *self.origin.get_or_insert(time),
                ScriptTimes::SinceLast => self.origin.replace(time).unwrap_or(time),
            };
            // Events of several files may not be in the order of time.
            self.time(text, time.saturating_sub(origin));
        }
    }

    #[inline]
    fn thread(&mut self, text: &mut Vec<u8>, columns: &Columns, event: &SingleEvent<'_>) {
        let slot = event.tid.unwrap_or(-1) as usize % THREADS;
        let known = &mut self.threads[slot];
        let (fields, below) = (columns.fields, columns.below);
        let is_it = (known.pid, known.tid, known.fields, known.below)
            == (event.pid, event.tid, fields, below)
            && known.comm == event.comm
            && !known.text.is_empty();
        if !is_it {
            let comm = event.comm.to_owned();
            let (pid, tid) = (event.pid, event.tid);
            *known = Thread { pid, tid, comm, fields, below, text: thread_text(columns, event) };
        }
        piece(text, &known.text, 0, known.text.len() - MARGIN);
    }

    #[inline]
    fn time(&mut self, text: &mut Vec<u8>, time: u64) {
        let (seconds, rest) = (time / 1_000_000_000, (time % 1_000_000_000) as u32);
        if self.seconds.0 != seconds || self.seconds.1.is_empty() {
            let mut known = Vec::new();
            number(&mut known, seconds, 5);
            known.push(b'.');
            known.resize(known.len() + MARGIN, 0);
            self.seconds = (seconds, known);
        }
        piece(text, &self.seconds.1, 0, self.seconds.1.len() - MARGIN);
        let mut digits = *b"000000000: ";
        let mut left = rest;
        for digit in digits[..9].iter_mut().rev() {
            *digit = b'0' + (left % 10) as u8;
            left /= 10;
        }
        if !self.nanoseconds {
            [digits[6], digits[7]] = *b": ";
        }
        text.extend_from_slice(&digits);
        if !self.nanoseconds {
            text.truncate(text.len() - 3);
        }
    }
}

/// Formats the name and IDs of an event's thread, followed by [`MARGIN`] bytes.
#[cold]
fn thread_text(columns: &Columns, event: &SingleEvent<'_>) -> Vec<u8> {
    let mut text = Vec::new();
    let has = |field| columns.fields.has(field);
    if has(F::Comm) {
        if !columns.below {
            blanks(&mut text, 16usize.saturating_sub(event.comm.len()));
        }
        one_line(&mut text, event.comm);
        text.push(b' ');
    }
    let (pid, tid) = (event.pid.unwrap_or(-1), event.tid.unwrap_or(-1));
    match (has(F::Pid), has(F::Tid)) {
        (true, true) => {
            number(&mut text, pid, 5);
            text.push(b'/');
            let start = text.len();
            number(&mut text, tid, 0);
            let missing = 5usize.saturating_sub(text.len() - start);
            blanks(&mut text, missing + 1);
        }
        (true, false) => {
            number(&mut text, pid, 5);
            text.push(b' ');
        }
        (false, true) => {
            number(&mut text, tid, 5);
            text.push(b' ');
        }
        (false, false) => {}
    }
    text.resize(text.len() + MARGIN, 0);
    text
}
