//! Names as tools write them, and what each is taken for.

use proptest::prelude::*;
use pyrograph_names::{Language, Name, Tier, distinct, identity, without_parameters};

/// Name, identity, short form.
type Row = (&'static str, &'static str, &'static str);

fn check(language: Option<Language>, rows: &[Row]) {
    for &(text, identity, short) in rows {
        let name = Name::of(text);
        assert_eq!((&*name.identity, &*name.short), (identity, short), "{text}");
        assert_eq!(name.language, language, "{text}");
        // An identity is its own, however often it is asked for.
        assert_eq!(Name::of(identity).identity, identity, "{text}");
    }
}

#[test]
fn clones_of_c() {
    check(
        None,
        &[
            ("main", "main", "main"),
            ("walk.part.0", "walk", "walk"),
            ("sort.constprop.0.isra.0", "sort", "sort"),
            ("schedule.cold", "schedule", "schedule"),
            ("schedule.cold.7", "schedule", "schedule"),
            ("init.llvm.4120987236", "init", "init"),
            ("init.__uniq.41209872.llvm.99", "init", "init"),
            ("static_name.1234", "static_name", "static_name"),
            ("f.lto_priv.0", "f", "f"),
            ("resize/1", "resize", "resize"),
            ("memcpy@@GLIBC_2.14", "memcpy", "memcpy"),
            ("memcpy@plt", "memcpy@plt", "memcpy@plt"),
            ("blk_mq_run.isra.0", "blk_mq_run", "blk_mq_run"),
            ("bpf_prog_6deef7357e7b4530_sd_fw_egress", "bpf_prog_sd_fw_egress", "sd_fw_egress"),
            ("bpf_trampoline_6442455041_1", "bpf_trampoline", "bpf_trampoline_6442455041_1"),
            ("[perf-4711.map]", "[perf.map]", "[perf-4711.map]"),
            ("alpha [same code as beta]", "alpha", "alpha"),
            (" [same code as beta]", " [same code as beta]", " [same code as beta]"),
            // These are no clones.
            ("libc.so.6", "libc.so.6", "libc.so.6"),
            ("libc.so.6+0x1f3a0", "libc.so.6+0x1f3a0", "libc.so.6+0x1f3a0"),
            ("[libc.so.6]", "[libc.so.6]", "[libc.so.6]"),
            ("[unknown]", "[unknown]", "[unknown]"),
            ("lists:map/2", "lists:map/2", "lists:map/2"),
            ("kworker/u8:2", "kworker/u8:2", "kworker/u8:2"),
            ("", "", ""),
        ],
    );
}

#[test]
fn cpp() {
    check(
        Some(Language::Cpp),
        &[
            ("shop::price(int)", "shop::price(int)", "shop::price"),
            ("shop::price(double) [clone .cold]", "shop::price(double)", "shop::price"),
            ("shop::f(int) [same code as shop::g(long), 2 more]", "shop::f(int)", "shop::f"),
            ("void shop::sum<long>(long)", "shop::sum<long>(long)", "shop::sum<long>"),
            ("shop::f(void)", "shop::f()", "shop::f"),
            ("shop::Cart::add(int) const", "shop::Cart::add(int) const", "Cart::add"),
            ("C::~C [deleting destructor]", "C::~C", "C::~C"),
            ("C::~C[in-charge]", "C::~C", "C::~C"),
            (
                "main::{lambda(int)#2}::operator()",
                "main::{lambda(int)}::operator()",
                "main::{lambda(int)#2}::operator()",
            ),
            (
                "f()::'lambda0'(int)::operator()(int) const",
                "f()::'lambda'(int)::operator()(int) const",
                "f()::'lambda0'(int)::operator()",
            ),
            ("a::(anonymous namespace)::f", "a::(anonymous namespace)::f", "a::f"),
            ("C::operator<<", "C::operator<<", "C::operator<<"),
            ("a::b::C::operator()(int)", "a::b::C::operator()(int)", "C::operator()"),
            ("std::to_string[abi:cxx11](int)", "std::to_string(int)", "std::to_string[abi:cxx11]"),
        ],
    );
    let executor = "boost::asio::detail::executor_op<boost::asio::detail::work_dispatcher<std::function<void ()>, void>, \
                    std::allocator<void> >::do_complete";
    check(
        None,
        &[
            (executor, &executor.replace("> >", ">>").leak()[..], "executor_op<…>::do_complete"),
            (
                "std::__cxx11::basic_string<char>::append",
                "std::__cxx11::basic_string<char>::append",
                "basic_string<char>::append",
            ),
            (
                "std::vector<std::vector<int> >::at",
                "std::vector<std::vector<int>>::at",
                "vector<…>::at",
            ),
            ("shop::price", "shop::price", "shop::price"),
        ],
    );
    // Constructors of an object and of a base are one function with one name since the demangler; overloads are not.
    assert_ne!(identity("shop::Cart::Cart(int)"), identity("shop::Cart::Cart(shop::Cart const&)"));
}

#[test]
fn microsofts_cpp() {
    check(Some(Language::Cpp), &[("?price@shop@@YAXH@Z", "shop::price(int)", "shop::price")]);
}

#[test]
fn rust() {
    check(
        Some(Language::Rust),
        &[
            ("core::fmt::write::h0123456789abcdef", "core::fmt::write", "fmt::write"),
            ("app::run::{{closure}}", "app::run::{closure}", "run::{{closure}}"),
            ("app::run::{closure#3}", "app::run::{closure}", "run::{closure#3}"),
            (
                "app::run::{closure#3}::{closure#0}",
                "app::run::{closure}::{closure}",
                "run::{closure#3}::{closure#0}",
            ),
            ("app::{impl#2}::f::h0123456789abcdef.llvm.77", "app::{impl}::f", "app::{impl#2}::f"),
            ("core[9f2a3b4c5d6e7f80]::fmt::write", "core::fmt::write", "fmt::write"),
            (
                "<alloc::vec::Vec<T,A> as core::ops::drop::Drop>::drop",
                "<alloc::vec::Vec<T,A> as core::ops::drop::Drop>::drop",
                "<Vec<T,A> as Drop>::drop",
            ),
            ("app::sort::<alloc::vec::Vec<u8>>", "app::sort", "app::sort::<…>"),
            ("<app::Cart>::add::{closure#1}", "app::Cart::add::{closure}", "add::{closure#1}"),
            // As DTrace prints it.
            (
                "core::ptr::drop_in_place$LT$alloc..string..String$GT$::h0123456789abcdef",
                "core::ptr::drop_in_place<alloc::string::String>",
                "ptr::drop_in_place<…>",
            ),
            (
                "_$LT$std..io..Stdin$u20$as$u20$std..io..Read$GT$::read::h0123456789abcdef",
                "<std::io::Stdin as std::io::Read>::read",
                "<Stdin as Read>::read",
            ),
        ],
    );
}

#[test]
fn go() {
    check(
        Some(Language::Go),
        &[
            ("main.sum[go.shape.int]", "main.sum[...]", "main.sum[...]"),
            (
                "main.Map[go.shape.int,go.shape.struct { a []int }]",
                "main.Map[...]",
                "main.Map[...]",
            ),
            ("main.Map[...]", "main.Map[...]", "main.Map[...]"),
            ("main.run.func1", "main.run.func", "main.run.func1"),
            ("main.run.func1.2", "main.run.func", "main.run.func1.2"),
            ("main.run.func2.func1", "main.run.func", "main.run.func2.func1"),
            ("main.run.gowrap1", "main.run.gowrap", "main.run.gowrap1"),
            ("main.init.0", "main.init", "main.init.0"),
            ("main.(*Cart).Add-fm", "main.(*Cart).Add", "main.(*Cart).Add"),
            (
                "github.com/x/api.(*Server).Serve",
                "github.com/x/api.(*Server).Serve",
                "api.(*Server).Serve",
            ),
            (
                "net/http.HandlerFunc.ServeHTTP",
                "net/http.HandlerFunc.ServeHTTP",
                "http.HandlerFunc.ServeHTTP",
            ),
            ("runtime.memmove.abi0", "runtime.memmove", "runtime.memmove"),
        ],
    );
    check(None, &[("runtime.mallocgc", "runtime.mallocgc", "runtime.mallocgc")]);
}

#[test]
fn java() {
    check(
        Some(Language::Java),
        &[
            (
                "void java.util.ComparableTimSort.mergeLo(int, int, int, int)",
                "java.util.ComparableTimSort.mergeLo(int, int, int, int)",
                "ComparableTimSort.mergeLo",
            ),
            ("java.util.List.get", "java.util.List.get", "List.get"),
            ("java/util/List.get", "java.util.List.get", "List.get"),
            ("java/util/List::get", "java.util.List.get", "List.get"),
            ("Ljava/util/List;::get", "java.util.List.get", "List.get"),
            ("java/util/List:::get", "java.util.List.get", "List.get"),
            (
                "Lio/netty/Loop;.run(Ljava/lang/Object;)V",
                "io.netty.Loop.run(Ljava/lang/Object;)",
                "Loop.run",
            ),
            ("java.util.ArrayList.<init>", "java.util.ArrayList.<init>", "ArrayList.<init>"),
            (
                "Shop$$Lambda$14/0x0000000800066840.apply",
                "Shop$$Lambda.apply",
                "Shop$$Lambda$14.apply",
            ),
            ("Shop$$Lambda/0x00007f8a04011c58.apply", "Shop$$Lambda.apply", "Shop$$Lambda.apply"),
            ("Shop$$Lambda.0x00007f8a04011c58.apply", "Shop$$Lambda.apply", "Shop$$Lambda.apply"),
            ("Shop$$Lambda$14/1324843695.run", "Shop$$Lambda.run", "Shop$$Lambda$14.run"),
            (
                "void com.acme.Shop.lambda$main$3(int)",
                "com.acme.Shop.lambda$main(int)",
                "Shop.lambda$main$3",
            ),
            (
                "jdk.internal.reflect.GeneratedMethodAccessor12.invoke",
                "jdk.internal.reflect.GeneratedMethodAccessor.invoke",
                "GeneratedMethodAccessor12.invoke",
            ),
            // Anonymous and local classes, as javac 17 names them.
            ("int com.acme.Shop$2.run(int)", "com.acme.Shop$*.run(int)", "Shop$2.run"),
            ("int com.acme.Shop$1$1Local.f()", "com.acme.Shop$*$*Local.f()", "Shop$1$1Local.f"),
            ("int com.acme.Shop$Color$2.v()", "com.acme.Shop$Color$*.v()", "Shop$Color$2.v"),
            ("com.sun.proxy.$Proxy31.get", "com.sun.proxy.$Proxy.get", "$Proxy31.get"),
            ("jdk.proxy2.$Proxy52.get", "jdk.proxy.$Proxy.get", "$Proxy52.get"),
            (
                "Shop$$FastClassBySpringCGLIB$$a1b2c3d4.invoke",
                "Shop$$FastClassBySpringCGLIB.invoke",
                "Shop$$FastClassBySpringCGLIB$$a1b2c3d4.invoke",
            ),
            (
                "java.lang.invoke.LambdaForm$MH/0x0000000800c1a400.invoke",
                "java.lang.invoke.LambdaForm$MH.invoke",
                "LambdaForm$MH.invoke",
            ),
        ],
    );
    // A class without a package may be one of another language, and is no more than it says.
    check(None, &[("Shop.main", "Shop.main", "Shop.main")]);
}

#[test]
fn javascript() {
    check(
        Some(Language::JavaScript),
        &[
            ("LazyCompile:*parse /srv/app.js:12:3", "parse app.js", "parse"),
            ("JS:^parse /srv/app.js:14:3", "parse app.js", "parse"),
            ("JS:+'parse file:///srv/app.js:14", "parse app.js", "parse"),
            ("JS:o*parse file:///srv/app.js:14:3", "parse app.js", "parse"),
            ("JS:o+parse /srv/app.js:14:3", "parse app.js", "parse"),
            ("JS:~open /srv/app.js:14:3", "open app.js", "open"),
            ("Function:~(anonymous) /srv/app.js:40", "(anonymous) app.js", "(anonymous) app.js:40"),
            ("LazyCompile:~ /srv/app.js:40", "(anonymous) app.js", "(anonymous) app.js:40"),
            ("Script:~ /srv/app.js:1", "(anonymous) app.js", "(anonymous) app.js:1"),
        ],
    );
    check(None, &[("Script::run", "Script::run", "Script::run")]);
    let tiers = ["JS:~f a.js:1", "JS:^f a.js:1", "JS:*f a.js:1", "JS:f a.js:1"]
        .map(|name| Name::of(name).tier);
    assert_eq!(tiers, [Some(Tier::Interpreted), Some(Tier::Baseline), Some(Tier::Optimized), None]);
}

#[test]
fn dotnet() {
    check(
        Some(Language::DotNet),
        &[
            ("void [Shop] Shop.Cart::Add(int32)[Tier0]", "Shop.Cart::Add(int32)", "Cart::Add"),
            (
                "void [Shop] Shop.Cart::Add(int32)[OptimizedTier1]",
                "Shop.Cart::Add(int32)",
                "Cart::Add",
            ),
            (
                "instance void [Shop] Shop.Cart::Add(int32)[PreJIT]",
                "Shop.Cart::Add(int32)",
                "Cart::Add",
            ),
            (
                "void [App] P/<>c::<Main>b__0_1(int32)[Tier0]",
                "P/<>c::<Main>b(int32)",
                "P/<>c::<Main>b",
            ),
            (
                "void [App] P::<Main>g__Local|3_0()[Tier0]",
                "P::<Main>g__Local()",
                "P::<Main>g__Local",
            ),
        ],
    );
    let tiers = ["f[Tier0]", "f[OptimizedTier1]", "f[PreJIT]"].map(|name| Name::of(name).tier);
    assert_eq!(tiers, [Some(Tier::Baseline), Some(Tier::Optimized), Some(Tier::Ahead)]);
}

#[test]
fn lines_of_scripts_move() {
    check(
        Some(Language::Python),
        &[
            ("handle (/srv/app.py:120)", "handle (app.py)", "handle"),
            ("handle (app.py:123)", "handle (app.py)", "handle"),
            ("py::handle:/srv/app.py", "handle (app.py)", "handle"),
            ("<lambda> (app.py:7)", "<lambda> (app.py)", "<lambda> (app.py:7)"),
        ],
    );
    check(
        Some(Language::Ruby),
        &[("block in run (shop.rb:9)", "block in run (shop.rb)", "block in run")],
    );
    check(
        None,
        &[
            ("main (app.c:5)", "main (app.c)", "main"),
            ("main:/src/app.c:5", "main (app.c)", "main"),
        ],
    );
    check(Some(Language::Cpp), &[("std::sort (stl.hpp:5)", "std::sort (stl.hpp)", "std::sort")]);
}

#[test]
fn other_languages() {
    check(
        Some(Language::OCaml),
        &[
            ("camlStdlib__List__map_442", "Stdlib.List.map", "List.map"),
            ("camlStdlib__List.map_442", "Stdlib.List.map", "List.map"),
            ("camlShop__fun_1234", "Shop.fun", "Shop.fun"),
        ],
    );
    check(
        Some(Language::Haskell),
        &[
            ("base_GHCziBase_map_info", "GHC.Base.map", "Base.map"),
            ("ghczmprim_GHCziTypes_ZC_con_info", "GHC.Types.:", "Types.:"),
            ("Main_zdwgo_info", "Main.$wgo", "Main.$wgo"),
            ("shopzm0zi1_Shop_sat_s4Xs_info", "Shop.sat", "Shop.sat"),
        ],
    );
    check(
        Some(Language::D),
        &[
            ("_D3app6Parser4nextMFZv", "_D3app6Parser4nextMFZv", "Parser.next"),
            ("_D3app6__ctorMFZv", "_D3app6__ctorMFZv", "app.this"),
        ],
    );
    check(
        Some(Language::Swift),
        &[
            ("$s4shop5priceyySiF", "$s4shop5priceyySiF", "price(_:)"),
            ("$s4shop5priceyySiFTm", "$s4shop5priceyySiF", "price(_:)"),
            // A derivative, which is not decoded.
            ("$s5Glibc3expyS2fFTJfSpSr", "$s5Glibc3expyS2fFTJfSpSr", "$s5Glibc3expyS2fFTJfSpSr"),
        ],
    );
    check(Some(Language::Julia), &[("julia_mandel_1234", "julia_mandel", "mandel")]);
    for name in
        ["update_info", "Main_menu", "GetModuleInfo_info", "camlot", "_Dx", "$sum", "$size", "$s"]
    {
        check(None, &[(name, name, name)]);
    }
    // A function in a function, of which c++filt says `app.foo().bar()`.
    assert_eq!(Name::of("_D3app3fooFZ3barMFZv").full, "app.foo.bar");
    for name in [
        "_D3app",
        "_D3app__T3foo",
        "_D3app__T3fooTiZQ",
        "_D3appQz",
        "_D3app__T3fooVAa5_61Z",
        "_D0v",
    ] {
        assert_eq!((Name::of(name).language, &*Name::of(name).short), (None, name));
    }
}

#[test]
fn marks_of_collapsers() {
    for (text, expect, tier) in [
        ("f_[j]", "f", Some(Tier::Optimized)),
        ("f_[0]", "f", Some(Tier::Interpreted)),
        ("f_[1]", "f", Some(Tier::Baseline)),
        // `memcpy` of the kernel is not that of a library.
        ("f_[k]", "f_[k]", None),
        ("f.isra.0_[k]", "f_[k]", None),
        ("java/util/List.get_[j]", "java.util.List.get", Some(Tier::Optimized)),
        ("f_[x]", "f_[x]", None),
        ("_[k]", "_[k]", None),
    ] {
        let name = Name::of(text);
        assert_eq!((&*name.identity, name.tier), (expect, tier), "{text}");
    }
}

#[test]
fn labels_of_a_list_differ() {
    let check = |names: &[&str], expect: &[&str]| assert_eq!(distinct(names), expect);
    check(&["a::f(int)", "a::f(double)", "b::g(int)"], &["a::f(int)", "a::f(double)", "b::g"]);
    check(&["x::a::C::f", "y::a::C::f"], &["x::a::C::f", "y::a::C::f"]);
    check(&["f", "f"], &["f", "f"]);
    check(&["walk", "walk.part.0", "sort.cold"], &["walk", "walk.part.0", "sort"]);
    check(
        &["void a.b.C.m(int)", "void a.b.C.m(long)", "void a.x.C.k(long)"],
        &["C.m(int)", "C.m(long)", "C.k"],
    );
    check(&["JS:*f /a/b.js:1", "JS:*f /a/c.js:1"], &["f /a/b.js:1", "f /a/c.js:1"]);
    check(&["JS:*f /a/b.js:1", "JS:~f /a/b.js:1"], &["f", "f"]);
}

#[test]
fn parameters_are_dropped() {
    assert_eq!(without_parameters("f()::{lambda(int)#1}"), "f()::{lambda(int)#1}");
    assert_eq!(without_parameters("C::f(int (*)(char), std::vector<int>&) const &"), "C::f");
}

proptest! {
    #[test]
    fn any_text_is_a_name(text in "\\PC{0,40}") {
        let _ = Name::of(&text);
        prop_assert_eq!(distinct(&[&text]).len(), 1);
    }

    #[test]
    fn text_like_names_is_one(text in "(\\?|_D|\\$s|\\$s1a1bV|caml|JS:|L|void |)([a-cA-C:<>(){}\\[\\].$/#_ '0-9é]|operator|::|lambda|\\$\\$Lambda|0x|Tier0|zi|_info|->){0,14}") {
        let name = Name::of(&text);
        prop_assert!(text.is_empty() || !name.identity.is_empty() && !name.short.is_empty(), "{}", text);
        let labels = distinct(&[&text, "f", "other"]);
        prop_assert_eq!(labels.len(), 3);
    }
}

/// Functions of GDC's standard library. Of each, `c++filt -s dlang` says the dotted name with arguments and parameters.
#[test]
fn templates_of_d_stayed_encoded() {
    for (name, short) in [
        (
            "_D2rt4util7utility__T8_ComplexTdZQm9__xtoHashFNbNeKxSQBzQBzQBx__TQBsTdZQByZm",
            "_Complex!(…).__xtoHash",
        ),
        ("_D3std3uni__T8spaceForVmi16ZQpFNaNbNiNfmZm", "uni.spaceFor!(…)"),
        ("_D3std4conv__T2toTiZ__TQjTymZQpFNaNfymZi", "to!(…).to!(…)"),
        (
            "_D3std4conv__T7toCharsVii16TaVEQBd5ascii10LetterCasei1TmZQBrFNaNbNiNfmZ6Result5frontMFNaNbNdNiNfZa",
            "Result.front",
        ),
        (
            "_D3std5range10primitives__T3putTDFNaNbNfAxaZvTxaZQwFKQvxaZ__T9__lambda5TxaZQoFNaNbNiNeKxaZQBy",
            "put!(…).__lambda5!(…)",
        ),
        (
            "_D3std6digest3sha__T3SHAVki1024Vki384ZQs7T_20_39FNaNbNiNfiKG16kkKkkkKkZv",
            "SHA!(…).T_20_39",
        ),
        (
            "_D3std11concurrency__T8initOnceS_DQBg3net4curl7CurlAPI7_handlePvZQBrFNcLQkOC4core4sync5mutex5MutexZ4flagOb",
            "initOnce!(…).flag",
        ),
        (
            "_D4core8internal7switch___T8__switchTyaVxAyaa12_746573742d6f722d6d61696eZQBuFNaNbNiNfMxQBuZi",
            "switch_.__switch!(…)",
        ),
        ("_D6object__T10RTInfoImplVAmA2i16i3ZQxyG2m", "object.RTInfoImpl!(…)"),
        (
            "_D3std10checkedint__T7CheckedTmTSQBfQBe5AbortZQz__T6__ctorTmZQkMFNaNbNcNiNfmZSQCyQCx__TQCoTmTQCjZQCy",
            "Checked!(…).this!(…)",
        ),
        ("_D4core8internal2gc4impl12conservativeQw3Gcx8findSizeMFNbNiPvZm", "Gcx.findSize"),
        (
            "_D3std8internal7cstring__T11tempCStringTaTANgaZQvFNaNbNiNfMQrZSQCjQCiQCc__T17TempCStringBufferTaZQw",
            "cstring.tempCString!(…)",
        ),
    ] {
        let of = Name::of(name);
        assert_eq!((&*of.short, of.language), (short, Some(Language::D)), "{name}");
        // Instances of one template are several functions.
        assert_eq!(of.identity, name);
    }
}

/// Functions of Swift's libraries in Debian's `libswiftlang` 6.2.3; full names are those that Swift's own demangler gives.
#[test]
fn swift() {
    for (name, short, full) in [
        (
            "$s10Foundation8IndexSetV0B0V2eeoiySbAE_AEtFZ",
            "static IndexSet.Index.== infix(_:_:)",
            "static Foundation.IndexSet.Index.== infix(Foundation.IndexSet.Index, Foundation.IndexSet.Index) -> Swift.Bool",
        ),
        (
            "$s10Foundation13MassFormatterC9unitStyleAA0C0C04UnitE0Ovg",
            "MassFormatter.unitStyle.getter",
            "Foundation.MassFormatter.unitStyle.getter : Foundation.Formatter.UnitStyle",
        ),
        (
            "$s10Foundation17NSKeyedUnarchiverC27_decodeArrayOfObjectsForKey_9withBlockySS_yypXEtKF",
            "NSKeyedUnarchiver._decodeArrayOfObjectsForKey(_:withBlock:)",
            "Foundation.NSKeyedUnarchiver._decodeArrayOfObjectsForKey(_: Swift.String, withBlock: (Any) -> ()) throws -> ()",
        ),
        (
            "$s10Foundation12UserDefaultsC6object6forKeyypSgSS_tF17getFromRegisteredL_AFyF",
            "getFromRegistered #1() in UserDefaults.object(forKey:)",
            "getFromRegistered #1 () -> Any? in Foundation.UserDefaults.object(forKey: Swift.String) -> Any?",
        ),
        (
            "$ss12LazySequenceVsSlRzrlEy7ElementQz5IndexQzcig",
            "LazySequence.subscript(_:).getter",
            "(extension in Swift):Swift.LazySequence< where A: Swift.Collection>.subscript.getter : (A.Index) -> A.Element",
        ),
        (
            "$sSfSjsSj7exactlyxSgqd___tcSzRd__lufCTW",
            "protocol witness for Numeric.init(exactly:) in conformance Float : Numeric",
            "protocol witness for Swift.Numeric.init<A where A1: Swift.BinaryInteger>(exactly: A1) -> A? in conformance Swift.Float : Swift.Numeric in Swift",
        ),
        ("$s9$_Wrong", "$s9$_Wrong", "$s9$_Wrong"),
        (
            "$s10Foundation10FileHandleCIeghg_SgWOe",
            "outlined consume of (@escaping @callee_guaranteed @Sendable (@guaranteed FileHandle) -> ())?",
            "outlined consume of (@escaping @callee_guaranteed @Sendable (@guaranteed Foundation.FileHandle) -> ())?",
        ),
        (
            "$s12RegexBuilder8ChoiceOfV5regex17_StringProcessing0A0VyxGvM",
            "ChoiceOf.regex.modify",
            "RegexBuilder.ChoiceOf.regex.modify : _StringProcessing.Regex<A>",
        ),
        (
            "$s10Foundation12__SwiftValueC4null_WZ",
            "one-time initialization function for null",
            "one-time initialization function for null",
        ),
        (
            "$s20FoundationEssentials4DateV0A20InternationalizationE12FormatStringV0F13InterpolationVMa",
            "type metadata accessor for Date.FormatString.StringInterpolation",
            "type metadata accessor for (extension in FoundationInternationalization):FoundationEssentials.Date.FormatString.StringInterpolation",
        ),
        (
            "$sScTss5NeverORs_rlE16startOnMainActor8priority_ScTyxABGScPSg_xyYaYbScMYccntFZ",
            "static Task.startOnMainActor(priority:_:)",
            "static (extension in Swift):Swift.Task< where B == Swift.Never>.startOnMainActor(priority: Swift.TaskPriority?, _: __owned @Swift.MainActor @Sendable () async -> A) -> Swift.Task<A, Swift.Never>",
        ),
        (
            "$s11Distributed012LocalTestingA11ActorSystemC5readyyyxAA0dE0RzlF",
            "LocalTestingDistributedActorSystem.ready(_:)",
            "Distributed.LocalTestingDistributedActorSystem.ready<A where A: Distributed.ActorSystem>(A) -> ()",
        ),
    ] {
        let found = Name::of(name);
        assert_eq!((&*found.short, &*found.full), (short, full), "{name}");
        assert_eq!((&*found.identity, found.language), (name, Some(Language::Swift)), "{name}");
    }
    // What the compiler made of one function, in parts and for types of arguments, is that function. Closures lose their numbers.
    let closure = "$s10Foundation10FileHandleC05_openB16DescriptorForURL_5flags7readings5Int32V0A10Essentials0G0V_AHSbtKFZAHSPys4Int8VGSgXEfU_";
    let part = format!("{closure}TA.4");
    let found = Name::of(&part);
    assert_eq!(found.identity, closure);
    assert_eq!(
        found.short,
        "closure #1 in static FileHandle._openFileDescriptorForURL(_:flags:reading:)"
    );
    assert_eq!(identity(&closure.replace("fU_", "fU3_")), closure);
    let generic = "$sSBsE16isTotallyOrdered14belowOrEqualToSbx_tF";
    for made in
        ["s7Float80V_Tgq5", "s7Float80V_Tgq5Tf4ng_n", "s7Float80V_Tgq5Tm", "TY0_", "TQ1_.resume.0"]
    {
        let name = format!("{generic}{made}");
        let found = Name::of(&name);
        assert_eq!(found.identity, generic, "{name}");
        assert_eq!(found.short, "BinaryFloatingPoint.isTotallyOrdered(belowOrEqualTo:)", "{name}");
        assert_ne!(found.full, name);
    }
    // What could be said by numbers without an end is not said.
    for name in [
        format!("$s1a1bV{}", "AaCyABG".repeat(4000)),
        format!("$s1a1bVA9999999A{}", "t".repeat(100)),
        format!("$s1a{}F", "1bV".repeat(9000)),
        format!("$sSi{}D", "Sg".repeat(9000)),
    ] {
        assert!(Name::of(&name).full.len() < 1 << 16);
    }
}
