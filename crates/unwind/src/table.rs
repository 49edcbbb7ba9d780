//! All rules of a file at once, as rows to be searched by something that cannot read DWARF: the
//! unwinder inside of the kernel.

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

/// The kind of a [`TableRule`], [`TableRule::kind`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum TableRuleKind {
    /// There is no table for this code: its frame pointer may lead on.
    #[default]
    None = 0,
    /// The CFA is `base + offset`.
    Offset = 1,
    /// The CFA is `*(base + offset) + add`.
    Deref = 2,
    /// The CFA is `rsp + 8`, and 8 more from byte `base` of a 16-byte entry on.
    Plt = 3,
    /// The first frame of a thread.
    Root = 4,
    /// A frame that the kernel made to run a signal handler: `rsp` points behind the first word of
    /// `struct rt_sigframe`.
    Signal = 5,
    /// The table says something for which there is no form here.
    Bad = 6,
    /// The CFA is `rsp + offset`, and the return address is in register `base`.
    Link = 7,
    /// Of Go: register `base` points to what stands for the thread; the CFA is `*(*(*(base + 0x30) + offset) + 0x38) + add`, on the
    /// stack of the goroutine for which it runs.
    Goroutine = 8,
    /// Of Go: with `goroutine = *(rsp + offset)` and `depth = *(rsp + base)`, the CFA is `*(goroutine + 8) - depth + add`, or
    /// `depth + add` where there is no goroutine.
    KeptGoroutine = 9,
}

/// Where Go's code keeps what stands for the goroutine or the thread.
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

/// How to get from a frame to its caller, in 16 bytes. The return address is the word below the
/// canonical frame address (CFA), which is the caller's stack pointer, but for what
/// [`TableRuleKind::Link`] says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct TableRule {
    /// How the CFA is found.
    pub kind: TableRuleKind,
    /// The register that it is counted from, by its DWARF number.
    pub base: u8,
    /// Added at the end. Of [`TableRuleKind::Offset`], 1: the CFA is on another stack than the frame.
    /// Of [`TableRuleKind::Root`] and [`TableRuleKind::Signal`], which have no CFA:
    /// added to a return address less 1 to have the address to look up.
    pub add: i16,
    /// Added to the register.
    pub offset: i32,
    /// Where the function saved `rbp`, `rbx`, `r12`, `r13`, `r14`, `r15`: words below the CFA;
    /// 0: they are what they were.
    pub saved: [u8; 6],
    /// 1: the words are below `rbp + 8`, not the CFA, in functions that realign their stack.
    pub below_fp: u8,
    /// [`Self::GUESS`], and above it a bit for each register of `saved` that is not known in the caller.
    pub flags: u8,
}

impl Hash for TableRule {
    // A rule is looked up for every row: two words take a tenth of what all fields one by one do.
    fn hash<H: Hasher>(&self, to: &mut H) {
        let bytes = u128::from_le_bytes(self.to_bytes());
        to.write_u64(bytes as u64);
        to.write_u64((bytes >> 64) as u64);
    }
}

/// The handler returns to the trampoline's first byte, where nothing was called.
const SIGNAL: TableRule = TableRule { add: 1, ..TableRule::of(TableRuleKind::Signal) };

/// Just before the first byte of code that a stack was prepared to return to.
const PREPARED: TableRule = TableRule { add: 1, ..TableRule::of(TableRuleKind::Root) };

impl TableRule {
    /// In [`Self::flags`]: the rule comes from the instructions, not from a table, and may be wrong.
    pub const GUESS: u8 = 1;

    const fn of(kind: TableRuleKind) -> Self {
        Self { kind, base: 0, add: 0, offset: 0, saved: [0; 6], below_fp: 0, flags: 0 }
    }
}

/// From `offset` on, [`Table::rules`]`[rule]` holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableRow {
    /// Distance from [`Table::start`].
    pub offset: u32,
    /// Which rule.
    pub rule: u16,
}

/// The rules of a file for all of its code.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// Virtual address that the rows are counted from: the file's lowest address of code, rounded down
    /// to 64 KiB.
    pub start: u64,
    /// Sorted; each differs in its rule from the one before. What is before the first has no rule.
    pub rows: Vec<TableRow>,
    /// The distinct rules.
    pub rules: Vec<TableRule>,
}

impl Table {
    /// The rule for a virtual address.
    pub fn rule(&self, svma: u64) -> Option<&TableRule> {
        let offset = u32::try_from(svma.checked_sub(self.start)?).ok()?;
        let after = self.rows.partition_point(|row| row.offset <= offset);
        let row = self.rows.get(after.checked_sub(1)?)?;
        self.rules.get(usize::from(row.rule))
    }
}

impl UnwindInfo {
    /// All rules of the file; without rows if it is not for x86-64, or has no table.
    ///
    /// Code for which the file has no table has rows with [`TableRuleKind::None`], but for what is
    /// known by its instructions.
    pub fn table(&self) -> Table {
        self.table_while(&|| true).unwrap_or_default()
    }

    /// The same; `None` once it is not to go on. That of a large program takes seconds on a busy machine.
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

    /// How many bytes [`Self::table`] is made of: what it takes to make it grows with that.
    pub fn table_source(&self) -> usize {
        self.eh_frame_len() + self.go().map_or(0, |layout| layout.range().len() / 8)
    }

    /// [`Table::start`] of [`Self::table`].
    pub fn table_start(&self) -> Option<u64> {
        Some(self.code_start()? & !0xffff)
    }
}

/// The code that one frame description entry is for.
struct Span {
    start: u64,
    end: u64,
    /// Go's own table comes first, then `.eh_frame`.
    order: u8,
    /// Its rows in [`Builder::rows`].
    rows: std::ops::Range<usize>,
}

struct Builder<'a> {
    info: &'a UnwindInfo,
    /// gimli's scratch memory; none while it is in use.
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

    /// The number of a rule. There are some thousands of distinct ones in the largest programs; what
    /// a made-up file has beyond 65,535 are left out.
    fn number(&mut self, rule: TableRule) -> u16 {
        if let Some(&number) = self.numbers.get(&rule) {
            return number;
        }
        let Ok(number) = u16::try_from(self.rules.len()) else { return 0 };
        self.rules.push(rule);
        self.numbers.insert(rule, number);
        number
    }

    /// Takes in the functions of Go.
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
            // A return address is looked up one byte back, in what fills the room.
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

    /// Reads all entries of a section, while it is to go on; what comes after a damaged one is left out.
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
        // Thousands of entries in a row have the same common part.
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
            // Functions that the linker left out stay in `.debug_frame` with address 0.
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

    /// Adds the rows of one entry.
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

    /// Puts the spans in order, and between them what the instructions say.
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
                    // Where a return address is looked up: what is there fills the room between two.
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

    /// Returns true if a function is where contexts start. Of nearly all its code says at once that it is not.
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

/// The rows that come out.
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

/// The return address is in a register: in the C library's `vfork`, whose child uses the stack.
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
                // Below the stack pointer, so that it has been restored: the last instruction of the
                // functions that raise exceptions jumps to the handler.
                || matches!(how, RegisterRule::Offset(at) if at.saturating_add(offset.into()) < 0)
        })
        .then(|| TableRule { base, offset, ..TableRule::of(TableRuleKind::Link) })
}

/// GCC's functions that realign their stack: the CFA is in memory or in a register of its own, and
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
        // Where the stack pointer of before is in a register again.
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

/// `breg R, offset` and nothing more.
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
