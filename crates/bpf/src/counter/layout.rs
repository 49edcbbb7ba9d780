//! Data that is shared with the programs that count events: the structures of `programs/counter.h`.

use bytemuck::{Pod, Zeroable};

pub const MAX_CALLS: u32 = 512;
pub const MAX_VALUES: usize = 32;
/// In place of this number in a program stands the index of its event.
pub const EVENT_INDEX: i32 = 0x5059_0001;

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Config {
    pub group: u64,
    pub filter: u32,
    pub inherit: u32,
    pub names: u32,
    pub members: u32,
    pub key: u32,
    pub values: u32,
    pub clocks: u32,
    pub cpus: u32,
}

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct State {
    pub on: u32,
    pub command: u32,
    pub pid_level: u32,
    pub pad: u32,
    pub pid_namespace: u64,
    pub lost: u64,
}

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct RowKey {
    pub key: u64,
    pub event: u32,
    pub pad: u32,
}

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Value {
    pub count: u64,
    pub enabled: u64,
    pub running: u64,
}

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Owner {
    pub comm: [u8; 16],
    pub values: [Value; MAX_VALUES],
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use libbpf_rs::btf::types::Struct;
    use libbpf_rs::btf::{Btf, HasSize};

    use super::*;

    /// Shared structures have the same size on both sides: a field that one of them lacks would move all that follow.
    #[test]
    fn structures_are_as_large_as_in_the_programs() {
        let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/programs");
        let types = Btf::from_path(programs.join("counter.bpf.o")).expect("its types");
        let check = |name: &str, size: usize| {
            let found: Option<Struct<'_>> = types.type_by_name(name);
            assert_eq!(found.map(|found| found.size()), Some(size), "struct {name}");
        };
        check("config", size_of::<Config>());
        check("state", size_of::<State>());
        check("row_key", size_of::<RowKey>());
        check("value", size_of::<Value>());
        check("owner", size_of::<Owner>());
    }
}
