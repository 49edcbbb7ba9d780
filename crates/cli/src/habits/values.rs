//! Translations of the values of options.

use std::path::Path;

use super::{Ours, Translated, here, option};
use crate::record::question as questions;
use crate::units::parse_duration;

/// The value of an option that is a time here, and takes none or another value in perf: `line` explains it if the value
/// is no time.
pub(super) fn duration(value: &str, line: &str) -> Option<Translated> {
    let digits = value.strip_prefix('.').unwrap_or(value);
    let is_time = digits.starts_with(|first: char| first.is_ascii_digit());
    (!is_time && parse_duration(value).is_err()).then(|| Err(format!("-d: {line}")))
}

/// `-F max`: the highest rate that the kernel permits.
pub(super) fn most(value: &str) -> Option<Translated> {
    let path = "/proc/sys/kernel/perf_event_max_sample_rate";
    match value {
        "max" => Some(match std::fs::read_to_string(path) {
            Ok(rate) => option("--frequency", rate.trim()),
            Err(error) => Err(format!("-F max: {path}: {error}")),
        }),
        _ => None,
    }
}

pub(super) fn names(value: &str) -> Option<Translated> {
    Some(option("--comm", value))
}

pub(super) fn percentage(value: &str) -> Option<Translated> {
    match value {
        "relative" => Some(here(&["--rescale"])),
        "absolute" => Some(here(&[])),
        _ => None,
    }
}

pub(super) fn first(name: &str) -> Option<Translated> {
    Some(Ok(Ours { first: vec![name.to_owned()], ..Ours::default() }))
}

pub(super) fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

pub(super) fn milliseconds(value: &str) -> String {
    if is_number(value) { format!("{value}ms") } else { value.to_owned() }
}

pub(super) fn separator(value: &str) -> Option<Translated> {
    Some(match value {
        "," | "" => here(&["--csv"]),
        _ => Err("-x: values are separated by commas (--csv), or are JSON (--json)".to_owned()),
    })
}

pub(super) fn group(value: &str) -> Option<Translated> {
    match value.contains(',') {
        true => Some(Err("-G: one control group; --by cgroup counts each apart".to_owned())),
        false => Some(option("--cgroup", value)),
    }
}

/// `strace -s 100`; `-s` alone is our summary.
pub(super) fn string_limit(value: &str) -> Option<Translated> {
    is_number(value).then(|| option("--string-limit", value))
}

/// `strace -e QUALIFIER=VALUE`.
pub(super) fn qualified(value: &str) -> Option<Translated> {
    let (qualifier, value) = value.split_once('=')?;
    Some(match qualifier {
        "trace" | "t" | "calls" if value == "all" => here(&[]),
        "trace" | "t" | "calls" => option("--expr", value),
        "status" | "s" if value == "failed" => here(&["--failed"]),
        "signal" | "verbose" | "v" | "abbrev" | "a" | "raw" | "x" | "decode-fds" | "quiet"
        | "q" => Err(format!("-e {qualifier}=: lines have one form here, and no signals")),
        "read" | "r" | "write" | "w" => {
            Err(format!("-e {qualifier}=: data are shown up to --string-limit 1024"))
        }
        "inject" | "fault" | "kvm" => {
            Err(format!("-e {qualifier}=: calls are watched, and not changed"))
        }
        _ => return None,
    })
}

/// perf's keys of rows; ours are the orders `self` and `total`.
pub(super) fn sort(value: &str) -> Option<Translated> {
    match value {
        "self" | "total" | "" => None,
        _ => Some(Err(format!(
            "--sort {value}: rows are functions, with their modules; --by process,thread has these at the root, --sort \
             self or total is the order"
        ))),
    }
}

pub(super) fn call_graph(value: &str) -> Option<Translated> {
    Some(match value {
        _ if value.contains("none") => here(&["--depth=0"]),
        _ if value.contains("callee") => here(&["--callers"]),
        _ => here(&[]),
    })
}

/// `-e off-cpu`: what else can be recorded has options of its own.
pub(super) fn question(value: &str) -> Option<Translated> {
    Some(here(&[&questions::named(value)?]))
}

pub(super) fn perf_data(value: &str) -> Option<Translated> {
    let is_perfs = Path::new(value).file_name().is_some_and(|name| name == "perf.data");
    is_perfs.then(|| {
        Err("-o perf.data: that is perf's format, which is read here and not written; flamegraph.pb.gz, which every recording \
             leaves, is what `pyrograph report` and the others read"
            .to_owned())
    })
}
