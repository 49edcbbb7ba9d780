//! Writer for callgrind's profile format, which KCachegrind and `callgrind_annotate` read.
//! [`read::callgrind`](crate::read) describes it.
//!
//! The format has no stacks: it holds the self cost of each function by line, and the inclusive cost of each call of one
//! function by another. A sample counts once for each distinct call (caller, line, callee) in its stack, so that a
//! recursive function does not cost more than the total. A sampling profiler does not know call counts: they are
//! replaced by the number of distinct stacks that contain the call.

use std::io::{self, Write};

use hashbrown::{HashMap, HashSet};
use pyrograph_profile::{LabelOptions, Labels, Profile, StackId, StringId};

use crate::capabilities::Capabilities;
use crate::writer::{WriteOptions, Writer};

/// Writer for callgrind's profile format.
pub(super) struct Callgrind;

impl Writer for Callgrind {
    fn name(&self) -> &'static str {
        "callgrind"
    }

    fn endings(&self) -> &'static [&'static str] {
        &["callgrind"]
    }

    fn opened_by(&self) -> &'static str {
        "kcachegrind, qcachegrind, callgrind_annotate"
    }

    fn also_called(&self) -> &'static [&'static str] {
        &["kcachegrind"]
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            stacks: false,
            columns: true,
            modules: true,
            files: true,
            lines: true,
            ..Capabilities::NAMES
        }
    }

    fn write(
        &self,
        profile: &Profile,
        options: &WriteOptions,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let graph = Graph::new(profile);
        writeln!(
            out,
            "# callgrind format\nversion: 1\ncreator: pyrograph {}\ncmd: {}\npositions: line",
            env!("CARGO_PKG_VERSION"),
            one_line(&options.title)
        )?;
        let names: Vec<String> = profile.value_types.iter().map(|of| event(&of.name)).collect();
        for (name, of) in names.iter().zip(&profile.value_types) {
            writeln!(out, "event: {name} : {} ({})", one_line(&of.name), one_line(&of.unit))?;
        }
        writeln!(out, "events: {}", names.join(" "))?;
        write!(out, "summary:")?;
        for column in 0..profile.value_types.len() {
            write!(out, " {}", profile.samples.total(column) / unit(profile, column))?;
        }
        writeln!(out)?;
        graph.write(profile, out)
    }
}

/// Name of an event as a single word, which the format requires.
fn event(name: &str) -> String {
    let word: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || "_-.".contains(c) { c } else { '_' })
        .collect();
    if word.is_empty() { "samples".to_owned() } else { word }
}

fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Divisor of values: the format has whole numbers only.
fn unit(profile: &Profile, column: usize) -> u64 {
    10u64.saturating_pow(profile.value_types[column].decimals.into())
}

/// A function: module, file and label.
type Function = (StringId, StringId, StringId);

type Fixed = foldhash::fast::FixedState;

/// Costs of a function.
#[derive(Default)]
struct Costs {
    /// Self cost by line.
    own: HashMap<u32, Vec<u64>, Fixed>,
    /// By line and callee: number of stacks and inclusive cost.
    calls: HashMap<(u32, usize), (u64, Vec<u64>), Fixed>,
}

/// The call graph.
struct Graph {
    labels: Labels,
    functions: Vec<(Function, Costs)>,
}

impl Graph {
    fn new(profile: &Profile) -> Self {
        let labels = Labels::new(profile, &LabelOptions::default());
        let mut graph = Self { labels, functions: Vec::new() };
        let mut index: HashMap<Function, usize, Fixed> = HashMap::default();
        let functions: Vec<usize> = profile
            .frames
            .iter()
            .enumerate()
            .map(|(at, frame)| {
                let function = (frame.module, frame.file, graph.labels.frames[at]);
                *index.entry(function).or_insert_with(|| {
                    graph.functions.push((function, Costs::default()));
                    graph.functions.len() - 1
                })
            })
            .collect();
        for (stack, values) in totals(profile) {
            graph.add(profile, &functions, stack, &values);
        }
        graph
    }

    fn add(&mut self, profile: &Profile, functions: &[usize], stack: StackId, values: &[u64]) {
        let mut seen = HashSet::new();
        let mut callee = None;
        for id in profile.stacks.leaf_first(stack) {
            let line = profile.frames.get(id).line;
            let function = functions[id.index()];
            let costs = &mut self.functions[function].1;
            let zeros = || vec![0; values.len()];
            match callee {
                None => add(costs.own.entry(line).or_insert_with(zeros), values),
                Some(callee) => {
                    if seen.insert((function, line, callee)) {
                        let call = costs.calls.entry((line, callee));
                        let (count, sums) = call.or_insert_with(|| (0, zeros()));
                        *count += 1;
                        add(sums, values);
                    }
                }
            }
            callee = Some(function);
        }
    }

    fn write(&self, profile: &Profile, out: &mut dyn Write) -> io::Result<()> {
        let (mut objects, mut files, mut functions) =
            (Names::default(), Names::default(), Names::default());
        let strings = &profile.strings;
        let mut name = |out: &mut dyn Write, keys: [&str; 3], of: Function| {
            let (module, file, function) = of;
            objects.write(out, keys[0], module, strings.get(module))?;
            files.write(out, keys[1], file, strings.get(file))?;
            functions.write(out, keys[2], function, self.labels.names.get(function))
        };
        for (function, costs) in &self.functions {
            if costs.own.is_empty() && costs.calls.is_empty() {
                continue;
            }
            writeln!(out)?;
            name(out, ["ob", "fl", "fn"], *function)?;
            let mut lines: Vec<_> = costs.own.iter().collect();
            lines.sort_unstable_by_key(|(line, _)| **line);
            for (line, values) in lines {
                cost(out, profile, *line, values)?;
            }
            let mut calls: Vec<_> = costs.calls.iter().collect();
            calls.sort_unstable_by_key(|(key, _)| **key);
            for ((line, callee), (count, values)) in calls {
                name(out, ["cob", "cfi", "cfn"], self.functions[*callee].0)?;
                writeln!(out, "calls={count} 0")?;
                cost(out, profile, *line, values)?;
            }
        }
        Ok(())
    }
}

fn add(sums: &mut [u64], values: &[u64]) {
    for (sum, value) in sums.iter_mut().zip(values) {
        *sum = sum.saturating_add(*value);
    }
}

/// Total values of each stack, in the order of first occurrence.
fn totals(profile: &Profile) -> Vec<(StackId, Vec<u64>)> {
    let columns = profile.value_types.len();
    let mut index: HashMap<StackId, usize, Fixed> = HashMap::default();
    let mut totals: Vec<(StackId, Vec<u64>)> = Vec::new();
    for (row, sample) in profile.samples.iter().enumerate() {
        let at = *index.entry(sample.stack).or_insert_with(|| {
            totals.push((sample.stack, vec![0; columns]));
            totals.len() - 1
        });
        for (column, sum) in totals[at].1.iter_mut().enumerate() {
            *sum = sum.saturating_add(profile.samples.values(column)[row]);
        }
    }
    totals
}

fn cost(out: &mut dyn Write, profile: &Profile, line: u32, values: &[u64]) -> io::Result<()> {
    write!(out, "{line}")?;
    for (column, value) in values.iter().enumerate() {
        write!(out, " {}", value / unit(profile, column))?;
    }
    writeln!(out)
}

/// Writes names compressed: the first time with a number, then the number only.
#[derive(Default)]
struct Names(HashMap<StringId, usize, Fixed>);

impl Names {
    fn write(
        &mut self,
        out: &mut dyn Write,
        key: &str,
        id: StringId,
        text: &str,
    ) -> io::Result<()> {
        let next = self.0.len() + 1;
        match self.0.get(&id) {
            Some(number) => writeln!(out, "{key}=({number})"),
            None => {
                self.0.insert(id, next);
                // As callgrind itself writes unknown names.
                let text = if text.is_empty() { "???" } else { text };
                writeln!(out, "{key}=({next}) {}", one_line(text))
            }
        }
    }
}
