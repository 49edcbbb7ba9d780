//! Writers of formats: the trait and its options. [`WRITERS`](crate::WRITERS) lists them.

use std::io::{self, Write};

use pyrograph_profile::{LabelOptions, Profile};

use crate::capabilities::Capabilities;

/// A format that can be written.
pub trait Writer: Sync {
    /// Name of the format, in the words of its users.
    fn name(&self) -> &'static str;

    /// The endings of files of this format, without the dot in front; the usual one first.
    fn endings(&self) -> &'static [&'static str];

    /// Which programs open such files, for a list of formats.
    fn opened_by(&self) -> &'static str;

    /// Other names of the format, mostly those of programs that open it.
    fn also_called(&self) -> &'static [&'static str] {
        &[]
    }

    /// Parts of a profile that such files have room for.
    fn capabilities(&self) -> Capabilities;

    /// Differences of the written values from those of this profile, beyond its
    /// [`capabilities`]; `None` if there are none.
    ///
    /// [`capabilities`]: Writer::capabilities
    fn changes(&self, _profile: &Profile) -> Option<String> {
        None
    }

    /// Why this profile cannot be written at all; `None` if it can.
    fn refuses(&self, _profile: &Profile) -> Option<&'static str> {
        None
    }

    /// Writes a profile, as much of it as the format holds: see [`not_held`](crate::not_held).
    ///
    /// # Errors
    ///
    /// Those of `out`.
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

/// Options of writing a profile.
#[derive(Clone, Debug, Default)]
pub struct WriteOptions {
    /// Labels of frames, in formats that have nothing but names.
    pub labels: LabelOptions,
    /// Description of the recording, for formats that have a title.
    pub title: String,
}
