//! Interpreters in files.
#![no_main]

#[path = "../../crates/language/tests/made/checks.rs"]
mod checks;
#[path = "../../crates/language/tests/made/mod.rs"]
#[expect(dead_code, reason = "processes are for other targets")]
mod made;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    checks::check_file(bytes.to_vec());
});
