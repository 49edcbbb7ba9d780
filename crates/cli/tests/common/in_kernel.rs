//! Recording with the in-kernel engine.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Stdio};

use super::{Folded, pyrograph};

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

/// Records a program from its start to its end, with a byte on its standard input; what it wrote, too.
pub fn record_command(program: &Path, arguments: &[&str], flags: &[&str]) -> (Folded, String) {
    let out = program.with_extension("folded");
    let mut recording = Running(
        pyrograph()
            .args(["record", "-o"])
            .arg(&out)
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
    (Folded::read(&out), text)
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
