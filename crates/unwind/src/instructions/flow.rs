//! Follows the instructions of a piece of code from its functions' starts.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind};

use super::effect::{self, Effects};
use super::memo::{Bytes, Memo};
use super::starts::Starts;
use super::state::{Kind, State, States};

/// The byte at an offset: 0, [`INSIDE`], or the number of a state plus 1, and flags.
type Cell = u32;

/// The byte is in an instruction, but not its first.
const INSIDE: Cell = 1 << 29;
/// Nothing but a call goes on here, and that call may never return.
const AFTER_CALL: Cell = 1 << 30;
/// The state has been replaced once; after that, states are joined.
const REPLACED: Cell = 1 << 31;
/// The state is only tried.
const TRIED: Cell = 1 << 28;
const NUMBER: Cell = TRIED - 1;

/// How an instruction is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Edge {
    /// From nowhere: a function starts here.
    Start,
    /// From the instruction before it, or by a jump.
    Flow,
    /// As [`Edge::Flow`], from one whose state was put in the place of another.
    Replacing,
    /// From a call before it.
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
    /// Returns, and jumps to other functions, with the stack as it was at the start; instructions that
    /// are reached from elsewhere in the same state.
    pub good: u32,
    pub bad: u32,
}

/// A change that can be taken back.
struct Trial {
    /// Offsets, and what was there.
    changes: Vec<(usize, Cell)>,
    starts: Vec<usize>,
    /// Instructions that may still be looked at.
    budget: usize,
}

/// A piece of code that has no table.
pub(super) struct Flow<'a> {
    code: &'a [u8],
    address: u64,
    decoder: Decoder<'a>,
    effects: Effects,
    pub(super) states: States,
    memo: Memo,
    cells: Vec<Cell>,
    starts: Starts,
    /// Those that have not been looked at.
    pending: BTreeSet<usize>,
    /// Where to go on; what is behind a call comes last, from the lowest address on.
    items: Vec<Item>,
    after_calls: BinaryHeap<Reverse<(usize, u32)>>,
    /// Offsets and states of jumps to places that are not known.
    jumps: BTreeMap<usize, u32>,
    /// Offsets and states behind calls, before what may be another function.
    doubtful: BTreeMap<usize, u32>,
    /// Return addresses in the program's first code, and the states there.
    entry_calls: Vec<(usize, u32)>,
    evidence: Evidence,
    trial: Option<Trial>,
    /// Instructions that may still be looked at: states that are joined again and again have an end.
    budget: usize,
}

impl<'a> Flow<'a> {
    pub(super) fn new(code: &'a [u8], address: u64) -> Self {
        /// How often an instruction is looked at, on average, at most. Real code needs less than 2.
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

    /// A function starts at this address.
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

    /// The program's first instruction is at this address.
    pub(super) fn add_entry(&mut self, address: u64) {
        if let Some(at) = self.offset(address) {
            self.starts.insert(at);
            self.begin(at, Kind::Entry);
            // The dynamic loader goes on behind its first call; elsewhere another function is there.
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

    /// Follows all functions that are known, and those that they call.
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

    /// Follows instructions to a jump, a return, or what is known.
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

    /// Brings a state to an instruction. Returns the state there, and whether it took the place of another, if
    /// there is anything new to follow.
    fn arrive(&mut self, at: usize, state: u32, edge: Edge) -> Option<(u32, bool)> {
        let cell = self.cells[at];
        let new = self.states.get(state);
        if edge != Edge::Start && self.starts.contains(at) {
            // Into another function: what it is called with is known.
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

    /// Two states at one instruction.
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

    /// Executes an instruction. Returns the state of the one behind it, if it goes on there.
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
        // The one whose effect depends on where it is.
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

    /// The states where a branch leads, and behind it.
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
            // To another function, in its caller's place.
            None => {
                let is_end = self.states.get(state).is_at_return_address();
                self.evidence.good += u32::from(is_end);
            }
        }
    }

    /// Code behind a call is followed later: the call may not return, and then the code there has another
    /// state, which is known by the jumps that lead there.
    fn call(&mut self, instruction: &Instruction, end: usize, state: u32) -> Option<u32> {
        let is_direct = instruction.op0_kind() == OpKind::NearBranch64;
        let target = instruction.near_branch_target();
        if is_direct && target == instruction.next_ip() {
            // The way to find out where the code is: the return address is popped.
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

    /// Returns true if what is behind a call looks like another function, so that the call may never return.
    fn may_be_start(&mut self, at: usize) -> bool {
        let mut instruction = Instruction::default();
        let is_aligned = at.is_multiple_of(16) && super::is_prologue(&self.code[at..]);
        is_aligned || self.padding(at, &mut instruction).is_some()
    }

    /// Follows code that nothing known leads to: functions that are called from elsewhere, and where
    /// jumps by tables go.
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
            // Data, or code that makes no sense: go on at the next place where a function may be.
            let aligned = (at + 1).next_multiple_of(16).min(self.code.len());
            let next = self.starts.first_in(at + 1..aligned);
            at = next.unwrap_or(aligned);
        }
    }

    /// Follows what does nothing behind calls that turned out to return, to what is known behind it.
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

    /// The length of an instruction that does nothing, as there are between functions.
    fn padding(&mut self, at: usize, instruction: &mut Instruction) -> Option<usize> {
        match self.code[at] {
            0x00 | 0xcc => return Some(1),
            0x0f | 0x2e | 0x66 | 0x90 => {}
            _ => return None,
        }
        let is_nop = self.decode(at, instruction) && instruction.mnemonic() == Mnemonic::Nop;
        is_nop.then(|| instruction.len())
    }

    /// Tries what the state at an instruction may be, and takes the best.
    fn try_states(&mut self, at: usize) -> bool {
        /// Jumps by tables in one function, at most.
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
        // Where the code before has ended and there is room, there is a function; else a branch of this one.
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

    /// The first of some states that something speaks for, and nothing against; else the first that nothing
    /// speaks against.
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

    /// The state behind the call that is directly before.
    fn state_behind_call(&self, at: usize) -> Option<u32> {
        const LONGEST_PADDING: usize = 64;
        let from = at.saturating_sub(LONGEST_PADDING);
        let (&end, &state) = self.doubtful.range(from..=at).next_back()?;
        self.cells[end..at].iter().all(|&cell| cell == 0).then_some(state)
    }

    /// The evidence for a state; everything is as it was before.
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

    /// Addresses and states of the instructions that were reached, in order; `None` where none is.
    pub(super) fn reached(&self) -> impl Iterator<Item = (u64, Option<&State>)> {
        let cells = self.cells.iter().enumerate().filter(|(_, cell)| **cell & INSIDE == 0);
        cells.map(|(at, &cell)| {
            let state = (cell & NUMBER).checked_sub(1).map(|number| self.states.get(number));
            (self.address.wrapping_add(at as u64), state)
        })
    }
}
