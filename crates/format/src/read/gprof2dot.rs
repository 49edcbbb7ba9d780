//! Reader of gprof2dot's own JSON, which `memray transform gprof2dot` and other tools write for `gprof2dot -f json`.
//!
//! ```text
//! {"version": 0, "costs": [{"description": "Memory", "unit": "bytes"}],
//!  "functions": [{"name": "main", "module": "/src/work.py"}],
//!  "events": [{"callchain": [1, 0], "cost": [1340]}]}
//! ```
//!
//! Source: `docs/json.md` of gprof2dot. Callchains are leaf first. Costs in seconds become nanoseconds; fractions in
//! other units are rounded, with a warning.

use pyrograph_profile::{Frame, FrameId, FrameKind, Profile, Sample, ValueType};
use serde::Deserialize;

use super::json;
use super::rows::Rows;
use crate::input::Head;
use crate::reader::{Options, ReadError, Reader, Reading};
use crate::warnings::{WarningKind, Warnings};

/// Reader of gprof2dot JSON.
pub struct Gprof2dot;

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    costs: Vec<Cost>,
    #[serde(default)]
    functions: Vec<Function>,
    #[serde(default)]
    events: Vec<Event>,
}

#[derive(Deserialize)]
struct Cost {
    #[serde(default, deserialize_with = "json::or_default")]
    description: String,
    #[serde(default, deserialize_with = "json::or_default")]
    unit: String,
}

#[derive(Deserialize)]
struct Function {
    #[serde(default, deserialize_with = "json::or_default")]
    name: String,
    #[serde(default, deserialize_with = "json::or_default")]
    module: String,
}

#[derive(Deserialize)]
struct Event {
    #[serde(default)]
    callchain: Vec<usize>,
    #[serde(default)]
    cost: Vec<f64>,
}

impl Reader for Gprof2dot {
    fn name(&self) -> &'static str {
        "gprof2dot JSON"
    }

    fn written_by(&self) -> &'static str {
        "memray transform gprof2dot"
    }

    fn detect(&self, head: &[u8]) -> bool {
        json::begins_object(head)
            && json::has_key(head, "version")
            && json::has_key(head, "costs")
            && (json::has_key(head, "callchain") || json::has_key(head, "functions"))
    }

    fn read(&self, input: Head, options: &Options) -> Result<Reading, ReadError> {
        let name = input.name().to_owned();
        let (file, mut warnings) = json::parse::<File>(input)?;
        if file.costs.is_empty() || file.events.is_empty() {
            let reason = "no events with costs are in it".to_owned();
            return Err(ReadError::Nothing { name, reason });
        }
        let of = file.costs.iter().map(Cost::value_type);
        let (types, factors): (Vec<ValueType>, Vec<f64>) = of.unzip();
        let mut profile = Profile::new(types);
        let frames: Vec<FrameId> =
            file.functions.iter().map(|function| frame(&mut profile, function)).collect();
        let unknown = profile.frames.intern(Frame::default());
        let mut rows = Rows::new(options, factors.len());
        let mut is_rounded = false;
        for event in &file.events {
            if event.cost.iter().any(|&cost| cost < 0.0) {
                warnings.add(WarningKind::NegativeValue, 1, []);
                continue;
            }
            let path = event.callchain.iter().rev();
            let path = path.map(|&function| frames.get(function).copied().unwrap_or(unknown));
            let stack = profile.stacks.intern_path(path);
            let costs = factors.iter().enumerate().map(|(column, factor)| {
                let cost = event.cost.get(column).copied().unwrap_or(0.0) * factor;
                is_rounded |= *factor == 1.0 && cost.fract() != 0.0;
                cost.round() as u64
            });
            let costs: Vec<u64> = costs.collect();
            rows.push(Sample::new(stack), &costs);
        }
        rows.finish(&mut profile);
        say_rounded(is_rounded, &mut warnings);
        Ok(Reading::new(profile, warnings))
    }
}

fn say_rounded(is_rounded: bool, warnings: &mut Warnings) {
    if is_rounded {
        let said = "costs with decimals are rounded to whole numbers".to_owned();
        warnings.add(WarningKind::NotHeld(said), 1, []);
    }
}

impl Cost {
    /// Returns the value type, and the factor from costs in the file to values.
    fn value_type(&self) -> (ValueType, f64) {
        let name = self.description.to_lowercase();
        let (unit, factor) = match self.unit.as_str() {
            "s" | "seconds" => ("ns", 1e9),
            "ms" | "milliseconds" => ("ns", 1e6),
            "us" | "microseconds" => ("ns", 1e3),
            "" => ("count", 1.0),
            unit => (unit, 1.0),
        };
        (ValueType::new(if name.is_empty() { "cost" } else { &name }, unit), factor)
    }
}

fn frame(profile: &mut Profile, function: &Function) -> FrameId {
    let module = profile.strings.intern(&function.module);
    let name = profile.strings.intern(&function.name);
    profile.frames.intern(Frame { module, ..Frame::named(name, FrameKind::User) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Input;

    #[test]
    fn seconds_are_kept_and_decimals_are_said() {
        let text = r#"{"version":0,"costs":[{"description":"Time","unit":"s"},{"description":"Calls","unit":""}],
            "functions":[{"name":"a"}],"events":[{"callchain":[0,7],"cost":[0.25,1.5]}]}"#;
        let input = Input::bytes("x", text).begin().expect("bytes");
        assert!(Gprof2dot.detect(input.bytes()));
        let reading = Gprof2dot.read(input, &Options::default()).expect("a profile");
        assert_eq!(reading.profile.samples.total(0), 250_000_000);
        assert_eq!(reading.profile.samples.total(1), 2);
        let said: Vec<String> = reading.warnings.iter().map(ToString::to_string).collect();
        assert_eq!(said, ["costs with decimals are rounded to whole numbers"]);
    }
}
