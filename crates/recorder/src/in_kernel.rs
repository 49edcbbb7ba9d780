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

/// Reasons why the in-kernel engine cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// This binary was built without it.
    #[error("this Pyrograph was built without the in-kernel engine")]
    NotBuilt,
    /// The kernel rejects its programs, or lacks a feature.
    #[cfg(feature = "bpf")]
    #[error(transparent)]
    Engine(#[from] pyrograph_bpf::Error),
}

impl EngineError {
    /// Returns true if the only cause is a missing permission of this user, or that this binary was built without the
    /// engine. If another engine can be used, that needs no message.
    pub fn is_expected(&self) -> bool {
        match self {
            Self::NotBuilt => true,
            #[cfg(feature = "bpf")]
            Self::Engine(error) => error.is_permission(),
        }
    }

    /// Returns true if the kernel or a file system refused permission.
    pub fn is_refusal(&self) -> bool {
        match self {
            Self::NotBuilt => false,
            #[cfg(feature = "bpf")]
            Self::Engine(error) => error.is_refusal(),
        }
    }

    /// Log of the loader and the verifier, in many lines.
    pub fn details(&self) -> Option<&str> {
        match self {
            Self::NotBuilt => None,
            #[cfg(feature = "bpf")]
            Self::Engine(error) => error.details(),
        }
    }
}

#[cfg(feature = "bpf")]
impl From<pyrograph_bpf::Error> for crate::Error {
    fn from(error: pyrograph_bpf::Error) -> Self {
        EngineError::from(error).into()
    }
}

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
    _: &mut crate::recorder::Report,
) -> Result<Result<crate::recorder::Opened, EngineError>, crate::Error> {
    Ok(Err(EngineError::NotBuilt))
}
