//! BPF programs compiled for user space (`programs/user_space`) with the compiler's sanitizers. They need no privilege.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A program that runs in a process of its own and accepts commands.
pub struct InUserSpace {
    child: Child,
    to: Option<ChildStdin>,
    from: ChildStdout,
    /// All data that was sent to it.
    sent: Vec<u8>,
}

impl InUserSpace {
    /// Starts the program with a name.
    pub fn start(name: &str) -> Self {
        let child =
            Command::new(compiled(name)).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
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

    /// Returns the data that was sent to it since the last call.
    pub fn take_sent(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.sent)
    }

    /// Reads a word of an answer.
    pub fn word(&mut self) -> u64 {
        let mut word = [0; 8];
        self.bytes(&mut word);
        u64::from_ne_bytes(word)
    }

    /// Reads bytes of an answer.
    pub fn bytes(&mut self, into: &mut [u8]) {
        self.from.read_exact(into).expect("an answer");
    }
}

impl Drop for InUserSpace {
    fn drop(&mut self) {
        self.to = None;
        let ended = self.child.wait().expect("a child");
        // The sanitizers have written the reason.
        assert!(ended.success() || std::thread::panicking(), "{ended}");
    }
}

/// Path of the compiled program with a name. Compiling takes seconds: it is done once for each state of the sources, in
/// the target folder, by whichever test comes first.
fn compiled(name: &str) -> PathBuf {
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/programs");
    let mut hasher = DefaultHasher::new();
    for folder in ["", "languages", "user_space", "user_space/bpf"] {
        let mut files: Vec<PathBuf> = fs::read_dir(programs.join(folder))
            .expect("sources")
            .map(|entry| entry.expect("a name").path())
            .filter(|path| path.extension().is_some_and(|ending| ending == "h" || ending == "c"))
            .collect();
        files.sort();
        files.iter().for_each(|file| fs::read(file).expect("a source").hash(&mut hasher));
    }
    let test = std::env::current_exe().expect("this test");
    let kept = test.ancestors().nth(2).expect("below the target folder").join("tmp");
    fs::create_dir_all(&kept).expect("a folder");
    let lock = File::create(kept.join(format!("{name}.lock"))).expect("a file to lock");
    lock.lock().expect("files here can be locked");
    let program = kept.join(format!("{name}-{:016x}", hasher.finish()));
    if !program.exists() {
        let (sources, new) = (programs.join("user_space"), program.with_extension("new"));
        let status = Command::new("cc")
            .args(["-std=gnu11", "-O1", "-g", "-fsanitize=address,undefined"])
            // The programs read words at unaligned addresses.
            .args(["-fno-strict-aliasing", "-fno-sanitize=alignment", "-fno-sanitize-recover"])
            .args(["-Wno-unknown-pragmas", "-I"])
            .arg(&sources)
            .arg("-o")
            .arg(&new)
            .arg(sources.join(name).with_extension("c"))
            .status();
        assert!(status.expect("a compiler").success());
        fs::rename(new, &program).expect("a file of the same folder");
    }
    program
}
