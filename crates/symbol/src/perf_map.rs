//! Reader of perf maps (`/tmp/perf-PID.map`): symbols of a process's JIT-compiled code.
//!
//! ```text
//! 7f3c5c1a2e40 1a0 LazyCompile:*fib /srv/app.js:3
//! 0x7f3c5c1a3000 0x80 Interpreter
//! ```
//!
//! Start and size are hexadecimal, the name is the rest of the line (tools/perf/Documentation/jit-interface.txt in
//! the kernel's source). The process appends lines while it runs, and memory that it frees and reuses appears
//! again: of two entries for one address, the later one is right.
//!
//! Any user can create a file of that name in `/tmp`. The caller, who knows the process, must check that the file
//! belongs to it.

use std::collections::{BTreeMap, HashSet};
use std::io::{self, BufRead, Read};
use std::sync::Arc;

/// Maximum length of a name in bytes. Longer names are cut: some runtimes write whole signatures.
const MAX_NAME: usize = 4096;

/// Maximum number of live ranges, more than any program has. The rest of a file with more is skipped.
const MAX_RANGES: usize = 1 << 23;

/// JIT-compiled functions of a process.
#[derive(Clone, Debug, Default)]
pub struct PerfMap {
    /// Start → end and name; ranges do not overlap.
    ranges: BTreeMap<u64, (u64, Arc<str>)>,
    /// Number of lines that could not be used.
    skipped: u64,
}

impl PerfMap {
    /// Reads a map. Lines in another format are skipped and counted.
    ///
    /// # Errors
    ///
    /// Errors of `reader`.
    pub fn parse(mut reader: impl BufRead) -> io::Result<Self> {
        let mut map = Self::default();
        let mut names = HashSet::new();
        let mut line = Vec::new();
        loop {
            line.clear();
            // Two numbers, and room for the name.
            let limit = MAX_NAME as u64 + 64;
            if reader.by_ref().take(limit).read_until(b'\n', &mut line)? == 0 {
                return Ok(map);
            }
            if line.last() != Some(&b'\n') {
                skip_line(&mut reader)?;
            }
            match parse_line(&line) {
                Some((start, end, name)) if map.ranges.len() < MAX_RANGES => {
                    map.insert(start, end, intern(&mut names, name));
                }
                _ if line.trim_ascii().is_empty() => {}
                _ => map.skipped += 1,
            }
        }
    }

    /// Adds a range and cuts it out of the ranges that it overlaps.
    fn insert(&mut self, start: u64, end: u64, name: Arc<str>) {
        let before = self.ranges.range(..start).next_back();
        if let Some((&old_start, (old_end, old_name))) = before
            && *old_end > start
        {
            let (old_end, old_name) = (*old_end, old_name.clone());
            self.ranges.insert(old_start, (start, old_name.clone()));
            if old_end > end {
                self.ranges.insert(end, (old_end, old_name));
            }
        }
        while let Some((&old_start, &(old_end, _))) = self.ranges.range(start..end).next() {
            let old = self.ranges.remove(&old_start);
            if let Some((_, name)) = old.filter(|_| old_end > end) {
                self.ranges.insert(end, (old_end, name));
            }
        }
        self.ranges.insert(start, (end, name));
    }

    /// Name and start of the function at an address of the process.
    pub fn lookup(&self, address: u64) -> Option<(&Arc<str>, u64)> {
        let (&start, (end, name)) = self.ranges.range(..=address).next_back()?;
        (address < *end).then_some((name, start))
    }

    /// Addresses of all functions, in order.
    pub fn ranges(&self) -> impl Iterator<Item = std::ops::Range<u64>> + '_ {
        self.ranges.iter().map(|(start, (end, _))| *start..*end)
    }

    /// Number of lines that could not be used.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Returns true if the map contains no functions.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }
}

/// Splits the name of a Java map entry into its methods, outermost first: `LA;::a->LB;::b` is `LA;::a`, into which
/// `LB;::b` was inlined (perf-map-agent's option `unfoldall`). Any other name is returned unchanged.
///
/// Names in other languages contain `->`, too: `Ptr::operator->`, `f(decltype(p->x))`, Rust's `fn() -> T`, Scheme's
/// `list->vector`. So a name is split only outside of parentheses and angle brackets, and only if *each* part then
/// has a form in which agents write methods: class and method as `LClass;::method`, `a.Class::method` or
/// `a/Class.method`, starting with a letter, `_` or `$`, optionally with parameters, and without spaces before
/// these. In the JVM, no method name can contain `>`, except `<init>` and `<clinit>` (The Java Virtual Machine
/// Specification, 4.2.2).
///
/// ```
/// use pyrograph_symbol::inlined_names;
///
/// assert!(inlined_names("LApp;::main->LList;::get").eq(["LApp;::main", "LList;::get"]));
/// assert!(inlined_names("Ptr::operator->()").eq(["Ptr::operator->()"]));
/// ```
pub fn inlined_names(name: &str) -> impl Iterator<Item = &str> {
    let is_chain = || parts(name).count() > 1 && parts(name).all(is_java_method);
    let (chain, whole) = if is_chain() { (Some(parts(name)), None) } else { (None, Some(name)) };
    chain.into_iter().flatten().chain(whole)
}

/// Splits a name at each `->` outside of brackets.
fn parts(name: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(name);
    std::iter::from_fn(move || {
        let text = rest.take()?;
        let (mut depth, mut before) = (0_i32, 0);
        for (at, byte) in text.bytes().enumerate() {
            match byte {
                b'>' if before == b'-' && depth == 0 => {
                    rest = Some(&text[at + 1..]);
                    return Some(&text[..at - 1]);
                }
                b'>' if before == b'-' => {}
                b'(' | b'<' => depth += 1,
                b')' | b'>' => depth -= 1,
                _ => {}
            }
            before = byte;
        }
        Some(text)
    })
}

fn is_java_method(name: &str) -> bool {
    let name = name.split('(').next().unwrap_or_default();
    let has_method = match name.rsplit_once("::").or_else(|| name.rsplit_once('.')) {
        Some((class, method)) => {
            !method.is_empty() && (name.contains("::") || class.contains(['/', ';']))
        }
        None => false,
    };
    has_method
        && name.starts_with(|first: char| first.is_alphabetic() || matches!(first, '_' | '$'))
        && !name.contains(|c: char| c.is_whitespace() || matches!(c, '*' | '&' | '~' | '{' | '\''))
}

fn skip_line(reader: &mut impl BufRead) -> io::Result<()> {
    loop {
        let buffer = reader.fill_buf()?;
        let end = buffer.iter().position(|&b| b == b'\n');
        let used = end.map_or(buffer.len(), |at| at + 1);
        let is_done = end.is_some() || buffer.is_empty();
        reader.consume(used);
        if is_done {
            return Ok(());
        }
    }
}

/// Parses a line into start, end and name.
fn parse_line(line: &[u8]) -> Option<(u64, u64, &[u8])> {
    let (start, rest) = number(line.trim_ascii())?;
    let (size, name) = number(rest)?;
    let end = start.checked_add(size)?;
    (end > start && !name.is_empty()).then_some((start, end, name))
}

/// Parses a hexadecimal number at the start of `text`; returns it and the text after it.
fn number(text: &[u8]) -> Option<(u64, &[u8])> {
    let (word, rest) = text.split_at(text.iter().position(u8::is_ascii_whitespace)?);
    let digits = word.strip_prefix(b"0x").or_else(|| word.strip_prefix(b"0X")).unwrap_or(word);
    // `from_str_radix` would accept a sign.
    let digits = digits.first().filter(|b| b.is_ascii_hexdigit()).and(Some(digits))?;
    let value = u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    Some((value, rest.trim_ascii_start()))
}

fn intern(names: &mut HashSet<Arc<str>>, name: &[u8]) -> Arc<str> {
    let name = String::from_utf8_lossy(&name[..name.len().min(MAX_NAME)]);
    if let Some(known) = names.get(&*name) {
        return known.clone();
    }
    let name: Arc<str> = name.into();
    names.insert(name.clone());
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(map: &[u8], address: u64, expect: Option<(&str, u64)>) {
        let map = PerfMap::parse(map).unwrap();
        let found = map.lookup(address);
        assert_eq!(found.map(|(name, start)| (&**name, start)), expect, "{address:#x}");
    }

    #[test]
    fn lines() {
        let map =
            b"1000 10 plain\n0x2000 0x20 LazyCompile:*fib /srv/a b.js:3\r\n\n3000 1 \xff\xfe()V\n";
        check(map, 0xfff, None);
        check(map, 0x100f, Some(("plain", 0x1000)));
        check(map, 0x1010, None);
        check(map, 0x2000, Some(("LazyCompile:*fib /srv/a b.js:3", 0x2000)));
        check(map, 0x3000, Some(("\u{fffd}\u{fffd}()V", 0x3000)));
        check(b"1000 10 no line end", 0x1001, Some(("no line end", 0x1000)));
        assert_eq!(PerfMap::parse(&map[..]).unwrap().skipped(), 0);
    }

    #[test]
    fn lines_that_are_none_are_counted() {
        let bad =
            b"x 10 a\n1000 0 empty\n1000 10\n1000\n+1 10 a\nffffffffffffffff 2 wraps\n0x 1 a\n";
        let map = PerfMap::parse(&bad[..]).unwrap();
        assert_eq!((map.skipped(), map.is_empty()), (7, true));
    }

    #[test]
    fn the_later_entry_wins() {
        let map = b"100 100 old\n140 20 new\n";
        check(map, 0x13f, Some(("old", 0x100)));
        check(map, 0x140, Some(("new", 0x140)));
        check(map, 0x160, Some(("old", 0x160)));
        let covering = b"100 10 a\n120 10 b\n140 10 c\n108 40 all\n";
        check(covering, 0x107, Some(("a", 0x100)));
        check(covering, 0x120, Some(("all", 0x108)));
        check(covering, 0x147, Some(("all", 0x108)));
        check(covering, 0x148, Some(("c", 0x148)));
        check(b"100 10 a\n100 10 b\n", 0x100, Some(("b", 0x100)));
        check(b"100 20 a\n100 10 b\n", 0x118, Some(("a", 0x110)));
    }

    #[track_caller]
    fn check_names(name: &str, expect: &[&str]) {
        assert_eq!(inlined_names(name).collect::<Vec<_>>(), expect);
    }

    #[test]
    fn methods_in_one_another() {
        check_names("LA;::a->LB;::b->Lp/C;::c", &["LA;::a", "LB;::b", "Lp/C;::c"]);
        check_names("p.A::a(I[J)V->p.B::<init>()V", &["p.A::a(I[J)V", "p.B::<init>()V"]);
        check_names(
            "p/A.a([Ljava/lang/String;)V->p/B.b",
            &["p/A.a([Ljava/lang/String;)V", "p/B.b"],
        );
        check_names(
            "App$$Lambda$14/0x0000000800c03000::run->App::lambda$main$0(App.java:7)",
            &["App$$Lambda$14/0x0000000800c03000::run", "App::lambda$main$0(App.java:7)"],
        );
        check_names("Lscala/Foo$;::$minus$greater", &["Lscala/Foo$;::$minus$greater"]);
    }

    #[test]
    fn arrows_that_are_no_inlined_calls() {
        for name in [
            "",
            "->",
            "plain",
            "std::unique_ptr<A>::operator->",
            "std::unique_ptr<A>::operator->() const",
            "A::operator->*(B::C)",
            "A::operator->::{lambda()#1}::operator()() const",
            "A::operator->[abi:cxx11]::b",
            "decltype (((A::p)->x)()) f<A::B>(A::C)",
            "f<&A::operator->>::g",
            "auto a::f() -> b::C",
            "core::ops::function::FnOnce<fn(A) -> b::C>::call_once",
            "list->vector",
            "a.b->c.d",
            "JS:*f a->b /srv/a::b->c::d.js:1:2",
            "LA;::a->",
            "->LA;::a",
            "LA;::a->::b",
            "LA;::a->LB;::",
        ] {
            check_names(name, &[name]);
        }
    }

    #[test]
    fn an_endless_line_takes_no_memory() {
        let mut map = b"100 10 ".to_vec();
        map.resize(1 << 20, b'n');
        map.extend_from_slice(b"\n200 10 next\n");
        check(&map, 0x200, Some(("next", 0x200)));
        let map = PerfMap::parse(&map[..]).unwrap();
        assert_eq!(map.lookup(0x100).unwrap().0.len(), MAX_NAME);
    }
}
