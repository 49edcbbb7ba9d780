//! Applies an unwind rule to the registers of a frame, which gives the registers of its caller.

use gimli::{CfaRule, EvaluationResult, Location, RegisterRule};

use crate::fallback::strip_authentication;
use crate::info::{Slice, UnwindInfo};
use crate::registers::{Arch, Memory, Registers};
use crate::rule::{Cfa, Compact, ENCODING, Row};

/// Reason why a rule could not be applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The rule needs bytes above the copied ones.
    Truncated,
    /// The rule needs bytes below the frame: these are on another stack, or the rule is wrong.
    OffStack,
    /// The rule needs a register whose value is unknown.
    UnknownRegister,
    /// The rule is invalid.
    Bad,
}

/// Reads a word that a rule expects on the stack.
#[inline]
fn load(stack: &Memory<'_>, address: u64) -> Result<u64, Failure> {
    stack.u64(address).ok_or_else(|| outside(stack, address))
}

#[cold]
fn outside(stack: &Memory<'_>, address: u64) -> Failure {
    if address < stack.start() { Failure::OffStack } else { Failure::Truncated }
}

#[inline]
fn known(registers: &Registers, register: u8) -> Result<u64, Failure> {
    registers.get(register).ok_or(Failure::UnknownRegister)
}

/// Applies a compact rule. If the rule needs an unknown register, nothing is changed.
#[inline]
pub(crate) fn compact(
    rule: &Compact,
    registers: &mut Registers,
    stack: &Memory<'_>,
) -> Result<(), Failure> {
    let arch = registers.arch();
    let cfa = match rule.cfa {
        Cfa::Offset { register, offset } | Cfa::Guess { register, offset, .. } => {
            known(registers, register)?.wrapping_add_signed(offset.into())
        }
        Cfa::Deref { register, add, offset } => {
            let address = known(registers, register)?.wrapping_add_signed(offset.into());
            load(stack, address)?.wrapping_add_signed(add.into())
        }
        Cfa::GuessDeref { register, words, offset, .. } => {
            let address = known(registers, register)?.wrapping_add_signed(offset.into());
            load(stack, address)?.wrapping_add_signed(8 * i64::from(words))
        }
        Cfa::Plt { first } => {
            let pushed = known(registers, arch.ip())? & 15 >= first.into();
            known(registers, arch.sp())?.wrapping_add(8 + 8 * u64::from(pushed))
        }
    };
    match arch {
        Arch::X86_64 => {
            let return_address = load(stack, cfa.wrapping_sub(8))?;
            restore::<6>(rule, cfa, registers, stack)?;
            if let Some(lost) = rule.cfa.lost() {
                forget(lost, registers);
            }
            registers.set(arch.ip(), return_address);
        }
        Arch::Aarch64 => {
            const LINK: u8 = 30;
            // The return address can be in the link register only in the innermost frame, or in one that a signal
            // interrupted; `Unwinder` notices if this leads nowhere.
            if rule.saved[1] == 0 {
                known(registers, LINK)?;
            }
            restore::<12>(rule, cfa, registers, stack)?;
            let return_address = known(registers, LINK)?;
            registers.set(arch.ip(), strip_authentication(return_address));
        }
    }
    registers.set(arch.sp(), cfa);
    Ok(())
}

/// Restores the registers that the function saved.
#[inline]
fn restore<const N: usize>(
    rule: &Compact,
    cfa: u64,
    registers: &mut Registers,
    stack: &Memory<'_>,
) -> Result<(), Failure> {
    for (&register, &words) in registers.arch().saved()[..N].iter().zip(&rule.saved) {
        if words != 0
            && let Some(value) = saved(stack, cfa.wrapping_sub(8 * u64::from(words)))?
        {
            registers.set(register, value);
        }
    }
    Ok(())
}

/// Marks registers as unknown that the function has changed without a visible save.
#[cold]
fn forget(lost: u8, registers: &mut Registers) {
    for (at, &register) in registers.arch().saved().iter().enumerate() {
        if u16::from(lost) >> at & 1 == 1 {
            registers.forget(register);
        }
    }
}

/// Reads a saved register; `None` if it has been restored already. Compilers do not record in the table that an
/// epilogue has restored a register, only that the stack pointer is above the location where it was saved.
#[inline]
fn saved(stack: &Memory<'_>, address: u64) -> Result<Option<u64>, Failure> {
    match stack.u64(address) {
        None if address < stack.start() => Ok(None),
        None => Err(Failure::Truncated),
        value => Ok(value),
    }
}

/// Applies a row of a DWARF table. The registers are changed only on success.
pub(crate) fn row(
    row: &Row,
    info: &UnwindInfo,
    registers: &mut Registers,
    stack: &Memory<'_>,
) -> Result<(), Failure> {
    let arch = registers.arch();
    let frame = Frame { row, info, registers, stack };
    let cfa = match &row.cfa {
        CfaRule::RegisterAndOffset { register, offset } => {
            let register = u8::try_from(register.0).map_err(|_| Failure::Bad)?;
            known(registers, register)?.wrapping_add_signed(*offset)
        }
        CfaRule::Expression(expression) => frame.evaluate(expression, None)?,
    };
    let mut caller = *registers;
    caller.set(arch.sp(), cfa);
    for (register, rule) in &row.registers {
        match frame.caller_value(*register, rule, cfa) {
            Ok(Value::Same) => {}
            Ok(Value::Unknown) => caller.forget(*register),
            Ok(Value::Known(value)) => caller.set(*register, value),
            // The value of any other register may never be needed.
            Err(_) if *register != row.return_address && *register != arch.sp() => {
                caller.forget(*register);
            }
            Err(failure) => return Err(failure),
        }
    }
    let has_rule = row.registers.iter().any(|(register, _)| *register == row.return_address);
    if arch == Arch::X86_64 && !has_rule {
        return Err(Failure::Bad);
    }
    let mut return_address = known(&caller, row.return_address)?;
    if arch == Arch::Aarch64 {
        return_address = strip_authentication(return_address);
    }
    caller.set(arch.ip(), return_address);
    *registers = caller;
    Ok(())
}

/// Frame whose memory and registers an expression may read.
struct Frame<'a> {
    row: &'a Row,
    info: &'a UnwindInfo,
    registers: &'a Registers,
    stack: &'a Memory<'a>,
}

/// Value of a register in the caller.
enum Value {
    Same,
    Unknown,
    Known(u64),
}

/// Storage for the evaluation of expressions. Its size is fixed, so that no table can make it grow.
struct Storage;

impl<'a> gimli::EvaluationStorage<Slice<'a>> for Storage {
    type Stack = [gimli::Value; 32];
    type ExpressionStack = [(Slice<'a>, Slice<'a>); 1];
    type Result = [gimli::Piece<Slice<'a>>; 1];
}

impl Frame<'_> {
    /// Computes the value of a register in the caller from its register rule.
    fn caller_value(
        &self,
        register: u8,
        rule: &RegisterRule<usize>,
        cfa: u64,
    ) -> Result<Value, Failure> {
        let value = match rule {
            RegisterRule::Undefined => return Ok(Value::Unknown),
            RegisterRule::Offset(offset) => {
                match saved(self.stack, cfa.wrapping_add_signed(*offset))? {
                    Some(value) => value,
                    None => return Ok(Value::Same),
                }
            }
            RegisterRule::ValOffset(offset) => cfa.wrapping_add_signed(*offset),
            RegisterRule::Register(other) => {
                let other = u8::try_from(other.0).map_err(|_| Failure::Bad)?;
                known(self.registers, other)?
            }
            RegisterRule::Expression(expression) => {
                let address = self.evaluate(expression, Some(cfa))?;
                if self.is_restored(register, address, cfa) {
                    return Ok(Value::Same);
                }
                load(self.stack, address)?
            }
            RegisterRule::ValExpression(expression) => self.evaluate(expression, Some(cfa))?,
            RegisterRule::Constant(value) => *value,
            // `SameValue`; `Architectural` has no meaning for these processors.
            _ => return Ok(Value::Same),
        };
        Ok(Value::Known(value))
    }

    /// Returns true if a register whose rule is an expression has been restored already. For functions that align
    /// their stack, GCC's tables say that `rbp` is saved where `rbp` points, even after the `leave` that restored
    /// it; then that address is outside of the frame.
    fn is_restored(&self, register: u8, address: u64, cfa: u64) -> bool {
        let sp = self.registers.sp().unwrap_or(self.stack.start());
        !self.row.signal && register == self.registers.arch().fp() && !(sp..cfa).contains(&address)
    }

    /// Evaluates an expression. Expressions for registers start with the CFA on the stack.
    fn evaluate(
        &self,
        expression: &gimli::UnwindExpression<usize>,
        cfa: Option<u64>,
    ) -> Result<u64, Failure> {
        /// Maximum number of operations: expressions have branches, so they can loop. Real ones have some ten
        /// operations.
        const MOST_OPERATIONS: u32 = 1000;
        let expression = self.info.expression(self.row.section, expression).ok_or(Failure::Bad)?;
        let mut evaluation =
            gimli::Evaluation::<Slice<'_>, Storage>::new_in(expression.0, ENCODING);
        evaluation.set_max_iterations(MOST_OPERATIONS);
        if let Some(cfa) = cfa {
            evaluation.set_initial_value(cfa);
        }
        let mut result = evaluation.evaluate().map_err(|_| Failure::Bad)?;
        loop {
            result = match result {
                EvaluationResult::Complete => break,
                EvaluationResult::RequiresRegister { register, .. } => {
                    let register = u8::try_from(register.0).map_err(|_| Failure::Bad)?;
                    evaluation.resume_with_register(gimli::Value::Generic(known(
                        self.registers,
                        register,
                    )?))
                }
                EvaluationResult::RequiresMemory { address, size, space: None, .. } => {
                    let value = self
                        .stack
                        .unsigned(address, size)
                        .ok_or_else(|| outside(self.stack, address))?;
                    evaluation.resume_with_memory(gimli::Value::Generic(value))
                }
                EvaluationResult::RequiresCallFrameCfa => {
                    evaluation.resume_with_call_frame_cfa(cfa.ok_or(Failure::Bad)?)
                }
                _ => return Err(Failure::Bad),
            }
            .map_err(|_| Failure::Bad)?;
        }
        match evaluation.as_result() {
            [gimli::Piece { location: Location::Address { address }, .. }] => Ok(*address),
            [gimli::Piece { location: Location::Value { value }, .. }] => {
                value.to_u64(u64::MAX).map_err(|_| Failure::Bad)
            }
            _ => Err(Failure::Bad),
        }
    }
}
