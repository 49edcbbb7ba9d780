//! What the programs have counted, as the resolver takes it.

use pyrograph_bpf::{Counted, Cut, Sort, UserStack, Wait};
use pyrograph_resolve::{CountedStack, CountedWaker, LiveFiles, Resolver};

use crate::answers;

/// Adds what was counted to the profile.
pub struct Adder<'a> {
    /// What takes it.
    pub resolver: &'a mut Resolver<LiveFiles>,
    /// The function whose returns are counted.
    pub returned: Option<&'a str>,
}

impl Adder<'_> {
    /// Adds it to the profile.
    pub fn add(&mut self, counted: &Counted<'_>) {
        let waker = counted.waker.map(|waker| CountedWaker {
            pid: waker.pid,
            process: waker.process,
            kernel: waker.kernel,
            user: frames(waker.user),
            cut: cut(waker.user),
            alone: counted.sort == Sort::Woken,
        });
        self.resolver.counted(CountedStack {
            pid: counted.pid,
            process: counted.process,
            tid: counted.tid,
            cpu: counted.cpu,
            thread: counted.thread,
            kernel: counted.kernel,
            has_user: !counted.user.is_empty(),
            user: frames(counted.user),
            cut: cut(counted.user),
            guessed: counted.user.is_guessed(),
            time: counted.time,
            wait: wait(counted.sort),
            labels: &answers::labels(counted.sort, self.returned),
            waker,
            events: counted.events,
            value: counted.value,
        });
    }
}

fn frames<'a>(stack: UserStack<'a>) -> impl Iterator<Item = (Option<u32>, u64)> + use<'a> {
    stack.frames().map(|frame| (frame.module, frame.address))
}

/// The causes, as the engine and as the resolver know them.
const CUTS: [(Cut, pyrograph_resolve::Cut); 10] = [
    (Cut::TooManyFrames, pyrograph_resolve::Cut::TooManyFrames),
    (Cut::Unreadable, pyrograph_resolve::Cut::Unreadable),
    (Cut::Unmapped, pyrograph_resolve::Cut::Unmapped),
    (Cut::TablePending, pyrograph_resolve::Cut::TablePending),
    (Cut::TableOmitted, pyrograph_resolve::Cut::TableOmitted),
    (Cut::NoTable, pyrograph_resolve::Cut::NoTable),
    (Cut::BadRule, pyrograph_resolve::Cut::BadRule),
    (Cut::Compat, pyrograph_resolve::Cut::Compat),
    (Cut::NotTaken, pyrograph_resolve::Cut::NotTaken),
    (Cut::Invisible, pyrograph_resolve::Cut::Invisible),
];

fn cut(stack: UserStack<'_>) -> Option<pyrograph_resolve::Cut> {
    let cut = stack.cut()?;
    CUTS.into_iter().find(|(engine, _)| *engine == cut).map(|(_, resolver)| resolver)
}

/// The cause as the engine knows it.
pub fn cut_of_engine(cut: pyrograph_resolve::Cut) -> Cut {
    match cut {
        pyrograph_resolve::Cut::CopyTooSmall => Cut::Unreadable,
        pyrograph_resolve::Cut::OffStack => Cut::BadRule,
        _ => {
            let known = CUTS.into_iter().find(|(_, resolver)| *resolver == cut);
            known.map_or(Cut::BadRule, |(engine, _)| engine)
        }
    }
}

fn wait(sort: Sort) -> Option<pyrograph_resolve::Wait> {
    let Sort::Wait(wait) = sort else { return None };
    Some(match wait {
        Wait::Sleep => pyrograph_resolve::Wait::Sleep,
        Wait::Lock => pyrograph_resolve::Wait::Lock,
        Wait::Condition => pyrograph_resolve::Wait::Condition,
        Wait::Io => pyrograph_resolve::Wait::Io,
        Wait::Uninterruptible => pyrograph_resolve::Wait::Uninterruptible,
        Wait::Preempted => pyrograph_resolve::Wait::Preempted,
    })
}
