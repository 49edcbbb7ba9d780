//! Names of Java's methods, as the virtual machine, its agents and profilers write them.
//!
//! ```text
//! void java.util.ComparableTimSort.mergeLo(int, int)    jcmd's perf map
//! Lio/netty/Loop;.run(Ljava/lang/Object;)V              agents
//! java/util/List.get, java.util.List::get               profilers
//! ```

use crate::scan::{digits, is_word};
use crate::{Language, Name, parameters};

/// Takes a name apart; `None` if it shows no sign of Java.
pub(crate) fn name(name: &str) -> Option<Name<'_>> {
    let (before, list) = match parameters::split(name) {
        Some((before, inside)) => (before, Some(inside)),
        None => (name, None),
    };
    let (result, path) = match before.split_once(' ') {
        Some((result, path)) => (Some(result), path),
        None => (None, before),
    };
    if path.contains([' ', '<', '*', '[']) && !path.contains("<init>") && !path.contains("<clinit>")
    {
        return None;
    }
    // Most names of other languages go no further. A class has no `::` of its own.
    let colons =
        path.as_bytes().chunk_by(|a, b| a == b).filter(|run| run.starts_with(b"::")).count();
    if colons > 1 || colons == 0 && !path.contains('.') {
        return None;
    }
    let path = of_agents(path);
    let plain = without_numbers(&path);
    let is_numbered = plain != path;
    let (class, method) = plain.rsplit_once("::").or_else(|| plain.rsplit_once('.'))?;
    let class = class.trim_end_matches([';', ':']);
    // In Go a package is behind the last slash, and a class is not.
    if class.rsplit_once('/').is_some_and(|(_, own)| own.starts_with(char::is_lowercase)) {
        return None;
    }
    let dotted = class.replace('/', ".");
    let is_class = is_class(&dotted);
    let is_typed = result.is_some() && list.is_some() && !plain.contains("::") && is_path(&dotted);
    if !(is_numbered && is_path(&dotted) || is_class || is_typed) || method.is_empty() {
        return None;
    }
    let base = dotted.rsplit('.').next().unwrap_or(&dotted);
    let class = without_class_numbers(&dotted);
    let identity = match list {
        Some(list) => format!("{class}.{method}({list})"),
        None => format!("{class}.{method}"),
    };
    // A number tells apart what is shown; only what is compared does without.
    let short = match is_numbered {
        true => shown(&path).unwrap_or_else(|| format!("{base}.{method}")),
        false => format!("{base}.{method}"),
    };
    Some(Name {
        identity: identity.into(),
        short: short.into(),
        full: name.into(),
        language: Some(Language::Java),
        tier: None,
    })
}

/// The class and method with their numbers, but without addresses.
fn shown(path: &str) -> Option<String> {
    let path = without_addresses(path);
    // Before hidden classes had addresses in their names, they had hash codes.
    let path = match path.split_once("/") {
        Some((class, rest)) if digits(rest) > 4 => format!("{class}{}", &rest[digits(rest)..]),
        _ => path,
    };
    let (class, method) = path.rsplit_once("::").or_else(|| path.rsplit_once('.'))?;
    let class = class.trim_end_matches([';', ':']);
    Some(format!("{}.{method}", class.rsplit(['.', '/']).next().unwrap_or(class)))
}

/// `Ljava/util/List;::get` is `java/util/List::get`.
fn of_agents(path: &str) -> String {
    let inner = path.strip_prefix('L').and_then(|path| {
        let end = path.find([';', ':'])?;
        let rest = path[end..].trim_start_matches([';', ':', '.']);
        (path[..end].contains('/') && !rest.is_empty()).then(|| format!("{}::{rest}", &path[..end]))
    });
    inner.unwrap_or_else(|| path.to_owned())
}

/// A class in a package: words in small letters, and one that begins with a capital.
fn is_class(path: &str) -> bool {
    let Some((package, class)) = path.rsplit_once('.') else { return false };
    let is_part =
        |part: &str| is_word(part) && part.starts_with(|c: char| c.is_lowercase() || c == '_');
    class.starts_with(char::is_uppercase) && is_word(class) && package.split('.').all(is_part)
}

fn is_path(path: &str) -> bool {
    !path.is_empty() && path.split('.').all(is_word)
}

/// Without the addresses of hidden classes: `LambdaForm$MH/0x0000000800c1a400`, `$$Lambda.0x00007f8a04011c58`.
fn without_addresses(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(at) = rest.find("0x") {
        let end = rest[at + 2..].bytes().take_while(u8::is_ascii_hexdigit).count();
        let (before, after) = (&rest[..at], &rest[at + 2 + end..]);
        match before.strip_suffix(['/', '.', '+']) {
            Some(before) if end >= 6 => text.push_str(before),
            _ => text.push_str(&rest[..at + 2 + end]),
        }
        rest = after;
    }
    text + rest
}

/// `Shop$1` is `Shop$*`, `Shop$2Local` is `Shop$*Local`: the compiler counts anonymous and local classes in the one around them.
fn without_class_numbers(class: &str) -> String {
    let mut parts = class.split('$');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let count = digits(part);
        text.push('$');
        text.push_str(if count > 0 { "*" } else { "" });
        text.push_str(&part[count..]);
    }
    text
}

/// What stands before a number that the virtual machine, the compiler or a framework counts by, and what the number may
/// consist of.
const NUMBERED: &[(&str, Digits)] = &[
    ("GeneratedMethodAccessor", Digits::Decimal),
    ("GeneratedConstructorAccessor", Digits::Decimal),
    ("GeneratedSerializationConstructorAccessor", Digits::Decimal),
    ("$Proxy", Digits::Decimal),
    ("jdk.proxy", Digits::Decimal),
    ("jdk/proxy", Digits::Decimal),
    ("$$Lambda$", Digits::Decimal),
    ("$$Lambda", Digits::Slash),
    ("LambdaForm$MH", Digits::Decimal),
    ("LambdaForm$DMH", Digits::Decimal),
    ("LambdaForm$BMH", Digits::Decimal),
    ("CGLIB$$", Digits::Hexadecimal),
    ("$HibernateProxy$", Digits::Word),
    ("$ByteBuddy$", Digits::Word),
    ("$MockitoMock$", Digits::Word),
    ("_$$_jvst", Digits::Word),
    ("_$$_javassist_", Digits::Word),
    ("access$", Digits::Decimal),
    ("fn__", Digits::Decimal),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Digits {
    Decimal,
    Hexadecimal,
    Word,
    /// A slash, and a decimal number.
    Slash,
}

/// `Shop$$Lambda$14/0x0000000800066840.apply` is `Shop$$Lambda.apply`, `lambda$main$3` is `lambda$main`.
fn without_numbers(name: &str) -> String {
    let mut text = without_addresses(name);
    for &(before, kind) in NUMBERED {
        let mut from = 0;
        while let Some(found) = text[from..].find(before) {
            let at = from + found + before.len();
            let rest = &text[at..];
            let end = match kind {
                Digits::Decimal => digits(rest),
                Digits::Hexadecimal => rest.bytes().take_while(u8::is_ascii_hexdigit).count(),
                Digits::Word => {
                    rest.bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'_').count()
                }
                Digits::Slash => rest.strip_prefix('/').map_or(0, |rest| digits(rest) + 1),
            };
            // The sign before the number goes with it.
            let signs = if end > 0 { before.len() - before.trim_end_matches('$').len() } else { 0 };
            text.replace_range(at - signs..at + end, "");
            from = at - signs;
        }
    }
    for before in ["lambda$", "$anonfun$"] {
        if let Some(at) = text.rfind(before) {
            let method = at + before.len();
            if let Some((own, number)) = text[method..].rsplit_once('$')
                && digits(number) == number.len()
                && !number.is_empty()
            {
                text.truncate(method + own.len());
            }
        }
    }
    text
}
