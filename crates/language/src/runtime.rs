//! Finds interpreters in files, and reads their functions.

use std::fmt;
use std::sync::Arc;

use pyrograph_elf::Image;
use pyrograph_event::interpreter::{Interpreter, Language};

use crate::file::{ExportedNames, Extent, File};
use crate::memory::{Memory, readable};
use crate::native::Native;
use crate::node::Scripts;
use crate::{java, luajit, node, perl, php, python, ruby};

/// An interpreter whose calls can be read.
#[derive(Clone, Debug)]
pub struct Runtime {
    /// Its version, such as `3.11.2`.
    pub version: String,
    /// Source of its offsets: `table`, or their place in the file.
    pub source: &'static str,
    /// Data for the code that walks its calls.
    pub interpreter: Interpreter,
    /// Its native functions.
    pub native: Native,
    /// Cache of line tables of scripts, for scripts long enough that counting lines is slow.
    pub(crate) scripts: Scripts,
    /// Offsets for naming Java methods.
    pub(crate) java: Option<Arc<java::Layout>>,
}

/// An interpreter whose calls cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown {
    /// Its name and version.
    pub interpreter: String,
    /// Reason why they cannot be read.
    pub reason: &'static str,
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.interpreter, self.reason)
    }
}

impl Unknown {
    /// For a version that no table covers.
    pub(crate) fn layout(interpreter: String) -> Self {
        Self { interpreter, reason: "its layout is not known" }
    }
}

/// Result of [`find`].
#[derive(Clone, Debug)]
pub enum Found {
    /// Its calls can be read.
    Known(Box<Runtime>),
    /// Its calls cannot be read.
    Unknown(Unknown),
}

/// Name of a function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Name {
    /// Name, qualified as far as the language does so.
    pub function: String,
    /// Source file.
    pub file: Option<String>,
    /// First line of the function, from 1; 0 if it is not known.
    pub start_line: u32,
}

/// Virtual machines that are not supported, and a symbol that only their files export.
const NOT_READ: [(&str, &str); 3] = [
    ("PyPy", "pypy_main_startup"),
    ("Erlang's BEAM", "erts_schedule"),
    (".NET", "coreclr_initialize"),
];

/// Finds the interpreter in a file; `None` if there is none. `extent` maps an address in code to the range of its
/// function, from the unwind tables; functions of stripped files have no other bounds.
pub fn find(image: &Image, extent: Extent<'_>) -> Option<Found> {
    let names = ExportedNames::of(image);
    let find = if names.mention("_PyEval_EvalFrameDefault") {
        python::find
    } else if names.mention("Perl_runops_standard") {
        perl::find
    } else if names.mention(node::MARK) {
        node::find
    } else if names.mention(java::MARK) {
        java::find
    } else if names.mention("execute_ex") {
        php::find
    } else if names.mention("ruby_version") {
        ruby::find
    } else if names.mention(luajit::MARK) {
        luajit::find
    } else {
        let has = |name| names.mention(name) && File::new(image, extent).symbol(name).is_some();
        let (interpreter, _) = NOT_READ.into_iter().find(|(_, name)| has(name))?;
        let (interpreter, reason) = (interpreter.to_owned(), "its functions are not read");
        return Some(Found::Unknown(Unknown { interpreter, reason }));
    };
    let found = find(&File::new(image, extent));
    Some(match found? {
        Ok(runtime) => Found::Known(Box::new(runtime)),
        Err(unknown) => Found::Unknown(unknown),
    })
}

/// Returns true if a file has code that copies other stacks into a thread's own stack, below a frame of its own
/// (greenlet, which gevent uses): frames outside of that do not belong to the running code.
pub fn switches_stacks(image: &Image) -> bool {
    let names = ExportedNames::of(image);
    // Python calls this function to load it; the second name is from versions before 1.0.
    names.mention("PyInit__greenlet") || names.mention("PyInit_greenlet")
}

/// Parses a zero-terminated version such as `8.2.36`: returns major and minor version, and the whole as text.
pub(crate) fn version(text: &[u8]) -> Option<(u32, u32, String)> {
    const LONGEST: usize = 40;
    let text = &text[..text.iter().take(LONGEST).position(|byte| *byte == 0)?];
    let text = std::str::from_utf8(text).ok()?;
    let mut numbers = text.split('.');
    let mut number = || numbers.next()?.parse().ok();
    Some((number()?, number()?, readable(text)?))
}

/// Returns the last part of a path.
pub(crate) fn base_name(path: &str) -> &str {
    path.rsplit('/').find(|part| !part.is_empty()).unwrap_or(path)
}

impl Runtime {
    pub(crate) fn new(
        version: String,
        source: &'static str,
        interpreter: Interpreter,
        native: Native,
    ) -> Self {
        Self { version, source, interpreter, native, scripts: Scripts::default(), java: None }
    }

    /// Returns its language.
    pub fn language(&self) -> Language {
        self.interpreter.language
    }

    /// Returns the name of the function at an address in the process. `owner` is what it belongs to, if it does not
    /// contain that itself (the class of a method in Ruby), otherwise 0. `None` if its memory cannot be read, or is not
    /// a function.
    pub fn name(&self, memory: &dyn Memory, function: u64, owner: u64) -> Option<Name> {
        match self.language() {
            Language::Python => python::name(&self.interpreter, memory, function),
            Language::Perl => perl::name(&self.interpreter, memory, function),
            Language::JavaScript => node::name(self, memory, function),
            Language::Php => php::name(&self.interpreter, memory, function),
            Language::Ruby => ruby::name(&self.interpreter, memory, function, owner),
            Language::Lua => luajit::name(&self.interpreter, memory, function),
            Language::Java => java::name(self, memory, function),
        }
    }

    /// Returns true if the code at this address is still the function that the in-kernel programs saw there. Only
    /// Java's can change.
    pub fn is_same(&self, memory: &dyn Memory, function: u64, identity: u32) -> bool {
        self.language() != Language::Java || java::is_same(self, memory, function, identity)
    }

    /// Returns true if a function is JIT-compiled code, as far as the in-kernel programs report it, which is for Java
    /// only.
    pub fn is_compiled(&self, function: u64) -> bool {
        self.language() == Language::Java && java::is_compiled(function)
    }

    /// Reads the lines of the function at an address in the process.
    pub fn lines(&self, memory: &dyn Memory, function: u64) -> Lines {
        let it = &self.interpreter;
        let lines = match self.language() {
            Language::Python => python::lines(it, memory, function).map(Kind::Python),
            Language::Ruby => ruby::lines(it, memory, function).map(Kind::Ruby),
            Language::Lua => luajit::lines(it, memory, function).map(Kind::Lua),
            Language::Java => java::lines(self, memory, function).map(Kind::Java),
            Language::Perl | Language::Php | Language::JavaScript => Some(Kind::Written),
        };
        Lines(lines.unwrap_or(Kind::Unknown))
    }
}

/// Line information of a function.
#[derive(Clone, Debug)]
pub struct Lines(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Unknown,
    /// The offset is already a line number.
    Written,
    Python(python::Lines),
    Ruby(ruby::Lines),
    Lua(luajit::Lines),
    Java(java::Lines),
}

impl Lines {
    /// Returns the line at an offset in the function, as the in-kernel programs emit it; 0 if it is not known.
    pub fn line(&self, offset: u32) -> u32 {
        match &self.0 {
            Kind::Unknown => 0,
            Kind::Written => offset,
            Kind::Python(lines) => lines.line(offset),
            Kind::Ruby(lines) => lines.line(offset),
            Kind::Lua(lines) => lines.line(offset),
            // Offsets are bytecode indexes plus 1.
            Kind::Java(java::Lines::Interpreted(lines)) => lines.line(offset.saturating_sub(1)),
            Kind::Java(_) => 0,
        }
    }

    /// Returns the inlined calls at an offset in a function, innermost first; `None` if nothing is inlined there.
    pub fn calls(&self, offset: u32) -> Option<Vec<InnerCall<'_>>> {
        match &self.0 {
            Kind::Java(java::Lines::Compiled(compiled)) => compiled.calls(offset),
            _ => None,
        }
    }
}

/// A call that a compiler has inlined into a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InnerCall<'a> {
    /// The called function.
    pub name: &'a Name,
    /// Line in it; 0 if it is not known, or not requested.
    pub line: u32,
}
