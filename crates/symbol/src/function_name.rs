//! The name of a function without its parameters, and with them.

use std::sync::Arc;

use crate::demangle::{demangle, demangle_with_parameters};
use crate::symbolize::Frame;

/// A name, demangled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FunctionName {
    /// Without parameters.
    pub name: Arc<str>,
    /// With them, where they are known.
    pub full: Option<Arc<str>>,
}

impl FunctionName {
    /// A name that is what it is.
    pub fn plain(name: &str) -> Self {
        Self { name: name.into(), full: None }
    }

    /// That of a symbol.
    pub fn demangled(symbol: &str) -> Self {
        let name = demangle(symbol);
        let full = demangle_with_parameters(symbol).filter(|full| *full != name);
        Self { name: name.into(), full: full.map(Into::into) }
    }

    /// That of a frame.
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
