//! Parser of lines of Xdebug's human-readable traces (`xdebug.trace_format=0`, the default).
//!
//! ```text
//!     0.0382     395144   -> {main}() /src/x.php:0
//!     0.0383     395184     -> Shop::sell($s = class Shop {  }) /src/x.php:6
//!     0.1422     395624      >=> 9
//!                            => $i = 0 /src/x.php:3
//!     0.1424     390640
//! ```
//!
//! The columns are seconds, bytes of memory, and the call, whose indentation is its depth. Returns are only marked
//! with `xdebug.collect_return=1`, by the return value.

/// A line of such a trace.
#[derive(Debug, PartialEq)]
pub(super) enum Line<'a> {
    /// A call: time in nanoseconds, indentation, name of the function, file that it includes (or empty), and file and
    /// line of the caller.
    Call { time: u64, indent: usize, name: &'a str, included: &'a str, file: &'a str, line: u32 },
    /// The return of a call with this indentation.
    Return { time: u64, indent: usize },
    /// The end of the trace.
    End { time: u64 },
    /// An assignment to a variable.
    Assignment,
}

/// Parses a line; `None` if it is not recognized.
pub(super) fn parse(line: &str) -> Option<Line<'_>> {
    let text = line.trim_start();
    if text.starts_with("=> ") {
        return Some(Line::Assignment);
    }
    let (seconds, rest) = text.split_once(' ').unwrap_or((text, ""));
    let seconds: f64 = seconds.parse().ok().filter(|_| seconds.contains('.'))?;
    let time = (seconds * 1e9).round() as u64;
    let arrow = rest.find("-> ").into_iter().chain(rest.find(">=> ")).min();
    let (numbers, what) = rest.split_at(arrow.unwrap_or(rest.len()));
    // Memory, and in versions before 3 possibly its change.
    let indent = numbers.len() - numbers.trim_end().len();
    let is_number = |word: &str| word.trim_start_matches(['+', '-']).parse::<u64>().is_ok();
    if numbers.trim().is_empty() || !numbers.split_whitespace().all(is_number) {
        return None;
    }
    if what.starts_with(">=> ") {
        // One column to the right of the call's arrow.
        return Some(Line::Return { time, indent: indent.checked_sub(1)? });
    }
    let Some(call) = what.strip_prefix("-> ") else { return Some(Line::End { time }) };
    let (call, place) = call.rsplit_once(") ")?;
    let (file, line) = place.rsplit_once(':')?;
    let (name, arguments) = split_name(call);
    let includes = matches!(name, "include" | "include_once" | "require" | "require_once");
    let included = if includes { arguments } else { "" };
    let line = line.trim().parse().ok()?;
    Some(Line::Call { time, indent, name, included, file, line })
}

/// Splits a call into the function's name and its arguments, without the closing bracket.
fn split_name(call: &str) -> (&str, &str) {
    // Names of closures contain file names, which may contain brackets.
    let from = if call.starts_with("{closure:") { call.find("}(").unwrap_or(0) } else { 0 };
    let end = call[from..].find('(').map_or(call.len(), |at| from + at);
    (&call[..end], call.get(end + 1..).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call<'a>(indent: usize, name: &'a str) -> Option<Line<'a>> {
        let (included, file) = (if name == "include" { "/src/y.php" } else { "" }, "/src/x y.php");
        Some(Line::Call { time: 100_000, indent, name, included, file, line: 6 })
    }

    #[test]
    fn calls_of_all_sorts() {
        for (text, indent, name) in [
            ("    0.0001     395144   -> {main}() /src/x y.php:6", 3, "{main}"),
            ("    0.0001     395184     -> a::b($s = class C {  }) /src/x y.php:6", 5, "a::b"),
            ("    0.0001     395184     -> a->b('f(1) -> 2') /src/x y.php:6", 5, "a->b"),
            (
                "    0.0001 3951840000   -> {closure:/s(r)c/x.php:6-6}(1) /src/x y.php:6",
                3,
                "{closure:/s(r)c/x.php:6-6}",
            ),
            ("    0.0001     395184     -> include(/src/y.php) /src/x y.php:6", 5, "include"),
            ("    0.0001     395184    +1240     -> f() /src/x y.php:6", 5, "f"),
        ] {
            assert_eq!(parse(text), call(indent, name), "{text}");
        }
    }

    #[test]
    fn other_lines() {
        let returned = Some(Line::Return { time: 100_000, indent: 7 });
        assert_eq!(parse("    0.0001     395280        >=> 'a -> b'"), returned);
        assert_eq!(
            parse("                           => $s = 0 /src/x.php:3"),
            Some(Line::Assignment)
        );
        assert_eq!(parse("    0.0001     390640"), Some(Line::End { time: 100_000 }));
        for text in ["", "hello", "1 2", "0.1", "0.1 x", "0.1 5 -> f(", "2\t1\t0\t0.000993\t394216"]
        {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
