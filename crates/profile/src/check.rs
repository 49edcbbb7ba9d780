//! Checks the invariants of a profile.

use std::fmt;

use crate::{Frame, FrameId, FrameKind, Profile, StackId, StringId};

/// Description of the first invariant that a profile violates, and of the place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidProfile(String);

impl fmt::Display for InvalidProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invalid profile: {}", self.0)
    }
}

impl std::error::Error for InvalidProfile {}

/// Exponent of the largest power of ten that fits in 64 bits.
const MOST_DECIMALS: u8 = 19;

impl Profile {
    /// Checks the invariants of a profile, which hold for every source: identifiers are in range, callers have smaller
    /// identifiers than their callees, equal frames are interned once, markers have their labels, and there are as many
    /// columns of values as value types.
    ///
    /// Readers and recorders call it in debug builds, tests and fuzz targets. A profile that violates an invariant makes
    /// views panic or show wrong results.
    ///
    /// Times are not compared with [`About`](crate::About): files have a start and a duration of their own.
    ///
    /// # Errors
    ///
    /// The first invariant that does not hold.
    pub fn check(&self) -> Result<(), InvalidProfile> {
        self.check_values()?;
        self.check_frames()?;
        self.check_stacks()?;
        for (row, thread) in self.threads.iter().enumerate() {
            for id in thread.texts() {
                self.check_string(id, || format!("thread {row}"))?;
            }
        }
        for (row, address) in self.addresses.iter().enumerate() {
            for id in [address.module, address.build_id, address.function] {
                self.check_string(id, || format!("address {row}"))?;
            }
        }
        for (row, sample) in self.samples.iter().enumerate() {
            let (stack, thread) = (sample.stack.index(), sample.thread.index());
            ensure(stack < self.stacks.len(), || format!("sample {row} has no stack {stack}"))?;
            ensure(thread < self.threads.len(), || format!("sample {row} has no thread {thread}"))?;
            let address = sample.address.map_or(0, |address| address.index() + 1);
            ensure(address <= self.addresses.len(), || {
                format!("sample {row} has no address {}", address - 1)
            })?;
        }
        Ok(())
    }

    fn check_values(&self) -> Result<(), InvalidProfile> {
        let (types, columns) = (self.value_types.len(), self.samples.columns());
        ensure(types == columns, || format!("{types} value types, {columns} columns of values"))?;
        ensure(self.shown < types.max(1), || format!("no column {} to show", self.shown))?;
        let sums = self.unfiltered.len();
        ensure([0, types].contains(&sums), || format!("{sums} sums of {types} value types"))?;
        for of in &self.value_types {
            let (name, decimals) = (&of.name, of.decimals);
            ensure(decimals <= MOST_DECIMALS, || format!("{decimals} decimals of {name}"))?;
        }
        Ok(())
    }

    fn check_frames(&self) -> Result<(), InvalidProfile> {
        for (row, frame) in self.frames.iter().enumerate() {
            let Frame { function, module, file, .. } = frame;
            for id in [function, module, file] {
                self.check_string(id, || format!("frame {row}"))?;
            }
            let first = self.frames.find(frame);
            ensure(first == Some(FrameId::from_index(row)), || {
                format!("frame {row} is also {first:?}")
            })?;
            if let FrameKind::Marker(marker) = frame.kind
                && !marker.label().is_empty()
            {
                let name = self.strings.get(function);
                ensure(name == marker.label(), || format!("marker {marker:?} is named {name}"))?;
            }
        }
        Ok(())
    }

    fn check_stacks(&self) -> Result<(), InvalidProfile> {
        for (row, (caller, frame)) in (1..).zip(self.stacks.rows()) {
            ensure(caller < StackId::from_index(row), || {
                format!("stack {row} has the caller {}, which comes later", caller.0)
            })?;
            let frame = frame.index();
            ensure(frame < self.frames.len(), || format!("stack {row} has no frame {frame}"))?;
        }
        Ok(())
    }

    fn check_string(&self, id: StringId, place: impl Fn() -> String) -> Result<(), InvalidProfile> {
        ensure(id.index() < self.strings.len(), || format!("{} has no string {}", place(), id.0))
    }
}

fn ensure(holds: bool, defect: impl FnOnce() -> String) -> Result<(), InvalidProfile> {
    if holds { Ok(()) } else { Err(InvalidProfile(defect())) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Address, AddressId, Marker, Sample, Thread, ThreadId, ValueType};

    /// Breaks a valid profile.
    fn check(defect: impl Fn(&mut Profile), expect: &str) {
        let mut profile = Profile::new(vec![ValueType::samples()]);
        let stack = profile.stack_of_names(["main", "[sleeping]"]);
        let thread = profile.threads.intern(Thread { pid: Some(1), ..Thread::default() });
        profile.push(Sample { thread, ..Sample::new(stack) }, &[1]);
        profile.unfiltered = vec![2];
        assert_eq!(profile.check(), Ok(()));
        defect(&mut profile);
        assert_eq!(profile.check(), Err(InvalidProfile(expect.to_owned())));
    }

    #[test]
    fn an_empty_profile_is_valid() {
        assert_eq!(Profile::default().check(), Ok(()));
    }

    #[test]
    fn values_have_types() {
        let more = |profile: &mut Profile| profile.value_types.push(ValueType::samples());
        check(more, "2 value types, 1 columns of values");
        check(|profile| profile.shown = 1, "no column 1 to show");
        check(|profile| profile.unfiltered = vec![1, 2], "2 sums of 1 value types");
        check(|profile| profile.value_types[0].decimals = 20, "20 decimals of samples");
    }

    #[test]
    fn identifiers_are_in_range() {
        check(|of| of.push(Sample::new(StackId(9)), &[1]), "sample 1 has no stack 9");
        let thread = Sample { thread: ThreadId(9), ..Sample::default() };
        check(|of| of.push(thread, &[1]), "sample 1 has no thread 9");
        let address = Sample { address: Some(AddressId(9)), ..Sample::default() };
        check(|of| of.push(address, &[1]), "sample 1 has no address 9");
        check(
            |of| {
                of.stacks.intern(StackId::ROOT, FrameId(9));
            },
            "stack 3 has no frame 9",
        );
        let no_string = StringId(99);
        let file = Frame { file: no_string, ..Frame::default() };
        for frame in [Frame::named(no_string, FrameKind::User), file] {
            check(
                |of| {
                    of.frames.intern(frame);
                },
                "frame 2 has no string 99",
            );
        }
        let address = Address { build_id: no_string, ..Address::default() };
        check(
            |of| {
                of.addresses.intern(address);
            },
            "address 0 has no string 99",
        );
        let thread = Thread { host: no_string, ..Thread::default() };
        check(
            |of| {
                of.threads.intern(thread);
            },
            "thread 2 has no string 99",
        );
    }

    #[test]
    fn callers_come_first() {
        let later = |of: &mut Profile| of.stacks.push_unchecked(StackId(7), FrameId(0));
        check(later, "stack 3 has the caller 7, which comes later");
    }

    #[test]
    fn equal_frames_are_one() {
        let twice = |of: &mut Profile| of.frames.push_unchecked(of.frames.get(FrameId(0)));
        check(twice, "frame 2 is also Some(FrameId(0))");
    }

    #[test]
    fn markers_have_their_labels() {
        let name = |of: &mut Profile| {
            let name = of.strings.intern("main");
            of.frames.intern(Frame::named(name, FrameKind::Marker(Marker::Io)));
        };
        check(name, "marker Io is named main");
    }
}
