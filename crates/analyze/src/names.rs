//! Forms of function names.

use std::collections::{BTreeMap, BTreeSet};

use pyrograph_names::{CodeKind, Name, distinct, kind_by_form, marked_kind};
use pyrograph_profile::{Frame, FrameKind, FullNames, Profile, StringId};

/// A form of function names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameForm {
    /// Readable and complete: with parameters, packages and namespaces.
    Full,
    /// Without packages, namespaces and long template arguments, unless they are needed to distinguish functions.
    /// Tiers of one function have the same name.
    Short,
    /// The same in every build and run: without the numbers of closures and generated classes, clones, tiers, hashes
    /// and lines.
    Identity,
    /// Unchanged, as in the input.
    Raw,
}

/// Converts the function names of a profile to a form. Functions with equal names are merged. If a short name or
/// identity belongs to a single full name, that is in [`Profile::full_names`].
pub fn named(profile: Profile, form: NameForm) -> Profile {
    let functions = functions(&profile);
    let texts: Vec<&str> = functions.values().map(|&full| profile.strings.get(full)).collect();
    let forms: Vec<String> = match form {
        NameForm::Raw => return profile,
        NameForm::Short => distinct(&texts).into_iter().map(Into::into).collect(),
        NameForm::Identity => texts.iter().map(|text| Name::of(text).identity.into()).collect(),
        NameForm::Full => texts.iter().map(|text| Name::of(text).full.into()).collect(),
    };
    let functions: Vec<(StringId, StringId)> = functions.into_iter().collect();
    renamed(profile, &functions, &forms)
}

/// Renames functions. `functions` are pairs of name and full name; `forms` are their new names.
pub(crate) fn renamed(
    mut profile: Profile,
    functions: &[(StringId, StringId)],
    forms: &[String],
) -> Profile {
    let mut names: Vec<StringId> = (0..profile.strings.len()).map(StringId::from_index).collect();
    let mut full_names: BTreeMap<StringId, BTreeSet<StringId>> = BTreeMap::new();
    for (&(function, full), form) in functions.iter().zip(forms) {
        let full = Name::of(profile.strings.get(full)).full.into_owned();
        let full = profile.strings.intern(&full);
        let form = profile.strings.intern(form);
        names[function.index()] = form;
        full_names.entry(form).or_default().insert(full);
    }
    keep_kinds(&mut profile);
    profile.rename_functions(&names);
    profile.full_names = FullNames::default();
    for (form, full) in full_names {
        if let Some(&full) = full.first().filter(|&&only| full.len() == 1 && only != form) {
            profile.full_names.insert(form, full);
        }
    }
    profile
}

/// Sets the kinds of frames that are known only from their names, because other forms of the names may not show them.
pub(crate) fn keep_kinds(profile: &mut Profile) {
    let said: Vec<Option<FrameKind>> = profile.strings.iter().map(kind_of).collect();
    let is_said =
        |frame: &Frame| frame.kind == FrameKind::User && said[frame.function.index()].is_some();
    if profile.frames.iter().any(|frame| is_said(&frame)) {
        profile.map_frames(|frame| match said[frame.function.index()] {
            Some(kind) if frame.kind == FrameKind::User => Frame { kind, ..frame },
            _ => frame,
        });
    }
}

fn kind_of(name: &str) -> Option<FrameKind> {
    let kind = marked_kind(name).or_else(|| kind_by_form(name))?;
    Some(match kind {
        CodeKind::Kernel => FrameKind::Kernel,
        CodeKind::Inlined => FrameKind::Inlined,
        CodeKind::Jit => FrameKind::Jit,
        CodeKind::Interpreted => FrameKind::Interpreted,
    })
}

/// Functions of a profile, each with its full name with parameters, if known, or its own name.
pub(crate) fn functions(profile: &Profile) -> BTreeMap<StringId, StringId> {
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

    /// The full name of each function that has another one.
    fn full_names(stacks: &[(&str, &str)], form: NameForm) -> Vec<(String, String)> {
        let mut profile = Profile::new(vec![ValueType::samples()]);
        for &(plain, full) in stacks {
            let function = profile.function_named(plain, full);
            let frame = profile.frames.intern(Frame::named(function, FrameKind::User));
            let stack = profile.stacks.intern_path([frame]);
            profile.push(Sample::new(stack), &[1]);
        }
        profile.tell_overloads_apart();
        let profile = named(profile, form);
        let text = |id| profile.strings.get(id).to_owned();
        profile.full_names.iter().map(|(of, full)| (text(of), text(full))).collect()
    }

    #[test]
    fn names_in_another_form_lost_their_full_names() {
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        let price = [("a::shop::price", "a::shop::price(int)")];
        for form in [NameForm::Short, NameForm::Identity] {
            let short = "shop::price";
            let expect = if form == NameForm::Short {
                vec![pair(short, "a::shop::price(int)")]
            } else {
                vec![]
            };
            assert_eq!(full_names(&price, form), expect, "{form:?}");
        }
        let list = [(
            "void java.util.List.sort(java.lang.Object)",
            "void java.util.List.sort(java.lang.Object)",
        )];
        assert_eq!(full_names(&list, NameForm::Short), [pair("List.sort", list[0].1)]);
        assert_eq!(full_names(&list, NameForm::Full), []);
        // An identity of several has none of them.
        let lambdas = ["a.Shop$$Lambda$1.apply", "a.Shop$$Lambda$2.apply"].map(|of| (of, of));
        assert_eq!(full_names(&lambdas, NameForm::Identity), []);
        let expect =
            [("Shop$$Lambda$1.apply", lambdas[0].0), ("Shop$$Lambda$2.apply", lambdas[1].0)];
        assert_eq!(full_names(&lambdas, NameForm::Short), expect.map(|(a, b)| pair(a, b)));
    }

    #[test]
    fn names_in_another_form_lost_the_kind_that_they_said() {
        let mut profile = Profile::new(vec![ValueType::samples()]);
        for name in ["run (app.py:7)", "java/util/List.get", "push_[i]", "read_[k]", "main"] {
            let stack = profile.stack_of_names([name]);
            profile.push(Sample::new(stack), &[1]);
        }
        let profile = named(profile, NameForm::Short);
        let kind = |frame: Frame| (profile.strings.get(frame.function), frame.kind);
        let found: Vec<(&str, FrameKind)> = profile.frames.iter().map(kind).collect();
        let expect = [
            ("run", FrameKind::Interpreted),
            ("List.get", FrameKind::Jit),
            ("push", FrameKind::Inlined),
            ("read_[k]", FrameKind::Kernel),
            ("main", FrameKind::User),
        ];
        assert_eq!(found, expect);
    }
}
