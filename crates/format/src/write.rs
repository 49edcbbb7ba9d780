//! Writers: one file a format.

mod folded;

use std::io::{self, Write};

use pyrograph_profile::{LabelOptions, Profile, Tree};

pub use folded::write_folded;

/// A format that can be written.
pub trait Writer: Sync {
    /// What the format is called, in the words of its users.
    fn name(&self) -> &'static str;

    /// The endings of files of this format, without the dot in front.
    fn endings(&self) -> &'static [&'static str];

    /// Writes a profile.
    ///
    /// # Errors
    ///
    /// Those of `out`.
    fn write(
        &self,
        profile: &Profile,
        labels: &LabelOptions,
        out: &mut dyn Write,
    ) -> io::Result<()>;
}

/// Every format that can be written.
pub static WRITERS: &[&dyn Writer] = &[&FoldedWriter];

/// The format that a file of this name has, by its ending.
pub fn writer_for(file_name: &str) -> Option<&'static dyn Writer> {
    let has =
        |ending: &&str| file_name.strip_suffix(*ending).is_some_and(|stem| stem.ends_with('.'));
    WRITERS.iter().copied().find(|writer| writer.endings().iter().any(has))
}

struct FoldedWriter;

impl Writer for FoldedWriter {
    fn name(&self) -> &'static str {
        "folded"
    }

    fn endings(&self) -> &'static [&'static str] {
        &["folded"]
    }

    fn write(
        &self,
        profile: &Profile,
        labels: &LabelOptions,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        write_folded(&Tree::new(profile, labels), out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings() {
        assert_eq!(writer_for("out.folded").map(Writer::name), Some("folded"));
        assert_eq!(writer_for("outfolded").map(Writer::name), None);
        assert_eq!(writer_for("out.svg").map(Writer::name), None);
    }
}
