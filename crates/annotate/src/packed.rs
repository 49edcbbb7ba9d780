//! Annotated functions stored in the profile itself: pages contain source and instructions of hot functions, as
//! `crates/render/src/annotate/packed.rs` writes them. They are used if the files that ran no longer exist.

use pyrograph_analyze::{AnnotatedInstruction, Annotation, Scope, SourceFile, SourcePlace};
use pyrograph_profile::Profile;
use serde::Deserialize;
use serde_json::Value;

use crate::Function;
use crate::choose::Located;

/// Maximum length of an instruction, in bytes.
const LONGEST_INSTRUCTION: u64 = 15;

/// Index of a file, and a line.
type Place = (usize, u32);

/// A function with its source and instructions.
#[derive(Debug, Deserialize)]
pub(crate) struct Packed {
    name: String,
    module: String,
    #[serde(default)]
    build: String,
    #[serde(default)]
    bias: i64,
    #[serde(default)]
    notes: Vec<String>,
    #[serde(default)]
    files: Vec<String>,
    #[serde(default)]
    scopes: Vec<Vec<(String, Option<Place>)>>,
    #[serde(default)]
    start: Option<Place>,
    /// Source lines without instructions.
    #[serde(default)]
    texts: Vec<(usize, u32, String)>,
    rows: Vec<Vec<Value>>,
}

/// Returns all functions stored in the profile, except those of pages with damaged data.
pub(crate) fn all(profile: &Profile) -> Vec<Packed> {
    let pages = profile.code.iter().map(|text| serde_json::from_str::<Vec<Packed>>(text));
    pages.filter_map(Result::ok).flatten().collect()
}

/// Returns the annotation of a function, with the values of the profile; `None` if it is not stored, or damaged.
pub(crate) fn find(
    all: &[Packed],
    function: &Function,
    name: &str,
    profile: &Profile,
) -> Option<Annotation> {
    let is_it = |of: &&Packed| {
        of.name == name && of.module == function.module && of.build == function.build_id
    };
    let packed = all.iter().find(is_it)?;
    let columns = profile.value_types.len();
    let place = |(file, line): Place| SourcePlace { file, line };
    let mut files: Vec<SourceFile> = packed
        .files
        .iter()
        .map(|path| SourceFile { path: path.clone(), ..SourceFile::default() })
        .collect();
    let mut add_line = |SourcePlace { file, line }: SourcePlace, text: &str| {
        if let Some(file) = files.get_mut(file).filter(|_| !text.is_empty()) {
            file.lines.insert(line, text.to_owned());
        }
    };
    let mut instructions: Vec<AnnotatedInstruction> = Vec::new();
    let (mut line, mut left_out) = (None, 0);
    for row in &packed.rows {
        match &row[..] {
            [Value::Number(count)] => left_out += count.as_u64()?,
            [_, Value::String(text)] => line = Some(text),
            [_, Value::String(address), _, Value::String(text), rest @ ..] => {
                let number = |at: usize| rest.get(at).and_then(Value::as_u64);
                let index = |at: usize| number(at).and_then(|of| usize::try_from(of).ok());
                let of_line = index(2).zip(number(3).and_then(|line| u32::try_from(line).ok()));
                let of_line = of_line.map(place);
                if let Some((line, place)) = line.take().zip(of_line) {
                    add_line(place, line);
                }
                instructions.push(AnnotatedInstruction {
                    address: u64::from_str_radix(address, 16).ok()?,
                    text: text.clone(),
                    target: index(0),
                    values: vec![0; columns],
                    place: of_line,
                    scope: index(1).unwrap_or(0),
                });
            }
            _ => {}
        }
    }
    for (file, line, text) in &packed.texts {
        add_line(place((*file, *line)), text);
    }
    let count = instructions.len();
    let is_ordered = instructions.is_sorted_by(|a, b| a.address < b.address);
    let calls = packed.scopes.iter().flatten().filter_map(|(_, at)| at.map(place));
    let places = instructions.iter().filter_map(|of| of.place).chain(calls);
    let mut places = places.chain(packed.start.map(place));
    // The data is untrusted.
    if count == 0
        || !is_ordered
        || places.any(|of| of.file >= files.len())
        || instructions.iter().any(|of| of.target >= Some(count))
    {
        return None;
    }
    let scope = |inlined: &Vec<(String, Option<Place>)>| Scope {
        inlined: inlined.iter().map(|(name, at)| (name.clone(), at.map(place))).collect(),
    };
    let bias = packed.bias as u64;
    // Samples outside belong to another function of the same name.
    let (first, last) = (instructions[0].address, instructions[count - 1].address);
    let all = first..last.saturating_add(LONGEST_INSTRUCTION);
    let addressed = |(offset, values): &Located| (offset.wrapping_add(bias), values.clone());
    let samples = function.offsets.iter().map(addressed).filter(|(at, _)| all.contains(at));
    let samples: Vec<Located> = samples.collect();
    let totals = crate::count(&samples, &mut instructions, |_| LONGEST_INSTRUCTION, columns);
    let mut notes = packed.notes.clone();
    if left_out > 0 {
        notes.push(format!("{left_out} instructions without samples are not in the page"));
    }
    Some(Annotation {
        function: packed.name.clone(),
        module: packed.module.clone(),
        value_types: profile.value_types.clone(),
        totals,
        wholes: (0..columns).map(|column| profile.whole(column)).collect(),
        instructions,
        scopes: packed.scopes.iter().map(scope).collect(),
        files,
        start: packed.start.map(place),
        build_id: packed.build.clone(),
        bias,
        notes,
    })
}

/// Adds source lines that were not found on this machine from the stored ones.
pub(crate) fn add_texts(annotation: &mut Annotation, packed: &Annotation) {
    for file in &mut annotation.files {
        let known = packed.files.iter().filter(|of| of.path == file.path);
        for (line, text) in known.flat_map(|of| &of.lines) {
            file.lines.entry(*line).or_insert_with(|| text.clone());
        }
    }
}
