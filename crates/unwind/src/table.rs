//! Table of all rules of a file, as sorted rows that the unwinder in the kernel can search: it cannot read DWARF.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};

use foldhash::fast::FixedState;
use gimli::{
    BaseAddresses, CfaRule, CieOrFde, Operation, RegisterRule, UnwindExpression, UnwindOffset,
    UnwindSection,
};

use crate::code::{self, Tableless};
use crate::info::{Context, Slice, UnwindInfo};
use crate::registers::Arch;
use crate::rule::{self, Cfa, Compact, Compiled, ENCODING, Goroutine, RowSource, Rule, Section};

mod gaps;

use gaps::Part;

pub(crate) use gaps::MOST_GUESSED;

/// Kind of a [`TableRule`], [`TableRule::kind`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum TableRuleKind {
    /// No table covers this code; its frame pointer may find the caller.
    #[default]
    None = 0,
    /// The CFA is `base + offset`.
    Offset = 1,
    /// The CFA is `*(base + offset) + add`.
    Deref = 2,
    /// The CFA is `rsp + 8`, or `rsp + 16` from byte `base` of a 16-byte PLT entry on.
    Plt = 3,
    /// This is the first frame of a thread.
    Root = 4,
    /// This is a signal frame, which the kernel built to run a handler: `rsp` points after the first word of
    /// `struct rt_sigframe`.
    Signal = 5,
    /// The rule cannot be expressed in this format.
    Bad = 6,
    /// The CFA is `rsp + offset`, and the return address is in register `base`.
    Link = 7,
    /// Go: register `base` points to the thread's own `g`; the CFA is `*(*(*(base + 0x30) + offset) + 0x38) + add`,
    /// on the stack of the goroutine for which the thread runs the code.
    Goroutine = 8,
    /// Go: with `goroutine = *(rsp + offset)` and `depth = *(rsp + base)`, the CFA is
    /// `*(goroutine + 8) - depth + add`, or `depth + add` if `goroutine` is 0.
    KeptGoroutine = 9,
}

/// Register in which Go's code keeps the address of the goroutine's `g` or the thread's own `g`.
const R14: u8 = 14;

impl TableRuleKind {
    pub(crate) const ALL: [Self; 10] = [
        Self::None,
        Self::Offset,
        Self::Deref,
        Self::Plt,
        Self::Root,
        Self::Signal,
        Self::Bad,
        Self::Link,
        Self::Goroutine,
        Self::KeptGoroutine,
    ];
}

/// Rule to get from a frame to its caller, in 16 bytes. The return address is the word below the canonical frame
/// address (CFA), which is the caller's stack pointer, except for [`TableRuleKind::Link`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct TableRule {
    /// Selects how the CFA is computed.
    pub kind: TableRuleKind,
    /// DWARF number of the register from which the CFA is computed; some kinds use it in another way.
    pub base: u8,
    /// Added to the CFA at the end. For [`TableRuleKind::Offset`], 1 means that the CFA is on another stack than
    /// the frame. For [`TableRuleKind::Root`] and [`TableRuleKind::Signal`], which have no CFA: added to the return
    /// address minus 1, to get the address to look up.
    pub add: i16,
    /// Added to the register.
    pub offset: i32,
    /// Locations at which the function saved `rbp`, `rbx`, `r12`, `r13`, `r14`, `r15`, in words below the CFA; 0 if
    /// the register is unchanged.
    pub saved: [u8; 6],
    /// 1 if the words are counted from `rbp + 8` instead of the CFA, as in functions that realign their stack.
    pub below_fp: u8,
    /// [`Self::GUESS`] and, above it, one bit for each register of `saved`, set if its value in the caller is unknown.
    pub flags: u8,
}

impl Hash for TableRule {
    // Every row hashes a rule. Hashing two words takes a tenth of the time of hashing all fields one by one.
    fn hash<H: Hasher>(&self, to: &mut H) {
        let bytes = u128::from_le_bytes(self.to_bytes());
        to.write_u64(bytes as u64);
        to.write_u64((bytes >> 64) as u64);
    }
}

/// Rule of a signal trampoline. The handler returns to its first byte, which no call precedes.
const SIGNAL: TableRule = TableRule { add: 1, ..TableRule::of(TableRuleKind::Signal) };

/// Rule for the byte just before code that a stack was prepared to return to.
const PREPARED: TableRule = TableRule { add: 1, ..TableRule::of(TableRuleKind::Root) };

impl TableRule {
    /// Flag in [`Self::flags`]: the rule comes from instructions, not from a table, and may be wrong.
    pub const GUESS: u8 = 1;

    const fn of(kind: TableRuleKind) -> Self {
        Self { kind, base: 0, add: 0, offset: 0, saved: [0; 6], below_fp: 0, flags: 0 }
    }
}

/// Row of a table: [`Table::rules`]`[rule]` applies from `offset` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableRow {
    /// Distance from [`Table::start`] in bytes.
    pub offset: u32,
    /// Index of the rule.
    pub rule: u16,
}

/// Rules for all code of a file.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// Virtual address from which the offsets of rows are counted: the file's lowest address of code, rounded down
    /// to 64 KiB.
    pub start: u64,
    /// Sorted; adjacent rows have different rules. Addresses before the first row have no rule.
    pub rows: Vec<TableRow>,
    /// The distinct rules.
    pub rules: Vec<TableRule>,
}

impl Table {
    /// Finds the rule for a virtual address.
    pub fn rule(&self, svma: u64) -> Option<&TableRule> {
        let offset = u32::try_from(svma.checked_sub(self.start)?).ok()?;
        let after = self.rows.partition_point(|row| row.offset <= offset);
        let row = self.rows.get(after.checked_sub(1)?)?;
        self.rules.get(usize::from(row.rule))
    }
}

impl UnwindInfo {
    /// Builds the table of all rules of the file. It has no rows if the file is not for x86-64, or has no code.
    ///
    /// Code that no unwind table covers has rows with [`TableRuleKind::None`], unless a rule is found from its
    /// instructions.
    pub fn table(&self) -> Table {
        self.table_while(&|| true).unwrap_or_default()
    }

    /// Like [`Self::table`], but returns `None` once `goes_on` returns false. The table of a large program takes
    /// seconds on a busy machine.
    pub fn table_while(&self, goes_on: &dyn Fn() -> bool) -> Option<Table> {
        let Some(start) = self.table_start().filter(|_| self.arch() == Arch::X86_64) else {
            return Some(Table::default());
        };
        let mut builder = Builder::new(self);
        builder.go();
        if let Some(eh_frame) = self.eh_frame() {
            builder.section(Section::EhFrame, &eh_frame, &self.bases(), goes_on);
        }
        for at in 0..2 {
            if self.has_debug_frame(at) {
                let section = Section::DebugFrame(at);
                builder.section(section, &self.debug_frame(at), &BaseAddresses::default(), goes_on);
            }
        }
        goes_on().then(|| builder.finish(start))
    }

    /// Size in bytes of the data that [`Self::table`] is built from: the cost of building it grows with this size.
    pub fn table_source(&self) -> usize {
        self.eh_frame_len() + self.go().map_or(0, |layout| layout.range().len() / 8)
    }

    /// [`Table::start`] of the file's table.
    pub fn table_start(&self) -> Option<u64> {
        Some(self.code_start()? & !0xffff)
    }
}

/// Code of one FDE or one Go function.
struct Span {
    start: u64,
    end: u64,
    /// Precedence of its source: Go's own table comes first, then `.eh_frame`.
    order: u8,
    /// Range of its rows in [`Builder::rows`].
    rows: std::ops::Range<usize>,
}

struct Builder<'a> {
    info: &'a UnwindInfo,
    /// gimli's scratch memory; `None` while it is in use.
    context: Option<Box<Context>>,
    numbers: HashMap<TableRule, u16, FixedState>,
    rules: Vec<TableRule>,
    rows: Vec<(u64, u16)>,
    spans: Vec<Span>,
}

impl<'a> Builder<'a> {
    fn new(info: &'a UnwindInfo) -> Self {
        Self {
            info,
            context: None,
            numbers: HashMap::default(),
            rules: Vec::new(),
            rows: Vec::new(),
            spans: Vec::new(),
        }
    }

    /// Returns the number of a rule. The largest programs have some thousands of distinct rules. A made-up file may
    /// have more than 65,536: then the last number is that of [`TableRuleKind::Bad`], for all further rules.
    fn number(&mut self, rule: TableRule) -> u16 {
        if let Some(&number) = self.numbers.get(&rule) {
            return number;
        }
        let rule = if self.rules.len() < usize::from(u16::MAX) {
            rule
        } else {
            TableRule::of(TableRuleKind::Bad)
        };
        let rules = &mut self.rules;
        *self.numbers.entry(rule).or_insert_with(|| {
            rules.push(rule);
            // No more rules are pushed once the last number is taken.
            (rules.len() - 1) as u16
        })
    }

    /// Adds the rules of Go functions.
    fn go(&mut self) {
        let info = self.info;
        info.go_rules(|mut function, rules| {
            let first = self.rows.len();
            for (address, rule) in rules {
                let rule = match rule {
                    Rule::Compact(compact) => from_compact(compact),
                    Rule::Root => TableRule::of(TableRuleKind::Root),
                    Rule::Missing(Tableless::SignalReturn) => SIGNAL,
                    Rule::Switch { register, offset } => TableRule {
                        base: *register,
                        add: 1,
                        offset: *offset,
                        ..TableRule::of(TableRuleKind::Offset)
                    },
                    Rule::Goroutine(Goroutine::Current { current, add }) => TableRule {
                        base: R14,
                        add: *add,
                        offset: *current,
                        ..TableRule::of(TableRuleKind::Goroutine)
                    },
                    Rule::Goroutine(Goroutine::Kept { goroutine, depth, add }) => TableRule {
                        base: *depth,
                        add: *add,
                        offset: i32::from(*goroutine),
                        ..TableRule::of(TableRuleKind::KeptGoroutine)
                    },
                    _ => TableRule::default(),
                };
                let number = self.number(rule);
                self.rows.push((*address, number));
            }
            // A return address is looked up one byte back, here in the padding before the function.
            let before = function.start.saturating_sub(1)..function.start;
            if matches!(rules, [(_, Rule::Missing(_))]) && info.is_padding(&before) {
                self.rows[first].0 = before.start;
                function.start = before.start;
                if let Some(last) = self.spans.last_mut() {
                    last.end = last.end.min(before.start);
                }
            }
            let rows = first..self.rows.len();
            self.spans.push(Span { start: function.start, end: function.end, order: 0, rows });
        });
    }

    /// Adds all entries of a section, as long as `goes_on` returns true. Entries after a damaged one are left out.
    fn section<'s, U>(
        &mut self,
        place: Section,
        section: &U,
        bases: &BaseAddresses,
        goes_on: &dyn Fn() -> bool,
    ) where
        U: UnwindSection<Slice<'s>>,
    {
        let order = match place {
            Section::EhFrame => 1,
            Section::DebugFrame(at) => 2 + at as u8,
        };
        let mut entries = section.entries(bases);
        // Thousands of consecutive entries have the same CIE.
        let mut last_cie: Option<(usize, gimli::CommonInformationEntry<Slice<'s>>)> = None;
        while let Ok(Some(entry)) = entries.next() {
            if !goes_on() {
                return;
            }
            let CieOrFde::Fde(partial) = entry else { continue };
            let fde = partial.parse(|section, bases, offset| {
                let at: usize = UnwindOffset::into(offset);
                match &last_cie {
                    Some((last, cie)) if *last == at => Ok(cie.clone()),
                    _ => {
                        let cie = section.cie_from_offset(bases, offset)?;
                        last_cie = Some((at, cie.clone()));
                        Ok(cie)
                    }
                }
            });
            // Functions that the linker discarded remain in `.debug_frame` with address 0.
            let Ok(fde) = fde else { continue };
            let (start, end) = (fde.initial_address(), fde.end_address());
            if start == 0 || end <= start {
                continue;
            }
            let first = self.rows.len();
            if self.entry(place, section, bases, &fde).is_err() {
                self.rows.truncate(first);
            }
            if self.rows.len() == first {
                let bad = self.number(TableRule::of(TableRuleKind::Bad));
                self.rows.push((start, bad));
            }
            self.spans.push(Span { start, end, order, rows: first..self.rows.len() });
        }
    }

    /// Adds the rows of one FDE.
    fn entry<'s, U>(
        &mut self,
        place: Section,
        section: &U,
        bases: &BaseAddresses,
        fde: &gimli::FrameDescriptionEntry<Slice<'s>>,
    ) -> gimli::Result<()>
    where
        U: UnwindSection<Slice<'s>>,
    {
        let (start, end) = (fde.initial_address(), fde.end_address());
        let source = RowSource {
            arch: self.info.arch(),
            section: place,
            unwind_section: section,
            return_address: fde.cie().return_address_register(),
            signal: fde.is_signal_trampoline(),
        };
        let mut context = self.context.take().unwrap_or_else(|| Box::new(Context::new_in()));
        let mut rows = fde.rows(section, bases, &mut context)?;
        while let Some(row) = rows.next_row()? {
            let number = self.number(convert(&source, row));
            self.rows.push((row.start_address().clamp(start, end), number));
        }
        self.context = Some(context);
        Ok(())
    }

    /// Builds the table from the sorted spans and, between them, from instructions.
    fn finish(mut self, start: u64) -> Table {
        let parts = self.parts(start);
        let is_gap = |part: &Part| matches!(part, Part::Gap { guessed: true, .. });
        let gaps: Vec<_> = parts.iter().filter(|part| is_gap(part)).map(Part::range).collect();
        let starts = if gaps.is_empty() { Vec::new() } else { self.info.function_starts(&gaps) };
        let mut out = Rows { start, rows: Vec::with_capacity(self.rows.len()) };
        let mut covered = start;
        for part in parts {
            match part {
                Part::Span(span) => {
                    // A return address is looked up one byte back, here in the padding between two functions.
                    if span.start > covered && self.may_start_contexts(&span) {
                        let root = self.number(PREPARED);
                        out.push(span.start - 1, root);
                    }
                    covered = span.end;
                    for at in span.rows.clone() {
                        let (address, number) = self.rows[at];
                        out.push(address, number);
                    }
                }
                Part::Gap { range, guessed } => {
                    let none = self.number(TableRule::default());
                    out.push(range.start, none);
                    if guessed {
                        let from = starts.partition_point(|&start| start < range.start);
                        let to = starts.partition_point(|&start| start < range.end);
                        self.gap(&range, &starts[from..to], none, &mut out);
                        out.push(range.end, none);
                    }
                }
            }
        }
        Table { start, rows: out.rows, rules: self.rules }
    }

    /// Returns true if contexts (as of `makecontext`) start at a function. For nearly all functions, their code
    /// rules this out at once.
    fn may_start_contexts(&self, span: &Span) -> bool {
        let is_eh_frame = span.order == 1;
        let len = usize::try_from(span.end - span.start).unwrap_or(usize::MAX);
        let returns = || {
            let code = self.info.code(span.start, len);
            !code.is_some_and(code::ends_without_return)
        };
        !(is_eh_frame && returns()) && self.info.starts_contexts(span.start)
    }
}

/// Rows of the resulting table.
struct Rows {
    start: u64,
    rows: Vec<TableRow>,
}

impl Rows {
    fn push(&mut self, address: u64, rule: u16) {
        let Some(Ok(offset)) = address.checked_sub(self.start).map(u32::try_from) else { return };
        if let Some(last) = self.rows.last_mut() {
            if last.offset == offset {
                last.rule = rule;
                return;
            }
            if last.rule == rule || last.offset > offset {
                return;
            }
        }
        self.rows.push(TableRow { offset, rule });
    }
}

fn convert<'s, U, S>(source: &RowSource<'_, U>, row: &gimli::UnwindTableRow<usize, S>) -> TableRule
where
    U: UnwindSection<Slice<'s>>,
    S: gimli::UnwindContextStorage<usize>,
{
    match rule::compile(source, row) {
        Compiled::Rule(Rule::Compact(compact)) => from_compact(&compact),
        Compiled::Rule(Rule::Root) => TableRule::of(TableRuleKind::Root),
        Compiled::Rule(_) => TableRule::of(TableRuleKind::Bad),
        Compiled::Row(_) if source.signal => SIGNAL,
        Compiled::Row(_) => realigned(source, row)
            .or_else(|| linked(source, row))
            .unwrap_or(TableRule::of(TableRuleKind::Bad)),
    }
}

fn from_compact(compact: &Compact) -> TableRule {
    let mut rule = match compact.cfa {
        Cfa::Offset { register, offset } => {
            TableRule { base: register, offset, ..TableRule::of(TableRuleKind::Offset) }
        }
        Cfa::Deref { register, add, offset } => {
            TableRule { base: register, add, offset, ..TableRule::of(TableRuleKind::Deref) }
        }
        Cfa::Plt { first } => TableRule { base: first, ..TableRule::of(TableRuleKind::Plt) },
        Cfa::Guess { register, offset, .. } => {
            TableRule { base: register, offset, ..TableRule::of(TableRuleKind::Offset) }
        }
        Cfa::GuessDeref { register, words, offset, .. } => TableRule {
            base: register,
            add: 8 * i16::from(words),
            offset,
            ..TableRule::of(TableRuleKind::Deref)
        },
    };
    rule.saved.copy_from_slice(&compact.saved[..6]);
    if let Some(lost) = compact.cfa.lost() {
        rule.flags = TableRule::GUESS | lost << 1;
    }
    rule
}

/// Rule for code with the return address in a register: the C library's `vfork`, whose child uses the stack.
fn linked<U, S>(
    source: &RowSource<'_, U>,
    row: &gimli::UnwindTableRow<usize, S>,
) -> Option<TableRule>
where
    S: gimli::UnwindContextStorage<usize>,
{
    const RSP: u16 = 7;
    let CfaRule::RegisterAndOffset { register: gimli::Register(RSP), offset } = row.cfa() else {
        return None;
    };
    let offset = i32::try_from(*offset).ok().filter(|offset| *offset >= 0)?;
    let RegisterRule::Register(link) = row.register(source.return_address)? else { return None };
    let base = u8::try_from(link.0).ok().filter(|base| *base < 16)?;
    row.registers()
        .all(|(register, how)| {
            *register == source.return_address
                || *how == RegisterRule::SameValue
                || !Arch::X86_64.finds_callers(register.0)
                // Saved below the stack pointer, so it has been restored already: functions that raise exceptions
                // end with a jump to the handler.
                || matches!(how, RegisterRule::Offset(at) if at.saturating_add(offset.into()) < 0)
        })
        .then(|| TableRule { base, offset, ..TableRule::of(TableRuleKind::Link) })
}

/// Rule for functions in which GCC realigns the stack: the CFA is in memory or in a separate register, and
/// registers are saved at offsets from `rbp`.
fn realigned<'s, U, S>(
    source: &RowSource<'_, U>,
    row: &gimli::UnwindTableRow<usize, S>,
) -> Option<TableRule>
where
    U: UnwindSection<Slice<'s>>,
    S: gimli::UnwindContextStorage<usize>,
{
    const RBP: u8 = 6;
    let cfa = match row.cfa() {
        CfaRule::Expression(expression) => rule::known_expression(source, expression)?,
        // The previous stack pointer is in a register again.
        CfaRule::RegisterAndOffset { register, offset } => Cfa::Offset {
            register: u8::try_from(register.0).ok().filter(|&register| register < 16)?,
            offset: i32::try_from(*offset).ok()?,
        },
    };
    let mut rule = from_compact(&Compact { cfa, saved: [0; 12] });
    rule.below_fp = 1;
    for (register, how) in row.registers() {
        let at = Arch::X86_64.saved().iter().position(|&saved| u16::from(saved) == register.0);
        match (at, how) {
            (_, RegisterRule::SameValue) => {}
            (None, RegisterRule::Offset(-8)) if register.0 == 16 => {}
            (None, _) if !Arch::X86_64.finds_callers(register.0) => {}
            (Some(at), RegisterRule::Expression(expression)) => {
                let (base, offset) = register_offset(source, expression)?;
                let below = 8i64.checked_sub(offset).filter(|below| below % 8 == 0)? / 8;
                rule.saved[at] = u8::try_from(below).ok().filter(|_| base == RBP)?;
            }
            _ => return None,
        }
    }
    Some(rule)
}

/// Decodes an expression that consists of `breg R, offset` only.
fn register_offset<'s, U>(
    source: &RowSource<'_, U>,
    expression: &UnwindExpression<usize>,
) -> Option<(u8, i64)>
where
    U: UnwindSection<Slice<'s>>,
{
    let mut operations = expression.get(source.unwind_section).ok()?.operations(ENCODING);
    let Some(Operation::RegisterOffset { register, offset, .. }) = operations.next().ok()? else {
        return None;
    };
    operations.next().ok()?.is_none().then_some((u8::try_from(register.0).ok()?, offset))
}

#[cfg(test)]
mod tests;
