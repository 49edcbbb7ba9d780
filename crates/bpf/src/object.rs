//! Maps and programs of a loaded object, by name, and the clock that the programs read.

use libbpf_rs::{MapCore, MapHandle, Object, RingBuffer, RingBufferBuilder};

use crate::error::Error;

/// Nanoseconds of the clock that programs read.
pub fn monotonic_now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid, and the clock exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

/// A ring buffer whose records are handed to `take`.
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
        // The kernel cuts names to 15 bytes, and libbpf puts the object's before `.bss`.
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
