//! Name of a function, without its parameters and with them.

use std::collections::BTreeMap;
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

    /// Adds to the name with parameters those of other functions with the same code (`f(int) [same code as g(int)]`), of which
    /// a stack cannot tell which was called.
    pub fn with_others<'a>(self, symbols: impl Iterator<Item = &'a [u8]>) -> Self {
        /// Most names that are added.
        const MOST: usize = 3;
        let mut others: BTreeMap<String, Arc<str>> = BTreeMap::new();
        for symbol in symbols {
            let Self { name, full } = Self::demangled(&String::from_utf8_lossy(symbol));
            // Constructors of one class have one name; `preadv64` is a form of `preadv`.
            if !name.contains(&*self.name) && !self.name.contains(&*name) {
                others.insert(name.to_string(), full.unwrap_or(name));
            }
        }
        if others.is_empty() {
            return self;
        }
        let more = others.len().saturating_sub(MOST);
        let mut listed: Vec<String> = others.into_values().map(|name| name.to_string()).collect();
        listed.truncate(MOST);
        if more > 0 {
            listed.push(format!("{more} more"));
        }
        let full = self.full.as_ref().unwrap_or(&self.name);
        let full = format!("{full} [same code as {}]", listed.join(", "));
        Self { full: Some(full.into()), ..self }
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
