//! Reader of the output of valgrind's massif: heap memory by the stacks that allocated it.
//!
//! ```text
//! desc: --massif-out-file=m.massif
//! cmd: ./app
//! time_unit: i
//! #-----------
//! snapshot=20
//! heap_tree=peak
//! n2: 60000 (heap allocation functions) malloc/new/new[], --alloc-fns, etc.
//!  n1: 50000 0x10919F: small (m.c:4)
//!   n0: 50000 0x10919F: large (m.c:5)
//!  n0: 10000 in 1 place, below massif's threshold (1.00%)
//! ```
//!
//! The snapshot at the peak is read, or else the last one with stacks. Each level of indentation is a caller; the
//! value of a line includes all of its callers.

use pyrograph_profile::{FrameKind, ThreadId, ValueType};

use super::text::{Collector, Lines};
use crate::input::Head;
use crate::reader::{Options, ReadError, Reader, Reading};
use crate::warnings::WarningKind;

/// Reader of massif output.
pub struct Massif;

impl Reader for Massif {
    fn name(&self) -> &'static str {
        "massif"
    }

    fn written_by(&self) -> &'static str {
        "valgrind --tool=massif"
    }

    fn detect(&self, head: &[u8]) -> bool {
        let has = |text: &str| memchr::memmem::find(head, text.as_bytes()).is_some();
        head.starts_with(b"desc: ") && has("\ncmd: ") && has("\ntime_unit: ") && has("\nsnapshot=")
    }

    fn read(&self, input: Head, _options: &Options) -> Result<Reading, ReadError> {
        let name = input.name().to_owned();
        let mut lines = Lines::new(input);
        // The best tree so far: depth, bytes and place of each line.
        let mut tree: Vec<(usize, u64, String)> = Vec::new();
        let (mut is_peak, mut takes) = (false, false);
        let mut line = String::new();
        while lines.next(&mut line) {
            match line.strip_prefix("heap_tree=") {
                Some(sort) => {
                    takes = sort == "peak" || (sort == "detailed" && !is_peak);
                    is_peak |= sort == "peak";
                    if takes {
                        tree.clear();
                    }
                }
                None if takes && line.trim_start().starts_with('n') => match node(&line) {
                    Some(node) => tree.push(node),
                    None => lines.warn(WarningKind::UnreadableLine),
                },
                None => {}
            }
        }
        if tree.is_empty() {
            let reason = "no snapshot of it has stacks".to_owned();
            return Err(ReadError::Nothing { name, reason });
        }
        let mut out = Collector::new(ValueType::new("heap", "bytes"));
        build(&tree, &mut out);
        Ok(out.reading(lines.warnings))
    }
}

/// Parses `  n1: 50000 0x10919F: small (m.c:4)`.
fn node(line: &str) -> Option<(usize, u64, String)> {
    let text = line.trim_start_matches(' ');
    let (_, rest) = text.strip_prefix('n')?.split_once(": ")?;
    let (bytes, place) = rest.split_once(' ').unwrap_or((rest, ""));
    Some((line.len() - text.len(), bytes.parse().ok()?, place.to_owned()))
}

fn build(tree: &[(usize, u64, String)], out: &mut Collector) {
    // The path from the allocation to the caller in the current line, with the remaining bytes of each.
    let mut path: Vec<(usize, u64)> = Vec::new();
    let end = |path: &mut Vec<(usize, u64)>, depth: usize, out: &mut Collector| {
        while path.len() > depth {
            let left = path.last().map_or(0, |&(_, left)| left);
            if left > 0 {
                for &(line, _) in &path[usize::from(path.len() > 1)..] {
                    frame(out, &tree[line].2);
                }
                out.end_leaf_first(ThreadId::UNKNOWN, left);
            }
            path.pop();
        }
    };
    for (line, &(depth, bytes, _)) in tree.iter().enumerate() {
        end(&mut path, depth, out);
        if let Some((_, left)) = path.last_mut() {
            *left = left.saturating_sub(bytes);
        }
        path.push((line, bytes));
    }
    end(&mut path, 0, out);
}

/// Adds the frame `0x10919F: small (m.c:4)`, or a remark for massif's own texts.
fn frame(out: &mut Collector, place: &str) {
    if place.contains("massif's threshold") {
        return out.remark("[below massif's threshold]");
    }
    if place.starts_with('(') {
        return out.remark("[heap]");
    }
    valgrind_frame(out, place);
}

/// Adds a frame in valgrind's form: `0x10919F: small (m.c:4)`, `0x4A: f (in /lib/x.so)`, `0x4A: ???`.
pub(crate) fn valgrind_frame(out: &mut Collector, place: &str) {
    let text = place.split_once(": ").filter(|(address, _)| address.starts_with("0x"));
    let text = text.map_or(place, |(_, text)| text);
    let (function, at) = match text.strip_suffix(')').and_then(|text| text.rsplit_once(" (")) {
        Some((function, at)) => (function, at),
        None => (text, ""),
    };
    let (module, file, line) = match (at.strip_prefix("in "), at.rsplit_once(':')) {
        (Some(module), _) => (module, "", 0),
        (None, Some((file, line))) => ("", file, line.parse().unwrap_or(0)),
        (None, None) => ("", "", 0),
    };
    let function = if function == "???" { "" } else { function };
    out.symbol_at(function, module, FrameKind::User, (file, line));
}
