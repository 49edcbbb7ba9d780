//! Tables are kept in files from one version of the program to the next: if the same file gives another
//! table, or a table other bytes, the version in these has to be another, too.

use pyrograph_unwind::{TableRule, TableRuleKind, UnwindInfo};

const TEXT: u64 = 0x10200;
const EH_FRAME: u64 = 0x10600;
/// The address is the file offset and this.
const BASE: u64 = 0x10000;

/// `.eh_frame`, put together by hand (System V ABI for AMD64, 4.2.4; DWARF 5, 6.4).
#[derive(Default)]
struct Frames(Vec<u8>);

impl Frames {
    /// Adds an entry whose first word is `id`; returns where it is.
    fn entry(&mut self, id: u32, body: &[u8]) -> u32 {
        let at = self.0.len();
        // Filled up with `DW_CFA_nop`.
        let len = (4 + body.len()).next_multiple_of(8) + 4;
        self.0.extend((len as u32).to_le_bytes());
        self.0.extend(id.to_le_bytes());
        self.0.extend(body);
        self.0.resize(at + 4 + len, 0);
        at as u32
    }

    /// Writes a common information entry: at first the CFA is `rsp + 8`, and the return address below it.
    fn common(&mut self, augmentation: &[u8]) -> u32 {
        let head = [&[1], augmentation, &[0, 1, 0x78, 16, 1, 0x1b]].concat();
        self.entry(0, &[&head[..], &[0x0c, 7, 8, 0x90, 1]].concat())
    }

    fn function(&mut self, common: u32, start: u64, len: u32, instructions: &[u8]) {
        let at = self.0.len() as u32;
        let from_here = start.wrapping_sub(EH_FRAME + u64::from(at) + 8) as u32;
        let place = [from_here.to_le_bytes(), len.to_le_bytes()].concat();
        self.entry(at + 4 - common, &[&place[..], &[0], instructions].concat());
    }
}

fn eh_frame() -> Vec<u8> {
    let mut frames = Frames::default();
    let common = frames.common(b"zR");
    let signal = frames.common(b"zRS");
    let mut function = |common, at, instructions: &[u8]| {
        frames.function(common, TEXT + at, 0x40, instructions);
    };
    // _start: the return address is undefined.
    function(common, 0, &[0x07, 16]);
    // push rbp; mov rbp, rsp; … leave
    function(common, 0x40, &[0x41, 0x0e, 16, 0x86, 2, 0x43, 0x0d, 6, 0x60, 0x0c, 7, 8]);
    // push r15 … rbx; sub rsp, 24; an early return, and the rest.
    let saved =
        [0x0e, 80, 0x8f, 2, 0x8e, 3, 0x8d, 4, 0x8c, 5, 0x83, 6, 0x0a, 0x50, 0x0e, 8, 0x44, 0x0b];
    function(common, 0x80, &[&[0x42], &saved[..]].concat());
    // The entries of a PLT: rsp + 8 + ((rip & 15) >= 11) * 8
    let plt = [0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22];
    function(common, 0xc0, &[&[0x0e, 16, 0x46, 0x0e, 24, 0x4a, 0x0f, 11], &plt[..]].concat());
    // As OpenSSL's assembly: *(rsp + 40) + 8
    function(common, 0x100, &[0x44, 0x0f, 5, 0x77, 40, 0x06, 0x23, 8]);
    // A realigned stack: the CFA is at rbp - 8, and what was saved is counted from rbp.
    let saved = [0x10, 6, 2, 0x76, 0, 0x10, 3, 2, 0x76, 0x70];
    function(common, 0x140, &[&[0x44, 0x0f, 3, 0x76, 0x78, 0x06], &saved[..]].concat());
    // A signal's frame: *(rsp + 160), and all registers beside it.
    let registers = [0x10, 16, 3, 0x77, 0xa8, 1, 0x10, 6, 3, 0x77, 0xf8, 0];
    function(signal, 0x180, &[&[0x0f, 4, 0x77, 0xa0, 1, 0x06], &registers[..]].concat());
    // A CFA in another register, as before a stack is realigned.
    function(common, 0x1c0, &[0x45, 0x0c, 10, 0]);
    // As `vfork`: pop rdi, and the return address is there.
    function(common, 0x200, &[0x41, 0x0e, 0, 0x09, 16, 5]);
    // Behind it is code without an entry; then one that nobody understands.
    function(common, 0x280, &[0x0f, 1, 0x96]);
    frames.0.extend([0; 4]);
    frames.0
}

/// An ELF file with code that does nothing, and this `.eh_frame`.
fn file() -> Vec<u8> {
    let eh_frame = eh_frame();
    let names = b"\0.text\0.eh_frame\0.shstrtab\0";
    let names_at = EH_FRAME - BASE + eh_frame.len() as u64;
    let sections_at = (names_at + names.len() as u64).next_multiple_of(8);
    let words = |words: &[(u64, usize)]| -> Vec<u8> {
        words.iter().flat_map(|(word, size)| word.to_le_bytes().into_iter().take(*size)).collect()
    };
    let mut file = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    file.extend(words(&[(2, 2), (62, 2), (1, 4), (TEXT, 8), (64, 8), (sections_at, 8), (0, 4)]));
    file.extend(words(&[(64, 2), (56, 2), (1, 2), (64, 2), (4, 2), (3, 2)]));
    let code = EH_FRAME - TEXT;
    file.extend(words(&[
        (1, 4),
        (5, 4),
        (TEXT - BASE, 8),
        (TEXT, 8),
        (TEXT, 8),
        (code, 8),
        (code, 8),
        (16, 8),
    ]));
    file.resize((TEXT - BASE) as usize, 0);
    file.resize((EH_FRAME - BASE) as usize, 0x90);
    // A function without an entry: push rbx; sub rsp, 16; test eax, eax; je; add rsp, 16; pop rbx; ret; and again.
    let leave = [0x48, 0x83, 0xc4, 0x10, 0x5b, 0xc3];
    let enter = [0x53, 0x48, 0x83, 0xec, 0x10, 0x85, 0xc0, 0x74, 0x06];
    let at = (TEXT + 0x250 - BASE) as usize;
    for (byte, value) in file[at..].iter_mut().zip(enter.into_iter().chain(leave).chain(leave)) {
        *byte = value;
    }
    file.extend(&eh_frame);
    file.extend(names);
    file.resize(sections_at as usize, 0);
    let mut section = |name, kind, flags, address: u64, at, size| {
        file.extend(words(&[(name, 4), (kind, 4), (flags, 8), (address, 8), (at, 8), (size, 8)]));
        file.extend(words(&[(0, 8), (8, 8), (0, 8)]));
    };
    section(0, 0, 0, 0, 0, 0);
    section(1, 1, 6, TEXT, TEXT - BASE, code);
    section(7, 1, 2, EH_FRAME, EH_FRAME - BASE, eh_frame.len() as u64);
    section(17, 3, 0, 0, names_at, names.len() as u64);
    file
}

#[test]
fn the_same_file_has_the_same_table_or_another_version() {
    let table = UnwindInfo::from_bytes(file()).expect("an ELF file").table();
    let kind_at = |offset: u64| table.rule(TEXT + offset).map(|rule| rule.kind);
    for (offset, kind) in [
        (0, TableRuleKind::Root),
        (0x50, TableRuleKind::Offset),
        (0xa0, TableRuleKind::Offset),
        (0xe0, TableRuleKind::Plt),
        (0x110, TableRuleKind::Deref),
        (0x150, TableRuleKind::Deref),
        (0x190, TableRuleKind::Signal),
        (0x1d0, TableRuleKind::Offset),
        (0x200, TableRuleKind::Offset),
        (0x210, TableRuleKind::Link),
        (0x290, TableRuleKind::Bad),
    ] {
        assert_eq!(kind_at(offset), Some(kind), "{offset:#x}");
    }
    // The branch leads behind the first return, where the frame still is.
    for (offset, words) in [(0x250, 8), (0x251, 16), (0x25b, 32), (0x25e, 8), (0x25f, 32)] {
        let rule = table.rule(TEXT + offset).expect("a rule");
        assert_eq!((rule.offset, rule.flags & TableRule::GUESS), (words, 1), "{offset:#x}");
    }
    let bytes = table.to_bytes();
    let mut crc = flate2::Crc::new();
    crc.update(&bytes);
    assert_eq!(
        (pyrograph_unwind::Table::VERSION, crc.sum()),
        (10, 0x65b9_be7b),
        "tables that were kept are not what is made now: raise `Table::VERSION`, then put both here"
    );
}
