//! Build ID: identifies one build of a file.

use std::fmt;

use thiserror::Error;

/// Contents of an ELF `NT_GNU_BUILD_ID` note: usually a 20-byte SHA-1, but linkers also emit 8 bytes
/// (`--build-id=fast`), 16 bytes (`md5`, `uuid`) and, with `--build-id=0x…`, any other number.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BuildId(Box<[u8]>);

/// Error: a text is not a build ID in hexadecimal.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("a build ID is an even number of hexadecimal digits, not {0:?}")]
pub struct InvalidBuildId(String);

impl BuildId {
    /// Creates a build ID; `None` if `bytes` is empty or all zero, which means "no build ID" in the kernel's records.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        bytes.iter().any(|&b| b != 0).then(|| Self(bytes.into()))
    }

    /// The raw bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns true if both identify the same build. The kernel keeps at most 20 bytes, and pads shorter IDs with
    /// zeros (`PERF_RECORD_MMAP2`, linux/perf_event.h), so only the bytes that both have are compared.
    pub fn agrees_with(&self, other: &Self) -> bool {
        let (short, long) =
            if self.0.len() <= other.0.len() { (self, other) } else { (other, self) };
        long.0.starts_with(&short.0)
            && (short.0.len() >= 20 || long.0[short.0.len()..].iter().all(|&b| b == 0))
    }

    /// Path below a `.build-id` directory: two digits, a slash, and the rest.
    pub(crate) fn fan_out(&self) -> Option<String> {
        let hex = self.to_string();
        (hex.len() > 2).then(|| format!("{}/{}", &hex[..2], &hex[2..]))
    }
}

impl fmt::Display for BuildId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for BuildId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BuildId({self})")
    }
}

impl std::str::FromStr for BuildId {
    type Err = InvalidBuildId;

    fn from_str(text: &str) -> Result<Self, InvalidBuildId> {
        let invalid = || InvalidBuildId(text.to_owned());
        if !text.len().is_multiple_of(2) || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(invalid());
        }
        let bytes: Result<Vec<u8>, _> =
            (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16)).collect();
        bytes.ok().and_then(|bytes| Self::new(&bytes)).ok_or_else(invalid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> BuildId {
        text.parse().unwrap()
    }

    #[test]
    fn text_and_back() {
        assert_eq!(id("00ab0F").to_string(), "00ab0f");
        assert_eq!(id("00ab0f").fan_out().unwrap(), "00/ab0f");
        for bad in ["", "0", "0g", "+1", "0000", "é1"] {
            assert!(bad.parse::<BuildId>().is_err(), "{bad}");
        }
    }

    #[test]
    fn the_kernels_padded_and_cut_forms_agree() {
        let sha1 = "0123456789abcdef0123456789abcdef01234567";
        assert!(
            id("0102030405060708").agrees_with(&id("0102030405060708000000000000000000000000"))
        );
        assert!(id(&format!("{sha1}8899")).agrees_with(&id(sha1)), "longer than the kernel keeps");
        assert!(!id("0102").agrees_with(&id("010203")));
        assert!(!id(sha1).agrees_with(&id("0123456789abcdef0123456789abcdef01234568")));
    }
}
