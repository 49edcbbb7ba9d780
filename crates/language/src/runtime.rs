//! An interpreter in a file.

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
    /// How its offsets are known: `table`, or where in the file they are.
    pub source: &'static str,
    /// What a walker needs.
    pub interpreter: Interpreter,
    /// Its functions.
    pub native: Native,
    /// Lines of scripts that were read, where counting them takes long.
    pub(crate) scripts: Scripts,
    /// Offsets by which Java's methods are named.
    pub(crate) java: Option<Arc<java::Layout>>,
}

/// An interpreter whose calls cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown {
    /// Its name and version.
    pub interpreter: String,
    /// Why.
    pub reason: &'static str,
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.interpreter, self.reason)
    }
}

impl Unknown {
    /// A version of which no table is there.
    pub(crate) fn layout(interpreter: String) -> Self {
        Self { interpreter, reason: "its layout is not known" }
    }
}

/// Result of [`find`].
#[derive(Clone, Debug)]
pub enum Found {
    /// Its calls can be read.
    Known(Box<Runtime>),
    /// They cannot.
    Unknown(Unknown),
}

/// Name of a function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Name {
    /// Qualified as far as the language does that.
    pub function: String,
    /// Source file.
    pub file: Option<String>,
    /// The line on which it begins, from 1; 0 if that is not known.
    pub start_line: u32,
}

/// Virtual machines of languages that are not read, and a name that their files export and no others.
const NOT_READ: [(&str, &str); 3] = [
    ("PyPy", "pypy_main_startup"),
    ("Erlang's BEAM", "erts_schedule"),
    (".NET", "coreclr_initialize"),
];

/// The interpreter in a file, if it holds one. `extent`: from an address in code to those of the function that holds it, by
/// tables for unwinding; functions of stripped files have no other bounds.
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

/// Returns true if a file has code that puts stacks of others in the place of a thread's own, below a frame of its own
/// (greenlet, with which gevent works): frames outside of that are not of what runs.
pub fn switches_stacks(image: &Image) -> bool {
    let names = ExportedNames::of(image);
    // What Python calls to load it; the older name is that of versions before 1.0.
    names.mention("PyInit__greenlet") || names.mention("PyInit_greenlet")
}

/// Major and minor version, and the whole as text that ends with a zero, such as `8.2.36`.
pub(crate) fn version(text: &[u8]) -> Option<(u32, u32, String)> {
    const LONGEST: usize = 40;
    let text = &text[..text.iter().take(LONGEST).position(|byte| *byte == 0)?];
    let text = std::str::from_utf8(text).ok()?;
    let mut numbers = text.split('.');
    let mut number = || numbers.next()?.parse().ok();
    Some((number()?, number()?, readable(text)?))
}

/// The last part of a path.
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

    /// The language.
    pub fn language(&self) -> Language {
        self.interpreter.language
    }

    /// The name of a function at an address in the process. `owner`: what it belongs to, where it does not say that itself
    /// (the class of a method in Ruby), else 0. `None` if its memory cannot be read, or is no function.
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

    /// Returns true if a function is what the programs have seen at its address, where that may change.
    pub fn is_same(&self, memory: &dyn Memory, function: u64, identity: u32) -> bool {
        self.language() != Language::Java || java::is_same(self, memory, function, identity)
    }

    /// Returns true if a function is code that was compiled at run time, as far as the programs say it: of Java.
    pub fn is_compiled(&self, function: u64) -> bool {
        self.language() == Language::Java && java::is_compiled(function)
    }

    /// The lines of a function at an address in the process.
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

/// The lines of a function.
#[derive(Clone, Debug)]
pub struct Lines(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Unknown,
    /// The programs write lines.
    Written,
    Python(python::Lines),
    Ruby(ruby::Lines),
    Lua(luajit::Lines),
    Java(java::Lines),
}

impl Lines {
    /// The line at a place in the function, by what the programs write of it; 0 if it is not known.
    pub fn line(&self, offset: u32) -> u32 {
        match &self.0 {
            Kind::Unknown => 0,
            Kind::Written => offset,
            Kind::Python(lines) => lines.line(offset),
            Kind::Ruby(lines) => lines.line(offset),
            Kind::Lua(lines) => lines.line(offset),
            // Bytecodes are counted from 1.
            Kind::Java(java::Lines::Interpreted(lines)) => lines.line(offset.saturating_sub(1)),
            Kind::Java(_) => 0,
        }
    }

    /// The calls at a place of a function that a compiler has put others into, innermost first; `None`: it is one call.
    pub fn calls(&self, offset: u32) -> Option<Vec<InnerCall<'_>>> {
        match &self.0 {
            Kind::Java(java::Lines::Compiled(compiled)) => compiled.calls(offset),
            _ => None,
        }
    }
}

/// A call that a compiler has put into a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InnerCall<'a> {
    /// The function.
    pub name: &'a Name,
    /// The line in it; 0 if it is not known, or not wanted.
    pub line: u32,
}
