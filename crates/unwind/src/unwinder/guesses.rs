//! Unwinding of frames whose code no table covers: by the effect of its instructions, or by a plausible return
//! address on the stack.

use crate::code;
use crate::code::Tableless;
use crate::evaluate::{self, Failure};
use crate::fallback::is_return_address;
use crate::info::UnwindInfo;
use crate::registers::Registers;
use crate::rule::{Compact, Rule};
use crate::scan::{self, Scanned};
use crate::space::Mapping;

use super::{Frame, StackEnd, Step, Walk};

impl Walk<'_> {
    /// Unwinds a frame by the rule from its code's instructions, if the resulting return address follows a call.
    #[cold]
    pub(super) fn by_instructions(
        &mut self,
        rule: &Compact,
        frame: Frame,
        mapping: &Mapping,
        info: &UnwindInfo,
        interrupted: bool,
    ) -> Step {
        if self.unwinder.guessing {
            let before = self.registers;
            let applied = evaluate::compact(rule, &mut self.registers, self.stack);
            if applied == Err(Failure::Truncated) {
                return Step::End(StackEnd::Truncated);
            }
            let caller = self.registers.ip();
            if applied.is_ok()
                && self.registers.sp() > Some(self.sp)
                && caller.is_some_and(|caller| is_return_address(self.space, caller))
            {
                self.guessed += 1;
                return self.left(interrupted);
            }
            self.registers = before;
        }
        let svma = mapping.svma(frame.lookup_address());
        let code = code::classify(info, svma, &mut self.unwinder.context);
        self.without_table(code, interrupted)
    }

    /// Unwinds a frame by a return address that is somewhere on the stack.
    #[cold]
    pub(super) fn by_scan(&mut self, interrupted: bool) -> Option<Step> {
        let (space, stack, registers) = (self.space, self.stack, self.registers);
        let ip = registers.ip()?.wrapping_sub(u64::from(!interrupted));
        let found = scan::scan(space, stack, &registers, ip, &mut |found| {
            let mut caller = caller_of(&registers, found);
            self.leads_on(&mut caller)
        })?;
        self.registers = caller_of(&registers, found);
        self.sp = self.sp.max(found.at.wrapping_add(8));
        self.guessed += 1;
        self.chained = false;
        self.doubtful = true;
        Some(Step::Called)
    }

    /// Returns true if a frame, which is in a call, has a table that finds its caller, or that marks it as the
    /// first frame.
    fn leads_on(&mut self, registers: &mut Registers) -> bool {
        let Some(call) = registers.ip().map(|ip| ip.wrapping_sub(1)) else { return false };
        let Some(mapping) = self.space.lookup(call) else { return false };
        let Some(info) = &mapping.info else { return false };
        match self.unwinder.rule(info, mapping.svma(call).wrapping_add(1), true) {
            Rule::Root => true,
            Rule::Compact(rule) => {
                evaluate::compact(&rule, registers, self.stack).is_ok()
                    && registers.ip().is_some_and(|ip| is_return_address(self.space, ip))
            }
            Rule::Switch { .. } | Rule::Goroutine(_) => false,
            Rule::Row(_) | Rule::Missing(_) | Rule::Unread | Rule::Prepared | Rule::Bad => false,
        }
    }

    /// Unwinds a frame by its table although the frame pointer may not be this frame's, if the resulting return
    /// address follows a call.
    #[cold]
    pub(super) fn doubtfully(&mut self, rule: &Compact, interrupted: bool) -> Step {
        let before = self.registers;
        let applied = evaluate::compact(rule, &mut self.registers, self.stack);
        let caller = self.registers.ip();
        if applied.is_ok() && caller.is_some_and(|ip| is_return_address(self.space, ip)) {
            // If the function saved the frame pointer, it is reliable again.
            self.doubtful = rule.saved[0] == 0;
            return self.left(interrupted);
        }
        self.registers = before;
        self.registers.forget(before.arch().fp());
        self.without_table(Tableless::Plain, interrupted)
    }
}

/// Registers of a frame that was found by its return address. Of the other registers, only the frame pointer is
/// kept, if it can be this frame's.
fn caller_of(registers: &Registers, found: Scanned) -> Registers {
    const LARGEST_FRAME: u64 = 1 << 20;
    let arch = registers.arch();
    let mut caller = Registers::new(arch);
    let sp = found.at.wrapping_add(8);
    caller.set(arch.ip(), found.return_address);
    caller.set(arch.sp(), sp);
    let fp = registers.fp().filter(|fp| fp.is_multiple_of(8));
    if let Some(fp) = fp.filter(|fp| fp.checked_sub(sp).is_some_and(|far| far < LARGEST_FRAME)) {
        caller.set(arch.fp(), fp);
    }
    caller
}
