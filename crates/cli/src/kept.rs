//! Kept profiles: `agent`, which records always, `store`, which looks after a folder of segments, and such folders as inputs.

pub mod agent;
pub mod folder;
pub mod query;

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::bail;
use pyrograph_format::Input;
use pyrograph_store::{Directory, Range, Wanted, write_segment};

use crate::say::{misuse, say};
use crate::units::counted;

/// Prefix of inputs that are folders of segments.
const PREFIX: &str = "store:";

/// The folder where nothing else is said.
pub const DEFAULT: &str = "/var/lib/pyrograph";

/// The present, in nanoseconds since 1970-01-01 UTC.
pub fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// Opens `store:FOLDER[@RANGE][?service=PATTERN&host=PATTERN]`: the samples of a range of time, of all by default. `None` for other
/// inputs.
///
/// # Errors
///
/// If the folder cannot be read, or has no samples of that time.
pub fn open(file: &Path) -> Option<anyhow::Result<Input>> {
    let text = file.to_str()?.strip_prefix(PREFIX)?;
    Some(read(text))
}

fn read(text: &str) -> anyhow::Result<Input> {
    let (place, filters) = text.split_once('?').unwrap_or((text, ""));
    let mut wanted = Wanted::default();
    for filter in filters.split('&').filter(|filter| !filter.is_empty()) {
        match filter.split_once('=') {
            Some(("service", pattern)) => wanted.service = pattern.to_owned(),
            Some(("host", pattern)) => wanted.host = pattern.to_owned(),
            _ => misuse!("{PREFIX}{text}: '{filter}' is no filter: use service=NAME, host=NAME"),
        }
    }
    let (folder, range) = match place.rsplit_once('@') {
        Some((folder, range)) => match Range::parse(range, now()) {
            Ok(range) => (folder, range),
            Err(why) => misuse!("{PREFIX}{text}: {why}"),
        },
        None => (place, Range::ALL),
    };
    wanted.range = range;
    let folder = PathBuf::from(if folder.is_empty() { DEFAULT } else { folder });
    let directory = Directory::open(&folder)?;
    let answer = directory.query(&wanted)?;
    for (_, why) in &answer.damaged {
        say!("{why}");
    }
    if answer.gaps > 0 {
        let seconds = answer.missing as f64 / 1e9;
        say!("nothing was kept of {seconds:.0} s of that time, in {} parts of it", answer.gaps);
    }
    if let Some(lost) = answer.profile.as_ref().map(|of| of.about.lost).filter(|lost| *lost > 0) {
        say!("{} were lost in the segments of that time", counted(lost, "sample"));
    }
    let profile = answer.profile.filter(|profile| !profile.samples.is_empty());
    let Some(profile) = profile else {
        bail!("{} has no samples of this time", folder.display());
    };
    Ok(Input::bytes(&format!("{PREFIX}{text}"), write_segment(&profile)?))
}
