//! An annotated function as a page.

use std::io::{self, Write};

use pyrograph_analyze::Annotation;

use super::{AnnotationStyle, heading};

/// Writes an annotated function as a page that needs nothing else.
///
/// # Errors
///
/// Those of `out`.
pub fn annotation_html(
    of: &Annotation,
    _style: AnnotationStyle,
    out: &mut dyn Write,
) -> io::Result<()> {
    for line in heading(of) {
        writeln!(out, "{line}")?;
    }
    Ok(())
}
