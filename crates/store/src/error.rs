//! Errors of segments.

use parquet::errors::ParquetError;

/// Why a segment cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SegmentError {
    /// It is a Parquet file that is none of ours.
    #[error(
        "it is a Parquet file that pyrograph has not written: nothing of pyrograph is in its footer"
    )]
    Foreign,
    /// Its version is not known.
    #[error("it is of version {0} of the format, which a newer pyrograph has written")]
    Version(u32),
    /// Its bytes are not the ones that were written.
    #[error("it is damaged: {0}")]
    Damaged(String),
    /// It is larger than what is read.
    #[error("it is larger than is read at once: {0}")]
    TooLarge(String),
    /// The Parquet library refuses it.
    #[error("it is damaged: {0}")]
    Parquet(#[from] ParquetError),
}

impl From<arrow_schema::ArrowError> for SegmentError {
    fn from(error: arrow_schema::ArrowError) -> Self {
        Self::Damaged(error.to_string())
    }
}
