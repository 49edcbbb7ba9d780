//! Parser of the places in Java code that legacy pprof profiles list after their samples.
//!
//! ```text
//!  0x00000003 com.example.Main.work (Main.java:12)
//!  0x00000004 memcpy (/lib/libc.so.6)
//!  0x00000005 GC
//!  0x00000006 (generated stub/JIT)
//! ```
//!
//! Source: `legacy_java_profile.go` of google/pprof, which reads them. The numbers are IDs in the list, not
//! addresses.

use hashbrown::HashMap;
use pyrograph_profile::{Frame, FrameId, FrameKind, Profile};

use super::text::hex_address;

/// The parsed places.
#[derive(Default)]
pub(super) struct Places {
    places: HashMap<u64, Place>,
}

#[derive(Debug, PartialEq)]
struct Place {
    function: String,
    module: String,
    file: String,
    line: u32,
}

impl Places {
    /// Parses a line; returns `false` if it is not a place.
    pub fn line(&mut self, line: &str) -> bool {
        let line = line.trim_matches(|c: char| c.is_whitespace() || c == '\0');
        if line.is_empty() {
            return true;
        }
        let Some((number, text)) = line.split_once([' ', '\t']) else { return false };
        let Some(number) = hex_address(number) else { return false };
        self.places.insert(number, place(text.trim()));
        true
    }

    /// True if there are no places.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Interns the frame of each number. Returns each as a list with one element.
    pub fn frames(&self, numbers: &[u64], profile: &mut Profile) -> HashMap<u64, Vec<FrameId>> {
        let frame = |&number: &u64| {
            let frame = match self.places.get(&number) {
                Some(place) => {
                    let mut intern = |text: &str| profile.strings.intern(text);
                    let (function, module) = (intern(&place.function), intern(&place.module));
                    let kind = if place.file.is_empty() { FrameKind::User } else { FrameKind::Jit };
                    let file = intern(&place.file);
                    Frame { module, file, line: place.line, ..Frame::named(function, kind) }
                }
                None => Frame::default(),
            };
            (number, vec![profile.frames.intern(frame)])
        };
        numbers.iter().map(frame).collect()
    }
}

fn place(text: &str) -> Place {
    let of = |function: &str, module: &str, file: &str, line: u32| Place {
        function: function.to_owned(),
        module: module.to_owned(),
        file: file.to_owned(),
        line,
    };
    if text.contains("generated stub/JIT") {
        return of("STUB", "", "", 0);
    }
    let Some((function, place)) = text.strip_suffix(')').and_then(|text| text.rsplit_once(" ("))
    else {
        return of(text, "", "", 0);
    };
    match place.rsplit_once(':').map(|(file, line)| (file, line.parse::<i64>())) {
        // Native and unknown methods have a negative line.
        Some((file, Ok(line))) => of(function, "", file, u32::try_from(line).unwrap_or(0)),
        _ => of(function, place, "", 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_all_sorts() {
        let check = |text: &str, function: &str, module: &str, file: &str, line| {
            let place = place(text);
            assert_eq!(
                (&*place.function, &*place.module, &*place.file, place.line),
                (function, module, file, line),
                "{text}"
            );
        };
        check("a.B.f (B.java:12)", "a.B.f", "", "B.java", 12);
        check("a.B.f (B.java:-1)", "a.B.f", "", "B.java", 0);
        check(
            "operator new(unsigned long) (/lib/x.so)",
            "operator new(unsigned long)",
            "/lib/x.so",
            "",
            0,
        );
        check("GC", "GC", "", "", 0);
        check("(generated stub/JIT)", "STUB", "", "", 0);
        let mut places = Places::default();
        for line in ["", " 0x00000003 GC", "0x4\tVM"] {
            assert!(places.line(line), "{line}");
        }
        for line in ["x", "3 GC", "0x GC", "0xg GC"] {
            assert!(!places.line(line), "{line}");
        }
    }
}
