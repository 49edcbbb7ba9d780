//! Writer of kept profiles: a segment in Parquet's format, with all that a profile has. The crate `store` describes it.

use std::io::{self, Write};

use pyrograph_profile::Profile;
use pyrograph_store::write_segment;

use crate::capabilities::Capabilities;
use crate::writer::{WriteOptions, Writer};

/// Writer of segments.
pub(super) struct KeptProfile;

impl Writer for KeptProfile {
    fn name(&self) -> &'static str {
        "pyro.parquet"
    }

    fn endings(&self) -> &'static [&'static str] {
        &["pyro.parquet", "parquet"]
    }

    fn also_called(&self) -> &'static [&'static str] {
        &["parquet"]
    }

    fn opened_by(&self) -> &'static str {
        "DuckDB, pandas, Polars, ClickHouse: whatever reads Parquet"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::ALL
    }

    fn write(
        &self,
        profile: &Profile,
        _options: &WriteOptions,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        out.write_all(&write_segment(profile).map_err(io::Error::other)?)
    }
}
