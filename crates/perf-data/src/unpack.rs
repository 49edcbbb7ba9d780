//! Data that cannot be read where it is: from a pipe or a compressed file, and `perf record -z`.
//!
//! It is written to a temporary file without a name, which is then mapped: its pages are the
//! kernel's to write out, so that memory in use does not grow with the data.

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
/// Those of the system.
pub fn map(file: &File) -> io::Result<Mmap> {
    // SAFETY: The bytes are only read. Somebody may cut the file off while it is mapped, for which programs call
    // `pyrograph_memory::survive_cut_files`.
    unsafe { Mmap::map(file) }
}

/// All that `source` has, mapped, and the error that ended it, if one did.
///
/// # Errors
///
/// Those of the temporary file.
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

/// The records of `bytes` with those that `perf record -z` packed together unpacked, and what is
/// wrong with the data, if something is.
///
/// # Errors
///
/// Those of the temporary file.
pub fn unpack(bytes: &[u8], order: ByteOrder) -> io::Result<(Mmap, Option<String>)> {
    let mut out = BufWriter::with_capacity(1 << 20, tempfile::tempfile()?);
    let mut stream = Stream::new()?;
    let mut damage = None;
    let mut records = Records::new(bytes, order);
    for record in &mut records {
        let packed = match record.kind {
            // A header, and packed bytes up to the end.
            COMPRESSED => record.bytes.get(8..),
            // A header, how many bytes there are, and these, filled up to a multiple of 8.
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
            // Each record needs those before it.
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

/// The packed bytes of one record go on in the next.
struct Stream {
    decoder: Decoder<'static>,
    /// Bytes that were unpacked and not written yet: less than a record.
    pending: Vec<u8>,
}

/// Limit of the size that one record of at most 64 KiB may unpack to.
const MOST: usize = 1 << 30;

impl Stream {
    fn new() -> io::Result<Self> {
        Ok(Self { decoder: Decoder::new()?, pending: Vec::new() })
    }

    /// Unpacks what one record holds and writes the records that are whole by then; what is wrong
    /// with it, if something is.
    ///
    /// # Errors
    ///
    /// Those of `out`.
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
            // Nothing comes after a record without a size.
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

    /// The error if no more comes: the last record is not whole.
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
