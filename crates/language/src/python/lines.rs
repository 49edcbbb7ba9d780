//! Decodes the line tables of code objects.

/// Returns the line of an instruction, by the line table of version 3.`minor`; `None` if it has none. `offset` is in
/// bytes from the first instruction, except for 3.10, which counts instructions. `first` is the first line of the code.
pub(super) fn line(minor: u32, table: &[u8], first: u32, offset: u32) -> Option<u32> {
    let line = match minor {
        ..=9 => in_lnotab(table, first, offset),
        10 => in_linetable(table, first, offset.checked_mul(2)?)?,
        _ => in_locations(table, first, offset)?,
    };
    u32::try_from(line).ok().filter(|line| *line > 0)
}

/// `co_lnotab` (Objects/lnotab_notes.txt): pairs of a bytecode offset delta in bytes and a line delta.
fn in_lnotab(table: &[u8], first: u32, offset: u32) -> i64 {
    let (mut line, mut at) = (i64::from(first), 0);
    let (pairs, _) = table.as_chunks::<2>();
    for [bytes, lines] in pairs {
        at += u32::from(*bytes);
        if at > offset {
            break;
        }
        line += i64::from(lines.cast_signed());
    }
    line
}

/// `co_linetable` of 3.10 (PEP 626): pairs of the length in bytes of a range of instructions and its line delta; -128
/// means that it has no line.
fn in_linetable(table: &[u8], first: u32, offset: u32) -> Option<i64> {
    let (mut line, mut end) = (i64::from(first), 0);
    let (pairs, _) = table.as_chunks::<2>();
    for [bytes, lines] in pairs {
        let lines = lines.cast_signed();
        end += u32::from(*bytes);
        let has_line = lines != i8::MIN;
        line += if has_line { i64::from(lines) } else { 0 };
        if offset < end {
            return has_line.then_some(line);
        }
    }
    None
}

/// `co_linetable` from 3.11 on (Objects/locations.md): entries that start with a byte with the highest bit set (kind,
/// and number of instructions minus one), followed by data that depends on the kind.
fn in_locations(table: &[u8], first: u32, offset: u32) -> Option<i64> {
    let (mut line, mut end) = (i64::from(first), 0);
    let mut rest = table.iter().copied();
    while let Some(head) = rest.next() {
        end += (u32::from(head & 7) + 1) * 2;
        let lines = match head >> 3 & 15 {
            // Same line or a small delta, with columns in one or two bytes.
            0..=9 => rest.next().map(|_| 0),
            kind @ 10..=12 => rest.nth(1).map(|_| i64::from(kind) - 10),
            13 => signed(&mut rest),
            14 => {
                let lines = signed(&mut rest);
                // The end line, and two columns.
                (0..3).try_fold(lines, |lines, _| unsigned(&mut rest).map(|_| lines)).flatten()
            }
            _ => {
                if offset < end {
                    return None;
                }
                Some(0)
            }
        }?;
        line = line.checked_add(lines)?;
        if offset < end {
            return Some(line);
        }
    }
    None
}

/// Decodes a number in groups of six bits, lowest first; bit 6 is set in all but the last group.
fn unsigned(bytes: &mut impl Iterator<Item = u8>) -> Option<u64> {
    let (mut value, mut shift) = (0u64, 0);
    loop {
        let byte = bytes.next()?;
        value |= u64::from(byte & 63).checked_shl(shift)?;
        if byte & 64 == 0 {
            return Some(value);
        }
        shift += 6;
    }
}

/// As [`unsigned`], with the sign in the lowest bit.
fn signed(bytes: &mut impl Iterator<Item = u8>) -> Option<i64> {
    let value = unsigned(bytes)?;
    let magnitude = i64::try_from(value >> 1).ok()?;
    Some(if value & 1 == 1 { -magnitude } else { magnitude })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tables of code objects of each version, with the lines that Python itself has of them (`co_lines`,
    /// `dis.findlinestarts`).
    const TABLES: &str = include_str!("../../tests/data/python-lines.txt");

    fn bytes(hex: &str) -> Vec<u8> {
        let digit = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("digits");
        (0..hex.len()).step_by(2).map(digit).collect()
    }

    #[test]
    fn lines_are_those_that_python_has() {
        let mut checked = 0;
        for text in TABLES.lines() {
            let mut words = text.split(' ');
            let mut number = || words.next().expect("a number").parse::<u32>().expect("a number");
            let (minor, first) = (number(), number());
            let table = bytes(words.next().expect("a table"));
            for pair in words {
                let (offset, expected) = pair.split_once(':').expect("a pair");
                let offset: u32 = offset.parse().expect("an offset");
                let offset = if minor == 10 { offset / 2 } else { offset };
                let expected: u32 = expected.parse().expect("a line");
                let found = line(minor, &table, first, offset).unwrap_or(0);
                assert_eq!(found, expected, "3.{minor} at {offset}");
                checked += 1;
            }
        }
        assert!(checked > 1000, "{checked}");
    }

    #[test]
    fn damaged_tables_have_some_line_or_none() {
        let mut state = 1u64;
        for _ in 0..20_000 {
            let table: Vec<u8> = (0..40)
                .map(|_| {
                    state =
                        state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                    (state >> 33) as u8
                })
                .collect();
            for minor in [9, 10, 11] {
                let _ = line(minor, &table, u32::MAX, state as u32 & 0xff);
            }
        }
    }

    #[test]
    fn distances_of_lines_that_are_too_far_have_no_line() {
        // Twice the same entry: any place, and a distance of 63 bits.
        let entry = [0xe8, 0x7e, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x3f];
        assert_eq!(line(11, &entry.repeat(2), 1, 3), None);
    }
}
