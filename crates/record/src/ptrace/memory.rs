//! Copies of a traced process's memory, as [`Call::copies`](pyrograph_syscall::Call::copies) specifies them.

use pyrograph_syscall::{Copy, Extent, Piece, push_piece};

use super::request::read_memory;

/// Maximum size of one copy in bytes, except for strings.
const MOST: u64 = 1 << 16;
/// Maximum number of strings, buffers, or messages of one copy.
const MOST_PIECES: usize = 64;
const LONGEST_PATH: usize = 4096;

fn whole(pieces: Vec<u8>) -> (Vec<u8>, u64) {
    let length = pieces.len() as u64;
    (pieces, length)
}

fn word(bytes: &[u8], at: usize) -> u64 {
    let word = bytes.get(at..at + 8).and_then(|word| word.try_into().ok());
    word.map_or(0, u64::from_le_bytes)
}

/// The memory of a process.
pub(super) struct Memory {
    pub process: i32,
    /// Maximum number of bytes to copy of a string.
    pub text: u32,
}

impl Memory {
    /// Copies the memory for one `copy`. Returns the bytes, and the full length of the object. `None` if nothing could
    /// be read.
    pub(super) fn take(
        &self,
        copy: &Copy,
        arguments: &[u64; 6],
        result: i64,
    ) -> Option<(Vec<u8>, u64)> {
        let argument = |index: u8| arguments.get(usize::from(index)).copied().unwrap_or(0);
        let address = argument(copy.argument);
        if address == 0 {
            return None;
        }
        let result = u64::try_from(result).unwrap_or(0);
        let length = match copy.extent {
            Extent::Text => {
                let longest = if copy.text { self.text as usize } else { LONGEST_PATH };
                return self.string(address, longest);
            }
            Extent::Fixed(size) => u64::from(size),
            Extent::UpTo(size) => {
                let bytes = self.read(address, u64::from(size));
                let length = bytes.len() as u64;
                return (length > 0).then_some((bytes, length));
            }
            // Counts are `int` or `size_t`. No valid count exceeds 32 bits.
            Extent::Argument { argument: index, times } => {
                u64::from(argument(index) as u32) * u64::from(times)
            }
            Extent::Result { times } => result.saturating_mul(u64::from(times)),
            Extent::Pointed { argument: index } => u64::from(self.word(argument(index))?),
            Extent::Pointers => return self.pointers(address),
            Extent::Strings => return self.strings(address),
            Extent::Vector { argument: index, filled } => {
                let mut out = Vec::new();
                let most = if filled { result } else { u64::MAX };
                self.vector(address, argument(index), most, &mut out);
                return Some(whole(out));
            }
            Extent::Message => {
                let mut out = Vec::new();
                self.message(address, 56, &mut out);
                return Some(whole(out));
            }
            Extent::Messages { argument: index } => {
                let count = match copy.when {
                    pyrograph_syscall::When::Entry => argument(index),
                    pyrograph_syscall::When::Exit => result,
                };
                let mut out = Vec::new();
                for index in 0..count.min(MOST_PIECES as u64) {
                    self.message(address.wrapping_add(index * 64), 64, &mut out);
                }
                return Some(whole(out));
            }
        };
        let wanted = if copy.text { u64::from(self.text) } else { MOST };
        let bytes = self.read(address, length.min(wanted));
        (length == 0 || !bytes.is_empty()).then_some((bytes, length))
    }

    fn read(&self, address: u64, length: u64) -> Vec<u8> {
        let mut bytes = vec![0; usize::try_from(length.min(MOST)).unwrap_or(0)];
        let read = read_memory(self.process, address, &mut bytes);
        bytes.truncate(read);
        bytes
    }

    fn word(&self, address: u64) -> Option<u32> {
        Some(u32::from_le_bytes(self.read(address, 4).try_into().ok()?))
    }

    /// Reads a string up to its NUL, in steps that end at a page boundary, since the next page may not be mapped.
    fn string(&self, address: u64, longest: usize) -> Option<(Vec<u8>, u64)> {
        const PAGE: u64 = 4096;
        let mut bytes = Vec::new();
        while bytes.len() <= longest {
            let from = address.checked_add(bytes.len() as u64)?;
            let step = (PAGE - from % PAGE).min((longest + 1 - bytes.len()) as u64);
            let more = self.read(from, step);
            if let Some(end) = more.iter().position(|&byte| byte == 0) {
                bytes.extend_from_slice(more.get(..end)?);
                let length = bytes.len() as u64;
                return Some((bytes, length));
            }
            if more.is_empty() {
                return None;
            }
            bytes.extend_from_slice(&more);
        }
        let length = bytes.len() as u64;
        bytes.truncate(longest);
        Some((bytes, length))
    }

    /// Reads an array of pointers up to a null pointer.
    fn pointers(&self, address: u64) -> Option<(Vec<u8>, u64)> {
        let bytes = self.read(address, MOST);
        let count =
            bytes.chunks_exact(8).take_while(|word| word.iter().any(|&byte| byte != 0)).count();
        let ends = bytes.get(count * 8..count * 8 + 8).is_some();
        let length = (count * 8 + if ends { 0 } else { 8 }) as u64;
        (!bytes.is_empty()).then(|| (bytes.get(..count * 8).unwrap_or_default().to_vec(), length))
    }

    fn strings(&self, address: u64) -> Option<(Vec<u8>, u64)> {
        let (pointers, _) = self.pointers(address)?;
        let mut out = Vec::new();
        let words = pointers.chunks_exact(8);
        for address in words.clone().take(MOST_PIECES).map(|one| word(one, 0)) {
            let (bytes, length) = self.string(address, self.text as usize).unwrap_or_default();
            push_piece(&mut out, &Piece { address, length, bytes: &bytes });
        }
        let length = out.len() as u64 + u64::from(words.len() > MOST_PIECES);
        Some((out, length))
    }

    /// Reads the buffers of an array of `struct iovec`, of which the first `most` bytes are filled.
    fn vector(&self, address: u64, count: u64, mut most: u64, out: &mut Vec<u8>) {
        let entries = self.read(address, count.min(MOST_PIECES as u64) * 16);
        for entry in entries.chunks_exact(16) {
            let (address, length) = (word(entry, 0), word(entry, 8));
            let there = length.min(most);
            most -= there;
            let bytes = self.read(address, there.min(u64::from(self.text)));
            push_piece(out, &Piece { address, length, bytes: &bytes });
        }
    }

    /// Reads a `struct msghdr`: name and its length at 0 and 8, buffers and their number at 16 and 24, control data and
    /// its length at 32 and 40.
    fn message(&self, address: u64, size: u64, out: &mut Vec<u8>) {
        let header = self.read(address, size);
        let word = |at| word(&header, at);
        push_piece(out, &Piece { address, length: size, bytes: &header });
        for (at, length) in [(0, word(8) & 0xffff_ffff), (32, word(40))] {
            let bytes =
                if word(at) == 0 { Vec::new() } else { self.read(word(at), length.min(4096)) };
            push_piece(out, &Piece { address: word(at), length, bytes: &bytes });
        }
        self.vector(word(16), word(24), u64::MAX, out);
    }
}
