//! Samples of every format, as its tool writes it, and what they fold to.
//!
//! `formats/FORMAT/NAME.*` is a sample of the format called FORMAT (as after `--from`; a blank is a
//! `-`), and `formats/FORMAT/NAME.folded` is what it folds to, with all marks, after its warnings as
//! remarks. A new format is a new folder, a new sample a new file: nothing is to be added here.
//!
//! No sample may be recognized by a reader of another format, not even by one that comes later in
//! [`READERS`], except that nearly any text could be folded stacks, and that lines like frames of
//! `perf script` are in many a text.
//!
//! To bless what comes out now, after looking at it:
//! `PYROGRAPH_BLESS=1 cargo test -p pyrograph-format --test formats`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use pyrograph_format::{
    Detail, Input, Options, READERS, Reader, ThreadDetail, WriteOptions, detect, reader_named,
    write_folded, writer_named,
};
use pyrograph_profile::{Frame, LabelOptions, Profile, Tree};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// Formats that are read only if they are asked for by name: another reader takes their text.
const BY_NAME_ONLY: &[&str] = &["perf sched"];

/// Formats whose readers come last and may recognize what is another's, too.
const LAST: &[&str] = &["perf script", "folded"];

struct Sample {
    /// `FORMAT/NAME.EXTENSION`
    name: String,
    path: PathBuf,
    reader: &'static dyn Reader,
    bytes: Vec<u8>,
}

impl Sample {
    /// The profile's folded text, after its warnings.
    fn fold(&self, bytes: &[u8]) -> String {
        let head = Input::bytes(self.path.file_name().unwrap().to_str().unwrap(), bytes)
            .begin()
            .expect(&self.name);
        let reading = self.reader.read(head, &Options::default()).expect(&self.name);
        reading.profile.check().expect(&self.name);
        let labels = LabelOptions {
            mark_kernel: true,
            mark_jit: true,
            mark_inlined: true,
            source: true,
            ..LabelOptions::default()
        };
        let mut out = Vec::new();
        for warning in &reading.all_warnings() {
            out.extend_from_slice(format!("# {warning}\n").as_bytes());
        }
        write_folded(&Tree::new(&reading.profile, &labels), &mut out).expect("writing to memory");
        String::from_utf8(out).expect("folded text is UTF-8")
    }
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder of samples");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    paths
}

fn file_name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).expect("a name")
}

fn is_folded(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "folded")
}

fn samples() -> Vec<Sample> {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/formats");
    let mut samples = Vec::new();
    for folder in entries(&top) {
        let format = file_name(&folder);
        let reader = reader_named(format).unwrap_or_else(|| panic!("no reader is called {format}"));
        for path in entries(&folder).into_iter().filter(|path| !is_folded(path)) {
            let name = format!("{format}/{}", file_name(&path));
            let bytes = fs::read(&path).expect("a sample");
            samples.push(Sample { name, path, reader, bytes });
        }
    }
    samples
}

/// The names of the readers that recognize these bytes.
fn claims(bytes: &[u8]) -> Vec<&'static str> {
    let head = Input::bytes("x", bytes).begin().expect("bytes in memory");
    let claiming = READERS.iter().filter(|reader| reader.detect(head.bytes()));
    claiming.map(|reader| reader.name()).collect()
}

#[test]
fn every_sample_folds_to_what_was_blessed() {
    let bless = std::env::var_os("PYROGRAPH_BLESS").is_some();
    for sample in samples() {
        let folded = sample.fold(&sample.bytes);
        let expected = sample.path.with_extension("folded");
        if bless {
            fs::write(&expected, &folded).expect("a sample to bless");
        }
        let expected = fs::read_to_string(&expected).expect(&sample.name);
        assert_eq!(folded, expected, "{}", sample.name);
        assert!(folded.lines().any(|line| !line.starts_with('#')), "{}: nothing", sample.name);
    }
}

/// All samples of a profile, with all that is known of them, in words.
fn in_words(profile: &Profile) -> Vec<String> {
    let text = |id| profile.strings.get(id);
    let frame = |id| {
        let Frame { function, module, file, line, start_line, address, kind, guessed } =
            profile.frames.get(id);
        let names =
            [Some(function), profile.full_names.get(function), profile.full_names.plain(function)];
        let names = names.map(|name| name.map(text));
        let places = (text(module), text(file), line, start_line, address);
        format!("{names:?} {places:?} {kind:?} {guessed}")
    };
    let row = |(row, sample): (usize, pyrograph_profile::Sample)| {
        let stack: Vec<String> = profile.stacks.leaf_first(sample.stack).map(frame).collect();
        let thread = profile.threads.get(sample.thread);
        let owner = (thread.pid, thread.tid, thread.texts().map(text));
        let address = sample.address.map(|id| profile.addresses.get(id));
        let address =
            address.map(|of| ([of.module, of.build_id, of.function].map(text), of.offset));
        let values = (0..profile.value_types.len()).map(|of| profile.samples.values(of)[row]);
        let values: Vec<u64> = values.collect();
        let place = (sample.time, sample.cpu, address);
        format!("{stack:?} {owner:?} {place:?} {values:?}")
    };
    let whole = (&profile.value_types, profile.shown, profile.rooted, &profile.about);
    let whole = format!("{whole:?} {:?} {:?}", profile.unfiltered, profile.code);
    std::iter::once(whole).chain(profile.samples.iter().enumerate().map(row)).collect()
}

#[cfg(feature = "store")]
#[test]
fn every_sample_is_the_same_as_a_kept_profile() {
    let options = Options {
        detail: Detail::Samples,
        threads: ThreadDetail::Thread,
        instructions: true,
        ..Options::default()
    };
    let writer = writer_named("pyro.parquet").expect("a writer");
    let reader = reader_named("pyro.parquet").expect("a reader");
    for sample in samples() {
        let read = |reader: &dyn Reader, bytes: &[u8]| {
            let head = Input::bytes("x", bytes).begin().expect(&sample.name);
            reader.read(head, &options).expect(&sample.name).profile
        };
        let profile = read(sample.reader, &sample.bytes);
        let mut kept = Vec::new();
        writer.write(&profile, &WriteOptions::default(), &mut kept).expect("writing to memory");
        let again = read(reader, &kept);
        let (expect, found) = (in_words(&profile), in_words(&again));
        assert_eq!(found.len(), expect.len(), "{}", sample.name);
        for (found, expect) in found.iter().zip(&expect) {
            assert_eq!(found, expect, "{}", sample.name);
        }
    }
}

#[test]
fn every_sample_is_recognized_by_the_reader_of_its_format_alone() {
    let mut wrong = BTreeMap::new();
    for sample in samples() {
        let name = sample.reader.name();
        if BY_NAME_ONLY.contains(&name) {
            continue;
        }
        let mut claims = claims(&sample.bytes);
        if !LAST.contains(&name) {
            claims.retain(|claim| !LAST.contains(claim));
        }
        if claims.first() != Some(&name) || (claims.len() > 1 && !LAST.contains(&name)) {
            wrong.insert(sample.name, claims);
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Every file that a sample folds to is a sample of folded text, and those of `perf script` are in
/// a folder of their own.
#[test]
fn folded_text_and_perf_script_stay_what_they_are() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let folders = entries(&tests.join("formats")).into_iter().chain([tests.join("fixtures")]);
    let mut checked = 0;
    for path in folders.flat_map(|folder| entries(&folder)) {
        let format = match path.extension().and_then(|extension| extension.to_str()) {
            Some("folded") => "folded",
            Some("perf") => "perf script",
            _ => continue,
        };
        let bytes = fs::read(&path).expect("a file");
        assert_eq!(claims(&bytes).first(), Some(&format), "{}", path.display());
        let head = Input::bytes("x", bytes).begin().expect("bytes in memory");
        assert_eq!(detect(head.bytes()).map(Reader::name), Some(format), "{}", path.display());
        checked += 1;
    }
    assert!(checked > 50);
}

/// Text formats only: in JSON and the like a line end may be anywhere, and blank lines mean
/// something to none.
#[test]
fn line_ends_make_no_difference() {
    for sample in
        samples().iter().filter(|sample| sample.path.extension().is_some_and(|e| e == "txt"))
    {
        let text = String::from_utf8_lossy(&sample.bytes);
        let expected = sample.fold(text.as_bytes());
        assert_eq!(sample.fold(text.replace('\n', "\r\n").as_bytes()), expected, "{}", sample.name);
        assert_eq!(sample.fold(text.trim_end().as_bytes()), expected, "{}", sample.name);
        assert_eq!(sample.fold(format!("{text}\n\n").as_bytes()), expected, "{}", sample.name);
    }
}

/// Cut anywhere, a sample is still read, in silence or with a warning, but never with a panic.
#[test]
fn what_is_cut_short_is_read_as_far_as_it_goes() {
    for sample in samples() {
        let step = (sample.bytes.len() / 50).max(1);
        for length in (1..sample.bytes.len()).step_by(step) {
            let Ok(head) = Input::bytes("x", &sample.bytes[..length]).begin() else { continue };
            if let Ok(reading) = sample.reader.read(head, &Options::default()) {
                reading.profile.check().expect(&sample.name);
            }
        }
    }
}

/// Every reader meets every sample, whole and damaged, and gets through.
#[test]
fn every_reader_gets_through_every_text() {
    let mut generator = StdRng::seed_from_u64(1);
    let mut random = |below: usize| generator.random_range(0..below.max(1));
    const TOKENS: &[&[u8]] = &[
        b"\n",
        b" ",
        b"\t",
        b";",
        b"-",
        b"+0x",
        b"99999999999999999999",
        b"%",
        b"]: ",
        b"[",
        b"(",
        b")",
        b"\xff",
        b"\"",
        b"->",
        b"--",
        b": ",
        b"`",
        b"#0 ",
        b"=> ",
        b"0x",
        b"|",
    ];
    let times = if std::env::var_os("PYROGRAPH_NIGHTLY").is_some() { 6 } else { 2 };
    for sample in samples() {
        let damaged = (0..times).map(|_| {
            let mut bytes = sample.bytes.clone();
            for _ in 0..1 + random(8) {
                let at = random(bytes.len());
                let length = random(40).min(bytes.len() - at);
                match random(3) {
                    0 => drop(bytes.drain(at..at + length)),
                    1 => drop(bytes.splice(at..at, TOKENS[random(TOKENS.len())].iter().copied())),
                    _ => bytes.extend_from_within(at..at + length),
                }
            }
            bytes
        });
        for bytes in std::iter::once(sample.bytes.clone()).chain(damaged) {
            for reader in READERS {
                let Ok(head) = Input::bytes("x", bytes.as_slice()).begin() else { continue };
                reader.detect(head.bytes());
                if let Ok(reading) = reader.read(head, &Options::default()) {
                    assert_eq!(reading.profile.check(), Ok(()), "{}", reader.name());
                    let _ = Tree::new(&reading.profile, &LabelOptions::default());
                }
            }
        }
    }
}
