//! Programs for the kernel, compiled for user space (`programs/user_space`) with the compiler's checks. They need no
//! privilege.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A program that runs as a process of its own, and takes commands.
pub struct InUserSpace {
    child: Child,
    to: Option<ChildStdin>,
    from: ChildStdout,
    /// What it was sent.
    sent: Vec<u8>,
}

impl InUserSpace {
    /// Compiles and starts the program of a name.
    pub fn start(folder: &Path, name: &str) -> Self {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/programs/user_space");
        let program = folder.join(name);
        let compiled = Command::new("cc")
            .args(["-std=gnu11", "-O1", "-g", "-fsanitize=address,undefined"])
            // The programs read words where they lie.
            .args(["-fno-strict-aliasing", "-fno-sanitize=alignment", "-fno-sanitize-recover"])
            .args(["-Wno-unknown-pragmas", "-I"])
            .arg(&sources)
            .arg("-o")
            .arg(&program)
            .arg(sources.join(name).with_extension("c"))
            .status();
        assert!(compiled.expect("a compiler").success());
        let child = Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.expect("it was compiled");
        let (to, from) = (child.stdin.take(), child.stdout.take().expect("a pipe"));
        Self { child, to, from, sent: Vec::new() }
    }

    /// Writes a command's words, and the bytes that belong to it.
    pub fn send(&mut self, words: &[u64], bytes: &[u8]) {
        let message = [bytemuck::cast_slice(words), bytes].concat();
        self.sent.extend(&message);
        self.to.as_mut().expect("it runs").write_all(&message).expect("it reads commands");
    }

    /// What it was sent since this was asked last.
    pub fn take_sent(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.sent)
    }

    /// A word of an answer.
    pub fn word(&mut self) -> u64 {
        let mut word = [0; 8];
        self.bytes(&mut word);
        u64::from_ne_bytes(word)
    }

    /// Bytes of an answer.
    pub fn bytes(&mut self, into: &mut [u8]) {
        self.from.read_exact(into).expect("an answer");
    }
}

impl Drop for InUserSpace {
    fn drop(&mut self) {
        self.to = None;
        let ended = self.child.wait().expect("a child");
        // The sanitizers have written why.
        assert!(ended.success() || std::thread::panicking(), "{ended}");
    }
}
