//! x86-64, with `iced-x86`.

use iced_x86::{Decoder, DecoderOptions, FlowControl, Formatter, GasFormatter};

use crate::{BAD, Flow, Instruction};

pub fn instructions(code: &[u8], address: u64) -> impl Iterator<Item = Instruction> + '_ {
    let mut decoder = Decoder::with_ip(64, code, address, DecoderOptions::NONE);
    let mut formatter = formatter();
    let mut decoded = iced_x86::Instruction::default();
    std::iter::from_fn(move || {
        if !decoder.can_decode() {
            return None;
        }
        let start = decoder.position();
        decoder.decode_out(&mut decoded);
        let address = address.wrapping_add(start as u64);
        if decoded.is_invalid() {
            // Skip one byte, as `objdump` does: the next may begin an instruction.
            let _ = decoder.set_position(start + 1);
            decoder.set_ip(address.wrapping_add(1));
            let text = BAD.to_owned();
            return Some(Instruction { address, len: 1, text, ..Instruction::default() });
        }
        let mut text = String::new();
        formatter.format(&decoded, &mut text);
        let flow = flow(decoded.flow_control());
        let is_near = matches!(flow, Flow::Jump | Flow::Branch | Flow::Call);
        let target =
            (is_near && decoded.near_branch_target() != 0).then(|| decoded.near_branch_target());
        if let Some(target) = target {
            text = text.replacen(&format!("0x{target:x}"), &format!("{target:x}"), 1);
        }
        let data = decoded.is_ip_rel_memory_operand().then(|| decoded.ip_rel_memory_address());
        Some(Instruction { address, len: decoded.len(), text, flow, target, data })
    })
}

/// Same format as `objdump`: registers with `%`, numbers in hexadecimal, jump targets without `0x`.
fn formatter() -> GasFormatter {
    let mut formatter = GasFormatter::new();
    let options = formatter.options_mut();
    options.set_uppercase_hex(false);
    options.set_small_hex_numbers_in_decimal(false);
    options.set_branch_leading_zeros(false);
    options.set_rip_relative_addresses(true);
    options.set_gas_show_mnemonic_size_suffix(false);
    formatter
}

fn flow(control: FlowControl) -> Flow {
    match control {
        FlowControl::UnconditionalBranch | FlowControl::IndirectBranch => Flow::Jump,
        FlowControl::ConditionalBranch | FlowControl::XbeginXabortXend => Flow::Branch,
        FlowControl::Call | FlowControl::IndirectCall => Flow::Call,
        FlowControl::Return => Flow::Return,
        FlowControl::Exception => Flow::Trap,
        FlowControl::Next | FlowControl::Interrupt => Flow::Next,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(code: &[u8], text: &str, flow: Flow, target: Option<u64>, data: Option<u64>) {
        let found: Vec<_> = instructions(code, 0x1000).collect();
        let expect = Instruction {
            address: 0x1000,
            len: code.len(),
            text: text.to_owned(),
            flow,
            target,
            data,
        };
        assert_eq!(found, [expect]);
    }

    #[test]
    fn instructions_are_printed_as_objdump_prints_them() {
        check(&[0x48, 0x89, 0xc8], "mov %rcx,%rax", Flow::Next, None, None);
        check(&[0x83, 0xf8, 0x0a], "cmp $0xa,%eax", Flow::Next, None, None);
        check(&[0x75, 0xfe], "jne 1000", Flow::Branch, Some(0x1000), None);
        check(&[0xe8, 0x00, 0x10, 0, 0], "call 2005", Flow::Call, Some(0x2005), None);
        check(&[0xff, 0xd0], "call *%rax", Flow::Call, None, None);
        check(&[0xff, 0xe0], "jmp *%rax", Flow::Jump, None, None);
        check(&[0xc3], "ret", Flow::Return, None, None);
        check(&[0x0f, 0x0b], "ud2", Flow::Trap, None, None);
        let load = [0x8b, 0x05, 0x10, 0, 0, 0];
        check(&load, "mov 0x10(%rip),%eax", Flow::Next, None, Some(0x1016));
        check(&[0xc7, 0x00, 1, 0, 0, 0], "movl $0x1,(%rax)", Flow::Next, None, None);
    }

    #[test]
    fn what_is_none_is_left_out_byte_by_byte() {
        let found: Vec<_> = instructions(&[0x06, 0xc3], 0).map(|of| of.text).collect();
        assert_eq!(found, ["(bad)", "ret"]);
    }
}
