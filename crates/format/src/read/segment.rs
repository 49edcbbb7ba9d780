//! Reader of kept profiles: segments in Parquet's format, as the crate `store` writes them.

use pyrograph_profile::{Sample, Samples};
use pyrograph_store::{Segment, SegmentError};

use super::rows::Rows;
use crate::input::Head;
use crate::reader::{Options, ReadError, Reader, Reading};

/// Reader of segments.
pub struct KeptProfile;

impl Reader for KeptProfile {
    fn name(&self) -> &'static str {
        "pyro.parquet"
    }

    fn written_by(&self) -> &'static str {
        "pyrograph record -o x.pyro.parquet, pyrograph convert"
    }

    fn detect(&self, head: &[u8]) -> bool {
        Segment::is_parquet(head)
    }

    fn may_be_empty(&self) -> bool {
        true
    }

    fn read(&self, input: Head, options: &Options) -> Result<Reading, ReadError> {
        let name = input.name().to_owned();
        let (bytes, warnings) = input.into_bytes();
        let malformed = |error: SegmentError| ReadError::Malformed {
            name: name.clone(),
            reason: error.to_string(),
        };
        let segment = Segment::open(bytes.into()).map_err(malformed)?;
        let mut profile = segment.profile().map_err(malformed)?;
        let columns = profile.value_types.len();
        let samples = std::mem::replace(&mut profile.samples, Samples::new(columns));
        let mut rows = Rows::new(options, columns);
        let mut values = vec![0; columns];
        for (row, sample) in samples.iter().enumerate() {
            for (column, value) in values.iter_mut().enumerate() {
                *value = samples.values(column)[row];
            }
            let thread = profile.threads.get(sample.thread);
            let thread = rows.thread(&mut profile, thread);
            let address = sample.address.filter(|_| options.instructions);
            rows.push(Sample { thread, address, ..sample }, &values);
        }
        rows.finish(&mut profile);
        Ok(Reading::new(profile, warnings))
    }
}
