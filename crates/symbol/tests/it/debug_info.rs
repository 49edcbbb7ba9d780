//! DWARF: functions, files, lines and inlined calls, in all the places where it can be.

use std::path::Path;
use std::process::Command;

use crate::common::{LEAF, Program, build, lines, open, options, run};
use pyrograph_symbol::{Frame, Options, Warning};

#[track_caller]
fn check(program: &Program, symbol: &str, expect: &str) {
    let found = program.symbolize(symbol, &options());
    assert_eq!(lines(&found), expect, "{symbol}");
    assert_eq!(found.warnings, []);
}

#[test]
fn inlined_calls_in_c() {
    for version in ["-gdwarf-2", "-gdwarf-3", "-gdwarf-4", "-gdwarf-5", "-gdwarf64"] {
        let program = build("gcc", "calls.c", &["-O2", "-g", version]);
        check(&program, "mark_leaf", LEAF);
        check(&program, "mark_hidden", "hidden calls.c:21\n");
    }
    let program = build("clang", "calls.c", &["-O2", "-g"]);
    check(&program, "mark_leaf", LEAF);
}

#[test]
fn inlined_calls_in_cpp() {
    for flags in [["-O2", "-g"], ["-O2", "-gdwarf-4"]] {
        let program = build("g++", "calls.cc", &flags);
        check(&program, "mark_box", "app::Box<int>::add calls.cc:15\napp::run calls.cc:21\n");
        check(
            &program,
            "mark_lambda",
            "app::run::{lambda}::operator() calls.cc:19\napp::run calls.cc:21\n",
        );
        check(
            &program,
            "mark_hidden",
            "app::(anonymous namespace)::Hidden::operator() calls.cc:9\napp::run calls.cc:21\n",
        );
        let called = lines(&program.symbolize("mark_called", &options()));
        assert!(called.starts_with("main::{lambda}::operator() calls.cc:28\n"), "{called}");
        assert!(
            called.contains("std::_Function_handler<int (int), main::{lambda(int)#1}>::_M_invoke")
        );
    }
}

#[test]
fn inlined_calls_in_rust() {
    // The compiler's default, and the one that is to be.
    for flags in [&["-O", "-g"][..], &["-O", "-g", "-Csymbol-mangling-version=v0"]] {
        let program = build("rustc", "calls.rs", flags);
        let area = "<calls::shapes::Square as calls::shapes::Area>::area calls.rs:14\n";
        check(&program, "mark_square", &format!("calls::mark_square calls.rs:22\n{area}"));
        let is_v0 = program
            .symbols
            .keys()
            .any(|name| name.starts_with("_RNv") && name.ends_with("5calls4main"));
        let closure = if is_v0 { "{closure#0}" } else { "{{closure}}" };
        let found = lines(&program.symbolize("mark_closure", &options()));
        let expect = format!("calls::main::{closure} calls.rs:34\ncalls::apply");
        assert!(found.starts_with(&expect) && found.ends_with(" calls.rs:27\n"), "{found}");
    }
}

/// The functions at a place, innermost first, with the lines that they begin on.
fn starts(program: &Program, symbol: &str, options: &Options) -> String {
    let found = program.symbolize(symbol, options);
    let [symbolized] = &found.addresses[..] else { panic!("{found:?}") };
    let start = |frame: &Frame| format!("{}:{}", frame.function, frame.start_line);
    symbolized.frames.iter().map(start).collect::<Vec<_>>().join(" ")
}

#[test]
fn functions_have_the_line_that_they_begin_on() {
    for flag in ["-gdwarf-2", "-gdwarf-4", "-gdwarf-5"] {
        let program = build("gcc", "calls.c", &["-O2", flag]);
        assert_eq!(starts(&program, "mark_leaf", &options()), "leaf:8 middle:12 outer:16");
        assert_eq!(starts(&program, "mark_hidden", &options()), "hidden:20");
        let no_lines = Options { lines: false, ..options() };
        assert_eq!(starts(&program, "mark_leaf", &no_lines), "leaf:0 middle:0 outer:0");
    }
    for compiler in ["g++", "clang++"] {
        let program = build(compiler, "calls.cc", &["-O2", "-g"]);
        let found = starts(&program, "mark_box", &options());
        assert!(found.ends_with(":15 app::run:18"), "{found}");
        let found = starts(&program, "mark_hidden", &options());
        assert!(found.ends_with(":9 app::run:18"), "{found}");
    }
    let program = build("rustc", "calls.rs", &["-O", "-g"]);
    let expect = "calls::mark_square:21 <calls::shapes::Square as calls::shapes::Area>::area:13";
    assert_eq!(starts(&program, "mark_square", &options()), expect);
}

#[test]
fn options_leave_out() {
    let program = build("gcc", "calls.c", &["-O2", "-g"]);
    let no_inlines = Options { inlines: false, ..options() };
    // The line is still one of the function that is named.
    assert_eq!(program.frames("mark_leaf", &no_inlines), "outer calls.c:17\n");
    let no_lines = Options { lines: false, ..options() };
    assert_eq!(program.frames("mark_leaf", &no_lines), "leaf\nmiddle\nouter\n");
    let neither = Options { inlines: false, lines: false, ..options() };
    assert_eq!(program.frames("mark_leaf", &neither), "outer\n");
}

#[test]
fn without_any_symbol_table_dwarf_has_the_names() {
    let program = build("gcc", "calls.c", &["-O2", "-g"]);
    let addresses = ["mark_leaf", "mark_main"].map(|name| program.address(name));
    program.objcopy(&["--strip-unneeded", "--keep-section=.debug_*", "--remove-section=.symtab"]);
    let debug = open(&program.path);
    let found = debug.symbolize(&addresses[..1], &options());
    assert_eq!(lines(&found), LEAF);
    let start = found.addresses[0].start;
    assert_eq!(start, Some(program.address("outer")));
}

#[test]
fn compressed_sections() {
    for kind in ["zlib", "zstd", "zlib-gnu"] {
        let program = build("gcc", "calls.c", &["-O2", "-g"]);
        program.objcopy(&[&format!("--compress-debug-sections={kind}")]);
        let sections = Command::new("readelf").arg("-SW").arg(&program.path).output().unwrap();
        let sections = String::from_utf8(sections.stdout).unwrap();
        let is_compressed = sections.contains(".zdebug_info")
            || sections.lines().any(|l| l.contains(".debug_info") && l.contains(" C "));
        assert!(is_compressed, "{kind}: {sections}");
        check(&program, "mark_leaf", LEAF);
    }
}

#[test]
fn debug_link() {
    for place in ["program.debug", ".debug/program.debug"] {
        let program = build("gcc", "calls.c", &["-O2", "-g", "-Wl,--build-id=none"]);
        let debug = program.split("program.debug");
        program.objcopy(&["--add-gnu-debuglink=program.debug"]);
        let moved = program.dir.path().join(place);
        std::fs::create_dir_all(moved.parent().unwrap()).unwrap();
        std::fs::rename(debug, moved).unwrap();
        check(&program, "mark_leaf", LEAF);
    }
}

#[test]
fn debug_directory() {
    let program = build("gcc", "calls.c", &["-O2", "-g"]);
    let debug = program.split("program.debug");
    let directory = program.dir.path().join("usr/lib/debug");
    let same = directory.join(program.dir.path().strip_prefix("/").unwrap());
    std::fs::create_dir_all(&same).unwrap();
    let mut options = options();
    options.locator.debug_dirs.push(directory.clone());

    // At the same path below it, with the link's name, or with the module's own.
    for name in ["program.debug", "program"] {
        let path = same.join(name);
        std::fs::copy(&debug, &path).unwrap();
        assert_eq!(program.frames("mark_leaf", &options), LEAF, "{name}");
        std::fs::remove_file(path).unwrap();
        assert_eq!(program.frames("mark_leaf", &options), "", "there is nothing else");
    }
    // By build ID.
    let build_id = open(&program.path).build_id().unwrap().to_string();
    let (first, rest) = build_id.split_at(2);
    let path = directory.join(".build-id").join(first).join(format!("{rest}.debug"));
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::copy(&debug, &path).unwrap();
    assert_eq!(program.frames("mark_leaf", &options), LEAF);

    // In a copy of another machine's files.
    options.locator.debug_dirs = vec!["/usr/lib/debug".into()];
    assert_eq!(program.frames("mark_leaf", &options), "");
    options.locator.symfs = Some(program.dir.path().into());
    assert_eq!(program.frames("mark_leaf", &options), LEAF);
}

#[test]
fn build_id_cache_of_perf() {
    let program = build("gcc", "calls.c", &["-O2", "-g"]);
    let cache = program.dir.path().join("cache");
    let build_id = open(&program.path).build_id().unwrap().clone();
    let (first, rest) = (&build_id.to_string()[..2], &build_id.to_string()[2..]);
    let entry = cache.join(".build-id").join(first).join(rest);
    std::fs::create_dir_all(&entry).unwrap();
    std::fs::copy(&program.path, entry.join("elf")).unwrap();
    let whole = program.dir.path().join("whole");
    std::fs::copy(&program.path, &whole).unwrap();
    program.split("gone");
    std::fs::remove_file(program.dir.path().join("gone")).unwrap();

    let mut options = options();
    options.locator.build_id_cache = Some(cache);
    assert_eq!(program.frames("mark_leaf", &options), LEAF);

    // The module itself, too, when its path leads nowhere or to another build.
    let locator = &options.locator;
    let missing = Path::new("/no/such/file");
    assert!(locator.open_module(missing, None).is_err());
    assert!(locator.open_module(missing, Some(&build_id)).is_ok());
    assert!(locator.open_module(Path::new("/bin/sh"), Some(&build_id)).is_ok());
    let other = pyrograph_symbol::BuildId::new(&[1; 20]).unwrap();
    assert!(locator.open_module(&program.path, Some(&other)).is_err());

    // As older versions of perf and their archives have it.
    std::fs::remove_dir_all(&entry).unwrap();
    std::fs::copy(&whole, &entry).unwrap();
    assert!(locator.open_module(missing, Some(&build_id)).is_ok());
}

#[test]
fn servers_have_the_debug_files_that_are_not_here() {
    use std::io::{BufRead, BufReader, Write};

    let program = build("gcc", "calls.c", &["-O2", "-g"]);
    let build_id = open(&program.path).build_id().unwrap().to_string();
    program.split("gone");
    let debug = std::fs::read(program.dir.path().join("gone")).unwrap();
    std::fs::remove_file(program.dir.path().join("gone")).unwrap();

    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/some/where/", server.local_addr().unwrap());
    let asked = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let log = std::sync::Arc::clone(&asked);
    let wanted = format!("GET /some/where/buildid/{build_id}/debuginfo HTTP/1.1");
    std::thread::spawn(move || {
        for stream in server.incoming() {
            let mut stream = stream.unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            let first = line.trim().to_owned();
            while line.trim() != "" {
                line.clear();
                reader.read_line(&mut line).unwrap();
            }
            let (status, body) = match first == wanted {
                true => ("200 OK", &debug[..]),
                false => ("404 Not Found", &b""[..]),
            };
            log.lock().unwrap().push(first);
            let length = body.len();
            let head = format!(
                "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
            );
            stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body)).ok();
        }
    });

    let cache = program.dir.path().join("cache");
    let mut options = options();
    assert_eq!(program.frames("mark_leaf", &options), "", "nobody is asked unasked");
    let servers = pyrograph_symbol::Debuginfod { urls: vec![url], cache: cache.clone() };
    options.locator.debuginfod = Some(servers);
    assert_eq!(program.frames("mark_leaf", &options), LEAF);
    let kept = cache.join(&build_id).join("debuginfo");
    assert!(kept.is_file());
    // From now on it is in the cache, and no part of it is left.
    assert_eq!(program.frames("mark_leaf", &options), LEAF);
    assert_eq!(asked.lock().unwrap().len(), 1);
    assert_eq!(std::fs::read_dir(kept.parent().unwrap()).unwrap().count(), 1);
    // A file that no server has is not asked for again at once.
    std::fs::write(&kept, "").unwrap();
    assert_eq!(program.frames("mark_leaf", &options), "");
    assert_eq!(asked.lock().unwrap().len(), 1);
}

#[test]
fn a_debug_file_of_another_build_is_named_and_not_used() {
    // By build ID.
    let program = build("gcc", "calls.c", &["-O2", "-g"]);
    let other = build("gcc", "calls.c", &["-O1", "-g"]);
    program.split("right.debug");
    let wrong = other.split("wrong.debug");
    let debug = program.dir.path().join("program.debug");
    std::fs::copy(&wrong, &debug).unwrap();
    program.objcopy(&["--add-gnu-debuglink=program.debug"]);
    let found = program.symbolize("mark_leaf", &options());
    assert_eq!(lines(&found), "");
    let [Warning::NotTheDebugFile { path, reason }] = &found.warnings[..] else {
        panic!("{found:?}")
    };
    assert_eq!(*path, debug);
    assert!(reason.contains("build ID"), "{reason}");

    // By CRC.
    let program = build("gcc", "calls.c", &["-O2", "-g", "-Wl,--build-id=none"]);
    let debug = program.split("program.debug");
    program.objcopy(&["--add-gnu-debuglink=program.debug"]);
    let mut bytes = std::fs::read(&debug).unwrap();
    bytes.push(0);
    std::fs::write(&debug, bytes).unwrap();
    let found = program.symbolize("mark_leaf", &options());
    assert_eq!(lines(&found), "");
    assert!(found.warnings[0].to_string().contains("CRC"), "{found:?}");
}

#[test]
fn the_root_of_the_process_comes_first() {
    let program = build("gcc", "calls.c", &["-O2", "-g"]);
    let debug = program.split("program.debug");
    program.objcopy(&["--add-gnu-debuglink=program.debug"]);
    let root = program.dir.path().join("root");
    std::fs::create_dir_all(root.join("opt/.debug")).unwrap();
    std::fs::rename(debug, root.join("opt/.debug/program.debug")).unwrap();
    let source = pyrograph_symbol::Source {
        path: "/opt/program (deleted)",
        root: Some(&root),
        ..Default::default()
    };
    let file = std::fs::File::open(&program.path).unwrap();
    let module = pyrograph_symbol::Module::open(&file, source).unwrap();
    assert_eq!(module.path(), Path::new("/opt/program"));
    assert_eq!(lines(&module.symbolize(&[program.address("mark_leaf")], &options())), LEAF);
}

/// As `.gnu_debugdata` is made by distributions: the symbols that `.dynsym` lacks, and nothing
/// else, compressed with xz.
#[test]
fn mini_debug_info() {
    let program = build("gcc", "calls.c", &["-O2", "-g"]);
    let mini = program.dir.path().join("mini");
    let flags = ["--only-keep-debug", "--remove-section=.debug_*", "--remove-section=.comment"];
    run(Command::new("objcopy").args(flags).arg(&program.path).arg(&mini));
    program.objcopy(&["--strip-all"]);
    assert_eq!(program.frames("mark_hidden", &options()), "");

    let mut packed = liblzma::read::XzEncoder::new(std::fs::File::open(&mini).unwrap(), 6);
    let mut file = std::fs::File::create(program.dir.path().join("mini.xz")).unwrap();
    std::io::copy(&mut packed, &mut file).unwrap();
    program.objcopy(&["--add-section=.gnu_debugdata=mini.xz"]);
    check(&program, "mark_hidden", "hidden\n");
    check(&program, "mark_main", "main\n");

    std::fs::write(program.dir.path().join("mini.xz"), b"\xfd7zXZ but no more").unwrap();
    program.objcopy(&["--update-section=.gnu_debugdata=mini.xz"]);
    let found = program.symbolize("mark_hidden", &options());
    assert_eq!(lines(&found), "");
    assert!(found.warnings[0].to_string().contains(".gnu_debugdata"), "{found:?}");
}

#[test]
fn split_dwarf() {
    for version in ["-gdwarf-4", "-gdwarf-5"] {
        let flags = ["-O2", "-g", "-gsplit-dwarf", version];
        let program = build("g++", "calls.cc", &flags);
        let dwo = std::fs::read_dir(program.dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .find(|path| path.extension().is_some_and(|ending| ending == "dwo"))
            .unwrap();
        let expect = "app::Box<int>::add calls.cc:15\napp::run calls.cc:21\n";
        check(&program, "mark_box", expect);

        if version == "-gdwarf-4" {
            // binutils' packager crashes on version 5.
            let package = program.dir.path().join("program.dwp");
            run(Command::new("dwp").arg("-o").arg(&package).arg(&dwo));
            std::fs::remove_file(&dwo).unwrap();
            check(&program, "mark_box", expect);
            std::fs::remove_file(package).unwrap();
        } else {
            std::fs::remove_file(&dwo).unwrap();
        }
        let found = program.symbolize("mark_box", &options());
        assert_eq!(found.addresses[0].frames.len(), 1, "the symbol table knows the outer function");
        assert!(found.warnings[0].to_string().contains(".dwo"), "{found:?}");
    }
}
