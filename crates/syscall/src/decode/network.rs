//! Sockets: addresses, messages, protocols.

use crate::context::{
    Context, Separated, address as pointer, flags, hex, number, one_of, put, until_nul,
};
use crate::kind::{Kind, Memory};
use crate::layouts::CREDENTIALS;
use crate::text::{escaped, quoted};
use crate::words::network::{CONTROL, FAMILIES, LEVELS, MESSAGES, NETLINK, PROTOCOLS};
use crate::{Piece, pieces};

/// Protocol of a socket; its names depend on the family.
pub(crate) fn protocol(context: &Context<'_>, index: usize, out: &mut String) {
    let raw = context.raw(index) & 0xffff_ffff;
    match context.raw(0) & 0xffff_ffff {
        2 | 10 => one_of(PROTOCOLS, raw, out),
        16 => one_of(NETLINK, raw, out),
        17 => {
            out.push_str("htons(");
            hex(raw >> 8 & 0xff | (raw & 0xff) << 8, out);
            out.push(')');
        }
        _ => put(out, format_args!("{raw}")),
    }
}

pub(crate) fn address(_: &Context<'_>, memory: &Memory<'_>, out: &mut String) {
    socket_address(memory.bytes, out);
}

/// Writes a socket address, whose form depends on its family.
pub(crate) fn socket_address(bytes: &[u8], out: &mut String) {
    let Some(family) = number(bytes, 0, 2) else { return out.push_str("{}") };
    out.push_str("{sa_family=");
    one_of(FAMILIES, family, out);
    let port =
        |at| bytes.get(at..at + 2).map_or(0, |port| u32::from(port[0]) << 8 | u32::from(port[1]));
    match family {
        1 => unix(bytes.get(2..).unwrap_or_default(), out),
        2 => {
            let ip: [u8; 4] = bytes.get(4..8).and_then(|ip| ip.try_into().ok()).unwrap_or_default();
            let ip = std::net::Ipv4Addr::from(ip);
            put(out, format_args!(", sin_port=htons({}), sin_addr=inet_addr(\"{ip}\")", port(2)));
        }
        10 => {
            let ip: [u8; 16] =
                bytes.get(8..24).and_then(|ip| ip.try_into().ok()).unwrap_or_default();
            let flow = bytes
                .get(4..8)
                .map_or(0, |flow| flow.iter().fold(0, |all, &byte| all << 8 | u32::from(byte)));
            put(out, format_args!(", sin6_port=htons({}), sin6_flowinfo=htonl({flow})", port(2)));
            let ip = std::net::Ipv6Addr::from(ip);
            put(out, format_args!(", inet_pton(AF_INET6, \"{ip}\", &sin6_addr)"));
            put(out, format_args!(", sin6_scope_id={}", number(bytes, 24, 4).unwrap_or(0)));
        }
        16 => {
            put(
                out,
                format_args!(", nl_pid={}, nl_groups=", number(bytes, 4, 4).unwrap_or(0) as i32),
            );
            put(out, format_args!("{:08x}", number(bytes, 8, 4).unwrap_or(0)));
        }
        17 => {
            out.push_str(", sll_protocol=htons(");
            hex(u64::from(port(2)), out);
            put(out, format_args!("), sll_ifindex={}", number(bytes, 4, 4).unwrap_or(0)));
        }
        40 => {
            let word = |at| number(bytes, at, 4).unwrap_or(0);
            put(out, format_args!(", svm_cid={:#x}, svm_port={:#x}", word(8), word(4)));
        }
        _ if bytes.len() > 2 => {
            out.push_str(", sa_data=");
            quoted(bytes.get(2..).unwrap_or_default(), 32, false, out);
        }
        _ => {}
    }
    out.push('}');
}

/// Writes a path, or an abstract name after a NUL.
fn unix(path: &[u8], out: &mut String) {
    match path {
        [] => {}
        [0, name @ ..] if !name.is_empty() => {
            out.push_str(", sun_path=@");
            quoted(name, usize::MAX, false, out);
        }
        _ => {
            out.push_str(", sun_path=\"");
            escaped(until_nul(path), out);
            out.push('"');
        }
    }
}

/// Writes an array of buffers, of which `most` bytes have been filled: `[{iov_base="…", iov_len=5}]`.
fn vectors<'a>(
    context: &Context<'_>,
    pieces: impl Iterator<Item = Piece<'a>>,
    mut most: u64,
    more: bool,
    out: &mut String,
) {
    let mut separated = Separated::new('[', out);
    for (index, piece) in pieces.enumerate() {
        let out = separated.next();
        if index == context.written.items {
            out.push_str("...");
            return separated.close(']');
        }
        let there = piece.length.min(most);
        most -= there;
        out.push_str("{iov_base=");
        match piece.bytes {
            [] if there > 0 || piece.address == 0 => pointer(piece.address, out),
            bytes => {
                let bytes = usize::try_from(there)
                    .ok()
                    .and_then(|there| bytes.get(..there))
                    .unwrap_or(bytes);
                quoted(bytes, context.written.text, there > bytes.len() as u64, out);
            }
        }
        put(out, format_args!(", iov_len={}}}", piece.length));
    }
    if more {
        separated.next().push_str("...");
    }
    separated.close(']');
}

/// Buffers filled by the program.
pub(crate) fn vector(context: &Context<'_>, memory: &Memory<'_>, out: &mut String) {
    vectors(context, pieces(memory.bytes), u64::MAX, false, out);
}

/// Buffers filled by the call.
pub(crate) fn filled(context: &Context<'_>, memory: &Memory<'_>, out: &mut String) {
    let most = context.success().map_or(0, i64::unsigned_abs);
    vectors(context, pieces(memory.bytes), most, false, out);
}

/// Writes `struct msghdr` and everything it points to.
pub(crate) fn message(context: &Context<'_>, memory: &Memory<'_>, out: &mut String) {
    let most = match context.call.name {
        "recvmsg" => context.success().map_or(0, i64::unsigned_abs),
        _ => u64::MAX,
    };
    let mut pieces = pieces(memory.bytes);
    if !one_message(context, &mut pieces, most, out) {
        pointer(memory.address, out);
    }
}

fn one_message<'a>(
    context: &Context<'_>,
    pieces: &mut impl Iterator<Item = Piece<'a>>,
    most: u64,
    out: &mut String,
) -> bool {
    let (Some(header), Some(name), Some(control)) = (pieces.next(), pieces.next(), pieces.next())
    else {
        return false;
    };
    let long = |at| number(header.bytes, at, 8).unwrap_or(0);
    let word = |at| number(header.bytes, at, 4).unwrap_or(0);
    out.push_str("{msg_name=");
    match name.bytes {
        [] => pointer(name.address, out),
        bytes => socket_address(bytes, out),
    }
    put(out, format_args!(", msg_namelen={}, msg_iov=", word(8)));
    let count = usize::try_from(long(24)).unwrap_or(usize::MAX);
    vectors(context, pieces.by_ref().take(count.min(1024)), most, false, out);
    put(out, format_args!(", msg_iovlen={}", long(24)));
    if !control.bytes.is_empty() {
        out.push_str(", msg_control=");
        controls(context, control.bytes, out);
    }
    put(out, format_args!(", msg_controllen={}, msg_flags=", long(40)));
    flags(MESSAGES, word(48), out);
    out.push('}');
    true
}

/// Writes the messages of `sendmmsg` and `recvmmsg`, each with its length.
pub(crate) fn messages(context: &Context<'_>, memory: &Memory<'_>, out: &mut String) {
    let mut all = pieces(memory.bytes).peekable();
    let mut separated = Separated::new('[', out);
    let mut shown = 0;
    while let Some(header) = all.peek() {
        let length = number(header.bytes, 56, 4).unwrap_or(0);
        let received = context.call.name == "recvmmsg";
        let out = separated.next();
        if shown == context.written.items {
            out.push_str("...");
            break;
        }
        shown += 1;
        out.push_str("{msg_hdr=");
        let most = if received { length } else { u64::MAX };
        if !one_message(context, &mut all, most, out) {
            out.push_str("...}");
            break;
        }
        if received || context.success().is_some() {
            put(out, format_args!(", msg_len={length}"));
        }
        out.push('}');
    }
    separated.close(']');
}

/// Writes control messages, `struct cmsghdr`: descriptors and credentials.
fn controls(context: &Context<'_>, bytes: &[u8], out: &mut String) {
    let mut separated = Separated::new('[', out);
    let mut rest = bytes;
    while let (Some(length), Some(level), Some(kind)) =
        (number(rest, 0, 8), number(rest, 8, 4), number(rest, 12, 4))
    {
        let out = separated.next();
        put(out, format_args!("{{cmsg_len={length}, cmsg_level="));
        one_of(LEVELS, level, out);
        out.push_str(", cmsg_type=");
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let data = rest.get(16..length.min(rest.len())).unwrap_or_default();
        if level == 1 {
            one_of(CONTROL, kind, out);
        } else {
            hex(kind, out);
        }
        if !data.is_empty() {
            out.push_str(", cmsg_data=");
        }
        match (level, kind) {
            _ if data.is_empty() => {}
            (1, 1 | 4) => {
                let mut descriptors = Separated::new('[', out);
                for one in data.chunks_exact(4) {
                    context.value(&Kind::Fd, number(one, 0, 4).unwrap_or(0), descriptors.next());
                }
                descriptors.close(']');
            }
            (1, 2) => context.item(&CREDENTIALS, data, out),
            _ => quoted(data, context.written.text, false, out),
        }
        out.push('}');
        // Each begins at a multiple of 8.
        let Some(next) =
            length.max(16).checked_next_multiple_of(8).and_then(|next| rest.get(next..))
        else {
            break;
        };
        rest = next;
    }
    separated.close(']');
}
