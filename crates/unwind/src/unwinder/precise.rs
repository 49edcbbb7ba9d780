//! Innermost frame of precise events. Its instruction pointer is of the counted instruction, but the other
//! registers are from after that instruction (Intel SDM, volume 3B, "Processor Event Based Sampling"). On AMD, they
//! are from some instructions later (instruction-based sampling).

use iced_x86::{Decoder, DecoderOptions, FlowControl};

use crate::fallback::is_return_address;
use crate::space::Mapping;

use super::{Frame, StackEnd, Step, Walk};

impl Walk<'_> {
    /// Unwinds the frame by the row that fits the registers: its return address follows a call.
    #[cold]
    pub(super) fn step_after(&mut self, frame: Frame, mapping: Option<&Mapping>) -> Step {
        let Some((mapping, info)) = mapping.and_then(|m| Some((m, m.info.as_deref()?))) else {
            return self.step(frame, mapping, true);
        };
        let code = info.code_from(mapping.svma(frame.address)).unwrap_or_default();
        let instruction = Decoder::new(64, code, DecoderOptions::NONE).decode();
        let next = frame.address.wrapping_add(instruction.len() as u64);
        let places = match instruction.flow_control() {
            // The function has returned: its return address is below the copied bytes.
            FlowControl::Return => return Step::End(StackEnd::Moved),
            FlowControl::Call | FlowControl::IndirectCall
                if self.stack.u64(self.sp) == Some(next) =>
            {
                // Restores the stack pointer from before the call.
                self.registers.set(self.registers.arch().sp(), self.sp.wrapping_add(8));
                [frame.address, next]
            }
            FlowControl::UnconditionalBranch
            | FlowControl::ConditionalBranch
            | FlowControl::IndirectBranch => [frame.address, next],
            _ => [next, frame.address],
        };
        let (registers, sp) = (self.registers, self.sp);
        let mut failed = None;
        for address in places {
            // Rules of PLT entries use the instruction pointer.
            self.registers.set(self.registers.arch().ip(), address);
            let step = self.step(Frame { address, ..frame }, Some(mapping), true);
            let is_good = match step {
                Step::Called => self
                    .registers
                    .ip()
                    .is_some_and(|ip| ip == 0 || is_return_address(self.space, ip)),
                Step::Interrupted | Step::Prepared => true,
                Step::End(end) => {
                    matches!(end, StackEnd::Root | StackEnd::Truncated | StackEnd::Unread)
                }
            };
            if is_good {
                return step;
            }
            failed.get_or_insert(step);
            (self.registers, self.sp) = (registers, sp);
            (self.without_table, self.guessed) = (0, 0);
            (self.chained, self.doubtful) = (false, false);
        }
        match failed {
            Some(Step::End(end)) => Step::End(end),
            _ => Step::End(StackEnd::Moved),
        }
    }
}
