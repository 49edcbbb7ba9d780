//! Where the value of a variable is: DWARF expressions, as far as they can be followed without running them.
//!
//! An expression is evaluated with registers as unknowns. What can be followed is a register or a fixed address to
//! which numbers are added, and whatever memory this leads to. That is what compilers write for nearly all variables.

use std::fmt;
use std::ops::Range;

use gimli::{AttributeValue, Encoding, Expression, Operation, Register};

use crate::frame::frame_address;
use crate::functions::Body;
use crate::program::{EntryId, Reader, View};

/// Maximum number of operations of an expression that are followed.
const MAX_OPERATIONS: usize = 64;

/// A number that is computed from a register or a fixed address: the steps are applied in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Number {
    /// Start value of the first step.
    pub base: Base,
    /// The steps.
    pub steps: Vec<Step>,
}

/// The beginning of a [`Number`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    /// Value of a register, by its number in DWARF.
    Register(u16),
    /// The same, as it was when the function was called that returns.
    Called(u16),
    /// An address in the file, as it is before the file is loaded.
    Static(u64),
    /// An offset in the thread's block of the file.
    ThreadLocal(u64),
    /// A constant.
    Constant(u64),
}

/// A step of a [`Number`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A number is added.
    Add(i64),
    /// The memory at this address, of so many bytes, is the value.
    Load(u8),
}

/// Where a value is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// In a register, by its number in DWARF.
    Register(u16),
    /// In memory at an address.
    Memory(Number),
    /// Nowhere: it is computed.
    Computed(Number),
    /// Nowhere: its bytes are known.
    Bytes(Vec<u8>),
    /// In parts, each with its size in bits. `None`: optimized out.
    Parts(Vec<(Option<Location>, u64)>),
}

/// Reasons why a variable cannot be read at an instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Gone {
    /// It has no location anywhere in the function.
    OptimizedOut,
    /// It has a location at other addresses only.
    Elsewhere(Vec<Range<u64>>),
    /// Only the value that it had when the function was called is known.
    AtEntry,
    /// The compiler describes it in a way that cannot be followed.
    NotFollowed(&'static str),
}

impl fmt::Display for Gone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OptimizedOut => f.write_str("optimized out"),
            Self::Elsewhere(_) => f.write_str("not available here"),
            Self::AtEntry => f.write_str("known at the function's entry only"),
            Self::NotFollowed(what) => write!(f, "computed by {what}, which is not followed"),
        }
    }
}

impl Number {
    pub(crate) fn of(base: Base) -> Self {
        Self { base, steps: Vec::new() }
    }

    pub(crate) fn add(mut self, number: i64) -> Self {
        match (self.steps.last_mut(), &mut self.base) {
            (Some(Step::Add(last)), _) => *last = last.wrapping_add(number),
            (None, Base::Constant(value) | Base::Static(value) | Base::ThreadLocal(value)) => {
                *value = value.wrapping_add_signed(number);
            }
            _ if number != 0 => self.steps.push(Step::Add(number)),
            _ => {}
        }
        if self.steps.last() == Some(&Step::Add(0)) {
            self.steps.pop();
        }
        self
    }

    pub(crate) fn load(mut self, size: u8) -> Self {
        self.steps.push(Step::Load(size));
        self
    }

    fn constant(&self) -> Option<u64> {
        match self.base {
            Base::Constant(value) if self.steps.is_empty() => Some(value),
            _ => None,
        }
    }
}

impl<'a> View<'a> {
    /// Where a variable or parameter is when the instruction at an address begins.
    pub(crate) fn location(
        &self,
        id: EntryId,
        body: &Body,
        address: u64,
    ) -> Result<Location, Gone> {
        if let Some((_, value)) = self.attribute(id, gimli::DW_AT_const_value) {
            return constant(value).ok_or(Gone::NotFollowed("a constant of an unknown form"));
        }
        let place = self.attribute(id, gimli::DW_AT_location);
        let Some((unit, value)) = place else { return Err(Gone::OptimizedOut) };
        let damaged = |_| Gone::NotFollowed("damaged debug information");
        let expression = match value {
            AttributeValue::Exprloc(expression) => expression,
            value => self.covering(unit, value, address).map_err(damaged)??,
        };
        self.evaluate(unit, expression, body, address)
    }

    /// The expression of a list that is valid at an address.
    fn covering(
        &self,
        unit: usize,
        value: AttributeValue<Reader<'a>>,
        address: u64,
    ) -> gimli::Result<Result<Expression<Reader<'a>>, Gone>> {
        let of = &self.units[unit];
        let Some(mut list) = self.dwarf.attr_locations(of, value)? else {
            return Ok(Err(Gone::OptimizedOut));
        };
        let mut elsewhere = Vec::new();
        while let Some(entry) = list.next()? {
            let range = entry.range.begin..entry.range.end;
            if entry.data.0.is_empty() {
                continue;
            }
            if range.contains(&address) {
                return Ok(Ok(entry.data));
            }
            elsewhere.push(range);
        }
        Ok(Err(match elsewhere.is_empty() {
            true => Gone::OptimizedOut,
            false => Gone::Elsewhere(elsewhere),
        }))
    }

    /// Follows an expression.
    fn evaluate(
        &self,
        unit: usize,
        expression: Expression<Reader<'a>>,
        body: &Body,
        address: u64,
    ) -> Result<Location, Gone> {
        let encoding = self.units[unit].encoding();
        let mut stack: Vec<Number> = Vec::new();
        let mut parts: Vec<(Option<Location>, u64)> = Vec::new();
        let mut done: Option<Location> = None;
        for operation in operations(expression, encoding)? {
            let top = |stack: &mut Vec<Number>| {
                stack.pop().ok_or(Gone::NotFollowed("damaged debug information"))
            };
            match operation {
                Operation::Register { register } => done = Some(Location::Register(register.0)),
                Operation::RegisterOffset { register: Register(register), offset, .. } => {
                    stack.push(Number::of(Base::Register(register)).add(offset));
                }
                Operation::FrameOffset { offset } => {
                    stack.push(self.frame_base(body, address)?.add(offset));
                }
                Operation::CallFrameCFA => stack.push(self.frame_address(address)?),
                Operation::Address { address } => stack.push(Number::of(Base::Static(address))),
                Operation::AddressIndex { index } => {
                    let address = self.dwarf.address(&self.units[unit], index);
                    let address = address.map_err(|_| Gone::NotFollowed("a missing address"))?;
                    stack.push(Number::of(Base::Static(address)));
                }
                Operation::UnsignedConstant { value } => {
                    stack.push(Number::of(Base::Constant(value)));
                }
                Operation::SignedConstant { value } => {
                    stack.push(Number::of(Base::Constant(value.cast_unsigned())));
                }
                Operation::PlusConstant { value } => {
                    let number = top(&mut stack)?.add(value.cast_signed());
                    stack.push(number);
                }
                Operation::Plus | Operation::Minus => {
                    let (second, first) = (top(&mut stack)?, top(&mut stack)?);
                    let is_sum = matches!(operation, Operation::Plus);
                    stack.push(sum(first, second, is_sum)?);
                }
                Operation::Deref { size, space: false, .. } => {
                    let number = top(&mut stack)?.load(size);
                    stack.push(number);
                }
                Operation::TLS => {
                    let offset = top(&mut stack)?.constant();
                    let offset =
                        offset.ok_or(Gone::NotFollowed("a place in thread-local memory"))?;
                    stack.push(Number::of(Base::ThreadLocal(offset)));
                }
                Operation::StackValue => done = Some(Location::Computed(top(&mut stack)?)),
                Operation::ImplicitValue { data } => {
                    done = Some(Location::Bytes(data.slice().to_vec()));
                }
                Operation::Piece { size_in_bits, bit_offset: None | Some(0) } => {
                    let part = done.take().or_else(|| stack.pop().map(Location::Memory));
                    parts.push((part, size_in_bits));
                }
                Operation::Nop | Operation::Uninitialized => {}
                Operation::EntryValue { .. } | Operation::ParameterRef { .. } => {
                    return Err(Gone::AtEntry);
                }
                Operation::ImplicitPointer { .. } => {
                    return Err(Gone::NotFollowed("a pointer to what is in no memory"));
                }
                _ => return Err(Gone::NotFollowed("arithmetic")),
            }
        }
        match (parts.is_empty(), done, stack.pop()) {
            (false, None, None) => Ok(Location::Parts(parts)),
            (true, Some(done), _) => Ok(done),
            (true, None, Some(number)) => Ok(Location::Memory(number)),
            (true, None, None) => Err(Gone::OptimizedOut),
            _ => Err(Gone::NotFollowed("damaged debug information")),
        }
    }

    /// The address of the frame (DWARF's CFA) when the instruction at `address` begins: what the stack pointer is when the
    /// function has returned.
    ///
    /// # Errors
    ///
    /// If there is no unwind table for it.
    pub fn frame_address(&self, address: u64) -> Result<Number, Gone> {
        match frame_address(self.program, address) {
            Some((register, offset)) => Ok(Number::of(Base::Register(register.0)).add(offset)),
            None => Err(Gone::NotFollowed("a frame without unwind tables")),
        }
    }

    /// The address that offsets of local variables are relative to.
    fn frame_base(&self, body: &Body, address: u64) -> Result<Number, Gone> {
        let missing = || Gone::NotFollowed("a missing frame");
        let (unit, value) =
            self.attribute(body.frame, gimli::DW_AT_frame_base).ok_or_else(missing)?;
        let expression = match value {
            AttributeValue::Exprloc(expression) => expression,
            value => self.covering(unit, value, address).map_err(|_| missing())??,
        };
        // It may not refer to itself.
        match operations(expression, self.units[unit].encoding())?.as_slice() {
            [Operation::CallFrameCFA] => self.frame_address(address),
            [Operation::Register { register: Register(register) }] => {
                Ok(Number::of(Base::Register(*register)))
            }
            [Operation::RegisterOffset { register: Register(register), offset, .. }] => {
                Ok(Number::of(Base::Register(*register)).add(*offset))
            }
            _ => Err(Gone::NotFollowed("an unusual frame")),
        }
    }
}

fn operations<'a>(
    expression: Expression<Reader<'a>>,
    encoding: Encoding,
) -> Result<Vec<Operation<Reader<'a>>>, Gone> {
    let damaged = || Gone::NotFollowed("damaged debug information");
    let mut all = Vec::new();
    let mut rest = expression.operations(encoding);
    while let Some(operation) = rest.next().map_err(|_| damaged())? {
        if all.len() == MAX_OPERATIONS {
            return Err(Gone::NotFollowed("arithmetic"));
        }
        all.push(operation);
    }
    Ok(all)
}

fn sum(first: Number, second: Number, is_sum: bool) -> Result<Number, Gone> {
    let signed = |number: u64| {
        if is_sum { number.cast_signed() } else { number.cast_signed().wrapping_neg() }
    };
    match (first.constant(), second.constant()) {
        (_, Some(number)) => Ok(first.add(signed(number))),
        (Some(number), None) if is_sum => Ok(second.add(number.cast_signed())),
        _ => Err(Gone::NotFollowed("arithmetic")),
    }
}

fn constant(value: AttributeValue<Reader<'_>>) -> Option<Location> {
    let number = match value {
        AttributeValue::Block(bytes) => return Some(Location::Bytes(bytes.slice().to_vec())),
        AttributeValue::String(text) => return Some(Location::Bytes(text.slice().to_vec())),
        AttributeValue::Data1(number) => number.into(),
        AttributeValue::Data2(number) => number.into(),
        AttributeValue::Data4(number) => number.into(),
        AttributeValue::Data8(number) | AttributeValue::Udata(number) => number,
        AttributeValue::Sdata(number) => number.cast_unsigned(),
        _ => return None,
    };
    Some(Location::Computed(Number::of(Base::Constant(number))))
}
