//! The tables of a file: samples, locations, functions, mappings and strings, in file order.

use pyrograph_profile::{TimeUnit, ValueType};

use crate::protobuf::{Damaged, Message, Value};
use crate::warnings::{WarningKind, Warnings};

/// The file's tables. Rows of `samples` and `locations` are still encoded.
#[derive(Default)]
pub(super) struct Tables<'a> {
    pub value_types: Vec<(u64, u64)>,
    pub samples: Vec<&'a [u8]>,
    pub mappings: ById<Mapping>,
    pub locations: ById<&'a [u8]>,
    pub functions: ById<Function>,
    pub strings: Vec<&'a [u8]>,
    pub drop_frames: u64,
    pub keep_frames: u64,
    pub start: u64,
    pub duration: u64,
    pub period_type: (u64, u64),
    pub period: u64,
    pub comments: Vec<u64>,
    pub default_sample_type: u64,
}

#[derive(Clone, Copy, Default)]
pub(super) struct Mapping {
    pub start: u64,
    pub limit: u64,
    pub offset: u64,
    pub file: u64,
    pub build_id: u64,
}

#[derive(Clone, Copy, Default)]
pub(super) struct Function {
    pub name: u64,
    pub system_name: u64,
    pub file: u64,
    pub start_line: u64,
}

impl<'a> Tables<'a> {
    pub fn collect(bytes: &'a [u8], warnings: &mut Warnings) -> Self {
        let mut tables = Self::default();
        let mut message = Message(bytes);
        loop {
            match message.next() {
                Ok(Some((field, value))) => {
                    if tables.field(field, value).is_err() {
                        warnings.add(WarningKind::UnreadableRecord, 1, []);
                    }
                }
                Ok(None) => return tables,
                Err(Damaged) => {
                    let at = bytes.len() - message.0.len();
                    let cause = format!("no field of a pprof profile at byte {at}");
                    warnings.add(WarningKind::Truncated(cause), 1, []);
                    return tables;
                }
            }
        }
    }

    fn field(&mut self, field: u32, value: Value<'a>) -> Result<(), Damaged> {
        match field {
            1 => self.value_types.push(value_type(value)?),
            2 => self.samples.push(value.bytes()),
            3 => {
                let [id, start, limit, offset, file, build_id] = numbers(value)?;
                self.mappings.insert(id, Mapping { start, limit, offset, file, build_id });
            }
            4 => {
                let [id] = numbers(value)?;
                self.locations.insert(id, value.bytes());
            }
            5 => {
                let [id, name, system_name, file, start_line] = numbers(value)?;
                self.functions.insert(id, Function { name, system_name, file, start_line });
            }
            6 => self.strings.push(value.bytes()),
            7 => self.drop_frames = value.number(),
            8 => self.keep_frames = value.number(),
            9 => self.start = value.number(),
            10 => self.duration = value.number(),
            11 => self.period_type = value_type(value)?,
            12 => self.period = value.number(),
            13 => value.numbers(&mut self.comments)?,
            14 => self.default_sample_type = value.number(),
            _ => {}
        }
        Ok(())
    }

    pub fn text(&self, index: u64) -> std::borrow::Cow<'a, str> {
        let bytes = usize::try_from(index).ok().and_then(|index| self.strings.get(index));
        String::from_utf8_lossy(bytes.copied().unwrap_or_default())
    }

    pub fn value_type(&self, (name, unit): (u64, u64)) -> ValueType {
        ValueType::new(&self.text(name), TimeUnit::short_name(&self.text(unit)))
    }
}

fn value_type(value: Value) -> Result<(u64, u64), Damaged> {
    let [name, unit] = numbers(value)?;
    Ok((name, unit))
}

/// Decodes the numbers in fields 1 to `N` of a message.
pub(super) fn numbers<const N: usize>(value: Value) -> Result<[u64; N], Damaged> {
    let mut numbers = [0; N];
    let mut message = value.message();
    while let Some((field, value)) = message.next()? {
        if let Some(number) = numbers.get_mut(field as usize - 1) {
            *number = value.number();
        }
    }
    Ok(numbers)
}

/// Rows by the IDs that the file gives them, which are nearly always 1, 2, 3 ….
pub(super) struct ById<T> {
    pub rows: Vec<T>,
    /// Index of each row by its ID; `None` while the IDs are 1, 2, 3 ….
    index: Option<hashbrown::HashMap<u64, usize, foldhash::fast::FixedState>>,
}

impl<T> Default for ById<T> {
    fn default() -> Self {
        Self { rows: Vec::new(), index: None }
    }
}

impl<T> ById<T> {
    fn insert(&mut self, id: u64, row: T) {
        let at = self.rows.len();
        self.rows.push(row);
        // 0 stands for none. A writer that leaves all of them 0 means their order (Datadog's for .NET).
        if self.index.is_none() && (id == 0 || id == at as u64 + 1) {
            return;
        }
        let index =
            self.index.get_or_insert_with(|| (0..at).map(|at| (at as u64 + 1, at)).collect());
        index.insert(id, at);
    }

    pub fn position(&self, id: u64) -> Option<usize> {
        match &self.index {
            Some(index) => index.get(&id).copied(),
            None => usize::try_from(id.checked_sub(1)?).ok().filter(|&at| at < self.rows.len()),
        }
    }

    pub fn get(&self, id: u64) -> Option<&T> {
        self.position(id).map(|at| &self.rows[at])
    }
}
