//! Formats values as the kernel prints them: numbers, names of bits, network addresses, UUIDs.

use std::fmt::Write;

use crate::print_format::Conversion;
use crate::print_numbers::cut;

/// Upper limit for the number of digits of a number in any base.
const MOST: usize = 24;

/// Appends a number. `precision` is the minimum number of digits.
pub fn integer(conversion: &Conversion, precision: Option<usize>, number: i64, out: &mut String) {
    let (kind, bytes) = (conversion.kind, conversion.bytes);
    let signed = matches!(kind, 'd' | 'i');
    let number = cut(number, bytes, signed);
    let magnitude = if signed { number.unsigned_abs() } else { number.cast_unsigned() };
    let mut buffer = [0; MOST];
    let digits = match kind {
        'x' => digits(magnitude, 4, b"0123456789abcdef", &mut buffer),
        'X' => digits(magnitude, 4, b"0123456789ABCDEF", &mut buffer),
        'o' => digits(magnitude, 3, b"01234567", &mut buffer),
        _ => decimal(magnitude, &mut buffer),
    };
    let sign = match conversion.sign.filter(|_| signed) {
        _ if signed && number < 0 => "-",
        Some('+') => "+",
        Some(_) => " ",
        None => "",
    };
    let prefix = match kind {
        _ if !conversion.prefixed || number == 0 => "",
        'x' => "0x",
        'X' => "0X",
        'o' => "0",
        _ => "",
    };
    let mut zeros = precision.unwrap_or(0).saturating_sub(digits.len());
    let len = sign.len() + prefix.len() + zeros + digits.len();
    let mut missing = conversion.width.saturating_sub(len);
    if missing > 0 && !conversion.left {
        match conversion.zeros && precision.is_none() {
            true => zeros += missing,
            false => out.extend(std::iter::repeat_n(' ', missing)),
        }
        missing = 0;
    }
    out.push_str(sign);
    out.push_str(prefix);
    out.extend(std::iter::repeat_n('0', zeros));
    out.push_str(digits);
    out.extend(std::iter::repeat_n(' ', missing));
}

fn decimal(mut number: u64, buffer: &mut [u8; MOST]) -> &str {
    let mut start = MOST;
    loop {
        start -= 1;
        buffer[start] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    std::str::from_utf8(&buffer[start..]).unwrap_or_default()
}

/// Formats a number with digits of `bits` bits each.
fn digits<'b>(mut number: u64, bits: u32, of: &[u8], buffer: &'b mut [u8; MOST]) -> &'b str {
    let mut start = MOST;
    loop {
        start -= 1;
        buffer[start] = of[(number & ((1 << bits) - 1)) as usize];
        number >>= bits;
        if number == 0 {
            break;
        }
    }
    std::str::from_utf8(&buffer[start..]).unwrap_or_default()
}

/// Appends a hexadecimal number with its prefix.
pub fn hex(number: u64, out: &mut String) {
    out.push_str("0x");
    out.push_str(digits(number, 4, b"0123456789abcdef", &mut [0; MOST]));
}

/// Appends the names of a number's bits, and the rest of the number.
pub fn flags(mut value: i64, between: &str, names: &[(Option<i64>, String)], out: &mut String) {
    let mut first = true;
    let mut add = |text: &str, out: &mut String| {
        if !first {
            out.push_str(between);
        }
        first = false;
        out.push_str(text);
    };
    for (bits, name) in names.iter().filter_map(|(bits, name)| Some(((*bits)?, name))) {
        if value == 0 && bits == 0 {
            return add(name, out);
        }
        if bits != 0 && value & bits == bits {
            add(name, out);
            value &= !bits;
        }
    }
    if value != 0 {
        add(&format!("{value:#x}"), out);
    }
}

/// Appends an IPv6 address: `%pI6`, `%pi6`, or `%pI6c`, which is the short form.
pub fn ip6(kind: &str, bytes: &[u8], out: &mut String) -> std::fmt::Result {
    let mut octets = [0; 16];
    octets.copy_from_slice(&bytes[..16]);
    if kind == "I6c" {
        return write!(out, "{}", std::net::Ipv6Addr::from(octets));
    }
    let between = if kind == "I6" { ":" } else { "" };
    for (at, pair) in octets.chunks_exact(2).enumerate() {
        let between = if at == 0 { "" } else { between };
        write!(out, "{between}{:02x}{:02x}", pair[0], pair[1])?;
    }
    Ok(())
}

/// Appends a UUID: `%pU`.
pub fn uuid(kind: &str, bytes: &[u8], out: &mut String) -> std::fmt::Result {
    const LITTLE: [usize; 16] = [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15];
    for at in 0..16 {
        if matches!(at, 4 | 6 | 8 | 10) {
            out.push('-');
        }
        write!(out, "{:02x}", bytes[if kind == "UL" { LITTLE[at] } else { at }])?;
    }
    Ok(())
}

/// Appends the address in a `struct sockaddr`; `rest` is the data after family and port: `%pISpc`.
pub fn socket_address(
    family: u16,
    port: u16,
    rest: &[u8],
    with_port: bool,
    out: &mut String,
) -> std::fmt::Result {
    const INET: u16 = 2;
    const INET6: u16 = 10;
    match (family, rest) {
        (INET, [a, b, c, d, ..]) => {
            write!(out, "{a}.{b}.{c}.{d}")?;
            if with_port { write!(out, ":{port}") } else { Ok(()) }
        }
        // Preceded by four bytes of flow information.
        (INET6, [_, _, _, _, bytes @ ..]) if bytes.len() >= 16 => {
            if !with_port {
                return ip6("I6c", bytes, out);
            }
            out.push('[');
            ip6("I6c", bytes, out)?;
            write!(out, "]:{port}")
        }
        _ => Ok(()),
    }
}
