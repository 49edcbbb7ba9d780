//! Names and lines of functions of each language: the first byte chooses it, the others damage the memory of a process that
//! is put together.
#![no_main]

#[path = "../../crates/language/tests/made/checks.rs"]
#[expect(dead_code, reason = "files are for another target")]
mod checks;
#[path = "../../crates/language/tests/made/mod.rs"]
#[expect(dead_code, reason = "native frames are for walkers")]
mod made;

use libfuzzer_sys::fuzz_target;
use made::Made;
use pyrograph_language::Runtime;

thread_local! {
    static ALL: Vec<(Made, Box<Runtime>)> = Made::all()
        .into_iter()
        .map(|(_, made)| {
            let runtime = made.runtime();
            (made, runtime)
        })
        .collect();
}

fuzz_target!(|bytes: &[u8]| {
    let Some((language, by)) = bytes.split_first() else { return };
    ALL.with(|all| {
        let (made, runtime) = &all[usize::from(*language) % all.len()];
        checks::check_names(made, runtime, by);
    });
});
