//! How a command is started: its standard output, and the user who runs it.

use std::ffi::{CString, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;

use pyrograph_event::proc_text;

use crate::error::Error;

/// How a command is started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Launch {
    /// Redirect its standard output to standard error, because standard output is needed for something else.
    pub output_to_stderr: bool,
    /// The user who runs it. `None` for the user of this process.
    pub user: Option<User>,
}

/// A user of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    name: String,
    id: libc::uid_t,
    group: libc::gid_t,
    /// All groups, including the first.
    groups: Vec<libc::gid_t>,
    home: String,
}

impl User {
    /// Finds a user by name or number, with the groups in `/etc/passwd` and `/etc/group` (passwd(5), group(5)). A number
    /// that is not in these files is a user with the group of the same number.
    ///
    /// # Errors
    ///
    /// If there is no such user, or if this process may not become another user.
    pub fn find(name: &str) -> Result<Self, Error> {
        let read = |path: &str| proc_text(path).map_err(Error::system("reading the list of users"));
        let user = Self::of(name, &read("/etc/passwd")?, &read("/etc/group").unwrap_or_default())
            .ok_or_else(|| Error::NoSuchUser { name: name.to_owned() })?;
        // SAFETY: these calls cannot fail, and change nothing.
        let (own, effective) = unsafe { (libc::getuid(), libc::geteuid()) };
        match effective == 0 || user.id == own && own == effective {
            true => Ok(user),
            false => Err(Error::OtherUser { name: user.name }),
        }
    }

    fn of(name: &str, users: &str, groups: &str) -> Option<Self> {
        let line = users
            .lines()
            .map(|line| line.split(':').collect::<Vec<_>>())
            .find(|fields| fields.len() > 5 && (fields[0] == name || fields[2] == name));
        let Some(fields) = line else {
            let id = name.parse().ok()?;
            let home = "/".to_owned();
            return Some(Self { name: name.to_owned(), id, group: id, groups: vec![id], home });
        };
        let (name, home) = (fields[0].to_owned(), fields[5].to_owned());
        let (id, group) = (fields[2].parse().ok()?, fields[3].parse().ok()?);
        // name:password:number:members
        let of_member = |line: &str| {
            let fields: Vec<&str> = line.split(':').collect();
            let members = fields.get(3)?;
            members.split(',').any(|member| member == name).then(|| fields[2].parse().ok())?
        };
        let others = groups.lines().filter_map(of_member).filter(|&other| other != group);
        let groups = [group].into_iter().chain(others).collect();
        Some(Self { name, id, group, groups, home })
    }

    /// The user's name, or number.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The environment of this process with the user's names and home, as `NAME=value`.
    pub(crate) fn environment(&self) -> Vec<CString> {
        let own = [("HOME", &self.home), ("USER", &self.name), ("LOGNAME", &self.name)];
        let others = std::env::vars_os().filter(|(name, _)| own.iter().all(|(of, _)| name != of));
        let own =
            own.into_iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
        others
            .chain(own)
            .filter_map(|(name, value)| {
                CString::new([name.as_bytes(), b"=", value.as_bytes()].concat()).ok()
            })
            .collect()
    }

    /// Makes the calling process, which has one thread, run as this user. Permitted between fork and exec.
    pub(crate) fn become_it(&self) -> io::Result<()> {
        // The functions of the C library would do this for all threads of the parent.
        // SAFETY: the calls have the arguments of their manual pages; the list of groups outlives the call.
        unsafe {
            // Then it is the user already: `find` permits no other.
            if libc::geteuid() != 0 {
                return Ok(());
            }
            let groups =
                libc::syscall(libc::SYS_setgroups, self.groups.len(), self.groups.as_ptr());
            if groups != 0
                || libc::syscall(libc::SYS_setresgid, self.group, self.group, self.group) != 0
                || libc::syscall(libc::SYS_setresuid, self.id, self.id, self.id) != 0
            {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USERS: &str = "root:x:0:0:root:/root:/bin/bash\n\
        alice:x:1000:1000:Alice,,,:/home/alice:/bin/zsh\nbroken\nbob:x:1001:100::/home/bob:\n";
    const GROUPS: &str = "root:x:0:\nusers:x:100:alice\naudio:x:29:alice,bob\nalice:x:1000:\nx\n";

    #[test]
    fn users_have_the_groups_of_the_files() {
        let alice = User::of("alice", USERS, GROUPS).expect("a user");
        assert_eq!((alice.id, alice.group, &alice.home[..]), (1000, 1000, "/home/alice"));
        assert_eq!(alice.groups, [1000, 100, 29]);
        assert_eq!(User::of("1000", USERS, GROUPS), Some(alice));
        assert_eq!(User::of("bob", USERS, GROUPS).map(|bob| bob.groups), Some(vec![100, 29]));
        assert_eq!(User::of("4000", USERS, GROUPS).map(|user| user.groups), Some(vec![4000]));
        assert_eq!(User::of("carol", USERS, GROUPS), None);
        assert_eq!(User::of("broken", USERS, GROUPS), None);
    }

    #[test]
    fn the_environment_has_one_home() {
        let alice = User::of("alice", USERS, GROUPS).expect("a user");
        let environment = alice.environment();
        let homes = environment.iter().filter(|variable| variable.as_bytes().starts_with(b"HOME="));
        assert_eq!(homes.collect::<Vec<_>>(), [c"HOME=/home/alice"]);
    }
}
