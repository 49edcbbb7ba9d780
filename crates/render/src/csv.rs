//! CSV output of the table of functions, for spreadsheets and scripts.

use std::io::{self, Write};

use pyrograph_analyze::TopRow;
use pyrograph_profile::ValueType;

/// Writes the functions of a profile as CSV with a heading, one function per line. Follows RFC 4180: lines end in CR
/// LF, and texts with commas, quotes or line ends are quoted. A text that a spreadsheet would evaluate as a formula
/// is prefixed with an apostrophe, which makes it plain text. Values are in the unit given in the heading.
///
/// # Errors
///
/// Fails if writing to `out` fails.
pub fn top_csv(rows: &[TopRow], of: &ValueType, out: &mut dyn Write) -> io::Result<()> {
    let unit = |what: &str| field(&format!("{what} {} ({})", of.name, of.unit));
    write!(out, "function,module,kind,{},{}\r\n", unit("self"), unit("total"))?;
    for row in rows {
        write!(
            out,
            "{},{},{},{},{}\r\n",
            field(&row.name),
            field(&row.module),
            row.kind.name(),
            decimal(row.self_value, of.decimals),
            decimal(row.total, of.decimals)
        )?;
    }
    Ok(())
}

pub(crate) fn field(text: &str) -> String {
    // https://owasp.org/www-community/attacks/CSV_Injection
    if text.starts_with(['=', '+', '-', '@', '\t', '\r']) {
        return format!("\"'{}\"", text.replace('"', "\"\""));
    }
    if text.contains(['"', ',', '\r', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

/// Formats a multiple of 10^-`decimals` without rounding.
fn decimal(value: u64, decimals: u8) -> String {
    let width = usize::from(decimals) + 1;
    let mut text = format!("{value:0width$}");
    if decimals > 0 {
        text.insert(text.len() - usize::from(decimals), '.');
    }
    text
}

#[cfg(test)]
mod tests {
    use pyrograph_profile::FrameKind;

    use super::*;

    #[test]
    fn texts_are_quoted_where_they_must_be() {
        let row = |name: &str, self_value| TopRow {
            name: name.to_owned(),
            module: "/bin/a b".to_owned(),
            kind: FrameKind::Kernel,
            self_value,
            total: 1234,
            lines: Vec::new(),
            more_lines: 0,
        };
        let of = ValueType { decimals: 2, ..ValueType::new("cpu", "ms") };
        let mut text = Vec::new();
        top_csv(&[row("f(int, \"x\")", 5), row("g", 1234)], &of, &mut text).expect("to memory");
        assert_eq!(
            String::from_utf8_lossy(&text),
            "function,module,kind,self cpu (ms),total cpu (ms)\r\n\
             \"f(int, \"\"x\"\")\",/bin/a b,kernel,0.05,12.34\r\n\
             g,/bin/a b,kernel,12.34,12.34\r\n"
        );
    }

    #[test]
    fn a_name_is_never_a_formula_of_a_spreadsheet() {
        for name in
            ["=HYPERLINK(\"http://x\",\"y\")", "+1", "-[NSView x]", "@SUM(A1)", "\t=1", "\r=1"]
        {
            let field = field(name);
            assert!(field.starts_with("\"'") && field.ends_with('"'), "{field}");
        }
        assert_eq!(field("a=b"), "a=b");
    }
}
