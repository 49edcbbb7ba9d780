//! Functions of a program by their source: lines at which code begins, and the variables at a line, as text and JSON.

use std::io::{self, Write};

use serde_json::{Value, json};

/// A function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListedFunction {
    /// Its name.
    pub name: String,
    /// The function as it is declared.
    pub signature: String,
    /// Its source file.
    pub file: Option<String>,
    /// Line of its declaration; 0 if unknown.
    pub line: u32,
    /// True if it has code of its own.
    pub has_code: bool,
    /// Functions into which calls of it are inlined.
    pub inlined_into: Vec<String>,
    /// Its lines, in order.
    pub lines: Vec<ListedLine>,
    /// Variables at the line that was asked for.
    pub variables: Vec<ListedVariable>,
}

/// A line of a function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListedLine {
    /// Number of the line.
    pub number: u32,
    /// Its text, if the source file is there.
    pub text: Option<String>,
    /// Number of places where its code begins; 0 if no code does.
    pub places: usize,
}

/// A variable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListedVariable {
    /// Its name.
    pub name: String,
    /// Its type as it is written.
    pub kind: String,
    /// True for a parameter.
    pub is_parameter: bool,
    /// Where it is, or why it cannot be read.
    pub place: String,
    /// True if it can be read.
    pub is_readable: bool,
}

/// Writes functions: a heading, and the variables or else the lines, those at which code begins with a mark.
///
/// # Errors
///
/// If writing to `out` fails.
pub fn functions_text(functions: &[ListedFunction], out: &mut dyn Write) -> io::Result<()> {
    for (number, function) in functions.iter().enumerate() {
        if number > 0 {
            writeln!(out)?;
        }
        writeln!(out, "{}", function.signature)?;
        writeln!(out, "{}", heading(function))?;
        match function.variables.is_empty() {
            true => write_lines(&function.lines, out)?,
            false => write_variables(&function.variables, out)?,
        }
    }
    Ok(())
}

/// Source and inlined calls in words.
fn heading(function: &ListedFunction) -> String {
    let file = function.file.as_deref().unwrap_or("unknown source");
    let place =
        if function.line > 0 { format!("{file}:{}", function.line) } else { file.to_owned() };
    let into = function.inlined_into.join(", ");
    match (function.has_code, function.inlined_into.is_empty()) {
        (_, true) => format!("  {place}"),
        (true, false) => format!("  {place}, calls inlined into {into}"),
        (false, false) => format!("  {place}, only inlined, into {into}"),
    }
}

fn write_lines(lines: &[ListedLine], out: &mut dyn Write) -> io::Result<()> {
    for ListedLine { number, text, places } in lines {
        let mark = match places {
            0 => String::new(),
            1 => "*".to_owned(),
            places => format!("*{places}"),
        };
        let text = text.as_deref().unwrap_or_default();
        writeln!(out, "{}", format!("{number:>7} {mark:<3} {text}").trim_end())?;
    }
    Ok(())
}

fn write_variables(variables: &[ListedVariable], out: &mut dyn Write) -> io::Result<()> {
    let width = |text: &dyn Fn(&ListedVariable) -> usize| {
        variables.iter().map(text).max().unwrap_or(0).min(WIDEST)
    };
    let name = width(&|variable| variable.name.chars().count());
    let kind = width(&|variable| variable.kind.chars().count());
    for variable in variables {
        let ListedVariable { name: called, kind: of, place, is_readable, .. } = variable;
        let mark = if *is_readable { ' ' } else { '-' };
        writeln!(out, "{mark} {called:<name$}  {of:<kind$}  {place}")?;
    }
    Ok(())
}

/// Maximum width of the columns of names and types; longer ones do not shift those of others.
const WIDEST: usize = 40;

/// Functions as JSON.
pub fn functions_json(functions: &[ListedFunction]) -> Value {
    let line = |line: &ListedLine| {
        let ListedLine { number, text, places } = line;
        json!({ "line": number, "text": text, "places": places })
    };
    let variable = |variable: &ListedVariable| {
        let ListedVariable { name, kind, is_parameter, place, is_readable } = variable;
        json!({
            "name": name,
            "type": kind,
            "parameter": is_parameter,
            "place": place,
            "readable": is_readable,
        })
    };
    let function = |function: &ListedFunction| {
        json!({
            "name": function.name,
            "signature": function.signature,
            "file": function.file,
            "line": function.line,
            "has_code": function.has_code,
            "inlined_into": function.inlined_into,
            "lines": function.lines.iter().map(line).collect::<Vec<_>>(),
            "variables": function.variables.iter().map(variable).collect::<Vec<_>>(),
        })
    };
    json!({ "functions": functions.iter().map(function).collect::<Vec<_>>() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function() -> ListedFunction {
        let line = |number, text: Option<&str>, places| ListedLine {
            number,
            text: text.map(str::to_owned),
            places,
        };
        ListedFunction {
            name: "mix".to_owned(),
            signature: "long mix(long x)".to_owned(),
            file: Some("/src/a.c".to_owned()),
            line: 8,
            has_code: false,
            inlined_into: vec!["handle".to_owned(), "main".to_owned()],
            lines: vec![
                line(8, Some("long mix(long x) {"), 2),
                line(9, Some("    return x;"), 1),
                line(10, Some("}"), 0),
                line(11, None, 0),
            ],
            variables: Vec::new(),
        }
    }

    fn text(function: ListedFunction) -> String {
        let mut out = Vec::new();
        functions_text(&[function], &mut out).expect("to memory");
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn lines_with_code_have_marks() {
        let expect = "long mix(long x)\n\
            \x20 /src/a.c:8, only inlined, into handle, main\n\
            \x20     8 *2  long mix(long x) {\n\
            \x20     9 *       return x;\n\
            \x20    10     }\n\
            \x20    11\n";
        assert_eq!(text(function()), expect);
        let own = ListedFunction { has_code: true, lines: Vec::new(), ..function() };
        assert_eq!(text(own).lines().nth(1), Some("  /src/a.c:8, calls inlined into handle, main"));
    }

    #[test]
    fn variables_that_cannot_be_read_are_marked() {
        let variable = |name: &str, kind: &str, place: &str, is_readable| ListedVariable {
            name: name.to_owned(),
            kind: kind.to_owned(),
            is_parameter: true,
            place: place.to_owned(),
            is_readable,
        };
        let variables = vec![
            variable("x", "long", "rdi", true),
            variable("request", "struct req *", "optimized out", false),
        ];
        let of = ListedFunction { variables, ..function() };
        let expect = "  x        long          rdi\n- request  struct req *  optimized out\n";
        assert!(text(of.clone()).ends_with(expect), "{}", text(of.clone()));
        let json = functions_json(&[of]);
        assert_eq!(json["functions"][0]["variables"][1]["readable"], false);
        assert_eq!(json["functions"][0]["lines"][0]["places"], 2);
    }
}
