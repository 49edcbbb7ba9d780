//! Reader of the Firefox Profiler's processed format, written by samply, the Firefox Profiler itself and others.
//!
//! ```text
//! {"meta":{"preprocessedProfileVersion":55,"startTime":1700000000000,"interval":1,
//!          "categories":[{"name":"User","color":"yellow","subcategories":["Other"]}, …], …},
//!  "libs":[{"name":"app","path":"/bin/app", …}],
//!  "threads":[{"name":"main","processName":"app","pid":"12","tid":12,
//!    "stringArray":["main","app"],
//!    "samples":{"stack":[0],"time":[1.5],"weight":[1],"weightType":"samples","length":1},
//!    "stackTable":{"frame":[0],"prefix":[null],"length":1},
//!    "frameTable":{"func":[0],"line":[3],"inlineDepth":[0],"address":[-1],"category":[0], …},
//!    "funcTable":{"name":[0],"resource":[0],"isJS":[false],"fileName":[null], …},
//!    "resourceTable":{"lib":[0],"name":[1], …}, …}]}
//! ```
//!
//! Source: `src/types/profile.ts` and `docs-developer/CHANGELOG-formats.md` of the Firefox Profiler.
//! The place of a column depends on the version; all places are supported:
//!
//! - strings: in each thread, since version 56 in `shared.stringArray`;
//! - file of a function: in `funcTable.fileName`, since 58 by way of `shared.sources`;
//! - all tables: in each thread, since 60 in `shared`;
//! - caller of a stack: in `prefix`, since 66 as a distance in `prefixOffset`;
//! - library of a frame: by way of its function's resource, since 70 in `frameTable.lib`.
//!
//! Times are milliseconds, absolute in `time` or relative to the previous sample in `timeDeltas`. The value of a
//! sample is its `weight`, or 1 without weights; its meaning depends on `weightType`. `threadCPUDelta` is a second
//! value, if the recorder measured it. Allocations and markers are not read. Functions that samply left as addresses
//! are looked up in the libraries, which are named by path and build ID (`codeId`). Files written by Pyrograph have
//! file offsets as addresses, without build IDs, because the writer does not know how libraries were mapped.

mod file;

use pyrograph_profile::{
    About, Frame, FrameId, FrameKind, Marker, Profile, Sample, StackId, StringId, Thread, ThreadId,
    TimeUnit, ValueType,
};
use pyrograph_symbol::BuildId;

use self::file::{
    File, FrameTable, FuncTable, Lib, Numbers, OneThread, ResourceTable, SampleTable, Sources,
    StackTable, Tables, index,
};
use super::json;
use super::rows::Rows;
use crate::input::Head;
use crate::nameless;
use crate::names::module_kind;
use crate::reader::{Options, ReadError, Reader, Reading};
use crate::warnings::{WarningKind, Warnings};

/// Reader of the Firefox Profiler's processed format.
pub struct Firefox;

impl Reader for Firefox {
    fn name(&self) -> &'static str {
        "firefox"
    }

    fn written_by(&self) -> &'static str {
        "samply, profiler.firefox.com; pyrograph convert"
    }

    fn detect(&self, head: &[u8]) -> bool {
        // The first version had no `preprocessedProfileVersion`.
        let is_processed = json::has_key(head, "preprocessedProfileVersion")
            || json::has_key(head, "stackwalk") && json::has_key(head, "funcTable");
        json::begins_object(head) && json::has_key(head, "meta") && is_processed
    }

    fn read(&self, input: Head, options: &Options) -> Result<Reading, ReadError> {
        let (file, warnings) = json::parse::<File>(input)?;
        let mut reading = Builder::new(&file, options, warnings).build(&file);
        let file_of = |lib: &Lib| {
            let id = lib.code_id.as_deref().and_then(|id| id.parse::<BuildId>().ok());
            Some((reading.profile.strings.find(&lib.path)?, id))
        };
        let files = file.libs.iter().filter_map(file_of).collect();
        let by = file.meta.imported_from.as_deref().unwrap_or_default();
        let is_ours = by.starts_with("pyrograph ");
        let base = if is_ours { nameless::Base::File } else { nameless::Base::Image };
        let (profile, warnings) = (&mut reading.profile, &mut reading.warnings);
        nameless::name(profile, &files, base, options, warnings);
        Ok(reading)
    }
}

/// Number of decimals of counts, if any count is not an integer.
const DECIMALS: u8 = 6;

/// Label of Pyrograph's section in the `extra` metadata of a profile.
pub(crate) const EXTRA: &str = "Pyrograph";
/// Label of the entry with the type of the value: `name (unit)`.
pub(crate) const EXTRA_VALUE: &str = "Value";
/// Label of an entry that is present if samples had no times; the times in the file are then made up.
pub(crate) const EXTRA_NO_TIMES: &str = "Times";
/// Label of the entry with the name of what the `counts` column of samples counts: waits, calls … for each weight.
pub(crate) const EXTRA_COUNTS: &str = "Counts";
/// Name that is written for a thread without a name.
pub(crate) const UNKNOWN_THREAD: &str = "[unknown]";

/// Describes where the values of the profile's columns come from.
struct Columns {
    types: Vec<ValueType>,
    /// Factor from weights in the file to values of the profile.
    scale: f64,
    /// Nanoseconds per unit of `threadCPUDelta`, if that is a column.
    cpu: Option<u64>,
    /// True if `counts` is the last column.
    counted: bool,
}

struct Builder<'a> {
    libs: &'a [Lib],
    kinds: Vec<Option<FrameKind>>,
    profile: Profile,
    columns: Columns,
    times: bool,
    keep_addresses: bool,
    rows: Rows,
    unreadable: u64,
    negative: u64,
    warnings: Warnings,
}

impl<'a> Builder<'a> {
    fn new(file: &'a File, options: &Options, warnings: Warnings) -> Self {
        let columns = columns(file);
        let mut profile = Profile::new(columns.types.clone());
        let start = (file.meta.start_time * 1e6).round() as u64;
        profile.about = About { start: (start > 0).then_some(start), ..About::default() };
        Self {
            libs: &file.libs,
            kinds: file.meta.categories.iter().map(|of| category_kind(&of.name)).collect(),
            rows: Rows::new(options, columns.types.len()),
            profile,
            columns,
            times: extra(file, EXTRA_NO_TIMES).is_none(),
            keep_addresses: options.addresses,
            unreadable: 0,
            negative: 0,
            warnings,
        }
    }

    fn build(mut self, file: &File) -> Reading {
        let shared = self.stacks(&Context::shared(&file.shared));
        for one in &file.threads {
            let own;
            let stacks = if one.stack_table.frame.is_empty() {
                &shared
            } else {
                own = self.stacks(&Context::own(one, &file.shared));
                &own
            };
            let thread = self.thread(one);
            self.samples(&one.samples, stacks, thread);
        }
        for (kind, count) in [
            (WarningKind::UnreadableRecord, self.unreadable),
            (WarningKind::NegativeValue, self.negative),
        ] {
            if count > 0 {
                self.warnings.add(kind, count, []);
            }
        }
        self.rows.finish(&mut self.profile);
        Reading::new(self.profile, self.warnings)
    }

    fn thread(&mut self, one: &OneThread) -> ThreadId {
        let process = one.process_name.as_deref().unwrap_or_default();
        let name = match &*one.name {
            UNKNOWN_THREAD => "",
            name if name == process => "",
            name => name,
        };
        let number = |value: &serde_json::Value| match value {
            serde_json::Value::Number(number) => i32::try_from(number.as_i64()?).ok(),
            serde_json::Value::String(text) => text.parse().ok(),
            _ => None,
        };
        let thread = Thread {
            pid: number(&one.pid),
            tid: number(&one.tid),
            process: self.profile.strings.intern(process),
            name: self.profile.strings.intern(name),
            ..Thread::default()
        };
        self.rows.thread(&mut self.profile, thread)
    }

    /// Interns the stacks of a set of tables. `None` marks a damaged row.
    fn stacks(&mut self, tables: &Context) -> Vec<Option<StackId>> {
        let frames = self.frames(tables);
        let table = tables.stacks;
        let mut stacks: Vec<Option<StackId>> = Vec::with_capacity(table.frame.len());
        for row in 0..table.frame.len() {
            let caller = match table.caller(row) {
                None => Some(StackId::ROOT),
                // A caller comes before its callees.
                Some(at) => stacks.get(at).copied().flatten(),
            };
            let frame = index(&table.frame, row).and_then(|at| frames.get(at).copied());
            let stack =
                caller.zip(frame).map(|(caller, frame)| self.profile.stacks.intern(caller, frame));
            stacks.push(stack);
        }
        stacks
    }

    fn frames(&mut self, tables: &Context) -> Vec<FrameId> {
        // Each string is interned once, no matter how many rows refer to it.
        let texts: Vec<StringId> =
            tables.strings.iter().map(|text| self.profile.strings.intern(text)).collect();
        (0..tables.frames.func.len())
            .map(|row| {
                let frame = self.frame(tables, &texts, row);
                self.profile.frames.intern(frame)
            })
            .collect()
    }

    fn frame(&mut self, tables: &Context, texts: &[StringId], row: usize) -> Frame {
        let (frames, funcs) = (tables.frames, tables.funcs);
        let text = |column: &[Option<f64>], row: usize| {
            index(column, row).and_then(|at| texts.get(at).copied()).unwrap_or_default()
        };
        let Some(func) = index(&frames.func, row) else { return Frame::default() };
        let resource = index(&funcs.resource, func);
        let lib = match &frames.lib {
            Some(libs) => index(libs, row),
            None => resource.and_then(|resource| index(&tables.resources.lib, resource)),
        };
        let module = match lib.and_then(|lib| self.libs.get(lib)) {
            Some(lib) => {
                let path = if lib.path.is_empty() { &lib.name } else { &lib.path };
                self.profile.strings.intern(path)
            }
            None => resource.map_or(StringId::EMPTY, |at| text(&tables.resources.name, at)),
        };
        let file = match index(&funcs.source, func) {
            Some(source) => text(&tables.sources.filename, source),
            None => text(&funcs.file_name, func),
        };
        let name = text(&funcs.name, func);
        let address = index(&frames.address, row).map_or(0, |address| address as u64);
        let unnamed = address > 0 && is_address(self.profile.strings.get(name));
        let category = index(&frames.category, row).and_then(|at| *self.kinds.get(at)?);
        let kind = if index(&frames.inline_depth, row).is_some_and(|depth| depth > 0) {
            FrameKind::Inlined
        } else if funcs.is_js.get(func) == Some(&true) {
            FrameKind::Interpreted
        } else {
            category.unwrap_or_else(|| module_kind(self.profile.strings.get(module)))
        };
        Frame {
            function: if unnamed { StringId::EMPTY } else { name },
            module,
            file,
            line: index(&frames.line, row).map_or(0, |line| u32::try_from(line).unwrap_or(0)),
            start_line: index(&funcs.line_number, func)
                .map_or(0, |line| u32::try_from(line).unwrap_or(0)),
            address: if unnamed || self.keep_addresses { address } else { 0 },
            kind,
            guessed: false,
        }
    }

    fn samples(&mut self, samples: &SampleTable, stacks: &[Option<StackId>], thread: ThreadId) {
        let mut time = 0.0;
        let mut values = vec![0; self.columns.types.len()];
        for row in 0..samples.stack.len() {
            let at = |column: &Numbers| column.get(row).copied().flatten();
            match (at(&samples.time), at(&samples.time_deltas)) {
                (Some(absolute), _) => time = absolute,
                (None, delta) => time += delta.unwrap_or(0.0),
            }
            let weight = match &samples.weight {
                Some(weights) => at(weights).unwrap_or(0.0),
                None => 1.0,
            };
            if weight < 0.0 {
                self.negative += 1;
                continue;
            }
            // The `as` conversion saturates.
            values[0] = (weight * self.columns.scale).round() as u64;
            if let Some(unit) = self.columns.cpu {
                let delta = samples.thread_cpu_delta.as_ref().and_then(at).unwrap_or(0.0);
                values[1] = (delta * unit as f64).round() as u64;
            }
            if let (true, Some(last)) = (self.columns.counted, values.last_mut()) {
                *last = samples.counts.as_ref().and_then(at).unwrap_or(0.0).max(0.0) as u64;
            }
            let stack = match index(&samples.stack, row) {
                // The thread was sampled but had no stack.
                None => StackId::ROOT,
                Some(stack) => match stacks.get(stack).copied().flatten() {
                    Some(stack) => stack,
                    None => {
                        self.unreadable += 1;
                        continue;
                    }
                },
            };
            let time = self.times.then(|| (time * 1e6).round() as u64);
            self.rows.push(Sample { thread, time, ..Sample::new(stack) }, &values);
        }
    }
}

/// A set of tables whose indices refer to each other.
struct Context<'a> {
    strings: &'a [String],
    stacks: &'a StackTable,
    frames: &'a FrameTable,
    funcs: &'a FuncTable,
    resources: &'a ResourceTable,
    sources: &'a Sources,
}

impl<'a> Context<'a> {
    fn shared(tables: &'a Tables) -> Self {
        Self {
            strings: &tables.string_array,
            stacks: &tables.stack_table,
            frames: &tables.frame_table,
            funcs: &tables.func_table,
            resources: &tables.resource_table,
            sources: &tables.sources,
        }
    }

    /// A thread's own tables, except those that had moved to `shared` earlier than the others.
    fn own(thread: &'a OneThread, shared: &'a Tables) -> Self {
        let own = !thread.string_array.is_empty();
        Self {
            strings: if own { &thread.string_array } else { &shared.string_array },
            stacks: &thread.stack_table,
            frames: &thread.frame_table,
            funcs: &thread.func_table,
            resources: &thread.resource_table,
            sources: &shared.sources,
        }
    }
}

/// True if the function's name is an address, because it has no symbol.
fn is_address(name: &str) -> bool {
    name.strip_prefix("0x")
        .is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// Maps a category, as named by Pyrograph, samply and Firefox, to a kind of code.
fn category_kind(name: &str) -> Option<FrameKind> {
    match name {
        "Kernel" => Some(FrameKind::Kernel),
        "JIT" => Some(FrameKind::Jit),
        "JavaScript" | "Interpreted" => Some(FrameKind::Interpreted),
        "Remark" => Some(FrameKind::Marker(Marker::Remark)),
        _ => None,
    }
}

fn columns(file: &File) -> Columns {
    let weights = file.threads.iter().find_map(|thread| thread.samples.weight_type.as_deref());
    let (mut value_type, scale) = match weights {
        Some("tracing-ms") => (ValueType::new("time", "ns"), 1e6),
        Some("bytes") => (ValueType::new("bytes", "bytes"), 1.0),
        _ => (ValueType::samples(), 1.0),
    };
    let weights = file.threads.iter().filter_map(|thread| thread.samples.weight.as_ref());
    let mut scale = scale;
    if scale == 1.0 && weights.flatten().flatten().any(|weight| weight.fract() != 0.0) {
        value_type.decimals = DECIMALS;
        scale = 10f64.powi(DECIMALS.into());
    }
    let named = extra(file, EXTRA_VALUE).and_then(|text| text.strip_suffix(')')?.rsplit_once(" ("));
    if let Some((name, unit)) = named {
        value_type = ValueType { decimals: value_type.decimals, ..ValueType::new(name, unit) };
    }
    let mut columns = Columns { types: vec![value_type], scale, cpu: None, counted: false };
    let measured = |thread: &OneThread| {
        let deltas = thread.samples.thread_cpu_delta.as_ref();
        deltas.is_some_and(|deltas| deltas.iter().flatten().any(|&delta| delta > 0.0))
    };
    let unit = TimeUnit::named(&file.meta.sample_units.thread_cpu_delta);
    columns.cpu = unit.map(TimeUnit::nanoseconds).filter(|_| file.threads.iter().any(measured));
    if columns.cpu.is_some() {
        columns.types.push(ValueType::new("cpu", "ns"));
    }
    if let Some(name) = extra(file, EXTRA_COUNTS) {
        columns.types.push(ValueType::new(name, "count"));
        columns.counted = true;
    }
    columns
}

/// Returns the value of an entry in Pyrograph's `extra` section.
fn extra<'a>(file: &'a File, label: &str) -> Option<&'a str> {
    let section = file.meta.extra.iter().find(|section| section.label == EXTRA)?;
    section.entries.iter().find(|entry| entry.label == label)?.value.as_str()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Detail, Input, ThreadDetail, write_folded};
    use pyrograph_profile::{LabelOptions, ProcessLabel, Tree};

    fn read(text: &str) -> Reading {
        let input = Input::bytes("x", text).begin().expect("bytes");
        assert!(Firefox.detect(input.bytes()));
        let options = Options {
            detail: Detail::Samples,
            threads: ThreadDetail::Thread,
            ..Options::default()
        };
        Firefox.read(input, &options).expect("a profile")
    }

    fn check(text: &str, expect: &str) {
        let reading = read(text);
        let mut folded = Vec::new();
        for warning in &reading.warnings {
            folded.extend_from_slice(format!("# {warning}\n").as_bytes());
        }
        let labels = LabelOptions {
            process: ProcessLabel::PidTid,
            mark_kernel: true,
            mark_inlined: true,
            source: true,
            ..LabelOptions::default()
        };
        write_folded(&Tree::new(&reading.profile, &labels), &mut folded)
            .expect("writing to memory");
        assert_eq!(String::from_utf8_lossy(&folded), expect);
    }

    #[test]
    fn tables_in_threads() {
        check(
            r#"{"meta":{"preprocessedProfileVersion":55,"categories":[{"name":"Other"},{"name":"Kernel"}],
                        "sampleUnits":{"threadCPUDelta":"µs"}},
                "libs":[{"name":"app","path":"/bin/app"}],
                "threads":[{"name":"worker","processName":"app","pid":"1","tid":2,
                  "stringArray":["main","inner","0x10","read","a.c"],
                  "samples":{"stack":[1,2,null,3,9],"timeDeltas":[1,1,1,1,1],"weight":null,
                             "weightType":"samples","threadCPUDelta":[null,2,3,4,5],"length":5},
                  "stackTable":{"frame":[0,1,2,3],"prefix":[null,0,0,0],"length":4},
                  "frameTable":{"func":[0,1,2,3],"line":[7,8,null,null],"inlineDepth":[0,1,0,0],
                                "address":[-1,-1,16,-1],"category":[0,0,0,1],"length":4},
                  "funcTable":{"name":[0,1,2,3],"resource":[0,0,0,-1],"isJS":[false,false,false,false],
                               "fileName":[4,4,null,null],"length":4},
                  "resourceTable":{"lib":[0],"name":[0],"length":1}}]}"#,
            "# 1 damaged record was skipped\n\
             # /bin/app is not here as it was recorded: functions in it have no names\n\
             worker-1/2 1 3000\n\
             worker-1/2;main:a.c:7;app+0x10 1 2000\n\
             worker-1/2;main:a.c:7;inner:a.c:8_[i] 1 0\n\
             worker-1/2;main:a.c:7;read_[k] 1 4000\n",
        );
    }

    #[test]
    fn functions_left_as_addresses_are_looked_up_by_build_id() {
        #[inline(never)]
        extern "C" fn function_to_find(x: u64) -> u64 {
            std::hint::black_box(x) + 1
        }
        let program = std::env::current_exe().expect("a program");
        let program = program.to_str().expect("a path");
        let file = std::fs::File::open(program).expect("a program");
        let source = pyrograph_symbol::Source { path: program, ..Default::default() };
        let module = pyrograph_symbol::Module::open(&file, source).expect("ELF");
        let id = module.build_id().expect("a build ID").to_string();
        let maps = std::fs::read_to_string("/proc/self/maps").expect("Linux");
        let first = maps.lines().find(|line| line.ends_with(program)).expect("mapped");
        let base = u64::from_str_radix(first.split('-').next().unwrap_or_default(), 16);
        let address = function_to_find as *const () as u64 - base.expect("an address") + 1;
        let text = |by: &str, address: u64, id: &str| {
            format!(
                r#"{{"meta":{{"preprocessedProfileVersion":55,"importedFrom":"{by}","categories":[{{"name":"Other"}}]}},
                "libs":[{{"name":"app","path":"{program}","codeId":"{id}"}}],
                "threads":[{{"name":"a","pid":"1","tid":2,"stringArray":["0x{address:x}"],
                  "samples":{{"stack":[0],"time":[1],"weight":[1],"length":1}},
                  "stackTable":{{"frame":[0],"prefix":[null],"length":1}},
                  "frameTable":{{"func":[0],"line":[null],"inlineDepth":[0],"address":[{address}],
                                "category":[0],"length":1}},
                  "funcTable":{{"name":[0],"resource":[0],"isJS":[false],"fileName":[null],"length":1}},
                  "resourceTable":{{"lib":[0],"name":[0],"length":1}}}}]}}"#
            )
        };
        // Ours: the place in the file, which linkers let begin elsewhere than in memory.
        let place = module.image().offset_of(address).expect("it is in the file");
        for (by, address) in [("", address), ("pyrograph 0.1.0", place)] {
            let reading = read(&text(by, address, &id));
            let names: Vec<&str> = reading.profile.strings.iter().collect();
            assert!(names.iter().any(|name| name.ends_with("function_to_find")), "{names:?}");
            assert!(reading.warnings.is_empty());
        }
        // Another build has other functions there.
        let reading = read(&text("", address, "00112233445566778899"));
        let names: Vec<&str> = reading.profile.strings.iter().collect();
        assert!(!names.iter().any(|name| name.ends_with("function_to_find")));
        let said: Vec<String> = reading.warnings.iter().map(ToString::to_string).collect();
        assert!(said[0].contains("is not here as it was recorded"), "{said:?}");
    }

    #[test]
    fn tables_in_one_place() {
        check(
            r#"{"meta":{"preprocessedProfileVersion":70,"categories":[{"name":"Other"}]},
                "libs":[{"name":"app","path":"/bin/app"}],
                "shared":{"stringArray":["main","inner","a.c"],
                  "stackTable":{"frame":[0,1,1,0],"prefixOffset":[0,1,0,9],"length":4},
                  "frameTable":{"func":[0,1],"line":[7,null],"inlineDepth":[0,0],"lib":[0,-1],
                                "address":[-1,-1],"category":[0,0],"length":2},
                  "funcTable":{"name":[0,1],"resource":[-1,-1],"isJS":[false,true],"source":[0,null]},
                  "sources":{"filename":[2],"length":1}},
                "threads":[{"name":"a","pid":"1","tid":2,
                  "samples":{"stack":[1,2,3],"time":[1,2,3],"weight":[2.5,1,1],"weightType":"tracing-ms"}}]}"#,
            "# 1 damaged record was skipped\n\
             a-1/2;inner 1000000\n\
             a-1/2;main:a.c:7;inner 2500000\n",
        );
    }
}
