//! Abbreviation of Java packages.

/// Abbreviates package names: `java.util.List.get` to `j.u.List.get`. Parts may also be separated by slashes, as in
/// `java/util/List`. Returns `None` if the name is not a class in a package.
pub(super) fn shorten(name: &str) -> Option<String> {
    let separator = name.find(['.', '/']).and_then(|at| name[at..].chars().next())?;
    let mut short = String::with_capacity(name.len());
    let mut rest = name;
    loop {
        let (part, after) = rest.split_once(separator)?;
        let first = part.chars().next()?;
        let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
        if !part.chars().all(is_word) || first.is_numeric() {
            return None;
        }
        if first.is_uppercase() {
            break;
        }
        short.push(first);
        short.push(separator);
        rest = after;
        // The class may be the last part: `java/util/List::get`.
        let next = rest.chars().next()?;
        if next.is_uppercase() {
            break;
        }
    }
    if short.is_empty() {
        return None;
    }
    short.push_str(rest);
    Some(short)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_and_nothing_else() {
        let check = |name, expect: Option<&str>| assert_eq!(shorten(name).as_deref(), expect);
        check("java.util.concurrent.ThreadPoolExecutor.run", Some("j.u.c.ThreadPoolExecutor.run"));
        check("java/util/List::get", Some("j/u/List::get"));
        check("io/netty/channel/Channel.read", Some("i/n/c/Channel.read"));
        check("org.mozilla.javascript.gen.file_js_1.call", None);
        check("com.acme.App$$Lambda$14.run", Some("c.a.App$$Lambda$14.run"));
        check("List.get", None);
        check("main", None);
        check("/usr/lib/Libc.so", None);
        check("net/http.(*Server).Serve", None);
        check("std::vec::Vec.push", None);
        check("…", None);
        check(".", None);
        check("a.", None);
        check("été.Été.f", Some("é.Été.f"));
    }
}
