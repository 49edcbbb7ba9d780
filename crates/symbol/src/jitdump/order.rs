//! Numbers in the byte order of the machine that wrote them.

/// Byte order.
#[derive(Clone, Copy, Debug)]
pub enum Order {
    Little,
    Big,
}

impl Order {
    /// Reads the number at `bytes[at..]`; 0 beyond the end.
    pub fn u32(self, bytes: &[u8], at: usize) -> u32 {
        let bytes = chunk(bytes, at);
        match self {
            Self::Little => u32::from_le_bytes(bytes),
            Self::Big => u32::from_be_bytes(bytes),
        }
    }

    /// Reads the number at `bytes[at..]`; 0 beyond the end.
    pub fn u64(self, bytes: &[u8], at: usize) -> u64 {
        let bytes = chunk(bytes, at);
        match self {
            Self::Little => u64::from_le_bytes(bytes),
            Self::Big => u64::from_be_bytes(bytes),
        }
    }
}

fn chunk<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes.get(at..).and_then(|bytes| bytes.first_chunk()).copied().unwrap_or([0; N])
}
