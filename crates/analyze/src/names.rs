//! Names of functions in one of their forms.

use std::collections::BTreeMap;

use pyrograph_names::{Name, distinct};
use pyrograph_profile::{Frame, FrameKind, Profile, StringId};

/// A form of the names of functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameForm {
    /// Readable, with all that is known: parameters, packages, namespaces.
    Full,
    /// Without packages, namespaces and long template arguments, as far as that tells functions apart. Tiers of one
    /// function are one.
    Short,
    /// The same in every build and run: without numbers of closures and generated classes, clones, tiers, hashes, lines.
    Identity,
    /// As they were read.
    Raw,
}

/// The profile with names of functions in one form. What is the same then is one.
pub fn named(mut profile: Profile, form: NameForm) -> Profile {
    if form == NameForm::Raw {
        return profile;
    }
    let functions = functions(&profile);
    let texts: Vec<&str> = functions.values().map(|&full| profile.strings.get(full)).collect();
    let forms: Vec<String> = match form {
        NameForm::Short => distinct(&texts).into_iter().map(Into::into).collect(),
        NameForm::Identity => texts.iter().map(|text| Name::of(text).identity.into()).collect(),
        NameForm::Full | NameForm::Raw => {
            texts.iter().map(|text| Name::of(text).full.into()).collect()
        }
    };
    let mut names: Vec<StringId> = (0..profile.strings.len()).map(StringId::from_index).collect();
    for (function, form) in functions.into_keys().zip(forms) {
        let form = profile.strings.intern(&form);
        names[function.index()] = form;
    }
    profile.rename_functions(&names);
    profile
}

/// The functions of a profile, each with its name with parameters, where that is known.
fn functions(profile: &Profile) -> BTreeMap<StringId, StringId> {
    let is_function =
        |frame: &Frame| !frame.function.is_empty() && !matches!(frame.kind, FrameKind::Marker(_));
    let frames = profile.frames.iter().filter(is_function);
    let full = |function| profile.full_names.get(function).unwrap_or(function);
    frames.map(|frame| (frame.function, full(frame.function))).collect()
}

#[cfg(test)]
mod tests {
    use pyrograph_profile::{Sample, ValueType};

    use super::*;
    use crate::folded::folded;

    fn check(stacks: &[&str], form: NameForm, expect: &[&str]) {
        let mut profile = Profile::new(vec![ValueType::samples()]);
        for stack in stacks {
            let stack = profile.stack_of_names(stack.split(';'));
            profile.push(Sample::new(stack), &[1]);
        }
        let profile = named(profile, form);
        profile.check().expect("a whole profile");
        assert_eq!(folded(&profile), expect, "{form:?}");
    }

    #[test]
    fn numbered_classes_are_one_by_identity_alone() {
        let stacks = [
            "Shop.main;Shop$$Lambda$14/0x0000000800066840.apply",
            "Shop.main;Shop$$Lambda$15/0x0000000800067040.apply",
            "Shop.main;JS:*f /a.js:1",
            "Shop.main;JS:~f /a.js:9",
        ];
        let expect = ["Shop.main;Shop$$Lambda.apply 2", "Shop.main;f a.js 2"];
        check(&stacks, NameForm::Identity, &expect);
        let expect = [
            "Shop.main;Shop$$Lambda$14.apply 1",
            "Shop.main;Shop$$Lambda$15.apply 1",
            "Shop.main;f /a.js:1 1",
            "Shop.main;f /a.js:9 1",
        ];
        check(&stacks, NameForm::Short, &expect);
    }

    #[test]
    fn tiers_are_one_box_in_short_names() {
        let stacks = ["JS:*f /a.js:1", "JS:~f /a.js:1", "a::b::C::g(int)", "a::b::C::g(long)"];
        check(&stacks, NameForm::Short, &["C::g(int) 1", "C::g(long) 1", "f 2"]);
        check(&stacks[..1], NameForm::Full, &["f /a.js:1 1"]);
        check(&stacks[..1], NameForm::Raw, &["JS:*f /a.js:1 1"]);
    }
}
