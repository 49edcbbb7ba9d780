//! Errors of segments.

use std::io;
use std::path::PathBuf;

use parquet::errors::ParquetError;

/// Reasons why a segment cannot be read or written.
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

/// Reasons why a folder of segments cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// A file or the folder itself cannot be read or written.
    #[error("{}: {reason}", .path.display())]
    Folder {
        /// The file or folder.
        path: PathBuf,
        /// The reason.
        reason: io::Error,
    },
    /// A segment cannot be read or written.
    #[error("{}: {reason}", .path.display())]
    Segment {
        /// Its file.
        path: PathBuf,
        /// The reason.
        reason: SegmentError,
    },
    /// Another process writes to it.
    #[error("{}: another pyrograph writes to it", .path.display())]
    Locked {
        /// The folder.
        path: PathBuf,
    },
    /// There is too little room on the disk.
    #[error("{}: only {} MB are free on its disk: below 1 GiB nothing is written", .path.display(), .free >> 20)]
    Full {
        /// The folder.
        path: PathBuf,
        /// Free bytes.
        free: u64,
    },
    /// Segments of the range count different things.
    #[error("the segments of this time count different events")]
    Different,
}

impl From<arrow_schema::ArrowError> for SegmentError {
    fn from(error: arrow_schema::ArrowError) -> Self {
        Self::Damaged(error.to_string())
    }
}
