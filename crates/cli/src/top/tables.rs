//! Output of `top` without a terminal: one table per interval.

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::bail;
use pyrograph_analyze::{AsOne, PartCounts, origin};
use pyrograph_profile::{Profile, ValueType};
use pyrograph_render::{TopTable, top_json, top_text};
use pyrograph_session::{Child, Engine};
use pyrograph_terminal::{Interrupt, local_offset, standard_output};
use pyrograph_tui::Shown;

use super::plan::{Plan, Tables};
use super::watch::{News, Order, Watch};
use crate::say::say;

/// Default interval between tables.
const INTERVAL: Duration = Duration::from_secs(2);

/// Interval at which signals are checked.
const TICK: Duration = Duration::from_millis(50);

/// Prints tables until the recording is over, or until enough are printed.
pub fn run(plan: Plan) -> anyhow::Result<ExitCode> {
    let interrupt = Interrupt::catch()?;
    let (sender, news) = channel();
    let interval = plan.interval(INTERVAL);
    let tell = move |of| drop(sender.send(of));
    let watch = Watch::start(&plan, interval, tell)?;
    let printed = print_all(&plan, &watch, &news, &interrupt);
    watch.order(Order::Stop);
    // How the recording ended is known only after it ended; but if printing failed, that error is returned.
    let child = match printed {
        Ok(child) => child,
        Err(error) => {
            drop(news);
            watch.join();
            return Err(error);
        }
    };
    if !watch.join() {
        bail!("the recording ended with a panic, which is an error of this program");
    }
    end_command(child)
}

/// Ends the command that was started for the recording; returns its exit code if it had ended by itself.
pub fn end_command(child: Option<Child>) -> anyhow::Result<ExitCode> {
    let Some(mut child) = child else { return Ok(ExitCode::SUCCESS) };
    if child.try_wait()?.is_none() {
        child.signal(libc::SIGTERM).ok();
        say!("waiting for the command, which was told to end (PID {})", child.pid());
        child.wait()?;
        return Ok(ExitCode::SUCCESS);
    }
    Ok(ExitCode::from(child.exit_code()?))
}

/// Prints tables as they arrive; returns the command when the recording is over.
fn print_all(
    plan: &Plan,
    watch: &Watch,
    news: &Receiver<News>,
    interrupt: &Interrupt,
) -> anyhow::Result<Option<Child>> {
    let mut printer = Printer::new(plan);
    loop {
        if interrupt.asked() {
            watch.order(Order::Stop);
        }
        match news.recv_timeout(TICK) {
            Ok(News::Opened(opened)) => {
                printer.event = opened.event;
                if plan.verbose && opened.engine == Engine::Perf {
                    say!("each sample is copied out: --engine ebpf counts in the kernel");
                }
            }
            Ok(News::Snapshot(profile, counts)) => {
                if printer.is_done() || counts == PartCounts::default() {
                    continue;
                }
                printer.print(*profile, counts)?;
                if printer.is_done() {
                    watch.order(Order::Stop);
                }
            }
            Ok(News::Ended(child)) => return Ok(child),
            Ok(News::Failed(error)) => return Err(error),
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {}
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => return Ok(None),
        }
    }
}

struct Printer<'a> {
    plan: &'a Plan,
    tables: Tables,
    event: String,
    shown: Shown,
    printed: u64,
}

impl<'a> Printer<'a> {
    fn new(plan: &'a Plan) -> Self {
        let mut shown = Shown::new(Some(AsOne::Identity));
        shown.code = plan.code;
        shown.set_grouping(plan.grouping);
        let tables = plan.tables.unwrap_or_default();
        Self { plan, tables, event: String::new(), shown, printed: 0 }
    }

    fn is_done(&self) -> bool {
        self.tables.count.is_some_and(|count| self.printed >= count)
    }

    fn print(&mut self, profile: Profile, counts: PartCounts) -> io::Result<()> {
        let origin = origin(&profile, profile.shown);
        self.shown.update(profile);
        let mut rows = self.shown.rows(self.plan.by_total);
        let more = rows.len().saturating_sub(self.plan.entries);
        rows.truncate(self.plan.entries);
        if self.tables.json {
            rows.iter_mut().for_each(|of| of.row.name = self.shown.name(&of.row.name));
        }
        let table = TopTable {
            subject: format!("{}: {}", self.event, self.plan.title),
            time: time_of_day(),
            counts,
            noun: self.plan.recording.question.noun().to_owned(),
            value_type: origin.as_ref().map_or_else(ValueType::samples, |of| of.value_type.clone()),
            whole: self.shown.whole(),
            cut: origin.map_or(0, |of| of.cut),
            roots: self.shown.grouping().heading().to_owned(),
            rows,
            more,
        };
        self.printed += 1;
        let mut out = standard_output();
        match self.tables.json {
            true => top_json(&table, &mut out)?,
            false => top_text(&table, &mut out)?,
        }
        out.flush()
    }
}

/// Local time of day: `12:03:59`.
fn time_of_day() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let seconds = i64::try_from(now.as_secs()).unwrap_or(0) + i64::from(local_offset());
    let of_day = seconds.rem_euclid(86_400);
    format!("{:02}:{:02}:{:02}", of_day / 3600, of_day / 60 % 60, of_day % 60)
}
