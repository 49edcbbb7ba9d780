//! Commands that gain privileges when they are executed: the kernel then ends the events of unprivileged users.

use std::ffi::OsString;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use pyrograph_session::Target;
use rustix::process::{getegid, geteuid};

/// Reason why the kernel ends the events of a command (`begin_new_exec` in fs/exec.c, if the program is not dumpable);
/// `None` if it is not known to do so.
pub fn of_target(target: &Target) -> Option<String> {
    let Target::Command(command) = target else { return None };
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    if user == 0 {
        return None;
    }
    let path = find(command.first()?)?;
    let why = reason(&path.metadata().ok()?, user, group)
        .or_else(|| has_capabilities(&path).then_some("has capabilities"))?;
    let path = path.display();
    Some(format!(
        "{path} {why}: the kernel ends what is counted of a program that gets other rights as it is executed; run pyrograph as root"
    ))
}

fn reason(file: &Metadata, user: u32, group: u32) -> Option<&'static str> {
    let has = |bit: libc::mode_t| file.mode() & bit != 0;
    match () {
        () if has(libc::S_ISUID) && file.uid() != user => Some("is set-user-ID"),
        () if has(libc::S_ISGID) && has(libc::S_IXGRP) && file.gid() != group => {
            Some("is set-group-ID")
        }
        () => None,
    }
}

/// Returns true if a file has capabilities: capabilities(7).
fn has_capabilities(path: &Path) -> bool {
    // With an empty buffer, the size of the attribute is returned.
    rustix::fs::getxattr(path, c"security.capability", &mut [0_u8; 0]).is_ok_and(|size| size > 0)
}

/// Finds the file of a command as `execvp` does.
fn find(command: &OsString) -> Option<PathBuf> {
    let path = Path::new(command);
    if path.components().count() > 1 {
        return Some(path.to_owned());
    }
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(path)).find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn programs_with_rights_of_others_are_known() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let of = |mode: u32, user: u32| {
            file.as_file().set_permissions(PermissionsExt::from_mode(mode)).expect("our file");
            let data = file.path().metadata().expect("our file");
            reason(&data, data.uid() + user, data.gid() + user)
        };
        assert_eq!(of(0o755, 1), None);
        assert_eq!(of(0o4755, 1), Some("is set-user-ID"));
        assert_eq!(of(0o4755, 0), None, "its rights are ours");
        assert_eq!(of(0o2755, 1), Some("is set-group-ID"));
        assert_eq!(of(0o2745, 1), None, "a mandatory lock");
    }
}
