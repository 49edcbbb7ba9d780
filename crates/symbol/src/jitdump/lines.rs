//! The line entries of one function: `DEBUG_INFO`.

use std::ops::RangeInclusive;

use super::order::Order;

/// Address, line and column stand before each name.
const ENTRY: usize = 16;
/// Records are filled up to a multiple of this.
const PADDING: usize = 8;

/// Facts about the entries besides their bytes.
#[derive(Clone, Debug)]
pub struct Known<'a> {
    pub order: Order,
    /// How many there are.
    pub count: u64,
    /// Where they can be: the function's code.
    pub code: RangeInclusive<u64>,
    /// Offset that was added to their addresses.
    pub shift: u64,
    /// The function's name.
    pub function: &'a str,
}

/// An address, and the line and file from it on.
type Entry<'a> = (u64, u32, Option<&'a str>);

/// File and line of an address.
pub fn find<'a>(
    bytes: &'a [u8],
    known: &Known<'a>,
    address: u64,
) -> Option<(Option<&'a str>, u32)> {
    // More than fit, or none.
    let count = usize::try_from(known.count).ok().filter(|&count| count <= bytes.len() / ENTRY)?;
    let entries = parse(bytes, count, known).or_else(|| without_names(bytes, count, known))?;
    let here = entries.iter().filter(|(start, ..)| *start <= address);
    let (_, line, file) = here.max_by_key(|(start, ..)| *start)?;
    Some((*file, *line))
}

/// The entries, if they are what they should be and fill the record.
fn parse<'a>(bytes: &'a [u8], count: usize, known: &Known<'_>) -> Option<Vec<Entry<'a>>> {
    let (mut rest, mut file) = (bytes, None);
    let mut entries = Vec::new();
    for _ in 0..count {
        let (entry, name) = rest.split_first_chunk::<ENTRY>()?;
        let end = name.iter().position(|&byte| byte == 0)?;
        let (name, next) = (&name[..end], &name[end + 1..]);
        // Stands for the one before.
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

/// V8 (seen in Node.js 20) frees the names of files before it writes them, so that what should be
/// a name is of the right length and begins with zeros and garbage. The length is the same in all
/// entries if they are all of one file, and that stands in the function's name as well:
/// `JS:*fib /srv/app.js:3:13`.
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

/// Of an entry whose address is inside the function.
fn address_and_line(entry: &[u8], known: &Known<'_>) -> Option<(u64, u32)> {
    let address = known.order.u64(entry, 0).checked_sub(known.shift)?;
    known.code.contains(&address).then(|| (address, known.order.u32(entry, 8)))
}
