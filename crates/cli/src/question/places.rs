//! Places in programs and libraries, by the names that users give.

use std::path::Path;

use anyhow::{Context, bail};
use pyrograph_record::nearest;
use pyrograph_resolve::NATIVE;
use pyrograph_symbol::{StaticProbe, function_code, function_names, static_probes};
use pyrograph_unwind::inside_of_instruction;

use super::Probe;
use crate::say::misuse;

/// What is to be watched is not there. Unlike flags that cannot be understood, this is no wrong usage.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct NotThere(String);

impl NotThere {
    /// With what is not there.
    pub fn new(text: String) -> Self {
        Self(text)
    }
}

/// `FILE:FUNCTION` or `FILE:FUNCTION+OFFSET`.
pub fn function(place: &str, returns: bool) -> anyhow::Result<Probe> {
    let prefix = if returns { "uretprobe" } else { "uprobe" };
    let Some((path, name)) =
        place.rsplit_once(':').filter(|(path, name)| !path.is_empty() && !name.is_empty())
    else {
        misuse!(
            "{prefix}:{place}: use {prefix}:FILE:FUNCTION, for example {prefix}:/bin/bash:readline"
        )
    };
    let (name, offset) = name.rsplit_once('+').unwrap_or((name, "0"));
    let number = match offset.strip_prefix("0x") {
        Some(digits) => usize::from_str_radix(digits, 16),
        None => offset.parse(),
    };
    let offset = number.with_context(|| format!("{prefix}:{place}: '{offset}' is no offset"))?;
    if returns && offset > 0 {
        misuse!("{prefix}:{place}: a return has no offset in the function: leave it out");
    }
    check_function(Path::new(path), name)?;
    if offset > 0 {
        check_offset(Path::new(path), name, offset)?;
    }
    Ok(Probe::Function { path: path.into(), name: name.to_owned(), offset, returns })
}

/// Says so if a file has no such function, and which ones it has that are spelled like it.
fn check_function(path: &Path, name: &str) -> Result<(), NotThere> {
    let known = function_names(path).map_err(|error| NotThere(error.to_string()))?;
    // A version may stand behind a library's function: `memcpy@GLIBC_2.14`.
    let plain = name.split('@').next().unwrap_or(name);
    if known.iter().any(|known| known == name || known == plain) {
        return Ok(());
    }
    let path = path.display();
    Err(NotThere(match known.is_empty() {
        true => format!("no function '{name}' in {path}: its symbol tables name none at all"),
        false => format!("no function '{name}' in {path}{}", similar(plain, known.into_iter())),
    }))
}

/// Refuses a place that is no instruction's start: a breakpoint there makes the program compute wrongly.
fn check_offset(path: &Path, name: &str, offset: usize) -> Result<(), NotThere> {
    let functions = function_code(path, name).map_err(|error| NotThere(error.to_string()))?;
    for code in functions {
        if offset >= code.len() {
            let text = format!(
                "{name}+{offset:#x} is not in the function, which has {} bytes",
                code.len()
            );
            return Err(NotThere(text));
        }
        if let Some(inside) = inside_of_instruction(NATIVE, &code, offset) {
            return Err(NotThere(format!(
                "{name}+{offset:#x} is inside of an instruction, which would break the program: it begins at \
                 {}, and the next at {name}+{:#x}",
                if inside.start == 0 {
                    name.to_owned()
                } else {
                    format!("{name}+{:#x}", inside.start)
                },
                inside.end
            )));
        }
    }
    Ok(())
}

/// `FILE:PROVIDER:NAME`.
pub fn static_probe(place: &str) -> anyhow::Result<Probe> {
    let parts = place.rsplit_once(':').and_then(|(rest, name)| {
        let (path, provider) = rest.rsplit_once(':')?;
        [path, provider, name].iter().all(|part| !part.is_empty()).then_some((path, provider, name))
    });
    let Some((path, provider, name)) = parts else {
        misuse!("usdt:{place}: use usdt:FILE:PROVIDER:NAME; readelf -n FILE lists a file's probes")
    };
    let not_there = |error: pyrograph_symbol::Error| NotThere(error.to_string());
    let probes = static_probes(Path::new(path)).map_err(not_there)?;
    let is_it = |probe: &&StaticProbe| probe.provider == provider && probe.name == name;
    let places: Vec<StaticProbe> = probes.iter().filter(is_it).cloned().collect();
    if probes.is_empty() {
        bail!(NotThere(format!("{path} has no probes of its own (USDT)")));
    }
    if places.is_empty() {
        let all = probes.iter().map(|probe| format!("{}:{}", probe.provider, probe.name));
        let near = similar(&format!("{provider}:{name}"), all);
        bail!(NotThere(format!("no probe '{provider}:{name}' in {path}{near}")));
    }
    Ok(Probe::Places { path: path.into(), places })
}

/// Names that are spelled like one that is not there, as a question.
fn similar(name: &str, known: impl Iterator<Item = String>) -> String {
    let near = nearest(name, known);
    if near.is_empty() { String::new() } else { format!(": did you mean {}?", near.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_in_programs() {
        let path = std::env::current_exe().expect("a path");
        let text = path.to_str().expect("it is text");
        let check = |place: &str, returns, offset: Option<usize>| {
            let probe = function(&format!("{text}:{place}"), returns).ok();
            let expect = |offset| {
                let name = "main".to_owned();
                Probe::Function { path: path.clone(), name, offset, returns }
            };
            assert_eq!(probe, offset.map(expect), "{place}");
        };
        check("main", false, Some(0));
        // The first instruction's end is the next one's start.
        let code = function_code(&path, "main").expect("it can be read").remove(0);
        let next = (1..16).find(|at| inside_of_instruction(NATIVE, &code, *at).is_none());
        let next = next.expect("an instruction has 15 bytes at most");
        check(&format!("main+{next:#x}"), false, Some(next));
        check(&format!("main+{next}"), false, Some(next));
        for inside in 1..next {
            check(&format!("main+{inside}"), false, None);
        }
        check(&format!("main+{}", code.len()), false, None);
        check("main", true, Some(0));
        check("main+7", true, None);
        check("main+x", false, None);
        check("", false, None);
        for bad in ["", "main", ":main", "/nonexistent:main"] {
            assert!(function(bad, false).is_err(), "{bad}");
        }
        for bad in ["", "a", "a:b", ":a:b", "a::b", "/nonexistent:a:b"] {
            assert!(static_probe(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn names_that_are_spelled_alike_are_offered() {
        let path = std::env::current_exe().expect("a path");
        let error = check_function(&path, "mian").expect_err("there is none").to_string();
        assert!(error.contains("did you mean") && error.contains("main"), "{error}");
    }
}
