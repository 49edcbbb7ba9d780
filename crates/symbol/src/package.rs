//! Packages of this machine that hold symbols.

use std::path::Path;
use std::process::{Command, Stdio};

/// The Debian package with the symbols of a file of this machine, which need not be installed.
pub fn debug_package(path: &str) -> Option<String> {
    // Since /usr was merged, packages may have a file below either.
    let other = path.strip_prefix("/usr").map_or_else(|| format!("/usr{path}"), str::to_owned);
    let owner = [path, &other].into_iter().find_map(|path| {
        let mut command = Command::new("dpkg-query");
        command.args(["--search", path]).stdin(Stdio::null()).stderr(Stdio::null());
        let output = command.output().ok().filter(|output| output.status.success())?;
        parse_owner(&String::from_utf8_lossy(&output.stdout))
    });
    owner.filter(|_| Path::new(path).exists()).map(|owner| match owner.as_str() {
        "libc6" => "libc6-dbg".to_owned(),
        owner => format!("{owner}-dbgsym"),
    })
}

/// The package in `libc6:amd64: /lib/x86_64-linux-gnu/libc.so.6`.
fn parse_owner(line: &str) -> Option<String> {
    let (packages, _) = line.lines().next()?.split_once(": ")?;
    let package = packages.split([',', ':']).next()?.trim();
    (!package.is_empty() && !package.contains(' ')).then(|| package.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_of_files_are_read() {
        assert_eq!(parse_owner("libc6:amd64: /lib/libc.so.6\n"), Some("libc6".to_owned()));
        assert_eq!(parse_owner("perl-base, perl: /usr/bin/perl\n"), Some("perl-base".to_owned()));
        assert_eq!(parse_owner("diversion by x from: /a\n"), None);
    }
}
