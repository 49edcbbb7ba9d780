//! Gives the programs the files that they need to know.

use std::fs;

use pyrograph_bpf::{Engine, FileFacts, FileKey, Question, What};
use pyrograph_resolve::{LiveFiles, Lookup, OpenedFile, Resolver};

/// Answers a question of the programs about the file of a mapping.
pub fn answer(question: &Question, engine: &mut Engine, resolver: &mut Resolver<LiveFiles>) {
    let Question { pid, range, .. } = question;
    let link = match range.is_empty() {
        true => format!("/proc/{pid}/exe"),
        false => format!("/proc/{pid}/map_files/{:x}-{:x}", range.start, range.end),
    };
    let found = match fs::read_link(link) {
        Ok(path) => resolver.lookup(*pid, range.clone(), &path.to_string_lossy()),
        Err(_) => Lookup::Gone,
    };
    match found {
        Lookup::File(file) => {
            engine.answer(question, Some((What::Module(file.module), facts(&file))));
        }
        Lookup::Anonymous => engine.answer(question, Some((What::Anonymous, FileFacts::default()))),
        Lookup::Gone => engine.answer(question, None),
    }
}

fn facts(file: &OpenedFile) -> FileFacts<'_> {
    FileFacts { unwind: file.unwind.as_ref(), interpreter: file.interpreter.as_deref() }
}

/// Gives the engine the files that were opened since the last call.
pub fn add_files(engine: &mut Engine, resolver: &mut Resolver<LiveFiles>) {
    for file in resolver.opened_files() {
        let key = file.key.map_or(FileKey::VDSO, |key| {
            let device = (libc::major(key.device), libc::minor(key.device));
            FileKey::new(device, key.inode, key.size, key.changed)
        });
        engine.add_file(key, file.module, facts(&file));
    }
}
