//! Results of calls as text.

use crate::call::Returns;
use crate::context::{Context, address, flags, hex, mode, put};
use crate::decode::{files::command, waiting};
use crate::words::files::{DESCRIPTOR, LEASES, OPEN, OPEN_WAYS, SEALS};
use crate::words::name_of;
use crate::{Files, Seen, Written, by_number, error_name, error_text};

/// Returns the result of a call as text: `3</etc/passwd>`, `-1 ENOENT (No such file or directory)`, `0x7f0c4a600000`,
/// `1 ([{fd=0, revents=POLLIN}])`, or `?` if it has not returned.
pub fn result(seen: &Seen<'_>, files: &dyn Files) -> String {
    let mut out = String::new();
    write_result(seen, files, &mut out);
    out
}

/// Appends the result of a call, in the form of [`result`].
pub fn write_result(seen: &Seen<'_>, files: &dyn Files, out: &mut String) {
    let Some(result) = seen.result else { return out.push('?') };
    if (-4095..0).contains(&result) {
        return error(result, out);
    }
    let Some(call) = by_number(seen.number) else {
        return put(out, format_args!("{result}"));
    };
    let context = Context { call, seen, files, written: &Written::default() };
    match call.returns {
        Returns::Number => put(out, format_args!("{result}")),
        Returns::Descriptor => context.descriptor(result as i32, out),
        Returns::Address => address(result as u64, out),
        Returns::Mode => mode(result as u64, out),
        Returns::Hex => hex(result as u64, out),
        Returns::Never => out.push('?'),
        Returns::Ready => {
            put(out, format_args!("{result}"));
            waiting::ready(&context, out);
        }
        Returns::Fcntl => fcntl(&context, result, out),
    }
}

fn error(result: i64, out: &mut String) {
    let error = i32::try_from(-result).unwrap_or(0);
    // Errors that a program never sees: the kernel restarts the call, or turns them into EINTR.
    out.push_str(if error >= 512 { "? " } else { "-1 " });
    match (error_name(error), error_text(error)) {
        (Some(name), Some(text)) => put(out, format_args!("{name} ({text})")),
        (Some(name), None) => out.push_str(name),
        _ => put(out, format_args!("(errno {error})")),
    }
}

/// Result of a command of `fcntl`: a descriptor, flags, or a number.
fn fcntl(context: &Context<'_>, result: i64, out: &mut String) {
    let raw = result as u64;
    let mut with_words = |write: &dyn Fn(&mut String)| {
        put(out, format_args!("{raw:#x}"));
        out.push_str(" (");
        write(out);
        out.push(')');
    };
    match context.raw(1) & 0xffff_ffff {
        command::DUPFD | command::DUPFD_CLOEXEC => context.descriptor(result as i32, out),
        command::GETFD if raw != 0 => with_words(&|out| {
            out.push_str("flags ");
            flags(DESCRIPTOR, raw, out);
        }),
        command::GETFL => with_words(&|out| {
            out.push_str("flags ");
            context.value(&crate::kind::Kind::Mixed(3, OPEN_WAYS, OPEN), raw, out);
        }),
        command::GET_SEALS if raw != 0 => with_words(&|out| {
            out.push_str("seals ");
            flags(SEALS, raw, out);
        }),
        1025 => with_words(&|out| out.push_str(name_of(LEASES, raw).unwrap_or("?"))),
        _ => put(out, format_args!("{result}")),
    }
}
