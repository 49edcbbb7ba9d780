//! Finds calls by number and by name.

use crate::call::Call;
use crate::table::{ROWS, Row};

/// Upper limit for the numbers of calls.
const NUMBERS: usize = 512;

/// Row index plus 1 by number; 0 if there is no such call.
static BY_NUMBER: [u16; NUMBERS] = {
    let mut table = [0; NUMBERS];
    let mut index = 0;
    while index < ROWS.len() {
        let number = number(&ROWS[index]);
        if number >= 0 {
            table[number as usize] = index as u16 + 1;
        }
        index += 1;
    }
    table
};

/// Number on the target architecture. Architectures other than x86_64 have aarch64's numbers (`asm-generic/unistd.h`).
const fn number(row: &Row) -> i16 {
    if cfg!(target_arch = "x86_64") { row.x86_64 } else { row.aarch64 }
}

/// Returns the call with a number, on the target architecture.
pub fn by_number(number: u32) -> Option<&'static Call> {
    let index = BY_NUMBER.get(usize::try_from(number).ok()?)?.checked_sub(1)?;
    ROWS.get(usize::from(index)).map(|row| &row.call)
}

/// Returns the number of a call by its name in `unistd.h`.
pub fn number_of(name: &str) -> Option<u32> {
    all().find(|(_, call)| call.name == name).map(|(number, _)| number)
}

/// Names of kernel functions that differ from the names of their calls; the kernel's tracepoints use them.
const IN_THE_KERNEL: [(&str, &str); 6] = [
    ("newfstat", "fstat"),
    ("newstat", "stat"),
    ("newlstat", "lstat"),
    ("newuname", "uname"),
    ("umount", "umount2"),
    ("sendfile64", "sendfile"),
];

/// Returns the number of the call that the kernel's tracepoints `sys_enter_NAME` and `sys_exit_NAME` trace.
pub fn number_of_tracepoint(name: &str) -> Option<u32> {
    let other = IN_THE_KERNEL.iter().find(|(kernel, _)| *kernel == name);
    number_of(other.map_or(name, |(_, call)| call))
}

/// Returns the name of a call in the kernel's tracepoints `sys_enter_NAME` and `sys_exit_NAME`.
pub fn tracepoint_name(call: &str) -> &str {
    let other = IN_THE_KERNEL.iter().find(|(_, name)| *name == call);
    other.map_or(call, |(kernel, _)| kernel)
}

/// Returns all calls, sorted by number.
pub fn all() -> impl Iterator<Item = (u32, &'static Call)> {
    (0..NUMBERS as u32).filter_map(|number| Some((number, by_number(number)?)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{NUMBERS, all, by_number, number_of};
    use crate::table::{ROWS, Row};

    /// Compares one architecture's numbers with those of the `syscalls` crate.
    fn check(number: fn(&Row) -> i16, theirs: impl Fn(usize) -> Option<&'static str>) {
        let ours: BTreeMap<usize, &str> = ROWS
            .iter()
            .filter_map(|row| Some((usize::try_from(number(row)).ok()?, row.call.name)))
            .collect();
        assert!(ours.len() > 320, "{}", ours.len());
        for number in 0..NUMBERS {
            // Calls that only 32-bit architectures have, in the crate's list for aarch64.
            let theirs = theirs(number).filter(|name| !name.ends_with("time64"));
            // Another name of the same call.
            let theirs = theirs.map(|name| if name == "fstatat" { "newfstatat" } else { name });
            assert_eq!(ours.get(&number).copied(), theirs, "{number}");
        }
    }

    #[test]
    fn numbers_are_those_of_another_list() {
        check(
            |row| row.x86_64,
            |number| syscalls::x86_64::Sysno::new(number).map(|call| call.name()),
        );
        check(
            |row| row.aarch64,
            |number| syscalls::aarch64::Sysno::new(number).map(|call| call.name()),
        );
    }

    #[test]
    fn names_and_numbers_lead_to_each_other() {
        for (number, call) in all() {
            assert_eq!(number_of(call.name), Some(number));
            assert_eq!(by_number(number).map(|call| call.name), Some(call.name));
        }
        assert!(by_number(511).is_none() && by_number(u32::MAX).is_none());
        assert_eq!(number_of("no_such_call"), None);
    }
}
