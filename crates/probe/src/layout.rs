//! Layout of types: what a value of a type consists of, and where its members are.

use gimli::AttributeValue;

use crate::program::{Entry, EntryId, MAX_REFERENCES, View};

/// Maximum number of names of an enumeration.
const MOST_NAMES: usize = 1024;

/// Maximum number of structures in one that are looked into for a member.
const MOST_STRUCTURES: usize = 256;

/// Layout of a type that is read.
pub(crate) enum Layout {
    Number { size: u64, signed: bool },
    Float { size: u64 },
    Truth,
    Character,
    Pointer { to: Option<EntryId> },
    Names { size: u64, signed: bool },
    Structure,
    Array { of: Option<EntryId> },
    Other,
}

impl View<'_> {
    /// A member of a structure, of what has no name in it, or of a base class, with its first bit. Names of others that were
    /// passed are added to `names`.
    pub(crate) fn find_member(
        &self,
        kind: EntryId,
        wanted: &[&str],
        names: &mut Vec<String>,
    ) -> Option<(EntryId, u64)> {
        self.find_in(kind, wanted, names, &mut { MOST_STRUCTURES })
    }

    /// `left`: number of structures that are still looked into. In damaged information one may contain itself.
    fn find_in(
        &self,
        kind: EntryId,
        wanted: &[&str],
        names: &mut Vec<String>,
        left: &mut usize,
    ) -> Option<(EntryId, u64)> {
        *left = left.checked_sub(1)?;
        let mut inner = Vec::new();
        for (id, entry) in self.children(kind) {
            let is_member = entry.tag() == gimli::DW_TAG_member;
            if !is_member && entry.tag() != gimli::DW_TAG_inheritance {
                continue;
            }
            let Some(offset) = self.first_bit(id) else { continue };
            match self.text(id, gimli::DW_AT_name).filter(|_| is_member) {
                Some(name) if wanted.contains(&name.as_str()) => return Some((id, offset)),
                Some(name) => names.push(name),
                None => inner.push((id, offset)),
            }
        }
        for (id, offset) in inner {
            let kind = self.plain(self.type_of(id));
            let found = kind.and_then(|kind| self.find_in(kind, wanted, names, left));
            if let Some((id, inside)) = found {
                return Some((id, offset.wrapping_add(inside)));
            }
        }
        None
    }

    /// What a value of a type can be, if it is one of several with data of their own: `Some`, `None`. Empty for other types.
    pub(crate) fn alternatives(&self, kind: EntryId) -> Vec<String> {
        let of_kind = |id, tag| {
            let children = self.children(id).into_iter();
            children.filter(move |(_, entry)| entry.tag() == tag).map(|(id, _)| id)
        };
        let parts = of_kind(kind, gimli::DW_TAG_variant_part);
        let variants = parts.flat_map(|part| of_kind(part, gimli::DW_TAG_variant));
        let members = variants.flat_map(|variant| of_kind(variant, gimli::DW_TAG_member));
        members.filter_map(|member| self.text(member, gimli::DW_AT_name)).take(MOST_NAMES).collect()
    }

    /// First bit of a member in its structure.
    fn first_bit(&self, id: EntryId) -> Option<u64> {
        let bytes = match self.attribute(id, gimli::DW_AT_data_member_location) {
            None => 0,
            Some((_, value)) => value.udata_value()?,
        };
        let bits = self.number(id, gimli::DW_AT_data_bit_offset).unwrap_or(0);
        let older = match self.number(id, gimli::DW_AT_bit_offset) {
            // Counted from the highest bit of a unit of this size.
            Some(offset) => {
                let unit = self
                    .number(id, gimli::DW_AT_byte_size)
                    .or_else(|| self.size(self.type_of(id)))?;
                let size = self.number(id, gimli::DW_AT_bit_size)?;
                (unit * 8).checked_sub(offset.checked_add(size)?)?
            }
            None => 0,
        };
        bytes.checked_mul(8)?.checked_add(bits)?.checked_add(older)
    }

    pub(crate) fn enumerators(&self, kind: Option<EntryId>) -> Vec<(i64, String)> {
        let Some(kind) = self.plain(kind) else { return Vec::new() };
        let of = |(id, entry): (EntryId, Entry<'_>)| {
            let value = entry.attr_value(gimli::DW_AT_const_value)?;
            let number =
                value.sdata_value().or_else(|| value.udata_value().map(u64::cast_signed))?;
            Some((number, self.text(id, gimli::DW_AT_name)?))
        };
        self.children(kind).into_iter().filter_map(of).take(MOST_NAMES).collect()
    }

    /// A type without names and qualifiers before it.
    pub(crate) fn plain(&self, kind: Option<EntryId>) -> Option<EntryId> {
        let mut kind = kind?;
        for _ in 0..MAX_REFERENCES {
            let tag = self.entry(kind)?.tag();
            let is_other = matches!(
                tag,
                gimli::DW_TAG_typedef
                    | gimli::DW_TAG_const_type
                    | gimli::DW_TAG_volatile_type
                    | gimli::DW_TAG_restrict_type
                    | gimli::DW_TAG_atomic_type
            );
            if !is_other {
                return Some(kind);
            }
            kind = self.type_of(kind)?;
        }
        None
    }

    pub(crate) fn layout(&self, kind: Option<EntryId>) -> Layout {
        let Some((id, entry)) = self.plain(kind).and_then(|id| Some((id, self.entry(id)?))) else {
            return Layout::Other;
        };
        let size = self.number(id, gimli::DW_AT_byte_size).unwrap_or(0);
        match entry.tag() {
            gimli::DW_TAG_base_type => match entry.attr_value(gimli::DW_AT_encoding) {
                Some(AttributeValue::Encoding(encoding)) => match encoding {
                    gimli::DW_ATE_boolean => Layout::Truth,
                    gimli::DW_ATE_signed_char | gimli::DW_ATE_unsigned_char if size == 1 => {
                        match self.text(id, gimli::DW_AT_name).as_deref() {
                            Some("char") => Layout::Character,
                            _ => Layout::Number {
                                size,
                                signed: encoding == gimli::DW_ATE_signed_char,
                            },
                        }
                    }
                    gimli::DW_ATE_float => Layout::Float { size },
                    gimli::DW_ATE_signed => Layout::Number { size, signed: true },
                    gimli::DW_ATE_unsigned | gimli::DW_ATE_UTF | gimli::DW_ATE_address => {
                        Layout::Number { size, signed: false }
                    }
                    _ => Layout::Other,
                },
                _ => Layout::Other,
            },
            gimli::DW_TAG_pointer_type
            | gimli::DW_TAG_reference_type
            | gimli::DW_TAG_rvalue_reference_type => Layout::Pointer { to: self.type_of(id) },
            gimli::DW_TAG_structure_type | gimli::DW_TAG_class_type | gimli::DW_TAG_union_type => {
                Layout::Structure
            }
            gimli::DW_TAG_array_type => Layout::Array { of: self.type_of(id) },
            gimli::DW_TAG_enumeration_type => {
                let of = self.layout(self.type_of(id));
                let signed = matches!(of, Layout::Number { signed: true, .. });
                Layout::Names { size, signed }
            }
            _ => Layout::Other,
        }
    }

    /// Size of a type in bytes.
    pub(crate) fn size(&self, kind: Option<EntryId>) -> Option<u64> {
        let id = self.plain(kind)?;
        if let Some(size) = self.number(id, gimli::DW_AT_byte_size) {
            return Some(size);
        }
        match self.layout(Some(id)) {
            Layout::Pointer { .. } => Some(8),
            Layout::Array { of } => {
                let counts = self.array_counts(id);
                let of = self.plain(of)?;
                let size = self.number(of, gimli::DW_AT_byte_size)?;
                counts.into_iter().try_fold(size, |size, count| size.checked_mul(count?))
            }
            _ => None,
        }
    }
}
