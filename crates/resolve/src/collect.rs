//! Collection of the frames of a sample.

use pyrograph_event::counted::Cut;
use pyrograph_event::{Abi, Callchain, Context, CpuMode, Entry, Regs, Sample};
use pyrograph_unwind::{AddressSpace, Arch, Registers, StackCopy, StackEnd, Unwinder};

use crate::beyond::Beyond;
use crate::cut::{cut_of, marker_of_cut};
use crate::files::Files;
use crate::jit_code::Walker;
use crate::module_ids::{ModuleId, module_of_tag};
use crate::stacks::{Marker, RawFrame};

/// Limit to the frames of a stack, larger than any useful stack: runaway recursion is cut here.
pub const MAX_FRAMES: usize = 1 << 16;

/// Collects the frames of samples, one after the other. Each thread has a collector of its own.
pub struct Collector {
    unwinder: Unwinder,
    user_only: bool,
    places: Vec<Place>,
    unwound: Vec<pyrograph_unwind::Frame>,
    /// Reason why the last stack that was unwound here ended.
    end: StackEnd,
}

/// A frame whose address may still have to be looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// An address in the process.
    Process(u64),
    /// An address in the process, found by a guess.
    Guessed(u64),
    /// An address in the kernel.
    Kernel(u64),
    /// A frame that is already resolved.
    Frame(RawFrame),
}

impl Place {
    /// Resolves the address to a frame.
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

/// Address spaces in which a sample's addresses are looked up.
#[derive(Clone, Copy, Debug)]
pub struct Spaces<'a> {
    /// Mappings of the process.
    pub process: &'a AddressSpace,
    /// Code that the kernel has compiled: BPF programs, trampolines.
    pub kernel: &'a AddressSpace,
}

/// Data about a sample that is not in the sample itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct Extra<'a> {
    /// User part of the callchain, if it came in a later record.
    pub deferred: Option<Callchain<'a>>,
    /// True if the sample's branches are the calls that have not returned (`PERF_SAMPLE_BRANCH_CALL_STACK`).
    pub branches_are_calls: bool,
}

/// Properties of the collected frames.
#[derive(Clone, Copy, Debug, Default)]
pub struct Collected {
    /// True if there is a user part, or should be.
    pub user: bool,
    /// Marker in place of the missing outer frames.
    pub marker: Option<Marker>,
    /// Reason why these are missing.
    pub cut: Option<Cut>,
    /// True if a frame was guessed because there is no unwind table.
    pub guessed: bool,
    /// True if outer frames were read from the running process.
    pub completed: bool,
    /// True if those frames belong to recursion deeper than the copy: the frames that led into it may be from a later
    /// moment.
    pub of_recursion: bool,
}

impl Walker for Collector {
    fn unwound(&self) -> (StackEnd, &[pyrograph_unwind::Frame]) {
        (self.end, &self.unwound)
    }
}

impl Collector {
    /// Creates a collector for samples of one architecture; `user_only` leaves out the kernel's frames.
    pub fn new(arch: Arch, user_only: bool) -> Self {
        let unwinder = Unwinder::new(arch);
        let (places, unwound, end) = (Vec::new(), Vec::new(), StackEnd::Root);
        Self { unwinder, user_only, places, unwound, end }
    }

    /// Sets whether callers are guessed in code without an unwind table.
    pub fn guessing(mut self, guessing: bool) -> Self {
        self.unwinder.set_guessing(guessing);
        self
    }

    /// Frames of the last sample, leaf first: the kernel's, then the program's.
    pub fn places(&self) -> &[Place] {
        &self.places
    }

    /// Collects the frames of a sample. `live` reads memory beyond a stack's copy.
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
                        // Even a copy that is not full can be incomplete: the kernel ends it at the first page that was
                        // never touched, such as one in the middle of a large array.
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
                        // Registers that are not 64-bit ones mean a 32-bit program.
                        (collected.marker, collected.cut) = match stack.bytes.is_empty() {
                            true => (Some(Marker::Unreadable), None),
                            false => (Some(Marker::Broken), Some(Cut::Compat)),
                        };
                    }
                }
            }
            (_, _, Some(branches)) if by_branches => {
                // Newest first: the target of the newest call, then the source of each.
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

/// Callchain context of the addresses that a CPU in this mode executes.
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

/// Stack of a sample under construction.
struct Chain<'a> {
    places: &'a mut Vec<Place>,
    user_only: bool,
}

impl Chain<'_> {
    /// Adds the callchain that the kernel took, its user part only if `with_user`. Returns true if a user part was
    /// there and was added.
    fn callchain(
        &mut self,
        sample: &Sample<'_>,
        deferred: Option<Callchain<'_>>,
        with_user: bool,
    ) -> bool {
        let mut context = context_of(sample.mode).unwrap_or(Context::Kernel);
        // The first address is the interrupted instruction. The first address of the user part after a kernel part is
        // where the kernel will return to. All others are return addresses of calls.
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

    /// Adds frames that the kernel, following frame pointers, found beyond the last frame of an unwound stack that ends
    /// too early. Returns true if there was such a chain that goes through that frame.
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

    /// Adds the sampled address alone, for a sample without a stack. Returns true if it is in the program.
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

    /// Adds a frame that does not belong to the program.
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

/// Frame of an address in a process.
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

/// The part of a callchain beyond the last of `unwound`. With recursion, that address may be in the chain more than
/// once: the position is used up to which the two agree for longest.
fn beyond<'c>(chain: &'c [u64], unwound: &[pyrograph_unwind::Frame]) -> &'c [u64] {
    let alike = |at: usize| {
        let inwards = chain[..=at].iter().rev().zip(unwound.iter().rev());
        inwards.take_while(|(address, frame)| **address == frame.address).count()
    };
    let ends = (0..chain.len()).map(|at| (alike(at), at)).filter(|&(alike, _)| alike > 0);
    let best = ends.max_by_key(|&(alike, at)| (alike, std::cmp::Reverse(at)));
    best.map_or(&[], |(_, at)| &chain[at + 1..])
}

/// User registers, if the program is a 64-bit one.
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
