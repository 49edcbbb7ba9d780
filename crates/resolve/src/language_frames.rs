//! Calls of interpreted languages and the labels of their functions, as data.

use std::borrow::Cow;

use pyrograph_language::Name;

use crate::module_ids::ModuleId;
use crate::stacks::RawFrame;

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
    pub fn text(name: &Name) -> Box<str> {
        let file = name.file.as_deref().unwrap_or_default();
        format!("{}{SEPARATOR}{file}{SEPARATOR}{}", name.function, name.start_line).into()
    }

    /// Appends a line to the text of a label, if it is known.
    pub fn with_line(text: &str, line: u32) -> Cow<'_, str> {
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
