//! Interpreters in the recorded processes, and the names of their functions.

use std::borrow::Cow;
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use pyrograph_elf::Image;
use pyrograph_event::interpreter::{Call, Calls, Function, Interpreter, Language};
use pyrograph_language::{Chunks, Found, InnerCall, Lines, Memory, Name, Runtime, Unknown};
use pyrograph_profile::Marker;
use pyrograph_unwind::UnwindInfo;

use crate::files::Files;
use crate::modules::{ModuleId, ModuleKind};
use crate::resolver::Resolver;
use crate::splice::{self, Spliced};
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

/// A call, as it is put into a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RawCall {
    /// Start of a new interpreter's calls.
    Interpreter(ModuleId),
    Frame(RawFrame),
    /// An evaluated string or block, and the index of the native frame that control returns to when it fails.
    Eval(RawFrame, u32),
    /// The main program.
    Main(RawFrame),
    /// Calls are missing; the frame is shown in their place.
    Truncated(RawFrame),
    /// End of one run of the interpreter's loop, which runs in the native frame with this index.
    End(Option<u32>),
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
    /// Adds a file, if it holds an interpreter of a wanted language.
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
}

/// Text of a label: name, file and first line of a function, and the current line in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FunctionLabel<'a> {
    pub function: &'a str,
    pub file: &'a str,
    pub start_line: u32,
    pub line: u32,
}

/// Separator of a label's parts: names hold no control characters.
const SEPARATOR: char = '\0';

impl<'a> FunctionLabel<'a> {
    fn text(name: &Name) -> Box<str> {
        let file = name.file.as_deref().unwrap_or_default();
        format!("{}{SEPARATOR}{file}{SEPARATOR}{}", name.function, name.start_line).into()
    }

    /// Appends a line to the text of a label, if it is known.
    fn with_line(text: &str, line: u32) -> Cow<'_, str> {
        match line {
            0 => Cow::Borrowed(text),
            line => Cow::Owned(format!("{text}{SEPARATOR}{line}")),
        }
    }

    /// Parses the text of a label, with or without a line.
    pub fn parse(text: &'a str) -> Self {
        let mut parts = text.split(SEPARATOR);
        let mut next = || parts.next().unwrap_or_default();
        let (function, file) = (next(), next());
        let (start_line, line) = (next(), next());
        let number = |text: &str| text.parse().unwrap_or(0);
        Self { function, file, start_line: number(start_line), line: number(line) }
    }
}

impl<F: Files> Resolver<F> {
    /// Returns the interpreters that were found in files since the last call.
    pub fn found_interpreters(&mut self) -> Vec<FoundInterpreter> {
        self.languages.take_found()
    }

    /// Searches an opened file for an interpreter, once.
    pub(crate) fn find_interpreter(&mut self, id: ModuleId) {
        if self.options.languages.is_empty() || !self.languages.looked_at.insert(id) {
            return;
        }
        if let Some(module) = self.modules.get(id)
            && let ModuleKind::Elf { symbols: Some(symbols), unwind } = &module.kind
        {
            let file = (&**symbols.image(), unwind.as_deref());
            self.languages.add_file(id, &module.path, file, &self.options.languages);
        }
    }

    /// Interpreters of wanted languages in which samples were taken, one of each version.
    pub fn sampled_interpreters(&mut self) -> Vec<InterpreterVersion> {
        if self.options.languages.is_empty() {
            return Vec::new();
        }
        let modules: HashSet<ModuleId> =
            self.unnamed.frames().map(|frame| frame.module).filter(|id| !id.is_jit()).collect();
        modules.into_iter().for_each(|id| self.find_interpreter(id));
        let found = self.languages.take_found().into_iter();
        let mut known: Vec<_> = found.filter_map(|found| found.interpreter.ok()).collect();
        known.sort_unstable_by(|a, b| (a.language, &a.version).cmp(&(b.language, &b.version)));
        known.dedup();
        known
    }

    /// Names a function that the BPF programs have found. The rest of the process's memory is read if the process still
    /// runs.
    pub fn add_function(&mut self, function: &Function) {
        let Some(runtime) = self.languages.runtimes.get(&ModuleId(function.module)) else { return };
        let rest = Live { files: &self.files, pid: function.pid };
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
        if self.languages.functions.len() >= MOST_FUNCTIONS {
            let processes = &self.processes;
            self.languages.functions.retain(|(pid, ..), _| processes.runs(*pid));
            if self.languages.functions.len() >= MOST_FUNCTIONS {
                self.languages.functions.clear();
            }
        }
        let key = (function.pid, function.function, function.identity);
        self.languages.functions.insert(key, known);
    }

    /// Reads the calls of a stack into `languages.calls`.
    fn read_calls(&mut self, calls: &Calls<'_>) {
        let pid = calls.pid();
        let mut read = std::mem::take(&mut self.languages.calls);
        read.clear();
        let mut language = None;
        let mut is_native = false;
        for call in calls.iter() {
            let (text, line, code) = match call {
                Call::Interpreter(module) => {
                    let module = ModuleId(module);
                    language = self.languages.runtimes.get(&module).map(|known| known.language());
                    read.push(RawCall::Interpreter(module));
                    continue;
                }
                Call::End(_) if std::mem::take(&mut is_native) => continue,
                Call::End(native) => {
                    read.push(RawCall::End(native));
                    continue;
                }
                Call::Truncated => {
                    let text = self.unnamed.labels.intern("[truncated]");
                    read.push(RawCall::Truncated(RawFrame::label(text, false)));
                    continue;
                }
                Call::Frozen => {
                    self.stats.languages.frozen += self.languages.samples;
                    let text = self.unnamed.labels.intern(Marker::Frozen.label());
                    read.push(RawCall::Frame(RawFrame::label(text, false)));
                    continue;
                }
                Call::Main(line) => (Cow::Borrowed("main"), line, FunctionCode::Interpreted),
                Call::Eval { line, .. } => {
                    (Cow::Borrowed("(eval)"), line, FunctionCode::Interpreted)
                }
                Call::Function { function, identity, offset } => {
                    match self.languages.functions.get(&(pid, function, identity)) {
                        Some(Known { lines, .. }) if let Some(calls) = lines.calls(offset) => {
                            // The last one is the compiled function; the others were inlined into it.
                            let compiled = calls.len().saturating_sub(1);
                            for (at, InnerCall { name, line }) in calls.into_iter().enumerate() {
                                let text = FunctionLabel::text(name);
                                let text = FunctionLabel::with_line(&text, line);
                                let label = self.unnamed.labels.intern(&text);
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
                            self.stats.languages.nameless += self.languages.samples;
                            let language = language.map_or("interpreted", Language::name);
                            let text = Cow::Owned(format!("[{language} function]"));
                            (text, 0, FunctionCode::Interpreted)
                        }
                    }
                }
            };
            let label = self.unnamed.labels.intern(&FunctionLabel::with_line(&text, line));
            let frame = RawFrame::function(label, code);
            read.push(match call {
                Call::Main(_) => RawCall::Main(frame),
                Call::Eval { catch: Some(catch), .. } => RawCall::Eval(frame, catch),
                _ => RawCall::Frame(frame),
            });
        }
        self.languages.calls = read;
    }

    /// Adds the native frames of a stack, leaf first, with the calls of interpreters among them. Returns true if the
    /// stack is whole then.
    pub(crate) fn push_spliced(
        &mut self,
        native: Vec<RawFrame>,
        calls: &Calls<'_>,
        whole: bool,
    ) -> bool {
        if calls.is_empty() {
            self.frames.extend(&native);
            self.languages.native = native;
            self.languages.native.clear();
            return whole;
        }
        self.read_calls(calls);
        let languages = &mut self.languages;
        let runtimes = &languages.runtimes;
        let files = splice::FilesOfCode {
            interpreter: &|module| runtimes.get(&module).map(|runtime| &runtime.native),
            switches_stacks: &|module| languages.switching.contains(&module),
        };
        let spliced = splice::splice(&native, &languages.calls, whole, &files);
        let Spliced { frames, paired, began } = spliced;
        let stats = &mut self.stats.languages;
        stats.stacks += languages.samples;
        stats.unpaired += if paired { 0 } else { languages.samples };
        self.frames.extend(frames);
        languages.native = native;
        languages.native.clear();
        whole || began
    }

    /// Takes the reusable buffer for the native frames of a stack.
    pub(crate) fn take_native_room(&mut self) -> Vec<RawFrame> {
        std::mem::take(&mut self.languages.native)
    }
}
