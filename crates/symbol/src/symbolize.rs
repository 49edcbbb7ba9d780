//! Symbolization of all addresses of a module in one pass.

use std::cell::OnceCell;
use std::path::PathBuf;
use std::sync::Arc;

use thiserror::Error;

use crate::entries::Entries;
use crate::frames::{self, DwarfFrame, DwarfFrames};
use crate::function_name::FunctionName;
use crate::go;
use crate::kept::{self, Tables};
use crate::locate::Locator;
use crate::module::Module;
use crate::plt;
use crate::symbols::{Finder, SameCode, Symbol, text_ranges};
use crate::v8;

/// Options of symbolization: what to find for each address, and where to search.
#[derive(Clone, Debug)]
pub struct Options {
    /// True to report the calls that the compiler inlined as frames. On by default.
    pub inlines: bool,
    /// True to report source files and lines. On by default. With neither this nor `inlines`, debug information is
    /// opened only for addresses that the module's own symbol tables do not cover.
    pub lines: bool,
    /// Locations of debug files. Files found in the first pass over a module are kept for later passes.
    pub locator: Locator,
    /// Cache folder, such as `~/.cache`, below which the running kernel's symbols and decompressed debug
    /// information are stored. `None` to store nothing.
    pub cache: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Self { inlines: true, lines: true, locator: Locator::default(), cache: None }
    }
}

/// A function and a source location in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Demangled name without parameters.
    pub function: Arc<str>,
    /// Demangled name with parameters, which distinguish overloads; `None` if they are unknown.
    pub full: Option<Arc<str>>,
    /// Source file; absolute unless the compiler recorded only a relative path.
    pub file: Option<Arc<str>>,
    /// Source line, from 1; 0 if unknown.
    pub line: u32,
    /// First source line of the function, from 1; 0 if unknown.
    pub start_line: u32,
}

impl Frame {
    pub(crate) fn named(function: impl Into<FunctionName>) -> Self {
        let FunctionName { name, full } = function.into();
        Self { function: name, full, file: None, line: 0, start_line: 0 }
    }
}

/// Frames found for one address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Symbolized {
    /// Innermost first: inlined functions, if any, then the function that was really called. Empty if no symbol
    /// covers the address. Adjacent addresses share one list if nothing but their common symbol is known.
    pub frames: Arc<[Frame]>,
    /// Start of the symbol of the function that was really called, as an address of the file.
    pub start: Option<u64>,
}

/// Result of a pass.
#[derive(Clone, Debug, Default)]
pub struct Symbolization {
    /// One entry for each requested address, in the order of the request.
    pub addresses: Vec<Symbolized>,
    /// Reasons why names may be missing; every pass over a module reports the same ones.
    pub warnings: Vec<Warning>,
}

/// A problem that makes names less complete or less exact.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum Warning {
    /// A file found at the location of a module's debug file is of another build and was not used.
    #[error("{} is not used as debug file: {reason}", path.display())]
    NotTheDebugFile {
        /// Path of the file.
        path: PathBuf,
        /// Reason why it was rejected.
        reason: String,
    },
    /// Debug information is incomplete or damaged.
    #[error("debug information of {}: {reason}", path.display())]
    DebugInfo {
        /// Path of the file.
        path: PathBuf,
        /// Description of the defect.
        reason: String,
    },
    /// A jitdump file that a process wrote about its JIT-compiled code is incomplete or damaged.
    #[error("functions of {} may lack their names: {reason}", path.display())]
    JitDump {
        /// Path of the file.
        path: PathBuf,
        /// Description of the defect.
        reason: String,
    },
}

impl Warning {
    /// Returns the first warning of each kind, with the number of further warnings of that kind.
    pub fn by_kind(warnings: &[Self]) -> Vec<(&Self, u64)> {
        let mut kinds: Vec<(&Self, u64)> = Vec::new();
        for warning in warnings {
            let kind = std::mem::discriminant(warning);
            match kinds.iter_mut().find(|(first, _)| std::mem::discriminant(*first) == kind) {
                Some((_, more)) => *more += 1,
                None => kinds.push((warning, 0)),
            }
        }
        kinds
    }
}

impl Module {
    /// Finds functions, files, lines and inlined calls at `addresses`, which are addresses of the file
    /// ([`Module::file_offset_to_address`]) in any order. Each call reads whole symbol tables and units, so collect
    /// all addresses first and call this once. A sorted list without duplicates saves a copy.
    pub fn symbolize(&self, addresses: &[u64], options: &Options) -> Symbolization {
        if addresses.is_sorted_by(|a, b| a < b) {
            return self.symbolize_sorted(addresses, options, None);
        }
        let mut sorted = addresses.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        let Symbolization { addresses: answers, warnings } =
            self.symbolize_sorted(&sorted, options, None);
        let answer = |address| answers[sorted.partition_point(|a| a < address)].clone();
        Symbolization { addresses: addresses.iter().map(answer).collect(), warnings }
    }

    pub(crate) fn symbolize_sorted(
        &self,
        addresses: &[u64],
        options: &Options,
        mut tables: Option<&mut Tables>,
    ) -> Symbolization {
        let mut result = Symbolization {
            addresses: vec![Symbolized::default(); addresses.len()],
            warnings: Vec::new(),
        };
        if addresses.is_empty() {
            return result;
        }
        let (elf, text) = (self.image.elf(), text_ranges(&self.image));
        let debug = OnceCell::new();
        let debug = || debug.get_or_init(|| self.debug(&options.locator));
        let mut finder = Finder::new(addresses, &text);
        kept::read(&mut tables, 0, elf, &mut finder);
        let mut found = Vec::new();
        if options.inlines || options.lines || !finder.is_complete() {
            let debug = debug();
            result.warnings.clone_from(&debug.warnings);
            let file = debug.file.as_ref().map(|(_, image)| &**image);
            for (at, image) in [file, debug.mini.as_ref()].into_iter().enumerate() {
                if let Some(image) = image {
                    kept::read(&mut tables, at + 1, image.elf(), &mut finder);
                }
            }
        }
        if options.inlines || options.lines || !finder.is_complete() {
            let debug = debug();
            let lowest = text.first().map_or(0, |range| range.start);
            let dwarf = debug.dwarf(self, options, lowest);
            result.warnings.extend(dwarf.warnings.iter().cloned());
            let (file, warnings) = (debug.place(self), &mut result.warnings);
            found = frames::find(dwarf, file, addresses, lowest, options.lines, warnings);
        }
        found.resize(addresses.len(), DwarfFrames::default());
        let is_known: Vec<bool> = found.iter().map(|of| !of.frames.is_empty()).collect();
        let entries = OnceCell::new();
        let divided = |label, address| {
            let entries = entries.get_or_init(|| Entries::read(elf));
            entries.as_ref().is_some_and(|entries| entries.divide(label, address))
        };
        let same_code = finder.same_code();
        let symbols = finder.finish(divided);
        let mut combiner = Combiner { options, same_code, last: None };
        for ((answer, symbol), dwarf) in result.addresses.iter_mut().zip(symbols).zip(found) {
            *answer = combiner.combine(symbol, dwarf);
        }
        let answers = &mut result.addresses;
        go::complete(&self.image, addresses, &is_known, options, answers);
        v8::complete(&self.image, addresses, answers);
        for (i, stub) in plt::stubs(elf, addresses, &text) {
            let function = format!("{}@plt", readable(stub.callee).name);
            let frames = Arc::from([Frame::named(FunctionName::plain(&function))]);
            result.addresses[i] = Symbolized { frames, start: Some(stub.start) };
        }
        result
    }
}

/// Combines the results of symbol tables and DWARF. Addresses are processed in ascending order: many in a row share
/// a symbol, whose name is demangled only once.
struct Combiner<'a> {
    options: &'a Options,
    same_code: SameCode<'a>,
    /// Last symbol, and the frame list of an address for which nothing but this symbol is known.
    last: Option<(Symbol<'a>, Arc<[Frame]>)>,
}

impl<'a> Combiner<'a> {
    /// Takes the name of the outermost function from the symbol, which has the compiler's suffixes (`.cold`,
    /// `.constprop.0`), and everything else from DWARF. A function in DWARF takes precedence over a label (a symbol
    /// without a size).
    fn combine(&mut self, symbol: Option<Symbol<'a>>, dwarf: DwarfFrames) -> Symbolized {
        let mut frames = dwarf.frames;
        let Some(mut outermost) = frames.pop() else {
            let Some(symbol) = symbol else { return Symbolized::default() };
            let frames = Arc::clone(self.alone(symbol));
            return Symbolized { frames, start: Some(symbol.start) };
        };
        let symbol = symbol.filter(|symbol| symbol.size > 0 || outermost.function.is_none());
        let start = symbol.map(|symbol| symbol.start).or(dwarf.start);
        let name = symbol.map(|symbol| FunctionName::of(&self.alone(symbol)[0]));
        let Some(function) = name.or(outermost.function.take()) else {
            return Symbolized::default();
        };
        let Options { inlines, lines, .. } = *self.options;
        if !inlines {
            frames.clear();
        }
        let placed = |function: FunctionName, frame: DwarfFrame| match lines {
            true => Frame {
                file: frame.file,
                line: frame.line,
                start_line: frame.start_line,
                ..Frame::named(function)
            },
            false => Frame::named(function),
        };
        let inlined = frames.into_iter().map(|mut frame| {
            placed(frame.function.take().unwrap_or_else(|| FunctionName::plain("??")), frame)
        });
        let frames: Vec<_> = inlined.chain([placed(function, outermost)]).collect();
        Symbolized { frames: frames.into(), start }
    }

    /// Single frame of an address for which only its symbol is known.
    fn alone(&mut self, symbol: Symbol<'a>) -> &Arc<[Frame]> {
        let is_it = |last: &(Symbol<'_>, _)| std::ptr::eq(last.0.name, symbol.name);
        let known = self.last.take().filter(is_it);
        let others = self.same_code.get(&(symbol.start, symbol.size));
        let name = || readable(symbol.name).with_others(others.into_iter().flatten().copied());
        let new = || (symbol, Arc::from([Frame::named(name())]));
        &self.last.insert(known.unwrap_or_else(new)).1
    }
}

fn readable(name: &[u8]) -> FunctionName {
    FunctionName::demangled(&String::from_utf8_lossy(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_of_one_kind_are_one() {
        let other =
            |path: &str| Warning::NotTheDebugFile { path: path.into(), reason: String::new() };
        let damaged = Warning::DebugInfo { path: "/d".into(), reason: "it ends early".to_owned() };
        let all = [other("/a"), damaged.clone(), other("/b"), other("/c")];
        assert_eq!(Warning::by_kind(&all), [(&other("/a"), 2), (&damaged, 0)]);
    }
}
