//! Functions of the kernel as it describes them itself (BTF, `Documentation/bpf/btf.rst` in its sources): their parameters,
//! what they return, and from where programs read the values of expressions that begin with these.

mod place;

use std::ffi::OsStr;
use std::os::fd::AsRawFd;

use libbpf_rs::btf::types::{
    Array, Composite, Enum, Enum64, Float, Func, FuncProto, Int, IntEncoding, MemberAttr,
};
use libbpf_rs::btf::{Btf, BtfKind, BtfType, TypeId};
use libbpf_rs::{HasSize as _, ReferencesType as _};
use pyrograph_event::values::{Bits, Memory, ReadValue};
use pyrograph_probe::{ARGUMENTS, Access, Error, Expression, RETURNED, Shape, Start};

use crate::kernel_types;

use self::place::{Item, Place, called, computed, few};

/// Maximum number of types that lead to one, or of structures that are looked into for a member.
const MOST_TYPES: usize = 256;

/// Maximum number of names in an error.
const MOST_NAMES: usize = 12;

/// Types of the kernel that runs.
pub struct KernelTypes {
    types: Btf<'static>,
}

impl std::fmt::Debug for KernelTypes {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.debug_struct("KernelTypes").field("len", &self.types.len()).finish()
    }
}

impl KernelTypes {
    /// Reads the types of the kernel that runs. `None` if it does not describe them (`CONFIG_DEBUG_INFO_BTF`).
    pub fn of_this_kernel() -> Option<Self> {
        Btf::from_vmlinux().ok().map(|types| Self { types })
    }

    /// Reads the types of the kernel that runs, and those of one of its modules. `None` if either is not described.
    pub fn with_module(module: &str) -> Option<Self> {
        let file = kernel_types::with_module(module)?;
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        Btf::from_path(path).ok().map(|types| Self { types })
    }

    /// Names of all functions with their signatures: `int icmp_rcv(struct sk_buff *skb)`.
    pub fn functions(&self) -> Vec<(String, String)> {
        let all = self.types.type_by_kind::<Func<'_>>();
        let signature = |of: Func<'_>| {
            let name = text(of.name());
            let prototype = FuncProto::try_from(of.referenced_type()).ok()?;
            let parameter = |(name, kind): (Option<&OsStr>, TypeId)| match text(name) {
                name if name.is_empty() => self.name_of(kind),
                name => with_name(self.name_of(kind), &name),
            };
            let parameters = prototype.iter().map(|of| parameter((of.name, of.ty)));
            let parameters = parameters.collect::<Vec<_>>().join(", ");
            let returned = prototype.referenced_type().type_id();
            let signature = format!("{name}({parameters})");
            Some((name, with_name(self.name_of(returned), &signature)))
        };
        all.filter_map(signature).collect()
    }

    /// Returns from where the value of an expression is read when a function is called, or when it returns: its parameters are
    /// as it was called with them. `as_text` reads the text that a pointer or an array of characters is.
    ///
    /// # Errors
    ///
    /// If the expression is none, the function is not described, or the value cannot be read; the error says why.
    pub fn value(
        &self,
        function: &str,
        returns: bool,
        expression: &str,
        as_text: bool,
    ) -> Result<(ReadValue, Shape), Error> {
        let refuse = |why: String| Error::Value { expression: expression.to_owned(), why };
        let parsed = Expression::parse(expression).map_err(|why| Error::Expression { why })?;
        let mut all = self.types.type_by_kind::<Func<'_>>();
        let found = all.find(|of| of.name() == Some(OsStr::new(function)));
        let prototype = found.and_then(|of| FuncProto::try_from(of.referenced_type()).ok());
        let prototype = prototype.ok_or_else(|| {
            refuse(format!(
                "the kernel does not describe {function}; arg1 to arg6 are its registers"
            ))
        })?;
        let mut item = match &parsed.start {
            Start::Returned if returns => computed(RETURNED, prototype.referenced_type().type_id()),
            Start::Register(number) => computed(*number, TypeId::from(0)),
            Start::Returned => {
                return Err(refuse("kretprobe: has what a function returns".to_owned()));
            }
            Start::Variable(name) => {
                let (register, kind) = self.parameter(&prototype, name).map_err(refuse)?;
                match returns {
                    true => called(register, kind),
                    false => computed(register, kind),
                }
            }
        };
        for step in &parsed.steps {
            item = self.step(item, step).map_err(refuse)?;
        }
        self.read(item, as_text).map_err(refuse)
    }

    /// The register in which a function gets a parameter, and its type.
    fn parameter(&self, prototype: &FuncProto<'_>, wanted: &str) -> Result<(u16, TypeId), String> {
        let names = || prototype.iter().map(|of| text(of.name));
        let Some(index) = names().position(|name| name == wanted) else {
            let names = names().collect::<Vec<_>>().join(", ");
            return Err(match names.is_empty() {
                true => "it has no parameters".to_owned(),
                false => format!("there is no such parameter; there are {names}"),
            });
        };
        // Structures take none of these registers, or several.
        let is_number = |kind: TypeId| {
            let plain = self.plain(kind).map(|kind| kind.kind());
            !matches!(plain, None | Some(BtfKind::Struct | BtfKind::Union | BtfKind::Float))
        };
        let all_numbers = prototype.iter().take(index + 1).all(|of| is_number(of.ty));
        match (prototype.get(index), ARGUMENTS.get(index)) {
            (Some(of), Some(register)) if all_numbers => Ok((*register, of.ty)),
            (_, None) => Err("it is on the stack, from where it is not read".to_owned()),
            _ => Err("it or one before it is a structure, and in other registers".to_owned()),
        }
    }

    /// A type without what does not change its layout. `None` for `void`.
    fn plain(&self, kind: TypeId) -> Option<BtfType<'_>> {
        let mut kind = self.types.type_by_id::<BtfType<'_>>(kind)?;
        for _ in 0..MOST_TYPES {
            let is_other_name = matches!(
                kind.kind(),
                BtfKind::Typedef
                    | BtfKind::Const
                    | BtfKind::Volatile
                    | BtfKind::Restrict
                    | BtfKind::TypeTag
            );
            if !is_other_name {
                return Some(kind).filter(|kind| kind.kind() != BtfKind::Void);
            }
            kind = kind.next_type()?;
        }
        None
    }

    /// Name of a type, as C has it.
    fn name_of(&self, kind: TypeId) -> String {
        self.named(kind, MOST_TYPES)
    }

    fn named(&self, kind: TypeId, left: usize) -> String {
        let Some(of) = self.types.type_by_id::<BtfType<'_>>(kind) else { return "void".to_owned() };
        let Some(left) = left.checked_sub(1) else { return "?".to_owned() };
        let inner = || {
            of.next_type().map_or_else(|| "void".to_owned(), |to| self.named(to.type_id(), left))
        };
        let name = match text(of.name()) {
            name if name.is_empty() => "{}".to_owned(),
            name => name,
        };
        match of.kind() {
            BtfKind::Void => "void".to_owned(),
            BtfKind::Ptr => with_name(inner(), "*"),
            BtfKind::Const => format!("const {}", inner()),
            BtfKind::Volatile => format!("volatile {}", inner()),
            BtfKind::Restrict | BtfKind::TypeTag => inner(),
            BtfKind::Struct => format!("struct {name}"),
            BtfKind::Union => format!("union {name}"),
            BtfKind::Enum | BtfKind::Enum64 => format!("enum {name}"),
            BtfKind::Fwd => format!("struct {name}"),
            BtfKind::FuncProto => "function".to_owned(),
            BtfKind::Array => match Array::try_from(of) {
                Ok(array) => format!("{}[{}]", self.named(array.ty(), left), array.capacity()),
                Err(_) => "array".to_owned(),
            },
            _ => name,
        }
    }

    fn step(&self, item: Item, step: &Access) -> Result<Item, String> {
        match step {
            Access::Target => self.target(item),
            Access::Cast(name, pointers) => {
                // An array is taken for a pointer to its first element.
                let is_array = item.pointers == 0
                    && self.plain(item.kind).is_some_and(|of| of.kind() == BtfKind::Array);
                let value = match item.place {
                    Place::Memory(address) if is_array => address,
                    place => place.pointer(),
                };
                let kind =
                    self.named_type(name).ok_or_else(|| format!("there is no type '{name}'"))?;
                Ok(Item { place: Place::Computed(value), bits: None, kind, pointers: *pointers })
            }
            Access::Element(index) => self.element(item, *index),
            Access::Member(name) => {
                let item = if self.is_pointer(&item) { self.target(item)? } else { item };
                self.member(item, name)
            }
            Access::Address => match item.place {
                // The address of what is there is as good as a pointer to it, without a type.
                Place::Memory(address) => {
                    let kind = TypeId::from(0);
                    Ok(Item { place: Place::Computed(address), bits: None, kind, pointers: 0 })
                }
                Place::Computed(_) => Err("it is not in memory, and has no address".to_owned()),
            },
        }
    }

    fn is_pointer(&self, item: &Item) -> bool {
        item.pointers > 0 || self.plain(item.kind).is_some_and(|of| of.kind() == BtfKind::Ptr)
    }

    /// A type by its name, with or without `struct` and the like before it.
    fn named_type(&self, name: &str) -> Option<TypeId> {
        const PREFIXES: [&str; 3] = ["struct ", "union ", "enum "];
        let plain = PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix)).unwrap_or(name);
        let plain = OsStr::new(plain.trim());
        let is_type = |of: &BtfType<'_>| {
            matches!(
                of.kind(),
                BtfKind::Struct
                    | BtfKind::Union
                    | BtfKind::Enum
                    | BtfKind::Enum64
                    | BtfKind::Typedef
                    | BtfKind::Int
            )
        };
        let mut all = self.types.type_by_kind::<BtfType<'_>>();
        all.find(|of| of.name() == Some(plain) && is_type(of)).map(|of| of.type_id())
    }

    fn target(&self, item: Item) -> Result<Item, String> {
        if item.pointers > 0 {
            let address = item.place.pointer();
            let (place, pointers) = (Place::Memory(address), item.pointers - 1);
            return Ok(Item { place, bits: None, kind: item.kind, pointers });
        }
        let kind = self.plain(item.kind);
        let to = match kind.map(|kind| (kind.kind(), kind.next_type())) {
            Some((BtfKind::Ptr, to)) => to,
            Some((BtfKind::Array, _)) => return self.element(item, 0),
            _ => return Err(format!("{} is no pointer", self.name_of(item.kind))),
        };
        let address = item.place.pointer();
        let kind = to.map_or_else(|| TypeId::from(0), |to| to.type_id());
        Ok(Item { place: Place::Memory(address), bits: None, kind, pointers: 0 })
    }

    fn element(&self, item: Item, index: i64) -> Result<Item, String> {
        let kind = self.plain(item.kind);
        let (item, of) = match kind.map(|kind| (kind.kind(), Array::try_from(kind))) {
            _ if self.is_pointer(&item) => {
                let item = self.target(item)?;
                let kind = item.kind;
                (item, kind)
            }
            Some((BtfKind::Array, Ok(array))) => (item, array.ty()),
            _ => return Err(format!("{} has no elements", self.name_of(item.kind))),
        };
        // Elements that are pointers by a cast.
        let size = if item.pointers > 0 { Some(8) } else { self.size(of, MOST_TYPES) };
        let size = size.ok_or("the size of its elements is not known")?;
        let bytes = index.checked_mul(size).ok_or("the place is out of range")?;
        let Place::Memory(mut address) = item.place else {
            return Err("it is not in memory".to_owned());
        };
        address.add = address.add.wrapping_add(bytes);
        Ok(Item { place: Place::Memory(address), bits: None, kind: of, pointers: item.pointers })
    }

    /// Size of a type in bytes.
    fn size(&self, kind: TypeId, left: usize) -> Option<i64> {
        let left = left.checked_sub(1)?;
        let of = self.plain(kind)?;
        let size = match of.kind() {
            BtfKind::Ptr => 8,
            BtfKind::Int => Int::try_from(of).ok()?.size(),
            BtfKind::Enum => Enum::try_from(of).ok()?.size(),
            BtfKind::Enum64 => Enum64::try_from(of).ok()?.size(),
            BtfKind::Float => Float::try_from(of).ok()?.size(),
            BtfKind::Array => {
                let array = Array::try_from(of).ok()?;
                let each = self.size(array.ty(), left)?;
                return each.checked_mul(i64::try_from(array.capacity()).ok()?);
            }
            _ => Composite::try_from(of).ok()?.size(),
        };
        i64::try_from(size).ok()
    }

    fn member(&self, item: Item, wanted: &str) -> Result<Item, String> {
        let has_none = || format!("{} has no members", self.name_of(item.kind));
        let structure = self.plain(item.kind).and_then(|kind| Composite::try_from(kind).ok());
        let structure = structure.ok_or_else(has_none)?;
        let mut names = Vec::new();
        let found = self.find(&structure, wanted, 0, &mut names, &mut { MOST_TYPES });
        let Some((kind, offset, bits)) = found else {
            names.truncate(MOST_NAMES);
            let names = names.join(", ");
            let structure = self.name_of(item.kind);
            return Err(format!("{structure} has no member '{wanted}'; it has {names}"));
        };
        let Place::Memory(mut address) = item.place else {
            return Err("it is not in memory".to_owned());
        };
        address.add = address.add.wrapping_add(i64::from(offset / 8));
        let bits = bits.map(|count| (u64::from(offset % 8), count));
        Ok(Item { place: Place::Memory(address), bits, kind, pointers: 0 })
    }

    /// A member of a structure, or of one in it that has no name: its type, its first bit, and how many it has if they are
    /// fewer than its type's.
    fn find(
        &self,
        structure: &Composite<'_>,
        wanted: &str,
        start: u32,
        names: &mut Vec<String>,
        left: &mut usize,
    ) -> Option<(TypeId, u32, Option<u8>)> {
        *left = left.checked_sub(1)?;
        for member in structure.iter() {
            let (offset, bits) = match member.attr {
                MemberAttr::Normal { offset } => (offset, None),
                MemberAttr::BitField { size, offset } => (offset, Some(size)),
            };
            let offset = start.wrapping_add(offset);
            match text(member.name) {
                name if name == wanted => return Some((member.ty, offset, bits)),
                name if name.is_empty() => {
                    let inner = self.plain(member.ty).and_then(|of| Composite::try_from(of).ok());
                    let found =
                        inner.and_then(|inner| self.find(&inner, wanted, offset, names, left));
                    if found.is_some() {
                        return found;
                    }
                }
                name => names.push(name),
            }
        }
        None
    }

    fn read(&self, item: Item, as_text: bool) -> Result<(ReadValue, Shape), String> {
        let name = || self.name_of(item.kind);
        let kind = self.plain(item.kind);
        if item.pointers > 0 && !as_text {
            let value = item.place.pointer();
            return Ok((ReadValue::Number(few(value)?.number(), Bits::ALL), Shape::Address));
        }
        if as_text {
            let is_pointer = self.is_pointer(&item);
            let number = match (kind.map(|of| of.kind()), item.place) {
                (_, place) if is_pointer => place.pointer(),
                (Some(BtfKind::Array), Place::Memory(address)) => address,
                (None, Place::Computed(address)) => address,
                _ => return Err(format!("{} is no text", name())),
            };
            let text = ReadValue::Text(few(number)?.number(), Memory::Kernel);
            return Ok((text, Shape::Text { length: None }));
        }
        let (signed, shape) = match kind {
            Some(of) => match of.kind() {
                BtfKind::Int => {
                    let number = Int::try_from(of).map_err(|_| name())?;
                    let signed = matches!(number.encoding, IntEncoding::Signed);
                    let is_char = text(of.name()) == "char" && item.bits.is_none();
                    let shape = match number.encoding {
                        IntEncoding::Bool if item.bits.is_none() => Some(Shape::Truth),
                        _ if is_char => Some(Shape::Character),
                        _ => None,
                    };
                    (signed, shape)
                }
                BtfKind::Ptr => (false, Some(Shape::Address)),
                BtfKind::Enum | BtfKind::Enum64 => {
                    let (signed, names) = names_of(of).ok_or_else(name)?;
                    (signed, Some(Shape::Names { signed, bits: (0, 0), names }))
                }
                BtfKind::Array => {
                    return Err(format!(
                        "{} has several values: [0] is the first, :string reads characters",
                        name()
                    ));
                }
                BtfKind::Struct | BtfKind::Union => {
                    let mut names = Vec::new();
                    if let Ok(structure) = Composite::try_from(of) {
                        self.find(&structure, "", 0, &mut names, &mut { MOST_TYPES });
                    }
                    names.truncate(MOST_NAMES);
                    let names = names.join(", ");
                    return Err(format!("{} has several values; its members are {names}", name()));
                }
                _ => return Err(format!("values of the type {} are not read", name())),
            },
            // An address without a type.
            None if matches!(item.place, Place::Computed(_)) => (false, Some(Shape::Address)),
            None => return Err("it has no type".to_owned()),
        };
        let size = if kind.is_some() { self.size(item.kind, MOST_TYPES) } else { Some(8) };
        let whole = size.and_then(|size| u8::try_from(size * 8).ok()).filter(|bits| *bits <= 64);
        let whole = whole.ok_or_else(|| format!("values of the type {} are not read", name()))?;
        let (first, count) = match item.bits {
            Some((first, count)) => (u8::try_from(first).unwrap_or(0), count),
            None => (0, whole),
        };
        let number = match item.place {
            Place::Computed(value) => value,
            // A field of bits may reach into the next bytes.
            Place::Memory(address) => {
                let size = [1u8, 2, 4, 8].into_iter().find(|size| first + count <= size * 8);
                address.load(size.ok_or("its bits are in nine bytes")?)
            }
        };
        let shape = match shape {
            Some(Shape::Names { signed, names, .. }) => {
                Shape::Names { signed, bits: (0, count), names }
            }
            Some(shape) => shape,
            None => Shape::Number { signed, bits: (0, count) },
        };
        let bits = Bits { first, count, signed };
        Ok((ReadValue::Number(few(number)?.number(), bits), shape))
    }
}

/// Signedness and names of an enumeration.
fn names_of(of: BtfType<'_>) -> Option<(bool, Vec<(i64, String)>)> {
    if let Ok(of) = Enum::try_from(of) {
        let names = of.iter().map(|member| (member.value, text(member.name))).collect();
        return Some((of.is_signed(), names));
    }
    let of = Enum64::try_from(of).ok()?;
    // As the bits that are read, whatever their sign.
    let names = of.iter().map(|member| (member.value as i64, text(member.name))).collect();
    Some((of.is_signed(), names))
}

fn text(name: Option<&OsStr>) -> String {
    name.unwrap_or_default().to_string_lossy().into_owned()
}

/// A type and what has it: `int x`, `char *x`.
fn with_name(kind: String, name: &str) -> String {
    if kind.ends_with('*') { format!("{kind}{name}") } else { format!("{kind} {name}") }
}

#[cfg(test)]
mod tests {
    use pyrograph_event::values::{ReadBase, ReadNumber, ReadStep};

    use super::*;

    fn types() -> Option<KernelTypes> {
        let types = KernelTypes::of_this_kernel();
        if types.is_none() {
            eprintln!("skipped: this kernel does not describe its types");
        }
        types
    }

    fn number(register: u16, steps: &[(i64, u8)]) -> ReadNumber {
        let memory = Memory::Kernel;
        let step = |(add, load): &(i64, u8)| ReadStep { add: *add, load: *load, memory };
        ReadNumber { base: ReadBase::Register(register), steps: steps.iter().map(step).collect() }
    }

    #[test]
    fn parameters_and_members_are_found() {
        let Some(types) = types() else { return };
        // ssize_t vfs_read(struct file *file, char __user *buf, size_t count, loff_t *pos), since Linux 2.6
        let value = |expression, as_text| types.value("vfs_read", false, expression, as_text);
        let bits = |count, signed| Bits { first: 0, count, signed };
        let (read, shape) = value("count", false).expect("it is there");
        assert_eq!(read, ReadValue::Number(number(1, &[]), bits(64, false)));
        assert_eq!(shape, Shape::Number { signed: false, bits: (0, 64) });
        assert_eq!(value("buf", false).expect("it is there").1, Shape::Address);
        let (read, _) = value("*pos", false).expect("it is there");
        assert_eq!(read, ReadValue::Number(number(2, &[(0, 8)]), bits(64, true)));
        // Unnamed unions within `struct dentry` and `struct qstr` are looked through.
        let (read, shape) = value("file->f_path.dentry->d_name.name", true).expect("it is there");
        let ReadValue::Text(read, Memory::Kernel) = read else { panic!("{read:?}") };
        assert_eq!((read.steps.len(), shape), (2, Shape::Text { length: None }));
        assert!(value("file->f_path.dentry->d_name.len", false).is_ok());
        // The same by a cast.
        let cast = "((struct dentry *)file->f_path.dentry)->d_name.len";
        assert_eq!(value(cast, false).ok(), value("file->f_path.dentry->d_name.len", false).ok());
        assert!(value("((struct nosuch *)file)->x", false).is_err());
        let (read, shape) = types.value("vfs_read", true, "$retval", false).expect("it is there");
        assert_eq!(read, ReadValue::Number(number(0, &[]), bits(64, true)));
        assert_eq!(shape, Shape::Number { signed: true, bits: (0, 64) });
        // What it was called with, when it returns; a register, whatever is in it.
        let (read, _) = types.value("vfs_read", true, "count", false).expect("it is there");
        let called = ReadNumber { base: ReadBase::Called(1), steps: Vec::new() };
        assert_eq!(read, ReadValue::Number(called, bits(64, false)));
        let (read, shape) = value("%bx", false).expect("it is there");
        assert_eq!((read, shape), (ReadValue::Number(number(3, &[]), Bits::ALL), Shape::Address));
        assert!(value("((struct file *)%di)->f_path.dentry", false).is_ok());
    }

    #[test]
    fn what_is_not_there_is_said() {
        let Some(types) = types() else { return };
        let error = |function, returns, expression, as_text| {
            let error = types.value(function, returns, expression, as_text);
            error.expect_err("not there").to_string()
        };
        for (expression, as_text, expect) in [
            ("size", false, "there is no such parameter; there are file, buf, count, pos"),
            ("file->nosuch", false, "struct file has no member 'nosuch'; it has "),
            ("count->x", false, "size_t has no members"),
            ("*count", false, "size_t is no pointer"),
            ("*file", false, "struct file has several values; its members are "),
            ("count", true, "size_t is no text"),
            ("&count", false, "it is not in memory"),
            ("$retval", false, "kretprobe: has what a function returns"),
            ("a b", false, "is expected"),
        ] {
            let error = error("vfs_read", false, expression, as_text);
            assert!(error.contains(expect), "{expression}: {error}");
        }
        assert!(error("vfs_read", true, "size", false).contains("there are file, buf, count, pos"));
        assert!(error("no_such_function", false, "x", false).contains("does not describe"));
    }

    #[test]
    fn functions_have_signatures() {
        let Some(types) = types() else { return };
        let functions = types.functions();
        assert!(functions.len() > 1000, "{}", functions.len());
        let of = |name| functions.iter().find(|(known, _)| known == name);
        let (_, signature) = of("vfs_read").expect("every kernel has it");
        let expect = "ssize_t vfs_read(struct file *file, char *buf, size_t count, loff_t *pos)";
        assert_eq!(signature, expect);
    }
}
