//! Helpers of the tests and examples: the mappings of a live process.
#![allow(dead_code, reason = "each test and example uses a part of it")]

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use pyrograph_elf::Image;
use pyrograph_unwind::{AddressSpace, UnwindInfo};

/// One line of `/proc/PID/maps`.
pub struct Line {
    pub start: u64,
    pub end: u64,
    pub executable: bool,
    pub file_offset: u64,
    pub path: String,
}

/// The mappings of a process.
pub fn lines(pid: &str) -> Vec<Line> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let lines = maps.lines().map(|line| {
        // 7f8a-7f8b r-xp 00026000 fe:00 1234   /usr/lib/x86_64-linux-gnu/libc.so.6
        let mut fields = line.splitn(6, ' ');
        let mut field = || fields.next().unwrap_or_default();
        let (start, end) = field().split_once('-').unwrap();
        let hex = |text| u64::from_str_radix(text, 16).unwrap();
        let (start, end) = (hex(start), hex(end));
        let executable = field().contains('x');
        let file_offset = hex(field());
        let path = line.splitn(6, ' ').nth(5).unwrap_or_default().trim().to_string();
        Line { start, end, executable, file_offset, path }
    });
    lines.collect()
}

/// Unwind information by path, read once.
#[derive(Default)]
pub struct Files {
    infos: HashMap<String, Option<Arc<UnwindInfo>>>,
    vdso: Option<Arc<UnwindInfo>>,
    alter: Option<fn(&mut [u8])>,
}

impl Files {
    /// With a change to make to each file's bytes first.
    pub fn altered(alter: Option<fn(&mut [u8])>) -> Self {
        Self { alter, ..Self::default() }
    }

    /// The executable mappings of a process.
    pub fn space(&mut self, pid: &str, lines: &[Line]) -> AddressSpace {
        let mut space = AddressSpace::new();
        for line in lines.iter().filter(|line| line.executable) {
            let info = match line.path.as_str() {
                "[vdso]" => self.vdso(),
                path if path.starts_with('/') => self.file(pid, path),
                _ => None,
            };
            space.map(line.start..line.end, line.file_offset, info, 0);
        }
        space
    }

    fn file(&mut self, pid: &str, path: &str) -> Option<Arc<UnwindInfo>> {
        let read = || {
            let mut bytes = fs::read(format!("/proc/{pid}/root{path}")).ok()?;
            if let Some(alter) = self.alter {
                alter(&mut bytes);
            }
            let debug = build_id_file(&bytes).and_then(image);
            UnwindInfo::from_elf(image(bytes)?, debug).ok().map(Arc::new)
        };
        self.infos.entry(path.to_string()).or_insert_with(read).clone()
    }

    /// The kernel maps the same vDSO into each process.
    fn vdso(&mut self) -> Option<Arc<UnwindInfo>> {
        let read = || {
            let line = lines("self").into_iter().find(|line| line.path == "[vdso]")?;
            let (start, len) = (line.start as *const u8, (line.end - line.start) as usize);
            // SAFETY: the vDSO stays mapped, and readable, as long as the process lives.
            let bytes = unsafe { std::slice::from_raw_parts(start, len) };
            UnwindInfo::from_bytes(bytes.to_vec()).ok().map(Arc::new)
        };
        self.vdso = self.vdso.take().or_else(read);
        self.vdso.clone()
    }
}

/// The separate debug file of an ELF file, by its build ID.
fn build_id_file(bytes: &[u8]) -> Option<Vec<u8>> {
    use object::Object;
    let id = object::File::parse(bytes).ok()?.build_id().ok()??.to_vec();
    let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    let (first, rest) = hex.split_at_checked(2)?;
    fs::read(Path::new("/usr/lib/debug/.build-id").join(first).join(format!("{rest}.debug"))).ok()
}

fn image(bytes: Vec<u8>) -> Option<Arc<Image>> {
    Image::from_bytes(bytes).ok().map(Arc::new)
}
