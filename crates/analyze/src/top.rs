//! Table of functions with their self and total values.

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use pyrograph_profile::{
    FrameId, FrameKind, LabelOptions, Labels, Marker, Profile, StackId, StringId,
};

/// A function: frames with the same label in the same module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopRow {
    /// Label of the function.
    pub name: String,
    /// Module that contains the code, as named by the source; empty if unknown.
    pub module: String,
    /// Kind of code.
    pub kind: FrameKind,
    /// Value of the samples that end in the function. Saturated sum.
    pub self_value: u64,
    /// Value of the samples whose stack contains the function. A stack that contains it several times counts once.
    /// Saturated sum.
    pub total: u64,
    /// Known source lines, highest self value first.
    pub lines: Vec<TopLine>,
    /// Number of lines left out by a view; [`top`] leaves out none.
    pub more_lines: usize,
}

/// A source line of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopLine {
    /// Source file.
    pub file: String,
    /// Line number, starting at 1; 0 if only the file is known.
    pub line: u32,
    /// Text of the line; empty unless it was looked up.
    pub text: String,
    /// Value of the samples that end in this line. Saturated sum.
    pub self_value: u64,
    /// Value of the samples whose stack contains the line; each stack counts once. Saturated sum.
    pub total: u64,
}

/// Returns all functions of a profile with their values in a column, sorted by self value, then by total, highest
/// first; equal values by name and module. Samples without a frame are in `[unknown]`.
///
/// # Panics
///
/// Panics if there is no such column.
pub fn top(profile: &Profile, labels: &LabelOptions, column: usize) -> Vec<TopRow> {
    let labels = Labels::new(profile, labels);
    let mut own = vec![0u64; profile.stacks.len()];
    for (sample, &value) in profile.samples.iter().zip(profile.samples.values(column)) {
        let sum = &mut own[sample.stack.index()];
        *sum = sum.saturating_add(value);
    }
    let functions = Places::new(profile, |id| {
        let frame = profile.frames.get(id);
        Some((labels.frames[id.index()], frame.module, StringId::EMPTY, 0))
    });
    let lines = Places::new(profile, |id| {
        let frame = profile.frames.get(id);
        let known = !frame.file.is_empty();
        known.then(|| (labels.frames[id.index()], frame.module, frame.file, frame.line))
    });
    let (of_functions, of_lines) = sums(profile, &own, &functions, &lines);

    let text = |id: StringId| profile.strings.get(id).to_owned();
    let mut rows: Vec<TopRow> = functions
        .list
        .iter()
        .zip(of_functions)
        .map(|(&(frame, (name, module, ..)), sums)| TopRow {
            name: labels.names.get(name).to_owned(),
            module: text(module),
            kind: profile.frames.get(frame).kind,
            self_value: sums.own,
            total: sums.total,
            lines: Vec::new(),
            more_lines: 0,
        })
        .collect();
    for (&(frame, (_, _, file, line)), sums) in lines.list.iter().zip(of_lines) {
        let function = functions.of_frame[frame.index()] as usize;
        let (self_value, total) = (sums.own, sums.total);
        rows[function].lines.push(TopLine {
            file: text(file),
            line,
            text: String::new(),
            self_value,
            total,
        });
    }
    if own[StackId::ROOT.index()] > 0 {
        rows.push(unknown(own[StackId::ROOT.index()]));
    }
    rows.retain(|row| row.total > 0);
    for row in &mut rows {
        row.lines.retain(|line| line.total > 0);
        row.lines.sort_by(|a, b| {
            let values = (b.self_value, b.total).cmp(&(a.self_value, a.total));
            values.then_with(|| (&a.file, a.line).cmp(&(&b.file, b.line)))
        });
    }
    rows.sort_by(|a, b| {
        let values = (b.self_value, b.total).cmp(&(a.self_value, a.total));
        values.then_with(|| (&a.name, &a.module).cmp(&(&b.name, &b.module)))
    });
    rows
}

/// The row of samples without a known frame.
fn unknown(value: u64) -> TopRow {
    TopRow {
        name: Labels::UNKNOWN.to_owned(),
        module: String::new(),
        kind: FrameKind::Marker(Marker::Remark),
        self_value: value,
        total: value,
        lines: Vec::new(),
        more_lines: 0,
    }
}

/// Label, module, file, line.
type Place = (StringId, StringId, StringId, u32);

/// Distinct places of frames.
struct Places {
    /// Distinct places with the first frame of each, in the order of frames.
    list: Vec<(FrameId, Place)>,
    /// Index into `list`, or `NONE`.
    of_frame: Vec<u32>,
}

const NONE: u32 = u32::MAX;

impl Places {
    fn new(profile: &Profile, place: impl Fn(FrameId) -> Option<Place>) -> Self {
        let mut list = Vec::new();
        let mut index: HashMap<Place, u32, FixedState> = HashMap::default();
        let number = |id: FrameId| {
            let Some(place) = place(id) else { return NONE };
            *index.entry(place).or_insert_with(|| {
                list.push((id, place));
                list.len() as u32 - 1
            })
        };
        let of_frame = (0..profile.frames.len()).map(FrameId::from_index).map(number).collect();
        Self { list, of_frame }
    }
}

/// Values of a place.
#[derive(Clone, Copy, Default)]
struct Sums {
    own: u64,
    total: u64,
    /// Number of occurrences in the current stack.
    open: u32,
}

/// Sums self and total values over all stacks in depth-first order. `own` contains the self value of each stack.
fn sums(
    profile: &Profile,
    own: &[u64],
    functions: &Places,
    lines: &Places,
) -> (Vec<Sums>, Vec<Sums>) {
    let mut of_functions = vec![Sums::default(); functions.list.len()];
    let mut of_lines = vec![Sums::default(); lines.list.len()];
    let parent = |stack: usize| {
        profile.stacks.get(StackId::from_index(stack)).map_or(0, |(parent, _)| parent.index())
    };
    let mut total = own.to_vec();
    for stack in (1..total.len()).rev() {
        let parent = parent(stack);
        total[parent] = total[parent].saturating_add(total[stack]);
    }
    // The children of stack `s` are `children[first[s]..first[s + 1]]`.
    let mut first = vec![0u32; own.len() + 1];
    for stack in 1..own.len() {
        first[parent(stack) + 1] += 1;
    }
    for index in 1..first.len() {
        first[index] += first[index - 1];
    }
    let (mut next, mut children) = (first.clone(), vec![0u32; own.len().saturating_sub(1)]);
    for stack in 1..own.len() {
        let place = &mut next[parent(stack)];
        children[*place as usize] = stack as u32;
        *place += 1;
    }

    // An explicit stack instead of recursion, because the depth of stacks depends on the input.
    let mut steps: Vec<(u32, bool)> = vec![(0, true)];
    while let Some((stack, enters)) = steps.pop() {
        let at = stack as usize;
        if let Some((_, frame)) = profile.stacks.get(StackId(stack)) {
            let places = [
                of_functions.get_mut(functions.of_frame[frame.index()] as usize),
                of_lines.get_mut(lines.of_frame[frame.index()] as usize),
            ];
            for place in places.into_iter().flatten() {
                if !enters {
                    place.open -= 1;
                    continue;
                }
                if place.open == 0 {
                    place.total = place.total.saturating_add(total[at]);
                }
                place.own = place.own.saturating_add(own[at]);
                place.open += 1;
            }
        }
        if enters {
            steps.push((stack, false));
            let family = first[at] as usize..first[at + 1] as usize;
            steps.extend(children[family].iter().map(|&child| (child, true)));
        }
    }
    (of_functions, of_lines)
}

#[cfg(test)]
mod tests {
    use pyrograph_profile::{Frame, Sample, ValueType};

    use super::*;

    fn profile(stacks: &[(&str, u64)]) -> Profile {
        let mut profile = Profile::new(vec![ValueType::samples()]);
        for (path, value) in stacks {
            let frames: Vec<_> = path
                .split(';')
                .filter(|name| !name.is_empty())
                .map(|name| {
                    // `f@lib:x.c:3`
                    let (name, module) = name.split_once('@').unwrap_or((name, ""));
                    let mut module = module.split(':');
                    let mut text = || profile.strings.intern(module.next().unwrap_or_default());
                    let (module_name, file) = (text(), text());
                    let line = module.next().and_then(|line| line.parse().ok()).unwrap_or(0);
                    let function = profile.strings.intern(name);
                    profile.frames.intern(Frame {
                        module: module_name,
                        file,
                        line,
                        ..Frame::named(function, FrameKind::User)
                    })
                })
                .collect();
            let stack = profile.stacks.intern_path(frames);
            profile.push(Sample::new(stack), &[*value]);
        }
        profile
    }

    fn check(stacks: &[(&str, u64)], expect: &[(&str, &str, u64, u64)]) {
        let rows = top(&profile(stacks), &LabelOptions::default(), 0);
        let rows: Vec<_> = rows
            .iter()
            .map(|row| (row.name.as_str(), row.module.as_str(), row.self_value, row.total))
            .collect();
        assert_eq!(rows, expect);
    }

    #[test]
    fn a_recursive_function_counts_once_a_stack() {
        check(&[("f;f;f", 1), ("f;g;f", 2), ("f;g", 4)], &[("g", "", 4, 6), ("f", "", 3, 7)]);
    }

    #[test]
    fn functions_of_one_name_in_two_modules_are_two() {
        let stacks = [("main@app;init@a.so", 1), ("main@app;init@b.so", 2), ("main@app", 2)];
        let expect = [("main", "app", 2, 5), ("init", "b.so", 2, 2), ("init", "a.so", 1, 1)];
        check(&stacks, &expect);
    }

    #[test]
    fn samples_without_a_frame_and_none_at_all() {
        check(&[("", 3), ("f", 4)], &[("f", "", 4, 4), ("[unknown]", "", 3, 3)]);
        check(&[], &[]);
        check(&[("f", 0)], &[]);
    }

    #[test]
    fn lines_are_those_of_their_function() {
        let stacks = [("f@x:f.c:1;f@x:f.c:1", 1), ("f@x:f.c:1;f@x:f.c:9", 5), ("f@x;g@x:g.c:2", 7)];
        let rows = top(&profile(&stacks), &LabelOptions::default(), 0);
        let f = rows.iter().find(|row| row.name == "f").expect("f");
        assert_eq!((f.self_value, f.total), (6, 13));
        let lines: Vec<_> = f.lines.iter().map(|l| (l.line, l.self_value, l.total)).collect();
        assert_eq!(lines, [(9, 5, 5), (1, 1, 6)]);
        assert_eq!(f.lines[0].file, "f.c");
    }

    #[test]
    fn a_stack_of_a_million_frames_does_not_overflow_the_stack() {
        let deep = vec!["f"; 1_000_000].join(";");
        check(&[(&deep, 2)], &[("f", "", 2, 2)]);
    }
}
