//! Tests the walkers on synthetic processes (`tests/made` of `pyrograph-language`): one for each language, intact and
//! damaged. No interpreter is needed.

#[path = "../../../language/tests/made/mod.rs"]
#[expect(dead_code, reason = "damage that never ends is for names")]
mod made_by_language;

use std::fs;
use std::path::Path;

use pyrograph_event::interpreter::{Call, Calls};
use pyrograph_language::{Chunks, Memory, Runtime};

use super::{Thread, Walkers};
use crate::layout::{FRAME_SHIFT, MODULE_ANONYMOUS};
use made_by_language::{Damaged, FS, Made, START};

/// A synthetic process, with the data that a walker needs.
struct Process {
    made: Made,
    runtime: Box<Runtime>,
    frames: Vec<[u64; 4]>,
}

impl Process {
    fn new(made: Made) -> Self {
        let frame = |frame: &made_by_language::Frame| {
            let module = if frame.is_made { u64::from(MODULE_ANONYMOUS) } else { 0 };
            [frame.sp, module << FRAME_SHIFT | frame.at, frame.fp, frame.blob]
        };
        let frames = made.frames.iter().map(frame).collect();
        Self { runtime: made.runtime(), frames, made }
    }

    /// The interpreter is mapped at the address that it was linked for.
    fn thread(&self) -> Thread<'_> {
        let interpreter = &self.runtime.interpreter;
        let to_frame = interpreter.to_address.wrapping_neg();
        Thread { interpreter, to_frame, fs: FS, frames: &self.frames }
    }
}

/// Calls as text: name and line of each function, line of other calls, `|` at the end of a run of the interpreter.
fn texts(
    walkers: &mut Walkers,
    process: &Process,
    memory: &dyn Memory,
    words: &[u64],
) -> Vec<String> {
    let mut functions = process.made.functions.iter();
    let mut text = |call| match call {
        Call::Function { function, offset, .. } => {
            // The class that a method belongs to is only emitted with its name.
            let owner = functions.next().map_or(0, |known| known.owner);
            let chunks = walkers.chunks(&process.runtime.interpreter, function, owner);
            let copied = Chunks { chunks: &chunks, rest: () };
            // Java's methods are named from the memory of the running process.
            let memory = if chunks.is_empty() { memory } else { &copied };
            let name = process.runtime.name(memory, function, owner);
            let line = process.runtime.lines(memory, function).line(offset);
            Some(format!("{}:{line}", name.map_or("?".to_owned(), |name| name.function)))
        }
        Call::Main(line) => Some(format!("main:{line}")),
        Call::Eval { line, .. } => Some(format!("eval:{line}")),
        Call::Frozen => Some("frozen".to_owned()),
        Call::End(_) => Some("|".to_owned()),
        _ => None,
    };
    Calls::new(words).iter().filter_map(&mut text).collect()
}

/// Expected calls of each process.
const CALLS: [(&str, &[&str]); 9] = [
    ("python", &["leaf:8", "Thing.call:8", "|", "<module>:8", "|"]),
    (
        "perl",
        &["My::App::leaf:3", "|", "My::App::sorted:5", "eval:8", "main::outer:13", "main:13", "|"],
    ),
    ("php", &["leaf:14", "App\\Thing::call:14", "|", "usort:0", "index.php:14", "|"]),
    (
        "ruby",
        &[
            "App::AThingWithALongName#call:8",
            "App::AThingWithALongName#each:0",
            "block in App::AThingWithALongName.make:8",
            "|",
            "<main>:8",
            "|",
        ],
    ),
    (
        "ruby-3.3",
        &[
            "App::AThingWithALongName#call:8",
            "App::AThingWithALongName#each:0",
            "block in App::AThingWithALongName.make:8",
            "|",
            "<main>:8",
            "|",
        ],
    ),
    ("javascript", &["leaf:0", "|", "call:0", "|", "main:0", "|"]),
    ("python-3.13", &["leaf:8", "|", "Thing.call:8", "<module>:8", "|"]),
    ("lua", &["app.lua:10:0", "app.lua:20:20", "main chunk of app.lua:0", "|"]),
    (
        "java",
        &[
            "void app.Main.run():0",
            "|",
            "boolean app.Main.call(int, long[]):21",
            "|",
            "frozen",
            "|",
            "StubRoutines (1):0",
            "|",
        ],
    ),
];

#[test]
fn made_processes_have_the_calls_that_were_made() {
    let mut walkers = Walkers::start();
    for (language, made) in Made::all() {
        let process = Process::new(made);
        let (_, expected) = CALLS.iter().find(|(name, _)| *name == language).expect("its calls");
        walkers.0.take_sent();
        walkers.forget();
        walkers.add_memory(START, &process.made.memory);
        let words = walkers.walk(&process.thread());
        let memory = Damaged::new(&process.made.memory, &[]);
        let found = texts(&mut walkers, &process, &memory, &words);
        assert_eq!(found, *expected, "{language}");
        let addresses: Vec<u64> = Calls::new(&words)
            .iter()
            .filter_map(|call| match call {
                Call::Function { function, .. } => Some(function),
                _ => None,
            })
            .collect();
        let expected: Vec<u64> =
            process.made.functions.iter().map(|function| function.address).collect();
        assert_eq!(addresses, expected, "{language}");
        // For `fuzz/run`.
        if let Some(folder) = std::env::var_os("PYROGRAPH_SEEDS") {
            let path = Path::new(&folder).join(language);
            fs::write(path, walkers.0.take_sent()).expect("a file");
        }
    }
}

/// The sanitizers stop the walkers at an invalid read or write. The walkers stop themselves if they read more often
/// than a stack can require.
#[test]
fn made_processes_that_are_damaged_have_fewer_calls() {
    let mut walkers = Walkers::start();
    // A pseudo-random number generator (Knuth's MMIX).
    let mut state = 1u64;
    let mut random = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 24) as u8
    };
    for (language, made) in Made::all() {
        let process = Process::new(made);
        let (mut whole, mut none) = (0, 0);
        for _ in 0..1_500 {
            let patches = 1 + usize::from(random()) % 4;
            let by: Vec<u8> = [0].into_iter().chain((0..11 * patches).map(|_| random())).collect();
            let memory = Damaged::new(&process.made.memory, &by);
            walkers.forget();
            walkers.add_memory(START, memory.bytes());
            let words = walkers.walk(&process.thread());
            assert!(words.len() <= Calls::MOST_WORDS, "{} words", words.len());
            let count = Calls::new(&words).iter().count();
            if count <= 16 {
                texts(&mut walkers, &process, &memory, &words);
            }
            whole += usize::from(count > process.made.functions.len());
            none += usize::from(count == 0);
        }
        assert!(whole > 150 && none < 1_350, "{language}: {whole} whole, {none} without calls");
    }
}
