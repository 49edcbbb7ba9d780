//! Writer for the Firefox Profiler's processed format. [`read::firefox`](crate::read) describes it.
//!
//! Writes version 55: the newest version that other writers produce (`fxprof-processed-profile`, used by samply), so
//! that tests can compare with them. The Firefox Profiler upgrades older versions when it loads them.
//!
//! - Times are weighted in milliseconds, counts in samples; the name of the value is among the profile's extras.
//! - Each kind of code is a category with a colour.
//! - An inlined call is a frame with an `inlineDepth` at the address of the frame that contains it.
//! - Samples without times get consecutive made-up ones, because the format requires times; the extras say so.

use std::io::{self, Write};

use hashbrown::HashMap;
use pyrograph_profile::{
    Frame, FrameId, FrameKind, LabelOptions, Labels, Profile, StackId, StringId, Strings, Thread,
    UnitKind,
};

use super::json::Json;
use super::start_lines::StartLines;
use crate::capabilities::Capabilities;
use crate::read::firefox::{EXTRA, EXTRA_COUNTS, EXTRA_NO_TIMES, EXTRA_VALUE, UNKNOWN_THREAD};
use crate::writer::{WriteOptions, Writer};

/// Writer for the Firefox Profiler's processed format.
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

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            columns: false,
            cpus: false,
            hosts: false,
            comments: false,
            instructions: false,
            ..Capabilities::ALL
        }
    }

    fn write(
        &self,
        profile: &Profile,
        options: &WriteOptions,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let times = profile.samples.iter().any(|sample| sample.time.is_some());
        let weights = Weights::new(profile);
        let libs = Libs::new(profile);
        let mut rows: Vec<Vec<usize>> = vec![Vec::new(); profile.threads.len()];
        for (row, sample) in profile.samples.iter().enumerate() {
            rows[sample.thread.index()].push(row);
        }
        let labels = Labels::new(profile, &LabelOptions::default());
        let start_lines = StartLines::new(profile);
        let mut json = Json::new(out);
        json.object(|json| {
            json.key("meta").object(|json| meta(profile, options, times, json));
            json.line().key("libs").array(|json| libs.write(profile, json));
            json.line().key("threads").array(|json| {
                let used = rows.iter_mut().enumerate().filter(|(_, rows)| !rows.is_empty());
                for (index, rows) in used {
                    // A stable sort: without times, the order does not change.
                    rows.sort_by_key(|&row| profile.samples.get(row).time);
                    let tables = ThreadTables::new(profile, &labels, &libs, &start_lines, rows);
                    json.line().object(|json| {
                        one_thread(profile, index, &tables, json);
                        weights.samples(profile, rows, &tables, times, json);
                        tables.write(json);
                    });
                }
            });
            json.value("\"pages\":[],\"counters\":[],\"profilerOverhead\":[]");
        });
        json.end_line();
        json.finish()
    }
}

/// Categories with their colours. The first one is the default and must be grey.
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
        // The category of the caller is used instead.
        FrameKind::Inlined => 0,
    }
}

fn meta(profile: &Profile, options: &WriteOptions, times: bool, json: &mut Json<'_>) {
    json.key("preprocessedProfileVersion").value(55).key("version").value(24);
    json.key("product").string(&options.title);
    json.key("startTime").decimal(profile.about.start.unwrap_or(0), 6);
    // Duration of a sample, in milliseconds.
    let interval = match &profile.about.period {
        Some((of, period)) if *period > 0 => {
            of.unit_kind().time_unit().map(|unit| unit.nanoseconds() * period)
        }
        _ => None,
    };
    json.key("interval").decimal(interval.unwrap_or(1_000_000), 6);
    let native = !profile.frames.iter().any(|frame| frame.kind == FrameKind::Interpreted);
    json.value(format_args!(
        "\"processType\":0,\"stackwalk\":1,\"debug\":false,\"symbolicated\":true,\
         \"usesOnlyOneStackType\":{native},\"sourceCodeIsNotOnSearchfox\":true,\
         \"sampleUnits\":{{\"time\":\"ms\",\"eventDelay\":\"ms\",\"threadCPUDelta\":\"ns\"}},\
         \"extensions\":{{\"length\":0,\"baseURL\":[],\"id\":[],\"name\":[]}},\
         \"pausedRanges\":[],\"markerSchema\":[]",
    ));
    json.key("importedFrom").string(concat!("pyrograph ", env!("CARGO_PKG_VERSION")));
    json.column("categories", CATEGORIES, |json, (name, color)| {
        json.object(|json| {
            json.key("name").string(name).key("color").string(color);
            json.value("\"subcategories\":[\"Other\"]");
        })
    });
    let mut entries = vec![(EXTRA_VALUE, value_name(profile))];
    if let Some(counts) = profile.numbers_beside(profile.shown) {
        entries.push((EXTRA_COUNTS, profile.value_types[counts].name.clone()));
    }
    if !times {
        entries.push((EXTRA_NO_TIMES, "made up: the samples had none".to_owned()));
    }
    json.key("extra").array(|json| {
        json.object(|json| {
            json.key("label").string(EXTRA);
            json.column("entries", &entries, |json, (label, value)| {
                json.object(|json| {
                    json.key("label").string(label).key("format").string("string");
                    json.key("value").string(value);
                })
            });
        });
    });
}

fn value_name(profile: &Profile) -> String {
    let shown = profile.value_types.get(profile.shown);
    shown.map_or_else(String::new, |of| format!("{} ({})", of.name, of.unit))
}

/// The modules, as libraries.
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

    fn write(&self, profile: &Profile, json: &mut Json<'_>) {
        for module in &self.rows {
            let path = profile.strings.get(*module);
            let name = path.rsplit('/').next().unwrap_or(path);
            json.line().object(|json| {
                json.key("name").string(name).key("path").string(path);
                json.key("debugName").string(name).key("debugPath").string(path);
                // The breakpad ID is unknown.
                json.key("breakpadId").string("000000000000000000000000000000000");
                json.value("\"codeId\":null,\"arch\":null");
            });
        }
    }
}

/// The value that is written, and its weight type.
struct Weights {
    column: usize,
    weight_type: &'static str,
    /// Weights are the values times `factor`, in units of 10^-`decimals`.
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
        json: &mut Json<'_>,
    ) {
        let values = profile.samples.values(self.column);
        let mut time = 0;
        json.key("samples").object(|json| {
            json.key("length").value(rows.len()).key("weightType").string(self.weight_type);
            json.column("stack", rows, |json, &row| {
                json.option(tables.stacks.get(&profile.samples.get(row).stack))
            });
            json.column("time", rows, |json, &row| {
                let nanoseconds = if times {
                    // A sample without a time gets the time of the one before it.
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
                json.decimal(nanoseconds, 6)
            });
            json.column("weight", rows, |json, &row| {
                json.decimal(values[row].saturating_mul(self.factor), self.decimals)
            });
            // An additional column of our own, which the Firefox Profiler ignores.
            if let Some(counts) = profile.numbers_beside(self.column) {
                let counts = profile.samples.values(counts);
                json.column("counts", rows, |json, &row| json.value(counts[row]));
            }
        });
    }
}

/// Writes the identity of a thread, and the other properties that the format requires.
fn one_thread(profile: &Profile, index: usize, tables: &ThreadTables, json: &mut Json<'_>) {
    let thread: Thread = profile.threads.get(pyrograph_profile::ThreadId::from_index(index));
    let (process, name) = (profile.strings.get(thread.process), profile.strings.get(thread.name));
    let shown = match (name, process) {
        ("", "") => UNKNOWN_THREAD,
        ("", process) => process,
        (name, _) => name,
    };
    json.key("name").string(shown);
    if !process.is_empty() {
        json.key("processName").string(process);
    }
    // The Firefox Profiler distinguishes processes by this text.
    let pid = thread.pid.map_or_else(|| format!("process {process}"), |pid| pid.to_string());
    json.key("pid").string(&pid);
    match thread.tid {
        Some(tid) => json.key("tid").value(tid),
        None => json.key("tid").string(&format!("thread {index}")),
    };
    json.key("isMainThread").value(thread.tid.is_some() && thread.pid == thread.tid);
    json.value(
        "\"processType\":\"default\",\"processStartupTime\":0,\
         \"processShutdownTime\":null,\"registerTime\":0,\"unregisterTime\":null,\
         \"pausedRanges\":[],\"showMarkersInTimeline\":false,\
         \"markers\":{\"length\":0,\"category\":[],\"data\":[],\"endTime\":[],\"name\":[],\
         \"phase\":[],\"startTime\":[]},\
         \"nativeSymbols\":{\"length\":0,\"address\":[],\"functionSize\":[],\"libIndex\":[],\
         \"name\":[]}",
    );
    json.key("stringArray").array(|json| {
        for text in tables.strings.iter() {
            json.string(text);
        }
    });
}

/// Tables of stacks, frames and functions of one thread.
struct ThreadTables {
    strings: Strings,
    /// Row of each stack that is used.
    stacks: HashMap<StackId, usize, foldhash::fast::FixedState>,
    /// Row of the caller, and row of the frame.
    stack_rows: Vec<(Option<usize>, usize)>,
    frame_rows: Vec<FrameRow>,
    func_rows: Vec<FuncRow>,
    /// Library and name of each resource.
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

    fn write(&self, json: &mut Json<'_>) {
        let above_0 = |line: u32| Some(line).filter(|&line| line > 0);
        table(json, "stackTable", &self.stack_rows, |json, stacks| {
            json.column("prefix", stacks, |json, row| json.option(row.0));
            json.column("frame", stacks, |json, row| json.value(row.1));
        });
        table(json, "frameTable", &self.frame_rows, |json, frames| {
            json.column("address", frames, |json, row| match row.frame.address {
                0 => json.value(-1),
                address => json.value(address),
            });
            json.column("inlineDepth", frames, |json, row| json.value(row.inline_depth));
            json.column("category", frames, |json, row| json.value(row.category));
            json.column("func", frames, |json, row| json.value(row.func));
            json.column("line", frames, |json, row| json.option(above_0(row.frame.line)));
            for (name, value) in [
                ("subcategory", "0"),
                ("nativeSymbol", "null"),
                ("innerWindowID", "0"),
                ("column", "null"),
            ] {
                json.column(name, frames, |json, _| json.value(value));
            }
        });
        table(json, "funcTable", &self.func_rows, |json, funcs| {
            json.column("name", funcs, |json, row| json.value(row.name.0));
            json.column("isJS", funcs, |json, row| json.value(row.script));
            json.column("resource", funcs, |json, row| match row.resource {
                Some(resource) => json.value(resource),
                None => json.value(-1),
            });
            json.column("fileName", funcs, |json, row| {
                json.option(Some(row.file.0).filter(|_| !row.file.is_empty()))
            });
            json.column("lineNumber", funcs, |json, row| json.option(above_0(row.start_line)));
            for (name, value) in [("relevantForJS", "false"), ("columnNumber", "null")] {
                json.column(name, funcs, |json, _| json.value(value));
            }
        });
        table(json, "resourceTable", &self.resource_rows, |json, resources| {
            json.column("lib", resources, |json, row| json.value(row.0));
            json.column("name", resources, |json, row| json.value(row.1.0));
            json.column("host", resources, |json, _| json.value("null"));
            // 1 means "library".
            json.column("type", resources, |json, _| json.value(1));
        });
    }
}

/// Writes a table as an object of columns, on a line of its own.
fn table<T>(
    json: &mut Json<'_>,
    name: &str,
    rows: &[T],
    columns: impl FnOnce(&mut Json<'_>, &[T]),
) {
    json.line().key(name).object(|json| {
        json.key("length").value(rows.len());
        columns(json, rows);
    });
}

/// Builds the tables of a thread.
struct TableBuilder<'a> {
    profile: &'a Profile,
    labels: &'a Labels,
    libs: &'a Libs,
    start_lines: &'a StartLines,
    tables: ThreadTables,
    /// Row by frame, inline depth and category (for inlined frames, that of the outermost frame).
    frames: HashMap<(FrameId, usize, usize), usize, foldhash::fast::FixedState>,
    funcs: HashMap<FuncRow, usize, foldhash::fast::FixedState>,
    resources: HashMap<usize, usize, foldhash::fast::FixedState>,
}

impl TableBuilder<'_> {
    /// Adds a stack and its callers.
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
            // The Firefox Profiler shows the library beside the name.
            strings.intern(&format!("{:#x}", frame.address))
        } else {
            strings.intern(self.labels.names.get(self.labels.frames[id.index()]))
        };
        let file = strings.intern(self.profile.strings.get(frame.file));
        let script = frame.kind == FrameKind::Interpreted;
        // The Firefox Profiler treats rows of the table as different functions even if their names are equal.
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
