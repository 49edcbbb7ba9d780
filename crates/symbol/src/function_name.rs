//! Name of a function, without its parameters and with them.

use std::sync::Arc;

use crate::demangle::{demangle, demangle_with_parameters};
use crate::symbolize::Frame;

/// A demangled name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FunctionName {
    /// Name without parameters.
    pub name: Arc<str>,
    /// Name with parameters; `None` if they are unknown.
    pub full: Option<Arc<str>>,
}

impl FunctionName {
    /// Wraps a name that is not mangled.
    pub fn plain(name: &str) -> Self {
        Self { name: name.into(), full: None }
    }

    /// Demangles the name of a symbol.
    pub fn demangled(symbol: &str) -> Self {
        let name = demangle(symbol);
        let full = demangle_with_parameters(symbol).filter(|full| *full != name);
        Self { name: name.into(), full: full.map(Into::into) }
    }

    /// Name of a frame's function.
    pub fn of(frame: &Frame) -> Self {
        Self { name: Arc::clone(&frame.function), full: frame.full.clone() }
    }
}

impl From<Arc<str>> for FunctionName {
    fn from(name: Arc<str>) -> Self {
        Self { name, full: None }
    }
}

impl From<&str> for FunctionName {
    fn from(name: &str) -> Self {
        Self::plain(name)
    }
}
