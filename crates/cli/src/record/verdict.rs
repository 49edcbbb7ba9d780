//! Summary of a recording: a line with the result, then a line for each cause that makes the result incomplete, if it
//! matters.

use pyrograph_event::counted::Cut;
use pyrograph_profile::UnitKind;
use pyrograph_resolve::{LanguageStats, Stats};
use pyrograph_session::{Question, Resolved, Summary, Trigger};

use super::goroutines::idle_share;
use super::haskell;
use super::question;
use crate::say::say;
use crate::units::{counted, grouped, percent};

/// Minimum share at which a cause is printed without `--verbose`.
const MATTERS: f64 = 0.01;

/// Prints what was sampled, and causes that make the result incomplete; with `verbose`, all of them, however small.
/// `has_reason`: the reason for having no samples is printed elsewhere.
pub fn say_verdict(
    resolved: &Resolved,
    summary: &Summary,
    (event, question): (&str, &Question),
    has_reason: bool,
    verbose: bool,
) {
    let reason = match has_reason {
        true => String::new(),
        false => no_samples(summary, question),
    };
    say!("{}", verdict(resolved, summary, (event, question), &reason));
    let of_haskell = haskell::cut_share(&resolved.profile);
    for (share, cause) in causes(&resolved.stats, summary, of_haskell) {
        if verbose || share >= MATTERS {
            say!("{cause}");
        }
    }
    if of_haskell >= MATTERS {
        say!(
            "{:.0} % of it are functions of Haskell without their callers: GHC's code has a stack of its own, which is not read; \
             compile it with -prof and run it with +RTS -p: the .prof has them, and pyrograph reads it",
            100.0 * of_haskell
        );
    }
    let is_of_threads = !matches!(question.trigger(), Trigger::Goroutines { .. });
    if is_of_threads && (question.noun() == "wait" || question.own_name() == Some("wall")) {
        let idle = idle_share(resolved);
        if idle >= MATTERS {
            say!(
                "{:.0} % of it are threads of Go's that wait for work: a goroutine that waits has no thread, and is not seen; \
                 --goroutines records where these wait",
                100.0 * idle
            );
        }
    }
}

/// Reason why a recording has no samples.
fn no_samples(summary: &Summary, question: &Question) -> String {
    let used = summary.used.unwrap_or_default().as_secs_f64();
    match question.noun() {
        "sample" if used > 0.05 => format!(
            ": {used:.2} s of CPU time were used, but no thread ran on one CPU for as long as one sampling period"
        ),
        "sample" => ": there were fewer events than one sampling period has".to_owned(),
        _ => match question.trigger() {
            // A program may have another allocator than the one that was found.
            Trigger::Allocations { path, .. } => {
                format!(": calls of malloc in {} were watched", path.display())
            }
            _ => String::new(),
        },
    }
}

/// The first line: `1,299 samples of cpu-clock (2.60 s), 0 lost, 99.8 % of stacks whole`.
fn verdict(
    resolved: &Resolved,
    summary: &Summary,
    (event, question): (&str, &Question),
    no_samples: &str,
) -> String {
    let Stats { samples, user_stacks, .. } = resolved.stats;
    let mut text = match (samples, question.noun()) {
        (0, "sample") => format!("no samples of {event}{no_samples}"),
        (0, noun) => format!("no {noun}s were seen{no_samples}"),
        (_, noun) => {
            let of = question::of(question, event);
            format!("{}{of}{}", counted(samples, noun), time(resolved))
        }
    };
    text.push_str(&format!(", {} lost", grouped(summary.lost)));
    if summary.lost > 0 {
        text.push_str(&format!(" ({})", percent(summary.lost, summary.lost + samples)));
    }
    let cut: u64 = resolved.stats.cuts.by_count().iter().map(|(_, count)| count).sum();
    match user_stacks {
        0 => {}
        _ if cut == 0 => text.push_str(", all stacks whole"),
        _ => text.push_str(&format!(
            ", {} of stacks whole",
            percent(user_stacks.saturating_sub(cut), user_stacks)
        )),
    }
    text
}

/// Sum of the samples if their value is time: ` (2.60 s)`.
fn time(resolved: &Resolved) -> String {
    let column = resolved.profile.shown;
    match resolved.profile.value_types.get(column).map(|of| of.unit_kind()) {
        Some(UnitKind::Time(unit)) => {
            let total = resolved.profile.samples.total(column) as f64;
            format!(" ({:.2} s)", total * unit.nanoseconds() as f64 / 1e9)
        }
        _ => String::new(),
    }
}

/// Causes that make the result incomplete, each with the share that is affected.
///
/// `of_haskell`: share whose callers are missing because of Haskell's own stack, which is reported separately.
fn causes(stats: &Stats, summary: &Summary, of_haskell: f64) -> Vec<(f64, String)> {
    let mut all = Vec::new();
    let mut add = |count: u64, whole: u64, text: String| {
        if count > 0 {
            all.push((count as f64 / whole.max(1) as f64, text));
        }
    };
    let Stats {
        samples, user_stacks, completed, guessed, of_recursions, unreadable_stacks, ..
    } = *stats;
    // Denominator for causes that are printed regardless of their share.
    const ALWAYS: u64 = 1;
    if summary.lost > 0 {
        let text = "what was lost has its time as [lost]: the recorder did not get to it in time; a lower -F or fewer processes lose less";
        add(summary.lost, samples + summary.lost, text.to_owned());
    }
    if let Some(rate) = summary.lowered {
        add(1, ALWAYS, format!("sampling rate lowered to {} Hz to lose no more", grouped(rate)));
    }
    let of_samples = |count: u64| percent(count, summary.skipped + samples);
    let skipped_time = summary
        .skipped_time
        .map_or(String::new(), |time| format!(" ({:.2} s)", time.as_secs_f64()));
    let throttled = match summary.throttled {
        0 => String::new(),
        times => format!(
            "; it throttled {} (sysctl kernel.perf_event_max_sample_rate)",
            counted(times, "time")
        ),
    };
    add(
        summary.skipped,
        summary.skipped + samples,
        format!(
            "{} skipped by the kernel ({}), whose time{skipped_time} counts for the sample after{throttled}",
            grouped(summary.skipped),
            of_samples(summary.skipped)
        ),
    );
    if summary.skipped == 0 {
        add(
            summary.throttled,
            samples,
            format!("throttled {}", counted(summary.throttled, "time")),
        );
    }
    let stacks =
        |count: u64| format!("{} ({})", counted(count, "stack"), percent(count, user_stacks));
    let cuts = stats.cuts.by_count();
    let cut = cuts.iter().map(|(_, count)| count).sum();
    let remedy = cuts
        .first()
        .filter(|_| of_haskell < MATTERS)
        .and_then(|(cut, _)| remedy(*cut))
        .map_or(String::new(), |text| format!("; {text}"));
    add(cut, user_stacks, format!("{} not whole: {}{remedy}", stacks(cut), counts(&cuts)));
    add(
        guessed,
        user_stacks,
        format!(
            "{} through code without unwind tables, found by its instructions (--mark-guesses shows where)",
            stacks(guessed)
        ),
    );
    add(
        of_recursions,
        user_stacks,
        format!(
            "{} of recursions deeper than the copy, with callers that may be those of a later moment",
            stacks(of_recursions)
        ),
    );
    add(
        unreadable_stacks,
        user_stacks,
        format!("{} gone with an exec or paged out", counted(unreadable_stacks, "user stack")),
    );
    let LanguageStats { stacks: with_calls, unpaired, nameless, frozen } = stats.languages;
    // At calls that begin or end, the number of interpreter frames is off by one: up to 2 % of stacks are not reported.
    if unpaired * 50 > with_calls {
        add(
            unpaired,
            user_stacks,
            format!(
                "{} in which calls of an interpreter and its native frames do not agree",
                stacks(unpaired)
            ),
        );
    }
    add(
        frozen,
        user_stacks,
        format!(
            "{} of virtual threads without the callers whose frames Java keeps in its heap",
            stacks(frozen)
        ),
    );
    add(nameless, with_calls, format!("{} without a name", counted(nameless, "interpreted call")));
    add(stats.unreadable, ALWAYS, counted(stats.unreadable, "unreadable record"));
    // Not a loss, or reported with the files without symbols.
    let names = &stats.names;
    if completed > 0 {
        all.push((0.0, format!("{} completed from the running process", stacks(completed))));
    }
    if names.unknown > 0 {
        let (unknown, all_addresses) = (grouped(names.unknown), grouped(names.addresses));
        all.push((0.0, format!("{unknown} of {all_addresses} addresses without a symbol")));
    }
    all
}

/// Remedy for a cause, if there is one.
fn remedy(cut: Cut) -> Option<&'static str> {
    match cut {
        Cut::TablePending => Some("a second recording finds the tables made"),
        Cut::NoTable => Some("a build with -fno-omit-frame-pointer can be followed"),
        Cut::Invisible => Some("record inside of the container, or with privileges for it"),
        _ => None,
    }
}

/// List of causes: `7 in code without unwind information, 3 in memory that could not be read`.
fn counts(cuts: &[(Cut, u64)]) -> String {
    let causes = cuts.iter().map(|(cut, count)| format!("{} {}", grouped(*count), cause(*cut)));
    causes.collect::<Vec<_>>().join(", ")
}

/// A cause, worded to follow a number of stacks: `3 in code without unwind information`.
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
        Cut::Moved => {
            "of precise events at the end of a function, which has returned in their registers"
        }
    }
}
