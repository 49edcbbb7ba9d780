//! Abstract values of the registers and the frame at one instruction.

use std::hash::{BuildHasher, Hash, Hasher};

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use iced_x86::Register;

use crate::registers::Arch;
use crate::rule::{Cfa, Compact};

/// DWARF numbers of registers with a special role in this analysis.
pub(super) const RAX: usize = 0;
pub(super) const RBP: usize = 6;
pub(super) const RSP: usize = 7;

/// Callee-saved registers, which a call preserves (System V ABI, AMD64 supplement, figure 3.4).
const PRESERVED: [usize; 7] = [3, RBP, RSP, 12, 13, 14, 15];

/// An address in the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    /// 0 for the CFA. Otherwise the stack pointer after an instruction aligned it, by that instruction's address
    /// with the highest bit set: how far it moved is unknown.
    pub base: u32,
    pub offset: i32,
}

impl Place {
    /// Stack pointer at the first instruction of a function.
    pub(super) const ENTRY: Self = Self { base: 0, offset: -8 };

    pub(super) fn plus(self, by: i64) -> Option<Self> {
        let offset = i64::from(self.offset).checked_add(by)?;
        Some(Self { offset: i32::try_from(offset).ok()?, ..self })
    }
}

/// Known value of a register or a word of the frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Value {
    #[default]
    Unknown,
    /// Value of the register with this DWARF number when the function was called.
    Entry(u8),
    /// An address in the frame.
    Stack(Place),
    /// Number of a system call.
    Constant(u16),
}

/// Kind of code that an instruction belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Kind {
    /// A function.
    #[default]
    Function,
    /// Code directly after a system call that creates a thread, in both threads.
    Cloned,
    /// Entry code of a program: it has no caller.
    Entry,
    /// Entry code of a thread: it has no caller.
    Root,
    /// Signal trampoline, to which signal handlers return.
    SignalReturn,
}

impl Value {
    /// One word to hash: the same for equal values, and rarely the same for different ones.
    fn bits(self) -> u64 {
        match self {
            Self::Unknown => 0,
            Self::Entry(register) => 1 << 8 | u64::from(register),
            Self::Stack(Place { base, offset }) => {
                u64::from(base) << 32 ^ u64::from(offset as u32) ^ 1 << 63
            }
            Self::Constant(number) => 1 << 16 | u64::from(number),
        }
    }
}

/// Known state before one instruction is executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct State {
    pub kind: Kind,
    pub registers: [Value; 16],
    /// Known words of the frame, sorted by place; none is [`Value::Unknown`].
    slots: Vec<(Place, Value)>,
}

impl Hash for State {
    // One word for each register and two for each slot: hashing discriminants and fields one by one took a tenth of
    // the time of building the table of a large program.
    fn hash<H: Hasher>(&self, to: &mut H) {
        to.write_u8(self.kind as u8);
        self.registers.iter().for_each(|value| to.write_u64(value.bits()));
        for (place, value) in &self.slots {
            to.write_u64(Value::Stack(*place).bits());
            to.write_u64(value.bits());
        }
    }
}

/// Maximum number of words of a frame that are tracked.
const MOST_SLOTS: usize = 24;

impl State {
    /// State at the first instruction of a function.
    pub(super) fn entry(kind: Kind) -> Self {
        let mut registers = [Value::Unknown; 16];
        if kind == Kind::Function {
            for register in PRESERVED {
                registers[register] = Value::Entry(register as u8);
            }
            registers[RSP] = Value::Stack(Place::ENTRY);
        }
        Self { kind, registers, slots: Vec::new() }
    }

    pub(super) fn sp(&self) -> Option<Place> {
        self.place(RSP)
    }

    /// Address in the frame that a register holds.
    pub(super) fn place(&self, register: usize) -> Option<Place> {
        match self.registers[register] {
            Value::Stack(place) => Some(place),
            _ => None,
        }
    }

    /// Returns true if the stack pointer points to the return address.
    pub(super) fn is_at_return_address(&self) -> bool {
        self.sp() == Some(Place::ENTRY)
    }

    pub(super) fn load(&self, place: Place) -> Value {
        let at = self.slots.binary_search_by_key(&place, |slot| slot.0);
        at.map_or(Value::Unknown, |at| self.slots[at].1)
    }

    /// Records a store of `size` bytes at `place`; the word there is then `value`.
    pub(super) fn store(&mut self, place: Place, size: i32, value: Value) {
        let (start, end) = (place.offset, place.offset.saturating_add(size));
        self.slots.retain(|(slot, _)| {
            let (from, to) = (slot.offset, slot.offset.saturating_add(8));
            slot.base != place.base || to <= start || end <= from
        });
        let kept = matches!(value, Value::Entry(_) | Value::Stack(_));
        if kept && self.slots.len() < MOST_SLOTS {
            let at = self.slots.partition_point(|slot| slot.0 < place);
            self.slots.insert(at, (place, value));
        }
    }

    /// Applies a function call: everything that the callee may change becomes unknown.
    pub(super) fn after_call(&mut self) {
        for register in 0..16 {
            if !PRESERVED.contains(&register) {
                self.registers[register] = Value::Unknown;
            }
        }
        if let Some(sp) = self.sp() {
            self.slots.retain(|(slot, _)| slot.base != sp.base || slot.offset >= sp.offset);
        }
    }

    /// Facts that hold in both states.
    pub(super) fn join(&self, other: &Self) -> Self {
        let mut joined = self.clone();
        for (mine, theirs) in joined.registers.iter_mut().zip(&other.registers) {
            if mine != theirs {
                *mine = Value::Unknown;
            }
        }
        joined.slots.retain(|(place, value)| other.load(*place) == *value);
        joined
    }

    /// Rule to find the caller; `None` if it cannot be found.
    pub(super) fn rule(&self) -> Option<Compact> {
        let sp = self.sp();
        let mut saved = [0; 12];
        let mut lost = 0;
        for (at, &register) in Arch::X86_64.saved().iter().enumerate() {
            if self.registers[usize::from(register)] == Value::Entry(register) {
                continue;
            }
            match self.words_below(register, sp) {
                Some(words) => saved[at] = words,
                None => lost |= 1 << at,
            }
        }
        Some(Compact { cfa: self.cfa(lost)?, saved })
    }

    /// Number of words below the CFA at which a register is saved.
    fn words_below(&self, register: u8, sp: Option<Place>) -> Option<u8> {
        let saved = |(place, value): &&(Place, Value)| {
            *value == Value::Entry(register)
                && place.base == 0
                // A copy of the stack does not contain words below the stack pointer.
                && sp.is_none_or(|sp| sp.base != 0 || sp.offset <= place.offset)
        };
        let (place, _) = self.slots.iter().rev().find(saved)?;
        let below = place.offset.checked_neg()?;
        (below > 0 && below % 8 == 0).then_some(below / 8).and_then(|words| words.try_into().ok())
    }

    fn cfa(&self, lost: u8) -> Option<Cfa> {
        // The stack pointer first; then the registers that stay unchanged for longest.
        const ORDER: [usize; 16] = [RSP, RBP, 3, 12, 13, 14, 15, 10, 11, 0, 1, 2, 4, 5, 8, 9];
        let known = |register: &usize| Some((*register, self.place(*register)?));
        let places = || ORDER.iter().filter_map(known);
        if let Some((register, place)) = places().find(|(_, place)| place.base == 0) {
            // If the stack pointer is at the CFA or above it, the return address has been popped.
            let is_left = register == RSP && place.offset >= 0;
            let register = register as u8;
            let offset = place.offset.checked_neg().filter(|_| !is_left)?;
            return Some(Cfa::Guess { register, lost, offset });
        }
        // The previous stack pointer was saved below the aligned one.
        places().find_map(|(register, place)| {
            self.slots.iter().find_map(|(slot, value)| {
                let Value::Stack(Place { base: 0, offset }) = *value else { return None };
                let exact = slot.base == place.base && offset % 8 == 0;
                let words = i8::try_from(offset.checked_neg()? / 8).ok().filter(|_| exact)?;
                let offset = slot.offset.checked_sub(place.offset)?;
                Some(Cfa::GuessDeref { register: register as u8, words, lost, offset })
            })
        })
    }
}

/// DWARF number of the general register that this register is a part of.
pub(super) fn general(register: Register) -> Option<usize> {
    const DWARF: [usize; 16] = [0, 2, 1, 3, RSP, RBP, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15];
    register.is_gpr().then(|| DWARF[register.full_register().number() & 15])
}

/// Distinct states by number: most instructions do not change the state.
pub(super) struct States {
    states: Vec<State>,
    numbers: HashTable<u32>,
    hasher: FixedState,
}

impl Default for States {
    fn default() -> Self {
        let hasher = FixedState::with_seed(0);
        Self { states: Vec::new(), numbers: HashTable::new(), hasher }
    }
}

impl States {
    pub(super) fn number(&mut self, state: State) -> u32 {
        let (states, hasher) = (&self.states, &self.hasher);
        let hash = hasher.hash_one(&state);
        if let Some(&number) = self.numbers.find(hash, |&number| states[number as usize] == state) {
            return number;
        }
        let number = states.len() as u32;
        let hash_of = |&number: &u32| hasher.hash_one(&states[number as usize]);
        self.numbers.insert_unique(hash, number, hash_of);
        self.states.push(state);
        number
    }

    pub(super) fn get(&self, number: u32) -> &State {
        &self.states[number as usize]
    }
}
