//! The rows of a file's table: `rules FILE [START [END]]`.

use pyrograph_unwind::UnwindInfo;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let bytes = std::fs::read(arguments.next().expect("a file")).expect("the file can be read");
    let info = UnwindInfo::from_bytes(bytes).expect("an ELF file");
    let mut address = || {
        let text = arguments.next()?;
        u64::from_str_radix(text.trim_start_matches("0x"), 16).ok()
    };
    let (start, end) = (address().unwrap_or(0), address().unwrap_or(u64::MAX));
    let table = info.table();
    for row in &table.rows {
        let address = table.start + u64::from(row.offset);
        if (start..end).contains(&address) {
            let rule = table.rules[usize::from(row.rule)];
            println!(
                "{address:#x} {:?} base {} add {} offset {} saved {:?} flags {:#x}",
                rule.kind, rule.base, rule.add, rule.offset, rule.saved, rule.flags
            );
        }
    }
}
