//! The Firefox Profiler's processed format. [`read::firefox`](crate::read) tells it.
//!
//! Version 55 is written: the newest that other writers (`fxprof-processed-profile`, which samply
//! uses) write, so that tests can compare with them; the Firefox Profiler brings older versions to
//! its own when it loads them.
//!
//! - Samples of time are weighed in milliseconds, what is counted in samples; the value's name is
//!   among the profile's extras.
//! - Each sort of code is a category, with a colour.
//! - An inlined call is a frame with an `inlineDepth` at the address of the frame that it is in.
//! - Samples without times get made-up ones, one after the other, for the format wants some; the
//!   extras say so.

use std::io::{self, Write};

use hashbrown::HashMap;
use pyrograph_profile::{
    Frame, FrameId, FrameKind, LabelOptions, Labels, Profile, StackId, StringId, Strings, Thread,
    UnitKind,
};

use super::json::{column, decimal, string};
use super::start_lines::StartLines;
use crate::holds::Holds;
use crate::read::firefox::{EXTRA, EXTRA_COUNTS, EXTRA_NO_TIMES, EXTRA_VALUE, UNKNOWN_THREAD};
use crate::writer::{WriteOptions, Writer};

/// See the module.
pub(super) struct Firefox;

impl Writer for Firefox {
    fn name(&self) -> &'static str {
        "firefox"
    }

    fn endings(&self) -> &'static [&'static str] {
        &["json", "firefox.json"]
    }

    fn opened_by(&self) -> &'static str {
        "profiler.firefox.com, samply load"
    }

    fn also_called(&self) -> &'static [&'static str] {
        &["firefox profiler", "gecko", "samply"]
    }

    fn holds(&self) -> Holds {
        Holds { columns: false, cpus: false, hosts: false, comments: false, ..Holds::ALL }
    }

    fn write(
        &self,
        profile: &Profile,
        options: &WriteOptions,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let times = profile.samples.iter().any(|sample| sample.time.is_some());
        let weights = Weights::new(profile);
        out.write_all(b"{\"meta\":{")?;
        meta(profile, options, times, out)?;
        out.write_all(b"},\n\"libs\":[")?;
        let libs = Libs::new(profile);
        libs.write(profile, out)?;
        out.write_all(b"],\n\"threads\":[")?;
        let mut rows: Vec<Vec<usize>> = vec![Vec::new(); profile.threads.len()];
        for (row, sample) in profile.samples.iter().enumerate() {
            rows[sample.thread.index()].push(row);
        }
        let labels = Labels::new(profile, &LabelOptions::default());
        let start_lines = StartLines::new(profile);
        let used = rows.iter_mut().enumerate().filter(|(_, rows)| !rows.is_empty());
        for (count, (index, rows)) in used.enumerate() {
            // Stable: without times nothing moves.
            rows.sort_by_key(|&row| profile.samples.get(row).time);
            out.write_all(if count == 0 { b"\n" } else { b",\n" })?;
            let tables = ThreadTables::new(profile, &labels, &libs, &start_lines, rows);
            one_thread(profile, index, &tables, out)?;
            weights.samples(profile, rows, &tables, times, out)?;
            tables.write(out)?;
            out.write_all(b"}")?;
        }
        out.write_all(b"],\"pages\":[],\"counters\":[],\"profilerOverhead\":[]}\n")
    }
}

/// The categories, with their colours. The first is the default, and must be grey.
const CATEGORIES: &[(&str, &str)] = &[
    ("Other", "grey"),
    ("User", "yellow"),
    ("Kernel", "orange"),
    ("JIT", "green"),
    ("Interpreted", "blue"),
    ("Remark", "red"),
];

fn category(kind: FrameKind) -> usize {
    match kind {
        FrameKind::User => 1,
        FrameKind::Kernel => 2,
        FrameKind::Jit => 3,
        FrameKind::Interpreted => 4,
        FrameKind::Marker(_) => 5,
        // Its caller tells.
        FrameKind::Inlined => 0,
    }
}

fn meta(
    profile: &Profile,
    options: &WriteOptions,
    times: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    out.write_all(b"\"preprocessedProfileVersion\":55,\"version\":24,\"product\":")?;
    string(out, &options.title)?;
    out.write_all(b",\"startTime\":")?;
    decimal(out, profile.about.start.unwrap_or(0), 6)?;
    // The time that a sample stands for, in milliseconds.
    let interval = match &profile.about.period {
        Some((of, period)) if *period > 0 => {
            of.unit_kind().time_unit().map(|unit| unit.nanoseconds() * period)
        }
        _ => None,
    };
    out.write_all(b",\"interval\":")?;
    decimal(out, interval.unwrap_or(1_000_000), 6)?;
    let native = !profile.frames.iter().any(|frame| frame.kind == FrameKind::Interpreted);
    write!(
        out,
        ",\"processType\":0,\"stackwalk\":1,\"debug\":false,\"symbolicated\":true,\
         \"usesOnlyOneStackType\":{native},\"sourceCodeIsNotOnSearchfox\":true,\
         \"sampleUnits\":{{\"time\":\"ms\",\"eventDelay\":\"ms\",\"threadCPUDelta\":\"ns\"}},\
         \"extensions\":{{\"length\":0,\"baseURL\":[],\"id\":[],\"name\":[]}},\
         \"pausedRanges\":[],\"markerSchema\":[],\"importedFrom\":\"pyrograph {}\",\"categories\":[",
        env!("CARGO_PKG_VERSION"),
    )?;
    for (index, (name, color)) in CATEGORIES.iter().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        write!(
            out,
            "{comma}{{\"name\":\"{name}\",\"color\":\"{color}\",\"subcategories\":[\"Other\"]}}"
        )?;
    }
    write!(out, "],\"extra\":[{{\"label\":\"{EXTRA}\",\"entries\":[")?;
    extra(out, EXTRA_VALUE, &value_name(profile))?;
    if let Some(counts) = profile.numbers_beside(profile.shown) {
        out.write_all(b",")?;
        extra(out, EXTRA_COUNTS, &profile.value_types[counts].name)?;
    }
    if !times {
        out.write_all(b",")?;
        extra(out, EXTRA_NO_TIMES, "made up: the samples had none")?;
    }
    out.write_all(b"]}]")
}

fn extra(out: &mut dyn Write, label: &str, value: &str) -> io::Result<()> {
    write!(out, "{{\"label\":\"{label}\",\"format\":\"string\",\"value\":")?;
    string(out, value)?;
    out.write_all(b"}")
}

fn value_name(profile: &Profile) -> String {
    let shown = profile.value_types.get(profile.shown);
    shown.map_or_else(String::new, |of| format!("{} ({})", of.name, of.unit))
}

/// The modules as libraries.
struct Libs {
    rows: Vec<StringId>,
    index: HashMap<StringId, usize, foldhash::fast::FixedState>,
}

impl Libs {
    fn new(profile: &Profile) -> Self {
        let mut libs = Self { rows: Vec::new(), index: HashMap::default() };
        for frame in profile.frames.iter().filter(|frame| !frame.module.is_empty()) {
            libs.index.entry(frame.module).or_insert_with(|| {
                libs.rows.push(frame.module);
                libs.rows.len() - 1
            });
        }
        libs
    }

    fn write(&self, profile: &Profile, out: &mut dyn Write) -> io::Result<()> {
        for (index, module) in self.rows.iter().enumerate() {
            let path = profile.strings.get(*module);
            let name = path.rsplit('/').next().unwrap_or(path);
            out.write_all(if index == 0 { b"\n{" } else { b",\n{" })?;
            for (key, value) in [
                ("name", name),
                ("path", path),
                ("debugName", name),
                ("debugPath", path),
                // None is known.
                ("breakpadId", "000000000000000000000000000000000"),
            ] {
                write!(out, "\"{key}\":")?;
                string(out, value)?;
                out.write_all(b",")?;
            }
            out.write_all(b"\"codeId\":null,\"arch\":null}")?;
        }
        Ok(())
    }
}

/// The value that is counted, and how it is weighed.
struct Weights {
    column: usize,
    weight_type: &'static str,
    /// Weights are values of 10^-`decimals`, times `factor`.
    decimals: u8,
    factor: u64,
}

impl Weights {
    fn new(profile: &Profile) -> Self {
        let column = profile.shown;
        let Some(of) = profile.value_types.get(column) else {
            return Self { column, weight_type: "samples", decimals: 0, factor: 1 };
        };
        match of.unit_kind() {
            UnitKind::Time(unit) => {
                let decimals = of.decimals.saturating_add(6);
                Self { column, weight_type: "tracing-ms", decimals, factor: unit.nanoseconds() }
            }
            UnitKind::Bytes => {
                Self { column, weight_type: "bytes", decimals: of.decimals, factor: 1 }
            }
            _ => Self { column, weight_type: "samples", decimals: of.decimals, factor: 1 },
        }
    }

    fn samples(
        &self,
        profile: &Profile,
        rows: &[usize],
        tables: &ThreadTables,
        times: bool,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let values = profile.samples.values(self.column);
        write!(
            out,
            ",\"samples\":{{\"length\":{},\"weightType\":\"{}\",",
            rows.len(),
            self.weight_type
        )?;
        column(out, "stack", rows, |out, &row| {
            match tables.stacks.get(&profile.samples.get(row).stack) {
                Some(stack) => write!(out, "{stack}"),
                None => out.write_all(b"null"),
            }
        })?;
        out.write_all(b",")?;
        let mut time = 0;
        column(out, "time", rows, |out, &row| {
            let nanoseconds = if times {
                // One without a time comes when the one before it does.
                time = profile.samples.get(row).time.unwrap_or(time);
                time
            } else {
                let before = time;
                let lasts = if self.weight_type == "tracing-ms" {
                    values[row].saturating_mul(self.factor)
                } else {
                    1_000_000
                };
                time = time.saturating_add(lasts);
                before
            };
            decimal(out, nanoseconds, 6)
        })?;
        out.write_all(b",")?;
        column(out, "weight", rows, |out, &row| {
            decimal(out, values[row].saturating_mul(self.factor), self.decimals)
        })?;
        // A column of our own, which the Firefox Profiler leaves alone.
        if let Some(counts) = profile.numbers_beside(self.column) {
            let counts = profile.samples.values(counts);
            out.write_all(b",")?;
            column(out, "counts", rows, |out, &row| write!(out, "{}", counts[row]))?;
        }
        out.write_all(b"}")
    }
}

/// Who a thread is, and what the format wants to be there.
fn one_thread(
    profile: &Profile,
    index: usize,
    tables: &ThreadTables,
    out: &mut dyn Write,
) -> io::Result<()> {
    let thread: Thread = profile.threads.get(pyrograph_profile::ThreadId::from_index(index));
    let (process, name) = (profile.strings.get(thread.process), profile.strings.get(thread.name));
    let shown = match (name, process) {
        ("", "") => UNKNOWN_THREAD,
        ("", process) => process,
        (name, _) => name,
    };
    out.write_all(b"{\"name\":")?;
    string(out, shown)?;
    if !process.is_empty() {
        out.write_all(b",\"processName\":")?;
        string(out, process)?;
    }
    // Processes are told apart by this text.
    let pid = thread.pid.map_or_else(|| format!("process {process}"), |pid| pid.to_string());
    out.write_all(b",\"pid\":")?;
    string(out, &pid)?;
    match thread.tid {
        Some(tid) => write!(out, ",\"tid\":{tid}")?,
        None => write!(out, ",\"tid\":\"thread {index}\"")?,
    }
    let is_main = thread.tid.is_some() && thread.pid == thread.tid;
    write!(
        out,
        ",\"isMainThread\":{is_main},\"processType\":\"default\",\"processStartupTime\":0,\
         \"processShutdownTime\":null,\"registerTime\":0,\"unregisterTime\":null,\
         \"pausedRanges\":[],\"showMarkersInTimeline\":false,\
         \"markers\":{{\"length\":0,\"category\":[],\"data\":[],\"endTime\":[],\"name\":[],\
         \"phase\":[],\"startTime\":[]}},\
         \"nativeSymbols\":{{\"length\":0,\"address\":[],\"functionSize\":[],\"libIndex\":[],\
         \"name\":[]}},\"stringArray\":["
    )?;
    for (index, text) in tables.strings.iter().enumerate() {
        out.write_all(if index == 0 { b"" } else { b"," })?;
        string(out, text)?;
    }
    out.write_all(b"]")
}

/// The stacks, frames and functions of one thread.
struct ThreadTables {
    strings: Strings,
    /// The row of each stack that is in use.
    stacks: HashMap<StackId, usize, foldhash::fast::FixedState>,
    /// Row of the caller, and of the frame.
    stack_rows: Vec<(Option<usize>, usize)>,
    frame_rows: Vec<FrameRow>,
    func_rows: Vec<FuncRow>,
    /// Libraries, with the string that is their name.
    resource_rows: Vec<(usize, StringId)>,
}

struct FrameRow {
    frame: Frame,
    category: usize,
    inline_depth: usize,
    func: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct FuncRow {
    name: StringId,
    file: StringId,
    resource: Option<usize>,
    script: bool,
    start_line: u32,
}

impl ThreadTables {
    fn new(
        profile: &Profile,
        labels: &Labels,
        libs: &Libs,
        start_lines: &StartLines,
        rows: &[usize],
    ) -> Self {
        let tables = Self {
            strings: Strings::default(),
            stacks: HashMap::default(),
            stack_rows: Vec::new(),
            frame_rows: Vec::new(),
            func_rows: Vec::new(),
            resource_rows: Vec::new(),
        };
        let mut builder = TableBuilder {
            profile,
            labels,
            libs,
            start_lines,
            tables,
            frames: HashMap::default(),
            funcs: HashMap::default(),
            resources: HashMap::default(),
        };
        for &row in rows {
            builder.stack(profile.samples.get(row).stack);
        }
        builder.tables
    }

    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let number_or_null = |out: &mut dyn Write, number: Option<usize>| match number {
            Some(number) => write!(out, "{number}"),
            None => out.write_all(b"null"),
        };
        write!(out, ",\n\"stackTable\":{{\"length\":{},", self.stack_rows.len())?;
        column(out, "prefix", &self.stack_rows, |out, row| number_or_null(out, row.0))?;
        out.write_all(b",")?;
        column(out, "frame", &self.stack_rows, |out, row| write!(out, "{}", row.1))?;

        let frames = &self.frame_rows;
        write!(out, "}},\n\"frameTable\":{{\"length\":{},", frames.len())?;
        column(out, "address", frames, |out, row| match row.frame.address {
            0 => out.write_all(b"-1"),
            address => write!(out, "{address}"),
        })?;
        out.write_all(b",")?;
        column(out, "inlineDepth", frames, |out, row| write!(out, "{}", row.inline_depth))?;
        out.write_all(b",")?;
        column(out, "category", frames, |out, row| write!(out, "{}", row.category))?;
        out.write_all(b",")?;
        column(out, "func", frames, |out, row| write!(out, "{}", row.func))?;
        out.write_all(b",")?;
        column(out, "line", frames, |out, row| {
            number_or_null(out, Some(row.frame.line as usize).filter(|&line| line > 0))
        })?;
        for (name, value) in [
            ("subcategory", "0"),
            ("nativeSymbol", "null"),
            ("innerWindowID", "0"),
            ("column", "null"),
        ] {
            out.write_all(b",")?;
            column(out, name, frames, |out, _| out.write_all(value.as_bytes()))?;
        }

        let funcs = &self.func_rows;
        write!(out, "}},\n\"funcTable\":{{\"length\":{},", funcs.len())?;
        column(out, "name", funcs, |out, row| write!(out, "{}", row.name.0))?;
        out.write_all(b",")?;
        column(out, "isJS", funcs, |out, row| write!(out, "{}", row.script))?;
        out.write_all(b",")?;
        column(out, "resource", funcs, |out, row| match row.resource {
            Some(resource) => write!(out, "{resource}"),
            None => out.write_all(b"-1"),
        })?;
        out.write_all(b",")?;
        column(out, "fileName", funcs, |out, row| match row.file {
            StringId::EMPTY => out.write_all(b"null"),
            file => write!(out, "{}", file.0),
        })?;
        out.write_all(b",")?;
        column(out, "lineNumber", funcs, |out, row| {
            number_or_null(out, Some(row.start_line as usize).filter(|&line| line > 0))
        })?;
        for (name, value) in [("relevantForJS", "false"), ("columnNumber", "null")] {
            out.write_all(b",")?;
            column(out, name, funcs, |out, _| out.write_all(value.as_bytes()))?;
        }

        let resources = &self.resource_rows;
        write!(out, "}},\n\"resourceTable\":{{\"length\":{},", resources.len())?;
        column(out, "lib", resources, |out, row| write!(out, "{}", row.0))?;
        out.write_all(b",")?;
        column(out, "name", resources, |out, row| write!(out, "{}", row.1.0))?;
        out.write_all(b",")?;
        column(out, "host", resources, |out, _| out.write_all(b"null"))?;
        out.write_all(b",")?;
        // A library.
        column(out, "type", resources, |out, _| out.write_all(b"1"))?;
        out.write_all(b"}")
    }
}

/// Grows the tables of a thread.
struct TableBuilder<'a> {
    profile: &'a Profile,
    labels: &'a Labels,
    libs: &'a Libs,
    start_lines: &'a StartLines,
    tables: ThreadTables,
    /// By frame, and how many calls it is inlined into, and the category of the outermost.
    frames: HashMap<(FrameId, usize, usize), usize, foldhash::fast::FixedState>,
    funcs: HashMap<FuncRow, usize, foldhash::fast::FixedState>,
    resources: HashMap<usize, usize, foldhash::fast::FixedState>,
}

impl TableBuilder<'_> {
    /// Adds a stack, after its callers.
    fn stack(&mut self, stack: StackId) {
        let stacks = &self.profile.stacks;
        let mut missing = Vec::new();
        let mut at = stack;
        while let Some((caller, frame)) = stacks.get(at) {
            if self.tables.stacks.contains_key(&at) {
                break;
            }
            missing.push((at, frame));
            at = caller;
        }
        let mut caller = self.tables.stacks.get(&at).copied();
        while let Some((stack, frame)) = missing.pop() {
            let row = self.frame(frame, caller);
            self.tables.stack_rows.push((caller, row));
            let row = self.tables.stack_rows.len() - 1;
            self.tables.stacks.insert(stack, row);
            caller = Some(row);
        }
    }

    fn frame(&mut self, id: FrameId, caller: Option<usize>) -> usize {
        let frame = self.profile.frames.get(id);
        let outer = caller.map(|row| &self.tables.frame_rows[self.tables.stack_rows[row].1]);
        let (inline_depth, category) = match (frame.kind, outer) {
            (FrameKind::Inlined, Some(outer)) => (outer.inline_depth + 1, outer.category),
            (kind, _) => (0, category(kind)),
        };
        let key = (id, inline_depth, category);
        if let Some(&row) = self.frames.get(&key) {
            return row;
        }
        let func = self.func(id, frame);
        self.tables.frame_rows.push(FrameRow { frame, category, inline_depth, func });
        let row = self.tables.frame_rows.len() - 1;
        self.frames.insert(key, row);
        row
    }

    fn func(&mut self, id: FrameId, frame: Frame) -> usize {
        let resource = self.libs.index.get(&frame.module).copied().map(|lib| self.resource(lib));
        let strings = &mut self.tables.strings;
        let name = if frame.function.is_empty() && frame.address > 0 {
            // The Firefox Profiler shows its library beside it.
            strings.intern(&format!("{:#x}", frame.address))
        } else {
            strings.intern(self.labels.names.get(self.labels.frames[id.index()]))
        };
        let file = strings.intern(self.profile.strings.get(frame.file));
        let script = frame.kind == FrameKind::Interpreted;
        // The Firefox Profiler shows functions of its tables apart, whatever they are called.
        let start_line = self.start_lines.first_of(frame);
        let func = FuncRow { name, file, resource, script, start_line };
        let row = self.tables.func_rows.len();
        let known = *self.funcs.entry(func).or_insert(row);
        if known == row {
            self.tables.func_rows.push(func);
        }
        known
    }

    fn resource(&mut self, lib: usize) -> usize {
        let path = self.profile.strings.get(self.libs.rows[lib]);
        let name = self.tables.strings.intern(path.rsplit('/').next().unwrap_or(path));
        let row = self.tables.resource_rows.len();
        let known = *self.resources.entry(lib).or_insert(row);
        if known == row {
            self.tables.resource_rows.push((lib, name));
        }
        known
    }
}
