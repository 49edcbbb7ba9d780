//! Perl 5.36 without threads.

use super::{Elf, Function, Made, Space};

/// A key of a hash.
fn key(space: &mut Space, text: &str) -> u64 {
    let at = space.add(8 + text.len() + 1);
    space.put_half(at + 4, text.len() as u32);
    space.put_bytes(at + 8, text.as_bytes());
    at
}

fn stash(space: &mut Space, name: &str) -> u64 {
    let name = key(space, name);
    let body = space.words(80, &[(0x20, name)]);
    let stash = space.words(24, &[(0, body)]);
    space.put_half(stash + 12, 0x0200_000c);
    stash
}

/// A subroutine: with a name of its own, or in a glob.
fn subroutine(space: &mut Space, stash: u64, name: &str, is_named: bool) -> u64 {
    let file = space.add(16);
    space.put_bytes(file, b"app.pl");
    let key = key(space, name);
    let holder = if is_named {
        key
    } else {
        let body = space.words(64, &[(0x20, key), (0x28, stash)]);
        let contents = space.add(80);
        let glob = space.words(24, &[(0, body), (0x10, contents)]);
        space.put(contents + 0x38, glob);
        glob
    };
    let body = space.words(112, &[(0x20, stash), (0x38, holder), (0x40, file)]);
    space.put_half(body + 0x5c, if is_named { 0x8000 } else { 0 });
    let head = space.words(24, &[(0, body)]);
    space.put_half(head + 12, 13);
    head
}

pub fn made() -> Made {
    let mut space = Space::default();
    let mut elf = Elf::new("");
    let variables = space.words(32, &[(16, 36), (24, 3)]);
    let names = ["PL_curstackinfo", "PL_curcop", "PL_version", "PL_subversion"];
    for (name, at) in names.into_iter().zip(0..) {
        elf.variable(name, variables + 8 * at);
    }
    elf.function("Perl_runops_standard", &[0x90; 16]);
    let file = elf.bytes(&space);

    let (main, package) = (stash(&mut space, "main"), stash(&mut space, "My::App"));
    let names = ["My::App::leaf", "My::App::sorted", "main::outer"];
    let functions = [
        subroutine(&mut space, package, "leaf", false),
        subroutine(&mut space, package, "sorted", true),
        subroutine(&mut space, main, "outer", false),
    ];
    let statements = [3, 5, 8, 13].map(|line| {
        let statement = space.add(48);
        space.put_half(statement + 0x24, line);
        statement
    });
    // A stack of contexts for what is called by `sort`, and that of the program, in which there is an eval.
    let context = |space: &mut Space, at: u64, kind: u64, statement: u64, function: u64| {
        for (offset, word) in [(0, kind), (0x10, statement), (0x30, 1), (0x48, function)] {
            space.put(at + offset, word);
        }
    };
    let inner = space.add(0x68);
    context(&mut space, inner, 9, statements[1], functions[0]);
    let outer = space.add(3 * 0x68);
    context(&mut space, outer, 9, statements[3], functions[2]);
    context(&mut space, outer + 0x68, 11, statements[3], 0);
    context(&mut space, outer + 2 * 0x68, 9, statements[2], functions[1]);
    let program = space.words(48, &[(8, outer), (0x20, 2)]);
    space.put_half(program + 0x2c, 1);
    let sort = space.words(48, &[(8, inner), (0x10, program)]);
    space.put_half(sort + 0x2c, 3);
    space.put(variables, sort);
    space.put(variables + 8, statements[0]);
    let functions = functions.into_iter().zip(names);
    let functions = functions.map(|(address, name)| Function { address, owner: 0, name });
    let functions = functions.collect();
    Made { file, memory: space.0, frames: Vec::new(), functions, lines: vec![(12, 12)] }
}
