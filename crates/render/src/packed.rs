//! Data inside a page: gzip of whole numbers of seven bits a byte (LEB128), in base64, which the page unpacks itself.

use std::io::{self, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;

/// Numbers and texts that are being packed.
pub(crate) struct Packed {
    gzip: GzEncoder<Vec<u8>>,
    /// The one that is being written.
    number: Vec<u8>,
}

impl Packed {
    pub(crate) fn new(level: Compression) -> Self {
        Self { gzip: GzEncoder::new(Vec::new(), level), number: Vec::new() }
    }

    /// A number.
    pub(crate) fn number(&mut self, number: u64) -> io::Result<()> {
        self.number.clear();
        push(&mut self.number, number);
        self.gzip.write_all(&self.number)
    }

    /// Its length, then its bytes.
    pub(crate) fn text(&mut self, text: &str) -> io::Result<()> {
        self.block(text.as_bytes())
    }

    /// Their length, then the bytes.
    pub(crate) fn block(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.number(bytes.len() as u64)?;
        self.bytes(bytes)
    }

    /// Bytes as they are.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.gzip.write_all(bytes)
    }

    /// The gzip file.
    pub(crate) fn finish(self) -> io::Result<Vec<u8>> {
        self.gzip.finish()
    }
}

/// Appends a number: seven bits a byte, the lowest first; the eighth says that more follow.
pub(crate) fn push(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Writes bytes in base64, in pieces that need little memory.
pub(crate) fn write_base64(bytes: &[u8], out: &mut dyn Write) -> io::Result<()> {
    // A multiple of three, so that no piece but the last one is padded.
    const PIECE: usize = 3 << 14;
    bytes.chunks(PIECE).try_for_each(|piece| out.write_all(STANDARD.encode(piece).as_bytes()))
}
