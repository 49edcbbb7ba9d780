//! Counts dangling references. A file that is cut between two fields is still a valid message, and only its
//! references show that the rest is missing: writers put the tables that samples refer to after the samples, and
//! strings after everything that refers to them.

use super::Label;
use super::tables::{Tables, numbers};
use crate::protobuf::Value;
use crate::warnings::WarningKind;

impl Tables<'_> {
    /// Number of dangling references between the tables, without the references of samples.
    pub(super) fn dangling(&self) -> u64 {
        let types = self.value_types.iter().chain([&self.period_type]);
        let types = types.flat_map(|&(name, unit)| [name, unit]);
        let about = [self.drop_frames, self.keep_frames, self.default_sample_type];
        let functions = self.functions.rows.iter();
        let functions = functions.flat_map(|of| [of.name, of.system_name, of.file]);
        let mappings = self.mappings.rows.iter().map(|of| of.file);
        let texts = types.chain(about).chain(functions).chain(mappings);
        let texts = texts.chain(self.comments.iter().copied());
        let texts = texts.filter(|&text| !self.has_text(text)).count() as u64;
        let locations = self.locations.rows.iter();
        texts + locations.map(|location| self.dangling_of_location(location)).sum::<u64>()
    }

    fn dangling_of_location(&self, location: &[u8]) -> u64 {
        let mut message = Value::Bytes(location).message();
        let mut dangling = 0;
        while let Ok(Some((field, value))) = message.next() {
            let is_there = match field {
                2 => value.number() == 0 || self.mappings.get(value.number()).is_some(),
                4 => numbers(value).is_ok_and(|[function]| {
                    function == 0 || self.functions.get(function).is_some()
                }),
                _ => true,
            };
            dangling += u64::from(!is_there);
        }
        dangling
    }

    /// Number of dangling references of a sample's labels.
    pub(super) fn dangling_of_labels(&self, labels: &[Label]) -> u64 {
        let texts = labels.iter().flat_map(|label| [label.key, label.text, label.unit]);
        texts.filter(|&text| !self.has_text(text)).count() as u64
    }

    /// True if a string exists; index 0 means "no string".
    fn has_text(&self, index: u64) -> bool {
        index == 0 || index < self.strings.len() as u64
    }
}

/// The warning about dangling references.
pub(super) fn warning(dangling: u64) -> WarningKind {
    let references = if dangling == 1 { "reference leads" } else { "references lead" };
    WarningKind::Damaged(format!(
        "{dangling} {references} to locations, functions, mappings or strings that are not in it: it was \
         probably cut short; stacks and names that are missing are [unknown]"
    ))
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use pyrograph_profile::{
        About, Frame, FrameKind, LabelOptions, Profile, Sample, StackId, Thread, Tree, ValueType,
    };

    use crate::protobuf::{Message, Writer};
    use crate::{Input, Options, WriteOptions, read, write_folded, writer_named};

    /// A small profile as pyrograph writes it, with everything that refers to something.
    fn compressed() -> Vec<u8> {
        let mut profile = Profile::new(vec![ValueType::new("cpu", "ns"), ValueType::samples()]);
        profile.about = About {
            start: Some(5),
            duration: Some(7),
            period: Some((ValueType::new("cpu", "ns"), 10)),
            comments: vec!["a comment".to_owned()],
            ..About::default()
        };
        let strings = &mut profile.strings;
        let process = strings.intern("app");
        let (module, file) = (strings.intern("/bin/app"), strings.intern("a.c"));
        let names = ["main", "work"].map(|name| strings.intern(name));
        let thread = Thread { process, pid: Some(1), tid: Some(2), ..Thread::default() };
        let thread = profile.threads.intern(thread);
        let frames = names.map(|name| {
            let frame = Frame::named(name, FrameKind::User);
            profile.frames.intern(Frame { module, file, line: 3, ..frame })
        });
        for length in 1..=2 {
            let mut stack = StackId::ROOT;
            for &frame in &frames[..length] {
                stack = profile.stacks.intern(stack, frame);
            }
            profile.push(Sample { thread, ..Sample::new(stack) }, &[10, 1]);
        }
        let mut out = Vec::new();
        let writer = writer_named("pprof").expect("a format");
        writer.write(&profile, &WriteOptions::default(), &mut out).expect("to memory");
        out
    }

    fn uncompressed() -> Vec<u8> {
        let mut bytes = Vec::new();
        let head = Input::bytes("x", compressed()).begin().expect("bytes");
        head.into_stream().read_to_end(&mut bytes).expect("gzip");
        bytes
    }

    /// The fields of a message with their bytes.
    fn fields(bytes: &[u8]) -> Vec<(u32, Vec<u8>)> {
        let mut message = Message(bytes);
        let mut fields = Vec::new();
        loop {
            let before = message.0;
            let Some((field, _)) = message.next().expect("whole") else { return fields };
            fields.push((field, before[..before.len() - message.0.len()].to_vec()));
        }
    }

    /// The lengths at which a cut is neither an error nor a loss.
    fn silent_cuts(bytes: &[u8]) -> Vec<usize> {
        let is_silent = |bytes: &[u8]| {
            read(vec![Input::bytes("x", bytes)], &Options::default())
                .is_ok_and(|(_, warnings)| !warnings.any_loss())
        };
        assert!(is_silent(bytes), "the whole file");
        (0..bytes.len()).filter(|&at| is_silent(&bytes[..at])).collect()
    }

    #[test]
    fn a_profile_that_is_cut_anywhere_says_so() {
        // The strings come last, and each of them is referred to.
        assert_eq!(silent_cuts(&uncompressed()), [0; 0]);
    }

    #[test]
    fn a_compressed_profile_that_is_cut_anywhere_says_so() {
        assert_eq!(silent_cuts(&compressed()), [0; 0]);
    }

    #[test]
    fn cuts_that_cannot_be_seen_take_only_what_may_be_missing() {
        // In the order of their numbers, as Go writes them: behind the strings are when it was
        // recorded, for how long, at what period, comments, and which value is shown. No file
        // need have these, and nothing refers to them: between two of them a cut cannot be seen.
        // Nor can one before the last string, which is the comment's: only the comment refers to it.
        let mut fields = fields(&uncompressed());
        fields.sort_by_key(|(field, _)| *field);
        let mut bytes = Vec::new();
        let mut expect = Vec::new();
        for (field, content) in &fields {
            if *field > 6 || content.ends_with(b"a comment") {
                expect.push(bytes.len());
            }
            bytes.extend_from_slice(content);
        }
        assert_eq!(expect.len(), 7);
        assert_eq!(silent_cuts(&bytes), expect);
    }

    /// As Datadog's library for .NET wrote them: all names were missing. And the last value, which is shown by default, was 0.
    #[test]
    fn functions_without_numbers_are_in_their_order() {
        let mut out = Writer::default();
        for name in 1..=2 {
            out.message(1, |out| out.number(1, name));
        }
        out.message(2, |out| {
            out.packed(1, [1, 2]);
            out.packed(2, [5, 0]);
        });
        for (location, name) in [(1, 3), (2, 4)] {
            out.message(4, |out| {
                out.number(1, location);
                out.message(4, |out| out.number(1, location));
            });
            out.message(5, |out| out.number(2, name));
        }
        for text in ["", "cpu", "locks", "work", "main"] {
            out.put(6, text.as_bytes());
        }
        let (profile, warnings) =
            read(vec![Input::bytes("x", out.bytes)], &Options::default()).expect("a profile");
        assert!(!warnings.any_loss());
        assert_eq!(profile.shown, 0);
        let mut text = Vec::new();
        let tree = Tree::new(&profile, &LabelOptions::default());
        write_folded(&tree, &mut text).expect("writing to memory");
        assert_eq!(String::from_utf8_lossy(&text), "main;work 5 0\n");
    }

    #[test]
    fn what_is_missing_is_counted() {
        let mut out = Writer::default();
        out.message(1, |out| out.number(1, 1));
        out.message(2, |out| {
            out.packed(1, [1, 9]);
            out.packed(2, [5]);
        });
        out.message(4, |out| {
            out.number(1, 1);
            out.number(2, 3);
            out.message(4, |out| out.number(1, 4));
        });
        out.put(6, b"");
        out.put(6, b"cpu");
        let (profile, warnings) =
            read(vec![Input::bytes("x", out.bytes)], &Options::default()).expect("a profile");
        let said: Vec<String> = warnings.iter().map(ToString::to_string).collect();
        assert_eq!(said.len(), 1, "{said:?}");
        // The location 9, the mapping 3 and the function 4.
        assert!(said[0].contains("3 references lead to locations"), "{said:?}");
        assert_eq!(profile.samples.total(0), 5);
    }
}
