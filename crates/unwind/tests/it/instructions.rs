//! Rules of code without unwind tables, from its instructions. The assembler has the truth: for what is between
//! `.cfi_startproc` and `.cfi_endproc` it writes tables, and the same code without them must have the same. (That a
//! register is saved is noted here where it is changed: before, it makes no difference.)
use std::path::Path;
use std::process::Command;

use pyrograph_unwind::{
    AddressSpace, Arch, Frame, Registers, StackCopy, StackEnd, Table, TableRule, TableRuleKind,
    UnreadCode, UnwindInfo, Unwinder,
};

fn assemble(name: &str, source: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (from, to) = (folder.join(format!("{name}.s")), folder.join(format!("{name}.so")));
    std::fs::write(&from, source).expect("a file");
    let mut gcc = Command::new("gcc");
    gcc.args(["-shared", "-nostdlib", "-Wl,--build-id=none", "-o"]).arg(&to).arg(&from);
    assert!(gcc.status().expect("gcc is installed").success(), "{name}");
    std::fs::read(&to).expect("it was made")
}

fn table(file: Vec<u8>) -> Table {
    UnwindInfo::from_bytes(file).expect("an ELF file").table()
}

/// The code of `.text`, and its address.
fn text(file: &[u8]) -> (u64, Vec<u8>) {
    use object::{Object, ObjectSection};
    let file = object::File::parse(file).expect("an ELF file");
    let section = file.section_by_name(".text").expect("code");
    (section.address(), section.data().expect("code").to_vec())
}

/// The lines with CFI directives give the table that the others give by themselves, at each byte.
fn check(name: &str, source: &str) {
    let with = assemble(&format!("{name}-with"), source);
    let lines = source.lines().filter(|line| !line.trim_start().starts_with(".cfi"));
    let without = assemble(&format!("{name}-without"), &lines.collect::<Vec<_>>().join("\n"));
    let (start, code) = text(&with);
    assert_eq!(code, text(&without).1, "{name}: the same code");
    let tables = (table(with), table(without.clone()));
    let shift = text(&without).0.wrapping_sub(start);
    for address in start..start + code.len() as u64 {
        let want = tables.0.rule(address).copied().unwrap_or_default();
        let found = tables.1.rule(address + shift).copied().unwrap_or_default();
        // Code that nothing leads to, the assembler's own padding too, has no rule.
        if want.kind == TableRuleKind::None || found.kind == TableRuleKind::None {
            let at = (address - start) as usize;
            let rest: Vec<_> = code[at..].iter().take(8).collect();
            assert_eq!(want.kind, found.kind, "{name}+{at:#x}: {rest:x?}");
            continue;
        }
        assert_eq!(found.flags & TableRule::GUESS, TableRule::GUESS);
        let found = TableRule { flags: 0, ..found };
        assert_eq!(found, want, "{name}+{:#x}", address - start);
    }
}

#[test]
fn code_behind_an_early_return_has_the_frame_of_the_branch_that_leads_there() {
    check(
        "early-return",
        "
        .globl f
        f:
        .cfi_startproc
        push %rbx
        .cfi_def_cfa_offset 16
        sub $32, %rsp
        .cfi_def_cfa_offset 48
        mov %rdi, %rbx
        .cfi_offset rbx, -16
        test %rbx, %rbx
        je 1f
        add $32, %rsp
        .cfi_def_cfa_offset 16
        pop %rbx
        .cfi_def_cfa_offset 8
        .cfi_restore rbx
        ret
        1:
        .cfi_def_cfa_offset 48
        .cfi_offset rbx, -16
        add $32, %rsp
        .cfi_def_cfa_offset 16
        pop %rbx
        .cfi_def_cfa_offset 8
        .cfi_restore rbx
        ret
        .cfi_endproc
        ",
    );
}

#[test]
fn frames_of_any_size_are_found_by_their_frame_pointer() {
    check(
        "alloca",
        "
        .globl f
        f:
        .cfi_startproc
        push %rbp
        .cfi_def_cfa_offset 16
        mov %rsp, %rbp
        .cfi_offset rbp, -16
        sub %rdi, %rsp
        .cfi_def_cfa_register rbp
        mov %rsp, %rdi
        call *%rsi
        leave
        .cfi_def_cfa rsp, 8
        .cfi_restore rbp
        ret
        .cfi_endproc
        ",
    );
}

#[test]
fn registers_are_saved_by_moves_too() {
    check(
        "moves",
        "
        .globl f
        f:
        .cfi_startproc
        sub $40, %rsp
        .cfi_def_cfa_offset 48
        mov %rbx, 16(%rsp)
        mov %r12, 24(%rsp)
        mov %rdi, %rbx
        .cfi_offset rbx, -32
        mov %rsi, %r12
        .cfi_offset r12, -24
        call *%rdx
        mov 24(%rsp), %r12
        .cfi_restore r12
        mov 16(%rsp), %rbx
        .cfi_restore rbx
        add $40, %rsp
        .cfi_def_cfa_offset 8
        ret
        .cfi_endproc
        ",
    );
}

#[test]
fn a_call_that_never_returns_says_nothing_of_what_is_behind_it() {
    check(
        "no-return",
        "
        .globl f
        f:
        .cfi_startproc
        test %rdi, %rdi
        je 1f
        2:
        xor %eax, %eax
        ret
        1:
        push %rax
        .cfi_def_cfa_offset 16
        call *%rsi
        .cfi_endproc
        .globl g
        g:
        .cfi_startproc
        push %r15
        .cfi_def_cfa_offset 16
        pop %r15
        .cfi_def_cfa_offset 8
        jmp *%rax
        .cfi_endproc
        ",
    );
}

#[test]
fn where_a_jump_by_a_table_leads_the_frame_is_that_of_the_jump() {
    check(
        "switch",
        "
        .globl f
        f:
        .cfi_startproc
        push %rbx
        .cfi_def_cfa_offset 16
        mov %edi, %ebx
        .cfi_offset rbx, -16
        lea 9f(%rip), %rdx
        movslq (%rdx,%rbx,4), %rax
        add %rdx, %rax
        jmp *%rax
        1:
        mov $1, %eax
        jmp 3f
        2:
        mov $2, %eax
        3:
        pop %rbx
        .cfi_def_cfa_offset 8
        .cfi_restore rbx
        ret
        .cfi_endproc
        .section .rodata
        9: .long 1b-9b, 2b-9b
        ",
    );
}

#[test]
fn a_new_thread_begins_behind_its_system_call() {
    let file = assemble(
        "clone",
        "
        .globl f
        f: xor %eax, %eax
        mov $56, %al
        syscall
        test %eax, %eax
        jnz 1f
        xor %ebp, %ebp
        pop %rdi
        call *%r9
        hlt
        1: ret
        nop
        .globl g
        g: mov $15, %rax
        syscall
        ",
    );
    let (start, code) = text(&file);
    let table = table(file);
    let kind_at = |offset: usize| table.rule(start + offset as u64).map(|rule| rule.kind);
    let find = |bytes: &[u8]| code.windows(bytes.len()).position(|window| window == bytes);
    assert_eq!(kind_at(0), Some(TableRuleKind::Offset));
    assert_eq!(kind_at(find(&[0x31, 0xed]).expect("xor")), Some(TableRuleKind::Root));
    assert_eq!(kind_at(find(&[0xf4, 0xc3]).expect("hlt")), Some(TableRuleKind::Root));
    assert_eq!(kind_at(find(&[0xc3, 0x90]).expect("ret")), Some(TableRuleKind::Offset));
    let handler = find(&[0x48, 0xc7, 0xc0, 15]).expect("mov");
    // The byte before it is looked up.
    assert_eq!(kind_at(handler), Some(TableRuleKind::Signal));
    assert_eq!(kind_at(handler - 1), Some(TableRuleKind::Signal));
}

/// The address of JIT-compiled code.
const CODE: u64 = 0x7f00_0000_1000;

/// The frames of a thread in such code, with its caller further on.
fn frames(info: UnwindInfo, guessing: bool) -> (Vec<Frame>, StackEnd, u32) {
    let len = info.bytes().len().min(0x1000) as u64;
    frames_at(info, len, 0, guessing)
}

/// The same where such code is so many bytes further on.
fn frames_at(
    info: UnwindInfo,
    len: u64,
    offset: u64,
    guessing: bool,
) -> (Vec<Frame>, StackEnd, u32) {
    let mut space = AddressSpace::new();
    space.map(CODE..CODE + len, 0, Some(info.into()), 0);
    let mut unwinder = Unwinder::new(Arch::X86_64);
    unwinder.set_guessing(guessing);
    frames_by(&mut unwinder, &space, offset)
}

fn frames_by(
    unwinder: &mut Unwinder,
    space: &AddressSpace,
    offset: u64,
) -> (Vec<Frame>, StackEnd, u32) {
    let mut registers = Registers::new(Arch::X86_64);
    registers.set(Arch::X86_64.ip(), CODE + offset + 0x22);
    registers.set(Arch::X86_64.sp(), 0x7000);
    registers.set(Arch::X86_64.fp(), 0);
    // The inner function's 16 bytes and rbx; the outer one's 8 bytes.
    let words: [u64; 6] = [7, 7, 9, CODE + offset + 0x9, 7, 0];
    let bytes = words.map(u64::to_le_bytes).concat();
    let stack = StackCopy { start: 0x7000, bytes: &bytes };
    let mut frames = Vec::new();
    let unwound = unwinder.unwind(space, &registers, stack, 127, &mut frames);
    (frames, unwound.end, unwound.guessed)
}

/// sub $8,%rsp; call …; add $8,%rsp; ret; and at 0x1c: push %rbx; sub $16,%rsp; nop; nop; add $16,%rsp; pop %rbx; ret
fn jit_code() -> Vec<u8> {
    let mut code = vec![0xcc; 0x40];
    code[..0xe].copy_from_slice(&[
        0x48, 0x83, 0xec, 0x08, 0xe8, 0x13, 0, 0, 0, 0x48, 0x83, 0xc4, 0x08, 0xc3,
    ]);
    code[0x1c..0x28]
        .copy_from_slice(&[0x53, 0x48, 0x83, 0xec, 0x10, 0x90, 0x90, 0x48, 0x83, 0xc4, 0x10, 0x5b]);
    code[0x28] = 0xc3;
    code
}

#[test]
fn code_made_at_run_time_is_left_by_its_instructions() {
    for functions in [&[][..], &[CODE..CODE + 0xe, CODE + 0x1c..CODE + 0x29]] {
        let info = UnwindInfo::from_code(Arch::X86_64, CODE, jit_code(), functions);
        let (frames, end, guessed) = frames(info, true);
        let found: Vec<_> = frames.iter().map(|frame| (frame.address, frame.guessed)).collect();
        assert_eq!(found, [(CODE + 0x22, false), (CODE + 0x9, true)]);
        // Nothing called the outer one: the word there is no return address.
        assert_eq!((end, guessed), (StackEnd::NoRule, 1));
    }
}

/// The table of Chromium's 150 MB took half a minute to make.
#[test]
fn much_code_without_tables_is_looked_at_where_it_is_asked_for() {
    const LEN: usize = 5 << 20;
    // Functions lie across the borders of any pieces.
    for shift in [0, 0x20, 0x24] {
        let mut code = vec![0xcc; shift];
        while code.len() < LEN {
            code.extend(jit_code());
        }
        let info = || UnwindInfo::from_code(Arch::X86_64, CODE, code.clone(), &[]);
        let table = info().table();
        assert!(table.rule(CODE + 0x22).is_none_or(|rule| rule.flags & TableRule::GUESS == 0));
        for unit in [0, 127, 128, 255, 1023, 40_000, 80_000] {
            let offset = shift as u64 + unit * 0x40;
            let (frames, ..) = frames_at(info(), LEN as u64, offset, true);
            let found: Vec<_> = frames.iter().map(|frame| (frame.address, frame.guessed)).collect();
            let expected = [(CODE + offset + 0x22, false), (CODE + offset + 0x9, true)];
            assert_eq!(found, expected, "{shift:#x} {unit}");
        }
    }
}

/// Code that takes long to read is read on one thread for another one, which goes on without, or comes back.
#[test]
fn one_unwinder_reads_code_for_another() {
    let mut space = AddressSpace::new();
    let info = UnwindInfo::from_code(Arch::X86_64, CODE, jit_code(), &[]);
    space.map(CODE..CODE + 0x40, 0, Some(info.into()), 0);
    let [mut unwinder, mut other] = [(); 2].map(|()| Unwinder::new(Arch::X86_64));
    // Where guesses are refused, no code is read for them.
    unwinder.set_guessing(false);
    assert_eq!(frames_by(&mut unwinder, &space, 0).1, StackEnd::NoRule);
    unwinder.set_guessing(true);
    unwinder.set_unread(UnreadCode::Stop);
    let (frames, end, guessed) = frames_by(&mut unwinder, &space, 0);
    assert_eq!((frames.len(), end, guessed), (1, StackEnd::Unread, 0));
    // Without the code, the caller is what an address on the stack leads to.
    unwinder.set_unread(UnreadCode::Skip);
    let (frames, end, guessed) = frames_by(&mut unwinder, &space, 0);
    assert_eq!((frames.len(), end, guessed), (2, StackEnd::NoRule, 1));
    let read = frames_by(&mut other, &space, 0);
    assert_eq!((read.0.len(), read.1, read.2), (2, StackEnd::NoRule, 1));
    for unread in [UnreadCode::Stop, UnreadCode::Skip, UnreadCode::Read] {
        unwinder.set_unread(unread);
        assert_eq!(frames_by(&mut unwinder, &space, 0), read);
    }
}

#[test]
fn guesses_can_be_refused() {
    let info = UnwindInfo::from_code(Arch::X86_64, CODE, jit_code(), &[]);
    let (frames, end, guessed) = frames(info, false);
    assert_eq!((frames.len(), end, guessed), (1, StackEnd::NoRule, 0));
}

#[test]
fn code_made_at_run_time_is_left_by_the_tables_that_came_with_it() {
    // One common entry, and one for the function at 0x1c, of 0xd bytes: the CFA is rsp + 8, and 32 from its
    // sixth byte on; rbx is at CFA - 16.
    let code = jit_code();
    let address = (CODE + code.len() as u64).next_multiple_of(8);
    let mut eh_frame = vec![16, 0, 0, 0, 0, 0, 0, 0, 1, b'z', b'R', 0, 1, 0x78, 16, 1, 0x1b];
    eh_frame.extend([0x0c, 7, 8]);
    eh_frame[0] = 24;
    eh_frame.extend([0x90, 1, 0, 0, 0, 0, 0, 0]);
    let entry = eh_frame.len() as u64;
    let start = (CODE + 0x1c).wrapping_sub(address + entry + 8) as u32;
    eh_frame.extend(20_u32.to_le_bytes());
    eh_frame.extend((entry as u32 + 4).to_le_bytes());
    eh_frame.extend(start.to_le_bytes());
    eh_frame.extend(0xd_u32.to_le_bytes());
    eh_frame.extend([0, 0x45, 0x0e, 32, 0x83, 2, 0, 0]);
    eh_frame.extend([0; 4]);
    let info = UnwindInfo::from_eh_frame(Arch::X86_64, CODE, &code, &eh_frame, address);
    let (frames, end, guessed) = frames(info, false);
    let found: Vec<_> = frames.iter().map(|frame| (frame.address, frame.guessed)).collect();
    assert_eq!(found, [(CODE + 0x22, false), (CODE + 0x9, false)]);
    assert_eq!((end, guessed), (StackEnd::NoRule, 0));
}

#[test]
fn the_entry_function_ends_where_its_table_says_also_without_one() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let path = |name: &str| folder.join(name);
    std::fs::write(path("entry.c"), "int main(void) { return 0; }").expect("a file");
    let run = |command: &mut Command| assert!(command.status().expect("installed").success());
    run(Command::new("gcc").arg("-o").arg(path("entry")).arg(path("entry.c")));
    let mut objcopy = Command::new("objcopy");
    for section in [".eh_frame", ".eh_frame_hdr", ".symtab"] {
        objcopy.arg(format!("--remove-section={section}"));
    }
    run(objcopy.arg(path("entry")).arg(path("entry-without")));
    let entry = |name: &str| {
        let file = std::fs::read(path(name)).expect("it was made");
        UnwindInfo::from_bytes(file).expect("an ELF file").entry_function()
    };
    let with = entry("entry").expect("the C library's start has a table");
    assert!(!with.is_empty());
    assert_eq!(entry("entry-without"), Some(with));
}
