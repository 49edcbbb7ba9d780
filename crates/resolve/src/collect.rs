//! From one sample to its frames.

use pyrograph_event::counted::Cut;
use pyrograph_event::{Abi, Callchain, Context, CpuMode, Entry, Regs, Sample};
use pyrograph_unwind::{AddressSpace, Arch, Registers, StackCopy, StackEnd, Unwinder};

use crate::beyond::Beyond;
use crate::cut::{cut_of, marker_of_cut};
use crate::files::Files;
use crate::jit_code::Walker;
use crate::modules::ModuleId;
use crate::stacks::{Marker, RawFrame};

/// More frames than any stack that makes sense: runaway recursion is cut here.
pub const MAX_FRAMES: usize = 1 << 16;

/// Set in a mapping's tag if addresses in it are to be kept as file offsets.
const FILE_TAG: u32 = 1 << 31;

/// Tag of a mapping of a module, so that frames need no more than the mappings.
pub fn mapping_tag(module: ModuleId, is_file: bool) -> u32 {
    module.0 | if is_file { FILE_TAG } else { 0 }
}

/// The parts of a [`mapping_tag`].
pub fn module_of_tag(tag: u32) -> (ModuleId, bool) {
    (ModuleId(tag & !FILE_TAG), tag & FILE_TAG != 0)
}

/// Collects the frames of samples, one after the other. Every thread that does this has its own.
pub struct Collector {
    unwinder: Unwinder,
    user_only: bool,
    places: Vec<Place>,
    unwound: Vec<pyrograph_unwind::Frame>,
    /// Where the last stack ended that was unwound here.
    end: StackEnd,
}

/// A frame whose address may still have to be looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// An address in the process.
    Process(u64),
    /// The same, found by a guess.
    Guessed(u64),
    /// An address in the kernel.
    Kernel(u64),
    /// A frame already.
    Frame(RawFrame),
}

impl Place {
    /// The frame.
    pub fn frame(self, spaces: Spaces<'_>) -> RawFrame {
        match self {
            Self::Frame(frame) => frame,
            Self::Kernel(address) => match spaces.kernel.lookup(address) {
                Some(code) => RawFrame::new(ModuleId(code.tag), address),
                None => RawFrame::new(ModuleId::KERNEL, address),
            },
            Self::Process(address) => user_frame(spaces.process, address),
            Self::Guessed(address) => user_frame(spaces.process, address).guessed(true),
        }
    }
}

/// Where a sample's addresses are looked up.
#[derive(Clone, Copy, Debug)]
pub struct Spaces<'a> {
    /// Mappings of its process.
    pub process: &'a AddressSpace,
    /// The code that the kernel had compiled: BPF programs, trampolines.
    pub kernel: &'a AddressSpace,
}

/// Facts of a recording about a sample beside the sample itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct Extra<'a> {
    /// The user part of its callchain, if that came later.
    pub deferred: Option<Callchain<'a>>,
    /// Its branches are the calls that have not returned (`PERF_SAMPLE_BRANCH_CALL_STACK`).
    pub branches_are_calls: bool,
}

/// Facts about the frames that were collected.
#[derive(Clone, Copy, Debug, Default)]
pub struct Collected {
    /// There is a user part, or should be.
    pub user: bool,
    /// Marker in place of its outer frames.
    pub marker: Option<Marker>,
    /// Why these are missing.
    pub cut: Option<Cut>,
    /// A frame of it was guessed, for want of an unwind table.
    pub guessed: bool,
    /// Its outer frames were read from the running process.
    pub completed: bool,
    /// These are of a recursion that is deeper than the copy: what led to it may be of a later moment.
    pub of_recursion: bool,
}

impl Walker for Collector {
    fn unwound(&self) -> (StackEnd, &[pyrograph_unwind::Frame]) {
        (self.end, &self.unwound)
    }
}

impl Collector {
    /// For samples of one architecture; `user_only` leaves the kernel's frames out.
    pub fn new(arch: Arch, user_only: bool) -> Self {
        let unwinder = Unwinder::new(arch);
        let (places, unwound, end) = (Vec::new(), Vec::new(), StackEnd::Root);
        Self { unwinder, user_only, places, unwound, end }
    }

    /// Returns true if callers are guessed where there is no unwind table.
    pub fn guessing(mut self, guessing: bool) -> Self {
        self.unwinder.set_guessing(guessing);
        self
    }

    /// The frames of the last sample, leaf first: the kernel's, then the program's.
    pub fn places(&self) -> &[Place] {
        &self.places
    }

    /// Collects the frames of a sample. `live` reads on where a stack's copy ends.
    pub fn collect(
        &mut self,
        sample: &Sample<'_>,
        space: &AddressSpace,
        extra: Extra<'_>,
        live: Option<&dyn Files>,
    ) -> Collected {
        self.places.clear();
        self.unwound.clear();
        self.end = StackEnd::Root;
        let mut chain = Chain { places: &mut self.places, user_only: self.user_only };
        let has_stack = sample.user_stack.is_some() && sample.user_regs.is_some();
        let mut collected = Collected::default();
        let by_branches = extra.branches_are_calls && sample.branches.is_some();
        let with_user = !has_stack && !by_branches;
        collected.user = chain.callchain(sample, extra.deferred, with_user);
        match (&sample.user_regs, sample.user_stack, &sample.branches) {
            (Some(regs), Some(stack), _) => {
                collected.user = true;
                let arch = self.unwinder.arch();
                match registers(arch, regs).filter(|_| !stack.bytes.is_empty()) {
                    Some(mut registers) => {
                        if sample.exact_ip
                            && sample.mode == CpuMode::User
                            && sample.ip == registers.ip()
                        {
                            registers.set_after();
                        }
                        let copy =
                            StackCopy { start: registers.sp().unwrap_or(0), bytes: stack.bytes };
                        let unwound = &mut self.unwound;
                        let tid = sample.id.tid.unwrap_or(-1);
                        // Also a copy that is not full can lack what is there: the kernel ends it at the first page
                        // that was never touched, such as in the midst of a large array.
                        let found = match live {
                            Some(files) => {
                                let live = Beyond::new(files, tid, copy.start, stack.bytes);
                                self.unwinder.unwind_live(
                                    space, &registers, copy, &live, MAX_FRAMES, unwound,
                                )
                            }
                            None => {
                                self.unwinder.unwind(space, &registers, copy, MAX_FRAMES, unwound)
                            }
                        };
                        chain.unwound(unwound);
                        self.end = found.end;
                        collected.cut = cut_of(found.end, stack.is_cut() && !found.on_other_stack);
                        if collected.cut.is_some() && chain.goes_on(sample, extra, unwound) {
                            collected.cut = None;
                        }
                        collected.marker = collected.cut.map(marker_of_cut);
                        collected.guessed = found.guessed > 0;
                        collected.completed = found.beyond_copy > 0 && collected.marker.is_none();
                        collected.of_recursion = collected.completed && found.recursion_goes_beyond;
                    }
                    None => {
                        if sample.mode == CpuMode::User {
                            chain.lone(sample);
                        }
                        // Without registers of 64 bits it is a 32-bit program.
                        (collected.marker, collected.cut) = match stack.bytes.is_empty() {
                            true => (Some(Marker::Unreadable), None),
                            false => (Some(Marker::Broken), Some(Cut::Compat)),
                        };
                    }
                }
            }
            (_, _, Some(branches)) if by_branches => {
                // Newest first: where the newest call went, then where each came from.
                if let Some(newest) = branches.iter().next() {
                    chain.user(
                        sample.ip.filter(|_| sample.mode == CpuMode::User).unwrap_or(newest.to),
                    );
                    branches.iter().for_each(|branch| chain.user(branch.from));
                    collected.user = true;
                }
            }
            _ if chain.places.is_empty() => collected.user = chain.lone(sample),
            _ => {}
        }
        self.places.extend(collected.marker.map(|it| Place::Frame(RawFrame::marker(it))));
        collected
    }
}

/// Where addresses are from that a CPU in this mode is at.
fn context_of(mode: CpuMode) -> Option<Context> {
    match mode {
        CpuMode::User => Some(Context::User),
        CpuMode::Kernel => Some(Context::Kernel),
        CpuMode::Hypervisor => Some(Context::Hypervisor),
        CpuMode::GuestKernel => Some(Context::GuestKernel),
        CpuMode::GuestUser => Some(Context::GuestUser),
        CpuMode::Unknown => None,
    }
}

/// The stack of one sample as it is put together.
struct Chain<'a> {
    places: &'a mut Vec<Place>,
    user_only: bool,
}

impl Chain<'_> {
    /// Adds the callchain that the kernel took, its user part only if `with_user`; returns whether
    /// that was there and added.
    fn callchain(
        &mut self,
        sample: &Sample<'_>,
        deferred: Option<Callchain<'_>>,
        with_user: bool,
    ) -> bool {
        let mut context = context_of(sample.mode).unwrap_or(Context::Kernel);
        // The first address is where the program was; the first of the user part after a kernel
        // part is where the kernel will return to. All others return from calls.
        let mut first = true;
        let mut user = false;
        let later = deferred.iter().flat_map(|chain| chain.entries());
        for entry in sample.callchain.entries().chain(later) {
            match entry {
                Entry::Context(next) => {
                    context = next;
                    first = true;
                }
                Entry::Address(address) => {
                    let lookup = address.wrapping_sub(u64::from(!first));
                    first = false;
                    match context {
                        Context::User | Context::UserDeferred => {
                            if with_user {
                                self.user(lookup);
                                user = true;
                            }
                        }
                        context => self.other(context, lookup),
                    }
                }
                Entry::Cookie(_) => {}
            }
        }
        user
    }

    /// Adds what the kernel, following frame pointers, found beyond the last frame of an unwound
    /// stack that ends too early; returns whether there was such a chain that goes through it.
    fn goes_on(
        &mut self,
        sample: &Sample<'_>,
        extra: Extra<'_>,
        unwound: &[pyrograph_unwind::Frame],
    ) -> bool {
        let mut in_user = sample.mode == CpuMode::User;
        let mut chain = Vec::new();
        let later = extra.deferred.iter().flat_map(|chain| chain.entries());
        for entry in sample.callchain.entries().chain(later) {
            match entry {
                Entry::Context(context) => {
                    in_user = matches!(context, Context::User | Context::UserDeferred);
                }
                Entry::Address(address) if in_user => chain.push(address),
                _ => {}
            }
        }
        let beyond = beyond(&chain, unwound);
        beyond.iter().for_each(|address| self.user(address.wrapping_sub(1)));
        !beyond.is_empty()
    }

    /// Adds the frames of an unwound stack.
    fn unwound(&mut self, frames: &[pyrograph_unwind::Frame]) {
        self.places.extend(frames.iter().map(|frame| match frame.guessed {
            true => Place::Guessed(frame.lookup_address()),
            false => Place::Process(frame.lookup_address()),
        }));
    }

    /// Adds the place itself, for a sample that has no stack; returns whether it is the program's.
    fn lone(&mut self, sample: &Sample<'_>) -> bool {
        match (sample.ip, context_of(sample.mode)) {
            (Some(ip), Some(Context::User)) => {
                self.user(ip);
                true
            }
            (Some(ip), Some(context)) => {
                self.other(context, ip);
                false
            }
            _ => false,
        }
    }

    /// Adds a frame that is not of the program.
    fn other(&mut self, context: Context, address: u64) {
        let module = match context {
            Context::GuestUser => ModuleId::GUEST,
            _ if self.user_only => return,
            Context::Kernel => return self.places.push(Place::Kernel(address)),
            Context::Guest | Context::GuestKernel => ModuleId::GUEST_KERNEL,
            Context::Hypervisor => ModuleId::HYPERVISOR,
            _ => return,
        };
        self.places.push(Place::Frame(RawFrame::new(module, address)));
    }

    fn user(&mut self, address: u64) {
        self.places.push(Place::Process(address));
    }
}

/// The frame of an address in a process.
pub fn user_frame(process: &AddressSpace, address: u64) -> RawFrame {
    match process.lookup(address) {
        Some(mapping) => {
            let (module, is_file) = module_of_tag(mapping.tag);
            let offset = (address - mapping.range.start).wrapping_add(mapping.file_offset);
            RawFrame::new(module, if is_file { offset } else { address })
        }
        None => RawFrame::new(ModuleId::UNKNOWN, address),
    }
}

/// The part of a callchain that lies beyond the last of `unwound`. Recursion may have that address
/// in the chain more than once: it is the one up to which the two are alike for longest.
fn beyond<'c>(chain: &'c [u64], unwound: &[pyrograph_unwind::Frame]) -> &'c [u64] {
    let alike = |at: usize| {
        let inwards = chain[..=at].iter().rev().zip(unwound.iter().rev());
        inwards.take_while(|(address, frame)| **address == frame.address).count()
    };
    let ends = (0..chain.len()).map(|at| (alike(at), at)).filter(|&(alike, _)| alike > 0);
    let best = ends.max_by_key(|&(alike, at)| (alike, std::cmp::Reverse(at)));
    best.map_or(&[], |(_, at)| &chain[at + 1..])
}

/// The user registers, if the program is a 64-bit one.
fn registers(arch: Arch, regs: &Regs<'_>) -> Option<Registers> {
    if regs.abi != Abi::Bits64 {
        return None;
    }
    let mut values = [0; 64];
    let mut count = 0;
    for (slot, (_, value)) in values.iter_mut().zip(regs.iter()) {
        *slot = value;
        count += 1;
    }
    Some(Registers::from_perf(arch, regs.mask(), &values[..count]))
}

#[cfg(test)]
mod tests;
