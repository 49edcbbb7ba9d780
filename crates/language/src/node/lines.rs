//! Line tables of scripts.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::heap::Flat;
use crate::memory::Memory;

/// Positions of line ends, by process and script text. V8 itself has them only for scripts that have thrown an
/// exception.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scripts(Arc<Mutex<HashMap<Script, Arc<[u32]>>>>);

/// Key of a script: process, location of its text, and the beginning of the text, since another script may take its
/// place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Script {
    process: u32,
    text: Flat,
    beginning: [u8; BEGINNING],
}

const BEGINNING: usize = 128;
/// Maximum number of scripts whose lines are cached.
const MOST_SCRIPTS: usize = 128;
/// Length, in characters, up to which text is not worth caching: reading it again takes less than 10 µs.
const SHORT: u64 = 16 << 10;
/// Maximum number of characters that are read of a script.
const LONGEST: u64 = 32 << 20;

impl Scripts {
    /// Returns the line, from 1, of a character. `None` if the text cannot be read.
    pub(super) fn line(&self, memory: &dyn Memory, text: Flat, at: u64) -> Option<u32> {
        if at > LONGEST {
            return None;
        }
        if text.len <= SHORT {
            return line_of(&ends(memory, text, text.len.min(at + 1))?, at);
        }
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let script = memory.process().and_then(|process| {
            let mut beginning = [0; BEGINNING];
            memory.read(text.address, &mut beginning).then_some(Script { process, text, beginning })
        });
        let found = script.and_then(|script| known.get(&script).cloned());
        drop(known);
        if let Some(ends) = found {
            return line_of(&ends, at);
        }
        let lines: Arc<[u32]> = ends(memory, text, text.len.min(LONGEST))?.into();
        if let Some(script) = script {
            let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if known.len() >= MOST_SCRIPTS {
                known.clear();
            }
            known.insert(script, Arc::clone(&lines));
        }
        line_of(&lines, at)
    }
}

fn line_of(ends: &[u32], at: u64) -> Option<u32> {
    let before = ends.partition_point(|end| u64::from(*end) < at);
    u32::try_from(before + 1).ok()
}

/// Returns the positions of the characters that end lines among the first `len` ones (ECMAScript: LF, CR, CR LF,
/// U+2028, U+2029).
fn ends(memory: &dyn Memory, text: Flat, len: u64) -> Option<Vec<u32>> {
    let mut found = Vec::new();
    let (mut before, mut number) = (0, 0);
    let mut see = |unit: u16| {
        let is_end = match unit {
            0x0a if before == 0x0d => {
                // CR LF is one line end.
                found.pop();
                true
            }
            0x0a | 0x0d | 0x2028 | 0x2029 => true,
            _ => false,
        };
        if is_end {
            found.push(number);
        }
        before = unit;
        number += 1;
    };
    let (mut address, mut left) = (text.address, len << u32::from(text.is_wide));
    let mut block = vec![0; left.min(1 << 16) as usize];
    while left > 0 {
        let len = left.min(block.len() as u64) as usize;
        let block = &mut block[..len];
        if !memory.read(address, block) {
            return None;
        }
        match text.is_wide {
            false => block.iter().for_each(|unit| see(u16::from(*unit))),
            true => {
                let (units, _) = block.as_chunks::<2>();
                units.iter().for_each(|unit| see(u16::from_le_bytes(*unit)));
            }
        }
        address = address.checked_add(len as u64)?;
        left -= len as u64;
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Text(Vec<u8>);

    impl Memory for Text {
        fn read(&self, address: u64, into: &mut [u8]) -> bool {
            let start = address as usize - 4096;
            let Some(bytes) = self.0.get(start..start + into.len()) else { return false };
            into.copy_from_slice(bytes);
            true
        }

        fn process(&self) -> Option<u32> {
            Some(1)
        }
    }

    /// As an editor counts.
    fn expected(text: &[u16], at: usize) -> u32 {
        let mut line = 1;
        for number in 0..at {
            let ends = match (text[number], text.get(number + 1)) {
                (0x0d, Some(0x0a)) => false,
                (unit, _) => [0x0a, 0x0d, 0x2028, 0x2029].contains(&unit),
            };
            line += u32::from(ends);
        }
        line
    }

    #[test]
    fn lines_are_those_of_an_editor() {
        let scripts = Scripts::default();
        let lines = ["first\n", "\r\n", "third\r", "\n\n", "x\u{2028}y\u{2029}", "last one "];
        for (repeat, is_wide) in [(1, true), (1, false), (300, true), (300, false)] {
            let text: String = lines.concat().repeat(repeat);
            let units: Vec<u16> = text.encode_utf16().filter(|u| is_wide || *u < 256).collect();
            let bytes = match is_wide {
                true => units.iter().flat_map(|unit| unit.to_le_bytes()).collect(),
                false => units.iter().map(|unit| *unit as u8).collect(),
            };
            let memory = Text(bytes);
            let flat = Flat { address: 4096, len: units.len() as u64, is_wide };
            for at in (0..units.len()).step_by(7) {
                let line = scripts.line(&memory, flat, at as u64);
                assert_eq!(line, Some(expected(&units, at)), "{at} of {}", units.len());
            }
            let longer = Flat { len: flat.len + 1, ..flat };
            assert_eq!(scripts.line(&memory, longer, flat.len + 1), None);
        }
    }

    #[test]
    fn another_text_in_the_same_place_is_read_again() {
        let scripts = Scripts::default();
        for (start, line) in [("a\n", 2), ("\n\n", 3)] {
            let mut bytes = start.as_bytes().to_vec();
            bytes.resize(40_000, b' ');
            let flat = Flat { address: 4096, len: 40_000, is_wide: false };
            assert_eq!(scripts.line(&Text(bytes), flat, 30_000), Some(line));
        }
    }
}
