//! Data inside a page: gzip of whole numbers of seven bits a byte (LEB128), in base64, which the page unpacks itself.

use std::io::{self, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;

/// Numbers and texts that are being packed.
pub(crate) struct Packed(GzEncoder<Vec<u8>>);

impl Packed {
    pub(crate) fn new(level: Compression) -> Self {
        Self(GzEncoder::new(Vec::new(), level))
    }

    /// Seven bits a byte, the lowest first; the eighth says that more follow.
    pub(crate) fn number(&mut self, mut number: u64) -> io::Result<()> {
        let mut bytes = [0; 10];
        let mut length = 0;
        while number >= 0x80 {
            bytes[length] = number as u8 | 0x80;
            number >>= 7;
            length += 1;
        }
        bytes[length] = number as u8;
        self.0.write_all(&bytes[..=length])
    }

    /// Its length, then its bytes.
    pub(crate) fn text(&mut self, text: &str) -> io::Result<()> {
        self.number(text.len() as u64)?;
        self.0.write_all(text.as_bytes())
    }

    /// Bytes as they are.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)
    }

    /// The gzip file.
    pub(crate) fn finish(self) -> io::Result<Vec<u8>> {
        self.0.finish()
    }
}

/// Writes bytes in base64, in pieces that need little memory.
pub(crate) fn write_base64(bytes: &[u8], out: &mut dyn Write) -> io::Result<()> {
    // A multiple of three, so that no piece but the last one is padded.
    const PIECE: usize = 3 << 14;
    bytes.chunks(PIECE).try_for_each(|piece| out.write_all(STANDARD.encode(piece).as_bytes()))
}
