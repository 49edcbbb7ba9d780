//! Line entries of one function, from a `DEBUG_INFO` record.

use std::ops::RangeInclusive;

use super::order::Order;

/// Size of the address, line and column before each name, in bytes.
const ENTRY: usize = 16;
/// Records are padded to a multiple of this size, in bytes.
const PADDING: usize = 8;

/// Properties of the entries that are not in their bytes.
#[derive(Clone, Debug)]
pub struct Known<'a> {
    pub order: Order,
    /// Number of entries.
    pub count: u64,
    /// Valid addresses: the function's code.
    pub code: RangeInclusive<u64>,
    /// Offset that the writer added to the addresses.
    pub shift: u64,
    /// Name of the function.
    pub function: &'a str,
}

/// An address, and the line and file of the code from there on.
type Entry<'a> = (u64, u32, Option<&'a str>);

/// Finds file and line of an address.
pub fn find<'a>(
    bytes: &'a [u8],
    known: &Known<'a>,
    address: u64,
) -> Option<(Option<&'a str>, u32)> {
    // A count that does not fit in the record is damage.
    let count = usize::try_from(known.count).ok().filter(|&count| count <= bytes.len() / ENTRY)?;
    let entries = parse(bytes, count, known).or_else(|| without_names(bytes, count, known))?;
    let here = entries.iter().filter(|(start, ..)| *start <= address);
    let (_, line, file) = here.max_by_key(|(start, ..)| *start)?;
    Some((*file, *line))
}

/// Parses entries in the regular format; `None` if they are invalid or do not fill the record.
fn parse<'a>(bytes: &'a [u8], count: usize, known: &Known<'_>) -> Option<Vec<Entry<'a>>> {
    let (mut rest, mut file) = (bytes, None);
    let mut entries = Vec::new();
    for _ in 0..count {
        let (entry, name) = rest.split_first_chunk::<ENTRY>()?;
        let end = name.iter().position(|&byte| byte == 0)?;
        let (name, next) = (&name[..end], &name[end + 1..]);
        // `ff` repeats the file name of the previous entry.
        if name != b"\xff" {
            let text =
                std::str::from_utf8(name).ok().filter(|text| !text.contains(char::is_control))?;
            file = Some(text).filter(|text| !text.is_empty());
        }
        let (address, line) = address_and_line(entry, known)?;
        entries.push((address, line, file));
        rest = next;
    }
    (rest.len() < PADDING).then_some(entries)
}

/// Parses entries with damaged file names. V8 (seen in Node.js 20) frees file names before it writes them: a name
/// has the right length, but begins with zeros and garbage. If all entries are of one file, all names have the same
/// length, and the function's name contains the file as well: `JS:*fib /srv/app.js:3:13`.
fn without_names<'a>(bytes: &[u8], count: usize, known: &Known<'a>) -> Option<Vec<Entry<'a>>> {
    let place = known.function.rsplitn(3, ':').nth(2)?;
    let sizes = (ENTRY + 1..=bytes.len().checked_div(count)?).rev();
    let mut sizes = sizes.take_while(|size| bytes.len() - size * count < PADDING);
    sizes.find_map(|size| {
        let (name, file) = place.split_at_checked(place.len().checked_sub(size - ENTRY - 1)?)?;
        if file.is_empty() || !name.ends_with(' ') {
            return None;
        }
        let entry = |entry: &[u8]| {
            let (address, line) = address_and_line(entry, known)?;
            (entry.last() == Some(&0)).then_some((address, line, Some(file)))
        };
        bytes.chunks_exact(size).take(count).map(entry).collect()
    })
}

/// Address and line of an entry; `None` if the address is outside the function.
fn address_and_line(entry: &[u8], known: &Known<'_>) -> Option<(u64, u32)> {
    let address = known.order.u64(entry, 0).checked_sub(known.shift)?;
    known.code.contains(&address).then(|| (address, known.order.u32(entry, 8)))
}
