//! Frames that a pprof profile asks to hide, usually those of the profiler itself.

use pyrograph_profile::{FrameId, Profile};
use regex::Regex;

/// Decides which frames a profile's `drop_frames` and `keep_frames` remove.
pub(crate) struct Dropped {
    drop: Regex,
    keep: Option<Regex>,
    /// The result for each frame, once known.
    known: Vec<Option<bool>>,
}

impl Dropped {
    /// Compiles the two patterns, which match whole names; an empty `keep` keeps nothing. The error names the pattern
    /// that is invalid.
    pub fn new(drop: &str, keep: &str) -> Result<Self, String> {
        let whole = |pattern: &str| {
            Regex::new(&format!("^(?:{pattern})$")).map_err(|_| {
                format!("frames are not dropped: no regular expression: {pattern:.80}")
            })
        };
        let keep = if keep.is_empty() { None } else { Some(whole(keep)?) };
        Ok(Self { drop: whole(drop)?, keep, known: Vec::new() })
    }

    /// True if this frame, with its callees, is removed.
    pub fn drops(&mut self, profile: &Profile, frame: FrameId) -> bool {
        if self.known.len() <= frame.index() {
            self.known.resize(frame.index() + 1, None);
        }
        let (drop, keep) = (&self.drop, &self.keep);
        *self.known[frame.index()].get_or_insert_with(|| {
            let name = profile.strings.get(profile.frames.get(frame).function);
            let name = without_parameters(name);
            !name.is_empty()
                && drop.is_match(name)
                && !keep.as_ref().is_some_and(|keep| keep.is_match(name))
        })
    }
}

/// Returns the name of a C++ function without its parameters: the text before the first bracket that is not a part of
/// the name.
fn without_parameters(name: &str) -> &str {
    let name = name.trim_start_matches('.');
    let own = ["(anonymous namespace)", "operator()"];
    let mut at = 0;
    while let Some(found) = name[at..].find('(') {
        let bracket = at + found;
        let part = own.iter().find_map(|part| {
            let start = bracket.checked_sub(part.find('(')?)?;
            name.get(start..)?.starts_with(part).then_some(start + part.len())
        });
        match part {
            Some(end) => at = end,
            None => return &name[..bracket],
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_no_part_of_a_name() {
        for (name, expect) in [
            ("malloc", "malloc"),
            (".malloc", "malloc"),
            ("f(int, (x))", "f"),
            ("(anonymous namespace)::f(int)", "(anonymous namespace)::f"),
            ("a::operator()(int)", "a::operator()"),
            ("operator()", "operator()"),
            ("main.(*T).run", "main."),
            ("", ""),
        ] {
            assert_eq!(without_parameters(name), expect, "{name}");
        }
    }

    #[test]
    fn patterns_match_whole_names() {
        assert!(Dropped::new("a|b", "").is_ok_and(|dropped| !dropped.drop.is_match("ab")));
        assert!(Dropped::new("(", "").is_err());
        assert!(Dropped::new("a", "(").is_err());
    }
}
