//! The tables of real files against the rules of their own tables.

use super::*;

/// Rules of every address of a file's code are those that the search in the file's own tables finds.
fn check(path: &str) -> usize {
    let Ok(bytes) = std::fs::read(path) else { return 0 };
    let info = UnwindInfo::from_bytes(bytes).expect("an ELF file");
    let table = info.table();
    assert!(table.rows.is_sorted_by(|a, b| a.offset < b.offset));
    let mut context = Context::new_in();
    let mut compared = 0;
    for range in info.code_ranges() {
        for svma in range.step_by(7) {
            let found = table.rule(svma).copied().unwrap_or_default();
            match info.rule(svma, &mut context) {
                Compiled::Rule(Rule::Compact(compact)) => {
                    assert_eq!(found, from_compact(&compact), "{path} {svma:#x}");
                    compared += 1;
                }
                Compiled::Rule(Rule::Root) => {
                    assert_eq!(found.kind, TableRuleKind::Root, "{path} {svma:#x}");
                }
                _ => {}
            }
        }
    }
    compared
}

/// The functions that raise exceptions save what they pass to handlers, which no caller is found by.
#[test]
fn functions_that_raise_exceptions_have_rules() {
    let libgcc = std::fs::read("/lib/x86_64-linux-gnu/libgcc_s.so.1").expect("the C compiler's");
    let table = UnwindInfo::from_bytes(libgcc).expect("an ELF file").table();
    assert!(table.rows.len() > 100);
    let is_bad = |row: &&TableRow| table.rules[usize::from(row.rule)].kind == TableRuleKind::Bad;
    assert_eq!(table.rows.iter().filter(is_bad).count(), 0);
}

/// Where nothing is called, the byte before says so: it is what is looked up.
#[test]
fn where_contexts_start_is_the_first_frame() {
    let libc = std::fs::read("/lib/x86_64-linux-gnu/libc.so.6").expect("the C library");
    let info = UnwindInfo::from_bytes(libc).expect("an ELF file");
    // mov %rbx,%rsp; mov (%rsp),%rdi; test %rdi,%rdi
    let start = [0x48, 0x89, 0xdc, 0x48, 0x8b, 0x3c, 0x24, 0x48, 0x85, 0xff];
    let segment = info.code_ranges()[0].clone();
    let code = info.code(segment.start, (segment.end - segment.start) as usize).expect("code");
    let at = code.windows(start.len()).position(|window| window == start);
    let svma = segment.start + at.expect("__start_context") as u64;
    let rule = info.table().rule(svma - 1).copied().expect("a rule");
    assert_eq!((rule.kind, rule.add), (TableRuleKind::Root, 1));
    let mut context = Context::new_in();
    assert!(matches!(info.rule_of_call(svma, &mut context), Compiled::Rule(Rule::Prepared)));
}

#[test]
fn every_address_has_the_rule_of_the_files_own_table() {
    let own = std::env::current_exe().expect("this test");
    let mut compared = check(own.to_str().expect("a plain path"));
    for path in ["/usr/bin/python3", "/lib/x86_64-linux-gnu/libc.so.6", "/usr/bin/perl"] {
        compared += check(path);
    }
    assert!(compared > 10_000);
    // Without tables, and with tables for a part.
    check("/lib/x86_64-linux-musl/libc.so");
    check("/usr/lib/x86_64-linux-gnu/libgmp.so.10");
}

/// Rules beyond what a number can say got the first rule of the file.
#[test]
fn rules_beyond_the_last_number_are_bad_ones() {
    let own = std::fs::read(std::env::current_exe().expect("a path")).expect("own file");
    let info = UnwindInfo::from_bytes(own).expect("an ELF file");
    let mut builder = Builder::new(&info);
    let rule = |offset| TableRule { offset, ..TableRule::of(TableRuleKind::Offset) };
    let numbers: Vec<u16> = (0..70_000).map(|offset| builder.number(rule(offset))).collect();
    for (offset, number) in (0..).zip(&numbers) {
        let found = builder.rules[usize::from(*number)];
        let expect = if offset < i32::from(u16::MAX) {
            rule(offset)
        } else {
            TableRule::of(TableRuleKind::Bad)
        };
        assert_eq!(found, expect, "{offset}");
    }
    // What was there before keeps its number.
    assert_eq!(builder.number(rule(9)), 9);
    assert_eq!(builder.rules.len(), 1 << 16);
}
