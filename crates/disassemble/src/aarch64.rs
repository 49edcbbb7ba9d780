//! AArch64, by `yaxpeax-arm`.

use yaxpeax_arch::{Decoder, U8Reader};
use yaxpeax_arm::armv8::a64::{InstDecoder, Opcode, Operand};

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
    let Ok(decoded) = decoder.decode(&mut U8Reader::new(bytes)) else {
        // `objdump` shows the word, of which there is more to be known than of one byte.
        let text = match <[u8; LEN]>::try_from(bytes) {
            Ok(word) => format!(".inst 0x{:08x}", u32::from_le_bytes(word)),
            Err(_) => BAD.to_owned(),
        };
        return Instruction { text, ..none };
    };
    let flow = flow(decoded.opcode);
    let place = decoded.operands.iter().find_map(|operand| match operand {
        Operand::PCOffset(distance) => Some(address.wrapping_add_signed(*distance)),
        _ => None,
    });
    let text = text(&decoded.to_string(), place);
    let is_flow = matches!(flow, Flow::Jump | Flow::Branch | Flow::Call);
    let page = decoded.opcode == Opcode::ADRP;
    let place_of_data = place.map(|place| if page { place & !0xfff } else { place });
    let (target, data) = if is_flow { (place, None) } else { (None, place_of_data) };
    Instruction { text, flow, target, data, ..none }
}

/// The text with an absolute address in place of the distance to it, as `objdump` prints it.
fn text(text: &str, place: Option<u64>) -> String {
    let relative = text.find("$+").or_else(|| text.find("$-")).zip(place);
    let plain = match relative {
        Some((at, place)) => {
            let rest = &text[at + 2..];
            let end = rest.find(|c: char| !c.is_ascii_hexdigit() && c != 'x').unwrap_or(rest.len());
            format!("{}{place:x}{}", &text[..at], &rest[end..])
        }
        None => text.to_owned(),
    };
    plain.replace(char::is_control, " ")
}

fn flow(opcode: Opcode) -> Flow {
    match opcode {
        Opcode::B | Opcode::BR | Opcode::BRAA | Opcode::BRAB | Opcode::BRAAZ | Opcode::BRABZ => {
            Flow::Jump
        }
        Opcode::Bcc(_) | Opcode::CBZ | Opcode::CBNZ | Opcode::TBZ | Opcode::TBNZ => Flow::Branch,
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
}
