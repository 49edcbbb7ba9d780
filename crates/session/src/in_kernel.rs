//! Recording with the in-kernel engine. Its programs unwind and count in the kernel; the code here gives them the
//! information that they need, and takes their counts.

#[cfg(feature = "bpf")]
mod code_ahead;
#[cfg(feature = "bpf")]
mod copies;
#[cfg(feature = "bpf")]
mod feed;
#[cfg(feature = "bpf")]
mod follower;
#[cfg(feature = "bpf")]
mod kept_code;
#[cfg(feature = "bpf")]
mod labels;
#[cfg(feature = "bpf")]
mod maps;
#[cfg(feature = "bpf")]
mod open;
#[cfg(feature = "bpf")]
mod pace;
#[cfg(feature = "bpf")]
mod report;
#[cfg(feature = "bpf")]
mod running;

#[cfg(feature = "bpf")]
pub(crate) use self::open::open;

use pyrograph_event::engine::Feature;

/// Returns the optional features of the in-kernel engine that this kernel has, and those that it certainly lacks. Empty
/// if this binary was built without the engine. This takes milliseconds.
#[cfg(feature = "bpf")]
pub fn kernel_features() -> (Vec<Feature>, Vec<Feature>) {
    pyrograph_bpf::features()
}

/// Returns empty lists, since the engine is not built in.
#[cfg(not(feature = "bpf"))]
pub fn kernel_features() -> (Vec<Feature>, Vec<Feature>) {
    (Vec::new(), Vec::new())
}

/// Returns an error, since the engine is not built in.
#[cfg(not(feature = "bpf"))]
pub(crate) fn open(
    _: &crate::Plan,
    _: &mut crate::message::Report,
) -> Result<Result<crate::sampler::Opened, crate::EngineError>, crate::Error> {
    Ok(Err(crate::EngineError::NotBuilt))
}
