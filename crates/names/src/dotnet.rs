//! Names of .NET, as its perf map has them: `void [Shop] Shop.Cart::Add(int32)[Tier0]`.

use crate::parameters;
use crate::scan::{digits, outside};
use crate::{Language, Name, Tier};

const TIERS: &[(&str, Option<Tier>)] = &[
    ("[Tier0]", Some(Tier::Baseline)),
    ("[MinOptJitted]", Some(Tier::Baseline)),
    ("[QuickJitted]", Some(Tier::Baseline)),
    ("[InstrumentedTier0]", Some(Tier::Baseline)),
    ("[Instrumented]", Some(Tier::Baseline)),
    ("[MinOptJit]", Some(Tier::Baseline)),
    ("[OptimizedTier1]", Some(Tier::Optimized)),
    ("[OptimizedTier1OSR]", Some(Tier::Optimized)),
    ("[Optimized]", Some(Tier::Optimized)),
    ("[OptimizedTier1Instrumented]", Some(Tier::Optimized)),
    ("[InstrumentedTier1]", Some(Tier::Optimized)),
    ("[Tier1]", Some(Tier::Optimized)),
    ("[PreJIT]", Some(Tier::Ahead)),
    ("[ReadyToRun]", Some(Tier::Ahead)),
    ("[PreStub]", None),
    ("[Unknown]", None),
];

/// Takes a name apart; `None` if .NET did not write it.
pub(crate) fn name(name: &str) -> Option<Name<'_>> {
    let found = TIERS.iter().find_map(|(mark, tier)| Some((name.strip_suffix(*mark)?, *tier)));
    let (full, tier) = found.unwrap_or((name, None));
    let is_managed = full.contains("::") && full.contains("] ") && full.contains('[');
    if found.is_none() && !is_managed {
        return None;
    }
    let full = full.trim_end();
    // The result, and the assembly in brackets, stand before the type.
    let (signature, list) = match parameters::split(full) {
        Some((before, list)) => (before, Some(list)),
        None => (full, None),
    };
    let start = outside(signature).rfind(|&(_, b)| b == b' ').map_or(0, |(at, _)| at + 1);
    let method = &signature[start..];
    let plain = without_numbers(method);
    let identity = match list {
        Some(list) => format!("{plain}({list})"),
        None => plain.clone(),
    };
    let short = match plain.rsplit_once("::") {
        Some((of, own)) => format!("{}::{own}", of.rsplit('.').next().unwrap_or(of)),
        None => plain,
    };
    Some(Name {
        identity: identity.into(),
        short: short.into(),
        full: full.into(),
        language: Some(Language::DotNet),
        tier,
    })
}

/// `<Main>b__0_1` is `<Main>b`, `<Main>g__Local|3_0` is `<Main>g__Local`, `<Run>d__7::MoveNext` is `<Run>d::MoveNext`: the
/// compiler numbers them in their file. So are `lambda_method12` and `DisplayClass3_0`.
fn without_numbers(method: &str) -> String {
    let mut text = String::with_capacity(method.len());
    let mut rest = method;
    loop {
        let found = ["__", "|", "lambda_method", "DisplayClass"]
            .into_iter()
            .filter_map(|mark| Some((rest.find(mark)?, mark)))
            .min();
        let Some((at, mark)) = found else { return text + rest };
        let after = &rest[at + mark.len()..];
        let number = after.bytes().take_while(|b| b.is_ascii_digit() || *b == b'_').count();
        let is_numbered = digits(after) > 0;
        text.push_str(&rest[..at]);
        match mark {
            _ if !is_numbered => text.push_str(mark),
            "lambda_method" | "DisplayClass" => text.push_str(mark),
            _ => {}
        }
        rest = if is_numbered { &after[number..] } else { after };
    }
}
