//! Memory that is shared with the programs, mapped into this process.

use std::marker::PhantomData;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use bytemuck::Pod;
use libbpf_rs::MapCore;
use memmap2::{MmapMut, MmapOptions, MmapRaw};

use crate::error::Error;

/// An array of `T` that is shared with the programs.
#[derive(Clone, Debug)]
pub struct Shared<T> {
    map: Arc<MmapRaw>,
    len: usize,
    of: PhantomData<T>,
}

impl<T: Pod> Shared<T> {
    /// Maps a BPF array whose values are `T`, or whose only value is `len` times `T`.
    pub fn map(array: &dyn MapCore, name: &'static str, len: usize) -> Result<Self, Error> {
        // The kernel rounds each value up to 8 bytes.
        assert_eq!(size_of::<T>() * len % 8, 0);
        let bytes = (size_of::<T>() * len).next_multiple_of(4096);
        let map = MmapOptions::new()
            .len(bytes)
            .map_raw(array.as_fd().as_raw_fd())
            .map_err(Error::map(name))?;
        Ok(Self { map: Arc::new(map), len, of: PhantomData })
    }

    /// Creates an array of `len` values that is not shared with programs.
    pub fn of_this_process(len: usize) -> Result<Self, Error> {
        let map = MmapMut::map_anon(size_of::<T>() * len).map_err(Error::map("memory"))?;
        Ok(Self { map: Arc::new(map.into()), len, of: PhantomData })
    }

    fn first(&self) -> *mut T {
        self.map.as_mut_ptr().cast()
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// Writes one value. A reader that sees it also sees everything written before.
    pub fn write(&mut self, index: usize, value: T) {
        assert!(index < self.len);
        fence(Ordering::Release);
        // SAFETY: the mapping holds `len` values and is page-aligned; it is read only by BPF programs, which cope with
        // any value.
        unsafe { self.first().add(index).write_volatile(value) }
    }

    /// Writes one field of the first value, while the programs may change other fields.
    pub fn write_field<V: Pod>(&mut self, offset: usize, value: V) {
        let size = size_of::<V>();
        assert!(offset.is_multiple_of(size) && offset + size <= size_of::<T>());
        fence(Ordering::Release);
        // SAFETY: as in `write`; the field is inside of the value and aligned.
        unsafe { self.first().cast::<u8>().add(offset).cast::<V>().write_volatile(value) }
    }

    /// Writes consecutive values.
    pub fn write_all(&mut self, index: usize, values: &[T]) {
        assert!(index <= self.len && values.len() <= self.len - index);
        // SAFETY: as in `write`; the values are not in the mapping.
        unsafe {
            let to = self.first().add(index);
            std::ptr::copy_nonoverlapping(values.as_ptr(), to, values.len());
        }
    }

    pub fn read(&self, index: usize) -> T {
        assert!(index < self.len);
        // SAFETY: as in `write`; any bytes are a `T`.
        unsafe { self.first().add(index).read_volatile() }
    }
}
