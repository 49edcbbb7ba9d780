//! Recordings in the current folder, for subcommands that are given no input.

use std::io::IsTerminal;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use pyrograph_profile::Profile;

use crate::say::{misuse, say};
use crate::units::counted;

/// File that `record` writes beside its flame graph if no output is named: it holds the whole profile.
pub const KEPT: &str = "flamegraph.pb.gz";

/// Flame graph that `record` writes if no output is named.
pub const DEFAULT_PICTURE: &str = "flamegraph.svg";

/// File of the previous recording.
pub const KEPT_BEFORE: &str = "flamegraph.old.pb.gz";

/// File names of a recording and of the previous one: Pyrograph's, and those of `perf record`.
const RECORDINGS: [(&str, &str); 2] = [(KEPT, KEPT_BEFORE), (PERFS, "perf.data.old")];

/// File that `perf record` writes.
const PERFS: &str = "perf.data";

/// Finds the recording in the current folder, the newer one if there are two; `None` if standard input is a pipe or a
/// file and is to be read. The caller [says](say_read) which it is.
pub fn profile() -> anyhow::Result<Option<&'static Path>> {
    if has_standard_input() {
        return Ok(None);
    }
    match newest() {
        Some((path, _)) => Ok(Some(path)),
        None => misuse!(
            "no input: name a file, or `-` for standard input. Without one, {KEPT} or {PERFS} in the current folder is \
             read; pyrograph record -- COMMAND writes the first"
        ),
    }
}

/// Finds the recording of single events in the current folder; `None` if standard input is to be read.
pub fn events() -> anyhow::Result<Option<&'static Path>> {
    if has_standard_input() {
        return Ok(None);
    }
    let path = Path::new(PERFS);
    if path.is_file() {
        say_reading(path);
        return Ok(Some(path));
    }
    let not = if Path::new(KEPT).is_file() {
        format!(" ({KEPT} has stacks and sums, but no single events)")
    } else {
        String::new()
    };
    misuse!(
        "no input: name a file, or `-` for standard input. Without one, {PERFS} in the current folder is read{not}"
    )
}

/// Prints which recording is read, and its age.
pub fn say_reading(path: &Path) {
    say!("reading {}, written {}", path.display(), age(path));
}

/// Prints which recording was read.
pub fn say_read(path: &Path, profile: &Profile) {
    say!("reading {}: {}", path.display(), facts(path, profile));
}

/// Prints which two recordings were read to be compared.
pub fn say_compared(before: (&Path, &Profile), after: (&Path, &Profile)) {
    let [before, after] = [before, after]
        .map(|(path, profile)| format!("{} ({})", path.display(), facts(path, profile)));
    say!("comparing {before} with {after}");
}

/// Facts about a recording: its command, what it counts, and its age.
fn facts(path: &Path, profile: &Profile) -> String {
    let counts = profile.value_types.get(profile.shown).filter(|of| !of.is_unnamed());
    let facts = [
        profile.about.command.as_ref().map(|command| format!("`{command}`")),
        counts.map(|of| of.name.clone()),
        Some(age(path)).filter(|age| !age.is_empty()),
    ];
    let facts: Vec<String> = facts.into_iter().flatten().collect();
    facts.join(", ")
}

/// The recording in the current folder and the previous one, to compare them.
pub fn two() -> anyhow::Result<[PathBuf; 2]> {
    match newest() {
        Some((after, before)) if before.is_file() => Ok([before.to_owned(), after.to_owned()]),
        _ => misuse!(
            "name two profiles to compare. Without them, {KEPT_BEFORE} and {KEPT}, which pyrograph record -- COMMAND \
             leaves when it has run twice, or perf.data.old and perf.data are"
        ),
    }
}

/// The recording in the current folder, to compare it with the file `before`.
pub fn after(before: &Path) -> Option<PathBuf> {
    let (after, _) = newest()?;
    // A file is not compared with itself.
    let is_same = before.canonicalize().ok()? == after.canonicalize().ok()?;
    (!is_same).then(|| after.to_owned())
}

/// The previous recording, while the new one is written: if that fails, it stays where it is.
pub struct Before {
    /// Second name of its file; `None` if there is none.
    link: Option<PathBuf>,
}

impl Before {
    /// Gives the previous recording a second name.
    pub fn hold() -> Self {
        let link = PathBuf::from(format!(".{KEPT_BEFORE}-{}", std::process::id()));
        // Not every file system has links.
        let is_held = std::fs::hard_link(KEPT, &link).is_ok() || std::fs::copy(KEPT, &link).is_ok();
        Self { link: is_held.then_some(link) }
    }

    /// Makes it the recording before, as `perf record` does.
    pub fn replaced(mut self) {
        if let Some(link) = self.link.take() {
            std::fs::rename(link, KEPT_BEFORE).ok();
        }
    }
}

impl Drop for Before {
    fn drop(&mut self) {
        if let Some(link) = &self.link {
            std::fs::remove_file(link).ok();
        }
    }
}

/// Time since a file was written, for messages: "3 minutes ago"; empty if it is not known.
fn age(path: &Path) -> String {
    let written = std::fs::metadata(path).and_then(|of| of.modified()).ok();
    let passed = written.and_then(|written| written.elapsed().ok());
    passed.map_or_else(String::new, |passed| format!("{} ago", rounded(passed)))
}

/// A duration in its largest whole unit.
fn rounded(passed: Duration) -> String {
    let seconds = passed.as_secs();
    match seconds {
        0..60 => counted(seconds, "second"),
        60..3600 => counted(seconds / 60, "minute"),
        3600..86_400 => counted(seconds / 3600, "hour"),
        _ => counted(seconds / 86_400, "day"),
    }
}

/// The most recent recording, and the file name of the one before it.
fn newest() -> Option<(&'static Path, &'static Path)> {
    let written =
        |name: &str| -> Option<SystemTime> { std::fs::metadata(name).ok()?.modified().ok() };
    let there = RECORDINGS.iter().filter_map(|names| Some((written(names.0)?, names)));
    let (_, (after, before)) = there.max_by_key(|(written, _)| *written)?;
    Some((Path::new(after), Path::new(before)))
}

/// Returns true if standard input can be read: it is neither a terminal nor `/dev/null`.
fn has_standard_input() -> bool {
    let is_device = |path: &str| {
        std::fs::metadata(path).map_or(true, |metadata| metadata.file_type().is_char_device())
    };
    !std::io::stdin().is_terminal() && !is_device("/dev/stdin")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_in_their_largest_whole_unit() {
        for (seconds, expect) in [
            (0, "0 seconds"),
            (59, "59 seconds"),
            (60, "1 minute"),
            (7199, "1 hour"),
            (86_400 * 3 + 5, "3 days"),
        ] {
            assert_eq!(rounded(Duration::from_secs(seconds)), expect);
        }
    }
}
