//! Unwinder: from the registers and the stack of a sample to its frames.

use crate::calls;
use crate::code::{self, Tableless};
use crate::evaluate::{self, Failure};
use crate::fallback::{Fallback, Found, is_return_address};
use crate::info::{Context, UnwindInfo};
use crate::registers::{Arch, LiveMemory, Memory, Registers, StackCopy};
use crate::rule::{Compiled, Row, Rule};
use crate::space::{AddressSpace, Mapping, Place};

mod guesses;
mod outcome;
mod precise;

pub use outcome::{StackEnd, UnreadCode, Unwound};

/// One frame of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Frame {
    /// Address at which the frame's code was interrupted, or continues after a call.
    pub address: u64,
    /// True if the frame's code is in a call (or a system call) that returns to `address`. The call ends just
    /// before `address`, where another line or function may begin, so look up `address - 1`
    /// ([`lookup_address`](Self::lookup_address)).
    pub is_return_address: bool,
    /// True if the frame was found by a guess: from the instructions of the frame that it called, as a word on the
    /// stack that can be a return address, or in live memory, if a recursion goes on beyond the copied stack. The
    /// frame may be wrong, and then all frames outside of it are wrong, too.
    pub guessed: bool,
}

impl Frame {
    /// Address to look up in symbol and line tables.
    pub const fn lookup_address(&self) -> u64 {
        self.address.wrapping_sub(self.is_return_address as u64)
    }
}

/// Unwinds stacks, and caches rules between stacks. Create one for each thread that unwinds.
pub struct Unwinder {
    arch: Arch,
    /// Allocated for the first stack: most recordings are of frame pointers.
    cache: Box<[Cached]>,
    rows: Vec<Row>,
    context: Box<Context>,
    guessing: bool,
    unread: UnreadCode,
}

/// A cached rule, with the file and the address that it applies to.
#[derive(Clone, Copy)]
struct Cached {
    /// Twice the address, plus 1 if a call returns there.
    svma: u64,
    /// [`UnwindInfo::id`]; 0 if the slot is empty.
    info: u32,
    rule: Rule,
}

impl Cached {
    fn is_of(&self, info: &UnwindInfo, svma: u64) -> bool {
        self.svma == svma && self.info == info.id()
    }
}

/// Register in which Go's code keeps the address of the current `g`: the goroutine, or the thread's own `g` on the
/// stack of the thread.
const R14: u8 = 14;

/// Binary logarithm of the number of cache slots. With 65,536 slots of 32 bytes, 99.8 % of the rules of a large
/// recording (3.2 million frames) are found in the cache; with 512 slots, some 91 %.
const CACHE_BITS: u32 = 16;

/// Maximum number of rows. Rows that fit no compact rule are rare; the limit only keeps damaged files from filling
/// memory.
const MOST_ROWS: usize = 4096;

const EMPTY: Cached = Cached { svma: 0, info: 0, rule: Rule::Bad };

impl Unwinder {
    /// Creates an unwinder for threads of one architecture.
    pub fn new(arch: Arch) -> Self {
        Self {
            arch,
            cache: Box::default(),
            rows: Vec::new(),
            context: Box::new(Context::new_in()),
            guessing: true,
            unread: UnreadCode::Read,
        }
    }

    /// Enables or disables guessed frames ([`Frame::guessed`]); they are enabled by default. If disabled, no code
    /// is analysed, and stacks end with [`StackEnd::NoRule`] if neither tables nor frame pointers find the caller,
    /// and with [`StackEnd::Truncated`] in recursions that go on beyond the copy.
    pub fn set_guessing(&mut self, guessing: bool) {
        self.guessing = guessing;
    }

    /// Sets what to do at code that has to be analysed first; the default is [`UnreadCode::Read`].
    pub fn set_unread(&mut self, unread: UnreadCode) {
        self.unread = unread;
    }

    /// Architecture of the threads that this unwinds.
    pub const fn arch(&self) -> Arch {
        self.arch
    }

    /// Appends the frames of a stack to `out`, innermost first: at most `max_frames`.
    ///
    /// If the instruction pointer is unknown, no frame is appended.
    pub fn unwind(
        &mut self,
        space: &AddressSpace,
        registers: &Registers,
        stack: StackCopy<'_>,
        max_frames: usize,
        out: &mut Vec<Frame>,
    ) -> Unwound {
        self.walk(space, registers, Memory::new(stack, None), max_frames, out)
    }

    /// Like [`unwind`](Self::unwind), for a thread that still runs: bytes that the copy does not have are read from
    /// the thread's current memory.
    ///
    /// No copy can hold all stacks: rustc has a frame of 540,080 bytes near the root, and a sample can hold 64 KiB;
    /// a signal handler may run on its own stack, and then the thread's stack is not copied. But outer frames
    /// rarely change, so shortly after the sample they are still the same. A return address from live memory is
    /// accepted only if it follows a call and, on another stack, only if that call can lead to the frame's
    /// function. If it is not accepted, or `live` returns nothing, the stack is truncated there.
    pub fn unwind_live(
        &mut self,
        space: &AddressSpace,
        registers: &Registers,
        stack: StackCopy<'_>,
        live: &dyn LiveMemory,
        max_frames: usize,
        out: &mut Vec<Frame>,
    ) -> Unwound {
        self.walk(space, registers, Memory::new(stack, Some(live)), max_frames, out)
    }

    fn walk(
        &mut self,
        space: &AddressSpace,
        registers: &Registers,
        stack: Memory<'_>,
        max_frames: usize,
        out: &mut Vec<Frame>,
    ) -> Unwound {
        self.make_cache();
        let start = stack.start();
        let mut walk = Walk {
            unwinder: self,
            space,
            stack: &stack,
            registers: *registers,
            sp: start,
            guess: (0, 0),
            without_table: 0,
            guessed: 0,
            beyond_copy: 0,
            recursion_goes_beyond: false,
            chained: false,
            doubtful: false,
            copied_depth: None,
        };
        let end = walk.frames(max_frames, out);
        let depth = walk.copied_depth.unwrap_or_else(|| walk.sp.saturating_sub(start));
        let Walk { without_table, guessed, beyond_copy, recursion_goes_beyond, .. } = walk;
        let on_other_stack = stack.is_switched();
        Unwound {
            end,
            without_table,
            guessed,
            beyond_copy,
            recursion_goes_beyond,
            depth,
            on_other_stack,
        }
    }

    /// Returns true if no unwind table covers the code at a virtual address, so that its caller can only be
    /// guessed. `is_call` is true if the address is inside a call instruction, as in frames of callers.
    pub fn has_no_table(&mut self, info: &UnwindInfo, svma: u64, is_call: bool) -> bool {
        self.make_cache();
        let place = svma.wrapping_add(is_call.into());
        let (key, slot) = cache_key(info, place, is_call);
        let code = if is_call && info.returns_from_signal(place) { place } else { svma };
        // Guesses from instructions are not needed here, and computing them takes long.
        if !self.cache[slot].is_of(info, key) && !info.has_table(code, &mut self.context) {
            return true;
        }
        match self.rule(info, place, is_call) {
            Rule::Compact(rule) => rule.cfa.lost().is_some(),
            Rule::Missing(_) | Rule::Unread => true,
            Rule::Row(_) | Rule::Root | Rule::Prepared | Rule::Bad => false,
            Rule::Switch { .. } | Rule::Goroutine(_) => false,
        }
    }

    fn make_cache(&mut self) {
        if self.cache.is_empty() {
            self.cache = vec![EMPTY; 1 << CACHE_BITS].into_boxed_slice();
        }
    }

    /// Rule for an address of a file: a return address, or one at which the code was interrupted.
    #[inline]
    fn rule(&mut self, info: &UnwindInfo, svma: u64, is_return_address: bool) -> Rule {
        let (key, slot) = cache_key(info, svma, is_return_address);
        let cached = &self.cache[slot];
        if cached.is_of(info, key) {
            return cached.rule;
        }
        self.compile(info, key, slot)
    }

    #[cold]
    fn compile(&mut self, info: &UnwindInfo, svma: u64, slot: usize) -> Rule {
        let reads = self.unread == UnreadCode::Read && self.guessing;
        if !reads && info.is_rule_unread(svma, &mut self.context) {
            return Rule::Unread;
        }
        let compiled = match svma & 1 {
            0 => info.rule(svma >> 1, &mut self.context),
            _ => info.rule_of_call(svma >> 1, &mut self.context),
        };
        let rule = match compiled {
            Compiled::Rule(rule) => rule,
            Compiled::Row(row) => {
                if self.rows.len() == MOST_ROWS {
                    self.rows.clear();
                    self.cache.fill(EMPTY);
                }
                self.rows.push(row);
                Rule::Row(self.rows.len() as u32 - 1)
            }
        };
        self.cache[slot] = Cached { svma, info: info.id(), rule };
        rule
    }
}

/// Key of the cached rule for an address, and its slot.
#[inline]
fn cache_key(info: &UnwindInfo, svma: u64, is_return_address: bool) -> (u64, usize) {
    let key = svma << 1 | u64::from(is_return_address);
    let mixed = (key ^ u64::from(info.id()) << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (key, (mixed >> (64 - CACHE_BITS)) as usize)
}

/// State of the unwinding of one stack.
struct Walk<'a> {
    unwinder: &'a mut Unwinder,
    space: &'a AddressSpace,
    stack: &'a Memory<'a>,
    registers: Registers,
    /// Stack pointer: everything below it belongs to frames that have been unwound.
    sp: u64,
    guess: Place,
    without_table: u32,
    guessed: u32,
    beyond_copy: u32,
    recursion_goes_beyond: bool,
    /// True if the last frame was unwound by its frame pointer.
    chained: bool,
    /// True if a frame was unwound by a return address found on the stack: the frame pointer may belong to any
    /// frame outside of it.
    doubtful: bool,
    /// [`Unwound::depth`], if unwinding has moved to another stack.
    copied_depth: Option<u64>,
}

/// Result of unwinding one frame.
enum Step {
    /// The registers are now the caller's, which is in a call.
    Called,
    /// The registers are now of a frame that was interrupted by a signal.
    Interrupted,
    /// This is the first frame: its stack was prepared to return to it.
    Prepared,
    End(StackEnd),
}

impl Walk<'_> {
    fn frames(&mut self, max_frames: usize, out: &mut Vec<Frame>) -> StackEnd {
        let mut is_return_address = false;
        let mut guesses = 0;
        for number in 0..max_frames {
            // The frame may be at any instruction, not only in a call, so it may be set up only in part.
            let interrupted = !is_return_address;
            let Some(address) = self.registers.ip() else { return StackEnd::NoRule };
            let mapping = self
                .space
                .lookup_near(&mut self.guess, address.wrapping_sub(u64::from(is_return_address)));
            if number == 0 {
                is_return_address = after_syscall(&self.registers, mapping, address);
            }
            let guessed = guesses != self.guessed || self.recursion_goes_beyond;
            guesses = self.guessed;
            let frame = Frame { address, is_return_address, guessed };
            out.push(frame);
            let step = match number == 0 && self.registers.take_after() {
                true => self.step_after(frame, mapping),
                false => self.step(frame, mapping, interrupted),
            };
            is_return_address = match step {
                Step::Called => true,
                Step::Interrupted => {
                    // The handler returns to the trampoline's first byte, which no call precedes.
                    if let Some(trampoline) = out.last_mut()
                        && number > 0
                    {
                        trampoline.is_return_address = false;
                    }
                    false
                }
                Step::Prepared => {
                    if let Some(first) = out.last_mut() {
                        first.is_return_address = false;
                    }
                    return StackEnd::Root;
                }
                Step::End(end) => return end,
            };
            let caller = self.registers.ip();
            if self.stack.take_went_beyond() {
                if is_return_address && !caller.is_some_and(|ip| self.believable(ip, frame)) {
                    return StackEnd::Truncated;
                }
                if self.beyond_copy == 0
                    && !self.stack.has_root()
                    && caller.is_some_and(|caller| is_in_recursion(caller, out))
                {
                    self.recursion_goes_beyond = true;
                    if !self.unwinder.guessing {
                        return StackEnd::Truncated;
                    }
                }
                self.beyond_copy += 1;
            }
            if caller == Some(0) {
                return if self.doubtful { StackEnd::NoRule } else { StackEnd::Root };
            }
        }
        StackEnd::TooManyFrames
    }

    /// Returns true if `address`, which was read from beyond the copy, can be the return address of `callee`.
    #[cold]
    fn believable(&mut self, address: u64, callee: Frame) -> bool {
        let is_call = is_return_address(self.space, address)
            && (!self.stack.is_switched()
                || calls::may_lead_to(self.space, address, callee.lookup_address()));
        address == 0
            || is_call
            || self.space.lookup(address).is_some_and(|mapping| {
                let svma = mapping.svma(address);
                mapping.info.as_deref().is_some_and(|info| info.starts_contexts(svma))
            })
    }

    /// Unwinds one frame.
    #[inline]
    fn step(&mut self, frame: Frame, mapping: Option<&Mapping>, interrupted: bool) -> Step {
        let Some((mapping, info)) = mapping.and_then(|m| Some((m, m.info.as_deref()?))) else {
            return self.without_table(Tableless::Unseen, interrupted);
        };
        let svma = mapping.svma(frame.address);
        let rule = self.unwinder.rule(info, svma, frame.is_return_address);
        let (applied, signal) = match rule {
            Rule::Compact(rule) if rule.cfa.lost().is_some() => {
                return self.by_instructions(&rule, frame, mapping, info, interrupted);
            }
            Rule::Compact(rule) if self.doubtful => return self.doubtfully(&rule, interrupted),
            Rule::Compact(rule) => {
                (evaluate::compact(&rule, &mut self.registers, self.stack), false)
            }
            Rule::Row(at) => {
                let row = &self.unwinder.rows[at as usize];
                (evaluate::row(row, info, &mut self.registers, self.stack), row.signal)
            }
            Rule::Root => return Step::End(StackEnd::Root),
            Rule::Prepared => return Step::Prepared,
            Rule::Switch { register, offset } => {
                let base = self.registers.get(register);
                return self.switched(base.map(|base| base.wrapping_add_signed(offset.into())));
            }
            Rule::Goroutine(goroutine) => {
                let (sp, r14) = (self.registers.sp(), self.registers.get(R14));
                let read = |address| self.stack.anywhere(address, self.sp);
                return match goroutine.cfa(sp, r14, read) {
                    Some(cfa) => self.switched(Some(cfa)),
                    None => Step::End(StackEnd::OffStack),
                };
            }
            Rule::Bad => return Step::End(StackEnd::BadRule),
            Rule::Unread => {
                let Unwinder { unread, guessing, .. } = *self.unwinder;
                if unread == UnreadCode::Stop && guessing {
                    return Step::End(StackEnd::Unread);
                }
                let svma = mapping.svma(frame.lookup_address());
                let code = code::classify(info, svma, &mut self.unwinder.context);
                return self.without_table(code, interrupted);
            }
            Rule::Missing(code) => return self.without_table(code, interrupted),
        };
        match applied {
            Ok(()) if signal => self.interrupted(),
            Ok(()) => self.left(interrupted),
            // The inner frame was unwound by its frame pointer, which restores fewer registers than a table.
            Err(Failure::UnknownRegister) => self.without_table(Tableless::Plain, interrupted),
            Err(failure) => Step::End(end(failure)),
        }
    }

    /// Unwinds a frame whose caller's frame is on another stack.
    fn switched(&mut self, cfa: Option<u64>) -> Step {
        let arch = self.unwinder.arch;
        let Some(cfa) = cfa else { return Step::End(StackEnd::BadRule) };
        self.switch(cfa);
        let Some(return_address) = self.stack.u64(cfa.wrapping_sub(8)) else {
            return Step::End(StackEnd::Truncated);
        };
        self.registers.set(arch.ip(), return_address);
        self.registers.set(arch.sp(), cfa);
        Step::Called
    }

    /// Continues after a signal frame. The handler may have had its own stack, at any address.
    fn interrupted(&mut self) -> Step {
        self.switch(self.registers.sp().unwrap_or(self.sp));
        Step::Interrupted
    }

    /// Continues above `sp`, which may be on another stack.
    fn switch(&mut self, sp: u64) {
        let depth = self.sp.saturating_sub(self.stack.start());
        // Includes the return address, which is below `sp`.
        self.stack.switch(self.sp, sp.wrapping_sub(8));
        if self.stack.is_switched() {
            self.copied_depth.get_or_insert(depth);
        }
        self.chained = false;
        self.sp = sp;
    }

    /// Continues after a frame was unwound by its table: the rest of the stack must have become shorter.
    #[inline]
    fn left(&mut self, interrupted: bool) -> Step {
        self.chained = false;
        let sp = self.registers.sp().unwrap_or_default();
        // A leaf function may have nothing on the stack. On aarch64 this is common; on x86-64, an example is
        // glibc's `vfork`, which keeps its return address in a register while its child uses the stack.
        if sp > self.sp || (sp == self.sp && interrupted) {
            self.sp = sp;
            return Step::Called;
        }
        let copied = sp >= self.stack.start();
        Step::End(if copied { StackEnd::BadRule } else { StackEnd::OffStack })
    }

    #[cold]
    fn without_table(&mut self, code: Tableless, interrupted: bool) -> Step {
        let frame = Fallback {
            space: self.space,
            stack: self.stack,
            code,
            interrupted,
            chained: self.chained,
        };
        let found = frame.step(&mut self.registers);
        if matches!(found, Ok(Found::Nothing) | Err(Failure::Truncated))
            && code != Tableless::Unseen
            && self.unwinder.guessing
            && let Some(step) = self.by_scan(interrupted)
        {
            return step;
        }
        let found = match found {
            Ok(found) => found,
            Err(failure) => return Step::End(end(failure)),
        };
        let sp = self.registers.sp().unwrap_or(self.sp);
        match found {
            Found::ByFramePointer | Found::AsLeaf => {
                self.without_table += 1;
                self.chained = found == Found::ByFramePointer;
                self.sp = self.sp.max(sp);
                Step::Called
            }
            Found::Signal => {
                self.without_table += 1;
                self.interrupted()
            }
            Found::Root => Step::End(StackEnd::Root),
            Found::Nothing => Step::End(StackEnd::NoRule),
        }
    }
}

/// Returns true if one of the last frames has the same return address, as in a recursion.
fn is_in_recursion(caller: u64, frames: &[Frame]) -> bool {
    /// Maximum number of functions that call each other in a cycle.
    const CIRCLE: usize = 32;
    frames[frames.len().saturating_sub(CIRCLE)..].iter().any(|frame| frame.address == caller)
}

fn end(failure: Failure) -> StackEnd {
    match failure {
        Failure::Truncated => StackEnd::Truncated,
        Failure::OffStack => StackEnd::OffStack,
        Failure::UnknownRegister | Failure::Bad => StackEnd::BadRule,
    }
}

/// Returns true if the innermost frame is in a system call. Its address is then the return address of that call
/// and, as with other calls, may be after the function's last instruction.
fn after_syscall(registers: &Registers, mapping: Option<&Mapping>, ip: u64) -> bool {
    const SYSCALL: [u8; 2] = [0x0f, 0x05];
    const SVC_0: [u8; 4] = [0x01, 0x00, 0x00, 0xd4];
    let Some((mapping, info)) = mapping.and_then(|m| Some((m, m.info.as_deref()?))) else {
        return false;
    };
    let code: &[u8] = match registers.arch() {
        // `call *%rcx` leaves the same value in `rcx` as `syscall` does, so check the code, too.
        Arch::X86_64 if registers.after_syscall() => &SYSCALL,
        Arch::X86_64 => return false,
        Arch::Aarch64 => &SVC_0,
    };
    let svma = mapping.svma(ip).wrapping_sub(code.len() as u64);
    info.code(svma, code.len()) == Some(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Only the tables are looked at, but it is what the rules say, which read the instructions, too.
    #[test]
    fn code_has_no_table_where_the_rules_say_so() {
        let file = std::fs::read("/proc/self/exe").expect("this program");
        let info = UnwindInfo::from_bytes(file).expect("its tables");
        let (mut by_tables, mut by_rules) =
            (Unwinder::new(info.arch()), Unwinder::new(info.arch()));
        by_rules.make_cache();
        let code = info.instruction_ranges().iter();
        // A prime, so that it meets instructions at their beginnings and inside.
        let places = code.flat_map(|range| range.clone().step_by(1009));
        let mut without = 0;
        for (svma, is_call) in places.flat_map(|svma| [(svma, false), (svma, true)]) {
            let expect = match by_rules.rule(&info, svma + u64::from(is_call), is_call) {
                // Nothing calls these: there is no caller to be guessed.
                Rule::Root | Rule::Prepared => continue,
                Rule::Compact(rule) => rule.cfa.lost().is_some(),
                Rule::Missing(_) | Rule::Unread => true,
                Rule::Row(_) | Rule::Bad => false,
                Rule::Switch { .. } | Rule::Goroutine(_) => false,
            };
            assert_eq!(by_tables.has_no_table(&info, svma, is_call), expect, "{svma:#x} {is_call}");
            without += u32::from(expect);
        }
        assert!(without > 0, "each program has code without a table: linkage, start, padding");
    }
}
