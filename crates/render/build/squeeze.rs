//! The page's script without what only its readers need: comments, indentation, blanks around signs, long names of variables.
//!
//! It knows as much of the language as our modules use: statements end in semicolons, and there are no template literals,
//! classes, labels and `switch`. A minifier from a library would be thirty crates for the same bytes.

use std::collections::{BTreeMap, BTreeSet};

/// Names that stay: what tests of the page look for, and globals of browsers that we have variables called like.
const KEPT: [&str; 12] = [
    "MANY",
    "MINUTE",
    "document",
    "event",
    "history",
    "location",
    "makeCore",
    "navigator",
    "onmessage",
    "postMessage",
    "self",
    "window",
];

/// Words that are no names.
const KEYWORDS: [&str; 35] = [
    "async",
    "await",
    "break",
    "case",
    "catch",
    "const",
    "continue",
    "default",
    "delete",
    "do",
    "else",
    "false",
    "finally",
    "for",
    "function",
    "if",
    "in",
    "instanceof",
    "let",
    "new",
    "null",
    "of",
    "return",
    "static",
    "super",
    "this",
    "throw",
    "true",
    "try",
    "typeof",
    "undefined",
    "var",
    "void",
    "while",
    "yield",
];

/// The same script, smaller.
pub fn squeeze(source: &str) -> String {
    let tokens = tokens(source);
    let uses = uses(&tokens);
    let names = short_names(&tokens, &uses);
    let mut out = String::with_capacity(source.len());
    for (at, (&token, &used)) in tokens.iter().zip(&uses).enumerate() {
        if ends_block(&tokens, at) {
            continue;
        }
        let short = match token {
            "true" => "!0",
            "false" => "!1",
            token => names.get(token).map_or(token, String::as_str),
        };
        match used {
            Use::Variable => push(&mut out, short),
            // `{ name }` is `{ name: name }`.
            Use::Both if short != token => {
                push(&mut out, token);
                push(&mut out, ":");
                push(&mut out, short);
            }
            Use::Both => push(&mut out, token),
            Use::Other if names.contains_key(token) => push(&mut out, token),
            Use::Other => push(&mut out, short),
        }
    }
    out
}

/// True for a semicolon that the end of the block makes needless; not if it is all that a loop does.
fn ends_block(tokens: &[&str], at: usize) -> bool {
    let is_before_end = tokens[at] == ";" && tokens.get(at + 1) == Some(&"}");
    let loops = || {
        let head = at.checked_sub(1).filter(|&last| tokens[last] == ")")?;
        tokens.get(opening(tokens, head).checked_sub(1)?).copied()
    };
    is_before_end && !matches!(loops(), Some("for" | "while"))
}

/// Words, numbers, texts, regular expressions and signs, without comments and blanks.
fn tokens(source: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = source;
    while let Some(c) = rest.chars().next() {
        let length = match c {
            c if c.is_whitespace() => {
                rest = rest.trim_start();
                continue;
            }
            '/' if rest.starts_with("//") => {
                rest = &rest[rest.find('\n').unwrap_or(rest.len())..];
                continue;
            }
            '"' => literal(rest, '"'),
            '/' if begins_regexp(tokens.last()) => literal(rest, '/'),
            c if c.is_ascii_digit() => {
                rest.find(|c: char| !is_word(c) && c != '.').unwrap_or(rest.len())
            }
            c if is_word(c) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
            _ => {
                let long =
                    ["...", "=>", "?.", "++", "--"].into_iter().find(|sign| rest.starts_with(sign));
                long.map_or(c.len_utf8(), str::len)
            }
        };
        let (token, after) = rest.split_at(length);
        tokens.push(token);
        rest = after;
    }
    tokens
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '$')
}

/// The length of a string or a regular expression with its flags. In brackets, a slash does not end the latter.
fn literal(text: &str, quote: char) -> usize {
    let (mut escaped, mut in_brackets) = (false, false);
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '[' if quote == '/' => in_brackets = true,
            ']' => in_brackets = false,
            c if c == quote && !in_brackets => {
                let flags = text[at + 1..].find(|c: char| !c.is_ascii_lowercase()).unwrap_or(0);
                return at + 1 + if quote == '/' { flags } else { 0 };
            }
            _ => {}
        }
    }
    text.len()
}

/// True if a slash behind this begins a regular expression, and does not divide.
fn begins_regexp(before: Option<&&str>) -> bool {
    before.is_none_or(|token| {
        matches!(
            *token,
            "(" | "," | "=" | ":" | "[" | "!" | "&" | "|" | "?" | "{" | "}" | ";" | "return" | "=>"
        )
    })
}

/// The use of a token.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    /// It names a variable.
    Variable,
    /// It names a variable, and the property of an object that has or gets its value: `{ name }`.
    Both,
    /// A property, or no name at all.
    Other,
}

/// The use of each token.
fn uses(tokens: &[&str]) -> Vec<Use> {
    // Of each open bracket, whether it is that of an object, or of a pattern that takes one apart.
    let mut open: Vec<bool> = Vec::new();
    let mut uses = Vec::with_capacity(tokens.len());
    for (at, &token) in tokens.iter().enumerate() {
        let before = at.checked_sub(1).map_or("", |at| tokens[at]);
        let after = tokens.get(at + 1).copied().unwrap_or("");
        match token {
            "{" => open.push(!begins_block(before)),
            "(" | "[" => open.push(false),
            "}" | ")" | "]" => {
                open.pop();
            }
            _ => {}
        }
        let begins = open.last() == Some(&true) && matches!(before, "{" | ",");
        uses.push(match after {
            _ if !is_name(token) || matches!(before, "." | "?.") => Use::Other,
            ":" | "(" if begins => Use::Other,
            "," | "}" | "=" if begins => Use::Both,
            _ => Use::Variable,
        });
    }
    uses
}

fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| is_word(c) && !c.is_ascii_digit()) && !KEYWORDS.contains(&token)
}

/// True if a `{` behind this begins a block of statements.
fn begins_block(before: &str) -> bool {
    matches!(
        before,
        "" | ")" | "=>" | ";" | "{" | "}" | "else" | "try" | "finally" | "do" | "catch"
    )
}

/// Short names for the variables that the script declares, the shortest for what it says most often.
fn short_names<'s>(tokens: &[&'s str], uses: &[Use]) -> BTreeMap<&'s str, String> {
    let declared = declared(tokens, uses);
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for (&token, _) in tokens.iter().zip(uses).filter(|(_, used)| **used != Use::Other) {
        *counts.entry(token).or_default() += 1;
    }
    let mut wanted: Vec<(&str, usize)> = counts
        .into_iter()
        .filter(|(name, _)| name.len() > 2 && declared.contains(name) && !KEPT.contains(name))
        .collect();
    wanted.sort_by_key(|&(name, count)| (std::cmp::Reverse(count * name.len()), name));
    let taken: BTreeSet<&str> = tokens.iter().copied().chain(KEYWORDS).collect();
    let short = |number: usize| {
        let letter = |number: usize| {
            char::from(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"[number % 52])
        };
        match number.checked_sub(52) {
            None => letter(number).to_string(),
            Some(number) => [letter(number / 52), letter(number)].iter().collect(),
        }
    };
    let free = (0..52 + 52 * 52).map(short).filter(|name| !taken.contains(name.as_str()));
    wanted.into_iter().map(|(name, _)| name).zip(free).collect()
}

/// The names that are declared somewhere: of functions, parameters, variables, and what is caught.
fn declared<'s>(tokens: &[&'s str], uses: &[Use]) -> BTreeSet<&'s str> {
    let mut declared = BTreeSet::new();
    let mut add = |at: usize| {
        if uses.get(at).is_some_and(|used| *used != Use::Other) {
            declared.insert(tokens[at]);
        }
    };
    for (at, &token) in tokens.iter().enumerate() {
        match token {
            "function" => {
                let name = at + 1 + usize::from(tokens.get(at + 1) == Some(&"*"));
                add(name);
                let from = name + usize::from(tokens.get(name) != Some(&"("));
                targets(tokens, from).for_each(&mut add);
            }
            "catch" => targets(tokens, at + 1).for_each(&mut add),
            "const" | "let" | "var" => {
                // One after the other: `let a = 1, [b] = c;`.
                let mut target = Some(at + 1);
                while let Some(place) = target {
                    targets(tokens, place).for_each(&mut add);
                    target = next_declarator(tokens, place);
                }
            }
            "=>" if at > 0 && tokens[at - 1] == ")" => {
                let from = opening(tokens, at - 1);
                targets(tokens, from).for_each(&mut add);
            }
            "=>" if at > 0 => add(at - 1),
            // A method: `{ draw(width) { … } }`.
            "{" if at > 0 && tokens[at - 1] == ")" => {
                let from = opening(tokens, at - 1);
                if from > 0
                    && uses[from - 1] == Use::Other
                    && is_name(tokens[from - 1])
                    && matches!(tokens[from.saturating_sub(2)], "{" | ",")
                {
                    targets(tokens, from).for_each(&mut add);
                }
            }
            _ => {}
        }
    }
    declared
}

/// The places of what is declared at a place: a name, or all in a pattern or list of parameters but the values behind `=`.
fn targets<'t>(tokens: &'t [&str], at: usize) -> impl Iterator<Item = usize> + use<'t> {
    let end = match tokens.get(at) {
        Some(&("(" | "{" | "[")) => closing(tokens, at),
        _ => at + 1,
    };
    (at..end.min(tokens.len())).filter(move |&place| {
        place == at || matches!(tokens[place - 1], "(" | "{" | "[" | "," | ":" | "...")
    })
}

/// The place of the next variable in a declaration, if one follows.
fn next_declarator(tokens: &[&str], from: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, &token) in tokens.iter().enumerate().skip(from) {
        match token {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth = depth.checked_sub(1)?,
            "," if depth == 0 => return Some(at + 1),
            ";" | "of" | "in" if depth == 0 => return None,
            _ => {}
        }
    }
    None
}

/// The place behind the bracket that closes the one at a place.
fn closing(tokens: &[&str], at: usize) -> usize {
    let mut depth = 0_usize;
    for (place, &token) in tokens.iter().enumerate().skip(at) {
        match token {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return place + 1;
        }
    }
    tokens.len()
}

/// The place of the bracket that the one at a place closes.
fn opening(tokens: &[&str], at: usize) -> usize {
    let mut depth = 0_usize;
    for place in (0..=at).rev() {
        match tokens[place] {
            ")" | "]" | "}" => depth += 1,
            "(" | "[" | "{" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return place;
        }
    }
    0
}

/// Appends a token, with a blank where it would become part of the one before it.
fn push(out: &mut String, token: &str) {
    if let (Some(last), Some(next)) = (out.chars().next_back(), token.chars().next())
        && (is_word(last) && is_word(next) || last == next && matches!(last, '+' | '-'))
    {
        out.push(' ');
    }
    out.push_str(token);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_run_stays() {
        let source = "  // A remark.\n  function a(b, c) {\n    return b / c + +b - -c; // no\n  }\n\n  const d = /[/ \"]  \\//u\
                      .test(\"a  // \\\" b\") ? 1 : in e;\n  if (x) { return /  /; }\n";
        let expect = "function a(b,c){return b/c+ +b- -c}const d=/[/ \"]  \\//u.test(\"a  // \\\" b\")?1:in e;if(x){return/  /}";
        assert_eq!(squeeze(source), expect);
    }

    #[test]
    fn variables_get_short_names_and_properties_keep_theirs() {
        let check = |source: &str, expect: &str| assert_eq!(squeeze(source), expect, "{source}");
        check("const long = 1; other.long = long + global;", "const a=1;other.long=a+global;");
        check(
            "function run({ first, second: renamed = 2 }) { return { first, renamed: renamed ? first : 3 }; }",
            "function c({first:a,second:b=2}){return{first:a,renamed:b?a:3}}",
        );
        check(
            "const pane = { draw(width) { return width; } }; for (const [key, value] of list) { key(value); }",
            "const d={draw(b){return b}};for(const[c,a]of list){c(a)}",
        );
        check(
            "let one = 1, two = [one, 3], three; items.map((item, ...more) => ({ ...item, more })); catch (error) { error(); }",
            "let d=1,f=[d,3],e;items.map((b,...c)=>({...b,more:c}));catch(a){a()}",
        );
        check("if (a) { while (b()); } else { for (;;) ; }", "if(a){while(b());}else{for(;;);}");
        check(
            "function* steps(work) { yield* work.next(document); }",
            "function*b(a){yield*a.next(document)}",
        );
    }
}
