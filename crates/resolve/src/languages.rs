//! Interpreters in the recorded processes, and the names of their functions.

use std::borrow::Cow;
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use pyrograph_elf::Image;
use pyrograph_event::interpreter::{Call, Calls, Function, Interpreter, Language};
use pyrograph_language::{Chunks, Found, InnerCall, Lines, Memory, Runtime, Unknown};
use pyrograph_profile::{Marker, Strings};
use pyrograph_unwind::UnwindInfo;

use crate::files::Files;
use crate::language_frames::{FunctionLabel, RawCall};
use crate::module_ids::ModuleId;
use crate::modules::{Module, ModuleKind};
use crate::splice;
use crate::stacks::{FunctionCode, RawFrame};

/// An interpreter that was found in a file.
#[derive(Clone, Debug)]
pub struct FoundInterpreter {
    /// Path of the file.
    pub path: String,
    /// The language and version, or the reason why its calls cannot be read.
    pub interpreter: Result<InterpreterVersion, Unknown>,
}

/// An interpreter whose calls are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterpreterVersion {
    /// The language.
    pub language: Language,
    /// Version of the interpreter.
    pub version: String,
    /// Source of the interpreter's structure offsets.
    pub source: &'static str,
}

/// Counts of stacks with calls of interpreted languages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LanguageStats {
    /// Samples with calls of an interpreted language.
    pub stacks: u64,
    /// Number of these in which native frames and calls do not agree.
    pub unpaired: u64,
    /// Calls of functions whose names could not be read, counted once per sample and frame.
    pub nameless: u64,
    /// Samples of virtual threads whose callers are missing because their frames are in the heap.
    pub frozen: u64,
}

/// Number of functions whose names are kept. When it is reached, functions of ended processes are dropped, and all if
/// that is not enough.
const MOST_FUNCTIONS: usize = 1 << 18;

/// Interpreters and functions.
#[derive(Debug, Default)]
pub(crate) struct Languages {
    /// Interpreters by the module of their file.
    runtimes: HashMap<ModuleId, Arc<Runtime>>,
    looked_at: HashSet<ModuleId>,
    /// Files whose code switches stacks.
    switching: HashSet<ModuleId>,
    found: Vec<FoundInterpreter>,
    functions: HashMap<FunctionKey, Known>,
    calls: Vec<RawCall>,
    native: Vec<RawFrame>,
    /// Number of samples that the current stack represents.
    pub samples: u64,
}

type FunctionKey = (i32, u64, u32);

/// A function whose name was read.
#[derive(Debug)]
struct Known {
    label: Box<str>,
    code: FunctionCode,
    lines: Lines,
}

/// Memory of a process that may still run.
struct Live<'a, F> {
    files: &'a F,
    pid: i32,
}

impl<F: Files> Memory for Live<'_, F> {
    fn read(&self, address: u64, into: &mut [u8]) -> bool {
        self.files.read_memory(self.pid, address, into)
    }

    fn process(&self) -> Option<u32> {
        self.pid.try_into().ok()
    }
}

impl Languages {
    /// Searches an opened file for an interpreter of a wanted language, once.
    pub fn look_at(&mut self, id: ModuleId, module: Option<&Module>, wanted: &[Language]) {
        if wanted.is_empty() || !self.looked_at.insert(id) {
            return;
        }
        if let Some(module) = module
            && let ModuleKind::Elf { symbols: Some(symbols), unwind } = &module.kind
        {
            self.add_file(id, &module.path, (&**symbols.image(), unwind.as_deref()), wanted);
        }
    }

    fn add_file(
        &mut self,
        module: ModuleId,
        path: &str,
        (image, unwind): (&Image, Option<&UnwindInfo>),
        wanted: &[Language],
    ) {
        let extent = |address| unwind?.function(address);
        let interpreter = match pyrograph_language::find(image, &extent) {
            None if pyrograph_language::switches_stacks(image) => {
                self.switching.insert(module);
                return;
            }
            None => return,
            Some(Found::Known(runtime)) if !wanted.contains(&runtime.language()) => return,
            Some(Found::Known(runtime)) => {
                let (language, source) = (runtime.language(), runtime.source);
                let version = runtime.version.clone();
                self.runtimes.insert(module, Arc::from(runtime));
                Ok(InterpreterVersion { language, version, source })
            }
            Some(Found::Unknown(unknown)) => Err(unknown),
        };
        self.found.push(FoundInterpreter { path: path.to_owned(), interpreter });
    }

    /// Data about the interpreter in a file that the BPF programs need.
    pub fn interpreter(&self, module: ModuleId) -> Option<&Interpreter> {
        self.runtimes.get(&module).map(|runtime| &runtime.interpreter)
    }

    /// Returns the interpreters that were found since the last call.
    pub fn take_found(&mut self) -> Vec<FoundInterpreter> {
        std::mem::take(&mut self.found)
    }

    /// Names a function that the BPF programs have found. The rest of the process's memory is read if the process still
    /// runs.
    pub fn add_function(
        &mut self,
        function: &Function,
        files: &impl Files,
        runs: impl Fn(i32) -> bool,
    ) {
        let Some(runtime) = self.runtimes.get(&ModuleId(function.module)) else { return };
        let rest = Live { files, pid: function.pid };
        let memory = Chunks { chunks: &function.chunks, rest };
        // Java frees code at run time.
        if !runtime.is_same(&memory, function.function, function.identity) {
            return;
        }
        let Some(name) = runtime.name(&memory, function.function, function.owner) else { return };
        let known = Known {
            label: FunctionLabel::text(&name),
            code: match runtime.is_compiled(function.function) {
                true => FunctionCode::Compiled,
                false => FunctionCode::Interpreted,
            },
            lines: runtime.lines(&memory, function.function),
        };
        if self.functions.len() >= MOST_FUNCTIONS {
            self.functions.retain(|(pid, ..), _| runs(*pid));
            if self.functions.len() >= MOST_FUNCTIONS {
                self.functions.clear();
            }
        }
        let key = (function.pid, function.function, function.identity);
        self.functions.insert(key, known);
    }

    /// Reads the calls of a stack into `calls`.
    fn read_calls(&mut self, calls: &Calls<'_>, labels: &mut Strings, stats: &mut LanguageStats) {
        let pid = calls.pid();
        let mut read = std::mem::take(&mut self.calls);
        read.clear();
        let mut language = None;
        let mut is_native = false;
        for call in calls.iter() {
            let (text, line, code) = match call {
                Call::Interpreter(module) => {
                    let module = ModuleId(module);
                    language = self.runtimes.get(&module).map(|known| known.language());
                    read.push(RawCall::Interpreter(module));
                    continue;
                }
                Call::End(_) if std::mem::take(&mut is_native) => continue,
                Call::End(native) => {
                    read.push(RawCall::End(native));
                    continue;
                }
                Call::Truncated => {
                    let text = labels.intern("[truncated]");
                    read.push(RawCall::Truncated(RawFrame::label(text, false)));
                    continue;
                }
                Call::Frozen => {
                    stats.frozen += self.samples;
                    let text = labels.intern(Marker::Frozen.label());
                    read.push(RawCall::Frame(RawFrame::label(text, false)));
                    continue;
                }
                Call::Main(line) => (Cow::Borrowed("main"), line, FunctionCode::Interpreted),
                Call::Eval { line, .. } => {
                    (Cow::Borrowed("(eval)"), line, FunctionCode::Interpreted)
                }
                Call::Function { function, identity, offset } => {
                    match self.functions.get(&(pid, function, identity)) {
                        Some(Known { lines, .. }) if let Some(calls) = lines.calls(offset) => {
                            // The last one is the compiled function; the others were inlined into it.
                            let compiled = calls.len().saturating_sub(1);
                            for (at, InnerCall { name, line }) in calls.into_iter().enumerate() {
                                let text = FunctionLabel::text(name);
                                let text = FunctionLabel::with_line(&text, line);
                                let label = labels.intern(&text);
                                let code = match at == compiled {
                                    true => FunctionCode::Compiled,
                                    false => FunctionCode::Inlined,
                                };
                                read.push(RawCall::Frame(RawFrame::function(label, code)));
                            }
                            continue;
                        }
                        Some(Known { label, code, lines }) => (
                            Cow::Borrowed(&**label),
                            if offset == 0 { 0 } else { lines.line(offset) },
                            *code,
                        ),
                        // The native frame is kept: the virtual machine may have named its code.
                        None if language == Some(Language::Java) => {
                            is_native = true;
                            continue;
                        }
                        None => {
                            stats.nameless += self.samples;
                            let language = language.map_or("interpreted", Language::name);
                            let text = Cow::Owned(format!("[{language} function]"));
                            (text, 0, FunctionCode::Interpreted)
                        }
                    }
                }
            };
            let label = labels.intern(&FunctionLabel::with_line(&text, line));
            let frame = RawFrame::function(label, code);
            read.push(match call {
                Call::Main(_) => RawCall::Main(frame),
                Call::Eval { catch: Some(catch), .. } => RawCall::Eval(frame, catch),
                _ => RawCall::Frame(frame),
            });
        }
        self.calls = read;
    }

    /// Puts the calls of interpreters among the native frames of a stack, leaf first, and appends it to `out`. Returns true if the
    /// stack is whole then.
    pub fn splice(
        &mut self,
        native: Vec<RawFrame>,
        calls: &Calls<'_>,
        whole: bool,
        labels: &mut Strings,
        stats: &mut LanguageStats,
        out: &mut Vec<RawFrame>,
    ) -> bool {
        let mut began = false;
        if calls.is_empty() {
            out.extend(&native);
        } else {
            self.read_calls(calls, labels, stats);
            let files = splice::FilesOfCode {
                interpreter: &|module| self.runtimes.get(&module).map(|runtime| &runtime.native),
                switches_stacks: &|module| self.switching.contains(&module),
            };
            let spliced = splice::splice(&native, &self.calls, whole, &files);
            stats.stacks += self.samples;
            stats.unpaired += if spliced.paired { 0 } else { self.samples };
            out.extend(spliced.frames);
            began = spliced.began;
        }
        self.native = native;
        self.native.clear();
        whole || began
    }

    /// Takes the reusable buffer for the native frames of a stack.
    pub fn take_native_room(&mut self) -> Vec<RawFrame> {
        std::mem::take(&mut self.native)
    }
}
