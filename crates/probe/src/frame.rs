//! The canonical frame address at an instruction, from the unwind tables.

use gimli::{
    BaseAddresses, CfaRule, DebugFrame, EhFrame, EndianSlice, Register, RunTimeEndian,
    UnwindContext, UnwindSection,
};
use object::{Object, ObjectSection};
use pyrograph_elf::{Image, Section};

use crate::program::Program;

/// The address behind the return address of the function at `address`, when the instruction there begins: a register, and
/// the number to add. `None` if no unwind table has it in this form.
pub(crate) fn frame_address(program: &Program, address: u64) -> Option<(Register, i64)> {
    by_eh_frame(program.image(), program.endian(), address)
        .or_else(|| by_debug_frame(program.debug_image(), program.endian(), address))
}

fn by_eh_frame(image: &Image, endian: RunTimeEndian, address: u64) -> Option<(Register, i64)> {
    let elf = image.elf();
    let address_of = |name| elf.section_by_name(name).map(|section| section.address());
    let section = Section::load(image, ".eh_frame").ok()?;
    let table = EhFrame::new(section.bytes(image), endian);
    let bases = BaseAddresses::default()
        .set_eh_frame(address_of(".eh_frame")?)
        .set_text(address_of(".text").unwrap_or(0))
        .set_got(address_of(".got").unwrap_or(0));
    rule_at(&table, &bases, address)
}

fn by_debug_frame(image: &Image, endian: RunTimeEndian, address: u64) -> Option<(Register, i64)> {
    let section = Section::load(image, ".debug_frame").ok()?;
    let mut table = DebugFrame::new(section.bytes(image), endian);
    table.set_address_size(if image.elf().is_64() { 8 } else { 4 });
    rule_at(&table, &BaseAddresses::default(), address)
}

fn rule_at<'a, S>(table: &S, bases: &BaseAddresses, address: u64) -> Option<(Register, i64)>
where
    S: UnwindSection<EndianSlice<'a, RunTimeEndian>>,
{
    let mut context = UnwindContext::new();
    let row = table.unwind_info_for_address(bases, &mut context, address, S::cie_from_offset);
    match row.ok()?.cfa() {
        CfaRule::RegisterAndOffset { register, offset } => Some((*register, *offset)),
        CfaRule::Expression(_) => None,
    }
}
