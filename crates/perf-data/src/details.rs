//! Details that few recordings have in their samples: registers, branches, page sizes.

use pyrograph_event::{Abi, Regs, Sample};
use pyrograph_profile::{EventBranch, EventDetails, EventRegisters};
use pyrograph_resolve::Arch;

/// In the order of `enum perf_event_x86_regs`.
const X86_64: [&str; 24] = [
    "AX", "BX", "CX", "DX", "SI", "DI", "BP", "SP", "IP", "FLAGS", "CS", "SS", "DS", "ES", "FS",
    "GS", "R8", "R9", "R10", "R11", "R12", "R13", "R14", "R15",
];

/// In the order of `enum perf_event_arm_regs`.
const AARCH64: [&str; 33] = [
    "x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14",
    "x15", "x16", "x17", "x18", "x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27",
    "x28", "x29", "lr", "sp", "pc",
];

/// Buffers for the details of one sample after another.
#[derive(Default)]
pub struct Details {
    branches: Vec<EventBranch>,
    user: Vec<(&'static str, u64)>,
    registers: Vec<(&'static str, u64)>,
}

impl Details {
    /// Returns the details of a sample; `None` if it has none.
    pub fn of(&mut self, sample: &Sample<'_>, arch: Arch) -> Option<EventDetails<'_>> {
        let Sample { code_page_size, data_page_size, .. } = *sample;
        let has_sizes = code_page_size.is_some() || data_page_size.is_some();
        let has_registers = sample.user_regs.is_some() || sample.intr_regs.is_some();
        if !has_sizes && !has_registers && sample.branches.is_none() {
            return None;
        }
        self.branches.clear();
        self.branches.extend(sample.branches.iter().flat_map(|all| all.iter()).map(branch));
        Some(EventDetails {
            code_page_size,
            data_page_size,
            branches: &self.branches,
            user_registers: registers(sample.user_regs.as_ref(), arch, &mut self.user),
            registers: registers(sample.intr_regs.as_ref(), arch, &mut self.registers),
        })
    }
}

fn branch(of: pyrograph_event::Branch) -> EventBranch {
    let pyrograph_event::Branch { from, to, mispredicted, predicted, in_transaction, .. } = of;
    let pyrograph_event::Branch { abort, cycles, branch_type, .. } = of;
    EventBranch { from, to, mispredicted, predicted, in_transaction, abort, cycles, branch_type }
}

fn registers<'a>(
    regs: Option<&Regs<'_>>,
    arch: Arch,
    values: &'a mut Vec<(&'static str, u64)>,
) -> Option<EventRegisters<'a>> {
    let regs = regs?;
    let names: &[&str] = match arch {
        Arch::Aarch64 => &AARCH64,
        Arch::X86_64 => &X86_64,
    };
    values.clear();
    values.extend(regs.iter().filter_map(|(at, value)| Some((*names.get(at as usize)?, value))));
    let abi = match regs.abi {
        Abi::Bits32 => 1,
        Abi::Bits64 => 2,
    };
    Some(EventRegisters { abi, values })
}
