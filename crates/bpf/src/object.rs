//! Objects of compiled programs: unpacking, and access to their maps and programs by name.

use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd};

use flate2::read::GzDecoder;
use libbpf_rs::{MapCore, MapHandle, Object, RingBuffer, RingBufferBuilder, libbpf_sys};

use crate::error::Error;

/// Compiled programs, compressed by gzip: they take a sixth of the size, and milliseconds to unpack.
pub struct Packed(pub &'static [u8]);

impl Packed {
    /// Decompresses the object. libbpf reads it in place in memory, which requires its alignment: it is returned in
    /// words, of which the last is padded.
    pub fn unpack(&self) -> io::Result<Vec<u64>> {
        let mut bytes = Vec::new();
        GzDecoder::new(self.0).read_to_end(&mut bytes)?;
        let mut words = vec![0u64; bytes.len().div_ceil(8)];
        bytemuck::cast_slice_mut::<u64, u8>(&mut words)[..bytes.len()].copy_from_slice(&bytes);
        Ok(words)
    }
}

/// Creates a ring buffer reader that passes each record to `take`.
pub fn ring(
    object: &Object,
    name: &'static str,
    take: impl Fn(&[u8]) + 'static,
) -> Result<RingBuffer<'static>, Error> {
    let mut rings = RingBufferBuilder::new();
    let ring = handle(object, name)?;
    let take = move |bytes: &[u8]| {
        take(bytes);
        0
    };
    rings.add(&ring, take).map_err(Error::map(name))?;
    rings.build().map_err(Error::map(name))
}

pub fn handle(object: &Object, name: &'static str) -> Result<MapHandle, Error> {
    let map = object.maps().find(|map| {
        let found = map.name().to_string_lossy();
        // The kernel truncates names to 15 bytes, and libbpf puts the object's name in front of `.bss`.
        found == name || (name.starts_with('.') && found.ends_with(name))
    });
    let map = map.ok_or_else(|| Error::missing("map", name))?;
    MapHandle::try_from(&map).map_err(Error::map(name))
}

pub fn program<'a>(
    object: &'a Object,
    name: &'static str,
) -> Result<libbpf_rs::ProgramMut<'a>, Error> {
    object
        .progs_mut()
        .find(|program| program.name() == name)
        .ok_or_else(|| Error::missing("program", name))
}

/// Runs a program of type `raw_tp` on each online CPU, one after the other.
pub fn run_on_cpus(object: &Object, name: &'static str, cpus: u32) -> Result<(), Error> {
    /// include/uapi/linux/bpf.h
    const TEST_RUN_ON_CPU: u32 = 1;
    let program = program(object, name)?;
    let mut options = libbpf_sys::bpf_test_run_opts {
        sz: size_of::<libbpf_sys::bpf_test_run_opts>() as libbpf_sys::size_t,
        flags: TEST_RUN_ON_CPU,
        ..libbpf_sys::bpf_test_run_opts::default()
    };
    for cpu in 0..cpus {
        options.cpu = cpu;
        // libbpf_rs does not return the error number.
        // SAFETY: the descriptor is open, and the options have their size and no pointers.
        let result = unsafe {
            libbpf_sys::bpf_prog_test_run_opts(program.as_fd().as_raw_fd(), &raw mut options)
        };
        match -result {
            0 => {}
            // The CPU is offline.
            libc::ENXIO if cpu > 0 => {}
            errno => return Err(Error::attach(name)(io::Error::from_raw_os_error(errno).into())),
        }
    }
    Ok(())
}

/// A structure that is shared with programs: its name there, its size, and the names and offsets of its fields.
#[cfg(test)]
pub struct Layout {
    pub name: &'static str,
    pub size: usize,
    pub fields: Vec<(&'static str, usize)>,
}

/// Makes the [`Layout`] of a structure: `layout!("site": Site { key, events = count.events })`. A field that has
/// another place or name here is given as `field = place`.
#[cfg(test)]
macro_rules! layout {
    ($name:literal: $type:ty { $($field:ident $(= $($place:ident).+)?),* $(,)? }) => {
        $crate::object::Layout {
            name: $name,
            size: size_of::<$type>(),
            fields: vec![$((stringify!($field), $crate::object::layout!(@ $type, $field $(= $($place).+)?))),*],
        }
    };
    (@ $type:ty, $field:ident) => { std::mem::offset_of!($type, $field) };
    (@ $type:ty, $field:ident = $($place:ident).+) => { std::mem::offset_of!($type, $($place).+) };
}
#[cfg(test)]
pub(crate) use layout;

/// Checks that structures are the same on both sides, field by field: if two fields of one size were exchanged, they
/// would be mistaken for each other.
#[cfg(test)]
pub fn assert_layouts(programs: &Packed, layouts: &[Layout]) {
    use libbpf_rs::btf::types::{MemberAttr, Struct};
    use libbpf_rs::btf::{Btf, HasSize};

    let file = tempfile::NamedTempFile::new().expect("a file");
    let words = programs.unpack().expect("an object");
    std::fs::write(file.path(), bytemuck::cast_slice::<u64, u8>(&words)).expect("room");
    let types = Btf::from_path(file.path()).expect("its types");
    for Layout { name, size, fields } in layouts {
        let found: Struct<'_> = types.type_by_name(name).unwrap_or_else(|| panic!("struct {name}"));
        let of_programs = found.iter().map(|member| {
            let MemberAttr::Normal { offset } = member.attr else {
                panic!("a bit field in {name}")
            };
            (member.name.expect("a name").to_str().expect("text").to_owned(), offset as usize / 8)
        });
        let of_ours = fields.iter().map(|&(field, offset)| (field.to_owned(), offset));
        let sorted = |fields: &mut dyn Iterator<Item = (String, usize)>| {
            let mut fields: Vec<_> = fields.collect();
            fields.sort_by_key(|(_, offset)| *offset);
            fields
        };
        assert_eq!(sorted(&mut { of_ours }), sorted(&mut { of_programs }), "struct {name}");
        assert_eq!(found.size(), *size, "struct {name}");
    }
}
