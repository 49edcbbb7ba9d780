//! Errors.

use std::io;
use std::path::PathBuf;

/// Reasons why a place or variable in a program cannot be found.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be read.
    #[error("{} cannot be read: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file is not an ELF file that can be read.
    #[error(transparent)]
    File(pyrograph_symbol::Error),
    /// Neither the file nor a separate debug file has debug information.
    #[error(
        "{} has no debug information, and no debug file of it was found: lines and variables need the program to be \
         built with -g, or its debug package",
        path.display()
    )]
    NoDebugInfo {
        /// The file.
        path: PathBuf,
    },
    /// No unit of the debug information can be read.
    #[error("the debug information of {} is damaged", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
    },
    /// The text is no expression.
    #[error("{why}")]
    Expression {
        /// Description of the syntax error.
        why: String,
    },
    /// The value of an expression cannot be read at an instruction.
    #[error("'{expression}' cannot be read there: {why}")]
    Value {
        /// The expression.
        expression: String,
        /// The reason.
        why: String,
    },
}
