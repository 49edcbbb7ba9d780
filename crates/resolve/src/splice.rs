//! Calls of interpreters among native frames.
//!
//! A function of an interpreted language runs in the interpreter's loop, a native function. A stack has one native
//! frame for each time that the loop was entered. The calls made in one such run are a segment; each segment replaces
//! its native frame.

use pyrograph_language::Native;

use crate::language_frames::RawCall;
use crate::module_ids::ModuleId;
use crate::stacks::RawFrame;

/// A native stack with interpreter calls in it, leaf first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Spliced {
    pub frames: Vec<RawFrame>,
    /// True if there are as many segments as frames of the loop, give or take one that is just beginning or ending.
    pub paired: bool,
    /// True if the stack began with code that switches stacks. Then it is whole, wherever the native frames lead:
    /// frames outside of that code do not belong to it and are left out.
    pub began: bool,
}

/// The calls made in one run of the interpreter's loop, leaf first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Segment {
    calls: Vec<RawFrame>,
    /// Index of the native frame in which the segment runs, if it is known.
    native: Option<usize>,
    /// For each eval among the calls: its index in `calls`, and the index of the native frame that control returns to
    /// when it fails.
    evals: Vec<(usize, usize)>,
}

/// The calls of one interpreter.
struct Part {
    module: ModuleId,
    segments: Vec<Segment>,
    /// Index of the segment before whose end calls are missing.
    gap: Option<usize>,
    /// The main program's frame.
    main: Option<RawFrame>,
}

/// Splits calls by interpreter. The segments of each start at the leaf.
fn parts(calls: &[RawCall]) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    let mut open = Segment::default();
    for call in calls {
        match (call, parts.last_mut()) {
            (RawCall::Interpreter(module), last) => {
                if let Some(last) = last
                    && !open.calls.is_empty()
                {
                    last.segments.push(std::mem::take(&mut open));
                }
                parts.push(Part { module: *module, segments: Vec::new(), gap: None, main: None });
            }
            (RawCall::Frame(frame), _) => open.calls.push(*frame),
            (RawCall::Eval(frame, catch), _) => {
                open.evals.push((open.calls.len(), *catch as usize));
                open.calls.push(*frame);
            }
            (RawCall::Main(frame), part) => {
                open.calls.push(*frame);
                part.into_iter().for_each(|part| part.main = Some(*frame));
            }
            (RawCall::Truncated(frame), part) => {
                open.calls.push(*frame);
                part.into_iter().for_each(|part| part.gap = Some(part.segments.len()));
            }
            (RawCall::End(native), Some(part)) => {
                open.native = native.map(|native| native as usize);
                part.segments.push(std::mem::take(&mut open));
            }
            (RawCall::End(_), None) => {}
        }
    }
    if let Some(last) = parts.last_mut()
        && !open.calls.is_empty()
    {
        last.segments.push(open);
    }
    parts
}

/// Properties of the files that native frames belong to.
pub(crate) struct FilesOfCode<'a> {
    /// Returns the functions of an interpreter's file; `None` for other files.
    pub interpreter: &'a dyn Fn(ModuleId) -> Option<&'a Native>,
    /// Returns true if code of this file switches stacks (`pyrograph_language::switches_stacks`).
    pub switches_stacks: &'a dyn Fn(ModuleId) -> bool,
}

/// Replaces native frames with the calls, leaf first, that run in them. `whole`: the native stack reaches its root.
pub(crate) fn splice(
    native: &[RawFrame],
    calls: &[RawCall],
    whole: bool,
    files: &FilesOfCode<'_>,
) -> Spliced {
    let parts = parts(calls);
    let begin = parts.iter().find_map(|part| {
        begin_of_stack(native, part, (files.interpreter)(part.module)?, files.switches_stacks)
    });
    let native = &native[..begin.unwrap_or(native.len())];
    // Replacement for each native frame; `None`: the frame is kept.
    let mut shown: Vec<Option<Vec<RawFrame>>> = vec![None; native.len()];
    let mut paired = true;
    for part in parts {
        let Some(functions) = (files.interpreter)(part.module) else { continue };
        paired &= match functions.has_made_code() {
            true => place_each(native, part, functions, &mut shown),
            false => place(native, part, whole, functions, &mut shown),
        };
    }
    let mut frames = Vec::with_capacity(native.len() + calls.len());
    for (frame, shown) in native.iter().zip(shown) {
        match shown {
            None => frames.push(*frame),
            Some(shown) => frames.extend(shown),
        }
    }
    Spliced { frames, paired, began: begin.is_some() }
}

/// Number of native frames that belong to the running stack, if code that switches stacks began it. The stack ends with
/// the frames of such code that follow as many runs of the loop as there are segments, or one more run if one is just
/// beginning or ending.
fn begin_of_stack(
    native: &[RawFrame],
    part: &Part,
    functions: &Native,
    switches: &dyn Fn(ModuleId) -> bool,
) -> Option<usize> {
    let is_loop =
        |at: &usize| native[*at].module == part.module && functions.is_loop(native[*at].address);
    let loops: Vec<usize> = (0..native.len()).filter(is_loop).collect();
    let segments = part.segments.len();
    [segments, segments + 1].into_iter().find_map(|count| {
        let last = *loops.get(count.checked_sub(1)?)?;
        let next = loops.get(count).copied().unwrap_or(native.len());
        let mut between = native[last..next].iter().map(|frame| switches(frame.module));
        let first = last + between.position(|switches| switches)?;
        Some(first + 1 + between.take_while(|switches| *switches).count())
    })
}

/// Puts the segments of one interpreter in their places. Returns true if they agree with the native frames.
fn place(
    native: &[RawFrame],
    mut part: Part,
    whole: bool,
    functions: &Native,
    shown: &mut [Option<Vec<RawFrame>>],
) -> bool {
    let is_own = |frame: &RawFrame| frame.module == part.module;
    // JIT-compiled code counts as the loop if calls run in it.
    let in_trace: Vec<usize> = match functions.has_traces() {
        true => part.segments.iter().filter_map(|segment| segment.native).collect(),
        false => Vec::new(),
    };
    let is_loop = |at: usize, frame: &RawFrame| {
        is_own(frame) && functions.is_loop(frame.address)
            || frame.module.is_jit() && in_trace.contains(&at)
    };
    let mut loops: Vec<usize> = (0..native.len()).filter(|at| is_loop(*at, &native[*at])).collect();
    // The program is still being compiled, and the calls are its own `BEGIN` blocks; or it has ended.
    if part.segments.len() == loops.len() + 1
        && let Some(main) = part.main
        && part.segments.last().is_some_and(|last| last.calls == [main])
    {
        part.segments.pop();
    }
    if loops.is_empty() {
        return part.segments.is_empty();
    }
    let segments = &mut part.segments;
    // One extra segment, and one without calls: that run is just beginning, or has just ended.
    if segments.len() == loops.len() + 1
        && let Some(empty) = segments.iter().position(|segment| segment.calls.is_empty())
    {
        segments.remove(empty);
    }
    // One extra segment, and the interpreter's own code at the leaf: it is about to enter the loop, or has just left
    // it.
    if whole
        && part.gap.is_none()
        && segments.len() == loops.len() + 1
        && segments.iter().all(|segment| segment.native.is_none())
        && native.first().is_some_and(is_own)
        && loops[0] != 0
    {
        loops.insert(0, 0);
    }
    if whole && part.gap.is_none() && segments.len() < loops.len() {
        split_at_evals(segments, &loops);
    }
    let pairs = pairs(segments, &loops, whole, part.gap);
    // One extra frame, at the leaf: it is in its first or last instructions.
    let missing = loops.len().abs_diff(segments.len());
    let agrees = missing == 0
        || missing == 1 && loops.len() > segments.len()
        || part.gap.is_some() && loops.len() > segments.len();
    let (Some(innermost), Some(outermost)) =
        (pairs.iter().map(|(at, _)| *at).min(), pairs.iter().map(|(at, _)| *at).max())
    else {
        return agrees;
    };
    for (at, frame) in native.iter().enumerate() {
        let hides = match at {
            _ if is_loop(at, frame) || is_own(frame) && functions.is_inner(frame.address) => true,
            _ if at < innermost => false,
            _ if is_own(frame) && at < outermost => !functions.is_shown(frame.address),
            _ if is_own(frame) => !functions.is_start(frame.address),
            _ => false,
        };
        if hides {
            shown[at] = Some(Vec::new());
        }
    }
    for (at, segment) in pairs {
        shown[at] = Some(std::mem::take(&mut segments[segment].calls));
    }
    agrees
}

/// Splits segments at evals that have a run of the loop for themselves. Such a run is the first one below the native
/// frame that control returns to when the eval fails. For evals that share a run with their callers, that native frame
/// is farther out.
fn split_at_evals(segments: &mut Vec<Segment>, loops: &[usize]) {
    let mut split = Vec::with_capacity(loops.len());
    // Index of the run that the current segment belongs to; segments are visited from the root on.
    let mut left = loops.len();
    for mut segment in std::mem::take(segments).into_iter().rev() {
        let mut run = left.saturating_sub(1);
        for (at, catch) in std::mem::take(&mut segment.evals).into_iter().rev() {
            let own = loops.partition_point(|frame| *frame < catch).checked_sub(1);
            if let Some(own) = own.filter(|own| *own < run) {
                let outer = segment.calls.split_off(at + 1);
                split.push(Segment { calls: outer, ..Segment::default() });
                run = own;
            }
        }
        left = run;
        split.push(segment);
    }
    split.reverse();
    *segments = split;
}

/// Puts calls that have native frames of their own in their places. Returns true if each call has such a frame, and
/// each frame of the loop has a call.
fn place_each(
    native: &[RawFrame],
    part: Part,
    functions: &Native,
    shown: &mut [Option<Vec<RawFrame>>],
) -> bool {
    let is_own = |frame: &RawFrame| frame.module == part.module;
    let is_place =
        |at: &usize| native.get(*at).is_some_and(|frame| is_own(frame) || frame.module.is_jit());
    let (mut agrees, mut calls) = (true, vec![None; native.len()]);
    for segment in part.segments {
        match segment.native.filter(is_place) {
            Some(at) => calls[at] = Some(segment.calls),
            None => agrees = false,
        }
    }
    let Some(outermost) = calls.iter().rposition(Option::is_some) else { return agrees };
    let mut is_inside = true;
    for (at, (frame, calls)) in native.iter().zip(calls).enumerate() {
        if let Some(mut calls) = calls {
            is_inside = false;
            // The innermost call is the frame's own code. It is compiled code if the frame is not the file's loop.
            if functions.has_loop()
                && frame.module.is_jit()
                && let Some(own) = calls.first_mut()
            {
                *own = own.compiled();
            }
            // A function without an interpreter frame, called by the function to which the frame belongs.
            if is_own(frame) && functions.is_shown(frame.address) {
                calls.insert(0, *frame);
            }
            shown[at] = Some(calls);
            continue;
        }
        let hides = match at {
            // At the leaf, a run of the loop may be just beginning or ending.
            _ if is_inside || !is_own(frame) => false,
            _ if functions.is_loop(frame.address) => {
                agrees = false;
                false
            }
            _ if at < outermost => !functions.is_shown(frame.address),
            _ => !functions.is_start(frame.address),
        };
        if hides {
            shown[at] = Some(Vec::new());
        }
    }
    agrees
}

/// Pairs of native frames and the segments that run in them, as indices.
fn pairs(
    segments: &[Segment],
    loops: &[usize],
    whole: bool,
    gap: Option<usize>,
) -> Vec<(usize, usize)> {
    let numbers = 0..segments.len();
    let is_exact = |segment: &Segment| segment.native.is_some_and(|native| loops.contains(&native));
    // The outermost segment of a main thread may have no known place.
    if segments.iter().any(is_exact) {
        return numbers
            .filter_map(|n| Some((segments[n].native.filter(|at| loops.contains(at))?, n)))
            .collect();
    }
    let count = segments.len().min(loops.len());
    if let Some(inner) = gap
        && whole
        && count == segments.len()
    {
        let outer = loops.len() - (count - inner);
        let frames = loops[..inner].iter().chain(&loops[outer..]);
        return frames.copied().zip(0..).collect();
    }
    match whole {
        true => {
            let (frames, first) = (&loops[loops.len() - count..], segments.len() - count);
            frames.iter().copied().zip(first..).collect()
        }
        false => loops.iter().copied().take(count).zip(0..).collect(),
    }
}

#[cfg(test)]
mod tests;
