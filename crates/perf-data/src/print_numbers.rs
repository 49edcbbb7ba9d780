//! C arithmetic for the arguments of a `print fmt`: operators, and types by name.

/// Truncates a number to this many bytes, and extends it with its sign or with zeros.
pub fn cut(number: i64, bytes: usize, signed: bool) -> i64 {
    let unused = 64 - 8 * bytes.clamp(1, 8) as u32;
    match signed {
        true => number << unused >> unused,
        false => (number.cast_unsigned() << unused >> unused).cast_signed(),
    }
}

/// Evaluates a unary operator.
pub fn unary(sign: char, value: i64) -> i64 {
    match sign {
        '-' => value.wrapping_neg(),
        '!' => i64::from(value == 0),
        _ => !value,
    }
}

/// Evaluates a binary operator in 64 bits; division by zero gives zero. `unsigned` is true if an operand is an unsigned
/// 64-bit number.
pub fn binary(sign: &str, unsigned: bool, a: i64, b: i64) -> i64 {
    let shift = u32::try_from(b).ok().filter(|&bits| bits < 64);
    let (x, y) = (a.cast_unsigned(), b.cast_unsigned());
    match sign {
        "<=" if unsigned => i64::from(x <= y),
        ">=" if unsigned => i64::from(x >= y),
        "<" if unsigned => i64::from(x < y),
        ">" if unsigned => i64::from(x > y),
        "/" if unsigned => x.checked_div(y).unwrap_or(0).cast_signed(),
        "%" if unsigned => x.checked_rem(y).unwrap_or(0).cast_signed(),
        ">>" if unsigned => shift.map_or(0, |bits| (x >> bits).cast_signed()),
        "||" => i64::from(a != 0 || b != 0),
        "&&" => i64::from(a != 0 && b != 0),
        "|" => a | b,
        "^" => a ^ b,
        "&" => a & b,
        "==" => i64::from(a == b),
        "!=" => i64::from(a != b),
        "<=" => i64::from(a <= b),
        ">=" => i64::from(a >= b),
        "<" => i64::from(a < b),
        ">" => i64::from(a > b),
        "<<" => shift.map_or(0, |bits| a << bits),
        ">>" => shift.map_or(0, |bits| a >> bits),
        "+" => a.wrapping_add(b),
        "-" => a.wrapping_sub(b),
        "*" => a.wrapping_mul(b),
        "/" => a.checked_div(b).unwrap_or(0),
        _ => a.checked_rem(b).unwrap_or(0),
    }
}

/// Returns true if a word can only be part of a type name.
pub fn is_type(word: &str) -> bool {
    const WORDS: [&str; 13] = [
        "unsigned", "signed", "long", "int", "short", "char", "const", "u8", "u16", "u32", "u64",
        "s32", "s64",
    ];
    WORDS.contains(&word) || word.ends_with("_t")
}

/// Returns the size in bytes of a type, and true if it is signed.
pub fn size_of_type(words: &[&str]) -> (usize, bool) {
    let has = |word: &str| words.contains(&word);
    let last = words.last().copied().unwrap_or_default();
    let by_name = match last.trim_start_matches('_') {
        "u8" | "uint8_t" | "bool" => Some((1, false)),
        "u16" | "uint16_t" | "le16" | "be16" => Some((2, false)),
        "u32" | "uint32_t" | "gfp_t" | "dev_t" | "uid_t" | "gid_t" | "le32" | "be32" => {
            Some((4, false))
        }
        "s8" | "int8_t" => Some((1, true)),
        "s16" | "int16_t" => Some((2, true)),
        "s32" | "int32_t" | "pid_t" => Some((4, true)),
        _ => None,
    };
    let signed = !has("unsigned");
    by_name.unwrap_or(match () {
        () if has("char") => (1, signed),
        () if has("short") => (2, signed),
        () if has("long") => (8, signed),
        () if has("int") || last == "unsigned" || has("enum") => (4, signed),
        () => (8, signed),
    })
}
