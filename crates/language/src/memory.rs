//! Memory of a process, from any source.

/// Memory of a process.
pub trait Memory {
    /// Reads bytes from an address on, all of them or none. Returns true if it succeeded.
    fn read(&self, address: u64, into: &mut [u8]) -> bool;

    /// ID of the process, under which data read from it is cached; `None`: nothing is cached.
    fn process(&self) -> Option<u32> {
        None
    }
}

/// Copied pieces of memory, with another source for everything else.
#[derive(Clone, Copy)]
pub struct Chunks<'a, M> {
    /// Start addresses and bytes.
    pub chunks: &'a [(u64, Vec<u8>)],
    /// Source of memory that is in none of the pieces.
    pub rest: M,
}

impl<M: Memory> Memory for Chunks<'_, M> {
    fn read(&self, address: u64, into: &mut [u8]) -> bool {
        for (start, bytes) in self.chunks {
            let at = address.checked_sub(*start).and_then(|at| usize::try_from(at).ok());
            let found = at.and_then(|at| bytes.get(at..at.checked_add(into.len())?));
            if let Some(found) = found {
                into.copy_from_slice(found);
                return true;
            }
        }
        self.rest.read(address, into)
    }

    fn process(&self) -> Option<u32> {
        self.rest.process()
    }
}

/// Memory of which nothing can be read.
impl Memory for () {
    fn read(&self, _: u64, _: &mut [u8]) -> bool {
        false
    }
}

/// Maximum length of a name, in bytes.
const LONGEST: usize = 512;

/// Reads numbers and text.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a>(pub &'a dyn Memory);

impl Reader<'_> {
    pub fn bytes<const N: usize>(self, address: u64) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        self.0.read(address, &mut bytes).then_some(bytes)
    }

    pub fn u64(self, address: u64) -> Option<u64> {
        self.bytes(address).map(u64::from_le_bytes)
    }

    /// Reads a pointer; `None` if it is null.
    pub fn pointer(self, address: u64) -> Option<u64> {
        self.u64(address).filter(|&pointer| pointer != 0)
    }

    pub fn u32(self, address: u64) -> Option<u32> {
        self.bytes(address).map(u32::from_le_bytes)
    }

    /// Reads `len` bytes; `None` if that is more than 1 MiB, or if not all can be read.
    pub fn all(self, address: u64, len: u64) -> Option<Vec<u8>> {
        const MOST: u64 = 1 << 20;
        let mut bytes = vec![0; usize::try_from(len.min(MOST + 1)).ok()?];
        (len <= MOST && self.0.read(address, &mut bytes)).then_some(bytes)
    }

    /// Reads `len` bytes, at most [`LONGEST`]. If not all can be read, reads as many as possible, in steps of powers of
    /// two.
    pub fn text(self, address: u64, len: u64) -> Option<Vec<u8>> {
        let len = usize::try_from(len).unwrap_or(LONGEST).min(LONGEST);
        let mut bytes = vec![0; len];
        if self.0.read(address, &mut bytes) {
            return Some(bytes);
        }
        let mut known = 0;
        let mut step = LONGEST;
        while step > 0 {
            let end = known + step;
            if end <= len && self.0.read(address.wrapping_add(known as u64), &mut bytes[known..end])
            {
                known = end;
            } else {
                step /= 2;
            }
        }
        bytes.truncate(known);
        (known > 0).then_some(bytes)
    }

    /// Reads bytes up to the first zero, at most [`LONGEST`].
    pub fn c_string(self, address: u64) -> Option<Vec<u8>> {
        let mut bytes = self.text(address, LONGEST as u64)?;
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        bytes.truncate(end);
        Some(bytes)
    }
}

/// Returns text in displayable form: limited in length, control characters escaped; `None` if it is empty.
pub(crate) fn readable(text: &str) -> Option<String> {
    let mut shown = String::with_capacity(text.len().min(LONGEST));
    for c in text.chars() {
        // The escape of a control character is longer, and is not cut.
        let len = if c.is_control() { c.escape_default().len() } else { c.len_utf8() };
        if shown.len() + len > LONGEST {
            break;
        }
        match c.is_control() {
            true => shown.extend(c.escape_default()),
            false => shown.push(c),
        }
    }
    (!shown.is_empty()).then_some(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_is_cut_is_read_as_far_as_it_goes() {
        for len in [1, 7, 100, 511] {
            let chunks = [(4096, vec![b'x'; len])];
            let memory = Chunks { chunks: &chunks, rest: () };
            assert_eq!(Reader(&memory).text(4096, 512), Some(vec![b'x'; len]));
            assert_eq!(Reader(&memory).text(4095, 512), None);
        }
    }

    #[test]
    fn names_hold_no_control_characters() {
        assert_eq!(readable("a\x1b[2Jé").as_deref(), Some("a\\u{1b}[2Jé"));
        assert_eq!(readable(""), None);
        assert_eq!(readable(&"é".repeat(400)).map(|text| text.len()), Some(512));
        // As many as fit whole: each is written as six characters.
        let escaped = readable(&"\x1b".repeat(400));
        assert_eq!(escaped, Some("\\u{1b}".repeat(512 / 6)));
    }
}
