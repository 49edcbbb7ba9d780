//! Unwind rules: how to get from a frame to its caller. Unwind tables are compiled to these rules.
//!
//! Nearly all code follows a few patterns, so the common form, [`Compact`], has 20 bytes and no pointer: the
//! canonical frame address (CFA) is computed from one register, and the registers that the function saved are at
//! fixed offsets below it. Any other rule is kept as a [`Row`]: the row of the DWARF table, unchanged.

use gimli::{CfaRule, Operation, Reader, RegisterRule, UnwindExpression, UnwindSection};

use crate::code::Tableless;
use crate::info::Slice;
use crate::registers::{Arch, REGISTERS};

/// Canonical frame address (CFA) of a frame: the stack pointer in the caller after the call has returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Cfa {
    /// `register + offset`
    Offset { register: u8, offset: i32 },
    /// `*(register + offset) + add`: realigned stacks, OpenSSL's assembly.
    Deref { register: u8, add: i16, offset: i32 },
    /// `rsp + 8 + (ip & 15 >= first ? 8 : 0)`: linkers use this one rule for a whole section of x86-64 PLT entries,
    /// each of which has pushed its number from byte `first` on.
    Plt { first: u8 },
    /// Found from instructions, not from a table: `register + offset`. The registers of [`Arch::saved`] whose bit
    /// is set in `lost` are unknown in the caller.
    Guess { register: u8, lost: u8, offset: i32 },
    /// Found from instructions, too: `*(register + offset) + 8 * words`.
    GuessDeref { register: u8, words: i8, lost: u8, offset: i32 },
}

impl Cfa {
    /// Registers that are unknown in the caller, as bits, if the CFA was found from instructions.
    #[inline]
    pub(crate) fn lost(self) -> Option<u8> {
        match self {
            Self::Guess { lost, .. } | Self::GuessDeref { lost, .. } => Some(lost),
            _ => None,
        }
    }
}

/// Common form of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Compact {
    pub cfa: Cfa,
    /// For each register of [`Arch::saved`], the number of 8-byte words below the CFA at which it is saved; 0 if it
    /// is unchanged. On x86-64 the return address is always the first word.
    pub saved: [u8; 12],
}

/// Rule to get from a frame to its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    Compact(Compact),
    /// Index of a row in the unwinder's own list; rare.
    Row(u32),
    /// The return address is undefined: this is the first frame of a thread.
    Root,
    /// For return addresses: the address is the first byte of a function, and follows no call. A stack was prepared
    /// to return there, as by `makecontext`: this is its first frame, and its address is looked up unchanged.
    Prepared,
    /// The caller's frame is on another stack. Its stack pointer, with the return address below it, is
    /// `register + offset`.
    Switch {
        register: u8,
        offset: i32,
    },
    /// The caller's frame is on the stack of a goroutine.
    Goroutine(Goroutine),
    /// No table covers this address, but the frame may be found from its code.
    Missing(Tableless),
    /// Like [`Self::Missing`], for code that has not been analysed yet ([`UnreadCode`](crate::UnreadCode)).
    Unread,
    /// The tables are invalid for this address.
    Bad,
}

/// Location of a goroutine's stack while Go's runtime runs code for it on the stack of the thread. Each variant
/// gives the canonical frame address of the frame there; the return address is below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Goroutine {
    /// `r14` points to the thread's own `g`, which points to its `m`. This has at `current` the address of the
    /// goroutine, which has the saved stack pointer: `*(*(*(r14 + 0x30) + current) + 0x38) + add`.
    Current { current: i32, add: i16 },
    /// The frame keeps the address of the goroutine at `rsp + goroutine`, and the distance from its stack pointer
    /// to its stack's end at `rsp + depth`: `*(goroutine + 8) - depth + add`. If the goroutine is 0, the second
    /// word is the stack pointer itself.
    Kept { goroutine: u8, depth: u8, add: i16 },
}

impl Goroutine {
    /// Offsets in a `g`: end of its stack (`stack.hi`), its `m`, and its saved stack pointer (`sched.sp`), as in
    /// all releases since Go 1.5 (runtime/runtime2.go). The code patterns from which rules are found contain these
    /// numbers.
    pub(crate) const STACK_END: u8 = 0x08;
    pub(crate) const THREAD: u8 = 0x30;
    pub(crate) const STACK_POINTER: u8 = 0x38;

    /// Computes the canonical frame address; `read` reads a word of memory.
    pub(crate) fn cfa(
        self,
        rsp: Option<u64>,
        r14: Option<u64>,
        read: impl Fn(u64) -> Option<u64>,
    ) -> Option<u64> {
        let at = |base: u64, offset: u8| read(base.wrapping_add(offset.into()));
        let (sp, add) = match self {
            Self::Current { current, add } => {
                let thread = at(r14?, Self::THREAD)?;
                let goroutine = read(thread.wrapping_add_signed(current.into()))?;
                (at(goroutine, Self::STACK_POINTER)?, add)
            }
            Self::Kept { goroutine, depth, add } => {
                let kept = at(rsp?, depth)?;
                match at(rsp?, goroutine)? {
                    0 => (kept, add),
                    goroutine => (at(goroutine, Self::STACK_END)?.wrapping_sub(kept), add),
                }
            }
        };
        Some(sp.wrapping_add_signed(add.into()))
    }
}

/// Row of a DWARF table, for rules that [`Compact`] cannot express.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub cfa: CfaRule<usize>,
    pub registers: Box<[(u8, RegisterRule<usize>)]>,
    /// Register column that holds the return address.
    pub return_address: u8,
    /// True for a signal frame, which the kernel built to run a handler.
    pub signal: bool,
    /// Section that contains the row's expressions.
    pub section: Section,
}

/// Section that contains a [`Row`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Section {
    EhFrame,
    /// `.debug_frame` of the file itself (0) or its separate debug file (1).
    DebugFrame(usize),
}

/// Result of compiling a table row.
pub(crate) enum Compiled {
    Rule(Rule),
    Row(Row),
}

impl Compiled {
    pub(crate) fn is_missing(&self) -> bool {
        matches!(self, Self::Rule(Rule::Missing(_)))
    }
}

/// Properties of a table row that gimli does not store in the row itself.
pub(crate) struct RowSource<'a, U> {
    pub arch: Arch,
    pub section: Section,
    pub unwind_section: &'a U,
    pub return_address: gimli::Register,
    pub signal: bool,
}

/// Compiles a row of a DWARF table.
pub(crate) fn compile<'a, U, S>(
    source: &RowSource<'_, U>,
    row: &gimli::UnwindTableRow<usize, S>,
) -> Compiled
where
    U: UnwindSection<Slice<'a>>,
    S: gimli::UnwindContextStorage<usize>,
{
    if row.register(source.return_address) == Some(RegisterRule::Undefined) {
        return Compiled::Rule(Rule::Root);
    }
    if let Some(compact) = compact(source, row) {
        return Compiled::Rule(Rule::Compact(compact));
    }
    let registers = row
        .registers()
        .filter(|(register, _)| usize::from(register.0) < REGISTERS)
        .map(|(register, rule)| (register.0 as u8, rule.clone()))
        .collect();
    Compiled::Row(Row {
        cfa: row.cfa().clone(),
        registers,
        return_address: u8::try_from(source.return_address.0).unwrap_or(u8::MAX),
        signal: source.signal,
        section: source.section,
    })
}

fn compact<'a, U, S>(
    source: &RowSource<'_, U>,
    row: &gimli::UnwindTableRow<usize, S>,
) -> Option<Compact>
where
    U: UnwindSection<Slice<'a>>,
    S: gimli::UnwindContextStorage<usize>,
{
    let return_address = match source.arch {
        Arch::X86_64 => 16,
        Arch::Aarch64 => 30,
    };
    if source.signal || source.return_address.0 != return_address {
        return None;
    }
    let cfa = match row.cfa() {
        CfaRule::RegisterAndOffset { register, offset } => {
            Cfa::Offset { register: general(register.0)?, offset: i32::try_from(*offset).ok()? }
        }
        CfaRule::Expression(expression) => known_expression(source, expression)?,
    };
    let mut saved = [0; 12];
    let mut return_address_saved = source.arch == Arch::Aarch64;
    for (register, rule) in row.registers() {
        let at = source.arch.saved().iter().position(|&saved| u16::from(saved) == register.0);
        match (at, rule) {
            (_, RegisterRule::SameValue) => {}
            (Some(at), RegisterRule::Offset(offset)) => saved[at] = words_below(*offset)?,
            (None, RegisterRule::Offset(-8)) if register.0 == 16 => return_address_saved = true,
            (None, _) if !source.arch.finds_callers(register.0) => {}
            _ => return None,
        }
    }
    return_address_saved.then_some(Compact { cfa, saved })
}

fn general(register: u16) -> Option<u8> {
    u8::try_from(register).ok().filter(|&register| usize::from(register) < REGISTERS)
}

fn words_below(offset: i64) -> Option<u8> {
    let below = offset.checked_neg()?;
    (below > 0 && below % 8 == 0).then_some(below / 8).and_then(|words| u8::try_from(words).ok())
}

/// Decodes a CFA expression, if a compact rule has a form for it.
pub(crate) fn known_expression<'a, U>(
    source: &RowSource<'_, U>,
    expression: &UnwindExpression<usize>,
) -> Option<Cfa>
where
    U: UnwindSection<Slice<'a>>,
{
    const LONGEST: usize = 9;
    let expression = expression.get(source.unwind_section).ok()?;
    let mut operations = expression.operations(ENCODING);
    let mut list = [const { Operation::Nop }; LONGEST];
    let mut len = 0;
    while let Some(operation) = operations.next().ok()? {
        *list.get_mut(len)? = operation;
        len += 1;
    }
    match &list[..len] {
        [Operation::RegisterOffset { register, offset, .. }, rest @ ..] => match rest {
            [Operation::Deref { size: 8, space: false, .. }, rest @ ..] => Some(Cfa::Deref {
                register: general(register.0)?,
                offset: i32::try_from(*offset).ok()?,
                add: i16::try_from(addend(rest)?).ok()?,
            }),
            _ if register.0 == 7 && *offset == 8 => plt(rest),
            _ => None,
        },
        _ => None,
    }
}

/// Decodes the constant that is added at the end of an expression.
fn addend<R: Reader>(operations: &[Operation<R>]) -> Option<i64> {
    match operations {
        [] => Some(0),
        [Operation::PlusConstant { value }] => i64::try_from(*value).ok(),
        [Operation::SignedConstant { value }, Operation::Plus] => Some(*value),
        [Operation::UnsignedConstant { value }, Operation::Plus] => i64::try_from(*value).ok(),
        _ => None,
    }
}

/// Decodes the rest of `breg7 8; breg16 0; lit15; and; lit11; ge; lit3; shl; plus`.
fn plt<R: Reader>(operations: &[Operation<R>]) -> Option<Cfa> {
    use Operation::{And, Ge, Plus, RegisterOffset, Shl, UnsignedConstant};
    match operations {
        [
            RegisterOffset { register: gimli::Register(16), offset: 0, .. },
            UnsignedConstant { value: 15 },
            And,
            UnsignedConstant { value: first @ 0..=15 },
            Ge,
            UnsignedConstant { value: 3 },
            Shl,
            Plus,
        ] => Some(Cfa::Plt { first: *first as u8 }),
        _ => None,
    }
}

/// Encoding of expressions in unwind tables: 64-bit addresses; no operation in them depends on the DWARF version.
pub(crate) const ENCODING: gimli::Encoding =
    gimli::Encoding { address_size: 8, format: gimli::Format::Dwarf32, version: 5 };
