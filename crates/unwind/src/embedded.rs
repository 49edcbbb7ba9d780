//! Code of V8's builtins in a file: V8's compiler has made it, and not the file's. It has no unwind tables, but frame
//! pointers, as code has that V8 makes at run time. By its instructions it cannot be left: builtins change their callers'
//! frames.

use std::ops::Range;

use memchr::memmem;
use object::{Object, ObjectSection, ObjectSymbol};
use pyrograph_elf::Image;

/// How many bytes of code there are, as a number in the file.
const SIZE: &str = "v8_Default_embedded_blob_code_size_";
/// The code's first byte; in old versions a pointer to that, beside a symbol with the second name.
const CODE: &str = "v8_Default_embedded_blob_code_";
const OLD_CODE: &str = "v8_Default_embedded_blob_code_data_";

/// The addresses of the builtins in a file.
pub(crate) fn builtins(image: &Image) -> Option<Range<u64>> {
    // Few files have them: their bytes are compared, before all symbols are.
    let names = image.elf().section_by_name(".strtab")?.data().ok()?;
    memmem::find(names, SIZE.as_bytes())?;
    let (mut size, mut code, mut old_code) = (None, None, None);
    for symbol in image.elf().symbols() {
        match symbol.name() {
            Ok(SIZE) => size = Some(symbol.address()),
            Ok(CODE) => code = Some(symbol.address()),
            Ok(OLD_CODE) => old_code = Some(symbol.address()),
            _ => {}
        }
    }
    let start = old_code.or(code)?;
    let size = usize::try_from(image.offset_of(size?)?).ok()?;
    let size = image.bytes().get(size..)?.first_chunk().map(|size| u32::from_le_bytes(*size))?;
    Some(start..start.checked_add(size.into())?)
}

/// Ranges without what is in another.
pub(crate) fn without(ranges: &[Range<u64>], other: &Range<u64>) -> Vec<Range<u64>> {
    let parts = ranges.iter().flat_map(|range| {
        let before = range.start..range.end.min(other.start);
        let after = range.start.max(other.end)..range.end;
        [before, after]
    });
    parts.filter(|part| part.start < part.end).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_builtins_of_a_file_hold_those_that_it_names() {
        let image = Image::open(std::path::Path::new("/usr/bin/node"));
        let Some(image) = image.ok().filter(|image| image.elf().symbols().count() > 0) else {
            eprintln!("skipped: there is no /usr/bin/node with symbols");
            return;
        };
        let range = builtins(&image).expect("V8's builtins");
        let named = |name: &str| name.starts_with("Builtins_");
        let symbols = image.elf().symbols().filter(|symbol| symbol.name().is_ok_and(named));
        let addresses: Vec<u64> = symbols.map(|symbol| symbol.address()).collect();
        assert!(addresses.len() > 1000, "{}", addresses.len());
        assert!(addresses.iter().all(|address| range.contains(address)), "{range:x?}");
        assert!(range.end - range.start < 8 << 20, "{range:x?}");
    }

    #[test]
    fn what_is_in_another_range_is_left_out() {
        let ranges = [10..20, 30..40];
        for other in [0..5, 12..15, 10..12, 15..35, 18..20, 20..30, 0..100, 35..50, 40..50] {
            let parts = without(&ranges, &other);
            for at in 0..60 {
                let is_in = |ranges: &[Range<u64>]| ranges.iter().any(|range| range.contains(&at));
                assert_eq!(is_in(&parts), is_in(&ranges) && !other.contains(&at), "{at} {other:?}");
            }
            assert!(parts.is_sorted_by_key(|part| part.start), "{parts:?}");
        }
    }
}
