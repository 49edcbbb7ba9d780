//! Effect of one instruction on the known state.

use iced_x86::{
    Instruction, InstructionInfoFactory, InstructionInfoOptions, Mnemonic, OpAccess, OpKind,
    Register,
};

use super::state::{Kind, Place, RAX, RBP, RSP, State, Value, general};

/// Numbers of system calls (`arch/x86/entry/syscalls/syscall_64.tbl`).
pub(super) const RT_SIGRETURN: u16 = 15;
const CLONE: u16 = 56;
const CLONE3: u16 = 435;

/// Applies instructions to states.
pub(super) struct Effects {
    factory: InstructionInfoFactory,
}

impl Effects {
    pub(super) fn new() -> Self {
        Self { factory: InstructionInfoFactory::new() }
    }

    /// Applies a push of a word whose value is unknown.
    pub(super) fn push_unknown(&self, state: &mut State) {
        push(state, Value::Unknown);
    }

    /// Changes a state to the state after the instruction, for execution that continues at the next one.
    pub(super) fn apply(&mut self, state: &mut State, instruction: &Instruction) {
        if !matches!(state.kind, Kind::Function | Kind::Cloned) {
            return;
        }
        match instruction.mnemonic() {
            Mnemonic::Nop | Mnemonic::Endbr64 | Mnemonic::Cmp | Mnemonic::Test => {}
            Mnemonic::Push => push(state, operand(state, instruction, 0)),
            Mnemonic::Pop => pop(state, instruction),
            Mnemonic::Mov => mov(state, instruction),
            Mnemonic::Lea => set(state, instruction, address(state, instruction).map(Value::Stack)),
            Mnemonic::Add => add(state, instruction, 1),
            Mnemonic::Sub => add(state, instruction, -1),
            Mnemonic::Inc => step(state, instruction, 1),
            Mnemonic::Dec => step(state, instruction, -1),
            Mnemonic::And => and(state, instruction),
            Mnemonic::Xor => xor(state, instruction),
            Mnemonic::Leave => leave(state),
            Mnemonic::Enter => {
                push(state, state.registers[RBP]);
                state.registers[RBP] = state.registers[RSP];
                move_sp(state, -i64::from(instruction.immediate16()));
            }
            Mnemonic::Xchg => xchg(state, instruction),
            Mnemonic::Call => state.after_call(),
            Mnemonic::Syscall => syscall(state),
            Mnemonic::Or
            | Mnemonic::Shl
            | Mnemonic::Shr
            | Mnemonic::Sar
            | Mnemonic::Neg
            | Mnemonic::Not
            | Mnemonic::Adc
            | Mnemonic::Sbb
            | Mnemonic::Movzx
            | Mnemonic::Movsx
            | Mnemonic::Movsxd => set(state, instruction, None),
            _ => self.other(state, instruction),
        }
    }

    /// Marks everything that an instruction writes as unknown.
    fn other(&mut self, state: &mut State, instruction: &Instruction) {
        let is_vector = instruction.op_count() > 0
            && instruction.op0_kind() == OpKind::Register
            && instruction.op0_register().is_vector_register();
        if is_vector {
            return;
        }
        let options = InstructionInfoOptions::NO_MEMORY_USAGE;
        let info = self.factory.info_options(instruction, options);
        let writes = |access| {
            use OpAccess::{CondWrite, ReadCondWrite, ReadWrite, Write};
            matches!(access, Write | CondWrite | ReadWrite | ReadCondWrite)
        };
        let writes_memory = (0..instruction.op_count().min(5))
            .any(|at| instruction.op_kind(at) == OpKind::Memory && writes(info.op_access(at)));
        let sp = state.registers[RSP];
        for used in info.used_registers() {
            if let Some(register) = general(used.register()).filter(|_| writes(used.access())) {
                state.registers[register] = Value::Unknown;
            }
        }
        if instruction.is_stack_instruction() {
            state.registers[RSP] = sp;
            let by = i64::from(instruction.stack_pointer_increment());
            move_sp(state, by);
            if let Some(sp) = state.sp().filter(|_| by < 0) {
                state.store(sp, -by as i32, Value::Unknown);
            }
        }
        if writes_memory {
            store(state, instruction, Value::Unknown);
        }
    }
}

/// Returns true if an instruction certainly does not change the state. This holds for most instructions, and then
/// no state has to be created and looked up.
pub(super) fn leaves_alone(state: &State, instruction: &Instruction) -> bool {
    use Mnemonic::{
        Adc, Add, And, Cmp, Dec, Endbr64, Inc, Lea, Mov, Movsx, Movsxd, Movzx, Neg, Nop, Not, Or,
        Sar, Sbb, Shl, Shr, Sub, Test, Xor,
    };
    if !matches!(state.kind, Kind::Function | Kind::Cloned) {
        return true;
    }
    let mnemonic = instruction.mnemonic();
    match mnemonic {
        Nop | Endbr64 | Cmp | Test => return true,
        Adc | Add | And | Dec | Inc | Lea | Mov | Movsx | Movsxd | Movzx | Neg | Not | Or | Sar
        | Sbb | Shl | Shr | Sub | Xor => {}
        _ => return false,
    }
    match instruction.op0_kind() {
        OpKind::Register => {
            let Some(number) = general(instruction.op0_register()) else { return false };
            let stays = match mnemonic {
                Lea => address(state, instruction).is_none(),
                Mov if instruction.op1_kind() == OpKind::Register
                    || instruction.op1_kind() == OpKind::Memory =>
                {
                    operand(state, instruction, 1) == Value::Unknown
                }
                // May be the number of a system call.
                Mov | Xor => number != RAX,
                And => number != RSP,
                _ => true,
            };
            stays && state.registers[number] == Value::Unknown
        }
        OpKind::Memory => address(state, instruction).is_none(),
        _ => false,
    }
}

/// Value of an operand: a register or memory operand of 64 bits.
fn operand(state: &State, instruction: &Instruction, at: u32) -> Value {
    match instruction.op_kind(at) {
        OpKind::Register => {
            let register = instruction.op_register(at);
            match general(register) {
                Some(number) if register.is_gpr64() => state.registers[number],
                _ => Value::Unknown,
            }
        }
        OpKind::Memory if instruction.memory_size().size() == 8 => {
            address(state, instruction).map_or(Value::Unknown, |place| state.load(place))
        }
        _ => Value::Unknown,
    }
}

/// Address of a memory operand, if it is in the frame.
fn address(state: &State, instruction: &Instruction) -> Option<Place> {
    let base = instruction.memory_base();
    if !base.is_gpr64()
        || instruction.memory_index() != Register::None
        || instruction.segment_prefix() != Register::None
    {
        return None;
    }
    state.place(general(base)?)?.plus(instruction.memory_displacement64().cast_signed())
}

/// Sets the first operand to a value.
fn set(state: &mut State, instruction: &Instruction, value: Option<Value>) {
    let value = value.unwrap_or_default();
    match instruction.op0_kind() {
        OpKind::Register => {
            let register = instruction.op0_register();
            if let Some(number) = general(register) {
                let whole = register.is_gpr64() || matches!(value, Value::Constant(_));
                state.registers[number] = if whole { value } else { Value::Unknown };
            }
        }
        OpKind::Memory => store(state, instruction, value),
        _ => {}
    }
}

fn store(state: &mut State, instruction: &Instruction, value: Value) {
    if let Some(place) = address(state, instruction) {
        state.store(place, instruction.memory_size().size() as i32, value);
    }
}

fn move_sp(state: &mut State, by: i64) {
    let sp = state.sp().and_then(|sp| sp.plus(by));
    state.registers[RSP] = sp.map_or(Value::Unknown, Value::Stack);
}

fn push(state: &mut State, value: Value) {
    move_sp(state, -8);
    if let Some(sp) = state.sp() {
        state.store(sp, 8, value);
    }
}

fn pop(state: &mut State, instruction: &Instruction) {
    let value = state.sp().map_or(Value::Unknown, |sp| state.load(sp));
    move_sp(state, 8);
    set(state, instruction, Some(value));
}

fn mov(state: &mut State, instruction: &Instruction) {
    let value = match instruction.op1_kind() {
        OpKind::Register | OpKind::Memory => operand(state, instruction, 1),
        _ => constant(state, instruction),
    };
    set(state, instruction, Some(value));
}

/// Number of a system call that is moved to `rax`. Only the relevant ones are tracked: with all of them there were
/// as many states as instructions.
fn constant(state: &State, instruction: &Instruction) -> Value {
    let is_rax = instruction.op0_kind() == OpKind::Register
        && match instruction.op0_register() {
            Register::RAX | Register::EAX => true,
            Register::AL => state.registers[RAX] == Value::Constant(0),
            _ => false,
        };
    match u16::try_from(instruction.immediate(1)) {
        Ok(number @ (RT_SIGRETURN | CLONE | CLONE3)) if is_rax => Value::Constant(number),
        _ => Value::Unknown,
    }
}

fn is_immediate(kind: OpKind) -> bool {
    use OpKind::{Immediate8, Immediate8to64, Immediate32to64};
    matches!(kind, Immediate8 | Immediate8to64 | Immediate32to64)
}

fn add(state: &mut State, instruction: &Instruction, sign: i64) {
    let by = instruction.immediate_of(1).map(|by| by.wrapping_mul(sign));
    step_by(state, instruction, by);
}

fn step(state: &mut State, instruction: &Instruction, by: i64) {
    step_by(state, instruction, Some(by));
}

fn step_by(state: &mut State, instruction: &Instruction, by: Option<i64>) {
    let place = match (operand(state, instruction, 0), by) {
        (Value::Stack(place), Some(by)) if instruction.op0_kind() == OpKind::Register => {
            place.plus(by)
        }
        _ => None,
    };
    set(state, instruction, place.map(Value::Stack));
}

/// Access to operands that are immediates.
trait ImmediateOf {
    fn immediate_of(&self, at: u32) -> Option<i64>;
}

impl ImmediateOf for Instruction {
    fn immediate_of(&self, at: u32) -> Option<i64> {
        is_immediate(self.op_kind(at)).then(|| self.immediate(at).cast_signed())
    }
}

/// Applies `and`, which functions use to align their stack.
fn and(state: &mut State, instruction: &Instruction) {
    let aligned = instruction.op0_kind() == OpKind::Register
        && instruction.op0_register() == Register::RSP
        && instruction.immediate_of(1).is_some_and(|mask| mask < 0);
    // Not 0, which is the CFA; unique in the few megabytes that are analysed together.
    let base = instruction.ip() as u32 | 1 << 31;
    let place = Place { base, offset: 0 };
    set(state, instruction, aligned.then_some(Value::Stack(place)));
}

fn xor(state: &mut State, instruction: &Instruction) {
    let zero = instruction.op0_kind() == OpKind::Register
        && instruction.op1_kind() == OpKind::Register
        && instruction.op0_register() == instruction.op1_register()
        && instruction.op0_register().full_register() == Register::RAX;
    set(state, instruction, zero.then_some(Value::Constant(0)));
}

fn leave(state: &mut State) {
    state.registers[RSP] = match state.registers[RBP] {
        Value::Stack(place) => Value::Stack(place),
        _ => Value::Unknown,
    };
    state.registers[RBP] = state.sp().map_or(Value::Unknown, |sp| state.load(sp));
    move_sp(state, 8);
}

fn xchg(state: &mut State, instruction: &Instruction) {
    let (first, second) = (operand(state, instruction, 0), operand(state, instruction, 1));
    set(state, instruction, Some(second));
    let other = instruction.op1_register();
    if instruction.op1_kind() == OpKind::Register
        && let Some(number) = general(other)
    {
        state.registers[number] = if other.is_gpr64() { first } else { Value::Unknown };
    }
}

fn syscall(state: &mut State) {
    const CLOBBERED: [usize; 2] = [2, 11];
    if matches!(state.registers[RAX], Value::Constant(CLONE | CLONE3)) {
        state.kind = Kind::Cloned;
    }
    state.registers[RAX] = Value::Unknown;
    for register in CLOBBERED {
        state.registers[register] = Value::Unknown;
    }
}
