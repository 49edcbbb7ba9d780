//! Arguments whose meaning depends on other arguments, one module per subject.

pub(crate) mod files;
pub(crate) mod futex;
pub(crate) mod ioctl;
pub(crate) mod ipc;
pub(crate) mod memory;
pub(crate) mod network;
pub(crate) mod process;
pub(crate) mod socket_options;
pub(crate) mod time;
pub(crate) mod tracing;
pub(crate) mod waiting;
