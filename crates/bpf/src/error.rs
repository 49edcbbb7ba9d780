//! What can go wrong.

use std::path::{Path, PathBuf};

use crate::features;

/// Why the in-kernel engine cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The programs could not be loaded.
    #[error("the kernel does not take the in-kernel programs ({reason})")]
    Load {
        /// What the kernel or the loader said.
        reason: String,
    },
    /// A program could not be attached.
    #[error("the program '{program}' cannot be attached ({reason})")]
    Attach {
        /// The program.
        program: &'static str,
        /// What the kernel or the loader said.
        reason: String,
    },
    /// A function of a program cannot be watched.
    #[error("cannot watch '{function}' in {}: {reason}", path.display())]
    Function {
        /// The file.
        path: PathBuf,
        /// The function.
        function: String,
        /// Why not.
        reason: String,
    },
    /// Memory that is shared with the programs could not be had.
    #[error("the memory '{map}' cannot be shared with the kernel ({reason})")]
    Map {
        /// The map.
        map: &'static str,
        /// What the kernel or the loader said.
        reason: String,
    },
    /// The kernel's lists of mappings are not as the programs know them.
    #[error(
        "the kernel's lists of mappings cannot be read: the in-kernel engine is for Linux 6.1 or newer"
    )]
    Mappings,
    /// The programs know the registers and stacks of x86-64 only.
    #[error("the in-kernel engine is for x86-64")]
    UnsupportedArch,
    /// The user may not load programs into the kernel.
    #[error(
        "loading programs into the kernel is for root, or with the capabilities CAP_BPF and CAP_PERFMON"
    )]
    NotPermitted,
}

impl Error {
    /// Whether it would work for another user.
    pub fn is_permission(&self) -> bool {
        matches!(self, Self::NotPermitted)
    }

    pub(crate) fn load(error: libbpf_rs::Error) -> Self {
        match error.kind() {
            libbpf_rs::ErrorKind::PermissionDenied => Self::NotPermitted,
            _ => {
                let missing = features::missing();
                match missing.is_empty() {
                    true => Self::Load { reason: chain(&error) },
                    false => Self::Load { reason: format!("it lacks {}", missing.join(", ")) },
                }
            }
        }
    }

    pub(crate) fn attach(program: &'static str) -> impl FnOnce(libbpf_rs::Error) -> Self {
        move |error| Self::Attach { program, reason: chain(&error) }
    }

    pub(crate) fn function(path: &Path, function: &str, error: &libbpf_rs::Error) -> Self {
        let reason = match error.kind() {
            libbpf_rs::ErrorKind::NotFound if path.exists() => {
                "it has no function of this name in its symbol tables".to_owned()
            }
            libbpf_rs::ErrorKind::NotFound => "there is no such file".to_owned(),
            _ => chain(error),
        };
        Self::Function { path: path.to_owned(), function: function.to_owned(), reason }
    }

    pub(crate) fn map<E: std::error::Error>(map: &'static str) -> impl FnOnce(E) -> Self {
        move |error| Self::Map { map, reason: chain(&error) }
    }
}

/// The error with its causes, in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
