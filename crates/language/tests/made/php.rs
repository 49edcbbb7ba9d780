//! PHP 8.2 without threads.

use super::{Elf, Function, Made, Space};

fn text(space: &mut Space, text: &str) -> u64 {
    let at = space.words(24 + text.len() + 1, &[(16, text.len() as u64)]);
    space.put_bytes(at + 24, text.as_bytes());
    at
}

/// A function: of a class, written in PHP (2) or C (1).
fn function(space: &mut Space, kind: u8, name: &str, class: u64, file: u64) -> u64 {
    let name = if name.is_empty() { 0 } else { text(space, name) };
    let at = space.words(208, &[(8, name), (16, class), (88, 0x1234)]);
    space.put_bytes(at, &[kind]);
    if kind == 2 {
        space.put(at + 152, file);
        space.put_half(at + 160, 12);
    }
    at
}

pub fn made() -> Made {
    let mut space = Space::default();
    let mut elf = Elf::new("X-Powered-By: PHP/8.2.36");
    let globals = space.add(512);
    elf.variable("executor_globals", globals);
    elf.function("execute_ex", &[0x90; 16]);
    let file = elf.bytes(&space);

    let class_name = text(&mut space, "App\\Thing");
    let class = space.words(32, &[(8, class_name)]);
    let path = text(&mut space, "/srv/index.php");
    let names = ["leaf", "App\\Thing::call", "usort", "index.php"];
    let functions = [
        function(&mut space, 2, "leaf", 0, path),
        function(&mut space, 2, "call", class, path),
        function(&mut space, 1, "usort", 0, 0),
        function(&mut space, 2, "", 0, path),
    ];
    let instruction = space.add(32);
    space.put_half(instruction + 24, 14);
    let mut caller = 0;
    for (function, is_top) in functions.into_iter().zip([false, true, false, true]).rev() {
        let words = [(0, instruction), (24, function), (48, caller)];
        caller = space.words(80, &words);
        space.put_half(caller + 40, u32::from(is_top) << 17);
    }
    // A frame that holds a place.
    let place = space.words(80, &[(48, caller)]);
    space.put(globals + 488, place);
    let functions = functions.into_iter().zip(names);
    let functions = functions.map(|(address, name)| Function { address, owner: 0, name });
    let functions = functions.collect();
    Made { file, memory: space.0, frames: Vec::new(), functions, lines: vec![(12, 12)] }
}
