//! Where values of the kernel are while an expression is followed.

use libbpf_rs::btf::TypeId;
use pyrograph_event::values::{MOST_STEPS, Memory, ReadBase, ReadNumber, ReadStep};

/// Where a value is.
#[derive(Clone, Debug)]
pub enum Place {
    /// It is a register or what was computed.
    Computed(Address),
    /// It is in memory, at an address.
    Memory(Address),
}

impl Place {
    /// Its eight bytes, as a pointer.
    pub fn pointer(self) -> Address {
        match self {
            Self::Computed(value) => value,
            Self::Memory(address) => address.load(8),
        }
    }
}

/// An address or value that is computed.
#[derive(Clone, Debug)]
pub struct Address {
    pub base: ReadBase,
    pub steps: Vec<ReadStep>,
    /// Offset that is added after the steps.
    pub add: i64,
}

impl Address {
    pub fn load(mut self, size: u8) -> Self {
        let add = std::mem::take(&mut self.add);
        self.steps.push(ReadStep { add, load: size, memory: Memory::Kernel });
        self
    }

    pub fn number(mut self) -> ReadNumber {
        if self.add != 0 {
            self = self.load(0);
        }
        ReadNumber { base: self.base, steps: self.steps }
    }
}

/// A part of a value while an expression is followed.
#[derive(Clone, Debug)]
pub struct Item {
    pub place: Place,
    /// The bits of a field, if it is one: the first, and their number.
    pub bits: Option<(u64, u8)>,
    pub kind: TypeId,
    /// As many pointers lead to the type, by a cast.
    pub pointers: u8,
}

/// An address with as many steps as programs follow.
pub fn few(address: Address) -> Result<Address, String> {
    let steps = address.steps.len() + usize::from(address.add != 0);
    match steps > MOST_STEPS {
        true => Err("too many pointers lead to it".to_owned()),
        false => Ok(address),
    }
}

pub fn computed(register: u16, kind: TypeId) -> Item {
    of_base(ReadBase::Register(register), kind)
}

/// The value of a register at the call of the function.
pub fn called(register: u16, kind: TypeId) -> Item {
    of_base(ReadBase::Called(register), kind)
}

fn of_base(base: ReadBase, kind: TypeId) -> Item {
    let place = Place::Computed(Address { base, steps: Vec::new(), add: 0 });
    Item { place, bits: None, kind, pointers: 0 }
}
