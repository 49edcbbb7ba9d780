//! Names as profilers print them: of functions, as a flame graph shows them, and of modules, which show the kind of
//! their code.

use std::borrow::Cow;

use pyrograph_profile::FrameKind;

/// A function's name without its parameters, and without what folded text cannot hold.
///
/// - `;` parts frames, so it becomes `:`; quotation marks are dropped. Both as the established
///   collapser does.
/// - Java: the parameters and result of a method are dropped, and the `L` before a class.
/// - Otherwise a list of parameters is dropped only if it is whole and at the end, so that
///   `std::function<void ()>`, `operator()`, `f(int)::{lambda(int)#1}`, `(anonymous namespace)::f`
///   and Go's `pkg.(*T).Method` stay what they are.
pub fn tidy_name(symbol: &str) -> Cow<'_, str> {
    let short = match java_method(symbol) {
        Some(method) => method,
        None => without_parameters(symbol),
    };
    if memchr::memchr3(b';', b'"', b'\'', short.as_bytes()).is_none() {
        return Cow::Borrowed(short);
    }
    let kept = short.chars().filter(|c| !matches!(c, '"' | '\''));
    Cow::Owned(kept.map(|c| if c == ';' { ':' } else { c }).collect())
}

/// Java methods that were inlined into one another stand in one line of a perf map, parted by
/// `->`. Whether this is such a line: C++ and Rust names may hold `->`, too.
pub fn is_java(symbol: &str) -> bool {
    java_class(symbol).is_some()
}

/// `Lio/netty/Loop;.run(Ljava/lang/Object;)V` is `io/netty/Loop;.run`. The list may be cut off, as
/// agents do with long names.
fn java_method(symbol: &str) -> Option<&str> {
    let class = java_class(symbol)?;
    let method = &symbol[..symbol.find('(').unwrap_or(symbol.len())];
    // A class without a package keeps its `L`: the established collapser strips it only before a
    // path.
    Some(if class.contains('/') { &method[1..] } else { method })
}

/// The class in `Lpackage/Class;…`. Agents cut long names off, maybe within the class, and people
/// edit them: without the semicolon it is a class if it has a package.
fn java_class(symbol: &str) -> Option<&str> {
    let class = symbol.strip_prefix('L')?;
    let end = class.find([';', '(', ' ', '<', ':']).unwrap_or(class.len());
    let (class, rest) = class.split_at(end);
    let is_class = match rest.as_bytes().first() {
        Some(b';') => true,
        Some(b':') | None => class.contains('/'),
        Some(_) => false,
    };
    is_class.then_some(class)
}

/// Drops a whole list of parameters at the end, with what may follow it: qualifiers, a clone's
/// name, or a JVM result type.
fn without_parameters(symbol: &str) -> &str {
    let body = without_qualifiers(symbol);
    let Some(inner) = body.strip_suffix(')') else { return symbol };
    let mut depth = 1;
    for (at, byte) in inner.bytes().enumerate().rev() {
        match byte {
            b')' => depth += 1,
            b'(' => depth -= 1,
            _ => continue,
        }
        if depth == 0 {
            let name = &inner[..at];
            return if is_parameter_list(name, &inner[at + 1..]) { name } else { symbol };
        }
    }
    symbol
}

/// True if what stands in the last brackets, after `name`, is a list of parameters.
fn is_parameter_list(name: &str, inside: &str) -> bool {
    let Some(&last) = name.as_bytes().last() else { return false };
    // `Function (anonymous)`, `pkg.(*T)`.
    if matches!(last, b' ' | b'.') || inside == "anonymous namespace" {
        return false;
    }
    // `operator()` itself, but not `myoperator()`.
    match name.strip_suffix("operator") {
        Some(before) => {
            before.bytes().last().is_some_and(|b| b.is_ascii_alphanumeric() || b == b'_')
        }
        None => true,
    }
}

fn without_qualifiers(symbol: &str) -> &str {
    let mut body = symbol.trim_ascii_end();
    if body.ends_with(']')
        && let Some(at) = body.find(" [clone ")
    {
        body = &body[..at];
    }
    loop {
        let shorter = [" const", " volatile", " &&", " &", " noexcept"]
            .iter()
            .find_map(|qualifier| body.strip_suffix(qualifier));
        match shorter {
            Some(shorter) => body = shorter,
            None => return without_jvm_result(body),
        }
    }
}

/// `java/lang/String.indexOf(II)I` is `java/lang/String.indexOf(II)`.
fn without_jvm_result(body: &str) -> &str {
    let Some(close) = body.rfind(')') else { return body };
    let result = body[close + 1..].trim_start_matches('[');
    let is_class = || {
        result.starts_with('L')
            && result.find(';') == Some(result.len() - 1)
            && !result.contains(' ')
    };
    let is_result =
        matches!(result, "B" | "C" | "D" | "F" | "I" | "J" | "S" | "Z" | "V") || is_class();
    if is_result { &body[..=close] } else { body }
}

/// Names in square brackets that are not kernel modules, as the kernel's `arch_vma_name` and perf
/// print them.
const NOT_KERNEL: &[&str] = &[
    "[vdso",
    "[vsyscall",
    "[heap",
    "[stack",
    "[anon",
    "[uprobes",
    "[vvar",
    "[sigpage",
    "[vectors",
    "[unknown",
];

/// The kind of code in a module, by its name.
pub fn module_kind(module: &str) -> FrameKind {
    let file = module.rsplit('/').next().unwrap_or(module);
    let is_kernel = if module.starts_with('[') {
        !NOT_KERNEL.iter().any(|name| module.starts_with(name))
    } else {
        file.starts_with("vmlinux")
            || [".ko", ".ko.gz", ".ko.xz", ".ko.zst"].iter().any(|end| file.ends_with(end))
            || module.starts_with("bpf_prog_")
            || module.starts_with("bpf_trampoline_")
    };
    if is_kernel {
        FrameKind::Kernel
    } else if is_jit(file) {
        FrameKind::Jit
    } else {
        FrameKind::User
    }
}

/// `perf-PID.map`, which a JIT compiler writes, and `jitted-PID-N.so`, which `perf inject --jit`
/// makes of its dump.
fn is_jit(file: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let map = file.strip_prefix("perf-").and_then(|file| file.strip_suffix(".map"));
    let dump = file.strip_prefix("jitted-").and_then(|file| file.strip_suffix(".so"));
    map.is_some_and(digits) || dump.is_some_and(|numbers| numbers.split('-').all(digits))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(symbol: &str, expect: &str) {
        assert_eq!(tidy_name(symbol), expect);
    }

    #[test]
    fn parameters_are_dropped() {
        check("f()", "f");
        check("arrayOopDesc::base(BasicType) const", "arrayOopDesc::base");
        check("C::f(int (*)(char), std::vector<int>&) const &", "C::f");
        check("f(int) [clone .isra.0]", "f");
        check("f(int) const [clone .constprop.0] [clone .cold]", "f");
        check("void f<int>(int)", "void f<int>");
        check("(anonymous namespace)::g(int) const", "(anonymous namespace)::g");
        check("C::operator()(int) const", "C::operator()");
        check("C::operator new(unsigned long)", "C::operator new");
        check("C::operator->()", "C::operator->");
        check("myoperator()", "myoperator");
        check(
            "f(int)::{lambda(int)#1}::operator()(int) const",
            "f(int)::{lambda(int)#1}::operator()",
        );
        check("v8::internal::Invoke(bool, v8::Handle<v8::JSFunction>**)", "v8::internal::Invoke");
    }

    #[test]
    fn names_with_brackets_stay_whole() {
        for name in [
            "main",
            "std::function<void ()>",
            "std::_Function_handler<void (int), f()::{lambda(int)#1}>::_M_invoke",
            "operator()",
            "C::operator()",
            "f::{lambda(int)#1}",
            "(anonymous namespace)::f",
            "(anonymous namespace)",
            "(foo)",
            "pkg.(*T).Method",
            "pkg.(*T).Method.func1",
            "pkg.(*T)",
            "Function:~(anonymous) /x.js:12",
            "JS:~ (anonymous)",
            "f [clone .cold]",
            "f(int, std::vec",
            "<alloc::boxed::Box<dyn Fn()> as core::ops::Fn<()>>::call",
            "core::ops::function::FnOnce::call_once{{vtable.shim}}",
            ")",
            "()",
            "",
        ] {
            check(name, name);
        }
    }

    #[test]
    fn java() {
        check("Ljava/lang/String;::foo", "java/lang/String:::foo");
        check("Lio/netty/Loop;.run()V", "io/netty/Loop:.run");
        check("Lio/netty/Loop;.run(Ljava/lang/Object;)Lio/netty/chann", "io/netty/Loop:.run");
        check("Lio/netty/Loop;.run(Ljava/lang/Obj", "io/netty/Loop:.run");
        check(
            "Lorg/mozilla/javascript/gen/file__home_bg",
            "org/mozilla/javascript/gen/file__home_bg",
        );
        check("Lcom/Some::method", "com/Some::method");
        check("LTop;::main", "LTop:::main");
        check("java/lang/String.indexOf(II)I", "java/lang/String.indexOf");
        check(
            "java/lang/String.concat(Ljava/lang/String;)[Ljava/lang/String;",
            "java/lang/String.concat",
        );
        check("Link;a", "Link:a");
        check("List", "List");
        assert!(is_java("Ljava/lang/String;::foo->Ljava/lang/String;::bar"));
        assert!(!is_java("LinkedList<int>::operator->"));
    }

    #[test]
    fn quotes_and_semicolons() {
        check("RegExp:[&<>\\\"\\']", "RegExp:[&<>\\\\]");
        check("a;b", "a:b");
        check("f()::'lambda'(int)", "f()::lambda");
    }

    #[test]
    fn kinds_of_modules() {
        for (module, kind) in [
            ("[kernel.kallsyms]", FrameKind::Kernel),
            ("[guest.kernel.kallsyms.123]", FrameKind::Kernel),
            ("[ext4]", FrameKind::Kernel),
            ("/usr/lib/debug/boot/vmlinux-6.1.0", FrameKind::Kernel),
            ("/lib/modules/6.1/kernel/fs/ext4/ext4.ko.xz", FrameKind::Kernel),
            ("bpf_prog_6deef7357e7b4530_sd_fw_egress", FrameKind::Kernel),
            ("[vdso]", FrameKind::User),
            ("[heap]", FrameKind::User),
            ("[stack:12]", FrameKind::User),
            ("//anon", FrameKind::User),
            ("/tmp/perf-12.map", FrameKind::Jit),
            ("/tmp/perf-x.map", FrameKind::User),
            ("/home/me/.debug/jit/jitted-12-3.so", FrameKind::Jit),
            ("", FrameKind::User),
        ] {
            assert_eq!(module_kind(module), kind, "{module}");
        }
    }
}
