//! Kept profiles: whatever is in a file, it is read or refused. Checksums are not compared here, or nothing would get past them.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pyrograph_store::Segment;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(segment) = Segment::open(bytes.to_vec().into())
        && let Ok(profile) = segment.profile()
    {
        profile.check().expect("what is read is whole");
    }
});
