//! A folder of segments: each appears at once and whole, and old ones go.
//!
//! `20261129T135200Z-20261129T135300Z-1f0c9a2b.pyro.parquet` has the samples of that minute; the last part is the beginning of a checksum, so that no
//! segment has the name of another one when the clock was set back. Segments of an hour are merged into one, whose footer names them: if
//! they are still there, after a crash between the two, they are passed over.

use std::collections::{BTreeMap, HashSet};
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use chrono::{DateTime, NaiveDateTime};
use pyrograph_profile::Profile;
use rustix::fs::{FlockOperation, flock, statvfs};

use crate::checksum;
use crate::error::StoreError;
use crate::footer::Kept;
use crate::read::{Segment, Wanted};
use crate::when::Range;
use crate::write::write_kept;

/// Ending of the names of segments.
pub const ENDING: &str = ".pyro.parquet";
/// Form of a time in a name, in UTC.
const FORM: &str = "%Y%m%dT%H%M%SZ";
/// Digits of the checksum in a name.
const DIGITS: usize = 8;
const SECOND: u64 = 1_000_000_000;
const HOUR: u64 = 3600 * SECOND;
/// With less room on the disk nothing is written.
const LEAST_FREE: u64 = 1 << 30;

/// How long, and how much of it, is kept.
#[derive(Clone, Copy, Debug)]
pub struct Retention {
    /// Nanoseconds after which a segment goes.
    pub age: u64,
    /// Bytes of all segments together, above which the oldest go.
    pub bytes: u64,
}

/// A folder of segments.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
}

/// A segment in a folder, as its name has it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// Start of its time, in nanoseconds since 1970-01-01 UTC.
    pub from: u64,
    /// End of its time.
    pub to: u64,
    /// Its file.
    pub path: PathBuf,
    /// Size of the file in bytes.
    pub bytes: u64,
}

/// Samples that were asked for.
#[derive(Debug, Default)]
pub struct Answer {
    /// The samples; `None` if there are none.
    pub profile: Option<Profile>,
    /// Number of segments that they are from.
    pub segments: usize,
    /// Segments that cannot be read, and why.
    pub damaged: Vec<(PathBuf, String)>,
    /// Nanoseconds of the range, from its first segment to its last, that no segment has, and their number.
    pub missing: u64,
    /// Number of such gaps.
    pub gaps: usize,
}

impl Directory {
    /// Opens a folder to read it.
    ///
    /// # Errors
    ///
    /// If it is no folder.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        match fs::read_dir(path) {
            Ok(_) => Ok(Self { path: path.to_owned() }),
            Err(reason) => Err(StoreError::Folder { path: path.to_owned(), reason }),
        }
    }

    /// The segments, by their time. Those that are in a merged one are left out.
    ///
    /// # Errors
    ///
    /// If the folder cannot be listed.
    pub fn entries(&self) -> Result<Vec<Entry>, StoreError> {
        let failed = |reason| StoreError::Folder { path: self.path.clone(), reason };
        let mut entries = Vec::new();
        for file in fs::read_dir(&self.path).map_err(failed)? {
            let file = file.map_err(failed)?;
            let name = file.file_name();
            let Some((from, to)) = name.to_str().and_then(times_of) else { continue };
            let bytes = file.metadata().map_or(0, |of| of.len());
            entries.push(Entry { from, to, path: file.path(), bytes });
        }
        // Of those that begin together the longest first.
        entries.sort_by_key(|entry| (entry.from, std::cmp::Reverse(entry.to)));
        Ok(entries)
    }

    /// Returns the samples of a range of time.
    ///
    /// # Errors
    ///
    /// If the folder cannot be listed. Segments that cannot be read are in the answer.
    pub fn query(&self, wanted: &Wanted) -> Result<Answer, StoreError> {
        let mut answer = Answer::default();
        let mut merged: HashSet<String> = HashSet::new();
        let mut times: Vec<Range> = Vec::new();
        for entry in self.entries()? {
            let name = entry.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let own = Range { from: entry.from, to: entry.to };
            if !own.overlaps(&wanted.range) || merged.contains(&name) {
                continue;
            }
            let read = || -> Result<(Kept, Profile), StoreError> {
                let segment = open(&entry.path)?;
                let kept = segment.footer().kept.clone();
                let profile = segment.profile_of(wanted);
                let failed = |reason| StoreError::Segment { path: entry.path.clone(), reason };
                Ok((kept.unwrap_or_default(), profile.map_err(failed)?))
            };
            let (kept, profile) = match read() {
                Ok(read) => read,
                Err(error) => {
                    answer.damaged.push((entry.path, error.to_string()));
                    continue;
                }
            };
            times.extend(kept.times().into_iter().map(|(from, to)| Range { from, to }));
            merged.extend(kept.merged);
            answer.segments += 1;
            match &mut answer.profile {
                Some(all) => all.merge(&profile).map_err(|_| StoreError::Different)?,
                none => *none = Some(profile),
            }
        }
        times.retain(|time| time.overlaps(&wanted.range));
        times.sort_by_key(|time| time.from);
        let mut end = times.first().map_or(0, |first| first.to);
        for time in times {
            if time.from > end {
                answer.missing += time.from - end;
                answer.gaps += 1;
            }
            end = end.max(time.to);
        }
        Ok(answer)
    }
}

/// A folder that one process writes to.
#[derive(Debug)]
pub struct Writing {
    directory: Directory,
    /// Holds the lock, until this is dropped.
    _lock: File,
    retention: Retention,
    /// Hours since 1970 that were merged, or tried to.
    tried: HashSet<u64>,
}

impl Writing {
    /// Opens a folder to write to it, which is made if it is not there.
    ///
    /// # Errors
    ///
    /// If it cannot be made, or another process writes to it.
    pub fn open(path: &Path, retention: Retention) -> Result<Self, StoreError> {
        let failed = |reason| StoreError::Folder { path: path.to_owned(), reason };
        fs::create_dir_all(path).map_err(failed)?;
        let lock = File::options().create(true).truncate(false).write(true).open(path.join("lock"));
        let lock = lock.map_err(failed)?;
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Err(StoreError::Locked { path: path.to_owned() });
        }
        let directory = Directory { path: path.to_owned() };
        let unfinished = |name: &str| name.starts_with('.') && name.ends_with(".tmp");
        for file in fs::read_dir(path).map_err(failed)?.flatten() {
            if file.file_name().to_str().is_some_and(unfinished) {
                fs::remove_file(file.path()).map_err(failed)?;
            }
        }
        Ok(Self { directory, _lock: lock, retention, tried: HashSet::new() })
    }

    /// The folder.
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    /// Writes the samples of a range of time as a segment, merges the hours that are over, and removes what is too old or too much.
    /// Returns its path.
    ///
    /// # Errors
    ///
    /// If there is no room for it, or it cannot be written.
    pub fn put(&mut self, profile: &Profile, range: Range) -> Result<PathBuf, StoreError> {
        let kept = Kept { from: range.from, to: range.to, ..Kept::default() };
        let path = self.write(profile, kept)?;
        self.merge(range.to)?;
        self.retain(range.to)?;
        Ok(path)
    }

    fn write(&self, profile: &Profile, kept: Kept) -> Result<PathBuf, StoreError> {
        let folder = &self.directory.path;
        let failed = |reason| StoreError::Folder { path: folder.clone(), reason };
        let free = statvfs(folder).map(|of| of.f_bavail.saturating_mul(of.f_frsize));
        let free = free.map_err(|error| failed(error.into()))?;
        if free < LEAST_FREE {
            return Err(StoreError::Full { path: folder.clone(), free });
        }
        let range = Range { from: kept.from, to: kept.to };
        let bytes = write_kept(profile, Some(kept))
            .map_err(|reason| StoreError::Segment { path: folder.clone(), reason })?;
        let name = name_of(range, &bytes);
        let path = folder.join(&name);
        let temporary = folder.join(format!(".{name}.tmp"));
        let write = || -> io::Result<()> {
            let mut file = File::create(&temporary)?;
            file.write_all(&bytes)?;
            file.sync_all()?;
            fs::rename(&temporary, &path)?;
            File::open(folder)?.sync_all()
        };
        write().map_err(|reason| {
            // What is not whole is of no use.
            let _ = fs::remove_file(&temporary);
            StoreError::Folder { path: path.clone(), reason }
        })?;
        Ok(path)
    }

    /// Merges the segments of each hour that was over at `now` into one. Each hour is tried once: what is damaged stays apart.
    fn merge(&mut self, now: u64) -> Result<(), StoreError> {
        let mut hours: BTreeMap<u64, Vec<Entry>> = BTreeMap::new();
        for entry in self.directory.entries()? {
            // The hour in which it ends.
            hours.entry(entry.to.saturating_sub(1) / HOUR).or_default().push(entry);
        }
        hours.retain(|hour, parts| *hour < now / HOUR && parts.len() > 1);
        for (hour, parts) in hours {
            if self.tried.insert(hour) {
                self.merge_hour(parts)?;
            }
        }
        Ok(())
    }

    fn merge_hour(&self, parts: Vec<Entry>) -> Result<(), StoreError> {
        let read = |part: &Entry| {
            let segment = open(&part.path).ok()?;
            // A damaged one stays where it is, and is reported by whoever asks for its time.
            let profile = segment.profile().ok()?;
            Some((part.path.clone(), segment.footer().kept.clone()?, profile))
        };
        let segments: Vec<(PathBuf, Kept, Profile)> = parts.iter().filter_map(read).collect();
        let merged: HashSet<&String> =
            segments.iter().flat_map(|(_, kept, _)| &kept.merged).collect();
        let (mut whole, mut kept): (Option<Profile>, Kept) = (None, Kept::default());
        let mut old = Vec::new();
        for (path, own, profile) in &segments {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            // It was merged before, and not removed.
            if !merged.contains(&name) {
                match &mut whole {
                    Some(all) => {
                        // What counts something else stays apart.
                        if all.merge(profile).is_err() {
                            continue;
                        }
                    }
                    none => {
                        *none = Some(profile.clone());
                        kept.from = own.from;
                    }
                }
                kept.from = kept.from.min(own.from);
                kept.to = kept.to.max(own.to);
                kept.times.extend(own.times());
                kept.merged.extend(own.merged.iter().cloned());
            }
            kept.merged.push(name);
            old.push(path);
        }
        let Some(whole) = whole.filter(|_| old.len() > 1) else { return Ok(()) };
        let new = self.write(&whole, kept)?;
        for path in old.into_iter().filter(|path| **path != new) {
            fs::remove_file(path)
                .map_err(|reason| StoreError::Folder { path: path.clone(), reason })?;
        }
        Ok(())
    }

    fn retain(&self, now: u64) -> Result<(), StoreError> {
        let entries = self.directory.entries()?;
        let mut bytes: u64 = entries.iter().map(|entry| entry.bytes).sum();
        for Entry { to, path, bytes: own, .. } in entries {
            if to >= now.saturating_sub(self.retention.age) && bytes <= self.retention.bytes {
                continue;
            }
            fs::remove_file(&path).map_err(|reason| StoreError::Folder { path, reason })?;
            bytes = bytes.saturating_sub(own);
        }
        Ok(())
    }
}

/// Opens a segment, and checks all its bytes.
///
/// # Errors
///
/// If it cannot be read, or is damaged.
pub fn open(path: &Path) -> Result<Segment, StoreError> {
    let bytes =
        fs::read(path).map_err(|reason| StoreError::Folder { path: path.to_owned(), reason })?;
    Segment::open(bytes.into())
        .map_err(|reason| StoreError::Segment { path: path.to_owned(), reason })
}

/// Name of the segment of a range, which is rounded to whole seconds.
fn name_of(range: Range, bytes: &[u8]) -> String {
    let text = |time: u64| {
        DateTime::from_timestamp(i64::try_from(time / SECOND).unwrap_or(0), 0)
            .unwrap_or_default()
            .format(FORM)
            .to_string()
    };
    let end = range.to.div_ceil(SECOND).saturating_mul(SECOND);
    let sum = checksum::of(bytes);
    format!("{}-{}-{}{ENDING}", text(range.from), text(end), &sum[..DIGITS])
}

/// The range in a segment's name.
fn times_of(name: &str) -> Option<(u64, u64)> {
    let (from, rest) = name.strip_suffix(ENDING)?.split_once('-')?;
    let (to, _) = rest.split_once('-')?;
    let time = |text: &str| {
        let time = NaiveDateTime::parse_from_str(text, FORM).ok()?;
        u64::try_from(time.and_utc().timestamp()).ok()?.checked_mul(SECOND)
    };
    Some((time(from)?, time(to)?)).filter(|(from, to)| from < to)
}
