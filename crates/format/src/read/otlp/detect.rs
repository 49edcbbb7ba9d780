//! Detection of OTLP profiles. Like other protobuf messages, they have no magic number.

use crate::protobuf::{Damaged, Message, Value};

/// True if the bytes begin with resources that contain profiles.
pub(super) fn is_otlp(head: &[u8]) -> bool {
    // `head` may end within the first field, which contains everything checked here.
    let Some((1, mut at)) = first_field(head) else { return false };
    // resource_profiles, scope_profiles (2), profiles (2), sample_type (1).
    for wanted in [2, 2, 1] {
        let mut rest = at;
        at = loop {
            match first_field(rest) {
                Some((field, bytes)) if field == wanted => break bytes,
                // Fields that may precede it: a resource or a scope; both contain strings and messages.
                Some((1, bytes)) => match rest.get(offset(rest, bytes) + bytes.len()..) {
                    Some(next) => rest = next,
                    None => return false,
                },
                _ => return false,
            }
        };
    }
    // A `ValueType` is two numbers.
    let mut value_type = Message(at);
    let mut fields = 0;
    while let Ok(Some((field, value))) = value_type.next() {
        if !matches!((field, value), (1 | 2, Value::Number(_))) {
            return false;
        }
        fields += 1;
    }
    fields > 0
}

/// Returns true if the bytes begin with the length of a message of profiles, and with that: a collector's file exporter writes
/// `proto` so.
pub(super) fn is_framed(head: &[u8]) -> bool {
    head.split_first_chunk::<4>().is_some_and(|(length, message)| {
        let length = u32::from_be_bytes(*length) as usize;
        length > 0 && is_otlp(message.get(..length).unwrap_or(message))
    })
}

/// The messages of such a file.
pub(super) fn framed(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (length, rest) = bytes.split_first_chunk::<4>()?;
        let length = u32::from_be_bytes(*length) as usize;
        // The last one may be cut off.
        let message;
        (message, bytes) = rest.split_at(length.min(rest.len()));
        Some(message)
    })
}

/// Returns the number and content of a message's first field, which may be cut off.
fn first_field(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let mut message = Message(bytes);
    match message.next() {
        Ok(Some((field, Value::Bytes(content)))) => Some((field, content)),
        Ok(_) => None,
        Err(Damaged) => {
            // The field's length exceeds the remaining bytes.
            let key = *bytes.first()?;
            if key & 7 != 2 || key >= 0x80 {
                return None;
            }
            let length = bytes.get(1..)?.iter().take(10).position(|&byte| byte < 0x80)?;
            Some((u32::from(key >> 3), bytes.get(length + 2..)?))
        }
    }
}

/// Returns the offset of `part` in `whole`, of which it is a subslice.
fn offset(whole: &[u8], part: &[u8]) -> usize {
    (part.as_ptr() as usize).saturating_sub(whole.as_ptr() as usize)
}
