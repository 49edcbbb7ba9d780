//! Types: their names as they are written in the source, and their layout.

use gimli::{AttributeValue, DW_TAG_formal_parameter, DwAt};

use crate::program::{Entry, EntryId, View};

/// Maximum nesting of a type's name. Real names need a few levels; damaged ones may loop.
const MAX_DEPTH: usize = 24;

/// Nesting that is left to the parameters of a function type. Parameters of function types in these are not named: each
/// level would multiply the work.
const IN_FUNCTION_TYPE: usize = 8;

impl View<'_> {
    /// A type with a name, with or without `struct` and the like before it, that says what it consists of.
    pub(crate) fn type_named(&self, name: &str) -> Option<EntryId> {
        const PREFIXES: [&str; 4] = ["struct ", "union ", "class ", "enum "];
        let plain = PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix)).unwrap_or(name);
        let plain = plain.rsplit("::").next().unwrap_or(plain).trim();
        // As gcc writes it; clang's is the short name.
        let long = match plain {
            "short" => "short int",
            "long" => "long int",
            "long long" => "long long int",
            "unsigned" => "unsigned int",
            "unsigned short" => "short unsigned int",
            "unsigned long" => "long unsigned int",
            "unsigned long long" => "long long unsigned int",
            other => other,
        };
        let is_type = |tag| {
            matches!(
                tag,
                gimli::DW_TAG_structure_type
                    | gimli::DW_TAG_union_type
                    | gimli::DW_TAG_class_type
                    | gimli::DW_TAG_enumeration_type
                    | gimli::DW_TAG_typedef
                    | gimli::DW_TAG_base_type
            )
        };
        (0..self.units.len()).find_map(|unit| {
            let root = self.units.get(unit)?.header.root_offset();
            let mut below = vec![EntryId { unit, offset: root }];
            while let Some(id) = below.pop() {
                for (id, entry) in self.children(id) {
                    let is_whole = self.attribute(id, gimli::DW_AT_declaration).is_none();
                    let is_it = || {
                        let name = self.text(id, gimli::DW_AT_name);
                        name.is_some_and(|name| name == plain || name == long)
                    };
                    if is_type(entry.tag()) && is_whole && is_it() {
                        return Some(id);
                    }
                    if entry.tag() == gimli::DW_TAG_namespace {
                        below.push(id);
                    }
                }
            }
            None
        })
    }

    /// The type of an entry, or of what it is an instance of. `None` for `void`.
    pub(crate) fn type_of(&self, id: EntryId) -> Option<EntryId> {
        let (unit, value) = self.attribute(id, gimli::DW_AT_type)?;
        self.referred(unit, value)
    }

    /// Name of a type as it is written: `struct req *`, `const char *`, `int[4]`.
    pub(crate) fn type_name(&self, id: Option<EntryId>) -> String {
        self.name_of_type(id, MAX_DEPTH)
    }

    fn name_of_type(&self, id: Option<EntryId>, depth: usize) -> String {
        let Some((id, entry)) = id.and_then(|id| Some((id, self.entry(id)?))) else {
            return "void".to_owned();
        };
        let Some(deeper) = depth.checked_sub(1) else { return "…".to_owned() };
        let name = || self.text(id, gimli::DW_AT_name);
        let inner = || self.name_of_type(self.type_of(id), deeper);
        let keyword = |word: &str| match name() {
            Some(name) if self.is_c(id.unit) => format!("{word} {name}"),
            Some(name) => name,
            None => format!("{word} {{…}}"),
        };
        match entry.tag() {
            gimli::DW_TAG_pointer_type => match name() {
                // Rust names its pointers: `&str`, `*const u8`.
                Some(name) => name,
                None => pointer(&inner(), "*"),
            },
            gimli::DW_TAG_reference_type => pointer(&inner(), "&"),
            gimli::DW_TAG_rvalue_reference_type => pointer(&inner(), "&&"),
            gimli::DW_TAG_const_type => qualified(&inner(), "const"),
            gimli::DW_TAG_volatile_type => qualified(&inner(), "volatile"),
            gimli::DW_TAG_restrict_type | gimli::DW_TAG_atomic_type => inner(),
            gimli::DW_TAG_structure_type => keyword("struct"),
            gimli::DW_TAG_class_type => name().unwrap_or_else(|| "class {…}".to_owned()),
            gimli::DW_TAG_union_type => keyword("union"),
            gimli::DW_TAG_enumeration_type => keyword("enum"),
            gimli::DW_TAG_array_type => {
                let sizes: String = self
                    .array_counts(id)
                    .iter()
                    .map(|count| {
                        count.map_or_else(|| "[]".to_owned(), |count| format!("[{count}]"))
                    })
                    .collect();
                format!("{}{sizes}", inner())
            }
            gimli::DW_TAG_subroutine_type if depth <= IN_FUNCTION_TYPE => "(…)".to_owned(),
            gimli::DW_TAG_subroutine_type => {
                format!("{} ({})", inner(), self.parameters(id, IN_FUNCTION_TYPE).join(", "))
            }
            _ => name().unwrap_or_else(|| "?".to_owned()),
        }
    }

    fn language(&self, unit: usize) -> Option<gimli::DwLang> {
        let root = EntryId { unit, offset: self.units.get(unit)?.header.root_offset() };
        match self.entry(root)?.attr_value(gimli::DW_AT_language) {
            Some(AttributeValue::Language(language)) => Some(language),
            _ => None,
        }
    }

    /// True if the language of a unit writes `struct` and `enum` before the names of such types.
    fn is_c(&self, unit: usize) -> bool {
        matches!(
            self.language(unit),
            Some(
                gimli::DW_LANG_C
                    | gimli::DW_LANG_C89
                    | gimli::DW_LANG_C99
                    | gimli::DW_LANG_C11
                    | gimli::DW_LANG_C17
            )
        )
    }

    /// True if functions of a unit have their arguments where the calling convention of C has them. Go has one of its own.
    pub(crate) fn follows_convention(&self, unit: usize) -> bool {
        self.language(unit).is_some_and(|language| language != gimli::DW_LANG_Go)
    }

    /// Number of elements in each dimension of an array, outermost first; `None` if it is not known.
    pub(crate) fn array_counts(&self, id: EntryId) -> Vec<Option<u64>> {
        let children = self.children(id).into_iter();
        let ranges = children.filter(|(_, entry)| entry.tag() == gimli::DW_TAG_subrange_type);
        ranges
            .map(|(id, entry)| {
                let number = |name: DwAt| entry.attr_value(name).and_then(|of| of.udata_value());
                let count = number(gimli::DW_AT_count);
                let lower = self.number(id, gimli::DW_AT_lower_bound).unwrap_or(0);
                let upper = || number(gimli::DW_AT_upper_bound)?.checked_sub(lower)?.checked_add(1);
                count.or_else(upper)
            })
            .collect()
    }

    /// A function as it is declared. `id` is any entry of it, `name` its name.
    pub(crate) fn signature(&self, id: EntryId, name: &str) -> String {
        // A declaration may leave names of parameters out, and an inlined call parameters that it does not use.
        let is_whole = |entry: &Entry<'_>| entry.tag() == gimli::DW_TAG_subprogram;
        let entries = self.origins(id).into_iter().filter(|(_, entry)| is_whole(entry));
        let lists = entries.map(|(id, _)| self.parameters(id, MAX_DEPTH));
        let length = |list: &Vec<String>| list.iter().map(String::len).sum::<usize>();
        let parameters = lists.max_by_key(length).unwrap_or_default().join(", ");
        match self.type_name(self.type_of(id)) {
            result if result.ends_with(['*', '&']) => format!("{result}{name}({parameters})"),
            result => format!("{result} {name}({parameters})"),
        }
    }

    /// Parameters of a function or of its type, with their names if they have any.
    fn parameters(&self, id: EntryId, depth: usize) -> Vec<String> {
        let parameter = |(id, entry): (EntryId, Entry<'_>)| {
            if entry.tag() == gimli::DW_TAG_unspecified_parameters {
                return Some("...".to_owned());
            }
            let is_artificial = self.attribute(id, gimli::DW_AT_artificial).is_some();
            if entry.tag() != DW_TAG_formal_parameter || is_artificial {
                return None;
            }
            let kind = self.name_of_type(self.type_of(id), depth);
            Some(match self.text(id, gimli::DW_AT_name) {
                Some(name) if kind.ends_with(['*', '&']) => format!("{kind}{name}"),
                Some(name) => format!("{kind} {name}"),
                None => kind,
            })
        };
        self.children(id).into_iter().filter_map(parameter).collect()
    }
}

/// `char` and `*` are `char *`, `char *` and `*` are `char **`.
fn pointer(to: &str, mark: &str) -> String {
    match to.ends_with(['*', '&']) {
        true => format!("{to}{mark}"),
        false => format!("{to} {mark}"),
    }
}

/// `const char`, but `char *const`.
fn qualified(of: &str, word: &str) -> String {
    match of.ends_with(['*', '&']) {
        true => format!("{of}{word}"),
        false => format!("{word} {of}"),
    }
}
