//! Static SVG file of a chart, without a script, for a fixed width.
//!
//! ```text
//! svg.ID                    the whole picture; coordinates are pixels
//!   style, rect.bg
//!   g.head                  title, summary, times
//!   g.row                   a row; its title contains the totals
//!     text                  name of the row
//!     path.kN, path.pN      spans of one colour, for kind N or process N
//!     text.on               names on spans that are wide enough
//!   g.foot                  legend, and what is not drawn
//! ```

use std::io::{self, Write};
use std::ops::Range;

use pyrograph_analyze::{Activity, ActivityTimes, SchedChart};
use pyrograph_profile::{SchedTasks, TaskId};

use super::bars::{BAR, Bars, Class};
use super::colours::{DEPTHS, PROCESSES, of_idle, of_kind, of_process};
use super::page::kinds_in;
use super::{Kind, SchedChartLook, Shown};
use crate::Rgb;
use crate::palette::hash;
use crate::scale::Scale;
use crate::svg::{BACKGROUND, FONT, MUTED, TEXT};
use crate::tag::{end, tag};
use crate::text::{Metrics, one_line};
use crate::units::{counted, percent};

/// Writes the picture. `tasks` is the task table of the chart's events. The number of threads beyond
/// [`SchedChartLook::rows`] and their running time are stated in the footer.
///
/// # Errors
///
/// Fails if writing to `out` fails.
pub fn sched_chart_svg(
    chart: &SchedChart,
    tasks: &SchedTasks,
    look: &SchedChartLook,
    out: &mut dyn Write,
) -> io::Result<()> {
    let shown = Shown::new(chart, tasks);
    let picture = Picture::new(&shown, look);
    out.write_all(picture.draw().as_bytes())
}

const MARGIN: f64 = 10.0;
const METRICS: Metrics = Metrics { size: 12.0, uniform: None };
/// Width below which names are above their bars.
const NARROW: f64 = 640.0;
const LINE: f64 = 18.0;

/// A row of the picture.
enum Row {
    Heading(&'static str),
    Cpu(usize),
    /// A process with several threads.
    Process(usize),
    /// A thread; true if it is below the row of its process.
    Thread(TaskId, bool),
}

struct Picture<'a> {
    shown: &'a Shown<'a>,
    look: &'a SchedChartLook,
    rows: Vec<Row>,
    /// Number of threads without a row, number of their processes, and their running time.
    left_out: (u64, u64, u64),
    width: f64,
    /// Left edge and width of the bars.
    left: f64,
    plot: usize,
    /// Height of the space above a bar.
    above: f64,
    id: String,
}

impl<'a> Picture<'a> {
    fn new(shown: &'a Shown<'a>, look: &'a SchedChartLook) -> Self {
        let width = look.width.clamp(200.0, 20_000.0).round();
        let narrow = width < NARROW;
        let left = if narrow { MARGIN } else { (100.0 + 0.07 * width).min(230.0).round() };
        let chart = shown.chart;
        let seed =
            format!("{look:?}{}{}{}{}", chart.start, chart.end, chart.switches, chart.wakeups);
        let (rows, left_out) = rows(shown, look.rows);
        Self {
            shown,
            look,
            rows,
            left_out,
            width,
            left,
            plot: (width - left - MARGIN) as usize,
            above: if narrow { 17.0 } else { 0.0 },
            id: format!("s{:08x}", hash(seed.as_bytes()) >> 32),
        }
    }

    fn whole(&self) -> Range<u64> {
        self.shown.chart.start..self.shown.chart.end
    }

    fn height_of(&self, row: &Row) -> f64 {
        match row {
            Row::Heading(_) => 22.0,
            Row::Cpu(_) => f64::from(BAR) + self.above + 5.0,
            Row::Process(_) | Row::Thread(..) => f64::from(BAR) + self.above + 3.0,
        }
    }

    fn draw(&self) -> String {
        let mut head = String::new();
        let top = self.head(&mut head);
        let mut body = String::new();
        let mut y = top;
        for row in &self.rows {
            self.row(&mut body, row, y);
            y += self.height_of(row);
        }
        let mut foot = String::new();
        let height = self.foot(&mut foot, y + 8.0);
        let mut out = String::new();
        self.open(&mut out, height);
        for part in [head, body, foot] {
            out.push_str(&part);
        }
        out.push_str("</svg>\n");
        out
    }

    fn open(&self, out: &mut String, height: f64) {
        out.push_str("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
        tag(out, "svg")
            .attr("xmlns", "http://www.w3.org/2000/svg")
            .attr("class", &self.id)
            .attr("viewBox", format_args!("0 0 {} {height}", self.width))
            .pixels("width", self.width)
            .pixels("height", height)
            .attr("role", "figure")
            .attr_text("aria-label", &format!("{}: {}", self.look.title, self.shown.summary()))
            .attr("font-family", FONT)
            .attr("font-size", METRICS.size)
            .open_line();
        // Otherwise mobile browsers would assume a viewport of 980 pixels.
        out.push_str(
            "<meta xmlns=\"http://www.w3.org/1999/xhtml\" name=\"viewport\" \
             content=\"width=device-width,initial-scale=1\"/>\n",
        );
        tag(out, "title").text(&self.look.title).push('\n');
        self.style(out);
        tag(out, "rect")
            .attr("class", "bg")
            .attr("width", "100%")
            .attr("height", "100%")
            .attr("fill", BACKGROUND.0)
            .close();
        out.push('\n');
    }

    /// Colours for dark pages. The colours for light pages are attributes, so that they survive an editor that strips
    /// styles.
    fn style(&self, out: &mut String) {
        let id = &self.id;
        out.push_str(&format!(
            "<style>\n.{id}{{background:{};font-variant-numeric:tabular-nums}}\n\
             @media screen and (prefers-color-scheme:dark){{\n.{id}{{background:{}}}\n",
            BACKGROUND.0, BACKGROUND.1
        ));
        let mut rule = |class: String, colour: Rgb| {
            out.push_str(&format!(".{id} .{class}{{fill:{colour}}}\n"));
        };
        rule("bg".to_owned(), BACKGROUND.1);
        rule("name".to_owned(), TEXT.1);
        rule("muted".to_owned(), MUTED.1);
        for kind in Kind::ALL {
            rule(format!("k{}", kind as usize), of_kind(kind).1);
            rule(format!("n{}", kind as usize), of_kind(kind).1.ink());
        }
        for rank in 0..=PROCESSES {
            rule(format!("p{rank}"), of_process(rank).1);
            rule(format!("o{rank}"), of_process(rank).1.ink());
        }
        for state in 0..DEPTHS as u32 {
            rule(format!("i{state}"), of_idle(state).1);
        }
        out.push_str("}\n</style>\n");
    }

    /// Writes title, summary and times. Returns the top of the rows.
    fn head(&self, out: &mut String) -> f64 {
        let room = self.width - 2.0 * MARGIN;
        let mut y = 26.0;
        tag(out, "g").attr("class", "head").open_line();
        let metrics = Metrics { size: 17.0, ..METRICS };
        let title = metrics.fit(&self.look.title, room).unwrap_or_default();
        tag(out, "text")
            .attr("class", "name")
            .attr("fill", TEXT.0)
            .attr("x", MARGIN)
            .pixels("y", y)
            .attr("font-size", 17)
            .attr("font-weight", 600)
            .text(&title)
            .push('\n');
        for text in [&self.shown.summary(), &self.look.subtitle] {
            for line in wrap(text, room) {
                y += LINE;
                muted(out, MARGIN, y, None, line);
            }
        }
        y += LINE + 4.0;
        let length = (self.shown.chart.end - self.shown.chart.start) as f64;
        let scale = Scale::time();
        let (ticks, step) = scale.ticks(0.0, length, (self.plot as f64 / 110.0).max(2.0));
        for tick in ticks {
            let x = self.left + tick / length.max(1.0) * self.plot as f64;
            let text = scale.text(tick, length, step);
            let half = METRICS.width(&text) / 2.0;
            let middle = x.clamp(self.left + half - 4.0, (self.width - half).max(self.left + half));
            muted(out, middle, y, Some("middle"), &text);
            tag(out, "rect")
                .attr("class", "muted")
                .attr("fill", MUTED.0)
                .pixels("x", x.floor())
                .pixels("y", y + 5.0)
                .attr("width", 1)
                .attr("height", 4)
                .close();
            out.push('\n');
        }
        end(out, "g");
        y + 10.0
    }

    fn row(&self, out: &mut String, row: &Row, y: f64) {
        if let Row::Heading(text) = row {
            tag(out, "text")
                .attr("class", "muted")
                .attr("fill", MUTED.0)
                .attr("x", MARGIN)
                .pixels("y", y + 16.0)
                .attr("font-weight", 600)
                .text(text)
                .push('\n');
            return;
        }
        tag(out, "g").attr("class", "row").open_line();
        let (name, indent, details) = self.texts(row);
        tag(out, "title").text(&details).push('\n');
        let narrow = self.above > 0.0;
        let room =
            if narrow { self.width - 2.0 * MARGIN } else { self.left - MARGIN - 4.0 } - indent;
        let baseline = if narrow { y + 12.0 } else { y + 12.5 };
        let text = tag(out, "text")
            .attr("class", "name")
            .attr("fill", TEXT.0)
            .pixels("x", MARGIN + indent)
            .pixels("y", baseline)
            .attr_if("font-weight", matches!(row, Row::Process(_)).then_some(600));
        text.text(&METRICS.fit(&name, room).unwrap_or_default()).push('\n');
        let bars = match row {
            Row::Cpu(cpu) => self.cpu(*cpu),
            Row::Process(process) => self.process(*process),
            Row::Thread(task, _) => self.thread(*task),
            Row::Heading(_) => Bars::default(),
        };
        self.bars(out, &bars, y + self.above);
        end(out, "g");
    }

    /// Name of a row, its indentation, and its details.
    fn texts(&self, row: &Row) -> (String, f64, String) {
        match row {
            Row::Heading(_) => (String::new(), 0.0, String::new()),
            Row::Cpu(cpu) => {
                let timeline = &self.shown.chart.cpus[*cpu];
                let busy: u64 = timeline
                    .runs(self.whole().end)
                    .filter(|(_, task)| task.is_some_and(|task| task != TaskId::IDLE))
                    .map(|(range, _)| range.end - range.start)
                    .sum();
                let share = percent(busy, self.whole().end - self.whole().start);
                (format!("CPU {cpu}"), 0.0, format!("CPU {cpu}\nbusy for {share} of the time"))
            }
            Row::Process(process) => {
                let process = &self.shown.processes[*process];
                let name = numbered(&process.name, process.pid);
                let threads = counted(process.tasks.len() as u64, "thread");
                let details = format!("{name}\n{threads} ran for {}", time(process.running));
                (name, 0.0, details)
            }
            Row::Thread(task, below) => {
                let of = self.shown.tasks.get(*task);
                let name = numbered(&of.name, of.tid);
                let times = self.shown.chart.tasks[task.index()].times(self.whole());
                let details = format!("{name}\n{}", details(self.shown, *task, &times));
                (name, if *below { 12.0 } else { 0.0 }, details)
            }
        }
    }

    fn thread(&self, task: TaskId) -> Bars {
        let mut bars = Bars::new(self.plot);
        let whole = self.whole();
        let per = self.per_pixel();
        for (range, activity) in self.shown.chart.tasks[task.index()].spans() {
            let class = Class::Kind(Kind::of(activity));
            let from = (range.start - whole.start) as f64 / per;
            let to = (range.end - whole.start) as f64 / per;
            bars.add(class, from, to);
            let label = match activity {
                Activity::Running { cpu } => format!("CPU {cpu}"),
                other => Kind::of(other).label().to_owned(),
            };
            bars.label(class, from, to, label);
        }
        bars
    }

    fn cpu(&self, cpu: usize) -> Bars {
        let mut bars = Bars::new(self.plot);
        let whole = self.whole();
        let per = self.per_pixel();
        let at = |time: u64| (time - whole.start) as f64 / per;
        let mut rank_of = vec![PROCESSES; self.shown.tasks.len()];
        for (rank, process) in self.shown.processes.iter().take(PROCESSES).enumerate() {
            process.tasks.iter().for_each(|task| rank_of[task.index()] = rank);
        }
        let timeline = &self.shown.chart.cpus[cpu];
        for (range, task) in timeline.runs(whole.end) {
            let class = match task {
                Some(TaskId::IDLE) => continue,
                Some(task) => Class::Process(rank_of[task.index()]),
                None => Class::Kind(Kind::Unknown),
            };
            let (from, to) = (at(range.start), at(range.end));
            bars.add(class, from, to);
            if let Some(task) = task {
                let name = one_line(&self.shown.tasks.get(task).name).into_owned();
                bars.label(class, from, to, name);
            }
        }
        for span in &timeline.idle {
            bars.add(Class::Idle(span.state.min(DEPTHS as u32 - 1)), at(span.start), at(span.end));
        }
        bars
    }

    /// Bars of a process: how many of its threads were running and runnable, relative to the number of threads or
    /// CPUs, whichever is smaller.
    fn process(&self, process: usize) -> Bars {
        let process = &self.shown.processes[process];
        let most = process.tasks.len().min(self.shown.cpus().count()).max(1) as f64;
        let mut bars = Bars { scale: 1.0 / most, ..Bars::new(self.plot) };
        let (whole, per) = (self.whole(), self.per_pixel());
        for task in &process.tasks {
            for (range, activity) in self.shown.chart.tasks[task.index()].spans() {
                let kind = Kind::of(activity);
                if matches!(kind, Kind::Running | Kind::Ready) {
                    let from = (range.start - whole.start) as f64 / per;
                    bars.add(Class::Kind(kind), from, (range.end - whole.start) as f64 / per);
                }
            }
        }
        bars
    }

    fn per_pixel(&self) -> f64 {
        (self.whole().end - self.whole().start).max(1) as f64 / self.plot.max(1) as f64
    }

    fn bars(&self, out: &mut String, bars: &Bars, y: f64) {
        for (class, path) in bars.paths() {
            tag(out, "path")
                .attr("class", class.name(false))
                .attr("fill", class.colours().0)
                .attr("transform", format_args!("translate({} {y})", self.left))
                .attr("d", path)
                .close();
            out.push('\n');
        }
        for label in &bars.labels {
            let room = label.to - label.from - 8.0;
            // Names of activities are shown whole or not at all, because the colour has the same meaning.
            let text = match label.class {
                Class::Process(_) => METRICS.fit(&label.text, room),
                _ => (METRICS.width(&label.text) <= room).then(|| label.text.clone()),
            };
            let Some(text) = text else { continue };
            tag(out, "text")
                .attr("class", label.class.name(true))
                .attr("fill", label.class.colours().0.ink())
                .attr_if("opacity", label.class.is_quiet().then_some(".62"))
                .pixels("x", self.left + label.from + 4.0)
                .pixels("y", y + 12.5)
                .text(&text)
                .push('\n');
        }
    }

    /// Writes the legend, and what is not drawn. Returns the bottom of the picture.
    fn foot(&self, out: &mut String, top: f64) -> f64 {
        let room = self.width - MARGIN;
        let (mut x, mut y) = (MARGIN, top + 12.0);
        tag(out, "g").attr("class", "foot").open_line();
        let mut entries: Vec<(Class, String)> = kinds_in(self.shown.chart)
            .into_iter()
            .map(|kind| (Class::Kind(kind), kind.label().to_owned()))
            .collect();
        let states = self.shown.chart.cpus.iter().flat_map(|cpu| &cpu.idle).map(|idle| idle.state);
        if let Some(deepest) = states.max() {
            let states = 0..=deepest.min(DEPTHS as u32 - 1);
            entries.extend(states.map(|state| (Class::Idle(state), format!("idle state {state}"))));
        }
        for (class, label) in entries {
            let width = 17.0 + METRICS.width(&label) + 13.0;
            if x > MARGIN && x + width > room {
                (x, y) = (MARGIN, y + LINE);
            }
            tag(out, "rect")
                .attr("class", class.name(false))
                .attr("fill", class.colours().0)
                .pixels("x", x)
                .pixels("y", y - 10.0)
                .attr("width", 12)
                .attr("height", 12)
                .attr("rx", 2)
                .close();
            muted(out, x + 17.0, y, None, &label);
            x += width;
        }
        for line in wrap(&self.notice(), room - MARGIN) {
            y += LINE;
            muted(out, MARGIN, y, None, line);
        }
        end(out, "g");
        y + 12.0
    }

    fn notice(&self) -> String {
        let mut text = "CPUs have the colours of processes. A pixel that holds several spans is shared out by time, from \
                        the bottom up."
            .to_owned();
        let (threads, processes, running) = self.left_out;
        if threads > 0 {
            let all: u64 = self.shown.processes.iter().map(|process| process.running).sum();
            let es = if processes == 1 { "" } else { "es" };
            text.push_str(&format!(
                " Not drawn: {} of {processes} process{es}, which ran for {} of all that ran.",
                counted(threads, "thread"),
                percent(running, all)
            ));
        }
        text
    }
}

/// Rows, and the numbers of threads and processes without a row and their running time.
fn rows(shown: &Shown<'_>, most: usize) -> (Vec<Row>, (u64, u64, u64)) {
    let mut rows = vec![Row::Heading("CPUs")];
    rows.extend(shown.cpus().map(Row::Cpu));
    rows.push(Row::Heading("Processes and threads"));
    let mut threads = 0;
    let mut left_out = (0, 0, 0);
    for (index, process) in shown.processes.iter().enumerate() {
        let several = process.tasks.len() > 1;
        if several && threads < most {
            rows.push(Row::Process(index));
        }
        let room = most - threads;
        let kept = process.tasks.len().min(room);
        rows.extend(process.tasks[..kept].iter().map(|task| Row::Thread(*task, several)));
        threads += kept;
        if kept < process.tasks.len() {
            let whole = shown.chart.start..shown.chart.end;
            let running =
                |task: &TaskId| shown.chart.tasks[task.index()].times(whole.clone()).running;
            left_out.0 += (process.tasks.len() - kept) as u64;
            left_out.1 += 1;
            left_out.2 += process.tasks[kept..].iter().map(running).sum::<u64>();
        }
    }
    (rows, left_out)
}

fn numbered(name: &str, id: i32) -> String {
    let name = one_line(name);
    if id < 0 { name.into_owned() } else { format!("{name} {id}") }
}

fn time(nanoseconds: u64) -> String {
    let value = nanoseconds as f64;
    Scale::time().text(value, value, value / 100.0)
}

fn details(shown: &Shown<'_>, task: TaskId, times: &ActivityTimes) -> String {
    let mut by_kind = [0; Kind::ALL.len()];
    for (range, activity) in shown.chart.tasks[task.index()].spans() {
        by_kind[Kind::of(activity) as usize] += range.end - range.start;
    }
    let lines = Kind::ALL.into_iter().filter(|kind| by_kind[*kind as usize] > 0).map(|kind| {
        let of = by_kind[kind as usize];
        format!("{}: {}, {}", kind.label(), time(of), percent(of, times.total()))
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn muted(out: &mut String, x: f64, y: f64, anchor: Option<&str>, text: &str) {
    tag(out, "text")
        .attr("class", "muted")
        .attr("fill", MUTED.0)
        .pixels("x", x)
        .pixels("y", y)
        .attr_if("text-anchor", anchor)
        .text(text)
        .push('\n');
}

/// Splits text into lines that fit.
fn wrap(text: &str, room: f64) -> Vec<&str> {
    crate::svg::wrap(METRICS, text, room)
}
