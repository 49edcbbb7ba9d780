//! Names with the line of a script or source behind them.
//!
//! ```text
//! handle (app.py:120)          py-spy, rbspy, phpspy, Pyrograph
//! py::handle:/srv/app.py       CPython, in its perf map
//! main:/src/app.c:120          collapsers, with source lines
//! ```

use crate::scan::is_number;
use crate::{Language, Name};

/// Takes a name with a place apart; `None` if it has none.
pub(crate) fn name(name: &str) -> Option<Name<'_>> {
    of_cpython(name).or_else(|| in_brackets(name)).or_else(|| behind_colons(name))
}

fn of_cpython(name: &str) -> Option<Name<'_>> {
    let (function, file) = name.strip_prefix("py::")?.split_once(':')?;
    Some(Name {
        identity: format!("{function} ({})", base(file)).into(),
        short: function.into(),
        full: format!("{function} ({file})").into(),
        language: Some(Language::Python),
        tier: None,
    })
}

fn in_brackets(name: &str) -> Option<Name<'_>> {
    let (function, place) = name.strip_suffix(')')?.rsplit_once(" (")?;
    let (file, line) = place.rsplit_once(':')?;
    if !is_number(line) || file.is_empty() || file.contains(['(', ')']) || function.is_empty() {
        return None;
    }
    // The function may be of any language: one of a source line of native code is `std::sort (sort.h:12)`.
    let inner = crate::cpp::name(function);
    let identity = inner.as_ref().map_or(function, |of| &of.identity);
    let short = inner.as_ref().map_or(function, |of| &of.short);
    let language = language(file).or(inner.as_ref().and_then(|of| of.language));
    Some(Name {
        identity: format!("{identity} ({})", base(file)).into(),
        short: if is_nameless(function) { name.into() } else { short.to_owned().into() },
        full: name.into(),
        language,
        tier: None,
    })
}

/// A file with a folder or an ending, and a line.
fn behind_colons(name: &str) -> Option<Name<'_>> {
    let (rest, line) = name.rsplit_once(':')?;
    let (function, file) = rest.rsplit_once(':')?;
    let is_file = file.contains('/')
        || file
            .rsplit_once('.')
            .is_some_and(|(stem, end)| !stem.is_empty() && crate::scan::is_word(end));
    if !is_number(line)
        || !is_file
        || file.contains(' ')
        || function.is_empty()
        || function.ends_with(':')
    {
        return None;
    }
    let inner = crate::cpp::name(function);
    let identity = inner.as_ref().map_or(function, |of| &of.identity).to_owned();
    let short = inner.as_ref().map_or(function, |of| &of.short).to_owned();
    Some(Name {
        identity: format!("{identity} ({})", base(file)).into(),
        short: short.into(),
        full: name.into(),
        language: language(file).or(inner.and_then(|of| of.language)),
        tier: None,
    })
}

/// `<lambda>`, `<genexpr>`, `(anonymous)`: of these the place tells apart.
fn is_nameless(function: &str) -> bool {
    function.starts_with(['<', '(', '{'])
}

fn base(file: &str) -> &str {
    file.rsplit(['/', '\\']).next().unwrap_or(file)
}

fn language(file: &str) -> Option<Language> {
    Some(match file.rsplit_once('.')?.1 {
        "py" | "pyx" => Language::Python,
        "rb" => Language::Ruby,
        "php" => Language::Php,
        "pl" | "pm" => Language::Perl,
        "lua" => Language::Lua,
        "js" | "mjs" | "cjs" | "ts" => Language::JavaScript,
        "java" | "kt" | "scala" => Language::Java,
        "go" => Language::Go,
        "rs" => Language::Rust,
        "cc" | "cpp" | "cxx" | "hpp" => Language::Cpp,
        "ml" => Language::OCaml,
        "hs" => Language::Haskell,
        "cs" | "fs" | "vb" => Language::DotNet,
        "jl" => Language::Julia,
        "swift" => Language::Swift,
        _ => return None,
    })
}
