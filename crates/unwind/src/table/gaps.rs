//! The code between the entries of the unwind tables: its rules are guessed from its instructions.

use crate::code;
use crate::instructions::Guess;

use super::{Builder, PREPARED, Rows, SIGNAL, Span, TableRule, TableRuleKind, from_compact};

/// Some code in order of its addresses.
pub(super) enum Part {
    Span(Span),
    /// Without an entry; whether its instructions are looked at.
    Gap {
        range: std::ops::Range<u64>,
        guessed: bool,
    },
}

impl Part {
    pub(super) fn range(&self) -> std::ops::Range<u64> {
        match self {
            Self::Span(span) => span.start..span.end,
            Self::Gap { range, .. } => range.clone(),
        }
    }
}

/// Of a file with more code without tables than this, none is looked at here: it takes a third of a second for each MiB, in
/// which the file has no table at all. Stacks through it are copied, and what they come to is looked at then.
pub(crate) const MOST_GUESSED: u64 = 4 << 20;

impl Builder<'_> {
    /// The entries without those that overlap others, and what is between them.
    pub(super) fn parts(&mut self, start: u64) -> Vec<Part> {
        let mut spans = std::mem::take(&mut self.spans);
        spans.sort_unstable_by_key(|span| (span.start, span.order));
        let code = self.info.instruction_ranges();
        let last = self.info.code_ranges().last().map(|range| (range.end, None));
        let spans = spans.into_iter().map(|span| (span.start, Some(span)));
        let (mut parts, mut covered, mut all) = (Vec::new(), start, 0);
        for (next, span) in spans.chain(last) {
            if next < covered {
                continue;
            }
            if !self.is_nothing(covered, next, parts.is_empty()) {
                parts.push(Part::Gap { range: covered..next, guessed: false });
                // In large files there are some hundred gaps, and some ten sections.
                for code in code {
                    let range = covered.max(code.start)..next.min(code.end);
                    if range.start < range.end && !self.info.is_padding(&range) {
                        all += range.end - range.start;
                        parts.push(Part::Gap { range, guessed: true });
                    }
                }
            }
            if let Some(span) = span {
                covered = span.end;
                parts.push(Part::Span(span));
            }
        }
        if all > MOST_GUESSED {
            parts.retain(|part| !matches!(part, Part::Gap { guessed: true, .. }));
        }
        parts
    }

    /// Returns true if what is between two functions is too short for another, and fills the room there.
    fn is_nothing(&self, start: u64, end: u64, is_first: bool) -> bool {
        start >= end || (end - start < 16 && !is_first && self.info.is_padding(&(start..end)))
    }

    /// Code for which there is no entry.
    pub(super) fn gap(
        &mut self,
        range: &std::ops::Range<u64>,
        starts: &[u64],
        none: u16,
        out: &mut Rows,
    ) {
        let mut rows = Vec::new();
        for row in self.info.guesses_in(range, starts).rows {
            let number = match row.guess {
                Guess::Root => self.number(TableRule::of(TableRuleKind::Root)),
                Guess::SignalReturn => self.number(SIGNAL),
                Guess::Frame(compact) | Guess::Cloned(compact) => {
                    self.number(from_compact(&compact))
                }
                Guess::Nothing if self.info.in_stubs(row.address) => {
                    // An entry of a linkage table pushes its number before it jumps away.
                    self.number(TableRule { base: 11, ..TableRule::of(TableRuleKind::Plt) })
                }
                Guess::Nothing => none,
            };
            rows.push((row.address, number));
        }
        self.exits(range, none, &mut rows);
        rows.into_iter().for_each(|(address, number)| out.push(address, number));
    }

    /// Where stacks end that Boost prepares.
    fn exits(&mut self, range: &std::ops::Range<u64>, none: u16, rows: &mut Vec<(u64, u16)>) {
        let len = usize::try_from(range.end - range.start).unwrap_or(0);
        let code = self.info.code(range.start, len).unwrap_or_default();
        for at in memchr::memmem::find_iter(code, &code::EXIT) {
            if at > 0 && code::is_exit(&code[at..]) {
                let (before, end) = (at as u64 - 1, (at + code::EXIT.len() + 5) as u64);
                let exit = range.start + before..range.start + end;
                let behind = rows.iter().rfind(|row| row.0 <= exit.end).map_or(none, |row| row.1);
                rows.retain(|row| !exit.contains(&row.0));
                rows.extend([(exit.start, self.number(PREPARED)), (exit.end, behind)]);
                rows.sort_by_key(|row| row.0);
            }
        }
    }
}
