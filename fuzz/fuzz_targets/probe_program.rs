//! Functions, lines and variables by the debug information of a program.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pyrograph_probe::Program;
use pyrograph_symbol::{Locator, Module, Source};

fuzz_target!(|bytes: &[u8]| {
    let Ok(module) = Module::from_bytes(bytes.to_vec(), Source::default()) else { return };
    let locator =
        Locator { debug_dirs: Vec::new(), symfs: None, build_id_cache: None, debuginfod: None };
    let Ok(program) = Program::new(&module, &locator) else { return };
    let Ok(view) = program.read() else { return };
    for function in view.functions(|_| true).iter().take(8) {
        assert!(!function.bodies.is_empty());
        let lines = view.lines(function);
        for &address in lines.values().flatten().take(8) {
            let body = function.bodies.iter().rfind(|body| body.contains(address));
            let body = body.expect("a line is in the function's code");
            for variable in view.variables(body, address) {
                let _ = variable.location.map(|location| location.text());
                for steps in ["", "->x", "[1]", ".0"] {
                    for as_text in [false, true] {
                        let expression = format!("{}{steps}", variable.name);
                        let cast = format!("(({} *){})[1]{steps}", variable.kind, variable.name);
                        for expression in [expression, cast] {
                            let value = view.value(function, body, address, &expression, as_text);
                            let _ = value.map(|value| value.shape.text(u64::MAX));
                        }
                    }
                }
            }
            view.after_entry(function, body);
        }
    }
});
