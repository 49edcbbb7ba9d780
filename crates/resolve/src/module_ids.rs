//! Numbers, keys and names by which mapped files are known.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

/// Number of a module, an index into [`Modules`](crate::modules::Modules).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ModuleId(pub u32);

impl ModuleId {
    /// The kernel and its modules; addresses are absolute.
    pub const KERNEL: Self = Self(0);
    /// Addresses without a known mapping; they are absolute.
    pub const UNKNOWN: Self = Self(1);
    /// The kernel of a virtual machine that runs on this one; addresses are the guest's.
    pub const GUEST_KERNEL: Self = Self(2);
    /// Programs of a virtual machine.
    pub const GUEST: Self = Self(3);
    /// The hypervisor of this machine.
    pub const HYPERVISOR: Self = Self(4);

    /// First number for JIT-compiled code. Files have small numbers, because the in-kernel engine has tables that are
    /// indexed by them.
    pub(crate) const JIT: u32 = 1 << 30;

    /// Returns true if the module is JIT-compiled code.
    pub(crate) fn is_jit(self) -> bool {
        (Self::JIT..2 * Self::JIT).contains(&self.0)
    }

    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// Fields of `fstat` that change whenever a file's contents do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileKey {
    /// Number of the device.
    pub device: u64,
    /// Number of the inode.
    pub inode: u64,
    /// Size in bytes.
    pub size: u64,
    /// Seconds and nanoseconds of the last change of the inode.
    pub changed: (i64, i64),
}

impl FileKey {
    pub(crate) fn new(data: &Metadata) -> Self {
        let changed = (data.ctime(), data.ctime_nsec());
        Self { device: data.dev(), inode: data.ino(), size: data.size(), changed }
    }
}

/// Flag in a mapping's tag: addresses in the mapping are kept as file offsets.
const FILE_TAG: u32 = 1 << 31;

/// Tag of a module's mapping. With it, frames can be made from the mappings alone.
pub fn mapping_tag(module: ModuleId, is_file: bool) -> u32 {
    module.0 | if is_file { FILE_TAG } else { 0 }
}

/// Splits a [`mapping_tag`] into the module and the file flag.
pub fn module_of_tag(tag: u32) -> (ModuleId, bool) {
    (ModuleId(tag & !FILE_TAG), tag & FILE_TAG != 0)
}

/// Returns true if a mapping's name means memory with code that is in no file.
pub fn is_anonymous(path: &str) -> bool {
    const PREFIXES: [&str; 9] = [
        "//anon",
        "[anon",
        "[heap]",
        "[stack",
        "/memfd:",
        "/dev/zero",
        "/SYSV",
        "anon_inode:",
        // With `MAP_HUGETLB`.
        "/anon_hugepage",
    ];
    path.is_empty() || PREFIXES.iter().any(|prefix| path.starts_with(prefix))
}

/// Returns true if a mapping's name is the name of a memory file (`memfd_create`), which has no path.
pub fn is_memory_file(path: &str) -> bool {
    path.starts_with("/memfd:")
}
