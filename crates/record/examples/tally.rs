//! Records a command, a process or the machine, and counts what comes: a small program for looking
//! at this crate alone.
//!
//! ```text
//! tally [-e EVENT] [-F HERTZ | -c PERIOD] [-d SECONDS] [--fp | --dwarf BYTES] [-u] [-k]
//!       [--buffer BYTES] [--no-inherit] (-a | -p PID[,PID] | COMMAND ...)
//! ```

use std::collections::BTreeMap;
use std::error::Error;
use std::time::{Duration, Instant};

use pyrograph_event::{Context, Entry, Header, Record, kind};
use pyrograph_record::{Event, Next, Options, Rate, Session, StackMode, Target};

fn main() -> Result<(), Box<dyn Error>> {
    let (options, duration) = parse(std::env::args().skip(1))?;
    let session = Session::open(&options)?;
    let layout = session.layout();
    let (event, rate) = (session.event(), session.rate());
    println!(
        "event {} in {:?}, {rate:?}, kernel {}",
        event.name(),
        event.unit(),
        session.samples_kernel()
    );
    let every = if let Rate::Every(period) = rate { period } else { 0 };
    session.notices().iter().for_each(|notice| println!("notice: {notice}"));
    let mut recording = session.start()?;
    recording.notices().iter().for_each(|notice| println!("notice: {notice}"));

    let start = Instant::now();
    let mut tally = Tally::default();
    loop {
        match recording.next(Duration::from_millis(50)) {
            Next::Batch(batch) => {
                for bytes in batch.iter() {
                    let kind = Header::parse(bytes, layout.order()).map_or(0, |header| header.kind);
                    *tally.kinds.entry(kind::name(kind)).or_default() += 1;
                    let time = layout.time(bytes).unwrap_or(0);
                    tally.disorder += u64::from(time < tally.newest);
                    tally.newest = tally.newest.max(time);
                    match layout.decode(bytes) {
                        Ok(record) => tally.add(&record, every),
                        Err(error) => println!("{error}"),
                    }
                }
            }
            Next::Waiting => {}
            Next::End => break,
        }
        if duration.is_some_and(|duration| start.elapsed() >= duration) {
            recording.stopper().stop();
        }
    }
    if let Some(child) = recording.child() {
        child.signal(15)?;
        println!("child {} ended: {}", child.pid(), child.wait()?);
    }
    println!("{tally:#?}\n{:?}", recording.finish());
    Ok(())
}

#[derive(Debug, Default)]
struct Tally {
    kinds: BTreeMap<&'static str, u64>,
    /// Samples by process.
    pids: BTreeMap<i32, u64>,
    period: u64,
    kernel_frames: u64,
    user_frames: u64,
    stacks: u64,
    stack_bytes: u64,
    cut: u64,
    disorder: u64,
    newest: u64,
}

impl Tally {
    fn add(&mut self, record: &Record<'_>, every: u64) {
        let Record::Sample(sample) = record else { return };
        *self.pids.entry(sample.id.pid.unwrap_or(-1)).or_default() += 1;
        self.period += sample.period.unwrap_or(every);
        let mut user = false;
        for entry in sample.callchain.entries() {
            match entry {
                Entry::Context(context) => user = context == Context::User,
                Entry::Address(_) if user => self.user_frames += 1,
                _ => self.kernel_frames += 1,
            }
        }
        if let (Some(_), Some(stack)) = (sample.user_regs, sample.user_stack) {
            self.stacks += 1;
            self.stack_bytes += stack.bytes.len() as u64;
            self.cut += u64::from(stack.is_cut());
        }
    }
}

fn parse(
    mut words: impl Iterator<Item = String>,
) -> Result<(Options, Option<Duration>), Box<dyn Error>> {
    let mut options = Options::new(Target::System);
    let mut duration = None;
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or("a value is missing");
        match word.as_str() {
            "-a" => options.target = Target::System,
            "-p" => {
                let pids: Result<_, _> = value()?.split(',').map(str::parse).collect();
                options.target = Target::Processes(pids?);
            }
            "-e" => options.event = Some(Event::parse(&value()?)?),
            "-F" => options.rate = Some(Rate::Hertz(value()?.parse()?)),
            "-c" => options.rate = Some(Rate::Every(value()?.parse()?)),
            "-d" => duration = Some(Duration::from_secs_f64(value()?.parse()?)),
            "--fp" => options.stack = StackMode::FramePointers,
            "--dwarf" => options.stack = StackMode::Dwarf { bytes: value()?.parse()? },
            "--buffer" => options.buffer = Some(value()?.parse()?),
            "--no-inherit" => options.inherit = false,
            "-u" => options.kernel = false,
            "-k" => options.user = false,
            _ => {
                let command = std::iter::once(word).chain(words).map(Into::into);
                options.target = Target::Command(command.collect());
                break;
            }
        }
    }
    Ok((options, duration))
}
