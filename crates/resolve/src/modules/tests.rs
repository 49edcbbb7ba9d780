use std::os::unix::fs::MetadataExt;

use super::*;
use crate::files::LiveFiles;

#[test]
fn memory_without_a_file() {
    for path in ["", "//anon", "[heap]", "[anon:v8]", "/memfd:jit (deleted)"] {
        assert!(is_anonymous(path), "{path}");
    }
    for path in ["/usr/bin/node", "[vdso]", "/tmp/a b"] {
        assert!(!is_anonymous(path), "{path}");
    }
}

/// A library that was loaded from memory is a file; JIT-compiled code is none.
#[test]
fn an_elf_file_in_memory_is_a_module() {
    use std::io::Write;
    use std::os::fd::FromRawFd;

    let pid = i32::try_from(std::process::id()).expect("a process's number");
    let own = std::fs::read("/proc/self/exe").expect("this program");
    let mut modules = Modules::new(Locator::default());
    for (bytes, is_file) in [(&own[..], true), (&[0x90; 4096][..], false)] {
        // SAFETY: the name ends with a zero, and the descriptor is new.
        let mut file = unsafe { File::from_raw_fd(libc::memfd_create(c"code".as_ptr(), 0)) };
        file.write_all(bytes).expect("memory");
        // SAFETY: the file is this test's own, and stays as it is.
        let map = unsafe { memmap2::MmapOptions::new().map_exec(&file) }.expect("a mapping");
        let (start, end) = (map.as_ptr() as u64, map.as_ptr() as u64 + map.len() as u64);
        let data = file.metadata().expect("metadata");
        let identity = Identity::Inode {
            major: libc::major(data.dev()),
            minor: libc::minor(data.dev()),
            inode: data.ino(),
            generation: 0,
        };
        let range = start..end.next_multiple_of(4096);
        let path = "/memfd:code (deleted)";
        let mapped = MappedFile { pid, range, path, identity: &identity };
        if LiveFiles.open(&mapped).is_none() {
            return eprintln!(
                "skipped: an_elf_file_in_memory_is_a_module may not follow map_files"
            );
        }
        let id = modules.mapped(&mut LiveFiles, &mapped);
        assert_eq!((modules.is_file(id), modules.unwind(id).is_some()), (is_file, is_file));
        assert_eq!(id.is_jit(), !is_file);
    }
}

#[test]
fn jitdump_files() {
    assert!(is_jitdump("/tmp/jit-1234.dump") && is_jitdump("jit-1.dump"));
    for path in ["/tmp/jit-.dump", "/tmp/jit-1.dump2", "/tmp/jit-1/x.dump", "/tmp/ajit-1.dump"] {
        assert!(!is_jitdump(path), "{path}");
    }
}

#[test]
fn a_file_that_was_closed_is_opened_again_under_its_number() {
    let path = std::env::current_exe().expect("this program");
    let pid = i32::try_from(std::process::id()).expect("a process's number");
    let path = path.to_str().expect("a path in UTF-8");
    let mapped = MappedFile { pid, range: 0..0, path, identity: &Identity::Unknown };
    let mut modules = Modules::new(Locator::default());
    let id = modules.mapped(&mut LiveFiles, &mapped);
    assert!(modules.unwind(id).is_some() && modules.opened_lately() == 1);

    modules.forget_files(|mapped| mapped == id);
    assert!(modules.unwind(id).is_some(), "it is mapped");
    modules.forget_files(|_| false);
    assert!(modules.unwind(id).is_none() && modules.opened_lately() == 0);
    assert_eq!(modules.get(id).map(|module| &*module.path), Some(path));

    modules.take_fresh();
    assert_eq!(modules.mapped(&mut LiveFiles, &mapped), id);
    assert!(modules.unwind(id).is_some() && modules.missing().is_empty());
    assert_eq!(modules.take_fresh().len(), 1, "it is new to whoever needs its table");
}

/// `cp` writes over a file, which keeps its inode. Build IDs would differ, but are not asked for.
#[test]
fn a_file_that_was_written_over_is_another_module() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("program");
    let write = |from: &std::path::Path| {
        // Not `copy`, which may share the blocks of the other file.
        let bytes = std::fs::read(from).expect("a program");
        std::fs::write(&path, bytes).expect("a file");
    };
    let own = std::env::current_exe().expect("this program");
    write(&own);
    let data = std::fs::metadata(&path).expect("a file");
    let identity = Identity::Inode {
        major: libc::major(data.dev()),
        minor: libc::minor(data.dev()),
        inode: data.ino(),
        generation: 0,
    };
    let pid = i32::try_from(std::process::id()).expect("a process's number");
    let text = path.to_str().expect("a path in UTF-8");
    let mapped = MappedFile { pid, range: 0..0, path: text, identity: &identity };
    let mut modules = Modules::new(Locator::default());
    let first = modules.mapped(&mut LiveFiles, &mapped);
    assert_eq!(modules.mapped(&mut LiveFiles, &mapped), first);
    std::thread::sleep(2 * Named::TRUSTED);
    assert_eq!(modules.mapped(&mut LiveFiles, &mapped), first, "nobody wrote to it");

    write(std::path::Path::new("/bin/sh"));
    std::thread::sleep(2 * Named::TRUSTED);
    let second = modules.mapped(&mut LiveFiles, &mapped);
    assert_ne!(second, first);
    assert!(modules.get(first).is_some() && modules.is_file(second));
}
