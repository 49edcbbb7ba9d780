//! oprofile's call graphs: `opreport -c`.
//!
//! ```text
//! CPU: AMD64 processors, speed 2800 MHz (estimated)
//! Counted CPU_CLK_UNHALTED events (Cycles outside of halt state) with a unit mask of 0x00 count 100000
//! samples  %        image name               symbol name
//! -------------------------------------------------------------------------------
//!   300      75.0000  app                      main
//!   100      25.0000  app                      run
//! 250      62.5000  app                      work
//!   250      83.3333  app                      work [self]
//!   50       16.6667  libc-2.31.so             memcpy
//! -------------------------------------------------------------------------------
//! ```
//!
//! Source: "Callgraph" in oprofile's manual. The line that is not indented is a function with its own samples, those above
//! it its callers, those below it its callees, each with the samples that the call and all below it took.
//!
//! The format has **no stacks**: they are [put together](super::call_graph) as those of callgrind. A line may have columns of
//! more than one event or image: those of numbers before the names are counted two by two, and the first is read.

use hashbrown::HashMap;
use pyrograph_profile::{Frame, FrameId, FrameKind, Profile, ValueType};

use super::call_graph::{self, Node, add};
use super::rows::Rows;
use super::text::{Lines, first_lines};
use crate::input::Head;
use crate::names::{module_kind, tidy_name};
use crate::reader::{Options, ReadError, Reader, Reading};
use crate::warnings::{WarningKind, Warnings};

/// See the module.
pub struct Oprofile;

impl Reader for Oprofile {
    fn name(&self) -> &'static str {
        "oprofile"
    }

    fn written_by(&self) -> &'static str {
        "opreport -c"
    }

    fn detect(&self, head: &[u8]) -> bool {
        let mut lines = first_lines(head).take(100).skip_while(|line| title(line).is_none());
        lines.next().is_some() && lines.next().is_some_and(is_rule)
    }

    fn read(&self, input: Head, options: &Options) -> Result<Reading, ReadError> {
        let name = input.name().to_owned();
        let mut lines = Lines::new(input);
        let mut graph = Graph::default();
        while lines.advance() {
            if !graph.line(lines.line()) {
                lines.warn(WarningKind::UnreadableLine);
            }
        }
        graph.end_block();
        if graph.nodes.is_empty() {
            let reason = "there is no function in this call graph of oprofile".to_owned();
            return Err(ReadError::Nothing { name, reason });
        }
        Ok(graph.build(options, lines.warnings))
    }
}

/// The place of the column of names in a line of titles.
fn title(line: &str) -> Option<Titles> {
    let is_title = line.starts_with("samples ") && line.contains(" symbol name");
    is_title.then(|| Titles { has_images: line.contains(" image name") })
}

fn is_rule(line: &str) -> bool {
    line.len() > 20 && line.bytes().all(|byte| byte == b'-')
}

#[derive(Clone, Copy)]
struct Titles {
    has_images: bool,
}

#[derive(Default)]
struct Graph {
    titles: Option<Titles>,
    /// The event that is counted.
    event: Option<String>,
    functions: Vec<(String, String)>,
    index: HashMap<(String, String), usize>,
    nodes: Vec<Node>,
    /// Callers of the present block, whose function comes after them.
    callers: Vec<(usize, u64)>,
    current: Option<usize>,
}

impl Graph {
    /// Takes a line; `false` if it is none.
    fn line(&mut self, line: &str) -> bool {
        if let Some(titles) = title(line) {
            self.titles = Some(titles);
            return true;
        }
        let Some(titles) = self.titles else {
            if let Some(event) =
                line.strip_prefix("Counted ").and_then(|rest| rest.split(' ').next())
            {
                self.event.get_or_insert_with(|| event.to_owned());
            }
            return true;
        };
        if line.trim().is_empty() {
            return true;
        }
        if is_rule(line) {
            self.end_block();
            return true;
        }
        let Some((samples, image, symbol)) = entry(line.trim(), titles) else { return false };
        if symbol.ends_with(" [self]") {
            return true;
        }
        let function = self.function(image, symbol);
        if !line.starts_with(' ') {
            self.current = Some(function);
            self.nodes[function].own[0] += samples;
        } else if self.current.is_none() {
            self.callers.push((function, samples));
        }
        // A callee says so of its caller in its own block.
        true
    }

    /// Gives the callers of a block to its function.
    fn end_block(&mut self) {
        let callers = std::mem::take(&mut self.callers);
        let Some(function) = self.current.take() else { return };
        for (caller, samples) in callers.into_iter().filter(|&(caller, _)| caller != function) {
            let known = &mut self.nodes[function].callers;
            match known.iter_mut().find(|(known, _)| *known == caller) {
                Some((_, sum)) => add(sum, &[samples]),
                None => known.push((caller, vec![samples])),
            }
        }
    }

    fn function(&mut self, image: &str, symbol: &str) -> usize {
        let row = self.functions.len();
        let key = (image.to_owned(), symbol.to_owned());
        let known = *self.index.entry(key.clone()).or_insert(row);
        if known == row {
            self.functions.push(key);
            self.nodes.push(Node { own: vec![0], callers: Vec::new() });
        }
        known
    }

    fn build(self, options: &Options, mut warnings: Warnings) -> Reading {
        let of = match &self.event {
            Some(event) => ValueType::new(event, "samples"),
            None => ValueType::samples(),
        };
        let mut profile = Profile::new(vec![of]);
        let frames: Vec<FrameId> =
            self.functions.iter().map(|function| frame(&mut profile, function)).collect();
        let mut rows = Rows::new(options, 1);
        let cut = call_graph::put_together(&self.nodes, &frames, &mut profile, &mut rows);
        rows.finish(&mut profile);
        call_graph::say(&mut warnings, "oprofile", cut);
        Reading::new(profile, warnings)
    }
}

/// Reads `250      62.5000  app                      work(int)`: samples, image, function.
fn entry(line: &str, titles: Titles) -> Option<(u64, &str, &str)> {
    let (samples, mut rest) = word(line);
    let samples = samples.parse().ok()?;
    let (share, after) = word(rest);
    // Of few samples, it is rounded as 1.0e-04.
    share.parse::<f64>().ok()?;
    rest = after;
    // Columns of other events.
    while let (count, after) = word(rest)
        && count.parse::<u64>().is_ok()
        && let (share, after) = word(after)
        && share.contains('.')
        && share.parse::<f64>().is_ok()
    {
        rest = after;
    }
    let (image, symbol) = if titles.has_images { word(rest) } else { ("", rest) };
    (!symbol.is_empty()).then_some((samples, image, symbol))
}

/// The first word, and what follows it without blanks.
fn word(text: &str) -> (&str, &str) {
    let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
    (word, rest.trim_start())
}

fn frame(profile: &mut Profile, (image, symbol): &(String, String)) -> FrameId {
    let symbol = if symbol == "(no symbols)" { "" } else { symbol };
    let kind = match image.as_str() {
        "vmlinux" | "no-vmlinux" => FrameKind::Kernel,
        image => module_kind(image),
    };
    let module = profile.strings.intern(image);
    let function = profile.strings.intern(&tidy_name(symbol));
    profile.frames.intern(Frame { module, ..Frame::named(function, kind) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries() {
        let images = Titles { has_images: true };
        let check = |line, expect| assert_eq!(entry(line, images), Some(expect), "{line}");
        check("250      62.5000  app                      work(int)", (250, "app", "work(int)"));
        check(
            "1  1.0e-04  libc.so.6  operator new(unsigned long)",
            (1, "libc.so.6", "operator new(unsigned long)"),
        );
        // Two events.
        check("250      62.5000  3  0.5  app  work", (250, "app", "work"));
        assert_eq!(entry("7  0.1  work", Titles { has_images: false }), Some((7, "", "work")));
        for line in ["", "250", "250 x app work", "-1 0.5 app work", "250 62.5 app"] {
            assert_eq!(entry(line, images), None, "{line}");
        }
    }
}
