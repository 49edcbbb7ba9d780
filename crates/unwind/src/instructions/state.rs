//! Abstract values of the registers and the frame at one instruction.

use std::hash::{BuildHasher, Hash, Hasher};

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use iced_x86::Register;

use crate::registers::Arch;
use crate::rule::{Cfa, Compact};

/// DWARF numbers of the registers that are named in the code here.
pub(super) const RAX: usize = 0;
pub(super) const RBP: usize = 6;
pub(super) const RSP: usize = 7;

/// The registers that a call leaves as they were (System V ABI, AMD64 supplement, figure 3.4).
const PRESERVED: [usize; 7] = [3, RBP, RSP, 12, 13, 14, 15];

/// An address in the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    /// 0: the CFA. Else what the stack pointer was after it was aligned, by the offset of the instruction that
    /// did it, plus 1: how far it moved there is not known.
    pub base: u32,
    pub offset: i32,
}

impl Place {
    /// The stack pointer at the first instruction of a function.
    pub(super) const ENTRY: Self = Self { base: 0, offset: -8 };

    pub(super) fn plus(self, by: i64) -> Option<Self> {
        let offset = i64::from(self.offset).checked_add(by)?;
        Some(Self { offset: i32::try_from(offset).ok()?, ..self })
    }
}

/// The known value of a register or a word of the frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Value {
    #[default]
    Unknown,
    /// The value that the register with this DWARF number had when the function was called.
    Entry(u8),
    /// An address in the frame.
    Stack(Place),
    /// The number of a system call.
    Constant(u16),
}

/// The kind of code that an instruction belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Kind {
    /// A function.
    #[default]
    Function,
    /// Directly behind a system call that makes a thread, in both threads.
    Cloned,
    /// The first code of a program: it has no caller.
    Entry,
    /// The first code of a thread: it has no caller.
    Root,
    /// The code that signal handlers return to.
    SignalReturn,
}

impl Value {
    /// One word to hash: the same for equal values, and seldom for others.
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

/// The state that is known before one instruction is executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct State {
    pub kind: Kind,
    pub registers: [Value; 16],
    /// Words of the frame, sorted by place; none is [`Value::Unknown`].
    slots: Vec<(Place, Value)>,
}

impl Hash for State {
    // One word for each register and two for each slot: discriminants and fields one by one were a tenth of
    // the time that the table of a large program takes.
    fn hash<H: Hasher>(&self, to: &mut H) {
        to.write_u8(self.kind as u8);
        self.registers.iter().for_each(|value| to.write_u64(value.bits()));
        for (place, value) in &self.slots {
            to.write_u64(Value::Stack(*place).bits());
            to.write_u64(value.bits());
        }
    }
}

/// More words of a frame than this are not followed.
const MOST_SLOTS: usize = 24;

impl State {
    /// At the first instruction of a function.
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

    /// The address in the frame that a register holds.
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

    /// The word at `place` is now `value`; of an unknown one, `size` bytes.
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

    /// A function was called: what it may change is not known any more.
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

    /// The facts that hold in both states.
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

    /// How the caller is found, if it can be.
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

    /// How many words below the CFA a register is saved.
    fn words_below(&self, register: u8, sp: Option<Place>) -> Option<u8> {
        let saved = |(place, value): &&(Place, Value)| {
            *value == Value::Entry(register)
                && place.base == 0
                // No copy of the stack holds words below the stack pointer.
                && sp.is_none_or(|sp| sp.base != 0 || sp.offset <= place.offset)
        };
        let (place, _) = self.slots.iter().rev().find(saved)?;
        let below = place.offset.checked_neg()?;
        (below > 0 && below % 8 == 0).then_some(below / 8).and_then(|words| words.try_into().ok())
    }

    fn cfa(&self, lost: u8) -> Option<Cfa> {
        // The stack pointer first; then those that stay as they are for longest.
        const ORDER: [usize; 16] = [RSP, RBP, 3, 12, 13, 14, 15, 10, 11, 0, 1, 2, 4, 5, 8, 9];
        let known = |register: &usize| Some((*register, self.place(*register)?));
        let places = || ORDER.iter().filter_map(known);
        if let Some((register, place)) = places().find(|(_, place)| place.base == 0) {
            // Above it, the return address has been popped.
            let is_left = register == RSP && place.offset >= 0;
            let register = register as u8;
            let offset = place.offset.checked_neg().filter(|_| !is_left)?;
            return Some(Cfa::Guess { register, lost, offset });
        }
        // The old stack pointer was saved below the aligned one.
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

/// The DWARF number of the general register that this one is a part of.
pub(super) fn general(register: Register) -> Option<usize> {
    const DWARF: [usize; 16] = [0, 2, 1, 3, RSP, RBP, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15];
    register.is_gpr().then(|| DWARF[register.full_register().number() & 15])
}

/// States by number: most instructions leave everything that is followed as it is.
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
