//! Names and lines of functions in memory that is damaged, and interpreters in damaged files: fewer, and no panic.

#[expect(dead_code, reason = "native frames are for walkers")]
mod made;

use std::fs;
use std::path::Path;

use made::{Damaged, Made};
use pyrograph_event::interpreter::Language;
use pyrograph_language::Chunks;

#[path = "made/checks.rs"]
mod checks;

/// A generator of numbers that are as good as random (Knuth's MMIX).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        self.0 >> 16
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| (self.next() >> 8) as u8).collect()
    }
}

#[test]
fn made_interpreters_are_found_and_name_their_functions() {
    for (language, made) in Made::all() {
        let runtime = made.runtime();
        assert!(language.starts_with(runtime.language().name()), "{language}");
        // For `fuzz/run`.
        if let Some(folder) = std::env::var_os("PYROGRAPH_SEEDS") {
            let path = Path::new(&folder).join(language);
            fs::write(path, &made.file).expect("a file");
        }
        let memory = Damaged::new(&made.memory, &[]);
        for function in &made.functions {
            let name = runtime.name(&memory, function.address, function.owner);
            let name = name.map(|name| name.function);
            assert_eq!(name.as_deref(), Some(function.name), "{language}");
        }
        let lines = runtime.lines(&memory, made.functions[0].address);
        for (offset, line) in &made.lines {
            assert_eq!(lines.line(*offset), *line, "{language} at {offset}");
        }
        // Pieces of memory, as the programs copy them.
        let chunks = [(made::START, made.memory.clone())];
        let chunks = Chunks { chunks: &chunks, rest: () };
        let function = made.functions[0];
        let name = runtime.name(&chunks, function.address, function.owner);
        assert_eq!(name.map(|name| name.function).as_deref(), Some(function.name));
    }
}

#[test]
fn damaged_memory_gives_fewer_names_and_no_panic() {
    let mut random = Random(1);
    let rounds = if std::env::var_os("PYROGRAPH_NIGHTLY").is_some() { 20_000 } else { 5_000 };
    for (language, made) in Made::all() {
        let runtime = made.runtime();
        let mut named = 0;
        for number in 0..rounds {
            let patches = random.next() % 4 + 1;
            let mut by = random.bytes(1 + 11 * patches as usize);
            // Endless memory takes long.
            by[0] = if number % 100 == 0 { 7 } else { 0 };
            named += checks::check_names(&made, &runtime, &by);
        }
        assert!(named > rounds, "{language}: {named} names");
    }
}

/// A method of Java near the end of the address space, which fuzzing found to overflow.
#[test]
fn lines_behind_the_end_of_memory_are_none() {
    let made = Made::new(Language::Java);
    let runtime = made.runtime();
    let place = (made.functions[1].address + 8 - made::START) / 4;
    for distance in 0..4096u64 {
        let patch = [&[5][..], &(place as u16).to_le_bytes(), &(!distance).to_le_bytes()];
        // All memory can be read.
        checks::check_names(&made, &runtime, &[&[7], &patch.concat()[..]].concat());
    }
}

#[test]
fn damaged_files_give_no_panic() {
    let mut random = Random(1);
    for (language, made) in Made::all() {
        let mut found = 0;
        for _ in 0..2_000 {
            let mut file = made.file.clone();
            for _ in 0..random.next() % 4 {
                let at = random.next() as usize % file.len();
                let value = random.bytes(8);
                let len = (file.len() - at).min([1, 2, 4, 8][random.next() as usize % 4]);
                file[at..at + len].copy_from_slice(&value[..len]);
            }
            if random.next().is_multiple_of(16) {
                file.truncate(random.next() as usize % file.len());
            }
            found += usize::from(checks::check_file(file));
        }
        assert!(found > 500, "{language}: {found} found");
    }
}
