use super::*;

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
