//! Reader of oprofile's call graphs: `opreport -c`.
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
//! With `-g`, and with `-f` for libraries separated by program, there are more columns:
//!
//! ```text
//! samples  %        linenr info                 image name               app name                 symbol name
//! 103       0.8560  (no location information)   libexa.so                Xorg                     .plt
//! 2342      2.0587  exa.c:69                    libexa.so                Xorg                     exaGetPixmapOffset
//! ```
//!
//! Source: "Callgraph" in oprofile's manual. The line that is not indented is a function with its self samples. The
//! lines above it are its callers, those below it its callees, each with the samples of the call including callees.
//!
//! The format has **no stacks**: they are [estimated](super::call_graph) as for callgrind. A line may have columns of
//! several events: the first pair of numbers is read, further pairs are skipped. Columns may be wider
//! than their titles: they are separated by blanks, and only source positions and anonymous memory contain blanks.

use hashbrown::HashMap;
use pyrograph_profile::{Frame, FrameId, FrameKind, Profile, ValueType};

use super::call_graph::{self, Node, add};
use super::rows::Rows;
use super::text::{Lines, first_lines};
use crate::input::Head;
use crate::names::{module_kind, tidy_name};
use crate::reader::{Options, ReadError, Reader, Reading};
use crate::warnings::{WarningKind, Warnings};

/// Reader of oprofile call graphs.
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

/// Returns the columns of a line of titles; `None` for other lines.
fn title(line: &str) -> Option<Titles> {
    let is_title = line.starts_with("samples ") && line.contains(" symbol name");
    let has = |name: &str| line.contains(name);
    is_title.then(|| Titles {
        has_places: has(" linenr info"),
        has_images: has(" image name"),
        has_programs: has(" app name"),
    })
}

fn is_rule(line: &str) -> bool {
    line.len() > 20 && line.bytes().all(|byte| byte == b'-')
}

#[derive(Clone, Copy, Default)]
struct Titles {
    /// True if there is a column with source positions of functions.
    has_places: bool,
    has_images: bool,
    /// True if there is a column with the program that had loaded the image.
    has_programs: bool,
}

struct Function {
    image: String,
    symbol: String,
    file: String,
    line: u32,
}

/// The contents of a line.
#[derive(Debug, Default, PartialEq)]
struct Entry<'a> {
    samples: u64,
    /// `exa.c:69`; empty if unknown.
    place: &'a str,
    image: &'a str,
    symbol: &'a str,
}

#[derive(Default)]
struct Graph {
    titles: Option<Titles>,
    /// The event that is counted.
    event: Option<String>,
    functions: Vec<Function>,
    index: HashMap<(String, String), usize>,
    nodes: Vec<Node>,
    /// Callers in the current block; they precede their callee.
    callers: Vec<(usize, u64)>,
    current: Option<usize>,
}

impl Graph {
    /// Parses a line; returns `false` if it is not recognized.
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
        let Some(entry) = entry(line.trim(), titles) else { return false };
        if entry.symbol.ends_with(" [self]") {
            return true;
        }
        let (function, samples) = (self.function(&entry), entry.samples);
        if !line.starts_with(' ') {
            self.current = Some(function);
            self.nodes[function].own[0] += samples;
        } else if self.current.is_none() {
            self.callers.push((function, samples));
        }
        // Lines of callees are skipped: a callee's own block has the same numbers.
        true
    }

    /// Moves the callers of a block to its function.
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

    fn function(&mut self, entry: &Entry<'_>) -> usize {
        let row = self.functions.len();
        let (image, symbol) = (entry.image.to_owned(), entry.symbol.to_owned());
        let known = *self.index.entry((image.clone(), symbol.clone())).or_insert(row);
        if known == row {
            let (file, line) = entry.place.rsplit_once(':').unwrap_or((entry.place, ""));
            let (file, line) = (file.to_owned(), line.parse().unwrap_or(0));
            self.functions.push(Function { image, symbol, file, line });
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

/// Parses `250      62.5000  app                      work(int)`.
fn entry(line: &str, titles: Titles) -> Option<Entry<'_>> {
    let (samples, mut rest) = word(line);
    let samples = samples.parse().ok()?;
    let (share, after) = word(rest);
    // A small share may be printed as 1.0e-04.
    share.parse::<f64>().ok()?;
    rest = after;
    // Skip columns of other events.
    while let (count, after) = word(rest)
        && count.parse::<u64>().is_ok()
        && let (share, after) = word(after)
        && share.contains('.')
        && share.parse::<f64>().is_ok()
    {
        rest = after;
    }
    let mut place = "";
    if titles.has_places {
        (place, rest) = match rest.strip_prefix("(no location information)") {
            Some(after) => ("", after.trim_start()),
            None => word(rest),
        };
    }
    let (image, mut symbol) = if titles.has_images { image(rest) } else { ("", rest) };
    if titles.has_programs {
        (_, symbol) = self::image(symbol);
    }
    (!symbol.is_empty()).then_some(Entry { samples, place, image, symbol })
}

/// Splits off an image: `anon (tgid:3218 range:0xb7f3e000-0xb7f3f000)` is one.
fn image(text: &str) -> (&str, &str) {
    let (image, rest) = word(text);
    let end = rest.find(')').filter(|_| rest.starts_with("(tgid:") || rest.starts_with("(tgid "));
    match end {
        Some(end) => (image, rest[end + 1..].trim_start()),
        None => (image, rest),
    }
}

/// Splits off the first word; the rest has no leading blanks.
fn word(text: &str) -> (&str, &str) {
    let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
    (word, rest.trim_start())
}

fn frame(profile: &mut Profile, function: &Function) -> FrameId {
    let symbol = if function.symbol == "(no symbols)" { "" } else { &function.symbol };
    let image = function.image.as_str();
    let name = image.rsplit('/').next().unwrap_or(image);
    // The name may also be `vmlinux-debug-2.6.24-16-generic`.
    let kind = match name.starts_with("vmlinux") || name == "no-vmlinux" {
        true => FrameKind::Kernel,
        false => module_kind(image),
    };
    let mut intern = |text: &str| profile.strings.intern(text);
    let (module, file) = (intern(image), intern(&function.file));
    let name = intern(&tidy_name(symbol));
    let frame = Frame { module, file, start_line: function.line, ..Frame::named(name, kind) };
    profile.frames.intern(frame)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries() {
        let images = Titles { has_images: true, ..Titles::default() };
        let of = |samples, place, image, symbol| Some(Entry { samples, place, image, symbol });
        let check = |line, expect| assert_eq!(entry(line, images), expect, "{line}");
        check(
            "250      62.5000  app                      work(int)",
            of(250, "", "app", "work(int)"),
        );
        check(
            "1  1.0e-04  libc.so.6  operator new(unsigned long)",
            of(1, "", "libc.so.6", "operator new(unsigned long)"),
        );
        // Two events.
        check("250      62.5000  3  0.5  app  work", of(250, "", "app", "work"));
        assert_eq!(entry("7  0.1  work", Titles::default()), of(7, "", "", "work"));
        for line in ["", "250", "250 x app work", "-1 0.5 app work", "250 62.5 app"] {
            check(line, None);
        }
    }

    #[test]
    fn places_and_programs_were_taken_for_images() {
        let title = "samples  %        linenr info                 image name               app name                 symbol name";
        let titles = title_of(title);
        let check = |line, (place, image, symbol)| {
            assert_eq!(
                entry(line, titles),
                Some(Entry { samples: 1, place, image, symbol }),
                "{line}"
            );
        };
        check(
            "1  0.0211  /src/m_matrix.c:1447 /lib/i915.so /bin/glx copy",
            ("/src/m_matrix.c:1447", "/lib/i915.so", "copy"),
        );
        check(
            "1  0.0211  (no location information)   libexa.so   Xorg   .plt",
            ("", "libexa.so", ".plt"),
        );
        check(
            "1  0.0211  (no location information)  anon (tgid:32 range:0xb7f3e000-0xb7f3f000)  Xorg  (no symbols)",
            ("", "anon", "(no symbols)"),
        );
        let titles = title_of(
            "samples  %        linenr info                 image name               symbol name",
        );
        assert_eq!(
            entry("1  9.9e-04  dcache.c:874  vmlinux-2.6.24  shrink", titles).map(|of| of.image),
            Some("vmlinux-2.6.24")
        );
    }

    fn title_of(line: &str) -> Titles {
        title(line).expect("titles")
    }
}
