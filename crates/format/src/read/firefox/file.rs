//! The parts of a file that are read, for all versions of the format.

use serde::Deserialize;

/// A column of indices or other numbers; `None` for `null`.
pub(super) type Numbers = Vec<Option<f64>>;

#[derive(Deserialize)]
pub(super) struct File {
    pub meta: Meta,
    #[serde(default)]
    pub libs: Vec<Lib>,
    #[serde(default)]
    pub shared: Tables,
    #[serde(default)]
    pub threads: Vec<OneThread>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Meta {
    #[serde(default)]
    pub start_time: f64,
    #[serde(default)]
    pub categories: Vec<Category>,
    #[serde(default)]
    pub sample_units: SampleUnits,
    #[serde(default)]
    pub extra: Vec<ExtraSection>,
    /// Program that wrote the file, if that was an importer and not a recorder.
    #[serde(default)]
    pub imported_from: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct Category {
    pub name: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SampleUnits {
    #[serde(default, rename = "threadCPUDelta")]
    pub thread_cpu_delta: String,
}

/// A section of additional, human-readable entries by a profile's writer.
#[derive(Deserialize)]
pub(super) struct ExtraSection {
    #[serde(default)]
    pub label: String,
    #[serde(default)]
    pub entries: Vec<ExtraEntry>,
}

#[derive(Deserialize)]
pub(super) struct ExtraEntry {
    #[serde(default)]
    pub label: String,
    #[serde(default)]
    pub value: serde_json::Value,
}

#[derive(Deserialize)]
pub(super) struct Lib {
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub path: String,
    /// The build ID, for libraries on Linux.
    #[serde(default, rename = "codeId")]
    pub code_id: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OneThread {
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub process_name: Option<String>,
    /// A number before version 44 or so, a string since then.
    #[serde(default)]
    pub pid: serde_json::Value,
    #[serde(default)]
    pub tid: serde_json::Value,
    #[serde(default)]
    pub samples: SampleTable,
    // The fields of `Tables`, not flattened: serde would buffer all of them a second time.
    #[serde(default)]
    pub string_array: Vec<String>,
    #[serde(default)]
    pub stack_table: StackTable,
    #[serde(default)]
    pub frame_table: FrameTable,
    #[serde(default)]
    pub func_table: FuncTable,
    #[serde(default)]
    pub resource_table: ResourceTable,
}

/// Tables that later versions moved from the threads to one shared place.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Tables {
    pub string_array: Vec<String>,
    pub stack_table: StackTable,
    pub frame_table: FrameTable,
    pub func_table: FuncTable,
    pub resource_table: ResourceTable,
    pub sources: Sources,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct SampleTable {
    pub stack: Numbers,
    pub time: Numbers,
    pub time_deltas: Numbers,
    pub weight: Option<Numbers>,
    pub weight_type: Option<String>,
    #[serde(rename = "threadCPUDelta")]
    pub thread_cpu_delta: Option<Numbers>,
    /// Pyrograph's extension: number of samples, waits, calls … behind each weight.
    pub counts: Option<Numbers>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct StackTable {
    pub frame: Numbers,
    pub prefix: Numbers,
    pub prefix_offset: Option<Numbers>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct FrameTable {
    pub func: Numbers,
    pub address: Numbers,
    pub inline_depth: Numbers,
    pub category: Numbers,
    pub line: Numbers,
    pub lib: Option<Numbers>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct FuncTable {
    pub name: Numbers,
    pub resource: Numbers,
    #[serde(rename = "isJS")]
    pub is_js: Vec<bool>,
    pub file_name: Numbers,
    pub source: Numbers,
    pub line_number: Numbers,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct ResourceTable {
    pub lib: Numbers,
    pub name: Numbers,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Sources {
    pub filename: Numbers,
}

/// Converts an entry of a column to an index; `None` for a missing entry, `null` and negative numbers.
pub(super) fn index(column: &[Option<f64>], row: usize) -> Option<usize> {
    let number = column.get(row).copied().flatten()?;
    (number >= 0.0).then_some(number as usize)
}

impl StackTable {
    /// Returns the row of a row's caller, if it has one.
    pub fn caller(&self, row: usize) -> Option<usize> {
        match &self.prefix_offset {
            Some(offsets) => {
                let offset = index(offsets, row).filter(|&offset| offset > 0)?;
                // An offset to before the first row is damage: the result is out of range.
                Some(row.checked_sub(offset).unwrap_or(usize::MAX))
            }
            None => index(&self.prefix, row),
        }
    }
}
