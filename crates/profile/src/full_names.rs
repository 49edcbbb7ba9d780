//! Names of functions with their parameters, and the choice of the functions whose frames need them.

use std::collections::BTreeMap;

use crate::{Profile, StringId};

/// Names of functions with their parameters, in addition to the names in frames. They are used for details, and for
/// comparisons with profiles in which overloads had to be distinguished.
///
/// A frame's function is named without parameters, `shop::price`, unless two functions of the profile have the same name
/// without them. Then it is `shop::price(int)`.
#[derive(Clone, Debug, Default)]
pub struct FullNames {
    /// Name with parameters, by the name in frames, which has none.
    of: BTreeMap<StringId, StringId>,
    /// Overloads: name without parameters, by the name in frames, which has them.
    whole: BTreeMap<StringId, StringId>,
}

impl FullNames {
    /// Returns the name with parameters of a function whose name in frames has none.
    pub fn get(&self, function: StringId) -> Option<StringId> {
        self.of.get(&function).copied()
    }

    /// Returns the name without parameters of an overload, whose name in frames has them.
    pub fn plain(&self, function: StringId) -> Option<StringId> {
        self.whole.get(&function).copied()
    }

    /// Sets the name with parameters of a function whose name in frames has none.
    pub fn insert(&mut self, function: StringId, full: StringId) {
        self.of.insert(function, full);
    }

    /// Sets the name without parameters of an overload, whose name in frames has them.
    pub fn insert_overload(&mut self, function: StringId, plain: StringId) {
        self.whole.insert(function, plain);
    }

    /// Iterates over the functions whose names in frames have no parameters: that name, and the name with parameters.
    pub fn iter(&self) -> impl Iterator<Item = (StringId, StringId)> + '_ {
        self.of.iter().map(|(&function, &full)| (function, full))
    }

    /// Iterates over all functions: the name without parameters, and the name with them.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (StringId, StringId)> + '_ {
        self.iter().chain(self.whole.iter().map(|(&full, &plain)| (plain, full)))
    }
}

impl Profile {
    /// Returns the name to use in frames for a function with these names without and with parameters. Call
    /// [`Profile::tell_overloads_apart`] after all frames have been added.
    pub fn function_named(&mut self, plain: &str, full: &str) -> StringId {
        let (plain, full) = (self.strings.intern(plain), self.strings.intern(full));
        if plain == full || self.full_names.of.get(&plain) == Some(&full) {
            return plain;
        }
        self.full_names.whole.insert(full, plain);
        full
    }

    /// Removes the parameters from the names of functions that are unique without them. Overloads keep theirs.
    pub fn tell_overloads_apart(&mut self) {
        let FullNames { of, whole } = &mut self.full_names;
        let mut overloads: BTreeMap<StringId, Vec<StringId>> = BTreeMap::new();
        for (&full, &plain) in &*whole {
            overloads.entry(plain).or_default().push(full);
        }
        let mut renamed: BTreeMap<StringId, StringId> = BTreeMap::new();
        for (plain, fulls) in overloads {
            match (of.get(&plain).copied(), &fulls[..]) {
                (None, &[full]) => {
                    of.insert(plain, full);
                    whole.remove(&full);
                    renamed.insert(full, plain);
                }
                (Some(first), _) => {
                    of.remove(&plain);
                    whole.insert(first, plain);
                    renamed.insert(plain, first);
                }
                (None, _) => {}
            }
        }
        if renamed.is_empty() {
            return;
        }
        let new = |function: StringId| renamed.get(&function).copied().unwrap_or(function);
        self.frames.set_functions(new);
        self.addresses.set_functions(new);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Frame, FrameKind, Sample, ValueType};

    fn add(profile: &mut Profile, plain: &str, full: &str) {
        let function = profile.function_named(plain, full);
        let frame = profile.frames.intern(Frame::named(function, FrameKind::User));
        let stack = profile.stacks.intern_path([frame]);
        profile.push(Sample::new(stack), &[1]);
    }

    fn names(profile: &Profile) -> Vec<&str> {
        let mut names: Vec<&str> = profile
            .samples
            .iter()
            .filter_map(|sample| profile.stacks.get(sample.stack))
            .map(|(_, frame)| profile.strings.get(profile.frames.get(frame).function))
            .collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn overloads_were_one_function() {
        let mut profile = Profile::new(vec![ValueType::samples()]);
        add(&mut profile, "price", "price(int)");
        add(&mut profile, "add", "add(int)");
        add(&mut profile, "price", "price(double)");
        add(&mut profile, "main", "main");
        profile.tell_overloads_apart();
        assert_eq!(names(&profile), ["add", "main", "price(double)", "price(int)"]);
        // Frames that come later are those that are there, or tell those apart.
        add(&mut profile, "add", "add(int)");
        profile.tell_overloads_apart();
        assert_eq!(names(&profile), ["add", "add", "main", "price(double)", "price(int)"]);
        add(&mut profile, "add", "add(char)");
        profile.tell_overloads_apart();
        let expect = ["add(char)", "add(int)", "add(int)", "main", "price(double)", "price(int)"];
        assert_eq!(names(&profile), expect);
        profile.check().expect("a whole profile");
    }

    #[test]
    fn overloads_in_two_profiles_are_told_apart_once_they_are_one() {
        let of = |full: &str| {
            let mut profile = Profile::new(vec![ValueType::samples()]);
            add(&mut profile, "price", full);
            profile.tell_overloads_apart();
            profile
        };
        let (mut same, mut other) = (of("price(int)"), of("price(int)"));
        assert_eq!(names(&same), ["price"]);
        same.merge(&of("price(int)")).expect("the same values");
        assert_eq!(names(&same), ["price", "price"]);
        other.merge(&of("price(double)")).expect("the same values");
        assert_eq!(names(&other), ["price(double)", "price(int)"]);
    }
}
