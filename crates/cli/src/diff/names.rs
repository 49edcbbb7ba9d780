//! Names that are compared as one, in a line.

use pyrograph_analyze::Renamed;

/// `compared as one: oldapp before and newapp after; --keep-names compares them apart`.
pub fn renamed(all: &[Renamed]) -> Option<String> {
    const MOST: usize = 3;
    if all.is_empty() {
        return None;
    }
    let names = |names: &std::collections::BTreeSet<String>| match names.len() {
        0..=MOST => names.iter().map(String::as_str).collect::<Vec<_>>().join(", "),
        len => {
            let first = names.iter().next().map_or("", String::as_str);
            format!("{first} … ({len} names)")
        }
    };
    let pair =
        |one: &Renamed| format!("{} before and {} after", names(&one.before), names(&one.after));
    let mut pairs: Vec<_> = all.iter().take(MOST).map(pair).collect();
    if all.len() > MOST {
        pairs.push(format!("{} more", all.len() - MOST));
    }
    Some(format!("compared as one: {}; --keep-names compares them apart", pairs.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_are_named_and_many_counted() {
        let of = |before: &[&str], after: &[&str]| Renamed {
            before: before.iter().map(|&name| name.to_owned()).collect(),
            after: after.iter().map(|&name| name.to_owned()).collect(),
            name: String::new(),
        };
        assert_eq!(renamed(&[]), None);
        let check = |all: &[Renamed], expect: &str| {
            let expect = format!("compared as one: {expect}; --keep-names compares them apart");
            assert_eq!(renamed(all), Some(expect));
        };
        check(&[of(&["old"], &["new"])], "old before and new after");
        let many = of(&["a-1", "a-2", "a-3", "a-4"], &["a-5", "a-6"]);
        check(std::slice::from_ref(&many), "a-1 … (4 names) before and a-5, a-6 after");
        let five = [0; 5].map(|_| of(&["x"], &["y"]));
        let pair = "x before and y after; ";
        check(&five, &format!("{pair}{pair}{pair}2 more"));
    }
}
