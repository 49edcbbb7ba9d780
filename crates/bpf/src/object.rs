//! Maps and programs of a loaded object, by name, and the clock that the programs read.

use libbpf_rs::{MapCore, MapHandle, Object, ProgramInput, RingBuffer, RingBufferBuilder};

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

/// Runs a program of type `raw_tp` on each CPU that is online, one after the other.
pub fn run_on_cpus(object: &Object, name: &'static str, cpus: u32) -> Result<(), Error> {
    /// include/uapi/linux/bpf.h
    const TEST_RUN_ON_CPU: u32 = 1;
    let program = program(object, name)?;
    for cpu in 0..cpus {
        let input = ProgramInput { cpu, flags: TEST_RUN_ON_CPU, ..ProgramInput::default() };
        match program.test_run(input) {
            Ok(_) => {}
            // ENXIO: it is offline.
            Err(error) if cpu > 0 && error.to_string().contains("No such device") => {}
            Err(error) => return Err(Error::attach(name)(error)),
        }
    }
    Ok(())
}

/// Structures that are shared with the programs of an object: a field that one side lacks would move all that follow.
#[cfg(test)]
pub fn assert_sizes(object: &str, structures: &[(&str, usize)]) {
    use libbpf_rs::btf::types::Struct;
    use libbpf_rs::btf::{Btf, HasSize};

    let programs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/programs");
    let types = Btf::from_path(programs.join(object)).expect("its types");
    for (name, size) in structures {
        let found: Option<Struct<'_>> = types.type_by_name(name);
        assert_eq!(found.map(|found| found.size()), Some(*size), "struct {name}");
    }
}
