//! Conditions on values, and patterns for texts: an automaton and a search that goes back agree.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pyrograph_event::values::Pattern;
use pyrograph_probe::Condition;

/// Matches byte by byte; `most` bounds the number of ways that are tried.
fn matches(pattern: &[u8], text: &[u8], most: &mut u32) -> Option<bool> {
    *most = most.checked_sub(1)?;
    Some(match pattern {
        [] => text.is_empty(),
        [b'*', rest @ ..] => {
            matches(rest, text, most)? || (!text.is_empty() && matches(pattern, &text[1..], most)?)
        }
        [b'?', rest @ ..] => !text.is_empty() && matches(rest, &text[1..], most)?,
        [b'\\', byte, rest @ ..] | [byte, rest @ ..] => {
            text.first() == Some(byte) && matches(rest, &text[1..], most)?
        }
    })
}

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(condition) = Condition::parse(&text) {
        let expressions = condition.expressions();
        assert!(!expressions.is_empty() && expressions.len() <= 16);
        // A parenthesis around it changes nothing, unless it is one too many.
        if let Ok(inner) = Condition::parse(&format!("({text})")) {
            assert_eq!(inner, condition);
        }
        if let Ok(not) = Condition::parse(&format!("!({text})")) {
            assert_eq!(not, Condition::Not(Box::new(condition)));
        }
    }
    let Some((pattern, text)) = text.split_once('\n') else { return };
    let Some(automaton) = Pattern::new(pattern, true) else { return };
    if let Some(expected) = matches(pattern.as_bytes(), text.as_bytes(), &mut 100_000) {
        assert_eq!(automaton.matches(text.as_bytes()), expected, "{pattern:?} {text:?}");
    }
    if let Some(exact) = Pattern::new(pattern, false) {
        assert_eq!(exact.matches(text.as_bytes()), pattern == text);
    }
});
