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
    assert_eq!(modules.take_fresh().len(), 1, "whoever needs its table is told");
}
