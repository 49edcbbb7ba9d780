//! Offsets measured in header files, by version: `benches/languages/offsets/tables`.

/// A column of a table: field → value, `None` if the version does not have the field.
pub(crate) struct Measured<'a> {
    pub(crate) version: &'a str,
    values: Vec<(&'a str, Option<u32>)>,
}

impl<'a> Measured<'a> {
    /// Parses all columns of a table.
    pub(crate) fn columns(table: &'a str) -> Vec<Self> {
        let mut lines = table.lines().filter(|line| !line.starts_with('#'));
        let versions = lines.next().unwrap().split_whitespace().skip(1);
        let mut columns: Vec<_> =
            versions.map(|version| Self { version, values: Vec::new() }).collect();
        for line in lines {
            let mut cells = line.split_whitespace();
            let field = cells.next().unwrap();
            for (column, cell) in columns.iter_mut().zip(cells) {
                let value = (cell != "-").then(|| cell.parse().unwrap());
                column.values.push((field, value));
            }
        }
        columns
    }

    /// Returns the value of a field; panics if the table has no such field.
    pub(crate) fn value(&self, field: &str) -> Option<u32> {
        self.values.iter().find(|(name, _)| *name == field).unwrap().1
    }

    /// Returns the minor version.
    pub(crate) fn minor(&self) -> u32 {
        let release = self.version.split('-').next().unwrap();
        release.split('.').nth(1).unwrap().parse().unwrap()
    }
}
