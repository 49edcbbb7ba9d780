//! The maps of `programs/targets.h`.

use libbpf_rs::{MapCore, MapFlags, MapHandle};

use crate::error::Error;

/// Sets the names of the threads and processes to record.
pub fn set_names(map: &MapHandle, names: &[String]) -> Result<(), Error> {
    for name in names {
        // The kernel keeps 15 bytes of a name.
        let mut key = [0; 16];
        let len = name.len().min(15);
        key[..len].copy_from_slice(&name.as_bytes()[..len]);
        map.update(&key, &1u32.to_ne_bytes(), MapFlags::ANY).map_err(Error::map("names"))?;
    }
    Ok(())
}
