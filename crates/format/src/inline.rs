//! Inlined calls for inputs that were recorded without them.

use std::collections::BTreeMap;
use std::fs::File;

use hashbrown::HashMap;
use pyrograph_profile::{Frame, FrameId, FrameKind, Profile, Sample, StackId, StringId};
use pyrograph_symbol::{Module, Options as SymbolOptions, Source, Symbolized};

use crate::names::tidy_name;
use crate::warnings::{WarningKind, Warnings};

/// A call at an address: the function that contains the code, or a function inlined there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Call {
    /// Demangled name of the function; empty if unknown.
    function: String,
    /// Source file; empty if unknown.
    file: String,
    /// Source line; 0 if unknown.
    line: u32,
}

/// Replaces each frame that has an address (see [`Options::addresses`](crate::Options::addresses)) by the calls that
/// debug information lists there, and removes the address. `on_warning` gets a line for each file that could not be
/// read, and for damaged parts of others. The outermost function keeps the name from the input, if it has one.
pub fn expand_inlined(profile: &Profile, lines: bool, mut on_warning: impl FnMut(&str)) -> Profile {
    expand_calls(profile, |path, addresses| {
        calls(path, addresses, lines, &mut on_warning).unwrap_or_else(|error| {
            on_warning(&format!("no inlined calls of {path}: {error}"));
            Vec::new()
        })
    })
}

/// Looks up the calls at each address of a file, outermost first. perf prints addresses as file offsets; old versions
/// print link-time addresses for programs that are not position-independent.
fn calls(
    path: &str,
    addresses: &[u64],
    lines: bool,
    on_warning: &mut dyn FnMut(&str),
) -> Result<Vec<Vec<Call>>, Box<dyn std::error::Error>> {
    let module = Module::open(&File::open(path)?, Source { path, ..Source::default() })?;
    let linked: Vec<u64> = addresses
        .iter()
        .map(|&address| module.file_offset_to_address(address).unwrap_or(address))
        .collect();
    let found = module.symbolize(&linked, &SymbolOptions { lines, ..SymbolOptions::default() });
    let mut warnings = Warnings::default();
    for warning in &found.warnings {
        warnings.add(WarningKind::Symbols(warning.to_string()), 1, []);
    }
    warnings.lines().for_each(|(_, line)| on_warning(&line));
    let call = |frame: &pyrograph_symbol::Frame| Call {
        function: frame.function.to_string(),
        file: frame.file.as_deref().map(file_name).unwrap_or_default().to_owned(),
        line: frame.line,
    };
    let outermost_first = |of: &Symbolized| of.frames.iter().rev().map(call).collect();
    Ok(found.addresses.iter().map(outermost_first).collect())
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Replaces each frame that has an address by the calls that `resolve` returns for it.
///
/// `resolve` is called once for each module with its path and its distinct addresses, sorted. For each address it
/// returns the calls, outermost first: the function itself, then the functions inlined into it. If it returns no calls,
/// the frame is kept without its address.
fn expand_calls(
    profile: &Profile,
    mut resolve: impl FnMut(&str, &[u64]) -> Vec<Vec<Call>>,
) -> Profile {
    let mut calls: HashMap<(StringId, u64), Vec<Call>> = HashMap::new();
    for (module, addresses) in addresses_by_module(profile) {
        let answers = resolve(profile.strings.get(module), &addresses);
        calls.extend(addresses.into_iter().zip(answers).map(|(at, calls)| ((module, at), calls)));
    }
    let mut out = Profile {
        strings: profile.strings.clone(),
        threads: profile.threads.clone(),
        addresses: profile.addresses.clone(),
        full_names: profile.full_names.clone(),
        ..Profile::new(profile.value_types.clone())
    };
    let expanded: Vec<Vec<FrameId>> =
        profile.frames.iter().map(|frame| expand(&mut out, frame, &calls)).collect();

    let mut stacks = vec![StackId::ROOT; profile.stacks.len()];
    for index in 1..stacks.len() {
        // Parents come before their children.
        let Some((parent, id)) = profile.stacks.get(StackId::from_index(index)) else { continue };
        stacks[index] = expanded[id.index()]
            .iter()
            .fold(stacks[parent.index()], |stack, &frame| out.stacks.intern(stack, frame));
    }
    let mut values = vec![0; profile.samples.columns()];
    for (row, sample) in profile.samples.iter().enumerate() {
        for (column, value) in values.iter_mut().enumerate() {
            *value = profile.samples.values(column)[row];
        }
        out.push(Sample { stack: stacks[sample.stack.index()], ..sample }, &values);
    }
    out
}

/// Distinct addresses of each module, in a fixed order.
fn addresses_by_module(profile: &Profile) -> BTreeMap<StringId, Vec<u64>> {
    let mut by_module: BTreeMap<StringId, Vec<u64>> = BTreeMap::new();
    let with_address = profile.frames.iter().filter(|frame| frame.address != 0);
    for frame in with_address.filter(|frame| frame.kind == FrameKind::User) {
        by_module.entry(frame.module).or_default().push(frame.address);
    }
    for addresses in by_module.values_mut() {
        addresses.sort_unstable();
        addresses.dedup();
    }
    by_module
}

/// The frames that replace `frame`, outermost first.
fn expand(
    out: &mut Profile,
    frame: Frame,
    calls: &HashMap<(StringId, u64), Vec<Call>>,
) -> Vec<FrameId> {
    let calls = calls.get(&(frame.module, frame.address)).map(Vec::as_slice).unwrap_or_default();
    let frame = Frame { address: 0, ..frame };
    if calls.is_empty() {
        return vec![out.frames.intern(frame)];
    }
    let mut frames = Vec::with_capacity(calls.len());
    for (depth, call) in calls.iter().enumerate() {
        let function = match frame.function {
            known if depth == 0 && !known.is_empty() => known,
            _ => out.strings.intern(&tidy_name(&call.function)),
        };
        frames.push(out.frames.intern(Frame {
            function,
            file: out.strings.intern(&call.file),
            line: call.line,
            kind: if depth == 0 { frame.kind } else { FrameKind::Inlined },
            ..frame
        }));
    }
    frames
}

#[cfg(test)]
mod tests {
    use pyrograph_profile::{LabelOptions, Tree};

    use super::*;
    use crate::{Input, Options, read, write_folded};

    const TEXT: &str = "app 1 1.5: 1 cycles: \n\t 10 leaf (/bin/app)\n\t 21 main (/bin/app)\n\n\
                        app 1 1.5: 1 cycles: \n\t 12 leaf (/bin/app)\n\t 21 main (/bin/app)\n\n\
                        app 1 1.5: 1 cycles: \n\t 30 k ([kernel.kallsyms])\n\t 31 x (/tmp/perf-1.map)\n\n\
                        app 1 1.5: 1 cycles: \n\t 12 in (inlined)\n\t 12 leaf (/bin/app)\n\n";

    #[test]
    fn calls_are_put_in_place_of_their_address() {
        let options = Options { addresses: true, ..Options::default() };
        let inputs = vec![Input::bytes("x", TEXT)];
        let (profile, _) = read(inputs, &options).expect("perf script text");
        let mut asked = Vec::new();
        let call = |function: &str, line| Call {
            function: function.to_owned(),
            file: "a.c".to_owned(),
            line,
        };
        let calls = |&address: &u64| match address {
            0x10 => vec![call("other(int)", 1), call("mid(char)", 2), call("in", 3)],
            0x20 => vec![call("main", 9)],
            _ => vec![],
        };
        let profile = expand_calls(&profile, |module, addresses| {
            asked.push((module.to_owned(), addresses.to_vec()));
            addresses.iter().map(calls).collect()
        });
        // The caller's address is that of its call; what perf resolved already is not asked again.
        assert_eq!(asked, [("/bin/app".to_owned(), vec![0x10, 0x12, 0x20])]);

        let labels = LabelOptions { source: true, mark_inlined: true, ..LabelOptions::default() };
        let mut out = Vec::new();
        write_folded(&Tree::new(&profile, &labels), &mut out).expect("to memory");
        assert_eq!(
            String::from_utf8_lossy(&out),
            "app;leaf;in_[i] 1\n\
             app;main:a.c:9;leaf 1\n\
             app;main:a.c:9;leaf:a.c:1;mid:a.c:2_[i];in:a.c:3_[i] 1\n\
             app;x;k 1\n"
        );
    }

    #[test]
    fn inlined_calls_are_found_in_debug_information() {
        // This test's own code.
        let program = std::env::current_exe().expect("a path");
        let file = File::open(&program).expect("a file");
        let path = program.to_string_lossy();
        let module = Module::open(&file, Source { path: &path, ..Source::default() }).expect("ELF");
        let code = module.segments().iter().find(|segment| segment.executable).expect("code");
        let offsets: Vec<u64> = (0..4000).map(|n| code.file_offset + n * 16).collect();
        let found = calls(&path, &offsets, true, &mut |_| {}).expect("symbols");
        assert_eq!(found.len(), offsets.len());
        let inlined = found.iter().find(|calls| calls.len() > 1).expect("something is inlined");
        assert!(inlined.iter().all(|call| !call.function.is_empty()));
        assert!(found.iter().flatten().any(|call| call.file.ends_with(".rs") && call.line > 0));
    }
}
