//! Reads all events of inputs that contain several, instead of one event only.

use pyrograph_profile::{Profile, ValueType};

use crate::input::Input;
use crate::input::Kept;
use crate::read::{read_with, reader_of};
use crate::reader::{Count, Options, ReadError, Reading};
use crate::warnings::{Warning, WarningKind, Warnings};

/// Reads inputs into one profile with a column for each event, in the order in which they are found. Each sample counts
/// as 1, because the counts of different events are not comparable: cycles are thousands of millions where page faults
/// are thousands. An input without named events becomes one event, named after its values.
///
/// Text of `perf script`, the most common input, is read once. Other inputs are read once for each of their events; if
/// the input is not a file, it is copied into a temporary one.
///
/// # Errors
///
/// If an input cannot be read at all, is empty or of an unknown format.
pub fn read_each_event(
    inputs: Vec<Input>,
    options: &Options,
) -> Result<(Profile, Warnings), ReadError> {
    let mut warnings = Warnings::default();
    let mut columns: Vec<(String, Profile)> = Vec::new();
    for input in inputs {
        let name = input.name().to_owned();
        let failed = |source| ReadError::Io { name: name.clone(), source };
        let input = input.keep().map_err(failed)?;
        let mut events = vec![None];
        let mut next = 0;
        while let Some(event) = events.get(next).cloned() {
            let (read, others, said) = read_some(&input, event, options, &name)?;
            if next == 0 {
                events.extend(others.into_iter().map(Some));
            }
            for warning in said {
                match &warning.kind {
                    // These are about the samples of each event; all others are repeated every time.
                    WarningKind::CutStack | WarningKind::BrokenStack => {
                        warnings.add(warning.kind, warning.count, warning.places);
                    }
                    _ if next == 0 => warnings.add(warning.kind, warning.count, warning.places),
                    _ => {}
                }
            }
            next += 1;
            for (event, profile) in read {
                match columns.iter_mut().find(|(name, _)| *name == event) {
                    Some((_, column)) => add(column, &profile),
                    None if profile.samples.is_empty() => {}
                    None => columns.push((event, profile)),
                }
            }
        }
    }
    Ok((side_by_side(&columns), warnings))
}

/// Profiles by name of the event, each with one column that counts its samples.
type ByEvent = Vec<(String, Profile)>;

/// Reads one event; if `event` is `None`, as many as the reader can read at once. Also returns the names of other
/// events.
fn read_some(
    input: &Kept,
    event: Option<String>,
    options: &Options,
    name: &str,
) -> Result<(ByEvent, Vec<String>, Vec<Warning>), ReadError> {
    let failed = |source| ReadError::Io { name: name.to_owned(), source };
    let input = input.open().map_err(failed)?;
    let label = input.label().map(str::to_owned);
    let head = input.begin().map_err(failed)?;
    let reader = reader_of(&head, options.from)?;
    let options = Options {
        count: Count::Samples,
        each_event: event.is_none() && reader.reads_each_event(),
        event: event.clone(),
        ..options.clone()
    };
    let Reading { profile, warnings, event: counted, other_events } =
        read_with(reader, head, &options, label.as_deref())?;
    let of_event = |column: usize, name: String| {
        let decimals = profile.value_types.get(column).map_or(0, |of| of.decimals);
        let counted = ValueType { decimals, ..ValueType::new(&name, "samples") };
        (name, with_column(&profile, column, &[counted], 0))
    };
    let read = match options.each_event {
        true => {
            let types = profile.value_types.iter().enumerate();
            types.map(|(column, of)| of_event(column, of.name.clone())).collect()
        }
        false => {
            let shown = profile.value_types.get(profile.shown);
            let shown = shown.map_or_else(|| ValueType::samples().name, |of| of.name.clone());
            vec![of_event(profile.shown, event.or(counted).unwrap_or(shown))]
        }
    };
    Ok((read, other_events.into_keys().collect(), warnings.iter().cloned().collect()))
}

/// Joins profiles with one column each into one profile with all columns.
fn side_by_side(columns: &[(String, Profile)]) -> Profile {
    let types: Vec<ValueType> =
        columns.iter().flat_map(|(_, profile)| profile.value_types.clone()).collect();
    let mut joined = Profile::new(types.clone());
    for (number, (_, profile)) in columns.iter().enumerate() {
        let wide = with_column(profile, 0, &types, number);
        add(&mut joined, &wide);
    }
    joined
}

/// Adds a profile with the same columns to another one.
#[expect(clippy::expect_used, reason = "both were made with these columns, a few lines above")]
fn add(to: &mut Profile, profile: &Profile) {
    to.merge(profile).expect("the same columns");
}

/// A copy of the profile with the value types `types`: column `to` has the values of its column `from`, other columns
/// are 0.
fn with_column(profile: &Profile, from: usize, types: &[ValueType], to: usize) -> Profile {
    let mut out = Profile {
        strings: profile.strings.clone(),
        frames: profile.frames.clone(),
        stacks: profile.stacks.clone(),
        threads: profile.threads.clone(),
        addresses: profile.addresses.clone(),
        ..Profile::new(types.to_vec())
    };
    let mut values = vec![0; types.len()];
    for (row, sample) in profile.samples.iter().enumerate() {
        values[to] = profile.samples.values(from)[row];
        if values[to] > 0 {
            out.push(sample, &values);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
app 1 1.5: 250 cycles: \n\t 4a1 work (/bin/app)\n
app 1 1.6: 100 page-faults: \n\t 4a1 load (/bin/app)\n
app 1 1.7: 250 cycles: \n\t 4a1 work (/bin/app)\n
not a sample at all\n";

    fn totals(profile: &Profile) -> Vec<(String, u64)> {
        let types = profile.value_types.iter().enumerate();
        types.map(|(column, of)| (of.name.clone(), profile.samples.total(column))).collect()
    }

    #[test]
    fn each_event_is_a_column_of_samples() {
        let input = Input::bytes("perf.txt", TEXT);
        let (profile, warnings) =
            read_each_event(vec![input], &Options::default()).expect("it is read");
        let expect = [("cycles".to_owned(), 2), ("page-faults".to_owned(), 1)];
        assert_eq!(totals(&profile), expect);
        let kinds: Vec<_> = warnings.iter().map(|warning| (&warning.kind, warning.count)).collect();
        assert_eq!(kinds, [(&WarningKind::UnreadableSample, 1)], "said once");
    }

    #[test]
    fn inputs_with_other_events_and_with_none_are_joined() {
        let other = "app 1 1.5: 1 page-faults: \n\t 4a1 load (/bin/app)\n";
        let inputs = vec![
            Input::bytes("a", TEXT).labelled("one"),
            Input::bytes("b", other),
            Input::bytes("c", "app;main 5\n"),
        ];
        let (profile, _) = read_each_event(inputs, &Options::default()).expect("they are read");
        let expect = [("cycles", 2), ("page-faults", 2), ("value", 5)];
        assert_eq!(totals(&profile), expect.map(|(name, total)| (name.to_owned(), total)));
        let one = profile.strings.find("one").expect("a label");
        assert_eq!(profile.threads.iter().filter(|thread| thread.host == one).count(), 2);
    }
}
