//! What is said when a recording is over.

use std::time::Duration;

use pyrograph_event::counted::Cut;
use pyrograph_record::Summary;
use pyrograph_resolve::{Resolved, StackMemory, Stats, Warning};

use crate::cpu_time::cpu_time;
use crate::question::Question;
use crate::say::say;
use crate::units::{counted, grouped, percent};

/// Says what was sampled, and everything that makes the result less than whole.
pub fn closing_line(resolved: &Resolved, summary: &Summary, event: &str, question: &Question) {
    let noun = question.noun();
    let Stats { samples, user_stacks, completed, .. } = resolved.stats;
    let mut parts = Vec::new();
    if samples == 0 {
        let used = summary.used.unwrap_or_default().as_secs_f64();
        parts.push(match noun {
            "sample" if used > 0.05 => format!(
                "no samples of {event}: {used:.2} s of CPU time were used, but no thread ran on one CPU for as long as \
                 one sampling period"
            ),
            "sample" => format!("no samples of {event}: there were fewer events than one sampling period has"),
            _ => format!("no {noun}s were seen"),
        });
    } else {
        parts.push(format!("{}{}", counted(samples, noun), question.of(event)));
    }
    parts.push(format!("{} lost", grouped(summary.lost)));
    if let Some(rate) = summary.lowered {
        parts.push(format!("sampling rate lowered to {} Hz to lose no more", grouped(rate)));
    }
    let mut say = |count: u64, text: String| {
        if count > 0 {
            parts.push(text);
        }
    };
    say(summary.throttled, format!("throttled {}", counted(summary.throttled, "time")));
    say(
        summary.skipped,
        format!(
            "{} skipped by the kernel ({}), whose time counts for the sample after",
            grouped(summary.skipped),
            percent(summary.skipped, summary.skipped + samples)
        ),
    );
    let stacks =
        |count: u64| format!("{} ({})", counted(count, "stack"), percent(count, user_stacks));
    say(completed, format!("{} completed from the running process", stacks(completed)));
    let of_recursions = resolved.stats.of_recursions;
    say(
        of_recursions,
        format!(
            "{} of them of recursions deeper than the copy, with callers that may be those of a later moment",
            grouped(of_recursions)
        ),
    );
    let guessed = resolved.stats.guessed;
    say(
        guessed,
        format!(
            "{} through code without unwind tables, found by its instructions",
            stacks(guessed)
        ),
    );
    let cuts = resolved.stats.cuts.by_count();
    let cut = cuts.iter().map(|(_, count)| count).sum();
    say(cut, format!("{} not whole: {}", stacks(cut), causes(&cuts)));
    let gone = resolved.stats.unreadable_stacks;
    say(gone, format!("{} gone with an exec or paged out", counted(gone, "user stack")));
    let names = &resolved.stats.names;
    say(
        names.unknown,
        format!(
            "{} of {} addresses without a symbol",
            grouped(names.unknown),
            grouped(names.addresses)
        ),
    );
    say(resolved.stats.unreadable, counted(resolved.stats.unreadable, "unreadable record"));
    say!("{}", parts.join(", "));

    if names.kernel_hidden {
        say!(
            "the kernel hides its symbols from this user; to permit them: \
             sudo sysctl kernel.kptr_restrict=0"
        );
    }
    let missing = &resolved.stats.missing_files;
    if !missing.is_empty() {
        const NAMED: usize = 3;
        let first = missing.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
        let more = if missing.len() > NAMED { ", …" } else { "" };
        say!(
            "{} could not be opened or had been replaced, so that functions in it have no \
             names: {first}{more}",
            counted(missing.len() as u64, "mapped file")
        );
    }
    for line in warning_lines(&names.warnings) {
        say!("{line}");
    }
}

/// One line for each kind of warning: the first, and how many more there are.
fn warning_lines(warnings: &[Warning]) -> Vec<String> {
    let mut kinds: Vec<(&Warning, u64)> = Vec::new();
    for warning in warnings {
        let is_of_kind = |(first, _): &&mut (&Warning, u64)| {
            std::mem::discriminant(*first) == std::mem::discriminant(warning)
        };
        match kinds.iter_mut().find(is_of_kind) {
            Some((_, more)) => *more += 1,
            None => kinds.push((warning, 0)),
        }
    }
    let line = |(first, more): (&Warning, u64)| match more {
        0 => first.to_string(),
        more => format!("{first}; and {} like this", counted(more, "file")),
    };
    kinds.into_iter().map(line).collect()
}

/// `7 in code without unwind information, 3 in memory that could not be read`.
fn causes(cuts: &[(Cut, u64)]) -> String {
    let causes = cuts.iter().map(|(cut, count)| format!("{} {}", grouped(*count), cause(*cut)));
    causes.collect::<Vec<_>>().join(", ")
}

/// A reason in words that follow a number of stacks: `3 in code without unwind information`.
fn cause(cut: Cut) -> &'static str {
    match cut {
        Cut::TooManyFrames => "with more frames than are kept",
        Cut::CopyTooSmall => "larger than the copy of the stack",
        Cut::Unreadable => "in memory that could not be read",
        Cut::Unmapped => "with a return address outside of all mapped code",
        Cut::TablePending => "in files whose unwind tables were not ready",
        Cut::TableOmitted => "in files whose unwind tables had no room (--table-memory)",
        Cut::NoTable => "in code without unwind information",
        Cut::BadRule => "in code with unwind information that could not be followed",
        Cut::OffStack => "leading off the stack",
        Cut::Compat => "of 32-bit programs",
        Cut::NotTaken => "of waits whose stacks were not taken",
        Cut::Invisible => "of processes in other PID namespaces, whose files cannot be opened",
    }
}

/// What stacks take when a recording ends: `stacks take 3 MiB of 256 MiB (--stack-memory); they got names 2
/// times meanwhile, in 0.52 s`.
pub fn stacks_held(memory: &StackMemory) -> String {
    let StackMemory { bytes, limit, settled, took } = memory;
    let held = format!("stacks take {:.1} MiB", *bytes as f64 / f64::from(1 << 20));
    match limit {
        None => format!("{held}, with the time of each sample: they have no limit"),
        Some(limit) => format!(
            "{held} of {} MiB (--stack-memory); they got names {} meanwhile, in {:.2} s",
            limit >> 20,
            counted((*settled).into(), "time"),
            took.as_secs_f64()
        ),
    }
}

/// The stacks for which there was no memory.
pub fn left_out(resolved: &Resolved, limit: usize) -> Option<String> {
    let left_out = resolved.stats.left_out;
    let share = percent(left_out, resolved.profile.samples.total(0));
    (left_out > 0).then(|| {
        format!(
            "{} MiB did not hold all stacks (--stack-memory): those of {share} end early, with [stack left \
             out], and later threads of one name count as one",
            limit >> 20
        )
    })
}

/// What the recording cost beside what the kernel did: `own CPU time: 0.09 s to prepare, 0.01 s while it
/// recorded, 0.12 s for names and writing`. The arguments are those of [`super::Sampled::cpu_time`].
pub fn cost((begun, ended): (Duration, Duration)) -> String {
    let seconds = |from: Duration, to: Duration| to.saturating_sub(from).as_secs_f64();
    format!(
        "own CPU time: {:.2} s to prepare, {:.2} s while it recorded, {:.2} s for names and writing",
        seconds(Duration::ZERO, begun),
        seconds(begun, ended),
        seconds(ended, cpu_time())
    )
}

/// Says if much of the CPU time of what was recorded is in no sample. Where each thread has an event of its own on
/// each CPU, its first sample comes after a period: a thread that runs for less is never seen.
pub fn too_short(summary: &Summary) {
    let Some((time, used)) = summary.unsampled.zip(summary.used) else { return };
    let (time, used) = (time.as_secs_f64(), used.as_secs_f64());
    if used > 0.1 && time > 0.3 * used {
        say!(
            "{time:.2} s of {used:.2} s of CPU time are in no sample: most threads ran for less than the time \
             between two samples; -F raises the rate, and -a samples whatever runs"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_of_one_kind_are_one_line() {
        let other = |path: &str| Warning::NotTheDebugFile {
            path: path.into(),
            reason: "its CRC is 1, not 2".to_owned(),
        };
        let damaged = Warning::DebugInfo { path: "/d".into(), reason: "it ends early".to_owned() };
        assert_eq!(
            warning_lines(&[other("/a"), damaged, other("/b"), other("/c")]),
            [
                "/a is not used as debug file: its CRC is 1, not 2; and 2 files like this",
                "debug information of /d: it ends early"
            ]
        );
    }
}
