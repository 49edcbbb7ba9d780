//! How whole the stacks of a real program are: `completeness [-n SAMPLES] [-p PID | COMMAND…]`.
//!
//! Stops the program's running threads some hundred times, copies registers and the whole stack,
//! unwinds, and prints: the share of stacks followed to their first frame, for the whole stack and
//! for copies of limited size; where the others ended; how much stack there was; time a frame.

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[path = "../tests/common/capture.rs"]
mod capture;
#[path = "../tests/common/mod.rs"]
mod common;

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn main() {
    x86_64::main();
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
fn main() {
    eprintln!("only for Linux on x86-64");
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod x86_64 {
    use std::collections::BTreeMap;
    use std::process::{Child, Command, Stdio};
    use std::time::{Duration, Instant};

    use pyrograph_unwind::{Arch, Frame, StackCopy, StackEnd, Unwinder, Unwound};
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    use super::capture::{Capture, running_threads};
    use super::common::Files;

    /// The size of copies to try, in bytes.
    const COPIES: [usize; 5] = [4 << 10, 8 << 10, 16 << 10, 32 << 10, 65_528];

    pub fn main() {
        let mut arguments = std::env::args().skip(1).peekable();
        let mut samples = 1000;
        let mut pid = None;
        while let Some(option) = arguments.next_if(|argument| argument.starts_with('-')) {
            let value = arguments.next().and_then(|value| value.parse().ok());
            match (option.as_str(), value) {
                ("-n", Some(value)) => samples = value as usize,
                ("-p", Some(value)) => pid = Some(value),
                _ => panic!("usage: completeness [-n SAMPLES] [-p PID | COMMAND…]"),
            }
        }
        let command: Vec<String> = arguments.collect();
        let captures = collect(pid, &command, samples);
        report(&captures);
    }

    fn start(command: &[String]) -> Child {
        let (program, arguments) = command.split_first().expect("a command");
        Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("start the command")
    }

    /// Captures at intervals that keep no step with the program; a command that ends starts again.
    fn collect(pid: Option<u32>, command: &[String], samples: usize) -> Vec<Capture> {
        let mut files = Files::default();
        let mut captures = Vec::new();
        let mut child = pid.is_none().then(|| start(command));
        let mut random = StdRng::seed_from_u64(1);
        let deadline = Instant::now() + Duration::from_secs(120);
        while captures.len() < samples && Instant::now() < deadline {
            std::thread::sleep(Duration::from_micros(random.random_range(500..4600)));
            if let Some(running) = &mut child
                && running.try_wait().is_ok_and(|status| status.is_some())
            {
                child = Some(start(command));
            }
            let pid = pid.or_else(|| child.as_ref().map(Child::id)).unwrap_or_default();
            captures.extend(running_threads(pid, &mut files));
        }
        if let Some(mut child) = child {
            let _ = child.kill();
            let _ = child.wait();
        }
        captures
    }

    fn unwind(
        unwinder: &mut Unwinder,
        capture: &Capture,
        most: usize,
        out: &mut Vec<Frame>,
    ) -> Unwound {
        out.clear();
        let bytes = &capture.bytes[..most.min(capture.bytes.len())];
        let stack = StackCopy { start: capture.start, bytes };
        unwinder.unwind(&capture.space, &capture.registers, stack, 4096, out)
    }

    /// Module and offset in the file.
    fn place(capture: &Capture, frame: Frame) -> String {
        let address = frame.lookup_address();
        match capture.lines.iter().find(|line| (line.start..line.end).contains(&address)) {
            None => format!("unmapped {:#x}", frame.address),
            Some(line) if line.path.is_empty() => "anonymous memory".to_string(),
            Some(line) => {
                format!("{}+{:#x}", line.path, frame.address - line.start + line.file_offset)
            }
        }
    }

    /// Time that this thread has run: others share the machine.
    fn cpu_time() -> Duration {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the kernel writes one `timespec`.
        unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    }

    fn report(captures: &[Capture]) {
        let mut unwinder = Unwinder::new(Arch::X86_64);
        let mut frames = Vec::new();
        let mut depths = Vec::new();
        let mut ends = BTreeMap::<String, usize>::new();
        let (mut roots, mut total, mut without_table) = (0, 0, 0);
        for capture in captures {
            let unwound = unwind(&mut unwinder, capture, usize::MAX, &mut frames);
            total += frames.len();
            without_table += unwound.without_table as usize;
            if unwound.end == StackEnd::Root {
                roots += 1;
                depths.push(unwound.depth);
            } else {
                let last = frames.last().map_or(String::new(), |&frame| place(capture, frame));
                let depth = frames.len();
                *ends
                    .entry(format!("{:?} after {depth} frames at {last}", unwound.end))
                    .or_default() += 1;
            }
        }
        let share = |part: usize| 100.0 * part as f64 / captures.len().max(1) as f64;
        println!(
            "{} stacks, {} frames, {} of them left without a table",
            captures.len(),
            total,
            without_table
        );
        println!("whole: {:.2} %", share(roots));
        for most in COPIES {
            let whole = captures
                .iter()
                .filter(|capture| {
                    unwind(&mut unwinder, capture, most, &mut frames).end == StackEnd::Root
                })
                .count();
            println!("whole with copies of {most} bytes: {:.2} %", share(whole));
        }
        let copy = COPIES[COPIES.len() - 1];
        let live = captures.iter().filter(|capture| {
            let beyond = |address: u64| {
                let at = address.checked_sub(capture.start)? as usize;
                capture.bytes.get(at..)?.first_chunk().map(|word| u64::from_le_bytes(*word))
            };
            frames.clear();
            let bytes = &capture.bytes[..copy.min(capture.bytes.len())];
            let stack = StackCopy { start: capture.start, bytes };
            let (space, registers) = (&capture.space, &capture.registers);
            let unwound = unwinder.unwind_live(space, registers, stack, &beyond, 4096, &mut frames);
            unwound.end == StackEnd::Root
        });
        println!("the same, and what is above read from the thread: {:.2} %", share(live.count()));
        depths.sort_unstable();
        let percentile = |p: usize| depths.get(depths.len() * p / 1000).copied().unwrap_or(0);
        println!(
            "stack depth in bytes: 50 % {}, 90 % {}, 95 % {}, 99 % {}, 99.9 % {}, most {}",
            percentile(500),
            percentile(900),
            percentile(950),
            percentile(990),
            percentile(999),
            depths.last().unwrap_or(&0),
        );
        let begin = cpu_time();
        let rounds = 20;
        for capture in std::iter::repeat_n(captures, rounds).flatten() {
            unwind(&mut unwinder, capture, usize::MAX, &mut frames);
        }
        let each = (cpu_time() - begin).as_nanos() as f64 / (rounds * total.max(1)) as f64;
        println!("{each:.1} ns a frame, rules known");
        let mut ends: Vec<_> = ends.into_iter().collect();
        ends.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        for (end, count) in ends.iter().take(12) {
            println!("{count:6} {end}");
        }
    }
}
