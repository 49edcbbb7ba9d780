//! AArch64, with `yaxpeax-arm` and corrections for its errors: compared to `objdump` (binutils 2.40) with 1.6 million
//! instructions compiled by GCC and Go, and 1.5 million random words.

use yaxpeax_arch::{Decoder, U8Reader};
use yaxpeax_arm::armv8::a64::{InstDecoder, Instruction as Decoded, Opcode};
use yaxpeax_arm::armv8::a64::{Operand, ShiftStyle, SizeCode};

use crate::{BAD, Flow, Instruction};

/// Bytes of an instruction.
const LEN: usize = 4;

pub fn instructions(code: &[u8], address: u64) -> impl Iterator<Item = Instruction> + '_ {
    let decoder = InstDecoder::default();
    (0..)
        .step_by(LEN)
        .zip(code.chunks(LEN))
        .map(move |(offset, bytes)| instruction(&decoder, bytes, address.wrapping_add(offset)))
}

fn instruction(decoder: &InstDecoder, bytes: &[u8], address: u64) -> Instruction {
    let none = Instruction { address, len: bytes.len(), ..Instruction::default() };
    let Ok(bytes) = <[u8; LEN]>::try_from(bytes) else {
        return Instruction { text: BAD.to_owned(), ..none };
    };
    let word = u32::from_le_bytes(bytes);
    let decoded = decoder.decode(&mut U8Reader::new(&bytes)).ok();
    // For some words, it decodes operands only.
    let Some(mut decoded) = decoded.filter(|of| of.opcode != Opcode::Invalid) else {
        // `objdump` shows the whole word, which says more than a single byte.
        return Instruction { text: format!(".inst 0x{word:08x}"), ..none };
    };
    mend(&mut decoded, word);
    let flow = flow(decoded.opcode);
    let place = decoded.operands.iter().find_map(|operand| match operand {
        Operand::PCOffset(distance) => Some(address.wrapping_add_signed(*distance)),
        _ => None,
    });
    let page = decoded.opcode == Opcode::ADRP;
    let place = place.map(|place| if page { place & !0xfff } else { place });
    let text = text(&decoded.to_string(), place);
    let is_flow = matches!(flow, Flow::Jump | Flow::Branch | Flow::Call);
    let (target, data) = if is_flow { (place, None) } else { (None, place) };
    Instruction { text, flow, target, data, ..none }
}

/// Corrects decoding errors: the extension of 32-bit operands (`add x0, x1, w2, uxtw #3` was decoded as `lsl #3`),
/// registers from 16 on that are written to a system register, and products of the upper halves of vectors.
fn mend(decoded: &mut Decoded, word: u32) {
    let register = |at: u32| (word >> at & 0x1f) as u16;
    // "Add/subtract (extended register)" of the Arm Architecture Reference Manual.
    let is_extended = word & 0x1fe0_0000 == 0x0b20_0000;
    if is_extended && let Operand::RegShift(style, amount, size, of) = decoded.operands[2] {
        let (is_64, sets_flags) = (word >> 31 == 1, word >> 29 & 1 == 1);
        // `lsl` is the preferred form of an extension without effect only if the stack pointer is an operand.
        let with_sp = register(5) == 31 || (register(0) == 31 && !sets_flags);
        let style = match word >> 13 & 7 {
            0b010 if is_64 || !with_sp => ShiftStyle::UXTW,
            0b011 if !is_64 || !with_sp => ShiftStyle::UXTX,
            _ => style,
        };
        decoded.operands[2] = Operand::RegShift(style, amount, size, of);
    }
    if decoded.opcode == Opcode::MSR
        && let Operand::Register(..) = decoded.operands[1]
    {
        decoded.operands[1] = Operand::Register(SizeCode::X, register(0));
    }
    decoded.opcode = match decoded.opcode {
        Opcode::FMLAL if word >> 29 & 1 == 1 => Opcode::FMLAL2,
        Opcode::FMLSL if word >> 29 & 1 == 1 => Opcode::FMLSL2,
        opcode => opcode,
    };
}

/// Replacements for the mnemonics that `objdump` spells differently.
const MNEMONICS: [(&str, &str); 12] = [
    ("b.hs ", "b.cs "),
    ("b.lo ", "b.cc "),
    ("bc.hs ", "bc.cs "),
    ("bc.lo ", "bc.cc "),
    ("sys #0x3, c7, c4, #0x1, ", "dc zva, "),
    ("sys #0x3, c7, c10, #0x1, ", "dc cvac, "),
    ("sys #0x3, c7, c11, #0x1, ", "dc cvau, "),
    ("sys #0x3, c7, c14, #0x1, ", "dc civac, "),
    ("sys #0x3, c7, c5, #0x1, ", "ic ivau, "),
    ("hint #0x22", "bti c"),
    ("hint #0x24", "bti j"),
    ("hint #0x26", "bti jc"),
];
const OPERANDS: [(&str, &str); 4] =
    [(", hs", ", cs"), (", lo", ", cc"), (", sxtw #0]", ", sxtw]"), (", sxtx #0]", ", sxtx]")];
/// System registers that programs use, and that the kernel uses often.
const REGISTERS: [(&str, &str); 12] = [
    ("s3_3_c4_c4_0", "fpcr"),
    ("s3_3_c4_c4_1", "fpsr"),
    ("s3_3_c4_c2_0", "nzcv"),
    ("s3_3_c4_c2_1", "daif"),
    ("s3_3_c0_c0_1", "ctr_el0"),
    ("s3_3_c0_c0_7", "dczid_el0"),
    ("s3_3_c14_c0_0", "cntfrq_el0"),
    ("s3_3_c13_c0_3", "tpidrro_el0"),
    ("s3_0_c4_c1_0", "sp_el0"),
    ("s3_0_c13_c0_4", "tpidr_el1"),
    ("s3_0_c5_c2_0", "esr_el1"),
    ("s3_0_c6_c0_0", "far_el1"),
];

/// Replaces the relative distance by the absolute address, as `objdump` does.
fn text(text: &str, place: Option<u64>) -> String {
    let relative = text.find("$+").or_else(|| text.find("$-")).zip(place);
    let mut plain = match relative {
        Some((at, place)) => {
            let rest = &text[at + 2..];
            let end = rest.find(|c: char| !c.is_ascii_hexdigit() && c != 'x').unwrap_or(rest.len());
            format!("{}{place:x}{}", &text[..at], &rest[end..])
        }
        None => text.to_owned(),
    };
    for (from, to) in MNEMONICS {
        if let Some(rest) = plain.strip_prefix(from) {
            plain = format!("{to}{rest}");
        }
    }
    for (from, to) in OPERANDS {
        if let Some(rest) = plain.strip_suffix(from) {
            plain = format!("{rest}{to}");
        }
    }
    for (from, to) in REGISTERS {
        // Before a comma, or at the end.
        if let Some((before, after)) = plain.split_once(from)
            && (after.is_empty() || after.starts_with(','))
        {
            plain = format!("{before}{to}{after}");
        }
    }
    plain.replace(char::is_control, " ")
}

fn flow(opcode: Opcode) -> Flow {
    match opcode {
        Opcode::B | Opcode::BR | Opcode::BRAA | Opcode::BRAB | Opcode::BRAAZ | Opcode::BRABZ => {
            Flow::Jump
        }
        Opcode::Bcc(_)
        | Opcode::BCcc(_)
        | Opcode::CBZ
        | Opcode::CBNZ
        | Opcode::TBZ
        | Opcode::TBNZ => Flow::Branch,
        Opcode::BL
        | Opcode::BLR
        | Opcode::BLRAA
        | Opcode::BLRAB
        | Opcode::BLRAAZ
        | Opcode::BLRABZ => Flow::Call,
        Opcode::RET | Opcode::RETAA | Opcode::RETAB | Opcode::ERET => Flow::Return,
        Opcode::BRK | Opcode::UDF | Opcode::HLT => Flow::Trap,
        _ => Flow::Next,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(word: u32, text: &str, flow: Flow, target: Option<u64>, data: Option<u64>) {
        let code = word.to_le_bytes();
        let found: Vec<_> = instructions(&code, 0x1000).collect();
        let expect =
            Instruction { address: 0x1000, len: 4, text: text.to_owned(), flow, target, data };
        assert_eq!(found, [expect]);
    }

    #[test]
    fn instructions_name_what_they_lead_to() {
        check(0xd503_201f, "nop", Flow::Next, None, None);
        check(0xaa01_03e0, "mov x0, x1", Flow::Next, None, None);
        check(0x1400_0002, "b 1008", Flow::Jump, Some(0x1008), None);
        check(0x97ff_ffff, "bl ffc", Flow::Call, Some(0xffc), None);
        check(0x54ff_ffe1, "b.ne ffc", Flow::Branch, Some(0xffc), None);
        check(0xb400_0040, "cbz x0, 1008", Flow::Branch, Some(0x1008), None);
        check(0x3708_0040, "tbnz w0, #0x1, 1008", Flow::Branch, Some(0x1008), None);
        check(0xd65f_03c0, "ret", Flow::Return, None, None);
        check(0xd63f_0020, "blr x1", Flow::Call, None, None);
        check(0xb000_0000, "adrp x0, 2000", Flow::Next, None, Some(0x2000));
        check(0xffff_ffff, ".inst 0xffffffff", Flow::Next, None, None);
    }

    /// Instructions that `yaxpeax-arm` 0.5 prints differently from `objdump`.
    #[test]
    fn text_is_that_of_objdump() {
        let text = |word: u32, text: &str| check(word, text, Flow::Next, None, None);
        check(0x9000_0000, "adrp x0, 1000", Flow::Next, None, Some(0x1000));
        text(0x8b3b_4ebb, "add x27, x21, w27, uxtw #3");
        text(0x8b2f_40c6, "add x6, x6, w15, uxtw");
        text(0xcb24_5284, "sub x4, x20, w4, uxtw #4");
        text(0xeb22_42bf, "cmp x21, w2, uxtw");
        text(0x0b22_4020, "add w0, w1, w2, uxtw");
        text(0x8b22_63ff, "add sp, sp, x2");
        text(0x8b22_6fff, "add sp, sp, x2, lsl #3");
        text(0x8b22_c020, "add x0, x1, w2, sxtw");
        text(0xd51b_4414, "msr fpcr, x20");
        text(0xd53b_4401, "mrs x1, fpcr");
        text(0xd53b_d041, "mrs x1, tpidr_el0");
        text(0xd503_245f, "bti c");
        text(0xd50b_7423, "dc zva, x3");
        // `objdump` counts the vectors' elements otherwise.
        text(0x6f98_8087, "fmlal2 v7.4s, v4.8h, v8.h[1]");
        text(0x9a81_2000, "csel x0, x0, x1, cs");
        text(0x1a9f_37e4, "cset w4, cs");
        text(0x3875_cb22, "ldrb w2, [x25, w21, sxtw]");
        check(0x54ff_ffe2, "b.cs ffc", Flow::Branch, Some(0xffc), None);
        check(0x54ff_fff3, "bc.cc ffc", Flow::Branch, Some(0xffc), None);
        // Its operands are decoded, its name is not.
        text(0x32f6_504a, ".inst 0x32f6504a");
    }
}
