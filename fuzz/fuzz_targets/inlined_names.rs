//! The methods in one name of a Java map: nothing of the name is lost, and nothing is added.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pyrograph_symbol::inlined_names;

fuzz_target!(|name: &str| {
    let methods: Vec<&str> = inlined_names(name).collect();
    assert_eq!(methods.join("->"), name);
    assert!(methods.len() == 1 || methods.iter().all(|method| !method.is_empty()));
    // Each method alone is one.
    assert!(methods.iter().all(|method| inlined_names(method).count() == 1));
});
