//! Loading of the programs.

use std::os::fd::AsRawFd;
use std::path::Path;

use libbpf_rs::libbpf_sys;
use libbpf_rs::{Object, ObjectBuilder, OpenObject};
use pyrograph_event::interpreter::Language;
use pyrograph_event::request::{Trigger, Waits};

use crate::copies;
use crate::engine::{ON_ABSENT, ON_TASK};
use crate::error::{Error, may_load};
use crate::features;
use crate::kernel_text::KernelText;
use crate::kernel_types;
use crate::layout::Config;
use crate::memory::Memory;
use crate::object::{Packed, handle};
use crate::options::{Options, Sampling, copies_stacks, sampling};
use crate::trigger::Programs;
use crate::values::{self, places_of};

/// The programs of the engine.
pub static PROGRAMS: Packed = Packed(include_bytes!("programs/profile.bpf.o.gz"));

/// Maps that take much memory and are needed only if live allocations are counted.
const LIVE_MAPS: [&str; 3] = ["asked", "held", "sites"];

/// Maps whose rows are allocated as they are needed, if the kernel supports that: few of very many rows are used.
const ROWS_AS_NEEDED: [&str; 3] = ["files", "held", "targets"];

/// Maximum number of goroutines that wait at one time. Their rows are allocated as they are needed.
const MOST_GOROUTINES: u32 = 1 << 20;

/// Programs that take stacks of waiting threads, if the kernel supports that.
const READ_OTHERS: [&str; 2] = [ON_TASK, ON_ABSENT];

/// Number of rows of a map that can be of use (for a ring buffer, its size in bytes); `None` to keep the default. All
/// rows are preallocated when a map is created: some maps have 65,536 rows, which take as long as everything else in a
/// short recording.
fn most_rows(options: &Options, cpus: u64, map: &str) -> Option<u32> {
    let waits = options.waits != Waits::None;
    let is_of_use = match map {
        "targets" => options.scope.only_targets,
        "blocked" => waits || options.trigger == Trigger::Locks,
        "pending" => waits || !options.trigger.counts_at_once(),
        "copies" => copies_stacks(options),
        "functions" | "functions_emitted" | "python_threads" => !options.languages.is_empty(),
        "commands" => options.command_lines,
        "called" => {
            matches!(&options.trigger, Trigger::Values { values, .. } if values.need_call())
        }
        "key_texts" | "values_here" => matches!(options.trigger, Trigger::Values { .. }),
        _ => true,
    };
    if !is_of_use {
        // The kernel requires a ring buffer to have a page.
        let is_ring = matches!(map, "commands" | "copies" | "functions");
        return Some(if is_ring { 4096 } else { 1 });
    }
    let hertz = sampled_hertz(options);
    if map == "copies" {
        return Some(copies::ring_size(hertz, cpus));
    }
    match map {
        "probe_plans" => Some(values::rows(places_of(options.trigger.without_values()))),
        "patterns" => Some(values::rows(match &options.trigger {
            Trigger::Values { values, .. } => values::patterns(std::iter::once(values)),
            _ => 0,
        })),
        "counts_0" | "counts_1" if options.keep_times => Some(rows_with_times(options, cpus)),
        "counts_0" | "counts_1" => Some(rows_of_clock(hertz?, cpus)),
        // Stacks of 126 frames.
        "stacks" => Some(rows_of_clock(hertz?, cpus) << 10),
        _ => None,
    }
}

/// Number of counts that a clock may make between two drains: these are twice a second, and late on a busy machine.
fn rows_of_clock(hertz: u64, cpus: u64) -> u32 {
    let rows = hertz.saturating_mul(cpus).saturating_mul(4).clamp(1 << 10, 1 << 20);
    (rows as u32).next_power_of_two()
}

/// Number of rows of a map in which each count has a time. Once half of the rows are in use, the unit of time is
/// longer.
fn rows_with_times(options: &Options, cpus: u64) -> u32 {
    sampled_hertz(options).map_or(1 << 16, |hertz| rows_of_clock(hertz, cpus).min(1 << 17))
}

/// Number of samples per second on each CPU, if a clock takes them.
fn sampled_hertz(options: &Options) -> Option<u64> {
    let is_sampled = options.waits == Waits::None && options.trigger == Trigger::PerfEvents;
    options.hertz.filter(|_| is_sampled)
}

/// Programs and maps to load, selected by name.
struct Wanted<'a> {
    /// True if live allocations are counted.
    live: bool,
    /// True if waits of goroutines are counted.
    goroutines: bool,
    needed: &'a dyn Fn(&str) -> bool,
    most_rows: &'a dyn Fn(&str) -> Option<u32>,
    /// Folder below which the kernel's types are kept.
    cache: Option<&'a Path>,
}

/// Loaded programs.
pub struct Loaded {
    pub object: Object,
    pub memory: Memory,
    /// Languages that are left out, and why.
    pub refused: Option<RefusedLanguages>,
}

/// Languages whose calls are not found, because the kernel rejects the programs that find them.
#[derive(Debug)]
pub struct RefusedLanguages {
    /// The languages.
    pub languages: Vec<Language>,
    /// The error of loading all languages together.
    pub error: Error,
}

/// Loads the programs that are needed. `live`: live allocations are counted.
pub fn load(
    options: &Options,
    text: &KernelText,
    live: bool,
    needed: &dyn Fn(&str) -> bool,
) -> Result<Loaded, Error> {
    let cpus = libbpf_rs::num_possible_cpus().map_or(u64::MAX, |cpus| cpus as u64);
    let mut config = config(options, text, cpus);
    let most_rows = |map: &str| most_rows(options, cpus, map);
    let cache = options.scope.cache.as_deref();
    let goroutines = matches!(options.trigger, Trigger::Goroutines { .. });
    let wanted = Wanted { live, goroutines, needed, most_rows: &most_rows, cache };
    let (object, refused) = with_languages(&options.languages, |languages| {
        config.languages = bits(languages);
        open_and_load(&config, &wanted)
    })?;
    let memory = Memory::new(
        handle(&object, "blocks")?,
        &handle(&object, "modules")?,
        &handle(&object, "rules")?,
        options.table_memory,
    )?;
    Ok(Loaded { object, memory, refused })
}

/// Loads the programs with the walkers of all wanted languages. If the kernel rejects these, but accepts the programs
/// without walkers, each language is added that the kernel accepts together with the earlier ones.
fn with_languages<T>(
    wanted: &[Language],
    mut load: impl FnMut(&[Language]) -> Result<T, Error>,
) -> Result<(T, Option<RefusedLanguages>), Error> {
    let error = match load(wanted) {
        Ok(loaded) => return Ok((loaded, None)),
        Err(error @ Error::Load { .. }) if !wanted.is_empty() => error,
        Err(error) => return Err(error),
    };
    // Something else is wrong: the first error, about everything that was wanted, is returned.
    let Ok(mut loaded) = load(&[]) else { return Err(error) };
    let (mut taken, mut languages) = (Vec::new(), Vec::new());
    for language in wanted {
        taken.push(*language);
        match load(&taken) {
            Ok(more) => loaded = more,
            Err(_) => languages.extend(taken.pop()),
        }
    }
    Ok((loaded, Some(RefusedLanguages { languages, error })))
}

/// Bit set of languages, as in the programs' configuration.
fn bits(languages: &[Language]) -> u32 {
    languages.iter().fold(0, |bits, language| bits | 1 << *language as u32)
}

fn open_and_load(config: &Config, wanted: &Wanted<'_>) -> Result<Object, Error> {
    let Wanted { live, goroutines, needed, most_rows, cache } = *wanted;
    let times = config.fine_rows > 0;
    with_types(&PROGRAMS, "types", cache, |mut open, rows_as_needed| {
        for mut map in open.maps_mut() {
            let name = map.name().to_string_lossy().into_owned();
            if !live && LIVE_MAPS.contains(&&*name) {
                map.set_autocreate(false).map_err(Error::load)?;
            }
            if ROWS_AS_NEEDED.contains(&&*name) {
                let flags = if rows_as_needed { libbpf_sys::BPF_F_NO_PREALLOC } else { 0 };
                map.set_map_flags(flags).map_err(Error::load)?;
            }
            if goroutines && rows_as_needed && name == "pending" {
                map.set_map_flags(libbpf_sys::BPF_F_NO_PREALLOC).map_err(Error::load)?;
                map.set_max_entries(MOST_GOROUTINES).map_err(Error::load)?;
            }
            let may_grow = matches!(&*name, "copies" | "probe_plans" | "patterns")
                || times && name.starts_with("counts_");
            let is_other = |most: &u32| *most < map.max_entries() || may_grow;
            if let Some(most) = most_rows(&name).filter(is_other) {
                map.set_max_entries(most).map_err(Error::load)?;
            }
            if name.ends_with(".rodata") {
                map.set_initial_value(bytemuck::bytes_of(config)).map_err(Error::load)?;
            }
        }
        for mut program in open.progs_mut() {
            let name = program.name().to_string_lossy().into_owned();
            let needed = needed(&name);
            program.set_autoload(needed);
            // Reading another thread's memory may have to wait for a page.
            if needed && READ_OTHERS.contains(&&*name) && features::has_other_threads() {
                program.set_flags(libbpf_sys::BPF_F_SLEEPABLE);
            }
        }
        open.load().map_err(Error::load)
    })
}

/// Opens programs with the kernel's types that they name, which are kept in `cache` as `name`, and passes them to
/// `load`. Its second argument is true if the rows of maps may be allocated while programs run.
pub fn with_types(
    programs: &Packed,
    name: &str,
    cache: Option<&Path>,
    load: impl FnOnce(OpenObject, bool) -> Result<Object, Error>,
) -> Result<Object, Error> {
    // The kernel would say so, but only after most of the time of loading.
    if !may_load() {
        return Err(Error::NotPermitted);
    }
    let words = programs.unpack().map_err(|error| Error::Load {
        reason: error.to_string().into(),
        details: String::new(),
    })?;
    let programs = bytemuck::cast_slice(&words);
    let mut builder = ObjectBuilder::default();
    let types = kernel_types::reduced(programs, name, cache);
    let rows_as_needed = match &types {
        Some(types) => types.rows_as_needed,
        None => features::has_map_memory(),
    };
    if let Some(types) = &types {
        builder
            .btf_custom_path(format!("/proc/self/fd/{}", types.file.as_raw_fd()))
            .map_err(Error::load)?;
    }
    let open = builder
        .name("pyrograph")
        .and_then(|builder| builder.open_memory(programs))
        .map_err(Error::load)?;
    load(open, rows_as_needed)
}

fn config(options: &Options, text: &KernelText, cpus: u64) -> Config {
    Config {
        filter: options.scope.only_targets.into(),
        inherit: options.scope.inherit.into(),
        user: options.user.into(),
        kernel: options.kernel.into(),
        min_block: options.min_block.as_nanos().try_into().unwrap_or(u64::MAX),
        wakers_alone: u32::from(options.waits == Waits::Wakers),
        measure: options.trigger.measure() as u32,
        files: options.trigger.files().into(),
        futexes: u32::from(options.trigger == Trigger::Locks),
        calls: options.trigger.calls(),
        interrupts_start: text.interrupts.start,
        interrupts_end: text.interrupts.end,
        group: options.scope.group.unwrap_or(0),
        names: u32::from(!options.scope.names.is_empty()),
        by_cpu: options.by_cpu.into(),
        copy_budget: if copies_stacks(options) {
            copies::budget(sampled_hertz(options))
        } else {
            0
        },
        no_guess: (!options.guessing).into(),
        fine_rows: if options.keep_times { rows_with_times(options, cpus) / 2 } else { 0 },
        waits_alike: options.counts_events.into(),
        wakers_too: u32::from(options.waits == Waits::WithWakers),
        least_quantum: sampling(options).map_or(0, Sampling::least_quantum),
        by_value: u32::from(sampling(options) == Some(Sampling::ByValue)),
        no_idle: options.no_idle.into(),
        lines: options.lines.into(),
        languages: bits(&options.languages),
        commands: options.command_lines.into(),
        pad: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_are_as_large_as_what_is_recorded_needs() {
        let clock = |hertz| Options { hertz: Some(hertz), ..Options::default() };
        let sizes = |options: &Options, cpus| {
            ["counts_0", "stacks", "blocked", "targets", "emitted"]
                .map(|map| most_rows(options, cpus, map))
        };
        let few = [Some(1 << 10), Some(1 << 20), Some(1), Some(1), None];
        assert_eq!(sizes(&clock(99), 2), few);
        assert_eq!(sizes(&clock(999), 2)[..2], [Some(1 << 13), Some(1 << 23)]);
        assert_eq!(sizes(&clock(u64::MAX), u64::MAX)[..2], [Some(1 << 20), Some(1 << 30)]);
        // Nobody knows how often others happen.
        assert_eq!(sizes(&Options::default(), 2), [None, None, Some(1), Some(1), None]);
        for other in [
            Options { waits: Waits::Alone, ..clock(99) },
            Options { trigger: Trigger::Locks, ..clock(99) },
        ] {
            assert_eq!(sizes(&other, 2), [None, None, None, Some(1), None]);
        }
    }

    #[test]
    fn a_language_that_is_refused_costs_that_language() {
        use Language::{Java, Lua, Perl, Python};
        let wanted = [Python, Perl, Lua, Java];
        let tried = |refuses: &dyn Fn(&[Language]) -> bool| {
            let mut loads = 0;
            let loaded = with_languages(&wanted, |languages| {
                loads += 1;
                let refusal =
                    Error::Load { reason: "no".to_owned().into(), details: String::new() };
                if refuses(languages) { Err(refusal) } else { Ok(languages.to_vec()) }
            });
            let refused = |refused: Option<RefusedLanguages>| refused.map(|it| it.languages);
            (loaded.ok().map(|(taken, it)| (taken, refused(it).unwrap_or_default())), loads)
        };
        assert_eq!(tried(&|_| false), (Some((wanted.to_vec(), vec![])), 1));
        let lua = tried(&|languages| languages.contains(&Lua));
        assert_eq!(lua, (Some((vec![Python, Perl, Java], vec![Lua])), 6));
        // All together are too long.
        let long = tried(&|languages| languages.len() > 2);
        assert_eq!(long, (Some((vec![Python, Perl], vec![Lua, Java])), 6));
        let none = tried(&|languages| !languages.is_empty());
        assert_eq!(none, (Some((vec![], wanted.to_vec())), 6));
        assert_eq!(tried(&|_| true), (None, 2));
    }
}
