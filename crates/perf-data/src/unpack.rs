//! Data that cannot be mapped directly: from a pipe or a compressed file, and `perf record -z`.
//!
//! It is written to an unnamed temporary file, which is then mapped: the kernel can write its pages to disk, so that
//! memory use does not grow with the data.

use std::fs::File;
use std::io::{self, BufWriter, Read, Write};

use memmap2::Mmap;
use pyrograph_event::ByteOrder;
use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};

use crate::records::{COMPRESSED, COMPRESSED2, Records};

/// Maps a file.
///
/// # Errors
///
/// Returns the error of the system call.
pub fn map(file: &File) -> io::Result<Mmap> {
    // SAFETY: The bytes are only read. The file may be truncated while it is mapped; programs call
    // `pyrograph_memory::survive_cut_files` for that case.
    unsafe { Mmap::map(file) }
}

/// Reads all of `source` and maps it; also returns the error that ended reading, if there was one.
///
/// # Errors
///
/// Returns the errors of the temporary file.
pub fn spool(source: &mut dyn Read) -> io::Result<(Mmap, Option<io::Error>)> {
    let mut file = BufWriter::with_capacity(1 << 20, tempfile::tempfile()?);
    let mut buffer = vec![0; 1 << 18];
    let error = loop {
        match source.read(&mut buffer) {
            Ok(0) => break None,
            Ok(count) => file.write_all(&buffer[..count])?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => break Some(error),
        }
    };
    let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
    Ok((map(&file)?, error))
}

/// Returns the records of `bytes`, with those that `perf record -z` compressed decompressed, and a description of the
/// damage in the data, if there is any.
///
/// # Errors
///
/// Returns the errors of the temporary file.
pub fn unpack(bytes: &[u8], order: ByteOrder) -> io::Result<(Mmap, Option<String>)> {
    let mut out = BufWriter::with_capacity(1 << 20, tempfile::tempfile()?);
    let mut stream = Stream::new()?;
    let mut damage = None;
    let mut records = Records::new(bytes, order);
    for record in &mut records {
        let packed = match record.kind {
            // A header, and compressed bytes up to the end.
            COMPRESSED => record.bytes.get(8..),
            // A header, the number of compressed bytes, and these bytes, padded to a multiple of 8.
            COMPRESSED2 => record.bytes.get(16..).map(|rest| {
                let mut size = crate::fields::Fields::new(&record.bytes[8..], order);
                let size = size.u64().and_then(|size| usize::try_from(size).ok());
                &rest[..size.unwrap_or(0).min(rest.len())]
            }),
            _ => {
                out.write_all(record.bytes)?;
                out.write_all(record.payload)?;
                continue;
            }
        };
        if let Some(reason) = stream.unpack(packed.unwrap_or_default(), order, &mut out)? {
            // The data of each record depends on all before it.
            let (at, rest) = (record.offset, bytes.len() - record.offset);
            damage = Some(format!(
                "compressed data cannot be unpacked at byte {at}, and what is in the last {rest} of {} \
                 bytes is lost: {reason}",
                bytes.len()
            ));
            break;
        }
    }
    damage = damage.or_else(|| records.damage()).or_else(|| stream.left_over());
    let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
    // An empty file cannot be mapped.
    if file.metadata()?.len() == 0 {
        (&file).write_all(&[0; 8])?;
    }
    Ok((map(&file)?, damage))
}

/// State of decompression, which continues from one record to the next.
struct Stream {
    decoder: Decoder<'static>,
    /// Decompressed bytes that have not been written yet: less than a record.
    pending: Vec<u8>,
}

/// Maximum decompressed size of one record, which has at most 64 KiB.
const MOST: usize = 1 << 30;

impl Stream {
    fn new() -> io::Result<Self> {
        Ok(Self { decoder: Decoder::new()?, pending: Vec::new() })
    }

    /// Decompresses the contents of one record and writes the records that are complete by then. Returns a description
    /// of the damage, if there is any.
    ///
    /// # Errors
    ///
    /// Returns the errors of `out`.
    fn unpack(
        &mut self,
        packed: &[u8],
        order: ByteOrder,
        out: &mut dyn Write,
    ) -> io::Result<Option<String>> {
        let mut input = InBuffer::around(packed);
        let mut buffer = vec![0; 1 << 17];
        let mut unpacked = 0;
        loop {
            let mut output = OutBuffer::around(buffer.as_mut_slice());
            if let Err(error) = self.decoder.run(&mut input, &mut output) {
                return Ok(Some(error.to_string()));
            }
            let written = output.pos();
            unpacked += written;
            if unpacked > MOST {
                return Ok(Some("it is more than 1 GiB".to_owned()));
            }
            self.pending.extend_from_slice(&buffer[..written]);
            self.write_whole(order, out)?;
            // A record with size 0 ends the iteration.
            if self.pending.get(6..8).is_some_and(|size| size == [0; 2]) {
                return Ok(Some("it holds what is no record".to_owned()));
            }
            // A record's size has 16 bits.
            if self.pending.len() > usize::from(u16::MAX) {
                return Ok(Some("it holds what is no record".to_owned()));
            }
            if input.pos() == packed.len() && written < buffer.len() {
                return Ok(None);
            }
        }
    }

    /// Returns the error if no more data follows: the last record is incomplete.
    fn left_over(&self) -> Option<String> {
        let count = self.pending.len();
        (count > 0).then(|| {
            format!("compressed data ends within a record, of which {count} bytes are there")
        })
    }

    fn write_whole(&mut self, order: ByteOrder, out: &mut dyn Write) -> io::Result<()> {
        let mut records = Records::new(&self.pending, order);
        (&mut records).for_each(drop);
        let whole = records.offset();
        out.write_all(&self.pending[..whole])?;
        self.pending.drain(..whole);
        Ok(())
    }
}
