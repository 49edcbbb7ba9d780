//! Client for debug files on debuginfod servers. It shares the cache of elfutils' client.
//!
//! Sources: debuginfod(8) for the URLs (`URL/buildid/BUILDID/debuginfo`), debuginfod_find_debuginfo(3) for the
//! environment variables and the cache (file `BUILDID/debuginfo`, empty if no server has the file).
//!
//! Files are fetched with `debuginfod-find` or `curl`: both use this machine's proxies and certificates.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::build_id::BuildId;

/// debuginfod servers, and the local cache of their files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Debuginfod {
    /// URLs of the servers, from `DEBUGINFOD_URLS`.
    pub urls: Vec<String>,
    /// Cache directory.
    pub cache: PathBuf,
}

/// Time for which "no server has the file" is cached.
const MISSING: Duration = Duration::from_secs(600);

/// Timeout in seconds: a server is given up if it does not answer, or sends less than 1 KiB/s, for this long.
const PATIENCE: &str = "30";

/// Maximum size of a fetched file, in bytes.
const LARGEST: &str = "4294967296";

impl Debuginfod {
    /// Creates a client from the environment; `None` unless `DEBUGINFOD_URLS` is set.
    pub fn from_env() -> Option<Self> {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let urls = variable("DEBUGINFOD_URLS")?.to_string_lossy().into_owned();
        // `ima:` policies and `;` are for clients that check signatures.
        let urls: Vec<String> =
            urls.split_whitespace().filter(|url| url.contains("://")).map(str::to_owned).collect();
        let home = || Some(PathBuf::from(variable("HOME")?));
        let cache = variable("DEBUGINFOD_CACHE_PATH").map(PathBuf::from);
        // Cache of older client versions, if it exists.
        let old =
            || home().map(|home| home.join(".debuginfod_client_cache")).filter(|old| old.is_dir());
        let folder = || {
            let folder = variable("XDG_CACHE_HOME").map(PathBuf::from);
            Some(folder.or_else(|| Some(home()?.join(".cache")))?.join("debuginfod_client"))
        };
        let cache = cache.or_else(old).or_else(folder)?;
        (!urls.is_empty()).then_some(Self { urls, cache })
    }

    /// Path of the debug file of this build, which is fetched if it is not in the cache.
    pub(crate) fn debug_file(&self, id: &BuildId) -> Option<PathBuf> {
        let path = self.cache.join(id.to_string()).join("debuginfo");
        if let Ok(known) = fs::metadata(&path) {
            if known.len() > 0 {
                return Some(path);
            }
            let age = known.modified().ok().and_then(|time| time.elapsed().ok());
            if age.is_some_and(|age| age < MISSING) {
                return None;
            }
        }
        fs::create_dir_all(path.parent()?).ok()?;
        if self.find(id) == Some(true) || self.urls.iter().any(|url| fetch(url, id, &path)) {
            return Some(path).filter(|path| path.is_file());
        }
        // elfutils' client does the same, so that neither asks again at once.
        fs::write(&path, b"").ok();
        None
    }

    /// Runs elfutils' client: true if it found the file; `None` if it is not installed.
    fn find(&self, id: &BuildId) -> Option<bool> {
        let mut command = Command::new("debuginfod-find");
        command.args(["debuginfo", &id.to_string()]);
        command
            .env("DEBUGINFOD_URLS", self.urls.join(" "))
            .env("DEBUGINFOD_CACHE_PATH", &self.cache);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Some(command.status().ok()?.success())
    }
}

/// Fetches a file with `curl`, whole or not at all; returns true on success.
fn fetch(url: &str, id: &BuildId, path: &Path) -> bool {
    let part = path.with_extension(format!("{}.part", std::process::id()));
    let url = format!("{}/buildid/{id}/debuginfo", url.trim_end_matches('/'));
    let mut command = Command::new("curl");
    command.args(["--fail", "--silent", "--location", "--connect-timeout", PATIENCE]);
    command.args(["--speed-limit", "1024", "--speed-time", PATIENCE, "--max-filesize", LARGEST]);
    command.arg("--output").arg(&part).arg("--url").arg(url);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let fetched = command.status().is_ok_and(|status| status.success());
    let kept = fetched && fs::rename(&part, path).is_ok();
    if !kept {
        fs::remove_file(&part).ok();
    }
    kept
}
