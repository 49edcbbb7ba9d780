//! HotSpot's protocol for tools that attach to a running virtual machine
//! (`src/hotspot/os/posix/attachListener_posix.cpp` in the JDK's source): the tool writes zero-terminated words to a
//! UNIX socket in the machine's `/tmp`, and reads a number and a text.
//!
//! ```text
//! → 1\0jcmd\0Compiler.perfmap\0\0\0
//! ← 0\n
//! ```
//!
//! The machine creates the socket when it gets the first SIGQUIT while a file `.attach_pidN` exists in `/tmp`, where N
//! is the process ID in its own PID namespace. Without that file, SIGQUIT prints the stacks of all threads.

use std::io::{self, Read, Write};

/// Version of the protocol that all versions of HotSpot support.
const VERSION: &str = "1";

/// Number of arguments, including empty ones.
const ARGUMENTS: usize = 3;

/// Maximum size of a reply that is read, in bytes.
const LONGEST_REPLY: u64 = 1 << 16;

/// The command that writes the names and addresses of all compiled code to `/tmp/perf-N.map`, since JDK 17
/// (JDK-8254723).
pub const PERF_MAP: &str = "Compiler.perfmap";

/// Failures of a command in a virtual machine.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The machine does not know the command.
    #[error("it does not know the command")]
    UnknownCommand,
    /// Another failure, in the words of the machine.
    #[error("it says {0:?}")]
    Other(String),
    /// The connection failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Runs a command of `jcmd` in the virtual machine at the other end. Returns its output.
pub fn run(mut stream: impl Read + Write, command: &str) -> Result<String, Failure> {
    stream.write_all(&request("jcmd", command))?;
    let mut reply = Vec::new();
    stream.take(LONGEST_REPLY).read_to_end(&mut reply)?;
    read_reply(&reply)
}

fn request(operation: &str, argument: &str) -> Vec<u8> {
    let arguments = [argument].into_iter().chain(std::iter::repeat("")).take(ARGUMENTS);
    let words = [VERSION, operation].into_iter().chain(arguments);
    words.flat_map(|word| word.bytes().chain([0])).collect()
}

fn read_reply(reply: &[u8]) -> Result<String, Failure> {
    let reply = String::from_utf8_lossy(reply);
    let (code, text) = reply.split_once('\n').unwrap_or((&reply, ""));
    match code.trim().parse::<i32>() {
        Ok(0) => Ok(text.to_owned()),
        Ok(_) if text.contains("Unknown diagnostic command") => Err(Failure::UnknownCommand),
        Ok(code) => {
            let line = text.lines().map(str::trim).find(|line| !line.is_empty());
            Err(Failure::Other(line.map_or_else(|| format!("error {code}"), str::to_owned)))
        }
        Err(_) if reply.is_empty() => Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
        Err(_) => Err(Failure::Other(code.chars().take(80).collect())),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    /// Asks a virtual machine that answers `reply`; returns what it was sent, too.
    fn ask(reply: &'static [u8]) -> (Vec<u8>, Result<String, Failure>) {
        let (ours, mut theirs) = UnixStream::pair().expect("two sockets");
        let machine = std::thread::spawn(move || {
            let mut request = Vec::new();
            // All words have come, as HotSpot counts them.
            while request.iter().filter(|byte| **byte == 0).count() < 5 {
                let mut byte = [0];
                theirs.read_exact(&mut byte).expect("a request");
                request.push(byte[0]);
            }
            theirs.write_all(reply).expect("a reply");
            request
        });
        let answer = run(ours, PERF_MAP);
        (machine.join().expect("a request"), answer)
    }

    #[test]
    fn a_request_and_its_reply() {
        let (request, answer) = ask(b"0\nCommand executed successfully\n");
        assert_eq!(request, b"1\0jcmd\0Compiler.perfmap\0\0\0");
        assert_eq!(answer.expect("a text"), "Command executed successfully\n");
        assert_eq!(ask(b"0\n").1.expect("a text"), "");
        assert_eq!(ask(b"0").1.expect("a text"), "");
    }

    #[test]
    fn failures() {
        let unknown = b"-1\njava.lang.IllegalArgumentException: Unknown diagnostic command\n\n";
        assert!(matches!(ask(unknown).1, Err(Failure::UnknownCommand)));
        let failure = |reply| ask(reply).1.expect_err("a failure").to_string();
        assert_eq!(failure(b"101\n"), "it says \"error 101\"");
        assert_eq!(failure(b"-1\n\nno memory\nx"), "it says \"no memory\"");
        assert_eq!(failure(b"\x1b[0m?\n"), r#"it says "\u{1b}[0m?""#);
        assert_eq!(failure(b""), "unexpected end of file");
    }
}
