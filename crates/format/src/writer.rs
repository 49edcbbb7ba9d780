//! The trait for writers of formats, and their options. [`WRITERS`](crate::WRITERS) lists all writers.

use std::io::{self, Write};

use pyrograph_profile::{LabelOptions, Profile};

use crate::capabilities::Capabilities;

/// A format that can be written.
pub trait Writer: Sync {
    /// Name of the format as its users write it.
    fn name(&self) -> &'static str;

    /// File name endings of the format, without the leading dot; the usual one first.
    fn endings(&self) -> &'static [&'static str];

    /// Programs that open such files, for a list of formats.
    fn opened_by(&self) -> &'static str;

    /// Other names of the format, mostly names of programs that open it.
    fn also_called(&self) -> &'static [&'static str] {
        &[]
    }

    /// Parts of a profile that the format has a place for.
    fn capabilities(&self) -> Capabilities;

    /// Differences of the written values from those of this profile, beyond its
    /// [`capabilities`]; `None` if there are none.
    ///
    /// [`capabilities`]: Writer::capabilities
    fn changes(&self, _profile: &Profile) -> Option<String> {
        None
    }

    /// Reason why this profile cannot be written at all; `None` if it can.
    fn refuses(&self, _profile: &Profile) -> Option<&'static str> {
        None
    }

    /// Writes a profile, as much of it as the format holds: see [`not_held`](crate::not_held).
    ///
    /// # Errors
    ///
    /// If writing to `out` fails.
    fn write(
        &self,
        profile: &Profile,
        options: &WriteOptions,
        out: &mut dyn Write,
    ) -> io::Result<()>;
}

impl std::fmt::Debug for dyn Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// Options for writing a profile.
#[derive(Clone, Debug, Default)]
pub struct WriteOptions {
    /// Labels of frames, for formats that only have names.
    pub labels: LabelOptions,
    /// Description of the recording, for formats that have a title.
    pub title: String,
}
