//! Socket options: names, which depend on the level, and values.

use crate::call::{Extent, When};
use crate::context::{Context, Separated, address, number, one_of, put};
use crate::kind::Item;
use crate::layouts::{CREDENTIALS, LINGER, TIMEVAL};
use crate::text::quoted;
use crate::words::Table;
use crate::words::network::{
    IP_OPTIONS, IPV6_OPTIONS, NETLINK_OPTIONS, PACKET_OPTIONS, SOCKET_OPTIONS, TCP_OPTIONS,
    UDP_OPTIONS,
};

pub(crate) const IN: &[(When, Extent)] =
    &[(When::Entry, Extent::Argument { argument: 4, times: 1 })];
pub(crate) const OUT: &[(When, Extent)] = &[(When::Exit, Extent::Pointed { argument: 4 })];

pub(crate) fn option(context: &Context<'_>, index: usize, out: &mut String) {
    let table: Table = match context.raw(1) & 0xffff_ffff {
        0 => IP_OPTIONS,
        1 => SOCKET_OPTIONS,
        6 => TCP_OPTIONS,
        17 => UDP_OPTIONS,
        41 => IPV6_OPTIONS,
        263 => PACKET_OPTIONS,
        270 => NETLINK_OPTIONS,
        _ => &[],
    };
    one_of(table, context.raw(index) & 0xffff_ffff, out);
}

pub(crate) fn value(context: &Context<'_>, index: usize, out: &mut String) {
    let when = if context.call.name == "setsockopt" { When::Entry } else { When::Exit };
    let Some(memory) = context.memory(index, when) else {
        return address(context.raw(index), out);
    };
    let item: Option<&Item> = match (context.raw(1) & 0xffff_ffff, context.raw(2) & 0xffff_ffff) {
        (1, 13) => Some(&LINGER),
        (1, 17) => Some(&CREDENTIALS),
        (1, 20 | 21) => Some(&TIMEVAL),
        // SO_ERROR
        (1, 4) => {
            let error = number(memory.bytes, 0, 4).unwrap_or(0) as i32;
            return match crate::error_name(error) {
                Some(name) => put(out, format_args!("[{name}]")),
                None => put(out, format_args!("[{error}]")),
            };
        }
        // SO_BINDTODEVICE, SO_PEERSEC, TCP_CONGESTION, TCP_ULP
        (1, 25 | 31) | (6, 13 | 31) => {
            return quoted(
                crate::context::until_nul(memory.bytes),
                context.written.text,
                false,
                out,
            );
        }
        _ => None,
    };
    match (item, memory.bytes) {
        (Some(item), bytes) => context.item(item, bytes, out),
        (None, bytes) if bytes.len() == 4 => {
            let mut separated = Separated::new('[', out);
            put(separated.next(), format_args!("{}", number(bytes, 0, 4).unwrap_or(0) as i32));
            separated.close(']');
        }
        (None, bytes) => {
            quoted(bytes, context.written.text, memory.length > bytes.len() as u64, out)
        }
    }
}
