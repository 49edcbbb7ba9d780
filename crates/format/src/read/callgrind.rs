//! Reader of the callgrind format, written by valgrind's `callgrind`, Xdebug and other tools.
//!
//! ```text
//! # callgrind format
//! events: Ir Dr
//! ob=(1) /bin/app
//! fl=(2) main.c
//! fn=(3) main
//! 5 20 7                  line 5: 20 of Ir, 7 of Dr
//! +2 4                    line 7: 4 of Ir, none of Dr
//! cfn=(4) work
//! calls=2 10              main calls work, which begins at line 10, twice
//! * 700 60                from line 7; with all that work does
//! ```
//!
//! Source: "Callgrind Format Specification" in valgrind's manual.
//!
//! The format has **no stacks**: it has the self cost of each function, and for each call the cost of the callee
//! including everything it calls. Stacks are [estimated](super::call_graph) from that.
//!
//! - Names may be written once, as `(7) name`, and then as `(7)`; files, objects and functions are numbered
//!   separately.
//! - Inlined code is listed in its caller, after `fi=` and `fe=`; its cost belongs to that function.
//! - Functions are identified by object and name, because the file that a call names may differ from the file of the
//!   function itself.
//! - Costs may be written like positions: `+3`, `-3` and `*` are relative to the cost of the same event in the line
//!   before.
//! - Positions (lines, addresses) are dropped: a line's cost is added to its function.
//! - A recursive function is written as two, `fib` and `fib'2`: both are shown as `fib`.
//! - A file may have several parts, for example one per thread: they are summed.

use hashbrown::HashMap;
use pyrograph_profile::{Frame, FrameId, Profile, StringId, ValueType};

use super::call_graph::{self, Node, add};
use super::rows::Rows;
use super::text::Lines;
use crate::input::Head;
use crate::names::module_kind;
use crate::reader::{Options, ReadError, Reader, Reading};
use crate::warnings::{WarningKind, Warnings};

/// Reader of callgrind files.
pub struct Callgrind;

impl Reader for Callgrind {
    fn name(&self) -> &'static str {
        "callgrind"
    }

    fn written_by(&self) -> &'static str {
        "valgrind --tool=callgrind, Xdebug; pyrograph convert"
    }

    fn detect(&self, head: &[u8]) -> bool {
        if memchr::memchr(0, head).is_some() {
            return false;
        }
        let lines = || head.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii).take(1000);
        // A part of a recording may have no functions.
        let says_so = [&b"# callgrind format"[..], b"creator: callgrind"];
        if lines().take(10).any(|line| says_so.iter().any(|with| line.starts_with(with))) {
            return true;
        }
        let mut lines = lines();
        lines.any(|line| line.starts_with(b"events:")) && lines.any(|line| line.starts_with(b"fn="))
    }

    fn read(&self, input: Head, options: &Options) -> Result<Reading, ReadError> {
        let name = input.name().to_owned();
        let mut lines = Lines::new(input);
        let mut parser = Parser::default();
        let mut line = String::new();
        while lines.next(&mut line) {
            if !parser.line(&line) {
                lines.warn(WarningKind::UnreadableLine);
            }
        }
        if parser.events.is_empty() || parser.functions.is_empty() {
            let reason = "there are no costs of functions in it".to_owned();
            return Err(ReadError::Nothing { name, reason });
        }
        Ok(parser.build(options, lines.warnings))
    }
}

/// Numbered names of one kind.
#[derive(Default)]
struct Names {
    by_number: HashMap<u64, String>,
}

impl Names {
    /// Resolves `name`, `(7) name`, or `(7)` to the name; `None` if the number is undefined.
    fn get(&mut self, text: &str) -> Option<String> {
        let Some((number, name)) = text.strip_prefix('(').and_then(|rest| rest.split_once(')'))
        else {
            return Some(text.to_owned());
        };
        // A name may begin with a bracket.
        let Ok(number) = number.parse() else { return Some(text.to_owned()) };
        match name.trim_start() {
            "" => self.by_number.get(&number).cloned(),
            name => {
                self.by_number.insert(number, name.to_owned());
                Some(name.to_owned())
            }
        }
    }
}

/// Object, file and name of a function.
struct Function {
    object: String,
    file: String,
    name: String,
}

#[derive(Default)]
struct Parser {
    events: Vec<String>,
    /// The costs in the previous cost line.
    last: Vec<u64>,
    /// Number of columns at the start of a line that are its position.
    positions: usize,
    objects: Names,
    files: Names,
    names: Names,
    object: String,
    file: String,
    /// The callee of the next call.
    called_object: Option<String>,
    called_file: Option<String>,
    called: Option<String>,
    /// True if the next cost line is the cost of a call.
    after_calls: bool,
    current: Option<usize>,
    functions: Vec<Function>,
    /// Self costs and callers of each function.
    nodes: Vec<Node>,
    index: HashMap<(String, String), usize>,
    calls: HashMap<(usize, usize), usize>,
}

impl Parser {
    /// Parses a line; returns `false` if it is not recognized.
    fn line(&mut self, line: &str) -> bool {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            return true;
        }
        if line.starts_with(|c: char| c.is_ascii_digit() || "+-*".contains(c)) {
            return self.costs(line);
        }
        let end = line.find(['=', ':']).unwrap_or(line.len());
        let (key, rest) = line.split_at(end);
        let value = rest.get(1..).unwrap_or_default().trim();
        match (key.trim(), rest.starts_with('=')) {
            ("events", false) => {
                // Each part of a file repeats the header.
                if self.events.is_empty() {
                    self.events = value.split_whitespace().map(str::to_owned).collect();
                }
                true
            }
            ("positions", false) => {
                self.positions = value.split_whitespace().count();
                true
            }
            (_, false) => rest.starts_with(':'),
            (key, true) => self.specification(key, value),
        }
    }

    fn specification(&mut self, key: &str, value: &str) -> bool {
        let names = match key {
            "ob" | "cob" => &mut self.objects,
            "fl" | "fi" | "fe" | "cfi" | "cfl" | "jfi" => &mut self.files,
            "fn" | "cfn" | "jfn" => &mut self.names,
            "calls" => {
                self.after_calls = self.called.is_some();
                return self.after_calls;
            }
            // Jumps within a function.
            "jump" | "jcnd" => return true,
            _ => return false,
        };
        let Some(name) = names.get(value) else { return false };
        match key {
            "ob" => self.object = name,
            "fl" | "fi" | "fe" => self.file = name,
            "fn" => {
                let (object, file) = (self.object.clone(), self.file.clone());
                self.current = Some(self.function(object, file, name));
            }
            "cob" => self.called_object = Some(name),
            "cfi" | "cfl" => self.called_file = Some(name),
            "cfn" => self.called = Some(name),
            _ => {}
        }
        true
    }

    /// Returns the row of a function, adding it if it is new.
    fn function(&mut self, object: String, file: String, name: String) -> usize {
        let events = self.events.len();
        let row = self.functions.len();
        let known = *self.index.entry((object.clone(), name.clone())).or_insert(row);
        if known == row {
            self.functions.push(Function { object, file, name });
            self.nodes.push(Node { own: vec![0; events], callers: Vec::new() });
        }
        known
    }

    fn costs(&mut self, line: &str) -> bool {
        let positions = self.positions.max(1);
        let mut words = line.split_whitespace();
        if words.by_ref().take(positions).count() < positions {
            return false;
        }
        let mut costs = vec![0u64; self.events.len()];
        self.last.resize(costs.len(), 0);
        for ((cost, last), word) in costs.iter_mut().zip(&mut self.last).zip(words) {
            let Some(number) = relative(word, *last) else { return false };
            (*cost, *last) = (number, number);
        }
        let Some(current) = self.current else { return false };
        if !std::mem::take(&mut self.after_calls) {
            add(&mut self.nodes[current].own, &costs);
            return true;
        }
        let Some(name) = self.called.take() else { return false };
        let object = self.called_object.take().unwrap_or_else(|| self.object.clone());
        let file = self.called_file.take().unwrap_or_else(|| self.file.clone());
        let callee = self.function(object, file, name);
        if callee == current {
            // The cost of recursive calls is included in that of the call from outside.
            return true;
        }
        let callers = &mut self.nodes[callee].callers;
        let at = *self.calls.entry((current, callee)).or_insert_with(|| {
            callers.push((current, vec![0; costs.len()]));
            callers.len() - 1
        });
        add(&mut callers[at].1, &costs);
        true
    }

    fn build(self, options: &Options, mut warnings: Warnings) -> Reading {
        let types = self.events.iter().map(|event| ValueType::new(event, "count")).collect();
        let mut profile = Profile::new(types);
        let frames: Vec<FrameId> =
            self.functions.iter().map(|function| frame(&mut profile, function)).collect();
        let mut rows = Rows::new(options, self.events.len());
        let cut = call_graph::put_together(&self.nodes, &frames, &mut profile, &mut rows);
        rows.finish(&mut profile);
        call_graph::say(&mut warnings, "callgrind", cut);
        Reading::new(profile, warnings)
    }
}

/// Parses a cost: a number, or the difference from the previous one. `None` if it is invalid or negative.
fn relative(word: &str, last: u64) -> Option<u64> {
    match word.as_bytes().first()? {
        b'*' => (word.len() == 1).then_some(last),
        b'+' => last.checked_add(number(&word[1..])?),
        b'-' => last.checked_sub(number(&word[1..])?),
        _ => number(word),
    }
}

/// Parses a decimal number, or a hexadecimal one with `0x`.
fn number(word: &str) -> Option<u64> {
    match word.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => word.parse().ok(),
    }
}

/// Removes the recursion level from a function's name: `fib'2`.
fn without_level(name: &str) -> &str {
    match name.rsplit_once('\'') {
        Some((name, level)) if !name.is_empty() && level.parse::<u32>().is_ok() => name,
        _ => name,
    }
}

fn frame(profile: &mut Profile, function: &Function) -> FrameId {
    let known = |text: &str| if text == "???" { String::new() } else { text.to_owned() };
    let mut intern = |text: &str| -> StringId { profile.strings.intern(&known(text)) };
    let (module, file) = (intern(&function.object), intern(&function.file));
    let name = intern(without_level(&function.name));
    let kind = module_kind(&function.object);
    profile.frames.intern(Frame { module, file, ..Frame::named(name, kind) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Input, write_folded};
    use pyrograph_profile::{LabelOptions, Tree};

    /// Such parts were taken for folded text of one frame.
    #[test]
    fn a_part_without_functions_says_so() {
        let text =
            "version: 1\ncreator: callgrind-3.19.0\npid: 7\nevents: Ir\nsummary: 0\n\ntotals: 0\n";
        let input = Input::bytes("x", text).begin().expect("bytes");
        assert!(Callgrind.detect(input.bytes()));
        let error = Callgrind.read(input, &Options::default()).expect_err("nothing");
        assert!(error.to_string().contains("no costs of functions"), "{error}");
    }

    fn check(text: &str, expect: &str) {
        let input = Input::bytes("x", text).begin().expect("bytes");
        assert!(Callgrind.detect(input.bytes()));
        let reading = Callgrind.read(input, &Options::default()).expect("a profile");
        assert!(!reading.warnings.any_loss(), "{:?}", reading.warnings);
        let mut folded = Vec::new();
        write_folded(&Tree::new(&reading.profile, &LabelOptions::default()), &mut folded)
            .expect("writing to memory");
        assert_eq!(String::from_utf8_lossy(&folded), expect);
    }

    #[test]
    fn costs_are_shared_out_as_the_calls_are() {
        check(
            "events: Ir Dr\nfl=(1) a.c\nfn=(1) main\n1 10 1\n\
             cfn=(2) a\ncalls=1 5\n+1 30 0\ncfn=(3) b\ncalls=1 9\n* 60 3\n\
             fn=(2)\n5 10 0\ncfn=(4) c\ncalls=1 1\n+1 20\n\
             fn=(3)\n9 20 3\ncfn=(4)\ncalls=2 1\n+3 40\n\
             fn=(4)\n1 60\n",
            "main 10 1\nmain;a 10 0\nmain;a;c 20 0\nmain;b 20 3\nmain;b;c 40 0\n",
        );
    }

    #[test]
    fn recursion_is_in_a_stack_once_and_loses_nothing() {
        check(
            "events: Ir\nfn=main\n1 5\ncfn=f\ncalls=1 0\n1 95\n\
             fn=f\n1 40\ncfn=f\ncalls=9 0\n1 900\ncfn=g\ncalls=3 0\n1 300\n\
             fn=g\n1 55\ncfn=f\ncalls=3 0\n1 200\n",
            "main 5\nmain;f 40\nmain;f;g 55\n",
        );
    }

    #[test]
    fn a_function_that_is_also_entered_from_outside_is_a_root_as_well() {
        check(
            "events: Ir\nfn=main\n1 1\ncfn=f\ncalls=1 0\n1 25\nfn=f\n1 100\n",
            "f 75\nmain 1\nmain;f 25\n",
        );
    }

    #[test]
    fn circles_are_entered_where_they_are_entered() {
        // main → a → b → c → a, and d → b.
        check(
            "events: Ir\nfn=main\n1 0\ncfn=a\ncalls=1 0\n1 60\ncfn=d\ncalls=1 0\n1 20\n\
             fn=a\n1 8\ncfn=b\ncalls=1 0\n1 500\nfn=b\n1 32\ncfn=c\ncalls=1 0\n1 400\n\
             fn=c\n1 40\ncfn=a\ncalls=1 0\n1 300\nfn=d\n1 0\ncfn=b\ncalls=1 0\n1 20\n",
            "main;a 6\nmain;a;b 24\nmain;a;b;c 30\nmain;d;b 8\nmain;d;b;c 10\nmain;d;b;c;a 2\n",
        );
    }

    #[test]
    fn more_ways_than_can_be_followed() {
        // Twice as many ways with each level.
        let mut text = "events: Ir\nfn=f0\n1 0\n".to_owned();
        for level in 0..60 {
            for way in ["a", "b"] {
                text.push_str(&format!("cfn=f{level}{way}\ncalls=1 0\n1 1000000000\n"));
            }
            let next = level + 1;
            for way in ["a", "b"] {
                text.push_str(&format!(
                    "fn=f{level}{way}\n1 0\ncfn=f{next}\ncalls=1 0\n1 1000000000\n"
                ));
            }
            text.push_str(&format!(
                "fn=f{next}\n1 {}\n",
                if next == 60 { 2_000_000_000 } else { 0 }
            ));
        }
        let input = Input::bytes("x", text).begin().expect("bytes");
        let reading = Callgrind.read(input, &Options::default()).expect("a profile");
        assert_eq!(reading.profile.samples.total(0), 2_000_000_000);
        // Those of a millionth each were not split further.
        assert!(reading.profile.samples.len() < 4_000_000);
    }

    #[test]
    fn relative_costs_were_skipped() {
        check(
            "events: Ir Dr\nfn=main\n1 20 3\ncfn=a\ncalls=1 5\n* 50 *\ncfn=b\ncalls=1 9\n* * +4\n\
             jcnd=3/4 +2\n*\nfn=a\n+4 * -4\nfn=b\n+4 * +0x4\n",
            "main 20 3\nmain;a 50 3\nmain;b 50 7\n",
        );
        // None is below 0, and none is guessed.
        for line in ["1 -21", "1 -", "1 **", "1 +x"] {
            let mut parser = Parser::default();
            assert!(parser.line("events: Ir") && parser.line("fn=f") && parser.line("1 20"));
            assert!(!parser.line(line), "{line}");
        }
    }

    #[test]
    fn names_and_positions_of_all_sorts() {
        check(
            "# callgrind format\nversion: 1\npositions: instr line\nevents: Ir\nsummary: 13\n\n\
             ob=(1) /bin/a\nfl=(1) a.c\nfn=(1) main\n0x401000 5 4\n+3 +1 4\nfi=(2) inlined.h\n* 7 1\nfe=(1)\n\
             jump=1 0x40 5\n\
             cob=(2) /lib/b.so\ncfi=(3) b.c\ncfn=(2) (anonymous namespace)::f\ncalls=1 0x5000 1\n+3 * 4\n\
             ob=(2)\nfl=(3)\nfn=(2)\n0x5000 1 0x4\n",
            "main 9\nmain;(anonymous namespace)::f 4\n",
        );
    }
}
