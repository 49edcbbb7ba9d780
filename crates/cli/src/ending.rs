//! The ending of an output's name selects its format, in every subcommand. The ending of a format that the subcommand
//! does not write is an error, so that a file never has another format than its name says.

use std::path::Path;

use crate::say::misuse;

/// Endings of all formats that are written. Others have no meaning: `-o out.log` gets text.
const KNOWN: &[&str] = &[
    "svg",
    "png",
    "html",
    "htm",
    "csv",
    "json",
    "md",
    "markdown",
    "txt",
    "folded",
    "collapsed",
    "pb.gz",
    "pprof",
    "speedscope",
    "callgrind",
    "trace",
    "otlp",
    "perfetto-trace",
    "pftrace",
];

/// Rejects an output whose ending names a format that is not in `formats`.
///
/// # Errors
///
/// [`Usage`](crate::say::Usage), which lists the formats.
pub fn check(output: Option<&Path>, formats: &[&str]) -> anyhow::Result<()> {
    if let Some(path) = output
        && let Some(ending) = known(path)
        && !formats.contains(&ending)
    {
        let list: Vec<String> = formats.iter().map(|of| format!(".{of}")).collect();
        misuse!(
            "{}: a file that ends in .{ending} cannot be written here; use a name that ends in {}",
            path.display(),
            list.join(", ")
        )
    }
    Ok(())
}

/// Returns true if the ending of `output` names a page.
pub fn is_page(output: Option<&Path>) -> bool {
    matches!(output.and_then(known), Some("html" | "htm"))
}

/// Sets the flag of the format that the ending of `output` names, unless a flag is set already. There is no flag for
/// text.
///
/// # Errors
///
/// Same as [`check`].
pub fn set_flag(output: Option<&Path>, flags: &mut [(&str, &mut bool)]) -> anyhow::Result<()> {
    if flags.iter().any(|(_, flag)| **flag) {
        return Ok(());
    }
    let formats: Vec<&str> = flags.iter().map(|(ending, _)| *ending).chain(["txt"]).collect();
    let ending = match output.and_then(known) {
        Some("markdown") => "md",
        Some("htm") => "html",
        ending => {
            check(output, &formats)?;
            ending.unwrap_or_default()
        }
    };
    if let Some((_, flag)) = flags.iter_mut().find(|(of, _)| *of == ending) {
        **flag = true;
    }
    Ok(())
}

/// Ending of a path, if it belongs to a known format.
fn known(path: &Path) -> Option<&'static str> {
    let name = path.file_name()?.to_str()?;
    KNOWN.iter().copied().find(|ending| {
        name.strip_suffix(ending).is_some_and(|before| before.len() > 1 && before.ends_with('.'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_choose_the_format_or_are_refused() {
        for (path, expect) in [
            ("x.json", Ok((true, false))),
            ("x.csv", Ok((false, true))),
            ("x.txt", Ok((false, false))),
            ("x.log", Ok((false, false))),
            ("x", Ok((false, false))),
            ("/dev/stdout", Ok((false, false))),
            (".json", Ok((false, false))),
            (
                "x.svg",
                Err(
                    "x.svg: a file that ends in .svg cannot be written here; use a name that ends in .json, .csv, .txt",
                ),
            ),
            (
                "a.pb.gz",
                Err(
                    "a.pb.gz: a file that ends in .pb.gz cannot be written here; use a name that ends in .json, .csv, .txt",
                ),
            ),
        ] {
            let (mut json, mut csv) = (false, false);
            let flags = &mut [("json", &mut json), ("csv", &mut csv)];
            let found = set_flag(Some(Path::new(path)), flags).map_err(|error| error.to_string());
            assert_eq!(found.map(|()| (json, csv)), expect.map_err(str::to_owned), "{path}");
        }
        // A flag says otherwise.
        let (mut json, mut csv) = (false, true);
        let flags = &mut [("json", &mut json), ("csv", &mut csv)];
        set_flag(Some(Path::new("x.json")), flags).expect("it is asked for");
        assert!(csv && !json);
    }
}
