//! Recording with the in-kernel engine.

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::{Folded, compile, is_root, pyrograph, wait_until};
use libbpf_rs::{MapCore, MapFlags, MapHandle};

/// The compiler for test programs, and its flags: stacks have to be unwound.
pub const C: &[&str] = &["gcc", "-O2", "-g", "-fomit-frame-pointer", "-pthread"];

/// A program that is killed when the test is over, however it ends.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A folder and a program in it; `None`, which is said, if it cannot be recorded.
pub fn program(test: &str, source: &str) -> Option<(tempfile::TempDir, PathBuf)> {
    is_root(test).then(|| {
        let folder = tempfile::tempdir().expect("a folder");
        let program = compile(C, source, folder.path());
        (folder, program)
    })
}

/// Makes a root folder with a program in it, `/program`, and the libraries that it needs; starts it there, where it waits for
/// its standard input.
pub fn start_in_chroot(program: &Path, root: &Path) -> Running {
    let libraries = Command::new("ldd").arg(program).output().expect("ldd runs").stdout;
    let libraries = String::from_utf8(libraries).expect("text");
    let libraries = libraries.split_whitespace().filter(|word| word.starts_with('/'));
    for (from, to) in libraries.map(|path| (path, path)).chain([(path_text(program), "/program")]) {
        let to = root.join(&to[1..]);
        fs::create_dir_all(to.parent().expect("a folder")).expect("a folder");
        fs::copy(from, to).expect("a copy");
    }
    let mut command = Command::new("chroot");
    command.arg(root).arg("/program").stdin(Stdio::piped()).stdout(Stdio::null());
    let process = Running(command.spawn().expect("chroot runs"));
    let maps = format!("/proc/{}/maps", process.0.id());
    wait_until("the program runs", || {
        let is_mapped = |maps: String| maps.contains("/program\n") && maps.contains("libc.so");
        fs::read_to_string(&maps).is_ok_and(is_mapped)
    });
    process
}

/// A path as an argument.
pub fn path_text(path: &Path) -> &str {
    path.to_str().expect("the path is text")
}

/// Records a program from its start to its end, with a byte on its standard input; what it wrote, too.
pub fn record_command(program: &Path, arguments: &[&str], flags: &[&str]) -> (Folded, String) {
    record_to(&program.with_extension("folded"), program, arguments, flags)
}

/// The same, to this file.
pub fn record_to(
    out: &Path,
    program: &Path,
    arguments: &[&str],
    flags: &[&str],
) -> (Folded, String) {
    let mut recording = Running(
        pyrograph()
            .args(["record", "-o"])
            .arg(out)
            .args(flags)
            .arg("--")
            .arg(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("pyrograph runs"),
    );
    recording.0.stdin.take().expect("a pipe").write_all(b"x").expect("it waits for this");
    let mut text = String::new();
    recording.0.stdout.take().expect("a pipe").read_to_string(&mut text).expect("what it wrote");
    assert!(recording.0.wait().expect("it ends with its target").success());
    (Folded::read(out), text)
}

/// Returns true if the kernel has this of what the engine makes use of.
pub fn has_feature(name: &str) -> bool {
    pyrograph_bpf::features().0.iter().any(|feature| feature.name() == name)
}

/// The sum of the values of stacks with this function in them.
pub fn value_of(folded: &Folded, function: &str) -> f64 {
    let stacks = folded.stacks.iter();
    let of = |(stack, _): &&(Vec<String>, f64)| stack.iter().any(|frame| frame == function);
    stacks.filter(of).map(|(_, value)| value).sum()
}

/// Waits until a recording counts; the numbers of its programs.
pub fn wait_for_programs(pid: u32) -> Vec<u32> {
    wait_until("the programs count", || counts(pid) == Some(true));
    programs_of(pid)
}

/// Returns true if the programs of a recording count, by the memory that it shares with them (`State` in
/// crates/bpf/src/programs/shared.h); nothing before they are loaded.
fn counts(pid: u32) -> Option<bool> {
    const ON: usize = 4;
    let state = map_of(pid, |name| name.ends_with(".bss"))?;
    let value = state.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).ok()??;
    Some(value.get(ON..ON + 4)? != [0; 4])
}

/// The map of a process's programs whose name is the one.
pub fn map_of(pid: u32, is_it: impl Fn(&str) -> bool) -> Option<MapHandle> {
    let ids = descriptors(pid).into_iter().filter_map(|info| number(&info, "map_id:"));
    let maps = ids.filter_map(|id| MapHandle::from_map_id(id).ok());
    maps.into_iter().find(|map| is_it(&map.name().to_string_lossy()))
}

/// The text of `/proc/PID/fdinfo` for its file descriptors.
fn descriptors(pid: u32) -> Vec<String> {
    let entries = fs::read_dir(format!("/proc/{pid}/fdinfo")).into_iter().flatten().flatten();
    entries.filter_map(|entry| fs::read_to_string(entry.path()).ok()).collect()
}

/// The numbers of the programs that a process holds: `prog_id:` and `42`.
fn programs_of(pid: u32) -> Vec<u32> {
    let infos = descriptors(pid);
    let programs = infos.iter().filter(|info| info.contains("prog_jited"));
    programs.filter_map(|info| number(info, "prog_id:")).collect()
}

/// The number that stands behind a name at the beginning of a line.
fn number(info: &str, name: &str) -> Option<u32> {
    info.lines().find_map(|line| line.strip_prefix(name))?.trim().parse().ok()
}
