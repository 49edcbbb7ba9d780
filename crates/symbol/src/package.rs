//! Packages of this machine's distribution that contain debug symbols.

use std::fs;
use std::path::Path;

use memchr::memmem::Finder;

/// Directory in which dpkg keeps the list of each package's files: `PACKAGE.list` or `PACKAGE:ARCHITECTURE.list`
/// (dpkg-query(1)).
const LISTS: &str = "/var/lib/dpkg/info";

/// Name of the Debian package with the debug symbols of a file on this machine. The package need not be installed.
/// `None` if the file does not exist or belongs to no package.
pub fn debug_package(path: &str) -> Option<String> {
    if !Path::new(path).exists() {
        return None;
    }
    // With a merged /usr, packages may list a file with or without `/usr`.
    let other = path.strip_prefix("/usr").map_or_else(|| format!("/usr{path}"), str::to_owned);
    let owner = owner(Path::new(LISTS), &[path, &other])?;
    Some(match owner.as_str() {
        "libc6" => "libc6-dbg".to_owned(),
        owner => format!("{owner}-dbgsym"),
    })
}

/// Finds the package that contains a file with one of these names. The lists are read here because `dpkg-query`
/// takes more CPU time than a short recording.
fn owner(lists: &Path, names: &[&str]) -> Option<String> {
    let lines: Vec<String> = names.iter().map(|name| format!("\n{name}\n")).collect();
    let finders: Vec<Finder<'_>> = lines.iter().map(Finder::new).collect();
    fs::read_dir(lists).ok()?.flatten().find_map(|entry| {
        let name = entry.file_name();
        let package = name.to_str()?.strip_suffix(".list")?;
        let list = fs::read(entry.path()).ok()?;
        let has = finders.iter().any(|finder| finder.find(&list).is_some());
        has.then(|| package.split(':').next().unwrap_or(package).to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_of_files_are_found_in_the_lists() {
        let folder = tempfile::tempdir().expect("a folder");
        let list = |name: &str, text: &str| {
            fs::write(folder.path().join(name), text).expect("a file of the test's own");
        };
        list("libc6:amd64.list", "/.\n/lib\n/lib/x86_64-linux-gnu/libc.so.6\n");
        list("perl-base.list", "/.\n/usr/bin/perl\n/usr/bin/perl5.36.0\n");
        list("perl-base.md5sums", "\n/usr/bin/other\n");
        let owner = |names: &[&str]| owner(folder.path(), names);
        let libc = ["/usr/lib/x86_64-linux-gnu/libc.so.6", "/lib/x86_64-linux-gnu/libc.so.6"];
        assert_eq!(owner(&libc).as_deref(), Some("libc6"));
        assert_eq!(owner(&["/usr/bin/perl"]).as_deref(), Some("perl-base"));
        assert_eq!(owner(&["/usr/bin/per"]), None);
        assert_eq!(owner(&["/usr/bin/other"]), None);
        assert_eq!(super::owner(&folder.path().join("none"), &["/usr/bin/perl"]), None);
    }
}
