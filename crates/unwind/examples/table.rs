//! How large the tables for the unwinder in the kernel are, and how long they take to make, and to find
//! and read back where they are kept: `table FILE…`.

use std::time::Instant;

use pyrograph_unwind::{Table, TableRuleKind, UnwindInfo};

fn main() {
    println!("{:>10} {:>7} {:>9} {:>9} {:>8}  file", "rows", "rules", "ms", "back, ms", "unknown");
    for path in std::env::args().skip(1) {
        let bytes = std::fs::read(&path).expect("the file can be read");
        let info = UnwindInfo::from_bytes(bytes).expect("an ELF file");
        let start = Instant::now();
        let table = info.table();
        let ms = start.elapsed().as_secs_f64() * 1e3;
        let kept = table.to_bytes();
        let start = Instant::now();
        let _key = std::hint::black_box(info.table_key());
        assert!(Table::from_bytes(&kept).is_some());
        let back = start.elapsed().as_secs_f64() * 1e3;
        let kind = |rule: u16| table.rules[usize::from(rule)].kind;
        let bad = table.rows.iter().filter(|row| kind(row.rule) == TableRuleKind::Bad).count();
        println!(
            "{:>10} {:>7} {ms:>9.1} {back:>9.2} {bad:>8}  {path}",
            table.rows.len(),
            table.rules.len()
        );
    }
}
