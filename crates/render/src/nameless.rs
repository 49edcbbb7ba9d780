//! Advice for code without names: packages with symbols, debuginfod servers, and files that runtimes can write.

use pyrograph_analyze::{Nameless, NamelessJit};

/// Minimum share of a module in all samples to be mentioned.
const LEAST: f64 = 0.01;

/// Maximum number of modules to mention.
const MOST: usize = 3;

/// Parts of the process names of a runtime, and how to get names for the code that it generates.
const RUNTIMES: [(&[&str], &str); 10] = [
    (
        &["java"],
        "pyrograph record asks JDK 17 and newer for them, unless --no-attach is given; with perf, start it with \
         -XX:+PreserveFramePointer, and run jcmd PID Compiler.perfmap before the recording ends",
    ),
    (&["deno"], "start it as deno run --v8-flags=--perf-basic-prof"),
    (&["bun"], "JavaScriptCore has no way to name its code; Node's functions are read"),
    (&["node", "MainThread"], "start it as node --perf-basic-prof"),
    (&["pypy"], "PyPy has no way to name its code; functions of CPython are read"),
    (&["dotnet"], "start it with DOTNET_PerfMapEnabled=1"),
    (&["beam"], "start it as erl +JPperf true (Erlang 25), or elixir --erl '+JPperf true'"),
    (&["wasmtime"], "start it as wasmtime run --profile perfmap"),
    (
        &["ruby"],
        "methods that its just-in-time compiler has compiled are not followed: start it without --yjit and --rjit",
    ),
    (
        &["php"],
        "functions that its just-in-time compiler has compiled are not followed: start it with -d opcache.jit=disable",
    ),
];

/// Parts of the names of libraries that generate code themselves, whatever runtime uses them, and how to get names for it.
/// oneDNN's variable: <https://oneapi-src.github.io/oneDNN/dev_guide_profilers.html>.
const LIBRARIES: [(&[&str], &str); 1] =
    [(&["libtorch", "libdnnl", "libmkldnn"], "ONEDNN_JIT_PROFILE=6 has oneDNN name its own")];

/// Languages with unsupported interpreters, and how else to get the names of their functions.
const UNREAD: [(&str, &str); 2] =
    [("Lua", "those of LuaJIT are"), ("R", "Rprof() within the program counts them")];

/// Finds the package with the debug files of a file.
type FindPackage<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Returns advice, at most one line each for libraries, JIT-compiled code, and an unsupported interpreter; nothing if
/// all code has names. Symbols of an unsupported interpreter itself are not suggested.
///
/// `whole` is the base of percentages, `servers` is true if debuginfod servers are in use, and `package` finds the
/// package with the debug files of a file.
pub fn nameless_advice(
    nameless: &Nameless,
    whole: u64,
    servers: bool,
    package: FindPackage<'_>,
) -> Vec<String> {
    let whole = whole as f64;
    let is_interpreter = |path: &String| nameless.interpreters.iter().any(|of| of.1 == *path);
    let others = nameless.modules.iter().filter(|(path, _)| !is_interpreter(path)).cloned();
    let libraries = of_modules(&others.collect::<Vec<_>>(), whole, servers, package);
    let interpreter = of_interpreters(&nameless.interpreters, whole);
    libraries.into_iter().chain(of_jit(&nameless.jit, whole)).chain(interpreter).collect()
}

fn of_interpreters(interpreters: &[(&str, String, u64)], whole: f64) -> Option<String> {
    let (language, path, value) = interpreters.first().filter(|of| share(of.2, whole) >= LEAST)?;
    let name = path.rsplit('/').next().unwrap_or(path);
    let percent = 100.0 * share(*value, whole);
    let remedy = UNREAD.iter().find(|(unread, _)| unread == language).map_or("", |of| of.1);
    Some(format!(
        "functions of {language} are not read, {name} ({percent:.0} %) has the interpreter's: {remedy}"
    ))
}

fn share(value: u64, whole: f64) -> f64 {
    if whole > 0.0 { value as f64 / whole } else { 0.0 }
}

fn of_modules(
    modules: &[(String, u64)],
    whole: f64,
    servers: bool,
    package: FindPackage<'_>,
) -> Option<String> {
    let heavy: Vec<&(String, u64)> =
        modules.iter().filter(|(_, value)| share(*value, whole) >= LEAST).take(MOST).collect();
    if heavy.is_empty() {
        return None;
    }
    let name = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
    let places: Vec<String> = heavy
        .iter()
        .map(|(path, value)| format!("{} ({:.0} %)", name(path), 100.0 * share(*value, whole)))
        .collect();
    let mut packages: Vec<String> = heavy.iter().filter_map(|(path, _)| package(path)).collect();
    packages.sort();
    packages.dedup();
    let install = match packages.is_empty() {
        true => "a debug package of it, or a build that is not stripped, would name its functions"
            .to_owned(),
        false => format!("to name its functions: apt-get install {}", packages.join(" ")),
    };
    let ask = if servers { "" } else { ", or set DEBUGINFOD_URLS (https://debuginfod.debian.net)" };
    Some(format!("no symbols for {}; {install}{ask}", places.join(", ")))
}

fn of_jit(jit: &[NamelessJit], whole: f64) -> Option<String> {
    let of = jit.iter().find(|of| share(of.value, whole) >= LEAST)?;
    let NamelessJit { process, caller, value } = of;
    let caller = caller.rsplit('/').next().unwrap_or_default();
    let known = |table: &[(&[&str], &'static str)], name: &str| {
        let is_it = |(names, _): &&(&[&str], _)| names.iter().any(|of| name.contains(of));
        table.iter().find(is_it).map(|of| of.1)
    };
    let of_library = known(&LIBRARIES, caller);
    let of_runtime = known(&RUNTIMES, process).filter(|_| of_library.is_none());
    let remedy = of_library.or(of_runtime);
    let remedy = remedy.unwrap_or("let what makes it write /tmp/perf-PID.map or a jitdump file");
    let percent = 100.0 * share(*value, whole);
    let by = match of_runtime.is_some() || caller.is_empty() {
        true => String::new(),
        false => format!(", called by {caller}"),
    };
    Some(format!("{process}: no names for code made at run time ({percent:.0} %){by}; {remedy}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_of_nameless_libraries_are_named() {
        let modules = [("/lib/liba.so.1".to_owned(), 300), ("/opt/b".to_owned(), 5)];
        let found = |_: &str| Some("liba1-dbgsym".to_owned());
        assert_eq!(
            of_modules(&modules, 1000.0, false, &found).as_deref(),
            Some(
                "no symbols for liba.so.1 (30 %); to name its functions: apt-get install liba1-dbgsym, or set \
                 DEBUGINFOD_URLS (https://debuginfod.debian.net)"
            )
        );
        assert_eq!(of_modules(&modules[1..], 1000.0, false, &found), None);
    }

    #[test]
    fn symbols_of_an_interpreter_were_advised_for_functions_of_lua() {
        let nameless = Nameless {
            modules: vec![("/usr/bin/lua5.4".to_owned(), 980), ("/lib/liba.so.1".to_owned(), 20)],
            interpreters: vec![("Lua", "/usr/bin/lua5.4".to_owned(), 990)],
            ..Nameless::default()
        };
        let package = |path: &str| Some(format!("{path}-dbgsym"));
        let lines = nameless_advice(&nameless, 1000, true, &package);
        assert_eq!(
            lines,
            [
                "no symbols for liba.so.1 (2 %); to name its functions: apt-get install /lib/liba.so.1-dbgsym",
                "functions of Lua are not read, lua5.4 (99 %) has the interpreter's: those of LuaJIT are",
            ]
        );
        assert!(nameless_advice(&nameless, 100_000, true, &package).is_empty());
    }

    #[test]
    fn each_runtime_has_its_way_to_name_code() {
        let of = |name: &str| {
            let jit = NamelessJit { process: name.to_owned(), value: 20, ..NamelessJit::default() };
            of_jit(&[jit], 100.0).expect("a fifth is worth a word")
        };
        assert!(
            of("java").contains("PreserveFramePointer") && of("java").contains("Compiler.perfmap")
        );
        assert!(of("node").contains("--perf-basic-prof"));
        assert!(of("ruby3.1").contains("without --yjit"));
        assert!(of("php-fpm8.2").contains("opcache.jit=disable"));
        assert!(of("luajit").contains("/tmp/perf-PID.map"));
        assert!(
            of("deno").contains("--v8-flags") && of("2_scheduler beam.smp").contains("+JPperf")
        );
        assert!(of("wasmtime").contains("--profile perfmap") && of("pypy3").contains("PyPy"));
    }

    /// `python3 -X perf` was advised, which names functions of Python and not what a library compiles.
    #[test]
    fn code_that_a_library_made_has_the_librarys_remedy() {
        let of = |process: &str, caller: &str| {
            let (process, caller) = (process.to_owned(), caller.to_owned());
            of_jit(&[NamelessJit { process, caller, value: 20 }], 100.0).expect("a fifth")
        };
        assert_eq!(
            of("python3", "/usr/lib/python3/torch/lib/libtorch_cpu.so"),
            "python3: no names for code made at run time (20 %), called by libtorch_cpu.so; ONEDNN_JIT_PROFILE=6 has oneDNN \
             name its own"
        );
        assert_eq!(
            of("python3", "/usr/lib/libffi.so.8"),
            "python3: no names for code made at run time (20 %), called by libffi.so.8; let what makes it write \
             /tmp/perf-PID.map or a jitdump file"
        );
    }
}
