//! Machine code: the instructions are all of its bytes, and their arrows do not touch.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pyrograph_analyze::{AnnotatedInstruction, arrows};
use pyrograph_disassemble::{Arch, disassemble};

fuzz_target!(|bytes: &[u8]| {
    let Some((start, code)) = bytes.split_first_chunk().map(|(start, code)| (u64::from_le_bytes(*start), code)) else {
        return;
    };
    for arch in [Arch::X86_64, Arch::Aarch64] {
        let decoded: Vec<_> = disassemble(arch, code, start).collect();
        assert_eq!(decoded.iter().map(|of| of.len).sum::<usize>(), code.len());
        let at = |target| decoded.iter().position(|of| of.address == target);
        let instruction = |target: Option<u64>| AnnotatedInstruction {
            target: target.and_then(at),
            ..AnnotatedInstruction::default()
        };
        let annotated: Vec<_> = decoded.iter().map(|of| instruction(of.target)).collect();
        let drawn = arrows(&annotated, 4);
        for (at, one) in drawn.iter().enumerate() {
            for other in drawn[at + 1..].iter().filter(|other| other.lane == one.lane) {
                assert!(one.bottom() < other.top() || other.bottom() < one.top());
            }
        }
    }
});
