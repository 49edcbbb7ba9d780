//! Symbols of native programs as compilers encode them, where no other module of ours has made them readable.

use crate::scan::is_number;
use crate::{Language, Name, Tier, d, haskell, ocaml, swift};

/// Takes such a name apart; `None` if it is none.
pub(crate) fn name(name: &str) -> Option<Name<'_>> {
    match name.as_bytes() {
        [b'?', ..] => msvc(name),
        [b'_', b'D', b'0'..=b'9', ..] => d::name(name),
        [b'c', b'a', b'm', b'l', b'A'..=b'Z', ..] => ocaml::name(name),
        [b'$', b's' | b'S' | b'e', ..]
        | [b'_', b'$', b's' | b'S' | b'e', ..]
        | [b'_', b'T', b'0', ..] => swift::name(name),
        [b'[', b'p', b'e', b'r', b'f', b'-', ..] => perf_map(name),
        [b'b', b'p', b'f', b'_', ..] => of_bpf(name),
        [b'j', ..] => julia(name),
        _ => haskell::name(name),
    }
}

/// `?f@shop@@YAXH@Z`, as Microsoft's compilers mangle C++.
fn msvc(name: &str) -> Option<Name<'_>> {
    let full = msvc_demangler::demangle(name, msvc_demangler::DemangleFlags::COMPLETE).ok()?;
    let bare = msvc_demangler::demangle(name, msvc_demangler::DemangleFlags::NAME_ONLY).ok()?;
    let short = crate::cpp::last_parts(&bare, true).into_owned();
    let identity = crate::cpp::name(&full).map_or(full.clone(), |of| of.identity.into_owned());
    Some(Name {
        identity: identity.into(),
        short: short.into(),
        full: full.into(),
        language: Some(Language::Cpp),
        tier: None,
    })
}

/// `[perf-4711.map]`: code without a symbol that some process made at run time. The number is the process's.
fn perf_map(name: &str) -> Option<Name<'_>> {
    let number = name.strip_prefix("[perf-")?.strip_suffix(".map]")?;
    is_number(number).then(|| Name {
        identity: "[perf.map]".into(),
        short: name.into(),
        full: name.into(),
        language: None,
        tier: None,
    })
}

/// `bpf_prog_6deef7357e7b4530_sd_fw_egress`: the number is a hash of the code. `bpf_trampoline_6442455041_1`.
fn of_bpf(name: &str) -> Option<Name<'_>> {
    let named = |identity: String, short: &str| Name {
        identity: identity.into(),
        short: short.to_owned().into(),
        full: name.into(),
        language: None,
        tier: None,
    };
    if let Some(rest) = name.strip_prefix("bpf_prog_") {
        let (hash, program) = rest.split_once('_').unwrap_or((rest, ""));
        let is_hash = hash.len() == 16 && hash.bytes().all(|b| b.is_ascii_hexdigit());
        let identity = format!("bpf_prog_{program}");
        return is_hash
            .then(|| named(identity.clone(), if program.is_empty() { name } else { program }));
    }
    let rest = name.strip_prefix("bpf_trampoline_")?;
    let is_one = rest.split('_').all(is_number);
    is_one.then(|| named("bpf_trampoline".to_owned(), name))
}

/// `julia_mandel_1234`, `jfptr_mandel_1234`: the number is that of a method instance, by the order of compilation.
fn julia(name: &str) -> Option<Name<'_>> {
    let rest = ["julia_", "japi1_", "jfptr_", "jlplt_", "jlsys_"]
        .into_iter()
        .find_map(|prefix| name.strip_prefix(prefix))?;
    let (function, number) = rest.rsplit_once('_')?;
    let full = function.strip_suffix("_gfortran").unwrap_or(function);
    (is_number(number) && !function.is_empty()).then(|| Name {
        identity: name[..name.len() - number.len() - 1].into(),
        short: full.into(),
        full: name.into(),
        language: Some(Language::Julia),
        tier: Some(Tier::Optimized),
    })
}
