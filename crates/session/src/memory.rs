//! Memory of the recording process: measuring it, and returning free memory to the kernel.

use std::time::{Duration, Instant};

use pyrograph_event::proc_text;

/// Makes the allocator return large blocks to the kernel as soon as they are freed. By default it raises its thresholds
/// with each freed large block, and then keeps as much memory as the unwind table of the largest program takes while it
/// is made.
pub fn keep_none() {
    #[cfg(target_env = "gnu")]
    // SAFETY: `mallopt` takes numbers, and may be called at any time.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 256 << 10);
        libc::mallopt(libc::M_TRIM_THRESHOLD, 512 << 10);
    }
}

/// Returns the free memory between smaller blocks to the kernel, too. Call it after very many of them were freed.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: `malloc_trim` takes a number, and may be called at any time.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Resident memory of this process in bytes, as a process monitor shows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resident {
    /// Total size (`VmRSS`).
    pub all: u64,
    /// Size of the resident pages of mapped files (`RssFile`). They are in the kernel's page cache anyway, as long as
    /// there is room.
    pub files: u64,
    /// Peak size (`VmHWM`).
    pub peak: u64,
}

impl Resident {
    /// Returns the current memory of this process.
    pub fn now() -> Self {
        let status = proc_text("/proc/self/status").unwrap_or_default();
        let field = |name| status.lines().find_map(|line| kibibytes(line.strip_prefix(name)?));
        Self {
            all: field("VmRSS:").unwrap_or(0),
            files: field("RssFile:").unwrap_or(0),
            peak: field("VmHWM:").unwrap_or(0),
        }
    }
}

/// Pages of files are released once they have grown by this many bytes since the last release.
const MOST_PAGES: u64 = 32 << 20;

/// Time between two measurements.
const LOOK: Duration = Duration::from_millis(50);

/// Decides when pages of mapped files are released: most are read once, for an unwind table or a stack.
#[derive(Debug)]
pub struct Pages {
    checked: Instant,
    /// Size of the remaining pages after the last release, in bytes.
    left: u64,
}

impl Default for Pages {
    /// Starts with the current size.
    fn default() -> Self {
        Self { checked: Instant::now(), left: Resident::now().files }
    }
}

impl Pages {
    /// Calls `give_back` if there are many pages.
    pub fn keep_few(&mut self, give_back: impl FnOnce()) {
        if self.checked.elapsed() < LOOK {
            return;
        }
        if Resident::now().files > self.left + MOST_PAGES {
            give_back();
            self.left = Resident::now().files;
        }
        self.checked = Instant::now();
    }
}

/// Parses a size in kibibytes, such as `  1234 kB`. Returns bytes.
fn kibibytes(text: &str) -> Option<u64> {
    text.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Those of this test itself, which is mapped as often as it takes.
    #[test]
    fn pages_of_files_are_given_back_once_there_are_many() {
        use std::os::fd::AsRawFd;
        let own = std::fs::File::open("/proc/self/exe").expect("this test");
        let len = usize::try_from(own.metadata().expect("its size").len()).expect("a size");
        let mut pages = Pages { checked: Instant::now() - LOOK, ..Pages::default() };
        pages.keep_few(|| panic!("there are no more than before"));
        let map = || {
            let (protection, flags) = (libc::PROT_READ, libc::MAP_PRIVATE | libc::MAP_POPULATE);
            // SAFETY: a new mapping that is only read, and not beyond the end of a file that nobody changes.
            let map = unsafe {
                libc::mmap(std::ptr::null_mut(), len, protection, flags, own.as_raw_fd(), 0)
            };
            assert!(map != libc::MAP_FAILED);
            map
        };
        let enough = (MOST_PAGES + MOST_PAGES / 4).div_ceil(len as u64);
        let maps: Vec<_> = (0..enough).map(|_| map()).collect();
        pages.checked = Instant::now() - LOOK;
        let mut times = 0;
        for _ in 0..2 {
            pages.keep_few(|| {
                times += 1;
                for map in &maps {
                    // SAFETY: it was mapped with this length, and nothing borrows from it.
                    unsafe { libc::munmap(*map, len) };
                }
            });
            pages.checked = Instant::now() - LOOK;
        }
        assert_eq!(times, 1);
    }

    #[test]
    fn this_process_has_memory() {
        let own = || {
            let now = Resident::now();
            now.all.saturating_sub(now.files)
        };
        let before = own();
        let more = std::hint::black_box(vec![1_u8; 64 << 20]);
        assert!(before > 0 && own() > before + (more.len() as u64) / 2);
        let now = Resident::now();
        assert!(now.peak >= now.all, "{now:?}");
        assert_eq!(kibibytes("\t   1234 kB"), Some(1234 << 10));
        assert_eq!(kibibytes("1234"), None);
    }
}
