//! `bpf`, whose structure depends on the command.

use crate::context::{Context, Separated, address, number, one_of, put};
use crate::kind::Memory;
use crate::text::quoted;
use crate::words::tracing::{BPF_MAPS, BPF_PROGRAMS};

/// Writes the first fields of `union bpf_attr`, for commands that create and use maps and programs.
pub(crate) fn bpf(context: &Context<'_>, memory: &Memory<'_>, out: &mut String) {
    let bytes = memory.bytes;
    let word = |at| number(bytes, at, 4).unwrap_or(0);
    let long = |at| number(bytes, at, 8).unwrap_or(0);
    let mut fields = Separated::new('{', out);
    let mut plain = |name: &str, value: u64| put(fields.next(), format_args!("{name}={value}"));
    match context.raw(0) & 0xffff_ffff {
        // BPF_MAP_CREATE
        0 => {
            let out = fields.next();
            out.push_str("map_type=");
            one_of(BPF_MAPS, word(0), out);
            for (name, at) in [("key_size", 4), ("value_size", 8), ("max_entries", 12)] {
                put(fields.next(), format_args!("{name}={}", word(at)));
            }
            name_field("map_name", bytes.get(28..44), &mut fields);
        }
        // Look up, update, delete, next key
        1..=4 => {
            let out = fields.next();
            out.push_str("map_fd=");
            context.descriptor(word(0) as i32, out);
            for (name, at) in [("key", 8), ("value", 16)] {
                let out = fields.next();
                put(out, format_args!("{name}="));
                address(long(at), out);
            }
        }
        // BPF_PROG_LOAD
        5 => {
            let out = fields.next();
            out.push_str("prog_type=");
            one_of(BPF_PROGRAMS, word(0), out);
            put(fields.next(), format_args!("insn_cnt={}", word(4)));
            name_field("prog_name", bytes.get(48..64), &mut fields);
        }
        // Next ID of a program, map, BTF, link
        11 | 12 | 23 | 31 => {
            plain("start_id", word(0));
            plain("next_id", word(4));
        }
        // A descriptor by ID
        13 | 14 | 19 | 30 => plain("id", word(0)),
        15 => {
            let out = fields.next();
            out.push_str("info={bpf_fd=");
            context.descriptor(word(0) as i32, out);
            put(out, format_args!(", info_len={}}}", word(4)));
        }
        // BPF_BTF_LOAD
        18 => plain("btf_size", word(16)),
        // BPF_LINK_CREATE
        28 => {
            let out = fields.next();
            out.push_str("link_create={prog_fd=");
            context.descriptor(word(0) as i32, out);
            put(out, format_args!(", target_fd={}, attach_type={}}}", word(4) as i32, word(8)));
        }
        _ => {}
    }
    fields.next().push_str("...");
    fields.close('}');
}

fn name_field(name: &str, bytes: Option<&[u8]>, fields: &mut Separated<'_>) {
    let Some(bytes) = bytes else { return };
    let out = fields.next();
    put(out, format_args!("{name}="));
    quoted(crate::context::until_nul(bytes), usize::MAX, false, out);
}
