//! Reasons why the in-kernel engine cannot be used.

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
