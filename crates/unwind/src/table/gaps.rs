//! Code between the entries of the unwind tables: its rules are guessed from its instructions.

use crate::code;
use crate::instructions::Guess;

use super::{Builder, PREPARED, Rows, SIGNAL, Span, TableRule, TableRuleKind, from_compact};

/// Part of the code, in order of addresses.
pub(super) enum Part {
    Span(Span),
    /// Code without an entry; `guessed` is true if its instructions are analysed.
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

/// Maximum size in bytes of code without tables that is analysed for a table. If a file has more, none of it is
/// analysed here: that would take a third of a second for each MiB. Stacks through such code are copied, and the
/// code that they reach is analysed then.
pub(crate) const MOST_GUESSED: u64 = 4 << 20;

impl Builder<'_> {
    /// Returns the spans that do not overlap an earlier one, and the gaps between them.
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
                // Large files have some hundred gaps and some ten sections.
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

    /// Returns true if the range between two functions is empty, or is padding that is too short for another function.
    fn is_nothing(&self, start: u64, end: u64, is_first: bool) -> bool {
        start >= end || (end - start < 16 && !is_first && self.info.is_padding(&(start..end)))
    }

    /// Adds the rows of code that has no entry.
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
                    // A PLT entry pushes its number before it jumps.
                    self.number(TableRule { base: 11, ..TableRule::of(TableRuleKind::Plt) })
                }
                Guess::Nothing => none,
            };
            rows.push((row.address, number));
        }
        self.exits(range, none, &mut rows);
        rows.into_iter().for_each(|(address, number)| out.push(address, number));
    }

    /// Adds rows for the code at which stacks prepared by Boost end.
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
