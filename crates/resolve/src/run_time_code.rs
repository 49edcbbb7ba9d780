//! JIT-compiled code of processes, for callers that request its names from the processes.

use crate::module_ids::ModuleId;

/// JIT-compiled code of one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunTimeCode(pub(crate) ModuleId);

/// Processes that have mapped a file with a certain name.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// End of the path; `None` if no file is watched for.
    suffix: Option<String>,
    pids: Vec<i32>,
}

impl Watch {
    /// Starts to watch for files whose path ends with `suffix`.
    pub fn start(&mut self, suffix: &str) {
        self.suffix = Some(suffix.to_owned());
    }

    /// Takes the processes that have mapped such a file.
    pub fn take(&mut self) -> Vec<i32> {
        std::mem::take(&mut self.pids)
    }

    pub fn mapped(&mut self, pid: i32, path: &str) {
        let path = path.strip_suffix(" (deleted)").unwrap_or(path);
        if self.suffix.as_ref().is_some_and(|suffix| path.ends_with(suffix)) {
            self.pids.push(pid);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_are_watched_by_the_end_of_a_path() {
        let mut watch = Watch::default();
        watch.mapped(1, "/a/libjvm.so");
        assert!(watch.pids.is_empty(), "nobody asked");
        watch.start("/libjvm.so");
        for (pid, path) in [
            (2, "/a/libjvm.so"),
            (3, "/a/notlibjvm.so"),
            (4, "/a/libjvm.so (deleted)"),
            (5, "/a/libjvm.so.1"),
            (6, "//anon"),
        ] {
            watch.mapped(pid, path);
        }
        assert_eq!(watch.take(), [2, 4]);
    }
}
