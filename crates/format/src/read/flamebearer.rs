//! Reader of Pyroscope's own JSON format, `flamebearer`, as exported by its user interface and sent by its server.
//!
//! ```text
//! {"version":1,"flamebearer":{"names":["total","main","parse"],
//!    "levels":[[0,100,0,0],[0,70,10,1],[0,60,60,2]],"numTicks":100,"maxSelf":60},
//!  "metadata":{"format":"single","units":"samples","sampleRate":100}}
//! ```
//!
//! Source: the type `FlamebearerProfile` of Pyroscope. A level is a row of boxes, each of four numbers: distance from
//! the end of the previous box, width, self value, and index of the name. In the format `double`, which is a
//! comparison, each box has the first three numbers twice.
//!
//! The box `total` at the root is not a function.

use pyrograph_profile::{Frame, FrameKind, Profile, Sample, StackId, ValueType};
use serde::Deserialize;

use super::json;
use crate::input::Head;
use crate::reader::{Options, ReadError, Reader, Reading};
use crate::warnings::WarningKind;

/// Reader of Pyroscope's JSON.
pub struct Flamebearer;

#[derive(Deserialize)]
struct File {
    flamebearer: Boxes,
    #[serde(default, deserialize_with = "json::or_default")]
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Boxes {
    names: Vec<String>,
    levels: Vec<Vec<i64>>,
}

#[derive(Default, Deserialize)]
struct Metadata {
    #[serde(default, deserialize_with = "json::or_default")]
    format: String,
    #[serde(default, deserialize_with = "json::or_default")]
    units: String,
}

impl Reader for Flamebearer {
    fn name(&self) -> &'static str {
        "flamebearer"
    }

    fn written_by(&self) -> &'static str {
        "Pyroscope's export as JSON"
    }

    fn detect(&self, head: &[u8]) -> bool {
        json::begins_object(head) && json::has_key(head, "flamebearer")
    }

    fn read(&self, input: Head, _options: &Options) -> Result<Reading, ReadError> {
        let (file, mut warnings) = json::parse::<File>(input)?;
        let unit = unit(&file.metadata.units);
        let is_double = file.metadata.format == "double";
        let types = if is_double { unit.before_and_after().to_vec() } else { vec![unit] };
        let mut profile = Profile::new(types);
        let sides = if is_double { 2 } else { 1 };
        let unreadable = add(&file.flamebearer, sides, &mut profile);
        if unreadable > 0 {
            warnings.add(WarningKind::UnreadableSample, unreadable, []);
        }
        Ok(Reading::new(profile, warnings))
    }
}

fn unit(units: &str) -> ValueType {
    match units {
        "" | "samples" => ValueType::samples(),
        units if units.ends_with("nanoseconds") => ValueType::new("time", "ns"),
        units => ValueType::of_unit(units).unwrap_or_else(ValueType::samples),
    }
}

/// A box: its position, and the stack down to it.
#[derive(Clone, Copy)]
struct Placed {
    start: i64,
    end: i64,
    stack: StackId,
}

/// Adds the self value of each box. Returns the number of damaged boxes.
fn add(boxes: &Boxes, sides: usize, profile: &mut Profile) -> u64 {
    let mut unreadable = 0;
    let mut above: Vec<Placed> = Vec::new();
    for (depth, level) in boxes.levels.iter().enumerate() {
        let mut row: Vec<Placed> = Vec::new();
        let mut callers = above.iter().peekable();
        let mut at = 0i64;
        for numbers in level.chunks(3 * sides + 1) {
            let [sizes @ .., name] = numbers else { continue };
            let name = usize::try_from(*name).ok().and_then(|name| boxes.names.get(name));
            let (Some(name), true) = (name, sizes.len() == 3 * sides) else {
                unreadable += 1;
                continue;
            };
            let of = |number: usize| {
                sizes
                    .iter()
                    .skip(number)
                    .step_by(3)
                    .fold(0i64, |sum, &size| sum.saturating_add(size))
            };
            let start = at.saturating_add(of(0));
            at = start.saturating_add(of(1));
            // Boxes of both rows are sorted by position.
            while callers.peek().is_some_and(|caller| caller.end <= start) {
                callers.next();
            }
            let caller = callers.peek().filter(|caller| caller.start <= start);
            let stack = match (depth, caller) {
                (0, _) if name == "total" => StackId::ROOT,
                (0, _) => push(profile, StackId::ROOT, name),
                (_, Some(caller)) => push(profile, caller.stack, name),
                (_, None) => {
                    unreadable += 1;
                    continue;
                }
            };
            row.push(Placed { start, end: at, stack });
            let own = sizes.iter().skip(2).step_by(3);
            let own: Vec<u64> = own.map(|&own| u64::try_from(own).unwrap_or(0)).collect();
            if own.iter().any(|&own| own > 0) {
                profile.push(Sample::new(stack), &own);
            }
        }
        above = row;
    }
    unreadable
}

fn push(profile: &mut Profile, caller: StackId, name: &str) -> StackId {
    let function = profile.strings.intern(name);
    let frame = profile.frames.intern(Frame::named(function, FrameKind::User));
    profile.stacks.intern(caller, frame)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Input, write_folded};
    use pyrograph_profile::{LabelOptions, Tree};

    fn check(text: &str, expect: &str, warnings: &[&str]) {
        let input = Input::bytes("x", text).begin().expect("bytes in memory");
        let reading = Flamebearer.read(input, &Options::default()).expect("a profile");
        reading.profile.check().expect("a profile");
        let mut folded = Vec::new();
        let tree = Tree::new(&reading.profile, &LabelOptions::default());
        write_folded(&tree, &mut folded).expect("to memory");
        assert_eq!(String::from_utf8_lossy(&folded), expect);
        let said: Vec<String> = reading.warnings.iter().map(ToString::to_string).collect();
        assert_eq!(said, warnings);
    }

    #[test]
    fn boxes_stand_below_their_callers() {
        check(
            r#"{"flamebearer":{"names":["total","a","b","c"],
                "levels":[[0,100,0,0],[0,40,10,1,10,50,20,2],[10,30,30,3,10,30,30,3]]}}"#,
            "a 10\na;c 30\nb 20\nb;c 30\n",
            &[],
        );
    }

    #[test]
    fn two_sides_of_a_comparison() {
        check(
            r#"{"flamebearer":{"names":["total","a","b"],
                "levels":[[0,10,0,0,20,0,0],[0,6,6,0,4,4,1,0,4,4,0,16,16,2]]},
                "metadata":{"format":"double","units":"bytes"}}"#,
            "a 6 4\nb 4 16\n",
            &[],
        );
    }

    #[test]
    fn what_hangs_in_the_air_is_left_out() {
        check(
            r#"{"flamebearer":{"names":["total","a"],
                "levels":[[0,10,2,0],[0,5,5,1,0,3,3,7,-9223372036854775808,9,9,1],[20,5,5,1],[1,2]]}}"#,
            "[unknown] 2\na 5\n",
            &["4 samples were skipped: no readable first line"],
        );
    }
}
