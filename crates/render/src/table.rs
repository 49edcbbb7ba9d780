//! Tables as text and Markdown.

use std::io::{self, Write};

/// A table with headings and rows. Columns with `numeric` set are right-aligned.
pub struct Table {
    pub heads: Vec<String>,
    pub rows: Vec<Vec<String>>,
    pub numeric: Vec<bool>,
}

/// Blanks before each column of text.
const GAP: &str = "  ";

impl Table {
    /// Removes columns that are empty in all rows.
    pub fn without_empty(mut self) -> Self {
        let keep: Vec<bool> = (0..self.heads.len())
            .map(|column| self.rows.iter().any(|row| !row[column].is_empty()))
            .collect();
        let kept = |row: &mut Vec<String>| {
            let mut column = keep.iter();
            row.retain(|_| *column.next().unwrap_or(&true));
        };
        kept(&mut self.heads);
        self.rows.iter_mut().for_each(kept);
        let mut column = keep.iter();
        self.numeric.retain(|_| *column.next().unwrap_or(&true));
        self
    }

    /// Removes the column with this heading.
    pub fn leave_out(&mut self, head: &str) {
        let Some(column) = self.heads.iter().position(|of| of == head) else { return };
        self.heads.remove(column);
        self.numeric.remove(column);
        for row in &mut self.rows {
            row.remove(column);
        }
    }

    /// Width of the text in columns.
    pub fn width(&self) -> usize {
        self.widths().into_iter().map(|width| width + GAP.len()).sum()
    }

    fn widths(&self) -> Vec<usize> {
        let length = |text: &String| text.chars().count();
        let width = |column: usize| {
            let cells = self.rows.iter().map(|row| length(&row[column]));
            cells.chain([length(&self.heads[column])]).max().unwrap_or(0)
        };
        (0..self.heads.len()).map(width).collect()
    }

    pub fn text(&self, out: &mut dyn Write) -> io::Result<()> {
        let widths = self.widths();
        for row in std::iter::once(&self.heads).chain(&self.rows) {
            let mut line = String::new();
            for ((cell, width), numeric) in row.iter().zip(&widths).zip(&self.numeric) {
                let blanks = " ".repeat(width - cell.chars().count());
                line.push_str(GAP);
                match numeric {
                    true => line.push_str(&format!("{blanks}{cell}")),
                    false => line.push_str(&format!("{cell}{blanks}")),
                }
            }
            writeln!(out, "{}", line.trim_end())?;
        }
        Ok(())
    }

    pub fn markdown(&self, out: &mut dyn Write) -> io::Result<()> {
        let row = |cells: &[String]| {
            let cells: Vec<String> = cells.iter().map(|cell| markdown_text(cell)).collect();
            format!("| {} |", cells.join(" | "))
        };
        writeln!(out, "{}", row(&self.heads))?;
        let line: Vec<&str> =
            self.numeric.iter().map(|numeric| if *numeric { "---:" } else { "---" }).collect();
        writeln!(out, "|{}|", line.join("|"))?;
        self.rows.iter().try_for_each(|cells| writeln!(out, "{}", row(cells)))
    }
}

/// Escapes the characters that begin markup: names of programs may contain any.
fn markdown_text(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '\\' | '`' | '*' | '[' | '<' | '|') {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

/// Splits pairs of a heading and `numeric`.
pub fn heads(names: &[(&str, bool)]) -> (Vec<String>, Vec<bool>) {
    names.iter().map(|(name, numeric)| ((*name).to_owned(), *numeric)).unzip()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_that_is_left_out_takes_no_width() {
        let (heads, numeric) = heads(&[("call", false), ("min", true), ("max", true)]);
        let rows = vec![vec!["read".to_owned(), "1".to_owned(), "20.5".to_owned()]];
        let mut table = Table { heads, rows, numeric };
        assert_eq!(table.width(), 17);
        table.leave_out("min");
        table.leave_out("none");
        assert_eq!(table.width(), 12);
        let mut text = Vec::new();
        table.text(&mut text).expect("to memory");
        assert_eq!(String::from_utf8_lossy(&text), "  call   max\n  read  20.5\n");
    }

    #[test]
    fn names_are_no_markup() {
        let (heads, numeric) = heads(&[("task", false), ("µs", true)]);
        let rows = vec![vec!["<b>a|b*[x](y)`\\ worker_0".to_owned(), "1.5".to_owned()]];
        let mut text = Vec::new();
        Table { heads, rows, numeric }.markdown(&mut text).expect("to memory");
        let expect = "| task | µs |\n|---|---:|\n| \\<b>a\\|b\\*\\[x](y)\\`\\\\ worker_0 | 1.5 |\n";
        assert_eq!(String::from_utf8_lossy(&text), expect);
    }
}
