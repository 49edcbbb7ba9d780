//! Places in programs by source: functions with the calls of them that were inlined, lines, and the variables that can
//! be read there.
//!
//! ```no_run
//! use std::path::Path;
//!
//! use pyrograph_probe::Program;
//! use pyrograph_symbol::Locator;
//!
//! let program = Program::open(Path::new("/usr/bin/app"), &Locator::default())?;
//! let view = program.read()?;
//! for function in view.functions(|name| name == "handle") {
//!     println!("{} at line {}", function.signature, function.line);
//!     for (line, addresses) in view.lines(&function) {
//!         println!("  line {line} begins at {addresses:x?}");
//!     }
//!     let body = &function.bodies[0];
//!     for variable in view.variables(body, body.entry) {
//!         println!("  {} {}: {:?}", variable.kind, variable.name, variable.location);
//!     }
//! }
//! # Ok::<(), pyrograph_probe::Error>(())
//! ```
//!
//! Everything is read from DWARF debug information (versions 2 to 5), of the program or of a separate debug file.
//! Nothing is executed, and no process is looked at.

#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout))]

mod call;
mod condition;
mod error;
mod expression;
mod frame;
mod functions;
mod layout;
mod lines;
mod location;
mod program;
mod types;
mod value;
mod variables;
mod words;

pub use call::{ARGUMENTS, INSTRUCTION_POINTER, RETURNED};
pub use condition::{Comparison, Condition, Literal};
pub use error::Error;
pub use expression::{Access, Expression, Start};
pub use functions::{Body, Function};
pub use location::{Base, Gone, Location, Number, Step};
pub use program::{Program, View};
pub use value::{ReadValue, Shape};
pub use variables::Variable;
