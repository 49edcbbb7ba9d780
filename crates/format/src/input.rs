//! Inputs: files, standard input or bytes in memory, decompressed while they are read.

use std::fs::File;
use std::io::{self, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::utf16::Utf16;
use crate::warnings::{WarningKind, Warnings};

/// Number of bytes from which the format is detected.
const HEAD: usize = 64 << 10;

/// Limit of the head's size in bytes if it holds no complete line of text.
const LONGEST_LINE: usize = 16 << 20;

/// Maximum number of bytes that are held in memory for a format that can only be read as a whole.
const MOST_WHOLE: u64 = 8 << 30;

/// Maximum number of nested compressions (a compressed file in a compressed file).
const LAYERS: usize = 3;

/// An input that is open, but of which nothing was read yet.
///
/// Files are read, not mapped. Mapping would save a seventh of the time that text takes (0.04 s per GB). But with
/// reading, memory use does not grow with the file, truncating the file meanwhile cannot kill the process, and pipes and
/// compressed files share the code path.
pub struct Input {
    name: String,
    label: Option<String>,
    source: Box<dyn Read + Send>,
    file: Option<PathBuf>,
}

impl Input {
    /// Opens a file. If `path` is a directory, opens the file `data` in it, as `perf record --threads` writes it.
    ///
    /// # Errors
    ///
    /// If [`File::open`] fails.
    pub fn open(path: &Path) -> io::Result<Self> {
        let name = path.display().to_string();
        let in_folder = path.join("data");
        let path = if in_folder.is_file() { &in_folder } else { path };
        let file = File::open(path)?;
        let is_file = file.metadata()?.is_file();
        let input = Self::stream(&name, file);
        Ok(Self { file: is_file.then(|| path.to_owned()), ..input })
    }

    /// Reads standard input.
    pub fn stdin() -> Self {
        Self::stream("standard input", io::stdin())
    }

    /// Reads bytes in memory; `name` is used in warnings.
    pub fn bytes(name: &str, bytes: impl Into<Vec<u8>>) -> Self {
        Self::stream(name, Cursor::new(bytes.into()))
    }

    /// Reads any source; `name` is used in warnings.
    pub fn stream(name: &str, source: impl Read + Send + 'static) -> Self {
        Self { name: name.to_owned(), label: None, source: Box::new(source), file: None }
    }

    /// Name of the input in warnings and errors.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Sets the label, which becomes the host of all threads of this input.
    #[must_use]
    pub fn labelled(self, label: &str) -> Self {
        Self { label: Some(label.to_owned()), ..self }
    }

    /// Label of the input, if one was set.
    pub fn label(&self) -> Option<&str> {
        self.label.as_deref()
    }

    /// Makes the input readable several times: a source that is not a file is copied into a temporary file.
    ///
    /// # Errors
    ///
    /// If the source cannot be read or the temporary file cannot be written.
    pub(crate) fn keep(mut self) -> io::Result<Kept> {
        let (file, temporary) = match self.file {
            Some(file) => (file, None),
            None => {
                let mut temporary = tempfile::NamedTempFile::new()?;
                io::copy(&mut self.source, &mut temporary)?;
                (temporary.path().to_owned(), Some(temporary))
            }
        };
        Ok(Kept { name: self.name, label: self.label, file, _temporary: temporary })
    }

    /// Reads the first bytes. gzip and zstd are recognized by their magic numbers, whatever the file's name, and
    /// decompressed.
    ///
    /// # Errors
    ///
    /// If the first byte cannot be read, or if the input is compressed in a format other than gzip and zstd.
    pub fn begin(self) -> io::Result<Head> {
        let Self { name, mut source, mut file, .. } = self;
        for _ in 0..LAYERS {
            let (mut head, complete, error) = read_head(&mut source);
            let rest: Box<dyn Read + Send> = match error {
                Some(error) if head.is_empty() => return Err(error),
                Some(error) => Box::new(Failing(Some(error))),
                None => source,
            };
            // The magic numbers of RFC 1952 and RFC 8878.
            source = match head.as_slice() {
                [0x1f, 0x8b, ..] => {
                    Box::new(flate2::read::MultiGzDecoder::new(Cursor::new(head).chain(rest)))
                }
                [0x28, 0xb5, 0x2f, 0xfd, ..] => {
                    Box::new(zstd::stream::read::Decoder::new(Cursor::new(head).chain(rest))?)
                }
                [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => return Err(compressed_with("xz")),
                // Magic numbers of a block (digits of pi) and of the end of the stream (digits of the square root of
                // pi).
                [b'B', b'Z', b'h', b'1'..=b'9', b'1', b'A', b'Y', b'&', b'S', b'Y', ..]
                | [b'B', b'Z', b'h', b'1'..=b'9', 0x17, b'r', b'E', b'8', b'P', 0x90, ..] => {
                    return Err(compressed_with("bzip2"));
                }
                // The byte order mark of UTF-16, in which PowerShell writes `perf script > FILE`.
                [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => {
                    Box::new(Utf16::new(Box::new(Cursor::new(head).chain(rest))))
                }
                _ => {
                    // The byte order mark of UTF-8 carries no information.
                    if head.starts_with(b"\xef\xbb\xbf") {
                        head.drain(..3);
                    }
                    return Ok(Head::new(name, head, complete, rest, file));
                }
            };
            file = None;
        }
        Err(io::Error::other("compressed too many times"))
    }
}

/// Gives each input without a label one: its file name up to the last dot, or its full path if several inputs would get
/// the same label.
pub fn label_all(inputs: Vec<Input>) -> Vec<Input> {
    let stem = |input: &Input| {
        let stem = Path::new(input.name()).file_stem().and_then(|stem| stem.to_str());
        stem.unwrap_or(input.name()).to_owned()
    };
    let labels: Vec<String> = inputs
        .iter()
        .map(|input| input.label().map_or_else(|| stem(input), str::to_owned))
        .collect();
    let is_alone = |label: &String| labels.iter().filter(|other| *other == label).count() == 1;
    let label = |(input, label): (Input, &String)| Input {
        label: Some(match &input.label {
            Some(own) => own.clone(),
            None if is_alone(label) => label.clone(),
            None => input.name.clone(),
        }),
        ..input
    };
    inputs.into_iter().zip(&labels).map(label).collect()
}

/// An input that can be read several times.
pub(crate) struct Kept {
    name: String,
    label: Option<String>,
    file: PathBuf,
    /// Deletes the temporary file on drop.
    _temporary: Option<tempfile::NamedTempFile>,
}

impl Kept {
    /// Opens the input at its beginning.
    ///
    /// # Errors
    ///
    /// If [`File::open`] fails.
    pub(crate) fn open(&self) -> io::Result<Input> {
        let input = Input::open(&self.file)?;
        Ok(Input { name: self.name.clone(), label: self.label.clone(), ..input })
    }
}

fn compressed_with(program: &str) -> io::Error {
    let reason = format!("compressed with {program}: decompress it first");
    io::Error::new(io::ErrorKind::Unsupported, reason)
}

/// Returns the first bytes of a source, whether they are the whole source, and the error that ended reading. The head of
/// a text contains at least one line (up to [`LONGEST_LINE`] bytes), because less does not show the format.
fn read_head(source: &mut dyn Read) -> (Vec<u8>, bool, Option<io::Error>) {
    let mut head = Vec::with_capacity(HEAD);
    loop {
        let before = head.len();
        let wanted = before.max(HEAD);
        match (&mut *source).take(wanted as u64).read_to_end(&mut head) {
            Ok(count) if count < wanted => return (head, true, None),
            Ok(_) => {}
            Err(error) => return (head, false, Some(error)),
        }
        // Text contains no NUL: a NUL means binary data, which needs no complete line.
        if head.len() >= LONGEST_LINE || memchr::memchr2(b'\n', 0, &head[before..]).is_some() {
            return (head, false, None);
        }
    }
}

/// A source that returns an error once, after the bytes that were read before it.
struct Failing(Option<io::Error>);

impl Read for Failing {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        self.0.take().map_or(Ok(0), Err)
    }
}

/// Counts the lines that are read. This takes a fiftieth of the time of parsing them.
struct Counted {
    source: Box<dyn Read + Send>,
    lines: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.source.read(buffer)?;
        self.lines.fetch_add(count_lines(&buffer[..read]), Ordering::Relaxed);
        Ok(read)
    }
}

fn count_lines(bytes: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', bytes).count() as u64
}

/// An input whose first bytes were read.
pub struct Head {
    name: String,
    head: Vec<u8>,
    complete: bool,
    rest: Box<dyn Read + Send>,
    file: Option<PathBuf>,
    lines: Arc<AtomicU64>,
}

impl Head {
    fn new(
        name: String,
        head: Vec<u8>,
        complete: bool,
        rest: Box<dyn Read + Send>,
        file: Option<PathBuf>,
    ) -> Self {
        let lines = Arc::new(AtomicU64::new(count_lines(&head)));
        let rest = Box::new(Counted { source: rest, lines: Arc::clone(&lines) });
        Self { name, head, complete, rest, file, lines }
    }

    /// Number of line ends in the bytes read so far; grows while the input is read.
    pub(crate) fn lines(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.lines)
    }

    /// Name of the input in warnings and errors.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The first bytes, decompressed: 64 KiB, or all of them if there are fewer; up to 16 MiB if the first line is
    /// longer.
    pub fn bytes(&self) -> &[u8] {
        &self.head
    }

    /// True if [`bytes`](Self::bytes) is the whole input.
    pub fn is_whole(&self) -> bool {
        self.complete
    }

    /// Path of a regular, uncompressed file with the same bytes, for formats that need random access.
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// Reads all bytes, decompressed; adds a warning if they end early. For formats that can only be read as a whole.
    /// Since a compressed file may expand to any size, there is a limit of [`MOST_WHOLE`] bytes.
    pub(crate) fn into_bytes(self) -> (Vec<u8>, Warnings) {
        let mut bytes = self.head;
        let mut warnings = Warnings::default();
        if self.complete {
            return (bytes, warnings);
        }
        let room = MOST_WHOLE.saturating_sub(bytes.len() as u64);
        let cause = match self.rest.take(room + 1).read_to_end(&mut bytes) {
            Err(error) => Some(error.to_string()),
            Ok(read) if read as u64 > room => {
                bytes.truncate(MOST_WHOLE as usize);
                Some(format!("more than {} GiB are not read", MOST_WHOLE >> 30))
            }
            Ok(_) => None,
        };
        if let Some(cause) = cause {
            warnings.add(WarningKind::Truncated(cause), 1, []);
        }
        (bytes, warnings)
    }

    /// Stream of all bytes from the first one on, decompressed.
    pub fn into_stream(self) -> Box<dyn Read + Send> {
        Box::new(Cursor::new(self.head).chain(self.rest))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).expect("writing to memory");
        encoder.finish().expect("writing to memory")
    }

    fn read(bytes: &[u8]) -> io::Result<Vec<u8>> {
        let mut all = Vec::new();
        Input::bytes("x", bytes).begin()?.into_stream().read_to_end(&mut all)?;
        Ok(all)
    }

    #[test]
    fn compressed_inputs_are_told_by_their_bytes() {
        let text = "main;work 1\n".repeat(20_000);
        let text = text.as_bytes();
        assert_eq!(read(text).expect("plain"), text);
        assert_eq!(read(&gzip(text)).expect("gzip"), text);
        assert_eq!(
            read(&[gzip(text), gzip(text)].concat()).expect("members"),
            [text, text].concat()
        );
        assert_eq!(read(&zstd::encode_all(text, 1).expect("zstd")).expect("zstd"), text);
        assert_eq!(read(&gzip(&gzip(text))).expect("twice"), text);
        assert!(read(&gzip(&gzip(&gzip(&gzip(text))))).is_err());
        assert_eq!(read(b"").expect("empty"), b"");
    }

    #[test]
    fn what_comes_before_a_cut_is_still_read() {
        let noise: Vec<u8> =
            (0..200_000u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
        let whole = gzip(&noise);
        let mut all = Vec::new();
        let head = Input::bytes("x", &whole[..whole.len() / 2]).begin().expect("a first part");
        assert!(!head.is_whole());
        assert!(head.into_stream().read_to_end(&mut all).is_err());
        assert!(all.len() > noise.len() / 3);
        assert_eq!(all, noise[..all.len()]);
    }

    #[test]
    fn a_long_first_line_is_in_the_head() {
        for length in [70_000, 3_000_000] {
            let text =
                format!("{} 1\nmain 2\n", "f;".repeat(length / 2)) + &"a 1\n".repeat(1_000_000);
            let folder = tempfile::tempdir().expect("a folder");
            let path = folder.path().join("x");
            std::fs::write(&path, &text).expect("a temporary file");
            let stream = Input::stream("x", Cursor::new(text.clone()));
            for input in [Input::open(&path).expect("just written"), stream] {
                let head = input.begin().expect("text");
                assert_eq!(crate::detect(head.bytes()).map(crate::Reader::name), Some("folded"));
                assert!(!head.is_whole());
                let mut all = String::new();
                head.into_stream().read_to_string(&mut all).expect("text");
                assert!(all == text, "nothing is lost");
            }
        }
    }

    #[test]
    fn no_more_than_needed_is_looked_at() {
        let length = |byte: u8, first: u8| {
            let mut bytes = vec![byte; 20 << 20];
            bytes[0] = first;
            Input::bytes("x", bytes).begin().expect("bytes in memory").bytes().len()
        };
        assert_eq!(length(b'a', b'a'), LONGEST_LINE);
        assert_eq!(length(b'a', b'\n'), HEAD);
        assert_eq!(length(b'a', 0), HEAD);
    }

    #[test]
    fn other_compressions_are_named() {
        let said = |bytes: &[u8]| Input::bytes("x", bytes).begin().err().map(|e| e.to_string());
        let expect = |name| Some(format!("compressed with {name}: decompress it first"));
        assert_eq!(said(b"\xfd7zXZ\0\0\x04 1\n"), expect("xz"));
        assert_eq!(said(b"BZh91AY&SY\xaa"), expect("bzip2"));
        assert_eq!(said(b"BZh9\x17rE8P\x90\0\0\0\0"), expect("bzip2"));
        assert_eq!(said(&gzip(b"BZh91AY&SY\xaa")), expect("bzip2"));
        assert_eq!(said(b"BZh9;main 1\n"), None);
    }
}
