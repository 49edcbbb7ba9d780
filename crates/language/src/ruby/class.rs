//! Classes of methods, in the form that Ruby 3.4 and later use in labels: `Class#method`, `Class.method`.
//!
//! The name of a class, and the object that a singleton class belongs to, are instance variables of the class. Up to
//! 3.1 their names are stored with them; in 3.2 the values are in an array and the names elsewhere. Later versions have
//! fields of the class instead.

use pyrograph_event::interpreter::ChunkPlan;

use super::Heap;
use super::layout::Layout;

/// Up to 3.1, instance variables of a class, including its name and the attached object, are in a `st_table` with hash,
/// key and value for each entry. Only the oldest entries are read; these two come before those of the program.
const ENTRIES: u64 = 6;
const ENTRY: u32 = 24;
const KEY: u32 = 8;
const VALUE: u32 = 16;
/// Bits of an ID that give the kind of name: variables of a program are of other kinds (`ID_SCOPE_MASK` of symbol.h).
const KIND: u64 = 0xe;

/// Class of a method.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// A class or module with this name.
    Named(String),
    /// The singleton class of the class or module with this name: its methods are called on the class itself.
    Of(String),
}

impl Class {
    /// Returns a label with the class before the method. Labels of code that is not a method are returned unchanged.
    pub fn label(&self, label: &str) -> String {
        let (before, method) = match label.rfind(" in ") {
            Some(at) => label.split_at(at + " in ".len()),
            None => ("", label),
        };
        // `<class:A>`, `<main>`, `<top (required)>`, `singleton class`; but not the operator `<=>`.
        if method.contains(' ') || method.starts_with('<') && method.len() > 3 {
            return label.to_owned();
        }
        match self {
            Self::Named(class) => format!("{before}{class}#{method}"),
            Self::Of(class) => format!("{before}{class}.{method}"),
        }
    }
}

/// Pieces of memory that name a method's class; `first` other pieces precede them.
pub(super) fn plan(layout: &Layout, first: u16) -> Vec<ChunkPlan> {
    let chunk = ChunkPlan::new;
    let text = |from| chunk(from, layout.string_pointer, 160);
    let class = chunk(ChunkPlan::OWNER, 0, 160);
    if let (Some(path), Some(attached)) = (layout.class_path, layout.class_attached) {
        return vec![
            class,
            chunk(first, path, 160),
            text(first + 1),
            chunk(first, attached, 160),
            chunk(first + 3, path, 160),
            text(first + 4),
        ];
    }
    if let Some(values) = layout.class_values {
        let of_class = |class: u16, next: u16| {
            vec![
                chunk(class, values, 8 * ENTRIES as u16),
                // The first variable: a name, or an object.
                chunk(next, 0, 160),
                text(next + 1),
                // The second variable.
                chunk(next, 8, 160),
                text(next + 3),
            ]
        };
        let name = of_class(first, first + 1);
        let of_attached = of_class(first + 2, first + 1 + name.len() as u16);
        return [vec![class], name, of_attached].concat();
    }
    let (Some(extension), Some(variables), Some(entries)) =
        (layout.class_extension, layout.class_variables, layout.table_entries)
    else {
        return Vec::new();
    };
    let of_class = |class: u16, next: u16| {
        vec![
            chunk(class, extension, 160),
            chunk(next, variables, 160),
            chunk(next + 1, entries, (ENTRIES as u32 * ENTRY) as u16),
            // The first variable: a name, or an object.
            chunk(next + 2, VALUE, 160),
            text(next + 3),
            // The second variable.
            chunk(next + 2, ENTRY + VALUE, 160),
            text(next + 5),
        ]
    };
    let name = of_class(first, first + 1);
    // The attached object is the first variable.
    let of_attached = of_class(first + 4, first + 1 + name.len() as u16);
    [vec![class], name, of_attached].concat()
}

impl Heap<'_> {
    fn kind(self, object: u64) -> Option<u32> {
        Some((self.flags(object)? & u64::from(self.layout.object_type_mask)) as u32)
    }

    fn is_class(self, object: u64) -> bool {
        let layout = self.layout;
        let kind = self.kind(object);
        kind == Some(layout.type_class_object) || kind == Some(layout.type_module_object)
    }

    /// Returns the class of a method; `None` if it has no name, or cannot be read.
    pub(super) fn class(self, class: u64) -> Option<Class> {
        if class & 7 != 0 || !self.is_class(class) {
            return None;
        }
        if self.flags(class)? & u64::from(self.layout.class_singleton) == 0 {
            return Some(Class::Named(self.class_name(class)?));
        }
        let is_class = |object: &u64| self.is_class(*object);
        let object = match self.layout.class_attached {
            Some(at) => self.object(class.wrapping_add(at.into())).filter(is_class),
            None => self.variables(class)?.into_iter().find(is_class),
        };
        Some(Class::Of(self.class_name(object?)?))
    }

    fn class_name(self, class: u64) -> Option<String> {
        let name = match (self.layout.class_path, self.layout.class_attached) {
            (Some(at), Some(_)) => self.string(self.object(class.wrapping_add(at.into()))?),
            _ => self.variables(class)?.into_iter().find_map(|value| self.name_in_variable(value)),
        };
        // An anonymous class, or one inside an anonymous class: `#<Class:0x00007f…>::Inner`.
        name.filter(|name| !name.contains("#<"))
    }

    /// Reads a string in a variable of a class. In 3.2 the variable may be the program's: then it is accepted only if
    /// the string looks like a class name and is interned.
    fn name_in_variable(self, object: u64) -> Option<String> {
        let name = self.string(object)?;
        if self.layout.class_values.is_none() {
            return Some(name);
        }
        let is_interned = self.flags(object)? & u64::from(self.layout.string_interned) != 0;
        let is_constant = |part: &str| part.starts_with(|first: char| first.is_uppercase());
        (is_interned && name.split("::").all(is_constant)).then_some(name)
    }

    /// Returns the objects in the first variables of a class; up to 3.1 without variables that the program has named.
    fn variables(self, class: u64) -> Option<Vec<u64>> {
        let layout = self.layout;
        if let Some(values) = layout.class_values {
            let values = self.object(class.wrapping_add(values.into()))?;
            let value = |number: u64| self.reader.u64(values.wrapping_add(8 * number));
            let values = (0..ENTRIES).map_while(value);
            return Some(values.filter(|object| object & 7 == 0 && *object != 0).collect());
        }
        let extension = self.object(class.wrapping_add(layout.class_extension?.into()))?;
        let table = self.object(extension.wrapping_add(layout.class_variables?.into()))?;
        let entries = self.object(table.wrapping_add(layout.table_entries?.into()))?;
        let variables = (0..ENTRIES).map_while(|number| {
            let field = |offset: u32| {
                entries.wrapping_add(number * u64::from(ENTRY)).wrapping_add(offset.into())
            };
            let key = self.reader.u64(field(KEY))?;
            let value = self.object(field(VALUE));
            Some(value.filter(|_| key & KIND == 0))
        });
        Some(variables.flatten().collect())
    }
}
