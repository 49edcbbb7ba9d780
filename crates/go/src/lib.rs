//! The table of functions that Go puts into its programs, `.gopclntab`: names, files, lines, inlined calls, frame sizes.
//!
//! It stays in stripped programs, for Go's own runtime needs it to find the callers of a function. This
//! reads it where it lies, for all of its forms since Go 1.2 on 64-bit processors. It opens no file;
//! bytes may be damaged in any way.
//!
//! Source: "Go 1.2 Runtime Symbol Information" (golang.org/s/go12symtab), and what `debug/gosym` and
//! `runtime/symtab.go` of Go 1.16, 1.18 and 1.20 say of the forms since.
//!
//! ```
//! # let file: &[u8] = b"not a Go program";
//! let Some(layout) = pyrograph_go::Layout::find(file) else {
//!     return; // not of Go
//! };
//! let table = layout.table(file);
//! for function in table.functions() {
//!     println!("{:#x} {:?}", function.start, function.name());
//! }
//! ```

mod inlined;
mod layout;
mod steps;
mod table;

pub use inlined::{Call, InlineTrees};
pub use layout::Layout;
pub use table::{Function, Place, Table};
