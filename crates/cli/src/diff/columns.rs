//! Folded stacks with two counts from folded stacks, by whole lines: nothing is read into a profile.

use std::path::PathBuf;

use pyrograph_analyze::to_total_after;
use pyrograph_format::FoldedColumns;

use super::Args;
use crate::streams::regular_file;

/// The stacks of both sides, if whole lines say all there is to say: both are plain folded text in files, and nothing is
/// asked for that changes names or chooses stacks. `None` otherwise, also if they cannot be read: what is wrong then is
/// said where they are read as any other input.
pub fn by_lines(args: &Args) -> Option<FoldedColumns> {
    let (before, after): (&[PathBuf], &[PathBuf]) = match &args.files[..] {
        [before, after] => (std::slice::from_ref(before), std::slice::from_ref(after)),
        [] => (&args.before, &args.after),
        _ => return None,
    };
    if before.is_empty() || args.strip_hex || !args.reading.keeps_all() {
        return None;
    }
    args.reading.limit_memory();
    // Most stacks are on both sides.
    let length = |path: &PathBuf| std::fs::metadata(path).map_or(0, |of| of.len() as usize);
    let mut stacks = FoldedColumns::new(before.iter().map(length).sum())?;
    for (side, paths) in [before, after].into_iter().enumerate() {
        for path in paths {
            stacks.add(regular_file(path)?, side)?;
        }
    }
    if args.normalize {
        stacks.map_before(to_total_after(stacks.totals(), 0));
    }
    Some(stacks)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use clap::Parser;
    use pyrograph_analyze::two_columns;
    use pyrograph_format::write_folded;
    use pyrograph_profile::{LabelOptions, Tree};
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    use super::super::Sides;
    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: Args,
    }

    fn args(more: &[&str], before: &Path, after: &Path) -> Args {
        let command = ["diff", "--folded"].iter().chain(more).map(std::ffi::OsStr::new);
        let files = [before, after].map(Path::as_os_str);
        Command::try_parse_from(command.chain(files)).expect("they are options").args
    }

    fn by_trees(args: &Args) -> String {
        let sides = Sides::read(args).expect("folded text");
        let (before, after) = sides.runs();
        let profile = two_columns(&before, &after, args.normalize, args.strip_hex);
        let tree = Tree::new(&profile.expect("both count the same"), &LabelOptions::default());
        let mut out = Vec::new();
        write_folded(&tree, &mut out).expect("to memory");
        String::from_utf8(out).expect("UTF-8")
    }

    /// The comparison by lines, checked against the one by trees. `None` where lines do not apply.
    fn check(before: &[u8], after: &[u8], more: &[&str]) -> Option<String> {
        let folder = tempfile::tempdir().expect("a folder");
        let [old, new] = ["a", "b"].map(|name| folder.path().join(name));
        std::fs::write(&old, before).expect("a temporary file");
        std::fs::write(&new, after).expect("a temporary file");
        let args = args(more, &old, &new);
        let stacks = by_lines(&args)?;
        let mut out = Vec::new();
        stacks.write(&mut out).expect("to memory");
        let out = String::from_utf8(out).expect("UTF-8");
        assert_eq!(out, by_trees(&args), "{:?} {:?}", before.escape_ascii(), after.escape_ascii());
        Some(out)
    }

    #[test]
    fn lines_give_what_trees_give() {
        let mut generator = StdRng::seed_from_u64(11);
        let mut random = |below: usize| generator.random_range(0..below);
        // The first are plain, the others seldom come.
        let names = [
            "a",
            "b",
            "a b",
            "a 1",
            "é",
            "a.b",
            "f(int, char)",
            "[unknown]",
            "#x",
            "x_[k]",
            "::head",
            "_x",
            "_Z",
            "_ZN3foo3barEv",
            "p::h0123456789abcdef",
            "",
            " a",
            "a ",
            "a\t",
            "\u{1}",
        ];
        let counts = ["1", "2", "7", "0", "30", "1.5", "", "x", "18446744073709551615", "1 "];
        let mut plain = 0;
        for round in 0..1500 {
            let (odd_names, odd_counts) = (random(12) == 0, random(12) == 0);
            let mut sides = [(); 2].map(|()| b"main;a 3\n".to_vec());
            for text in &mut sides {
                for _ in 0..random(12) {
                    let known = if odd_names { names.len() } else { 12 };
                    let path: Vec<&str> = (0..=random(3)).map(|_| names[random(known)]).collect();
                    let known = if odd_counts { counts.len() } else { 5 };
                    let end = if random(200) == 0 { "\r\n" } else { "\n" };
                    let line = format!("{} {}{end}", path.join(";"), counts[random(known)]);
                    text.extend_from_slice(line.as_bytes());
                }
                if random(50) == 0 {
                    text.extend_from_slice(b"\xff;b 1\n");
                }
            }
            let more: &[&str] = if round % 3 == 0 { &["--normalize"] } else { &[] };
            plain += usize::from(check(&sides[0], &sides[1], more).is_some());
        }
        assert!((500..1400).contains(&plain), "{plain} of 1,500 were plain");
    }

    #[test]
    fn what_changes_names_or_chooses_stacks_needs_trees() {
        let both = |more: &[&str]| check(b"main;a 1\n", b"main;a 2\nmain;b 3\n", more);
        assert_eq!(both(&[]).as_deref(), Some("main;a 1 2\nmain;b 0 3\n"));
        assert_eq!(both(&["-n"]).as_deref(), Some("main;a 5 2\nmain;b 0 3\n"));
        for more in
            [&["-s"][..], &["--focus", "a"], &["--hide", "a"], &["--merge"], &["--unit", "ns"]]
        {
            assert_eq!(both(more), None, "{more:?}");
        }
    }
}
