//! Reading of all rows of a BPF hash map.

use libbpf_rs::{MapCore, MapFlags, MapHandle};

use crate::error::Error;

/// A row: its key and its value.
pub(crate) type Row = (Vec<u8>, Vec<u8>);

/// Reads all rows. `name`: name of the map, for errors.
pub(crate) fn all_rows(map: &MapHandle, name: &'static str) -> Result<Vec<Row>, Error> {
    let rows = map.lookup_batch(at_once(map), MapFlags::ANY, MapFlags::ANY);
    Ok(rows.map_err(Error::map(name))?.collect())
}

/// Removes and returns all rows.
pub(crate) fn take_rows(map: &MapHandle, name: &'static str) -> Result<Vec<Row>, Error> {
    let rows = map.lookup_and_delete_batch(at_once(map), MapFlags::ANY, MapFlags::ANY);
    Ok(rows.map_err(Error::map(name))?.collect())
}

/// Number of rows in a batch. The kernel ends a batch before the first bucket that does not fit, and libbpf-rs treats
/// each batch that is not full as the last one, so only a batch with room for all rows is sure to return all of them.
/// (Its memory is touched only as far as there are rows.)
fn at_once(map: &MapHandle) -> u32 {
    map.max_entries()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use libbpf_rs::{MapType, libbpf_sys};

    use super::*;

    #[test]
    fn all_rows_of_a_large_table_are_read() {
        let options = libbpf_sys::bpf_map_create_opts {
            sz: size_of::<libbpf_sys::bpf_map_create_opts>() as u64,
            ..libbpf_sys::bpf_map_create_opts::default()
        };
        let map = MapHandle::create(MapType::Hash, Some("test"), 8, 8, 40_000, &options);
        let Ok(map) = map else {
            eprintln!("skipped: maps cannot be made (this takes root or CAP_BPF)");
            return;
        };
        for count in [0u64, 1, 5_000, 40_000] {
            for row in 0..count {
                map.update(&row.to_ne_bytes(), &(!row).to_ne_bytes(), MapFlags::ANY).expect("room");
            }
            let read = all_rows(&map, "test").expect("rows");
            let taken = take_rows(&map, "test").expect("rows");
            for rows in [read, taken] {
                assert_eq!(rows.len() as u64, count);
                let keys: BTreeSet<&[u8]> = rows.iter().map(|(key, _)| &key[..]).collect();
                assert_eq!(keys.len() as u64, count);
                assert!(rows.iter().all(|(key, value)| {
                    bytemuck::pod_read_unaligned::<u64>(key)
                        == !bytemuck::pod_read_unaligned::<u64>(value)
                }));
            }
            assert_eq!(all_rows(&map, "test").expect("rows").len(), 0);
        }
    }
}
