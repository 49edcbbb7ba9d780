//! Follows the instructions of a piece of code from the starts of its functions.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind};

use super::effect::{self, Effects};
use super::memo::{Bytes, Memo};
use super::starts::Starts;
use super::state::{Kind, State, States};

/// Analysis result for one byte: 0 (not reached), [`INSIDE`], or the number of a state plus 1, with flags.
type Cell = u32;

/// The byte is in an instruction, but not its first.
const INSIDE: Cell = 1 << 29;
/// Flag: the instruction is reached only from a call before it, which may never return.
const AFTER_CALL: Cell = 1 << 30;
/// Flag: the state has been replaced once; from then on, states are joined.
const REPLACED: Cell = 1 << 31;
/// Flag: the state was set in a trial.
const TRIED: Cell = 1 << 28;
const NUMBER: Cell = TRIED - 1;

/// How an instruction is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Edge {
    /// Not from other code: a function starts here.
    Start,
    /// From the instruction before it, or by a jump.
    Flow,
    /// Like [`Edge::Flow`], from an instruction whose state has replaced another.
    Replacing,
    /// By the return from a call before it.
    Call,
}

struct Item {
    at: usize,
    state: u32,
    edge: Edge,
}

/// Evidence for and against a guess of the state at an instruction.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Evidence {
    /// Returns, and jumps to other functions, with the stack pointer as at the start; instructions that are reached
    /// from elsewhere in the same state.
    pub good: u32,
    pub bad: u32,
}

/// Changes that can be undone.
struct Trial {
    /// Offsets of cells, and their previous values.
    changes: Vec<(usize, Cell)>,
    starts: Vec<usize>,
    /// Number of instructions that may still be visited.
    budget: usize,
}

/// Analysis of a piece of code that has no table.
pub(super) struct Flow<'a> {
    code: &'a [u8],
    address: u64,
    decoder: Decoder<'a>,
    effects: Effects,
    pub(super) states: States,
    memo: Memo,
    cells: Vec<Cell>,
    starts: Starts,
    /// Starts that have not been followed yet.
    pending: BTreeSet<usize>,
    /// Instructions to continue at. Code after calls comes last, from the lowest address on.
    items: Vec<Item>,
    after_calls: BinaryHeap<Reverse<(usize, u32)>>,
    /// Offsets and states of jumps with unknown targets.
    jumps: BTreeMap<usize, u32>,
    /// Offsets after calls that may be followed by another function, and states there.
    doubtful: BTreeMap<usize, u32>,
    /// Offsets after calls in the program's entry code, and states there.
    entry_calls: Vec<(usize, u32)>,
    evidence: Evidence,
    trial: Option<Trial>,
    /// Number of instructions that may still be visited: bounds repeated joins of states.
    budget: usize,
}

impl<'a> Flow<'a> {
    pub(super) fn new(code: &'a [u8], address: u64) -> Self {
        /// Maximum number of visits for each byte of code, on average. Real code needs less than 2 visits of an
        /// instruction.
        const VISITS: usize = 8;
        Self {
            code,
            address,
            decoder: Decoder::with_ip(64, code, address, DecoderOptions::NONE),
            effects: Effects::new(),
            states: States::default(),
            memo: Memo::new(code.len()),
            cells: vec![0; code.len()],
            starts: Starts::new(code.len()),
            pending: BTreeSet::new(),
            items: Vec::new(),
            after_calls: BinaryHeap::new(),
            jumps: BTreeMap::new(),
            doubtful: BTreeMap::new(),
            entry_calls: Vec::new(),
            evidence: Evidence::default(),
            trial: None,
            budget: code.len().saturating_mul(VISITS).saturating_add(64),
        }
    }

    /// Adds the start of a function.
    pub(super) fn add_start(&mut self, address: u64) {
        if let Some(at) = self.offset(address) {
            self.note_start(at);
        }
    }

    fn note_start(&mut self, at: usize) {
        match &mut self.trial {
            Some(trial) => trial.starts.push(at),
            None => {
                if self.starts.insert(at) {
                    self.pending.insert(at);
                }
            }
        }
    }

    /// Follows the entry code of the program, which starts at this address.
    pub(super) fn add_entry(&mut self, address: u64) {
        if let Some(at) = self.offset(address) {
            self.starts.insert(at);
            self.begin(at, Kind::Entry);
            // In the dynamic loader, the entry code continues after its first call; in other files another function
            // is there.
            while let Some((behind, state)) = self.entry_calls.pop() {
                let is_new = self.cells[behind] == 0 && !self.starts.contains(behind);
                if is_new && self.try_state(behind, state).bad == 0 {
                    self.items.push(Item { at: behind, state, edge: Edge::Flow });
                    self.run();
                }
            }
        }
    }

    fn offset(&self, address: u64) -> Option<usize> {
        let at = usize::try_from(address.checked_sub(self.address)?).ok()?;
        (at < self.code.len()).then_some(at)
    }

    /// Follows all functions that are known, and the functions that they call.
    pub(super) fn follow_starts(&mut self) {
        while let Some(at) = self.pending.pop_first() {
            if self.cells[at] == 0 {
                let kind = match super::is_signal_return(&self.code[at..]) {
                    true => Kind::SignalReturn,
                    false => Kind::Function,
                };
                self.begin(at, kind);
            }
        }
    }

    fn begin(&mut self, at: usize, kind: Kind) {
        let state = self.states.number(State::entry(kind));
        self.items.push(Item { at, state, edge: Edge::Start });
        self.run();
    }

    fn run(&mut self) {
        loop {
            let next = self.items.pop().or_else(|| {
                let Reverse((at, state)) = self.after_calls.pop()?;
                Some(Item { at, state, edge: Edge::Call })
            });
            let Some(item) = next else { return };
            self.follow(item);
        }
    }

    /// Follows instructions up to a jump, a return, or code that is known already.
    fn follow(&mut self, item: Item) {
        let Item { mut at, mut state, mut edge } = item;
        let mut instruction = Instruction::default();
        while at < self.code.len() && self.may_go_on() {
            let Some((known, replaces)) = self.arrive(at, state, edge) else { return };
            state = known;
            if !self.decode(at, &mut instruction) {
                self.evidence.bad += 1;
                return;
            }
            let end = at + instruction.len();
            for inside in at + 1..end {
                if self.cells[inside] == 0 {
                    self.set(inside, INSIDE);
                }
            }
            edge = if replaces { Edge::Replacing } else { Edge::Flow };
            let Some(next) = self.leave(&instruction, end, state, edge) else { return };
            (at, state) = (end, next);
        }
    }

    fn may_go_on(&mut self) -> bool {
        if let Some(trial) = &mut self.trial {
            let Some(left) = trial.budget.checked_sub(1) else { return false };
            trial.budget = left;
        }
        let left = self.budget.checked_sub(1);
        self.budget = left.unwrap_or(0);
        left.is_some()
    }

    fn decode(&mut self, at: usize, instruction: &mut Instruction) -> bool {
        if self.decoder.set_position(at).is_err() {
            return false;
        }
        self.decoder.set_ip(self.address.wrapping_add(at as u64));
        self.decoder.decode_out(instruction);
        !instruction.is_invalid()
    }

    fn set(&mut self, at: usize, mut cell: Cell) {
        if let Some(trial) = &mut self.trial {
            trial.changes.push((at, self.cells[at]));
            cell |= TRIED;
        }
        self.cells[at] = cell;
    }

    /// Merges a state into the instruction at an offset. Returns the resulting state, and true if it replaced
    /// another; `None` if there is nothing new to follow.
    fn arrive(&mut self, at: usize, state: u32, edge: Edge) -> Option<(u32, bool)> {
        let cell = self.cells[at];
        let new = self.states.get(state);
        if edge != Edge::Start && self.starts.contains(at) {
            // Execution reaches another function, whose state at its start is known.
            if edge == Edge::Call || new.is_at_return_address() || new.sp().is_none() {
                self.evidence.good += u32::from(new.is_at_return_address());
                return None;
            }
        }
        if cell == 0 {
            let flags = if edge == Edge::Call { AFTER_CALL } else { 0 };
            self.set(at, (state + 1) | flags);
            return Some((state, false));
        }
        let old = (cell & NUMBER).checked_sub(1).filter(|_| cell & INSIDE == 0);
        let Some(old) = old else {
            self.evidence.bad += 1;
            return None;
        };
        if old == state {
            self.evidence.good += u32::from(cell & TRIED == 0);
            if edge != Edge::Call && cell & AFTER_CALL != 0 {
                self.set(at, cell & !AFTER_CALL);
            }
            return None;
        }
        self.meet(at, old, state, edge)
    }

    /// Merges two different states at one instruction.
    fn meet(&mut self, at: usize, old: u32, new: u32, edge: Edge) -> Option<(u32, bool)> {
        let cell = self.cells[at];
        let (before, after) = (self.states.get(old), self.states.get(new));
        if before.kind != after.kind || before.sp() != after.sp() {
            if edge == Edge::Call || matches!(after.kind, Kind::Root | Kind::Entry) {
                return None;
            }
            let doubtful = edge == Edge::Replacing
                || cell & AFTER_CALL != 0
                || matches!(before.kind, Kind::Root | Kind::Entry)
                || self.starts.contains(at);
            if doubtful && cell & REPLACED == 0 {
                self.set(at, (new + 1) | REPLACED);
                return Some((new, true));
            }
            if self.trial.is_some() {
                self.evidence.bad += 1;
                return None;
            }
        } else {
            self.evidence.good += u32::from(cell & TRIED == 0);
        }
        let joined = match self.memo.joined(old, new) {
            Some(joined) => joined,
            None => {
                let mut joined = before.join(after);
                joined.kind = after.kind;
                let joined = self.states.number(joined);
                self.memo.set_joined(old, new, joined);
                joined
            }
        };
        if joined == old {
            return None;
        }
        self.set(at, (joined + 1) | (cell & (REPLACED | TRIED)));
        Some((joined, edge == Edge::Replacing))
    }

    /// Executes an instruction. Returns the state at the next instruction, if execution continues there.
    fn leave(
        &mut self,
        instruction: &Instruction,
        end: usize,
        state: u32,
        edge: Edge,
    ) -> Option<u32> {
        let at = end - instruction.len();
        let flow = instruction.flow_control();
        let is_system_call = instruction.code() == Code::Syscall;
        match flow {
            FlowControl::Next => self.next(instruction, at, state),
            FlowControl::ConditionalBranch => {
                let (taken, not) = self.branch(instruction, state);
                self.jump(instruction.near_branch_target(), taken, edge);
                Some(not)
            }
            FlowControl::UnconditionalBranch => {
                self.jump(instruction.near_branch_target(), state, edge);
                None
            }
            FlowControl::IndirectBranch => {
                if self.trial.is_none() {
                    self.jumps.insert(at, state);
                }
                let is_end = self.states.get(state).is_at_return_address();
                self.evidence.good += u32::from(is_end);
                None
            }
            FlowControl::Return => {
                let state = self.states.get(state);
                let good = state.is_at_return_address();
                let known = state.sp().is_some() || state.kind == Kind::Entry;
                self.evidence.good += u32::from(good);
                self.evidence.bad += u32::from(known && !good);
                None
            }
            FlowControl::Call | FlowControl::IndirectCall if !is_system_call => {
                self.call(instruction, end, state)
            }
            FlowControl::Call => self.next(instruction, at, state),
            FlowControl::XbeginXabortXend => self.next(instruction, at, state),
            FlowControl::Interrupt if instruction.mnemonic() != Mnemonic::Int3 => {
                self.next(instruction, at, state)
            }
            _ => None,
        }
    }

    fn next(&mut self, instruction: &Instruction, at: usize, state: u32) -> Option<u32> {
        if instruction.mnemonic() == Mnemonic::Hlt {
            return None;
        }
        if self.states.get(state).kind == Kind::SignalReturn
            && instruction.mnemonic() == Mnemonic::Syscall
        {
            return None;
        }
        if effect::leaves_alone(self.states.get(state), instruction) {
            return Some(state);
        }
        // `and` is the only instruction whose effect depends on its address.
        let depends = instruction.mnemonic() == Mnemonic::And;
        let bytes = Bytes::new(&self.code[at..], instruction.len());
        if let Some(next) = self.memo.next(state, bytes).filter(|_| !depends) {
            return Some(next);
        }
        let mut next = self.states.get(state).clone();
        self.effects.apply(&mut next, instruction);
        let next = self.states.number(next);
        self.memo.set_next(state, bytes, next);
        Some(next)
    }

    /// States at the target of a branch, and after it.
    fn branch(&mut self, instruction: &Instruction, state: u32) -> (u32, u32) {
        if self.states.get(state).kind != Kind::Cloned {
            return (state, state);
        }
        let mut parent = self.states.get(state).clone();
        parent.kind = Kind::Function;
        let parent = self.states.number(parent);
        let child = self.states.number(State::entry(Kind::Root));
        match instruction.mnemonic() {
            Mnemonic::Je => (child, parent),
            Mnemonic::Jne => (parent, child),
            _ => (state, state),
        }
    }

    fn jump(&mut self, target: u64, state: u32, edge: Edge) {
        match self.offset(target) {
            Some(at) => {
                let edge = if edge == Edge::Replacing { edge } else { Edge::Flow };
                self.items.push(Item { at, state, edge });
            }
            // A tail call of a function outside of this code.
            None => {
                let is_end = self.states.get(state).is_at_return_address();
                self.evidence.good += u32::from(is_end);
            }
        }
    }

    /// Executes a call. The code after it is followed later: the call may not return, and then the code there has
    /// another state, which is known from the jumps that lead there.
    fn call(&mut self, instruction: &Instruction, end: usize, state: u32) -> Option<u32> {
        let is_direct = instruction.op0_kind() == OpKind::NearBranch64;
        let target = instruction.near_branch_target();
        if is_direct && target == instruction.next_ip() {
            // Idiom to get the address of the code: the return address is popped.
            let mut next = self.states.get(state).clone();
            self.effects.push_unknown(&mut next);
            return Some(self.states.number(next));
        }
        if is_direct && let Some(at) = self.offset(target) {
            self.note_start(at);
        }
        match self.states.get(state).kind {
            Kind::Entry if end < self.code.len() => {
                self.entry_calls.push((end, state));
                return None;
            }
            Kind::Entry | Kind::SignalReturn => return None,
            Kind::Function | Kind::Cloned | Kind::Root => {}
        }
        let mut next = self.states.get(state).clone();
        self.effects.apply(&mut next, instruction);
        let next = self.states.number(next);
        if end < self.code.len() {
            match self.may_be_start(end) {
                true if self.trial.is_some() => {}
                true => {
                    self.doubtful.insert(end, next);
                }
                false => self.after_calls.push(Reverse((end, next))),
            }
        }
        None
    }

    /// Returns true if the code after a call looks like another function, so that the call may never return.
    fn may_be_start(&mut self, at: usize) -> bool {
        let mut instruction = Instruction::default();
        let is_aligned = at.is_multiple_of(16) && super::is_prologue(&self.code[at..]);
        is_aligned || self.padding(at, &mut instruction).is_some()
    }

    /// Follows code that is not reached from known code: functions that are called from elsewhere, and targets of
    /// jump tables.
    pub(super) fn follow_rest(&mut self) {
        let mut at = 0;
        let mut instruction = Instruction::default();
        while at < self.code.len() && self.budget > 0 {
            if self.cells[at] != 0 {
                at += 1;
                continue;
            }
            if let Some(len) = self.padding(at, &mut instruction) {
                at += len;
                continue;
            }
            if self.try_states(at) {
                self.follow_starts();
                continue;
            }
            // Data, or invalid code: continue at the next place where a function may start.
            let aligned = (at + 1).next_multiple_of(16).min(self.code.len());
            let next = self.starts.first_in(at + 1..aligned);
            at = next.unwrap_or(aligned);
        }
    }

    /// Follows the padding after calls that turned out to return, up to the known code after it.
    pub(super) fn follow_padding(&mut self) {
        let mut instruction = Instruction::default();
        for (end, state) in std::mem::take(&mut self.doubtful) {
            let mut at = end;
            while at < self.code.len()
                && self.cells[at] == 0
                && let Some(len) = self.padding(at, &mut instruction)
            {
                at += len;
            }
            let Some(&cell) = self.cells.get(at) else { continue };
            let Some(known) = (cell & NUMBER).checked_sub(1) else { continue };
            let same = self.states.get(known).sp() == self.states.get(state).sp();
            if at > end && cell & INSIDE == 0 && same && !self.starts.contains(at) {
                self.items.push(Item { at: end, state, edge: Edge::Call });
                self.run();
            }
        }
    }

    /// Length of an instruction that does nothing, as in the padding between functions.
    fn padding(&mut self, at: usize, instruction: &mut Instruction) -> Option<usize> {
        match self.code[at] {
            0x00 | 0xcc => return Some(1),
            0x0f | 0x2e | 0x66 | 0x90 => {}
            _ => return None,
        }
        let is_nop = self.decode(at, instruction) && instruction.mnemonic() == Mnemonic::Nop;
        is_nop.then(|| instruction.len())
    }

    /// Tries the possible states at an instruction, and follows the best one. Returns true if there was one.
    fn try_states(&mut self, at: usize) -> bool {
        /// Maximum number of indirect jumps of one function whose states are tried.
        const MOST_JUMPS: usize = 3;
        let function = self.starts.last_up_to(at).unwrap_or(0);
        let mut candidates = Vec::new();
        for &state in self.jumps.range(function..at).rev().map(|(_, state)| state).take(MOST_JUMPS)
        {
            if !candidates.contains(&state) {
                candidates.push(state);
            }
        }
        if let Some(state) = self.state_behind_call(at) {
            candidates.retain(|&candidate| candidate != state);
            candidates.insert(0, state);
        }
        let kind = match super::is_signal_return(&self.code[at..]) {
            true => Kind::SignalReturn,
            false => Kind::Function,
        };
        let entry = self.states.number(State::entry(kind));
        // Aligned code, and code like a prologue, is more likely a function; other code is a branch of the function
        // before.
        let is_start = at.is_multiple_of(16) || super::is_prologue(&self.code[at..]);
        candidates.retain(|&state| state != entry);
        let place = if is_start { 0 } else { candidates.len() };
        candidates.insert(place, entry);
        let Some(best) = self.best_of(at, &candidates) else { return false };
        if best == entry {
            self.starts.insert(at);
        }
        self.items.push(Item { at, state: best, edge: Edge::Start });
        self.run();
        self.cells[at] != 0
    }

    /// Returns the first state with evidence for it and none against it, else the first state without evidence
    /// against it.
    fn best_of(&mut self, at: usize, candidates: &[u32]) -> Option<u32> {
        let mut possible = None;
        for &state in candidates {
            let Evidence { good, bad } = self.try_state(at, state);
            match (bad, good) {
                (0, 1..) => return Some(state),
                (0, 0) => possible = possible.or(Some(state)),
                _ => {}
            }
        }
        possible
    }

    /// State after the call directly before an offset.
    fn state_behind_call(&self, at: usize) -> Option<u32> {
        const LONGEST_PADDING: usize = 64;
        let from = at.saturating_sub(LONGEST_PADDING);
        let (&end, &state) = self.doubtful.range(from..=at).next_back()?;
        self.cells[end..at].iter().all(|&cell| cell == 0).then_some(state)
    }

    /// Returns the evidence for a state; undoes all changes.
    fn try_state(&mut self, at: usize, state: u32) -> Evidence {
        const BUDGET: usize = 1000;
        let calls = self.entry_calls.len();
        self.evidence = Evidence::default();
        self.trial = Some(Trial { changes: Vec::new(), starts: Vec::new(), budget: BUDGET });
        self.items.push(Item { at, state, edge: Edge::Flow });
        self.run();
        self.entry_calls.truncate(calls);
        if let Some(trial) = self.trial.take() {
            for (at, cell) in trial.changes.into_iter().rev() {
                self.cells[at] = cell;
            }
        }
        self.evidence
    }

    /// Addresses and states of the instructions that were reached, in order; `None` for a byte that was not reached.
    pub(super) fn reached(&self) -> impl Iterator<Item = (u64, Option<&State>)> {
        let cells = self.cells.iter().enumerate().filter(|(_, cell)| **cell & INSIDE == 0);
        cells.map(|(at, &cell)| {
            let state = (cell & NUMBER).checked_sub(1).map(|number| self.states.get(number));
            (self.address.wrapping_add(at as u64), state)
        })
    }
}
