//! Reader of the `time-profile` table of Instruments traces, exported as XML.
//!
//! ```text
//! <?xml version="1.0"?>
//! <trace-query-result><node xpath='//trace-toc[1]/run[1]/data[1]/table[11]'>
//! <row><sample-time id="1" fmt="00:00.512.384">512384000</sample-time>
//! <thread id="2" fmt="main 0x1a2b (app, pid: 42)"><tid id="3" fmt="0x1a2b">6699</tid>
//!   <process id="4" fmt="app (42)"><pid id="5" fmt="42">42</pid></process></thread>
//! <core id="7" fmt="CPU 3">3</core><weight id="8" fmt="1.00 ms">1000000</weight>
//! <backtrace id="9"><frame id="10" name="work" addr="0x1000a"><binary id="11" name="app" load-addr="0x1000"/></frame>
//!   <frame id="12" name="main" addr="0x1000f"><binary ref="11"/></frame></backtrace></row>
//! <row><sample-time id="13">513384000</sample-time><thread ref="2"/><core ref="7"/><weight ref="8"/>
//!   <backtrace ref="9"/></row>
//! ```
//!
//! From `xctrace export --input X.trace --xpath
//! '/trace-toc/run/data/table[@schema="time-profile"]'`.
//!
//! - An element that repeats is written once, with an `id`, and then referred to with `ref`.
//! - Frames are leaf first. A frame without a symbol has its address as name, and is shown as binary and offset:
//!   addresses are absolute, and `load-addr` is the address of the binary. Without `load-addr`, only the binary is
//!   shown.
//! - A row without a backtrace (`<sentinel/>`) is a sample without a stack, whose time is counted.
//! - Newer versions wrap the backtrace in `tagged-backtrace`.

use hashbrown::HashMap;
use pyrograph_profile::{
    Frame, FrameId, FrameKind, Profile, Sample, StackId, StringId, Thread, ThreadId, ValueType,
};
use quick_xml::events::{BytesStart, Event};

use crate::bytes;
use crate::input::Head;
use crate::reader::{Options, ReadError, Reader, Reading};
use crate::warnings::{WarningKind, Warnings};

/// Reader of `xctrace export` XML.
pub struct Xctrace;

impl Reader for Xctrace {
    fn name(&self) -> &'static str {
        "xctrace"
    }

    fn written_by(&self) -> &'static str {
        "xctrace export (Instruments, macOS)"
    }

    fn detect(&self, head: &[u8]) -> bool {
        memchr::memmem::find(&head[..head.len().min(1000)], b"<trace-query-result").is_some()
    }

    fn read(&self, input: Head, _options: &Options) -> Result<Reading, ReadError> {
        let name = input.name().to_owned();
        let (bytes, warnings) = input.into_bytes();
        let mut xml = quick_xml::Reader::from_reader(bytes.as_slice());
        xml.config_mut().check_end_names = false;
        let mut table = Table { warnings, ..Table::new() };
        loop {
            // Fast path without the XML parser, for most of a table.
            while let Some((reference, rest)) = frame_reference(xml.get_ref())
                && table.frame_reference(reference)
            {
                *xml.get_mut() = rest;
            }
            match xml.read_event() {
                Ok(Event::Start(tag)) => table.start(&tag),
                Ok(Event::Empty(tag)) => match plain_reference(&tag) {
                    Some((tag, reference)) => table.reference(tag, reference),
                    None => {
                        table.start(&tag);
                        table.end();
                    }
                },
                Ok(Event::End(_)) => table.end(),
                Ok(Event::Text(text)) => table.text(&String::from_utf8_lossy(&text)),
                Ok(Event::Eof) => {
                    if let Some(cause) = table.unclosed() {
                        table.warnings.add(WarningKind::Truncated(cause), 1, []);
                    }
                    break;
                }
                Ok(_) => {}
                Err(error) => {
                    let reason = error.to_string();
                    table.warnings.add(WarningKind::Truncated(reason), 1, []);
                    break;
                }
            }
        }
        if !table.any_stack {
            let reason = match table.warnings.any_loss() {
                true => "it ends before its first row with a weight and a backtrace",
                false => {
                    "no row has a weight and a backtrace: export the table with the schema \
                     time-profile"
                }
            };
            return Err(ReadError::Nothing { name, reason: reason.to_owned() });
        }
        Ok(Reading::new(table.profile, table.warnings))
    }
}

/// Maximum nesting of elements; the format has no deeper ones.
const DEEPEST: usize = 64;

/// The elements that are used.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Tag {
    Row,
    SampleTime,
    Weight,
    Core,
    Tid,
    Pid,
    Process,
    Thread,
    Binary,
    Frame,
    Backtrace,
    #[default]
    Other,
}

impl Tag {
    fn named(name: &[u8]) -> Self {
        match name {
            b"frame" => Self::Frame,
            b"row" => Self::Row,
            b"sample-time" => Self::SampleTime,
            b"weight" => Self::Weight,
            b"core" => Self::Core,
            b"tid" => Self::Tid,
            b"pid" => Self::Pid,
            b"process" => Self::Process,
            b"thread" => Self::Thread,
            b"binary" => Self::Binary,
            b"backtrace" => Self::Backtrace,
            _ => Self::Other,
        }
    }
}

/// Parses `<frame ref="7"/>`, and returns the reference and the rest.
fn frame_reference(text: &[u8]) -> Option<(u64, &[u8])> {
    let text = text.strip_prefix(b"<frame ref=\"")?;
    // 21 bytes fit the longest number and its quotation mark.
    let length = text.iter().take(21).position(|&byte| byte == b'"')?;
    let (digits, rest) = text.split_at(length);
    Some((bytes::decimal(digits)?, rest.strip_prefix(b"\"/>")?))
}

/// Parses `frame ref="7"`: most elements are just a name and a reference.
fn plain_reference(tag: &[u8]) -> Option<(Tag, u64)> {
    let at = memchr::memchr(b' ', tag)?;
    let digits = tag[at..].strip_prefix(b" ref=\"")?.strip_suffix(b"\"")?;
    Some((Tag::named(&tag[..at]), bytes::decimal(digits)?))
}

/// Parses `0x1000a`.
fn hexadecimal(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

/// An open element.
#[derive(Default)]
struct Element {
    tag: Tag,
    id: Option<u64>,
    /// The ID that the element refers to, if it is a reference.
    reference: Option<u64>,
    /// The attribute `name`, or else `fmt`.
    name: String,
    address: u64,
    /// Load address, if the element is a binary.
    load_address: Option<u64>,
    text: String,
}

/// The current row.
#[derive(Clone, Copy, Default)]
struct Row {
    time: Option<u64>,
    weight: Option<u64>,
    thread: ThreadId,
    cpu: Option<u32>,
    stack: Option<StackId>,
}

/// A program or library.
#[derive(Clone, Copy, Default)]
struct Binary {
    name: StringId,
    /// Its address in memory, if known.
    load_address: Option<u64>,
}

struct Table {
    profile: Profile,
    warnings: Warnings,
    open: Vec<Element>,
    /// Number of open elements beyond [`DEEPEST`].
    too_deep: usize,
    row: Row,
    /// True if any row had a backtrace: other tables have weights, too.
    any_stack: bool,
    /// The current thread.
    thread: Thread,
    /// The binary of the current frame.
    binary: Binary,
    /// Frames of the current backtrace, leaf first.
    frames: Vec<FrameId>,
    numbers: HashMap<u64, u64>,
    binaries: HashMap<u64, Binary>,
    threads: HashMap<u64, ThreadId>,
    processes: HashMap<u64, (StringId, Option<i32>)>,
    known_frames: HashMap<u64, FrameId>,
    stacks: HashMap<u64, StackId>,
}

impl Table {
    fn new() -> Self {
        Self {
            profile: Profile::new(vec![ValueType::new("cpu", "ns")]),
            warnings: Warnings::default(),
            open: Vec::new(),
            too_deep: 0,
            row: Row::default(),
            any_stack: false,
            thread: Thread::default(),
            binary: Binary::default(),
            frames: Vec::new(),
            numbers: HashMap::new(),
            binaries: HashMap::new(),
            threads: HashMap::new(),
            processes: HashMap::new(),
            known_frames: HashMap::new(),
            stacks: HashMap::new(),
        }
    }

    fn start(&mut self, tag: &BytesStart) {
        let mut element = Element { tag: Tag::named(tag.name().as_ref()), ..Element::default() };
        for attribute in tag.attributes().flatten() {
            let value = attribute.unescape_value().unwrap_or_default();
            match attribute.key.as_ref() {
                b"id" => element.id = value.parse().ok(),
                b"ref" => element.reference = value.parse().ok(),
                b"name" => element.name = value.into_owned(),
                b"fmt" if element.name.is_empty() && element.tag != Tag::SampleTime => {
                    element.name = value.into_owned();
                }
                b"addr" => element.address = hexadecimal(&value).unwrap_or(0),
                b"load-addr" => element.load_address = hexadecimal(&value),
                _ => {}
            }
        }
        self.begin(element.tag);
        match self.open.len() < DEEPEST {
            true => self.open.push(element),
            false => self.too_deep += 1,
        }
    }

    /// Resets the state that belongs to an element which begins.
    fn begin(&mut self, tag: Tag) {
        match tag {
            Tag::Row => self.row = Row::default(),
            Tag::Thread => self.thread = Thread::default(),
            Tag::Backtrace => self.frames.clear(),
            Tag::Frame => self.binary = Binary::default(),
            _ => {}
        }
    }

    /// Handles an element that is only a reference.
    fn reference(&mut self, tag: Tag, reference: u64) {
        if self.too_deep > 0 || tag == Tag::Frame && self.frame_reference(reference) {
            return;
        }
        self.begin(tag);
        self.finish(&Element { tag, reference: Some(reference), ..Element::default() });
    }

    /// Adds a referenced frame; returns `false` if the reference is unknown.
    fn frame_reference(&mut self, reference: u64) -> bool {
        let known = self.known_frames.get(&reference).filter(|_| self.too_deep == 0);
        self.frames.extend(known);
        known.is_some()
    }

    fn text(&mut self, text: &str) {
        if let Some(element) = self.open.last_mut() {
            element.text.push_str(text.trim());
        }
    }

    fn end(&mut self) {
        if self.too_deep > 0 {
            self.too_deep -= 1;
            return;
        }
        if let Some(element) = self.open.pop() {
            self.finish(&element);
        }
    }

    fn finish(&mut self, element: &Element) {
        match element.tag {
            Tag::Row => self.finish_row(),
            Tag::SampleTime => self.row.time = self.number(element),
            Tag::Weight => self.row.weight = self.number(element),
            Tag::Core => self.row.cpu = self.number(element).and_then(|cpu| cpu.try_into().ok()),
            Tag::Tid => {
                self.thread.tid = self.number(element).and_then(|tid| tid.try_into().ok());
            }
            Tag::Pid => {
                self.thread.pid = self.number(element).and_then(|pid| pid.try_into().ok());
            }
            Tag::Process => self.finish_process(element),
            Tag::Thread => self.finish_thread(element),
            Tag::Binary => {
                let name = self.profile.strings.intern(&element.name);
                let own = Binary { name, load_address: element.load_address };
                self.binary = defined(&mut self.binaries, element, own);
            }
            Tag::Frame => self.finish_frame(element),
            Tag::Backtrace => {
                let stack = self.profile.stacks.intern_path(self.frames.drain(..).rev());
                self.row.stack = Some(defined(&mut self.stacks, element, stack));
            }
            Tag::Other => {}
        }
    }

    /// Returns a message if an element is still open at the end of the file: a complete table ends with its outermost
    /// element.
    fn unclosed(&self) -> Option<String> {
        (!self.open.is_empty()).then(|| {
            let rows = self.profile.samples.len();
            format!("the table is not closed after its {rows} samples")
        })
    }

    fn number(&mut self, element: &Element) -> Option<u64> {
        match element.reference {
            Some(reference) => self.numbers.get(&reference).copied(),
            None => {
                let number = element.text.parse().ok()?;
                self.numbers.extend(element.id.map(|id| (id, number)));
                Some(number)
            }
        }
    }

    fn finish_process(&mut self, element: &Element) {
        // `app (42)`
        let name = element.name.rsplit_once(" (").map_or(element.name.as_str(), |(name, _)| name);
        let name = self.profile.strings.intern(name);
        let (name, pid) = defined(&mut self.processes, element, (name, self.thread.pid));
        self.thread.process = name;
        self.thread.pid = pid;
    }

    fn finish_thread(&mut self, element: &Element) {
        let thread = self.profile.threads.intern(self.thread);
        self.row.thread = defined(&mut self.threads, element, thread);
    }

    fn finish_frame(&mut self, element: &Element) {
        let strings = &mut self.profile.strings;
        let Binary { name: module, load_address } = self.binary;
        // A frame without a symbol has its address as name.
        let (name, address) = match element.name.starts_with("0x") {
            true if module.is_empty() => ("", element.address),
            // The address of a frame with a module becomes an offset in the module.
            true => {
                let offset = load_address.and_then(|start| element.address.checked_sub(start));
                ("", offset.unwrap_or(0))
            }
            false => (element.name.as_str(), 0),
        };
        let function = strings.intern(name);
        let frame = Frame { module, address, ..Frame::named(function, FrameKind::User) };
        let frame = self.profile.frames.intern(frame);
        let frame = defined(&mut self.known_frames, element, frame);
        self.frames.push(frame);
    }

    fn finish_row(&mut self) {
        let row = self.row;
        if let Some(weight) = row.weight {
            let Row { thread, cpu, time, stack, .. } = row;
            self.any_stack |= stack.is_some();
            let stack = stack.unwrap_or(StackId::ROOT);
            self.profile.push(Sample { thread, cpu, time, ..Sample::new(stack) }, &[weight]);
        }
    }
}

/// Resolves an element: returns the value that it refers to, or else `own`, which is stored for the element's `id`.
fn defined<T: Copy>(known: &mut HashMap<u64, T>, element: &Element, own: T) -> T {
    match (element.reference, element.id) {
        (Some(reference), _) => known.get(&reference).copied().unwrap_or(own),
        (None, Some(id)) => {
            known.insert(id, own);
            own
        }
        (None, None) => own,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Input, write_folded};
    use pyrograph_profile::{LabelOptions, Tree};

    const TABLE: &str = r#"<?xml version="1.0"?>
<trace-query-result><node xpath='//trace-toc[1]'>
<row><sample-time id="1">5000</sample-time><thread id="2" fmt="m"><tid id="3">7</tid></thread>
<weight id="8" fmt="1.00 ms">1000</weight><backtrace id="9"><frame id="10" name="work" addr="0x1000a"><binary id="11" name="app" load-addr="0x10000"/></frame><frame id="12" name="main"><binary ref="11"/></frame></backtrace></row>
<row><sample-time id="13">6000</sample-time><thread ref="2"/><weight ref="8"/><backtrace ref="9"/></row>
</node></trace-query-result>
"#;

    fn read(text: &str) -> Result<Reading, ReadError> {
        let input = Input::bytes("x", text).begin().expect("bytes in memory");
        Xctrace.read(input, &Options::default())
    }

    #[test]
    fn an_absolute_address_is_not_an_offset() {
        let table = |binary: &str| {
            let frame = |name: &str| TABLE.replace(r#"name="work""#, &format!("name=\"{name}\""));
            let text = frame("0x1000a").replace(r#" load-addr="0x10000""#, binary);
            let reading = read(&text).expect("rows");
            let mut out = Vec::new();
            write_folded(&Tree::new(&reading.profile, &LabelOptions::default()), &mut out)
                .expect("to memory");
            String::from_utf8_lossy(&out).into_owned()
        };
        assert_eq!(table(r#" load-addr="0x10000""#), "main;app+0xa 2000\n");
        // It lies elsewhere than it says, or says nothing.
        assert_eq!(table(r#" load-addr="0x20000""#), "main;[app] 2000\n");
        assert_eq!(table(""), "main;[app] 2000\n");
    }

    #[test]
    fn rows_without_a_backtrace_keep_their_time() {
        let row = r#"<row><weight ref="8"/><sentinel/></row>"#;
        let text = TABLE.replace("</node>", &format!("{row}</node>"));
        let reading = read(&text).expect("rows");
        assert_eq!(reading.profile.samples.total(0), 3000);
        // Of another table.
        let text = format!(
            r#"<trace-query-result>{}</trace-query-result>"#,
            row.replace("ref=\"8\"/>", ">9</weight>")
        );
        assert!(read(&text).is_err());
    }

    #[test]
    fn a_table_that_is_cut_anywhere_says_so() {
        let whole = read(TABLE).expect("rows");
        assert!(whole.warnings.is_empty());
        // Nothing but blanks follows the last element.
        let last = TABLE.trim_end().len();
        for at in 0..last {
            if let Ok(cut) = read(&TABLE[..at]) {
                assert!(cut.warnings.any_loss(), "{:?}", &TABLE[..at]);
                assert!(cut.profile.samples.len() <= whole.profile.samples.len());
            }
        }
        let samples = read(&TABLE[..last]).expect("rows");
        assert!(samples.warnings.is_empty());
        let before = "it ends before its first row with a weight and a backtrace";
        let said = read(&TABLE[..200]).expect_err("no rows").to_string();
        assert!(said.contains(before), "{said}");
    }
}
