//! Names of V8's builtins in libraries whose symbols are stripped.

use std::sync::Arc;

use pyrograph_elf::Image;

use crate::symbolize::{Frame, Symbolized};

/// Names the addresses that have no frames yet and are in V8's builtins.
pub(crate) fn complete(image: &Image, addresses: &[u64], answers: &mut [Symbolized]) {
    if answers.iter().all(|answer| !answer.frames.is_empty()) {
        return;
    }
    let Some(mut builtins) = pyrograph_elf::v8::builtins(image) else { return };
    builtins.sort_unstable_by_key(|(range, _)| range.start);
    for (address, answer) in addresses.iter().zip(answers) {
        let at = builtins.partition_point(|(range, _)| range.start <= *address);
        let Some((range, name)) = at.checked_sub(1).map(|at| &builtins[at]) else { continue };
        if answer.frames.is_empty() && range.contains(address) {
            let frames = Arc::from([Frame::named(name.as_str())]);
            *answer = Symbolized { frames, start: Some(range.start) };
        }
    }
}
