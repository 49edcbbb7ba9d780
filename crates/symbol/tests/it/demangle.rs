//! Names as they are in files, and as they are read. The C++ ones are what `c++filt --no-params`
//! (binutils 2.40) prints, with the suffix that it drops put back, except where a comment says
//! otherwise; all are from libstdc++, LLVM, Node.js and Rust programs.

use proptest::prelude::*;
use pyrograph_symbol::demangle;

#[track_caller]
fn check(cases: &[(&str, &str)]) {
    for (mangled, expect) in cases {
        assert_eq!(demangle(mangled), *expect, "{mangled}");
    }
}

/// Names that are not mangled, or not by what we know.
#[track_caller]
fn check_unchanged(names: &[&str]) {
    for name in names {
        assert_eq!(demangle(name), *name);
    }
}

#[test]
fn not_mangled() {
    check_unchanged(&[
        "",
        "main",
        "_start",
        "_Z",
        "_R",
        "_ZZZ",
        "_ZN",
        "_Znot_a_name",
        "memcpy@plt",
        "main.cold",
        "sort.constprop.0.isra.0",
        "do_syscall_64.part.0",
        "runtime.mallocgc",
        "main.(*Server).Serve.func1",
        "type:.eq.[2]interface {}",
        "$s4main3fooyyF",
        "$sSa6appendyyxnF",
        "caml_program",
        "ghczmprim_GHCziTypes_Izh_con_info",
        "[unknown]",
        "Lcom/example/Main;::run",
        "LazyCompile:*fib /srv/app.js:3",
        "_ZN4core3fmt5write17h0123456789abcdeE",
    ]);
}

#[test]
fn cpp_functions() {
    check(&[
        ("_Z3foov", "foo"),
        ("_Z3fooiPKcz", "foo"),
        ("_ZN3app4mainEv", "app::main"),
        (
            "_ZN5clang9WhileStmt20setConditionVariableERKNS_10ASTContextEPNS_7VarDeclE",
            "clang::WhileStmt::setConditionVariable",
        ),
        ("_ZN4llvm4UserdlEPv", "llvm::User::operator delete"),
        ("_Znwm", "operator new"),
        ("_ZdlPv", "operator delete"),
        ("_ZlsRN4llvm11raw_ostreamER15ValidatorResult", "operator<<"),
        ("_ZNKSt8functionIFvvEEclEv", "std::function<void ()>::operator()"),
        ("_ZNKSt8functionIFviPKcEEclEiS1_", "std::function<void (int, char const*)>::operator()"),
        (
            "_ZNKSi6sentrycvbEv",
            "std::basic_istream<char, std::char_traits<char> >::sentry::operator bool",
        ),
        (
            "_ZN5clang13serialization13ModuleManagerC2ERNS_11FileManagerE",
            "clang::serialization::ModuleManager::ModuleManager",
        ),
        (
            "_ZNSt10filesystem7__cxx1116filesystem_errorD0Ev",
            "std::filesystem::__cxx11::filesystem_error::~filesystem_error",
        ),
        ("_ZNSt6vectorIiSaIiEED4Ev", "std::vector<int, std::allocator<int> >::~vector"),
        (
            "_ZNK5clang17FixedPointLiteral16getValueAsStringB5cxx11Ej",
            "clang::FixedPointLiteral::getValueAsString[abi:cxx11]",
        ),
        (
            "_ZN2v88internal12_GLOBAL__N_18IteratorD1Ev",
            "v8::internal::(anonymous namespace)::Iterator::~Iterator",
        ),
        ("_ZN12_GLOBAL__N_11fEv", "(anonymous namespace)::f"),
        // Qualifiers of `this` are of the parameter list.
        (
            "_ZNKR6icu_786number23NumberFormatterSettingsINS0_24LocalizedNumberFormatterEE7decimalE30UNumberDecimalSeparatorDisplay",
            "icu_78::number::NumberFormatterSettings<icu_78::number::LocalizedNumberFormatter>::decimal",
        ),
        (
            "_ZNO6icu_786number23NumberFormatterSettingsINS0_26UnlocalizedNumberFormatterEE5usageENS_11StringPieceE",
            "icu_78::number::NumberFormatterSettings<icu_78::number::UnlocalizedNumberFormatter>::usage",
        ),
        // c++filt writes this class out as std::basic_string<char, …>.
        ("_ZNSs9push_backEc", "std::string::push_back"),
        ("_ZNSolsEPKv", "std::ostream::operator<<"),
    ]);
}

#[test]
fn cpp_templates() {
    check(&[
        ("_ZNSt6vectorIiSaIiEE9push_backERKi", "std::vector<int, std::allocator<int> >::push_back"),
        // The return type is left out, too.
        ("_ZSt3maxIiERKT_S2_S2_", "std::max<int>"),
        (
            "_ZN2v88internal4wasm7Decoder6errorfIJjPKcS5_EEEvS5_DpT_",
            "v8::internal::wasm::Decoder::errorf<unsigned int, char const*, char const*>",
        ),
        (
            "_ZN2v84base11SmallVectorIPNS_8internal8compiler4NodeELm16ESaIS5_EE4GrowEv",
            "v8::base::SmallVector<v8::internal::compiler::Node*, 16ul, std::allocator<v8::internal::compiler::Node*> >::Grow",
        ),
        (
            "_ZN4llvm15SmallVectorImplINS_11SmallVectorIPN5clang4DeclELj32EEEEaSEOS6_",
            "llvm::SmallVectorImpl<llvm::SmallVector<clang::Decl*, 32u> >::operator=",
        ),
        ("_ZN1aIJEEC1Ev", "a<>::a"),
        ("_ZN1aIiJEE1bEv", "a<int>::b"),
        (
            "_ZN4node6Buffer12_GLOBAL__N_111StringSliceILNS_8encodingE2EEEvRKN2v820FunctionCallbackInfoINS4_5ValueEEE.cold",
            "node::Buffer::(anonymous namespace)::StringSlice<(node::encoding)2>.cold",
        ),
        // GCC's `sr` for a member of a class template, in the return type.
        (
            "_ZSt4swapIiENSt9enable_ifIXsrSt6__and_IJSt6__not_ISt15__is_tuple_likeIT_EESt21is_move_constructibleIS3_ESt18is_move_assignableIS3_EEE5valueEvE4typeERS3_SC_",
            "std::swap<int>",
        ),
    ]);
}

#[test]
fn cpp_lambdas_and_locals() {
    check(&[
        ("_ZZ4mainENKUlvE_clEv", "main::{lambda()#1}::operator()"),
        ("_ZZ3fooiENKUliE0_clEi", "foo(int)::{lambda(int)#2}::operator()"),
        (
            "_ZNSt17_Function_handlerIFiiEZ4mainEUliE_E9_M_invokeERKSt9_Any_dataOi",
            "std::_Function_handler<int (int), main::{lambda(int)#1}>::_M_invoke",
        ),
        (
            "_ZZN4node11Environment11CloseHandleI11uv_handle_sZN6v8impl12_GLOBAL__N_118ThreadSafeFunction4InitEvEUlPS2_E_EEvPT_T0_ENUlS6_E_4_FUNES6_",
            "node::Environment::CloseHandle<uv_handle_s, v8impl::(anonymous namespace)::ThreadSafeFunction::Init()::{lambda(uv_handle_s*)#1}>(uv_handle_s*, v8impl::(anonymous namespace)::ThreadSafeFunction::Init()::{lambda(uv_handle_s*)#1})::{lambda(uv_handle_s*)#1}::_FUN",
        ),
        // c++filt keeps the parameters of what a thunk leads to.
        (
            "_ZThn24_N4node15SimpleWriteWrapINS_9AsyncWrapEED1Ev",
            "non-virtual thunk to node::SimpleWriteWrap<node::AsyncWrap>::~SimpleWriteWrap",
        ),
        (
            "_ZTv0_n24_NSt18basic_stringstreamIcSt11char_traitsIcESaIcEED0Ev",
            "virtual thunk to std::basic_stringstream<char, std::char_traits<char>, std::allocator<char> >::~basic_stringstream",
        ),
    ]);
}

#[test]
fn suffixes() {
    check(&[
        ("_ZN3app3runEv.cold", "app::run.cold"),
        ("_ZN3app3runEv.part.0.isra.1", "app::run.part.0.isra.1"),
        ("_ZN3app3runEv.constprop.0", "app::run.constprop.0"),
        ("_ZN3app3runEv.llvm.1234567890", "app::run"),
        ("run.llvm.1234567890", "run"),
        ("run.llvm.x", "run.llvm.x"),
        ("_ZN5calls5apply17h515a4cf6bded2b08E.llvm.12", "calls::apply"),
        ("_ZN5calls5apply17h515a4cf6bded2b08E.cold", "calls::apply.cold"),
    ]);
}

#[test]
fn rust_legacy() {
    check(&[
        ("_ZN5calls4main17h1206ba0ee904fb40E", "calls::main"),
        (
            "_ZN61_$LT$calls..shapes..Square$u20$as$u20$calls..shapes..Area$GT$4area17h443f9e706dc15c44E",
            "<calls::shapes::Square as calls::shapes::Area>::area",
        ),
        (
            "_ZN3std2rt10lang_start28_$u7b$$u7b$closure$u7d$$u7d$17h2b461d595a3c85beE",
            "std::rt::lang_start::{{closure}}",
        ),
        (
            "_ZN4core3ptr65drop_in_place$LT$alloc..vec..Vec$LT$alloc..string..String$GT$$GT$17hb423a429302d3636E",
            "core::ptr::drop_in_place<alloc::vec::Vec<alloc::string::String>>",
        ),
        (
            "_ZN4core3ops8function6FnOnce40call_once$u7b$$u7b$vtable.shim$u7d$$u7d$17hc6c866f9ddff0e9cE",
            "core::ops::function::FnOnce::call_once{{vtable.shim}}",
        ),
    ]);
}

#[test]
fn rust_v0() {
    check(&[
        ("_RNvNtCsgEmfK2I1SDS_4core9panicking9panic_fmt", "core::panicking::panic_fmt"),
        (
            "_RNvXsC_NtNtCsgEmfK2I1SDS_4core3fmt3numyNtB7_8LowerHex3fmt",
            "<u64 as core::fmt::LowerHex>::fmt",
        ),
        (
            "_RINvNvMs2_NtCslNYArtu3iFV_5alloc7raw_vecINtB8_11RawVecInnerpE7reserve21do_reserve_and_handleNtNtBa_5alloc6GlobalECsjrHSEGnQ3l9_3std",
            "<alloc::raw_vec::RawVecInner<_>>::reserve::do_reserve_and_handle::<alloc::alloc::Global>",
        ),
        ("_RNCNvCs1234_7mycrate3foo0", "mycrate::foo::{closure#0}"),
        ("_RNCNvCs1234_7mycrate3foo0.llvm.42", "mycrate::foo::{closure#0}"),
    ]);
}

/// Each of them would take gigabytes, or all of the stack, if it were followed to its end.
#[test]
fn bombs_stay_as_they_are() {
    // Each pair doubles what the one before it stands for.
    let mut doubling = String::from("_Z1fSt4pairIiiE");
    for i in 0..30 {
        let reference = match i {
            0 => "_".to_owned(),
            i if i <= 10 => format!("{}_", char::from_digit(i - 1, 10).unwrap()),
            i => format!("{}_", char::from(b'A' + (i - 11) as u8)),
        };
        doubling.push_str(&format!("St4pairIS{reference}S{reference}E"));
    }
    let pointers = format!("_Z1f{}i", "P".repeat(100_000));
    let nested = format!("_Z1f{}", "N1a".repeat(20_000));
    let templates = format!("_Z{}", "1aI".repeat(20_000));
    let arrays = format!("_RINvC1a1b{}yE", "A".repeat(20_000));
    let long = format!("_ZN{}E", "1a".repeat(1 << 20));
    for bomb in [doubling, pointers, nested, templates, arrays, long] {
        // The stack of a thread, as the symbolizer's callers have it.
        let demangled = std::thread::spawn(move || demangle(&bomb).len()).join().unwrap();
        assert!(demangled <= 1 << 22);
    }
}

proptest! {
    #[test]
    fn nothing_panics(name in "(_Z|_R|_ZN|_ZNK|_ZZ|_RINv|_RNC)?[_A-Za-z0-9$.@<>]{0,80}") {
        let _ = demangle(&name);
    }

    #[test]
    fn no_text_panics(name in "(_Z|_R)?.{0,40}(17h0123456789abcdefE|\\.llvm\\.|[.].)?") {
        let _ = demangle(&name);
    }
}
