//! Raw data, as `heaptrack --raw COMMAND` writes it: addresses, which `heaptrack_interpret` would give names.
//!
//! ```text
//! x e /var/tmp/aio/h                 the program: the length of its path, and the path
//! m 1 -                              the list of modules begins again
//! m 1 x 55be5a277000 0 650 1000 1b5  a module: length and path (`x`: the program), where address 0 of the file
//!                                    is, address and size of each segment
//! t 55be5a278151 9                   stack 1: a return address, and its caller's stack
//! + 3e8 1 55be92f1c1d0               allocated: size, stack, pointer
//! - 55be92f1c1d0                     freed
//! ```

use hashbrown::HashMap;
use pyrograph_profile::{Profile, StackId};

use super::super::mapped::Maps;
use super::{Counts, hex};
use crate::reader::Options;
use crate::warnings::Warnings;

/// What is known only once all modules are: stacks, by addresses.
#[derive(Default)]
pub(super) struct Raw {
    program: String,
    maps: Maps,
    /// Address and caller of each stack. Callers have lower numbers; they count from 1.
    stacks: Vec<(u64, usize)>,
    kinds: HashMap<(u64, usize), usize>,
    /// Kind of what is alive, by pointer.
    live: HashMap<u64, usize>,
}

impl Raw {
    /// Parses a line; returns `None` if it is not recognized.
    pub fn line(&mut self, code: &str, rest: &str, counts: &mut Counts) -> Option<()> {
        let mut numbers = rest.split(' ').map(hex);
        let mut next = || numbers.next()?;
        match code {
            "x" => self.program = sized(rest)?.0.to_owned(),
            "m" => self.module(rest)?,
            "t" => {
                let (address, caller) = (next()?, usize::try_from(next()?).ok()?);
                if caller > self.stacks.len() {
                    return None;
                }
                // Of calls, the address behind the call.
                self.stacks.push((address.saturating_sub(1), caller));
            }
            "+" => {
                let (size, stack) = (next()?, usize::try_from(next()?).ok()?);
                let pointer = next()?;
                if stack > self.stacks.len() {
                    return None;
                }
                let kind =
                    self.kinds.entry((size, stack)).or_insert_with(|| counts.add(size, stack));
                counts.allocate(*kind)?;
                self.live.insert(pointer, *kind);
            }
            // What was not allocated existed before the recording.
            "-" => {
                if let Some(kind) = self.live.remove(&next()?) {
                    counts.free(kind)?;
                }
            }
            // Command, page size and count, times, resident memory, the program's suppressions, attach marker.
            "v" | "X" | "I" | "c" | "R" | "S" | "A" | "#" | "" => {}
            _ => return None,
        }
        Some(())
    }

    /// Parses `1 x 55be5a277000 0 650 1000 1b5`. Modules that are no longer in the list are kept: stacks may lead through
    /// them.
    fn module(&mut self, rest: &str) -> Option<()> {
        let (name, rest) = sized(rest)?;
        if name == "-" {
            return Some(());
        }
        let numbers = rest.split(' ').map(hex).collect::<Option<Vec<u64>>>()?;
        let (&base, segments) = numbers.split_first()?;
        let path = if name == "x" { self.program.as_str() } else { name };
        for segment in segments.chunks_exact(2) {
            let start = base.wrapping_add(segment[0]);
            self.maps.add_linked(path, base, start..start.saturating_add(segment[1]));
        }
        Some(())
    }

    /// Returns all stacks, with the names of functions where files have them.
    pub fn stacks(
        self,
        options: &Options,
        profile: &mut Profile,
        warnings: &mut Warnings,
    ) -> Vec<StackId> {
        let addresses = self.stacks.iter().map(|(address, _)| *address);
        let frames = self.maps.frames(addresses, options, profile, warnings);
        let mut stacks: Vec<StackId> = Vec::with_capacity(self.stacks.len());
        for (address, caller) in &self.stacks {
            let mut stack = caller.checked_sub(1).map_or(StackId::ROOT, |caller| stacks[caller]);
            for frame in frames.get(address).into_iter().flatten().rev() {
                stack = profile.stacks.intern(stack, *frame);
            }
            stacks.push(stack);
        }
        stacks
    }
}

/// Splits a text that has its length before it from the rest: `1 x 55be5a277000`.
fn sized(text: &str) -> Option<(&str, &str)> {
    let (length, text) = text.split_once(' ')?;
    let (text, rest) = text.split_at_checked(usize::try_from(hex(length)?).ok()?)?;
    Some((text, rest.strip_prefix(' ').unwrap_or(rest)))
}
