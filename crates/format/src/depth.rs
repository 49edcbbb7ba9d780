//! Limit for the total size of deeply nested stacks.
//!
//! A file of a few MB may contain 20,000 calls that are nested in each other, each with a sample: 200 million frames
//! when they are written as text or pprof.

use pyrograph_profile::{Frame, FrameKind, Marker, Profile};

use crate::read::calls::MOST_DEPTH;
use crate::restack::restack;
use crate::warnings::{WarningKind, Warnings};

/// Limit for the total number of frames in all stacks with samples; below it, stacks are not changed.
const MOST_FRAMES: u64 = 1 << 26;

/// Cuts very deep stacks if all stacks together have too many frames, and puts a frame `[deeper calls]` in place of the rest.
pub(crate) fn limit(profile: &mut Profile, warnings: &mut Warnings) {
    limit_to(profile, warnings, MOST_FRAMES);
}

fn limit_to(profile: &mut Profile, warnings: &mut Warnings, most_frames: u64) {
    // Depth by stack: the root comes first, and callers before their callees.
    let mut depths = vec![0u64];
    for (caller, _) in profile.stacks.rows() {
        depths.push(depths[caller.index()] + 1);
    }
    let most = MOST_DEPTH as u64;
    if depths.iter().all(|&depth| depth <= most) {
        return;
    }
    let mut has_samples = vec![false; depths.len()];
    for sample in profile.samples.iter() {
        has_samples[sample.stack.index()] = true;
    }
    let with_samples = || depths.iter().zip(&has_samples).filter(|&(_, &has)| has);
    if with_samples().map(|(&depth, _)| depth).sum::<u64>() <= most_frames {
        return;
    }
    let name = profile.strings.intern("[deeper calls]");
    let marker = Frame::named(name, FrameKind::Marker(Marker::Remark));
    let marker = profile.frames.intern(marker);
    restack(profile, |profile, caller, frame, row| match depths[row] {
        depth if depth <= most => profile.stacks.intern(caller, frame),
        depth if depth == most + 1 => profile.stacks.intern(caller, marker),
        _ => caller,
    });
    let deep = with_samples().filter(|&(&depth, _)| depth > most).count();
    warnings.add(WarningKind::TooDeep, deep as u64, []);
}

#[cfg(test)]
mod tests {
    use super::*;
    use pyrograph_profile::{FrameId, Sample, StackId, ValueType};

    /// Calls inside of each other, each with a sample of 1.
    fn nested(depth: usize) -> Profile {
        let mut profile = Profile::new(vec![ValueType::samples()]);
        let function = profile.strings.intern("f");
        let frame: FrameId = profile.frames.intern(Frame::named(function, FrameKind::User));
        let mut stack = StackId::ROOT;
        for _ in 0..depth {
            stack = profile.stacks.intern(stack, frame);
            profile.push(Sample::new(stack), &[1]);
        }
        profile
    }

    #[test]
    fn nested_calls_were_written_as_200_million_frames() {
        let (mut profile, mut warnings) = (nested(20_000), Warnings::default());
        limit(&mut profile, &mut warnings);
        profile.check().expect("a profile");
        assert_eq!(profile.samples.total(0), 20_000);
        // The root, what is above the limit, and the marker.
        assert_eq!(profile.stacks.len(), 1 + MOST_DEPTH + 1);
        let said: Vec<String> = warnings.iter().map(ToString::to_string).collect();
        assert_eq!(
            said,
            ["18000 calls were inside of 2000 others: their time is that of [deeper calls]"]
        );
    }

    #[test]
    fn what_can_be_written_stays() {
        let (mut profile, mut warnings) = (nested(5_000), Warnings::default());
        limit(&mut profile, &mut warnings);
        assert!(warnings.is_empty());
        assert_eq!(profile.stacks.len(), 5_001);
        limit_to(&mut profile, &mut warnings, 100);
        assert!(!warnings.is_empty());
        assert_eq!(profile.samples.total(0), 5_000);
    }
}
