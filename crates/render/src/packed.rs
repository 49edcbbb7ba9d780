//! Data embedded in a page: LEB128 numbers, compressed with gzip, in base64. The page unpacks them itself.

use std::io::{self, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;

/// Packs numbers and texts.
pub(crate) struct Packed {
    gzip: GzEncoder<Vec<u8>>,
    /// Buffer for the number that is being written.
    number: Vec<u8>,
}

impl Packed {
    pub(crate) fn new(level: Compression) -> Self {
        Self { gzip: GzEncoder::new(Vec::new(), level), number: Vec::new() }
    }

    /// Writes a number.
    pub(crate) fn number(&mut self, number: u64) -> io::Result<()> {
        self.number.clear();
        push(&mut self.number, number);
        self.gzip.write_all(&self.number)
    }

    /// Writes the length of a text in bytes, then the text.
    pub(crate) fn text(&mut self, text: &str) -> io::Result<()> {
        self.block(text.as_bytes())
    }

    /// Writes the number of bytes, then the bytes.
    pub(crate) fn block(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.number(bytes.len() as u64)?;
        self.bytes(bytes)
    }

    /// Writes bytes without their number.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.gzip.write_all(bytes)
    }

    /// Returns the gzip file.
    pub(crate) fn finish(self) -> io::Result<Vec<u8>> {
        self.gzip.finish()
    }
}

/// Appends a number in LEB128: seven bits per byte, lowest first; the eighth bit is set if more bytes follow.
pub(crate) fn push(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Writes bytes in base64, in pieces to limit memory use.
pub(crate) fn write_base64(bytes: &[u8], out: &mut dyn Write) -> io::Result<()> {
    // A multiple of three, so that only the last piece is padded.
    const PIECE: usize = 3 << 14;
    bytes.chunks(PIECE).try_for_each(|piece| out.write_all(STANDARD.encode(piece).as_bytes()))
}
