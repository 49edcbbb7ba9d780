//! Debug files from debuginfod servers, through the cache of elfutils' client.
//!
//! Sources: debuginfod(8) for the addresses (`URL/buildid/BUILDID/debuginfo`), debuginfod_find_debuginfo(3) for the
//! variables and the cache (`BUILDID/debuginfo` in it, an empty file for what no server has).
//!
//! It is fetched with `debuginfod-find`, or `curl`: both know this machine's proxies and certificates.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::build_id::BuildId;

/// Servers that have debug files, and where such files are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Debuginfod {
    /// The servers, as `DEBUGINFOD_URLS` has them.
    pub urls: Vec<String>,
    /// The cache.
    pub cache: PathBuf,
}

/// How long it is believed that no server has a file.
const MISSING: Duration = Duration::from_secs(600);

/// Seconds without an answer, or with next to nothing of a file, after which a server is given up.
const PATIENCE: &str = "30";

/// The largest file that is fetched, in bytes.
const LARGEST: &str = "4294967296";

impl Debuginfod {
    /// A client as the environment asks for it: none unless `DEBUGINFOD_URLS` is set.
    pub fn from_env() -> Option<Self> {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let urls = variable("DEBUGINFOD_URLS")?.to_string_lossy().into_owned();
        // `ima:` and `;` policies are for clients that check signatures.
        let urls: Vec<String> =
            urls.split_whitespace().filter(|url| url.contains("://")).map(str::to_owned).collect();
        let home = || Some(PathBuf::from(variable("HOME")?));
        let cache = variable("DEBUGINFOD_CACHE_PATH").map(PathBuf::from);
        // The older client's place, if it is there.
        let old =
            || home().map(|home| home.join(".debuginfod_client_cache")).filter(|old| old.is_dir());
        let folder = || {
            let folder = variable("XDG_CACHE_HOME").map(PathBuf::from);
            Some(folder.or_else(|| Some(home()?.join(".cache")))?.join("debuginfod_client"))
        };
        let cache = cache.or_else(old).or_else(folder)?;
        (!urls.is_empty()).then_some(Self { urls, cache })
    }

    /// The debug file of this build, fetched if it is not in the cache.
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
        // As elfutils' client does, so that neither asks again at once.
        fs::write(&path, b"").ok();
        None
    }

    /// Asks elfutils' client; `None` if it is not installed.
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

/// Fetches a file whole or not at all.
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
