//! Names as profilers print them: of functions, for labels in flame graphs, and of modules, which imply the kind of
//! their code.

use std::borrow::Cow;

use pyrograph_names::without_parameters;
use pyrograph_profile::FrameKind;

/// Shortens a function's name for folded text: without parameters and without characters that it cannot hold.
///
/// - `;` separates frames, so it becomes `:`; quotation marks are removed. Both as in `stackcollapse-perf.pl`.
/// - Java: parameters and result of a method are removed, and the `L` before a class.
/// - Otherwise a parameter list is removed only if it is complete and at the end, so that `std::function<void ()>`,
///   `operator()`, `f(int)::{lambda(int)#1}`, `(anonymous namespace)::f` and Go's `pkg.(*T).Method` are kept as they
///   are.
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

/// Returns true if a symbol is a Java method. In a perf map, Java methods that were inlined into one another share a
/// line, separated by `->`; names in C++ and Rust may contain `->`, too.
pub fn is_java(symbol: &str) -> bool {
    java_class(symbol).is_some()
}

/// Shortens `Lio/netty/Loop;.run(Ljava/lang/Object;)V` to `io/netty/Loop;.run`. The parameter list may be incomplete,
/// because agents truncate long names.
fn java_method(symbol: &str) -> Option<&str> {
    let class = java_class(symbol)?;
    let method = &symbol[..symbol.find('(').unwrap_or(symbol.len())];
    // A class without a package keeps its `L`: `stackcollapse-perf.pl` removes it only before a path.
    Some(if class.contains('/') { &method[1..] } else { method })
}

/// The class in `Lpackage/Class;…`. Agents truncate long names, possibly within the class, and people edit them: without
/// the semicolon, it counts as a class if it has a package.
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

/// Prefixes of names in square brackets that are not kernel modules, as the kernel's `arch_vma_name` and perf print
/// them.
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

/// Kind of the code in a module, determined by the module's name.
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

/// Returns true for `perf-PID.map`, which a JIT compiler writes, and `jitted-PID-N.so`, which `perf inject --jit`
/// generates from a jitdump file.
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
